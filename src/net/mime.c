#include "net/mime.h"

#include <string.h>
#include <strings.h>

#include "base/own.h"

#define UTF8 "; charset=utf-8"

static const struct mime_row {
	const char *extension, *type;
} rows[] = {
	/* clang-format off */
	/* the web */
	{ "html",  "text/html" UTF8 },
	{ "htm",   "text/html" UTF8 },
	{ "css",   "text/css" UTF8 },
	{ "js",    "text/javascript" UTF8 },
	{ "mjs",   "text/javascript" UTF8 },
	{ "cjs",   "text/javascript" UTF8 },
	{ "json",  "application/json" },
	{ "map",   "application/json" },
	{ "wasm",  "application/wasm" },
	{ "webmanifest", "application/manifest+json" },
	{ "xhtml", "application/xhtml+xml" },
	{ "xml",   "application/xml" },
	/* pictures and fonts */
	{ "svg",   "image/svg+xml" },
	{ "png",   "image/png" },
	{ "apng",  "image/apng" },
	{ "jpg",   "image/jpeg" },
	{ "jpeg",  "image/jpeg" },
	{ "gif",   "image/gif" },
	{ "webp",  "image/webp" },
	{ "avif",  "image/avif" },
	{ "bmp",   "image/bmp" },
	{ "tif",   "image/tiff" },
	{ "tiff",  "image/tiff" },
	{ "ico",   "image/x-icon" },
	{ "woff2", "font/woff2" },
	{ "woff",  "font/woff" },
	{ "ttf",   "font/ttf" },
	{ "otf",   "font/otf" },
	/* text and source */
	{ "txt",   "text/plain" UTF8 },
	{ "text",  "text/plain" UTF8 },
	{ "log",   "text/plain" UTF8 },
	{ "conf",  "text/plain" UTF8 },
	{ "cfg",   "text/plain" UTF8 },
	{ "ini",   "text/plain" UTF8 },
	{ "diff",  "text/plain" UTF8 },
	{ "patch", "text/plain" UTF8 },
	{ "md",    "text/markdown" UTF8 },
	{ "csv",   "text/csv" UTF8 },
	{ "tsv",   "text/tab-separated-values" UTF8 },
	{ "ics",   "text/calendar" UTF8 },
	{ "py",    "text/x-python" UTF8 },
	{ "c",     "text/x-c" UTF8 },
	{ "h",     "text/x-c" UTF8 },
	{ "cc",    "text/x-c++" UTF8 },
	{ "cpp",   "text/x-c++" UTF8 },
	{ "hpp",   "text/x-c++" UTF8 },
	{ "sh",    "text/x-shellscript" UTF8 },
	{ "ts",    "text/x-typescript" UTF8 },
	{ "tsx",   "text/x-typescript" UTF8 },
	{ "jsx",   "text/javascript" UTF8 },
	{ "go",    "text/x-go" UTF8 },
	{ "rs",    "text/x-rust" UTF8 },
	{ "java",  "text/x-java" UTF8 },
	{ "rb",    "text/x-ruby" UTF8 },
	{ "lua",   "text/x-lua" UTF8 },
	{ "sql",   "text/x-sql" UTF8 },
	{ "toml",  "application/toml" },
	{ "yaml",  "application/yaml" },
	{ "yml",   "application/yaml" },
	{ "jsonl", "application/jsonl" },
	{ "ipynb", "application/x-ipynb+json" },
	/* documents */
	{ "pdf",   "application/pdf" },
	{ "rtf",   "application/rtf" },
	{ "epub",  "application/epub+zip" },
	{ "doc",   "application/msword" },
	{ "xls",   "application/vnd.ms-excel" },
	{ "ppt",   "application/vnd.ms-powerpoint" },
	{ "docx",  "application/vnd.openxmlformats-officedocument.wordprocessingml.document" },
	{ "xlsx",  "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" },
	{ "pptx",  "application/vnd.openxmlformats-officedocument.presentationml.presentation" },
	{ "odt",   "application/vnd.oasis.opendocument.text" },
	{ "ods",   "application/vnd.oasis.opendocument.spreadsheet" },
	{ "odp",   "application/vnd.oasis.opendocument.presentation" },
	/* sound and video */
	{ "mp3",   "audio/mpeg" },
	{ "m4a",   "audio/mp4" },
	{ "wav",   "audio/wav" },
	{ "flac",  "audio/flac" },
	{ "ogg",   "audio/ogg" },
	{ "opus",  "audio/ogg" },
	{ "mp4",   "video/mp4" },
	{ "webm",  "video/webm" },
	{ "mkv",   "video/x-matroska" },
	{ "mov",   "video/quicktime" },
	{ "avi",   "video/x-msvideo" },
	/* archives */
	{ "zip",   "application/zip" },
	{ "whl",   "application/zip" },
	{ "jar",   "application/java-archive" },
	{ "gz",    "application/gzip" },
	{ "tgz",   "application/gzip" },
	{ "tar",   "application/x-tar" },
	{ "bz2",   "application/x-bzip2" },
	{ "xz",    "application/x-xz" },
	{ "zst",   "application/zstd" },
	{ "7z",    "application/x-7z-compressed" },
	/* clang-format on */
};

const char *mime_of(const char *path)
{
	const char *dot = strrchr(path, '.');
	for (size_t i = 0; dot && i < COUNT(rows); i++)
		if (!strcasecmp(rows[i].extension, dot + 1))
			return rows[i].type;
	return "application/octet-stream";
}

bool mime_is(const char *content_type, const char *want)
{
	static const char json[] = "application/json", any[] = "application/", suffix[] = "+json";
	if (!content_type)
		return false;
	const char *at = content_type + strspn(content_type, " \t");
	size_t len = strcspn(at, "; \t");
	const char *rest = at + len + strspn(at + len, " \t");
	if (*rest && *rest != ';')
		return false;
	if (len == strlen(want) && !strncasecmp(at, want, len))
		return true;
	return !strcasecmp(want, json) && len > strlen(any) + strlen(suffix) &&
	       !strncasecmp(at, any, strlen(any)) &&
	       !strncasecmp(at + len - strlen(suffix), suffix, strlen(suffix));
}
