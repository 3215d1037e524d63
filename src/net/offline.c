#include "net/offline.h"

#include <limits.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/rate_limit.h"
#include "net/unasked.h"

/* The loop has others to serve. */
enum { PORT = 53, ANSWERS_AT_ONCE = 32 };

/* For scanf, to which a dash that is not the last means a range. */
#define NAME_BYTES "abcdefghijklmnopqrstuvwxyz0123456789_.-"

static _Atomic uint64_t refused;

int offline_open(void)
{
	const struct sockaddr_in in = { .sin_family = AF_INET,
					.sin_port = htons(PORT),
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	auto_close int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -1;
	/* A DNS server that is started in the sandbox takes its place. */
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
	return bind(fd, (const void *)&in, sizeof in) < 0 ? -1 : TAKE_FD(fd);
}

/* One write, so that lines of the log stay whole; a full log loses it. Not by log.h: the host knows the
 * line whatever the log's format and level are, and no line of log.h begins like it. */
static void report(const char *name)
{
	static struct rate_limit names;
	char line[DNS_NAME_MAX + 64];
	int64_t times = rate_limit_ask(&names, name, clock_ms());
	int len = snprintf(line, sizeof line, "denied %s times=%lld (" OFFLINE_REASON ")\n", name,
			   (long long)times);
	refused++;
	if (times)
		(void)!write(STDERR_FILENO, line, (size_t)len);
}

/* Other types are asked for beside these, the names of addresses by programs that only listen, an IPv6
 * address of the machine itself by those that say who they are, and some names by any Chromium. */
static bool is_attempt(const struct dns_question *question)
{
	char own[HOST_NAME_MAX + 1] = "";
	(void)gethostname(own, sizeof own - 1);
	return (question->type == DNS_A || question->type == DNS_AAAA) && *question->name &&
	       strcmp(question->name, own) != 0 && !unasked_name(question->name);
}

/* The loopback's own names, which are not on their way out. */
static bool is_local(const char *name)
{
	static const char local[] = "localhost";
	size_t len = strlen(name), tail = sizeof local - 1;
	return len >= tail && !strcmp(name + len - tail, local) &&
	       (len == tail || name[len - tail - 1] == '.');
}

static size_t answer(const uint8_t *query, size_t len, uint8_t to[DNS_MESSAGE_MAX])
{
	struct dns_question question;
	bool understood = dns_parse(query, len, &question) == 0;
	if (!understood && (len < DNS_HEAD || question.flags & DNS_IS_ANSWER))
		return 0;
	if (understood && is_local(question.name))
		return dns_answer(query, &question, DNS_OK,
				  question.type == DNS_A ? INADDR_LOOPBACK : 0, 0, to,
				  DNS_MESSAGE_MAX);
	if (understood && is_attempt(&question))
		report(question.name);
	return dns_answer(query, &question, understood ? DNS_NO_SUCH_NAME : DNS_FORMAT, 0, 0, to,
			  DNS_MESSAGE_MAX);
}

void offline_answer(int fd)
{
	uint8_t query[DNS_MESSAGE_MAX], to[DNS_MESSAGE_MAX];
	for (int i = 0; i < ANSWERS_AT_ONCE; i++) {
		struct sockaddr_in from = { 0 };
		socklen_t room = sizeof from;
		ssize_t n = recvfrom(fd, query, sizeof query, 0, (void *)&from, &room);
		size_t len = n < 0 ? 0 : answer(query, (size_t)n, to);
		if (n < 0)
			return;
		if (len)
			(void)!sendto(fd, to, len, MSG_DONTWAIT, (void *)&from, room);
	}
}

/* Never 0, which says that nobody looked. */
uint64_t offline_moment(void)
{
	return refused + 1;
}

bool offline_refused(uint64_t since)
{
	return since && since != offline_moment();
}

bool offline_parse(const char *line, char ret_name[DNS_NAME_MAX + 1], int64_t *ret_times)
{
	long long times;
	int end = 0;
	if (sscanf(line, "denied %253[" NAME_BYTES "] times=%9lld (" OFFLINE_REASON ")%n", ret_name,
		   &times, &end) != 2 ||
	    !end || line[end] || times < 1)
		return false;
	*ret_times = times;
	return true;
}
