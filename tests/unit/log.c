#include "base/log.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/json.h"
#include "base/own.h"
#include "base/utf8.h"
#include "tap.h"

static char said[1 << 18]; /* what was logged last */

static void listen_to(void (*fn)(void))
{
	FILE *file = tmpfile();
	int before = dup(STDERR_FILENO);
	if (!file || before < 0)
		abort();
	dup2(fileno(file), STDERR_FILENO);
	fn();
	dup2(before, STDERR_FILENO);
	close(before);
	rewind(file);
	said[fread(said, 1, sizeof said - 1, file)] = 0;
	fclose(file);
}

/* What follows the time, which is as it should be. */
static const char *after_time(void)
{
	static const char shape[] = "0000-00-00T00:00:00.000Z ";
	for (size_t i = 0; i < sizeof shape - 1; i++)
		if (shape[i] == '0' ? said[i] < '0' || said[i] > '9' : said[i] != shape[i])
			return "no time";
	return said + sizeof shape - 1;
}

static const struct log_fact some[] = {
	{ "plain", "GET", 0 },        { "target", "/a b?c=\"d\"", 0 },
	{ "number", NULL, 200 },      { "fraction", NULL, 0.125 },
	{ "empty", "", 0 },           { "bad", "\x1b[31m\r\nforged\x7f\xff", 0 },
	{ "unicode", "\xc3\xa9", 0 }, { "equals", "a=b", 0 },
};

static void log_some(void)
{
	log_event(LOG_INFO, "request", some, COUNT(some));
}

static void text(void)
{
	log_setup(LOG_INFO, LOG_TEXT);
	listen_to(log_some);
	CHECK_STR(after_time(),
		  "info request plain=GET target=\"/a b?c=\\\"d\\\"\" number=200 fraction=0.125 "
		  "empty=\"\" bad=\"\\u001b[31m\\r\\nforged\x7f\xef\xbf\xbd\" "
		  "unicode=\"\xc3\xa9\" equals=\"a=b\"\n");
}

static void json(void)
{
	log_setup(LOG_INFO, LOG_JSON);
	listen_to(log_some);
	size_t len = strlen(said);
	CHECK(len && said[len - 1] == '\n' && strchr(said, '\n') == said + len - 1);
	json_t *line = json_parse(said, len, NULL);
	CHECK_STR(json_string_value(json_object_get(line, "level")), "info");
	CHECK_STR(json_string_value(json_object_get(line, "event")), "request");
	CHECK_STR(json_string_value(json_object_get(line, "target")), "/a b?c=\"d\"");
	CHECK_STR(json_string_value(json_object_get(line, "bad")),
		  "\x1b[31m\r\nforged\x7f\xef\xbf\xbd");
	CHECK(json_integer_value(json_object_get(line, "number")) == 200);
	CHECK(json_real_value(json_object_get(line, "fraction")) == 0.125);
	CHECK(strlen(json_string_value(json_object_get(line, "time"))) == 24);
	json_decref(line);
}

static void log_all(void)
{
	log_error("an error %d", 1);
	log_warn("a warning %s", "x y");
	log_info("news");
	log_debug("noise");
}

static size_t lines(void)
{
	size_t count = 0;
	for (const char *at = said; (at = strchr(at, '\n')); at++)
		count++;
	return count;
}

static void levels(void)
{
	for (int level = LOG_ERROR; level <= LOG_DEBUG; level++) {
		log_setup((enum log_level)level, LOG_TEXT);
		listen_to(log_all);
		CHECK(lines() == (size_t)level + 1);
	}
	CHECK(strstr(said, " error message text=\"an error 1\"\n") != NULL);
	CHECK(strstr(said, " warn message text=\"a warning x y\"\n") != NULL);
	CHECK(strstr(said, " info message text=news\n") != NULL);
	CHECK(strstr(said, " debug message text=noise\n") != NULL);
}

static char *long_text;

static void log_long(void)
{
	struct log_fact facts[] = { { "target", long_text, 0 },
				    { "agent", long_text, 0 },
				    { "status", NULL, 414 } };
	log_event(LOG_INFO, "request", facts, COUNT(facts));
	log_info("%s", long_text);
}

/* A client's long text neither fills the log nor hides what follows it. */
static void long_texts(void)
{
	static const char *const fillers[] = { "x", "\x01", "\xe2\x82\xac", "\xff", "\"" };
	long_text = xcalloc(1, 100001);
	for (size_t i = 0; i < COUNT(fillers); i++) {
		size_t len = strlen(fillers[i]);
		for (size_t at = 0; at + len <= 100000; at += len)
			memcpy(long_text + at, fillers[i], len);
		log_setup(LOG_INFO, LOG_TEXT);
		listen_to(log_long);
		CHECK(lines() == 2 && strlen(said) < 40000 && utf8_valid(said, strlen(said)));
		CHECK(strstr(said, " status=414\n") != NULL);
		log_setup(LOG_INFO, LOG_JSON);
		listen_to(log_long);
		char *end = strchr(said, '\n');
		if (!CHECK(end && lines() == 2))
			break;
		json_t *line = json_parse(said, (size_t)(end - said), NULL);
		CHECK(json_integer_value(json_object_get(line, "status")) == 414);
		CHECK(json_string_length(json_object_get(line, "target")) >= 1000);
		json_decref(line);
		line = json_parse(end + 1, strlen(end + 1), NULL);
		CHECK(json_string_length(json_object_get(line, "text")) >= 1000);
		json_decref(line);
	}
	free(long_text);
}

int main(void)
{
	text();
	json();
	levels();
	long_texts();
	return tap_done();
}
