"""A host that stops and leaves its boxes: what has an end of its own gets time for it, what has none is cut at once."""

import select
import signal
import time

from harness import eventually
from hosts import to


def is_open(sock):
    """Nothing came, and no end: a look, which waits for nothing."""
    return not select.select([sock], [], [], 0)[0]


def test_streams_without_an_end_do_not_hold_it_up(start_host):
    assert eventually(lambda: stops(start_host())), "the machine is too slow"


def stops(host):
    """False when the machine was too slow to tell: the host waits for 5 s."""
    box = host.create()
    with host.connect() as events, host.connect() as command:
        events.send(to(box, "/v1/sandbox/events?follow=true", headers={"Accept": "text/event-stream"}))
        assert events.head().status == 200
        command.send(to(box, "/v1/bash/exec", "POST", {"Content-Type": "application/json"},
                        body=b'{"command": "touch /tmp/runs; sleep 600"}'))
        assert eventually(lambda: box.run("ls -d /tmp/runs || true") == "/tmp/runs\n")
        began = time.monotonic()
        host.proc.send_signal(signal.SIGTERM)
        while events.sock.recv(1 << 16):
            pass
        waits = is_open(command.sock)
        quick = time.monotonic() - began < 4
        assert waits or not quick, "the command's request was not given its time"
        return quick
