#include "net/ws.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/utf8.h"

enum { MESSAGE_MAX = 1000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first byte chooses the role, the second how much of the rest comes with the handshake. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int pair[2];
	if (size < 2 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		return 0;
	size_t early = data[1] < size - 2 ? data[1] : size - 2;
	(void)!send(pair[0], data + 2 + early, size - 2 - early, MSG_DONTWAIT);
	shutdown(pair[0], SHUT_WR);
	struct ws *ws =
		ws_new(pair[1], data[0] & 1 ? WS_CLIENT : WS_SERVER, data + 2, early, MESSAGE_MAX);
	struct ws_message message;
	ws_set_send_timeout_ms(ws, 0);
	while (ws_recv(ws, &message, 0, NULL) == 1)
		if (message.len > MESSAGE_MAX ||
		    (message.opcode == WS_TEXT && !utf8_valid(message.data, message.len)))
			abort();
	ws_free(ws);
	close(pair[0]);
	close(pair[1]);
	return 0;
}
