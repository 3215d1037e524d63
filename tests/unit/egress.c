#include <stdint.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/own.h"
#include "base/rate_limit.h"
#include "egress/http_host.h"
#include "egress/names.h"
#include "egress/packet.h"
#include "egress/rules.h"
#include "egress/tls_sni.h"
#include "net/dns.h"
#include "tap.h"

#define BYTES(text) (const uint8_t *)(text), sizeof(text) - 1

#define QUERY "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
#define NAME          \
	"\x07"        \
	"eXample\x03" \
	"org\x00"

static void check_dns(void)
{
	struct dns_question question;
	uint8_t answer[DNS_MESSAGE_MAX];
	static const char query[] = QUERY NAME "\x00\x01\x00\x01";
	CHECK(dns_parse(BYTES(query), &question) == 0);
	CHECK_STR(question.name, "example.org");
	CHECK(question.type == DNS_A && question.id == 0x1234 && question.end == sizeof query - 1);
	size_t n = dns_answer((const uint8_t *)query, &question, DNS_OK, 0xc6120102, 60, answer,
			      sizeof answer);
	static const char want[] =
		"\x12\x34\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00" NAME
		"\x00\x01\x00\x01\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04"
		"\xc6\x12\x01\x02";
	CHECK(n == sizeof want - 1 && !memcmp(answer, want, n));
	n = dns_answer((const uint8_t *)query, &question, DNS_NO_SUCH_NAME, 0, 0, answer,
		       sizeof answer);
	CHECK(n == sizeof query - 1 && answer[3] == 0x83 && answer[7] == 0);
	CHECK(dns_answer((const uint8_t *)query, &question, DNS_OK, 1, 0, answer, 40) == 0);
	CHECK(dns_parse(BYTES(QUERY NAME "\x00\x01\x00"), &question) < 0);
	CHECK(dns_parse(BYTES(QUERY NAME "\x00\x01\x00\x03"), &question) < 0);
	CHECK(dns_parse(BYTES(QUERY "\xc0\x0c\x00\x01\x00\x01"), &question) < 0);
	CHECK(dns_parse(BYTES(QUERY "\x03"
				    "a\"b\x00\x00\x01\x00\x01"),
			&question) < 0);
	CHECK(dns_parse(BYTES(QUERY "\x3f"
				    "abc"),
			&question) < 0);
	CHECK(dns_parse(BYTES("\x12\x34\x81\x00\x00\x01\x00\x00\x00\x00\x00\x00" NAME
			      "\x00\x01\x00\x01"),
			&question) < 0);
	CHECK(dns_parse(BYTES("\x12"), &question) < 0);
}

/* A ClientHello with these extensions. */
static size_t client_hello(uint8_t *to, const char *extensions, size_t len)
{
	size_t hello = 2 + 32 + 1 + 4 + 2 + 2 + len, n = 0;
	to[n++] = 22, to[n++] = 3, to[n++] = 1;
	to[n++] = (uint8_t)((hello + 4) >> 8), to[n++] = (uint8_t)(hello + 4);
	to[n++] = 1, to[n++] = 0, to[n++] = (uint8_t)(hello >> 8), to[n++] = (uint8_t)hello;
	to[n++] = 3, to[n++] = 3;
	memset(to + n, 7, 32);
	n += 32;
	to[n++] = 0;
	to[n++] = 0, to[n++] = 2, to[n++] = 0x13, to[n++] = 1;
	to[n++] = 1, to[n++] = 0;
	to[n++] = (uint8_t)(len >> 8), to[n++] = (uint8_t)len;
	memcpy(to + n, extensions, len);
	return n + len;
}

static enum tls_sni hello_of(const uint8_t *data, size_t len, char *name)
{
	return tls_sni_find(data, len, false, name);
}

#define SNI(name) "\x00\x00\x00\x08\x00\x06\x00\x00\x03" name

/* One name, once: of two, one server would take the first, another the second. */
static void check_names_of_hello(void)
{
	uint8_t data[1024];
	char name[256];
	size_t n = client_hello(data, SNI("a.b"), 12);
	CHECK(hello_of(data, n, name) == TLS_SNI_NAMED && !strcmp(name, "a.b"));
	n = client_hello(data, SNI("a.b") SNI("c.d"), 24);
	CHECK(hello_of(data, n, name) == TLS_SNI_ODD);
	n = client_hello(data,
			 "\x00\x00\x00\x0e\x00\x0c\x00\x00\x03"
			 "a.b\x00\x00\x03"
			 "c.d",
			 18);
	CHECK(hello_of(data, n, name) == TLS_SNI_ODD);
	n = client_hello(data, "\x00\x00\x00\x02\x00\x00", 6);
	CHECK(hello_of(data, n, name) == TLS_SNI_ODD);
	n = client_hello(data,
			 "\x00\x00\x00\x08\x00\x06\x00\x00\x03"
			 "a\0b",
			 12);
	CHECK(hello_of(data, n, name) == TLS_SNI_NAMELESS);
}

static void check_hello(void)
{
	uint8_t data[1024], cut[1100];
	char name[256] = "";
	static const char sni[] = "\x00\x2b\x00\x03\x02\x03\x04"
				  "\x00\x00\x00\x10\x00\x0e\x00\x00\x0b"
				  "Example.org";
	size_t n = client_hello(data, sni, sizeof sni - 1);
	CHECK(tls_sni_find(data, n, false, name) == TLS_SNI_NAMED);
	CHECK_STR(name, "example.org");
	for (size_t i = 0; i < n; i++)
		if (tls_sni_find(data, i, false, name) != TLS_SNI_MORE) {
			CHECK(!"cut short, more is wanted");
			break;
		}
	/* The same in two records. */
	memcpy(cut, data, 5 + 20);
	cut[3] = 0, cut[4] = 20;
	memcpy(cut + 25, data, 5);
	cut[28] = (uint8_t)((n - 25) >> 8), cut[29] = (uint8_t)(n - 25);
	memcpy(cut + 30, data + 25, n - 25);
	CHECK(tls_sni_find(cut, n + 5, false, name) == TLS_SNI_NAMED &&
	      !strcmp(name, "example.org"));
	cut[26] = 2;
	CHECK(tls_sni_find(cut, n + 5, false, name) == TLS_SNI_ODD);
	cut[26] = 3, cut[25] = 20; /* another record within the hello */
	CHECK(tls_sni_find(cut, n + 5, false, name) == TLS_SNI_ODD);
	/* What comes with it: TLS 1.3 sends more before an answer. */
	memcpy(data + n, "\x14\x03\x03\x00\x01\x01", 6);
	CHECK(tls_sni_find(data, n + 6, false, name) == TLS_SNI_NAMED);
	for (unsigned major = 0; major < 256; major++) {
		data[1] = (uint8_t)major;
		CHECK(tls_sni_find(data, n, false, name) ==
		      (major == 3 ? TLS_SNI_NAMED : TLS_SNI_ODD));
		CHECK(tls_sni_find(data, 2, true, name) ==
		      (major == 3 ? TLS_SNI_MORE : TLS_SNI_ODD));
	}
	check_names_of_hello();
	n = client_hello(data, "\x00\x2b\x00\x03\x02\x03\x04", 7);
	CHECK(tls_sni_find(data, n, false, name) == TLS_SNI_NAMELESS);
	CHECK(hello_of(BYTES("GET / HTTP/1.1\r\n"), name) == TLS_SNI_REQUEST);
	CHECK(hello_of(BYTES("GE"), name) == TLS_SNI_MORE);
	CHECK(hello_of(BYTES("SSH-2.0-x\r\n"), name) == TLS_SNI_OTHER);
	CHECK(hello_of(BYTES("SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"), name) == TLS_SNI_OTHER);
	CHECK(hello_of(BYTES("0033git-upload-pack /x\0host=a"), name) == TLS_SNI_OTHER);
	/* Servers forgive empty lines before a request, and take any word for a method. */
	CHECK(hello_of(BYTES("\r\nGET / HTTP/1.1\r\n"), name) == TLS_SNI_REQUEST);
	CHECK(hello_of(BYTES("\n\r\n"), name) == TLS_SNI_MORE);
	CHECK(hello_of(BYTES("M-SEARCH * HTTP/1.1\r\n"), name) == TLS_SNI_REQUEST);
	CHECK(hello_of(BYTES("get / http/1.1\n"), name) == TLS_SNI_REQUEST);
	CHECK(hello_of(BYTES("get /"), name) == TLS_SNI_MORE);
	CHECK(hello_of(BYTES(""), name) == TLS_SNI_MORE);
	CHECK(hello_of(BYTES("\x80\x2e\x01\x00\x02"), name) == TLS_SNI_ODD); /* SSLv2 */
	CHECK(hello_of(BYTES("\x80\x2e\x01\x03\x01"), name) == TLS_SNI_ODD);
	CHECK(hello_of(BYTES("\x80\x2e"), name) == TLS_SNI_MORE);
	CHECK(hello_of(BYTES("\xff\xfd\x03"), name) == TLS_SNI_OTHER); /* telnet */
	/* To a server that spoke first, a word is no method. */
	CHECK(hello_of(BYTES("EHLO a.org\r\n"), name) == TLS_SNI_REQUEST);
	CHECK(tls_sni_find(BYTES("EHLO a.org\r\n"), true, name) == TLS_SNI_OTHER);
	CHECK(tls_sni_find(BYTES("GET / HTTP/1.1\r\n"), true, name) == TLS_SNI_REQUEST);
	CHECK(tls_sni_find(BYTES("GET / HT"), true, name) == TLS_SNI_MORE);
}

/* Whether requests pass, whole and byte by byte. */
static bool passes(const char *text)
{
	struct http_host whole, bytes;
	size_t len = strlen(text);
	int result = 0;
	http_host_init(&whole, "a.org", 80);
	http_host_init(&bytes, "a.org", 80);
	for (size_t i = 0; i < len && result == 0; i++)
		result = http_host_feed(&bytes, text + i, 1);
	bool all = http_host_feed(&whole, text, len) == 0;
	CHECK(all == (result == 0));
	return all;
}

static void check_http_host(void)
{
	CHECK(passes("GET / HTTP/1.1\r\nHost: a.org\r\n\r\n"));
	CHECK(passes("GET / HTTP/1.1\r\nx: y\r\nHOST:A.org.:80\r\n\r\n"));
	CHECK(passes("POST /?u=http://b.org HTTP/1.1\r\nHost: a.org\r\nContent-Length: 3\r\n\r\nabc"
		     "GET / HTTP/1.1\r\nHost: a.org\r\n\r\n"));
	CHECK(!passes("GET / HTTP/1.1\r\nHost: b.org\r\n\r\n"));
	CHECK(!passes("GET / HTTP/1.1\r\nHost: xa.org\r\n\r\n"));
	CHECK(!passes("GET / HTTP/1.1\r\nHosts: a.org\r\n\r\n"));
	CHECK(!passes("GET / HTTP/1.1\r\n\r\n"));
	CHECK(!passes("GET / HTTP/1.1\r\nHost: a.org\r\nHost: a.org\r\n\r\n"));
	CHECK(!passes(
		"GET / HTTP/1.1\r\nHost: a.org\r\n\r\nGET / HTTP/1.1\r\nHost: b.org\r\n\r\n"));
	CHECK(!passes("GET http://b.org/ HTTP/1.1\r\nHost: a.org\r\n\r\n"));
	CHECK(!passes("CONNECT b.org:443 HTTP/1.1\r\nHost: a.org\r\n\r\n"));
	CHECK(!passes("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
	CHECK(!passes("EHLO a.org\r\n"));
	CHECK(passes("\r\nGET / HTTP/1.1\r\nHost: a.org\r\n\r\n"));
	CHECK(!passes("\r\nGET / HTTP/1.1\r\nHost: b.org\r\n\r\n"));
	CHECK(!passes("get / HTTP/1.1\r\nHost: b.org\r\n\r\n"));
	CHECK(passes("GET / HTTP/1.1\r\nx:\r\nHost: a.org\r\n\r\n"));
	CHECK(!passes("GET / HTTP/1.1\r\nho:\r\nst: a.org\r\n\r\n"));
	CHECK(!passes("GET / HTTP/1.1\r\nHost:\r\n\r\n"));
	static const char *const ports[] = {
		"a.org:",    "a.org:evil", "a.org:80x",
		"a.org:080", "a.org:81",   "a.org:80:80",
		"a.org:-80", "a.org..:80", "a.org:99999999999999999999"
	};
	for (size_t i = 0; i < COUNT(ports); i++) {
		char text[128];
		snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", ports[i]);
		CHECK(!passes(text));
	}
}

#define UPGRADE(to) \
	"GET / HTTP/1.1\r\nHost: a.org\r\nConnection: Upgrade\r\nUpgrade: " to "\r\n\r\n"

/* Whether a server's consent to what was asked would end the looking at requests. */
static bool upgrades(const char *text)
{
	struct http_host http;
	http_host_init(&http, "a.org", 80);
	return http_host_feed(&http, text, strlen(text)) == 0 && http.upgrade;
}

static void check_upgrades(void)
{
	CHECK(upgrades(UPGRADE("WebSocket")));
	CHECK(!upgrades(UPGRADE("h2c")) && !upgrades(UPGRADE("TLS/1.0, HTTP/1.1")));
	CHECK(!upgrades(UPGRADE("websocket, h2c")));
	CHECK(!upgrades(UPGRADE("websocket\r\nUpgrade: h2c")));
	CHECK(!upgrades("GET / HTTP/1.1\r\nHost: a.org\r\nUpgrade: websocket\r\n\r\n"));
	/* Only the first request can be told from others by the server's answer. */
	CHECK(!upgrades("GET / HTTP/1.1\r\nHost: a.org\r\n\r\n" UPGRADE("websocket")));
	CHECK(!upgrades(UPGRADE("websocket") "GET / HTTP/1.1\r\nHost: a.org\r\n\r\n"));
	/* Until it was answered, what follows is looked at. */
	CHECK(passes(UPGRADE("h2c") "GET / HTTP/1.1\r\nHost: a.org\r\n\r\n"));
	CHECK(!passes(UPGRADE("h2c") "GET / HTTP/1.1\r\nHost: b.org\r\n\r\n"));
	CHECK(!passes(UPGRADE("websocket") "GET / HTTP/1.1\r\nHost: b.org\r\n\r\n"));
	CHECK(!passes(UPGRADE("h2c") "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
}

static struct rules *rules(const char *names, const char *nets)
{
	struct err err = { 0 };
	struct rules *made = rules_new(names, nets, &err);
	if (!made)
		printf("# %s\n", err.msg);
	return made;
}

static void check_rules(void)
{
	struct rules *some = rules("a.org, *.b.org,c.org:443,D.org.", "10.1.0.0/16,203.0.113.7");
	if (!CHECK(some))
		return;
	CHECK(rules_allow(some, "a.org", 80) && rules_allow(some, "A.ORG", 0));
	CHECK(!rules_allow(some, "x.a.org", 80) && !rules_allow(some, "xa.org", 80));
	CHECK(rules_allow(some, "x.b.org", 1) && rules_allow(some, "x.y.b.org", 1));
	CHECK(!rules_allow(some, "b.org", 1) && !rules_allow(some, "xb.org", 1));
	CHECK(rules_allow(some, "c.org", 443) && rules_allow(some, "c.org", 0));
	CHECK(!rules_allow(some, "c.org", 80) && rules_allow(some, "d.org", 80));
	CHECK(rules_address(some, 0x08080808) && rules_address(some, 0x0a010203));
	CHECK(rules_address(some, 0xcb007107) && !rules_address(some, 0xcb007108));
	static const uint32_t closed[] = { 0x7f000001, 0x0a000001, 0xac100001, 0xac1fffff,
					   0xc0a80101, 0xa9fea9fe, 0x64400001, 0x00000000,
					   0xffffffff, 0xe0000001, 0xc6120101, 0xc6130101 };
	for (size_t i = 0; i < COUNT(closed); i++)
		CHECK(!rules_address(some, closed[i]));
	CHECK(rules_address(some, 0xac200001) && rules_address(some, 0xc6140101));
	rules_free(some);
	some = rules("*", NULL);
	CHECK(some && rules_allow(some, "any.thing", 1));
	rules_free(some);
	some = rules("", "");
	CHECK(some && !rules_allow(some, "any.thing", 1));
	rules_free(some);
	static const char *const bad[] = { "a b\"c",  "a..b", "*.",       ".a",    "a:0",
					   "a:99999", "a:x",  "http://a", "*a.org" };
	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK(!rules(bad[i], NULL));
	static const char *const names[] = { "a",         "a.org",  "*.a.org", "*",       "a_b.org",
					     "a.org:443", "a.org.", "*:80",    "x--y.org" };
	for (size_t i = 0; i < COUNT(names); i++)
		CHECK(rules_is_name(names[i], strlen(names[i])));
	static const char *const none[] = { "",      "a b", "a,b", "-a", "a-.b", "*.*", "**",
					    "*.*.a", ".",   "..",  "*.", ":1",   "a:" };
	for (size_t i = 0; i < COUNT(none); i++)
		CHECK(!rules_is_name(none[i], strlen(none[i])));
	CHECK(!rules_is_name("a\0b", 3));
	CHECK(!rules("a", "10.0.0.0/33") && !rules("a", "x") && !rules("a", "1.2.3.4/"));
}

static void check_names(void)
{
	struct names *names = names_new();
	char text[256], found[256];
	uint32_t first = names_address(names, "a.org"), second = names_address(names, "b.org");
	CHECK(first != second && names_address(names, "a.org") == first);
	CHECK(names_find(names, second, found, sizeof found) == 0);
	CHECK_STR(found, "b.org");
	CHECK(names_find(names, second + 1, found, sizeof found) < 0);
	CHECK(names_find(names, NAMES_SELF, found, sizeof found) < 0);
	bool all = true;
	for (int i = 2; i < NAMES_MAX; i++) {
		snprintf(text, sizeof text, "n%d.org", i);
		uint32_t address = names_address(names, text);
		all = all && address >> 17 == (uint32_t)NAMES_NET >> 17 &&
		      names_find(names, address, found, sizeof found) == 0 && !strcmp(text, found);
	}
	CHECK(all);
	CHECK(names_address(names, "one.too.many") == 0 && names_address(names, "a.org") == first);
	names_free(names);
}

#define IP(protocol, rest, to) \
	"\x45\x00\x00\x00\x00\x00" rest "\x40" protocol "\x00\x00\xc6\x12\x00\x01" to

static void check_packets(void)
{
	struct packet packet;
	static const char tcp[] = IP("\x06", "\x40\x00", "\x0a\x01\x02\x03") "\xd4\x56\x01\xbb";
	CHECK(packet_parse(BYTES(tcp), &packet) == 0 && !packet.answered);
	CHECK(packet.to == 0x0a010203 && packet.port == 443);
	CHECK(packet_parse((const uint8_t *)tcp, sizeof tcp - 2, &packet) == 0 && packet.port == 0);
	CHECK(packet_parse((const uint8_t *)tcp, 19, &packet) < 0);
	CHECK(packet_parse(BYTES("\x4f" /* with options, which are not there */
				 "\x00\x00\x00\x00\x00\x40\x00\x40\x06\x00\x00\x01\x02\x03\x04"
				 "\x0a\x01\x02\x03\x00\x00\x00\x00"),
			   &packet) < 0);
	CHECK(packet_parse(BYTES("\x65" /* IPv6 */
				 "\x00\x00\x00\x00\x00\x40\x00\x40\x06\x00\x00\x01\x02\x03\x04"
				 "\x0a\x01\x02\x03\x00\x00\x00\x00"),
			   &packet) < 0);
	CHECK(packet_parse(BYTES(IP("\x11", "\x00\x07", "\x0a\x01\x02\x03") "\x01\x02\x03\x04"),
			   &packet) == 0 &&
	      packet.port == 0); /* a later fragment */
	CHECK(packet_parse(BYTES(IP("\x01", "\x00\x00",
				    "\x0a\x01\x02\x03") "\x08\x00\x00\x00\x00\x00\x00\x00"),
			   &packet) == 0 &&
	      packet.to == 0x0a010203 && !packet.answered); /* ping */
	static const char answer[] =
		IP("\x01", "\x00\x00", "\x0a\xd5\x00\x02") "\x03\x0d\x00\x00\x00\x00\x00\x00" IP(
			"\x11", "\x00\x00", "\xc6\x33\x64\x4c") "\x01\x02\x00\x35";
	CHECK(packet_parse(BYTES(answer), &packet) == 0 && packet.answered);
	CHECK(packet.to == 0xc633644c && packet.port == 53);
	CHECK(packet_parse((const uint8_t *)answer, 40, &packet) < 0);
}

static void check_rate_limit(void)
{
	struct rate_limit limit = { 0 };
	CHECK(rate_limit_ask(&limit, "a", 1000) == 1);
	CHECK(rate_limit_ask(&limit, "a", 1001) == 0 && rate_limit_ask(&limit, "b", 1002) == 1);
	CHECK(rate_limit_ask(&limit, "a", 1000 + RATE_LIMIT_AGAIN_MS) == 2);
	/* However many there are, some in a row and then one each second; the rows stay as many. */
	int64_t now = 10000000, said = 0;
	for (int i = 0; i < 100000; i++, now++) {
		char thing[16];
		snprintf(thing, sizeof thing, "%d", i);
		said += rate_limit_ask(&limit, thing, now);
	}
	CHECK(said == RATE_LIMIT_BURST + 100000 / RATE_LIMIT_EACH_MS - 1);
	CHECK(rate_limit_ask(&limit, "99999", now + 60000) == 1);
}

int main(void)
{
	check_dns();
	check_hello();
	check_http_host();
	check_upgrades();
	check_rules();
	check_names();
	check_packets();
	check_rate_limit();
	return tap_done();
}
