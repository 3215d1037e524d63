#include "net/flow.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tap.h"

enum { SIZE = 4 << 20 };
static const char word[] = "HTTP/1.1 408 Request Timeout";
static char piece[FLOW_PIECE], body[SIZE], got[SIZE + sizeof word];

static size_t receive(int fd, size_t at, size_t most)
{
	size_t room = sizeof got - at;
	ssize_t n = recv(fd, got + at, room < most ? room : most, MSG_DONTWAIT);
	return at + (n > 0 ? (size_t)n : 0);
}

/* What is put behind the last bytes of a large body, which wait in a pipe, does not overtake them. */
int main(void)
{
	int sender[2], reader[2];
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sender) == 0);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, reader) == 0);
	struct end from, to;
	end_init(&from, sender[0]);
	end_init(&to, reader[0]);
	struct flow flow = { 0 };
	flow_begin(&flow, BODY_LENGTH, SIZE, NULL);
	flow.splice = true;
	memset(body, 'B', sizeof body);
	size_t sent = 0, len = 0;
	while (!flow.done) { /* the reader takes as little as it may */
		ssize_t n = send(sender[1], body + sent, SIZE - sent, MSG_DONTWAIT);
		sent += n > 0 ? (size_t)n : 0;
		from.readable = true;
		if (flow_pump(&flow, &from, &to, piece) <= 0) {
			len = receive(reader[1], len, 4096);
			end_flush(&to);
		}
	}
	CHECK(to.piped > 0);
	end_put(&to, word, strlen(word));
	while (len < SIZE + strlen(word)) {
		size_t before = len;
		len = receive(reader[1], len, SIZE);
		end_flush(&to);
		if (len == before && !end_pending(&to))
			break;
	}
	CHECK(!end_pending(&to) && len == SIZE + strlen(word));
	CHECK(!memcmp(got, body, SIZE));
	CHECK_STR(got + SIZE, word);
	end_close(&from);
	end_close(&to);
	close(sender[1]);
	close(reader[1]);
	return tap_done();
}
