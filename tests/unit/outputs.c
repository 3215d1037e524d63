#include "kernel/outputs.h"

#include "base/json.h"
#include "base/own.h"
#include "tap.h"

static void add(struct outputs *outputs, const char *type, const char *content)
{
	json_t *json = json_loads(content, JSON_ALLOW_NUL, NULL);
	CHECK(json != NULL);
	outputs_add(outputs, type, json);
	json_decref(json);
}

static void text(struct outputs *outputs, const char *name, const char *data)
{
	outputs_stream(outputs, name, data, strlen(data));
}

/* All outputs as JSON, to be freed. */
static char *dump(const struct outputs *outputs)
{
	struct jw jw;
	jw_init(&jw, SIZE_MAX / 4);
	jw_open(&jw, '[');
	outputs_write((void *)outputs, NULL, &jw);
	jw_close(&jw, ']');
	char *all = xstrndup(jw.out.data, jw.out.len);
	jw_done(&jw);
	return all;
}

static void check_dump(const struct outputs *outputs, const char *expected)
{
	auto_free char *all = dump(outputs);
	CHECK_STR(all, expected);
}

static void check_text(const struct outputs *outputs, const char *name, const char *expected)
{
	auto_buf struct buf all = BUF(SIZE_MAX / 4);
	outputs_text(outputs, name, &all);
	CHECK_STR(all.data ? all.data : "", expected);
}

static void streams(void)
{
	struct outputs outputs;
	outputs_init(&outputs, 1000);
	check_dump(&outputs, "[]");
	add(&outputs, "stream", "{\"name\":\"stdout\",\"text\":\"a\"}");
	add(&outputs, "stream", "{\"name\":\"stdout\",\"text\":\"b\\n\"}");
	add(&outputs, "stream", "{\"name\":\"stderr\",\"text\":\"c\"}");
	add(&outputs, "stream", "{\"name\":\"stdout\",\"text\":\"d\"}");
	add(&outputs, "stream", "{\"name\":\"stdout\",\"text\":\"\"}");
	add(&outputs, "stream", "{\"name\":5,\"text\":7}");
	add(&outputs, "comm_open", "{\"text\":\"x\"}");
	check_dump(&outputs, "[{\"output_type\":\"stream\",\"name\":\"stdout\",\"text\":\"ab\\n\"},"
			     "{\"output_type\":\"stream\",\"name\":\"stderr\",\"text\":\"c\"},"
			     "{\"output_type\":\"stream\",\"name\":\"stdout\",\"text\":\"d\"}]");
	check_text(&outputs, "stdout", "ab\nd");
	check_text(&outputs, "stderr", "c");
	CHECK(!outputs_error(&outputs));
	outputs_done(&outputs);
}

static void returns(void)
{
	static const struct {
		const char *pieces[4], *result;
	} cases[] = {
		{ { "10%\r20%\r30%" }, "30%" },
		{ { "10%\r", "20%\r", "30%" }, "30%" },
		{ { "line\n", "a\r", "\n" }, "line\na\r\n" },
		{ { "a\r\nb\r\n" }, "a\r\nb\r\n" },
		{ { "done\r" }, "done" },
		{ { "one\ntwo\r", "2\nthree" }, "one\n2\nthree" },
		{ { "\r\r\rx" }, "x" },
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct outputs outputs;
		outputs_init(&outputs, 1000);
		for (int k = 0; k < 4 && cases[i].pieces[k]; k++)
			text(&outputs, "stdout", cases[i].pieces[k]);
		check_text(&outputs, "stdout", cases[i].result);
		outputs_done(&outputs);
	}
}

static void middles(void)
{
	struct outputs outputs;
	outputs_init(&outputs, 1000);
	for (int i = 0; i < 1000; i++) {
		char line[16];
		snprintf(line, sizeof line, "%08d\n", i);
		text(&outputs, i % 100 == 99 ? "stderr" : "stdout", line);
	}
	auto_buf struct buf out = BUF(100000);
	outputs_text(&outputs, "stdout", &out);
	CHECK(out.len < 2200 && !strncmp(out.data, "00000000\n00000001\n", 18));
	CHECK(!strcmp(out.data + out.len - 9, "00000998\n"));
	CHECK(outputs.dropped_text > 7000 && strstr(out.data, "bytes of output were left out"));
	CHECK(outputs.head + outputs.tail + outputs.dropped_text == 9000);
	auto_free char *all = dump(&outputs);
	json_t *parsed = json_loads(all, 0, NULL);
	CHECK(json_is_array(parsed));
	json_decref(parsed);
	outputs_done(&outputs);
	outputs_init(&outputs, 1001); /* never half a character */
	for (int i = 0; i < 2000; i++)
		text(&outputs, "stdout", "\xe2\x82\xac");
	auto_free char *euros = dump(&outputs);
	CHECK(!strstr(euros, "\xef\xbf\xbd"));
	CHECK(outputs.head % 3 == 0 && outputs.tail % 3 == 0 && outputs.dropped_text % 3 == 0);
	outputs_done(&outputs);
}

static void displays(void)
{
	struct outputs outputs;
	outputs_init(&outputs, 1000);
	add(&outputs, "display_data",
	    "{\"data\":{\"text/plain\":\"1\"},\"metadata\":{},\"transient\":{\"display_id\":\"d\"}}");
	add(&outputs, "execute_result",
	    "{\"data\":{\"text/plain\":\"2\"},\"metadata\":{},\"execution_count\":3}");
	add(&outputs, "update_display_data",
	    "{\"data\":{\"text/plain\":\"new\"},\"metadata\":{\"m\":1},\"transient\":{\"display_id\":\"d\"}}");
	add(&outputs, "update_display_data",
	    "{\"data\":{\"text/plain\":\"none\"},\"transient\":{\"display_id\":\"other\"}}");
	add(&outputs, "error", "{\"ename\":\"E\",\"evalue\":\"v\",\"traceback\":[\"t\"]}");
	check_dump(
		&outputs,
		"[{\"output_type\":\"display_data\",\"data\":{\"text/plain\":\"new\"},\"metadata\":{\"m\":1}},"
		"{\"output_type\":\"execute_result\",\"data\":{\"text/plain\":\"2\"},\"metadata\":{},\"execution_count\":3},"
		"{\"output_type\":\"error\",\"ename\":\"E\",\"evalue\":\"v\",\"traceback\":[\"t\"]}]");
	CHECK_STR(json_string_value(json_object_get(outputs_error(&outputs), "ename")), "E");
	add(&outputs, "clear_output", "{\"wait\":true}");
	auto_free char *all = dump(&outputs);
	CHECK(strlen(all) > 100);
	text(&outputs, "stdout", "not a message: clears nothing");
	add(&outputs, "stream", "{\"name\":\"stdout\",\"text\":\"after\"}");
	check_text(&outputs, "stdout", "after");
	add(&outputs, "clear_output", "{\"wait\":false}");
	check_dump(&outputs, "[]");
	outputs_done(&outputs);
}

static void bounds(void)
{
	struct outputs outputs;
	outputs_init(&outputs, 1000);
	for (int i = 0; i < OUTPUTS_ITEMS_MAX + 5; i++) {
		json_t *content =
			json_pack("{s:{s:s},s:{}}", "data", "text/plain", "x", "metadata");
		outputs_add(&outputs, "display_data", content);
		json_decref(content);
	}
	CHECK(outputs.count == OUTPUTS_ITEMS_MAX && outputs.dropped_items == 5);
	add(&outputs, "error", "{\"ename\":\"E\",\"evalue\":\"v\",\"traceback\":[]}");
	CHECK(outputs_error(&outputs) != NULL); /* an error is never left out */
	outputs_done(&outputs);
	outputs_init(&outputs, 1000);
	auto_free char *big = xmalloc(OUTPUTS_DATA_MAX);
	memset(big, 'x', OUTPUTS_DATA_MAX - 1);
	big[OUTPUTS_DATA_MAX - 1] = 0;
	for (int i = 0; i < 2; i++) {
		json_t *content =
			json_pack("{s:{s:s},s:{}}", "data", "a/b", i ? big : "small", "metadata");
		outputs_add(&outputs, "display_data", content);
		json_decref(content);
	}
	CHECK(outputs.count == 2 && outputs.data < 10000);
	auto_free char *all = dump(&outputs);
	CHECK(strstr(all, "was left out") && strlen(all) < 1000);
	outputs_done(&outputs);
}

/* Whatever part of a message is large, what is kept of it is not. */
static void check_small(const char *type, json_t *content)
{
	struct outputs outputs;
	outputs_init(&outputs, 1000);
	outputs_add(&outputs, type, content);
	auto_free char *all = dump(&outputs);
	CHECK(strstr(all, "was left out") && strlen(all) < 1000);
	CHECK(outputs.count == 1 && outputs.data < 10000);
	CHECK(!strcmp(type, "error") == (outputs_error(&outputs) != NULL));
	outputs_done(&outputs);
	json_decref(content);
}

static void hostile(void)
{
	struct outputs outputs;
	auto_free char *big = xmalloc(OUTPUTS_DATA_MAX);
	memset(big, 'x', OUTPUTS_DATA_MAX - 1);
	big[OUTPUTS_DATA_MAX - 1] = 0;
	check_small("display_data", json_pack("{s:{s:s},s:{s:s}}", "data", "text/plain", "x",
					      "metadata", "m", big));
	check_small("error", json_pack("{s:s,s:s,s:[]}", "ename", big, "evalue", "v", "traceback"));
	check_small("error", json_pack("{s:s,s:s}", "ename", "E", "evalue", big));
	json_t *many = json_array();
	for (int i = 0; i < 900000; i++)
		json_array_append_new(many, json_string(""));
	check_small("execute_result", json_pack("{s:{s:o}}", "data", "a/b", many));
	outputs_init(&outputs, 1000);
	for (int i = 0; i < 2 * OUTPUTS_ITEMS_MAX; i++) {
		json_t *content =
			json_pack("{s:s,s:i,s:[]}", "ename", "E", "evalue", i, "traceback");
		outputs_add(&outputs, "error", content);
		json_decref(content);
	}
	const json_t *latest = json_object_get(outputs_error(&outputs), "evalue");
	CHECK(outputs.count == OUTPUTS_ITEMS_MAX + 1);
	CHECK(json_integer_value(latest) == 2 * OUTPUTS_ITEMS_MAX - 1);
	outputs_done(&outputs);
	outputs_init(&outputs, 1000); /* names are kept beside what they name */
	for (int i = 0; i < 2; i++) {
		json_t *content = json_pack("{s:{s:i},s:{s:s}}", "data", "n", i, "transient",
					    "display_id", big);
		outputs_add(&outputs, i ? "update_display_data" : "display_data", content);
		json_decref(content);
	}
	check_dump(&outputs,
		   "[{\"output_type\":\"display_data\",\"data\":{\"n\":0},\"metadata\":{}}]");
	outputs_done(&outputs);
}

int main(void)
{
	streams();
	returns();
	middles();
	displays();
	bounds();
	hostile();
	return tap_done();
}
