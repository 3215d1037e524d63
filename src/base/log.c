#include "base/log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "base/utf8.h"

enum { TEXT_MAX = 2048, LINE_MAX_BYTES = 1 << 17 };

static enum log_level threshold = LOG_INFO;
static enum log_format style = LOG_TEXT;

void log_setup(enum log_level level, enum log_format format)
{
	threshold = level;
	style = format;
}

static void put_time(char *to, size_t room)
{
	struct timespec now;
	struct tm tm;
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	size_t len = strftime(to, room, "%FT%T", &tm);
	snprintf(to + len, room - len, ".%03dZ", (int)(now.tv_nsec / 1000000));
}

/* The text of a fact, cut where it is long: what follows it must still fit. */
static const char *bounded(const char *text, char room[TEXT_MAX + 4])
{
	if (strnlen(text, TEXT_MAX + 1) <= TEXT_MAX)
		return text;
	size_t len = TEXT_MAX - utf8_partial(text, TEXT_MAX);
	memcpy(room, text, len);
	strcpy(room + len, "…");
	return room;
}

/* A word of a text line: quoted as in JSON unless it is plain. */
static void put_word(struct jw *jw, const char *text)
{
	bool plain = *text != 0;
	for (const char *at = text; *at && plain; at++)
		plain = *at > ' ' && *at < 0x7f && *at != '"' && *at != '\\' && *at != '=';
	jw->comma = false;
	if (plain)
		buf_str(&jw->out, text);
	else
		jw_str(jw, text);
}

static void put_text(struct jw *jw, const char *time, const char *level, const char *event,
		     const struct log_fact *facts, size_t count)
{
	char room[TEXT_MAX + 4];
	buf_printf(&jw->out, "%s %s %s", time, level, event);
	for (size_t i = 0; i < count; i++) {
		buf_printf(&jw->out, " %s=", facts[i].name);
		if (facts[i].text)
			put_word(jw, bounded(facts[i].text, room));
		else
			buf_printf(&jw->out, "%.12g", facts[i].number);
	}
}

static void put_json(struct jw *jw, const char *time, const char *level, const char *event,
		     const struct log_fact *facts, size_t count)
{
	char room[TEXT_MAX + 4];
	jw_open(jw, '{');
	jw_key_str(jw, "time", time);
	jw_key_str(jw, "level", level);
	jw_key_str(jw, "event", event);
	for (size_t i = 0; i < count; i++) {
		jw_key(jw, facts[i].name);
		if (facts[i].text)
			jw_str(jw, bounded(facts[i].text, room));
		else
			jw_num(jw, facts[i].number);
	}
	jw_close(jw, '}');
}

void log_event(enum log_level level, const char *event, const struct log_fact *facts, size_t count)
{
	static const char *const names[] = { "error", "warn", "info", "debug" };
	if (level > threshold)
		return;
	char time[40];
	put_time(time, sizeof time);
	struct jw jw;
	jw_init(&jw, LINE_MAX_BYTES);
	(style == LOG_JSON ? put_json : put_text)(&jw, time, names[level], event, facts, count);
	jw.out.full = false; /* a line cut at its cap still ends */
	jw.out.cap++;
	buf_str(&jw.out, "\n");
	(void)!write(STDERR_FILENO, jw.out.data, jw.out.len);
	jw_done(&jw);
}

__attribute__((format(printf, 2, 0))) static void say(enum log_level level, const char *format,
						      va_list args)
{
	if (level > threshold)
		return;
	char text[2048];
	vsnprintf(text, sizeof text, format, args);
	log_event(level, "message", &(struct log_fact){ "text", text, 0 }, 1);
}

#define LOG_FUNCTION(name, level)          \
	void name(const char *format, ...) \
	{                                  \
		va_list args;              \
		va_start(args, format);    \
		say(level, format, args);  \
		va_end(args);              \
	}

LOG_FUNCTION(log_error, LOG_ERROR)
LOG_FUNCTION(log_warn, LOG_WARN)
LOG_FUNCTION(log_info, LOG_INFO)
LOG_FUNCTION(log_debug, LOG_DEBUG)
