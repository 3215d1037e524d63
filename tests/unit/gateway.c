#include "host/gateway.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "host/boxes.h"
#include "host/netns.h"
#include "tap.h"

static int count_open(void)
{
	int count = 0;
	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* Those that keep boxes may tell of a change until they have ended, which they do after the loops: what
 * they write to must be there, and not be another's. */
int main(void)
{
	struct err err = { 0 };
	struct boxes boxes;
	if (geteuid() != 0) {
		printf("1..0 # SKIP only root can make a network namespace\n");
		return 0;
	}
	boxes_init(&boxes);
	int netns = netns_open(&err);
	CHECK(netns >= 0);
	int before = count_open(), listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	CHECK(bind(listener, &(struct sockaddr){ AF_UNIX }, sizeof(sa_family_t)) == 0);
	CHECK(listen(listener, 8) == 0);
	struct gateway_config config = { .boxes = &boxes,
					 .listen_fd = listener,
					 .state_dir = -1,
					 .netns = netns,
					 .max_connections = 8 };
	struct gateway *gateway = gateway_start(&config, 3, &err);
	CHECK(gateway);
	if (gateway) {
		int running = count_open();
		CHECK(running >= before + 7);
		gateway_stop(gateway, 0);
		CHECK(count_open() == running);
		gateway_notice(gateway);
		gateway_free(gateway);
	}
	close(listener);
	CHECK(count_open() == before);
	close(netns);
	boxes_done(&boxes);
	return tap_done();
}
