#include "egress/tls_sni.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

enum { HOST_MAX = 255, TLS_RECORD = 22, TLS_MAJOR = 3, CLIENT_HELLO = 1 };
enum { SERVER_NAMES = 0, SERVER_NAME = 0 };

/* A reader that never goes beyond the end, and remembers that it wanted to. */
struct hello_reader {
	const unsigned char *at, *end;
	bool cut; /* not all is there */
};

static size_t number(struct hello_reader *in, size_t bytes)
{
	size_t value = 0;
	if ((size_t)(in->end - in->at) < bytes) {
		in->cut = true;
		in->at = in->end;
		return 0;
	}
	while (bytes--)
		value = value << 8 | *in->at++;
	return value;
}

/* A part with its length before it. One that is not all there ends where the bytes do. */
static struct hello_reader part(struct hello_reader *in, size_t bytes)
{
	size_t len = number(in, bytes), left = (size_t)(in->end - in->at);
	struct hello_reader inner = { in->at, in->at + (len < left ? len : left), len > left };
	in->at = inner.end;
	in->cut |= inner.cut;
	return inner;
}

static int take(const unsigned char *from, size_t n, char *name)
{
	if (!n || n > HOST_MAX || memchr(from, 0, n))
		return -1;
	for (size_t i = 0; i < n; i++)
		name[i] = (char)tolower(from[i]);
	n -= from[n - 1] == '.'; /* the root's dot is no difference */
	name[n] = 0;
	return 0;
}

/* One name, and nothing else: which of several counts, servers do not agree on. */
static enum tls_sni server_name(struct hello_reader extension, char *name)
{
	struct hello_reader list = part(&extension, 2);
	size_t type = number(&list, 1);
	struct hello_reader entry = part(&list, 2);
	if (extension.cut || list.cut || type != SERVER_NAME || list.at < list.end ||
	    extension.at < extension.end)
		return TLS_SNI_ODD;
	return take(entry.at, (size_t)(entry.end - entry.at), name) < 0 ? TLS_SNI_NAMELESS
									: TLS_SNI_NAMED;
}

static enum tls_sni in_hello(struct hello_reader in, char *name)
{
	if (in.at < in.end && *in.at != CLIENT_HELLO)
		return TLS_SNI_NAMELESS;
	number(&in, 1);
	struct hello_reader hello = part(&in, 3);
	number(&hello, 2);
	for (int i = 0; i < 32; i++) /* its random bytes */
		number(&hello, 1);
	part(&hello, 1); /* session */
	part(&hello, 2); /* ciphers */
	part(&hello, 1); /* compression */
	struct hello_reader extensions = part(&hello, 2);
	enum tls_sni found = TLS_SNI_NAMELESS;
	for (bool named = false; extensions.end - extensions.at >= 4 && !extensions.cut;) {
		size_t type = number(&extensions, 2);
		struct hello_reader extension = part(&extensions, 2);
		if (type == SERVER_NAMES) {
			found = named ? TLS_SNI_ODD : server_name(extension, name);
			named = true;
		}
	}
	return hello.cut || in.cut || extensions.cut ? TLS_SNI_MORE : found;
}

/* A ClientHello may be cut into several records: their heads are taken out. What comes after it, of
 * TLS 1.3, is of another type. */
static enum tls_sni in_records(const unsigned char *data, size_t len, char *name)
{
	static _Thread_local unsigned char hello[TLS_SNI_MAX];
	struct hello_reader in = { data, data + len, 0 };
	size_t n = 0, type = TLS_RECORD;
	while (in.at < in.end && !in.cut) {
		type = number(&in, 1);
		if (type != TLS_RECORD)
			break;
		size_t major = number(&in, 1);
		if (!in.cut && major != TLS_MAJOR)
			return TLS_SNI_ODD;
		number(&in, 1); /* minor version */
		struct hello_reader record = part(&in, 2);
		size_t more = (size_t)(record.end - record.at);
		more = more < sizeof hello - n ? more : sizeof hello - n;
		memcpy(hello + n, record.at, more);
		n += more;
	}
	enum tls_sni kind = in_hello((struct hello_reader){ hello, hello + n, 0 }, name);
	return kind == TLS_SNI_MORE && type != TLS_RECORD ? TLS_SNI_ODD : kind;
}

static bool is_text(const unsigned char *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((data[i] < ' ' && data[i] != '\t' && data[i] != '\r') || data[i] == 127)
			return false;
	return true;
}

/* Servers forgive much before a request, and take any word for a method: empty lines are passed over,
 * and what is not plainly a method is a request if its first line speaks of HTTP. */
static enum tls_sni is_request(const unsigned char *data, size_t len, bool greeted)
{
	static const char word[] = "HTTP/";
	while (len && (*data == '\r' || *data == '\n'))
		data++, len--;
	size_t n = 0;
	while (n < len && n < 20 && isupper(data[n]))
		n++;
	if (n >= 3 && n < len && data[n] == ' ' && !greeted)
		return TLS_SNI_REQUEST;
	const unsigned char *end = memchr(data, '\n', len);
	if (!end)
		return is_text(data, len) ? TLS_SNI_MORE : TLS_SNI_OTHER;
	for (const unsigned char *at = data; at + sizeof word - 1 <= end; at++)
		if (!strncasecmp((const char *)at, word, sizeof word - 1))
			return TLS_SNI_REQUEST;
	return TLS_SNI_OTHER;
}

static bool is_ssl2(const unsigned char *data, size_t len)
{
	return len > 2 && (data[0] & 0x80) && data[2] == CLIENT_HELLO;
}

enum tls_sni tls_sni_find(const unsigned char *data, size_t len, bool greeted, char *name)
{
	enum tls_sni kind;
	if (!len || (len < 3 && (data[0] & 0x80)))
		return TLS_SNI_MORE;
	if (data[0] == TLS_RECORD)
		kind = in_records(data, len, name);
	else if (is_ssl2(data, len))
		kind = TLS_SNI_ODD;
	else
		kind = is_request(data, len, greeted);
	return kind == TLS_SNI_MORE && len >= TLS_SNI_MAX ? TLS_SNI_NAMELESS : kind;
}
