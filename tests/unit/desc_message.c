/* Messages: what is wrong in one counts as absent, and nothing is taken for what it is not. */
#include "base/arena.h"
#include "base/desc.h"
#include "tap.h"

struct resize_word {
	int64_t cols;
	double scale;
	bool now;
	struct text note;
};
static const struct field resize_fields[] = {
	INT(resize_word, cols, EXACT | MIN | MAX, NULL, .min = 1, .max = 9),
	NUM(resize_word, scale, EXACT, NULL, .def = "2", .alias = "zoom"),
	BOOL(resize_word, now, EXACT, NULL),
	TEXT(resize_word, note, 0, NULL),
};
static const struct schema resize_schema = SCHEMA(resize_word, "Resize", resize_fields);
static const struct schema end_schema = { .name = "End" };
static const struct variant words[] = { { "resize", &resize_schema }, { "end", &end_schema } };
static const struct schema words_schema = TAGGED("Words", "type", words);

static void check_fields(const char *text, int64_t cols, double scale, bool now, const char *note)
{
	struct arena arena = { 0 };
	struct resize_word got = { 0 };
	CHECK(desc_message(&resize_schema, text, strlen(text), &arena, &got) == 0);
	CHECK(got.cols == cols && got.scale == scale && got.now == now);
	CHECK(note ? got.note.len == strlen(note) && !memcmp(got.note.data, note, got.note.len)
		   : !got.note.data);
	arena_done(&arena);
}

/* tag: "" for none that is known, NULL for what is no message. */
static void check_tag(const char *text, const char *tag)
{
	struct arena arena = { 0 };
	struct tagged got = { 0 };
	int result = desc_message(&words_schema, text, strlen(text), &arena, &got);
	CHECK(result == (tag ? 0 : -1));
	CHECK(tag && *tag ? got.tag && !strcmp(got.tag, tag) && got.value : !got.tag);
	arena_done(&arena);
}

int main(void)
{
	check_fields("{\"cols\":9,\"scale\":1.5,\"now\":true,\"note\":\"x\"}", 9, 1.5, true, "x");
	check_fields("{}", INT_ABSENT, 2, false, NULL);
	check_fields("{\"cols\":\"9\",\"scale\":\"1\",\"now\":\"true\",\"note\":1}", INT_ABSENT, 2,
		     false, NULL);
	check_fields("{\"cols\":9.0,\"scale\":true,\"now\":1,\"note\":null}", INT_ABSENT, 2, false,
		     NULL);
	check_fields("{\"cols\":10,\"zoom\":3,\"now\":null}", INT_ABSENT, 3, false, NULL);
	check_tag("{\"type\":\"resize\",\"cols\":[]}", "resize");
	check_tag("{\"type\":\"end\",\"more\":1}", "end");
	check_tag("{\"type\":\"other\"}", "");
	check_tag("{\"type\":\"\"}", "");
	static const char *const none[] = { "", "{", "[]", "5", "null", "{}", "{\"type\":5}" };
	for (size_t i = 0; i < COUNT(none); i++)
		check_tag(none[i], NULL);
	return tap_done();
}
