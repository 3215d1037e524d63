/* log.h - one line per event on stderr, as text or JSON. */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };
enum log_format { LOG_TEXT, LOG_JSON };

/* Set once, before threads start. */
void log_setup(enum log_level level, enum log_format format);

void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A fact of an event: text, or a number when text is NULL. */
struct log_fact {
	const char *name, *text;
	double number;
};

/* An event with its facts, in their order. Text from clients is escaped. */
void log_event(enum log_level level, const char *event, const struct log_fact *facts, size_t count);
