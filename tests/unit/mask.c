#include "journal/mask.h"

#include "base/clock.h"
#include "base/own.h"
#include "base/utf8.h"
#include "tap.h"

static const struct {
	const char *text, *masked; /* NULL: as it is */
} rows[] = {
	{ "", NULL },
	{ "ls -la /tmp && echo 'grün'", NULL },
	{ "password=hunter2", "password=***" },
	{ "export DB_PASSWORD='hunter 2'; ls", "export DB_PASSWORD='***'; ls" },
	{ "PGPASS=x psql", NULL },
	{ "DB_PASS=x psql", "DB_PASS=*** psql" },
	{ "pass=x compass=north", "pass=*** compass=north" },
	{ "AWS_SECRET_ACCESS_KEY=abc/def+g= aws", "AWS_SECRET_ACCESS_KEY=*** aws" },
	{ "curl 'http://x/?api_key=abc&n=1'", "curl 'http://x/?api_key=***&n=1'" },
	{ "curl -H 'Authorization: Bearer abcdef' x", "curl -H 'Authorization: ***' x" },
	{ "curl -H \"X-Api-Key: abc\" x", "curl -H \"X-Api-Key: ***\" x" },
	{ "curl -H 'Cookie: a=b; c=d' x", "curl -H 'Cookie: ***' x" },
	{ "Authorization: Basic YTpi\nAccept: */*", "Authorization: ***\nAccept: */*" },
	{ "{\"apiKey\": \"abc\", \"n\": 1}", "{\"apiKey\": \"***\", \"n\": 1}" },
	{ "-d \"{\\\"token\\\": \\\"abc\\\"}\"", "-d \"{\\\"token\\\": \\\"***\\\"}\"" },
	{ "login --token abc --name x", "login --token *** --name x" },
	{ "login --password=abc", "login --password=***" },
	{ "print(token)", NULL },
	{ "max_tokens=100", NULL },
	{ "curl -u me:abc http://x", "curl -u me:*** http://x" },
	{ "curl --user 'me:a b' http://x", "curl --user 'me:***' http://x" },
	{ "sort -u a b", NULL },
	{ "git clone https://me:abc@host/x.git", "git clone https://me:***@host/x.git" },
	{ "git clone https://abc@host/x", "git clone https://***@host/x" },
	{ "postgres://u:p@ss@host/db", "postgres://u:***@host/db" },
	{ "curl http://host/a@b", NULL },
	{ "echo Bearer abcdefgh12", "echo Bearer ***" },
	{ "a bearer of news", NULL },
	{ "sk-abcdefghijklmnop", "sk-***" },
	{ "echo ghp_0123456789abcdef | sh", "echo ghp_*** | sh" },
	{ "sk-short", NULL },
	{ "eyJhbGciOiJIUzI1NiJ9.e30.abc", "eyJ***" },
	{ "cat <<E\n-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nE",
	  "cat <<E\n-----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY-----\nE" },
	{ "-----BEGIN PRIVATE KEY-----\nabc", "-----BEGIN PRIVATE KEY-----***" },
	{ "password", NULL },
	{ "password=", NULL },
	{ "password:=abc", "password:=***" },
	{ "PASSWORD=\"it's a secret\" ls", "PASSWORD=\"***\" ls" },
	{ "PASSWORD='say \"hi\" secret' ls", "PASSWORD='***' ls" },
	{ "PASSWORD=\"say \\\"hi\\\" secret\" ls", "PASSWORD=\"***\" ls" },
	{ "PASSWORD=\"line1\nline2\" ls", "PASSWORD=\"***\" ls" },
	{ "DB_PASSWORD=abc,def}ghi ls", "DB_PASSWORD=*** ls" },
	{ "PASSWORD=foo\\ bar ls", "PASSWORD=*** ls" },
	{ "TOKEN=$'a b' ls", "TOKEN=$'***' ls" },
	{ "curl -u me:pa,ss x", "curl -u me:*** x" },
	{ "curl -ume:abc x", "curl -ume:*** x" },
	{ "printf 'x\\n-----BEGIN PRIVATE KEY-----\\nMII'",
	  "printf 'x\\n-----BEGIN PRIVATE KEY-----***" },
};

static void cuts(void)
{
	char to[16];
	CHECK(mask_text("0123456789", 10, to, sizeof to) == 10);
	CHECK(mask_text("0123456789abcdefg", 17, to, sizeof to) == 15);
	CHECK_STR(to, "0123456789ab…");
	mask_text("0123456789äääää", 20, to, sizeof to);
	CHECK_STR(to, "0123456789ä…");
	mask_text("0123 token=abcdefgh", 19, to, sizeof to);
	CHECK(utf8_valid(to, strlen(to)) && !strstr(to, "abc"));
}

/* Whatever a long text is made of: it is looked at in the pump's thread, too. */
static void long_texts(void)
{
	enum { LONG = 4 << 20 };
	static const char *const units[] = { "a/", "-", "token=", "://a:", "eyJ.", "\\", "'" };
	char *text = xmalloc(LONG), to[600];
	for (size_t i = 0; i < COUNT(units); i++) {
		for (size_t at = 0; at < LONG; at++)
			text[at] = units[i][at % strlen(units[i])];
		int64_t begun = clock_ms();
		CHECK(mask_text(text, LONG, to, sizeof to) < sizeof to);
		CHECK(clock_ms() - begun < 2000);
	}
	free(text);
}

int main(void)
{
	char to[1000];
	for (size_t i = 0; i < COUNT(rows); i++) {
		size_t len = mask_text(rows[i].text, strlen(rows[i].text), to, sizeof to);
		CHECK(len == strlen(to));
		CHECK_STR(to, rows[i].masked ? rows[i].masked : rows[i].text);
	}
	cuts();
	long_texts();
	return tap_done();
}
