#include "net/mime.h"

#include "tap.h"

static void of(void)
{
	CHECK_STR(mime_of("/index.html"), "text/html; charset=utf-8");
	CHECK_STR(mime_of("INDEX.HTM"), "text/html; charset=utf-8");
	CHECK_STR(mime_of("a.css"), "text/css; charset=utf-8");
	CHECK_STR(mime_of("a.js"), "text/javascript; charset=utf-8");
	CHECK_STR(mime_of("a.mjs"), "text/javascript; charset=utf-8");
	CHECK_STR(mime_of("a.min.js"), "text/javascript; charset=utf-8");
	CHECK_STR(mime_of("a.js.map"), "application/json");
	CHECK_STR(mime_of("a.json"), "application/json");
	CHECK_STR(mime_of("a.wasm"), "application/wasm");
	CHECK_STR(mime_of("a.svg"), "image/svg+xml");
	CHECK_STR(mime_of("a.PnG"), "image/png");
	CHECK_STR(mime_of("a.jpg"), "image/jpeg");
	CHECK_STR(mime_of("a.jpeg"), "image/jpeg");
	CHECK_STR(mime_of("a.gif"), "image/gif");
	CHECK_STR(mime_of("a.webp"), "image/webp");
	CHECK_STR(mime_of("favicon.ico"), "image/x-icon");
	CHECK_STR(mime_of("a.woff2"), "font/woff2");
	CHECK_STR(mime_of("a.woff"), "font/woff");
	CHECK_STR(mime_of("a.ttf"), "font/ttf");
	CHECK_STR(mime_of("a.txt"), "text/plain; charset=utf-8");
	CHECK_STR(mime_of("a.md"), "text/markdown; charset=utf-8");
	CHECK_STR(mime_of("a.csv"), "text/csv; charset=utf-8");
	CHECK_STR(mime_of("a.xml"), "application/xml");
	CHECK_STR(mime_of("a.yaml"), "application/yaml");
	CHECK_STR(mime_of("a.yml"), "application/yaml");
	CHECK_STR(mime_of("a.pdf"), "application/pdf");
	CHECK_STR(mime_of("a.mp4"), "video/mp4");
	CHECK_STR(mime_of("a.webm"), "video/webm");
	CHECK_STR(mime_of("a.mp3"), "audio/mpeg");
	CHECK_STR(mime_of("a.zip"), "application/zip");
	CHECK_STR(mime_of("a.tar.gz"), "application/gzip");
	CHECK_STR(mime_of("a.tar"), "application/x-tar");
	CHECK_STR(mime_of("a.ts"), "text/x-typescript; charset=utf-8");
	CHECK_STR(mime_of("a.py"), "text/x-python; charset=utf-8");
	CHECK_STR(mime_of("a.c"), "text/x-c; charset=utf-8");
	CHECK_STR(mime_of("a.h"), "text/x-c; charset=utf-8");
	CHECK_STR(mime_of("a.sh"), "text/x-shellscript; charset=utf-8");
}

static void unknown(void)
{
	static const char other[] = "application/octet-stream";
	CHECK_STR(mime_of(""), other);
	CHECK_STR(mime_of("html"), other);
	CHECK_STR(mime_of("a."), other);
	CHECK_STR(mime_of("a.htmlx"), other);
	CHECK_STR(mime_of("a.html/"), other);
	CHECK_STR(mime_of("/v1.html/file"), other);
	CHECK_STR(mime_of("/.."), other);
	CHECK_STR(mime_of("a.html "), other);
}

static void is(void)
{
	CHECK(mime_is("text/html", "text/html"));
	CHECK(mime_is("Text/HTML; charset=utf-8", "text/html"));
	CHECK(mime_is(" text/html ;x", "text/html"));
	CHECK(mime_is("text/html;charset=utf-8", "text/html"));
	CHECK(mime_is("multipart/form-data; boundary=x", "multipart/form-data"));
	CHECK(!mime_is(NULL, "text/html"));
	CHECK(!mime_is("", "text/html"));
	CHECK(!mime_is("text/htm", "text/html"));
	CHECK(!mime_is("text/htmlx", "text/html"));
	CHECK(!mime_is("text/html text/plain", "text/html"));
	CHECK(!mime_is("x; text/html", "text/html"));
	CHECK(!mime_is("text/html, text/plain", "text/html"));
}

static void json(void)
{
	CHECK(mime_is("application/json", "application/json"));
	CHECK(mime_is("APPLICATION/JSON;charset=utf-8", "application/json"));
	CHECK(mime_is("application/problem+json", "application/json"));
	CHECK(mime_is("application/vnd.api+JSON; v=1", "application/json"));
	CHECK(!mime_is("application/+json", "application/json"));
	CHECK(!mime_is("application/json+x", "application/json"));
	CHECK(!mime_is("application/xjson", "application/json"));
	CHECK(!mime_is("image/x+json", "application/json"));
	CHECK(!mime_is("text/json", "application/json"));
	CHECK(!mime_is("application/jsonl", "application/json"));
	CHECK(!mime_is("application/json", "application/problem+json"));
	CHECK(!mime_is("application/soap+xml", "application/xml"));
}

int main(void)
{
	of();
	unknown();
	is();
	json();
	return tap_done();
}
