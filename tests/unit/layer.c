#include "host/layer.h"

#include "base/err.h"
#include "tap.h"

/* "KIND path" of an entry, or why it is refused. */
static const char *entry(const char *name, bool layer)
{
	static const char *const kinds[] = { "nothing", "file", "whiteout", "opaque" };
	static char text[PATH_MAX + 600];
	char path[PATH_MAX];
	enum layer_kind kind;
	static struct err err;
	if (layer_entry(name, layer, path, &kind, &err) < 0)
		return strstr(err.msg, "' ") + 2;
	snprintf(text, sizeof text, "%s %s", kinds[kind], kind == LAYER_NOTHING ? "" : path);
	return text;
}

static void paths(void)
{
	CHECK_STR(entry("a/b", false), "file a/b");
	CHECK_STR(entry("/a//b/./c/", false), "file a/b/c");
	CHECK_STR(entry("././a", true), "file a");
	CHECK_STR(entry("", true), "nothing ");
	CHECK_STR(entry("./", true), "nothing ");
	CHECK_STR(entry("///", false), "nothing ");
	CHECK_STR(entry("...", true), "file ...");
	CHECK_STR(entry("a..", true), "file a..");
	CHECK_STR(entry("..", true), "has '..' in its path");
	CHECK_STR(entry("a/../b", false), "has '..' in its path");
	CHECK_STR(entry("/..", false), "has '..' in its path");
	CHECK_STR(entry("a/../.wh.b", true), "has '..' in its path");
}

static void sizes(void)
{
	char name[PATH_MAX * 2 + 1], *at = name;
	memset(name, 'n', NAME_MAX + 1);
	name[NAME_MAX + 1] = 0;
	CHECK_STR(entry(name, true), "has a name that is too long");
	CHECK(!strncmp(entry(name + 1, true), "file ", 5));
	for (int i = 0; i < LAYER_DEPTH_MAX + 1; i++, at += 2)
		memcpy(at, "d/", 3);
	CHECK_STR(entry(name, true), "is nested too deep");
	CHECK(!strncmp(entry(name + 2, true), "file ", 5));
	memset(name, 'n', sizeof name - 1);
	name[sizeof name - 1] = 0;
	for (size_t i = 200; i < sizeof name - 1; i += 200)
		name[i] = '/';
	CHECK_STR(entry(name, true), "has a name that is too long");
	/* As long as a path may be, and one more. */
	name[PATH_MAX - 1] = 0;
	CHECK(strlen(entry(name, true)) == PATH_MAX - 1 + strlen("file "));
	memset(name + PATH_MAX - 1, 'n', 1);
	name[PATH_MAX] = 0;
	CHECK_STR(entry(name, true), "has a name that is too long");
}

static void whiteouts(void)
{
	CHECK_STR(entry("a/.wh.b", true), "whiteout a/b");
	CHECK_STR(entry(".wh.b", true), "whiteout b");
	CHECK_STR(entry("a/.wh.b", false), "file a/.wh.b");
	CHECK_STR(entry(".wh.a/b", true), "file .wh.a/b");
	CHECK_STR(entry("a/b/.wh..wh..opq", true), "opaque a/b");
	CHECK_STR(entry(".wh..wh..opq", true), "opaque ");
	CHECK_STR(entry(".wh..wh.plnk", true), "nothing ");
	CHECK_STR(entry("a/.wh.", true), "nothing ");
	CHECK_STR(entry("a/.wh..", true), "nothing ");
	CHECK_STR(entry("a/.wh...", true), "nothing ");
	CHECK_STR(entry("a/.wh....", true), "whiteout a/...");
}

int main(void)
{
	paths();
	sizes();
	whiteouts();
	return tap_done();
}
