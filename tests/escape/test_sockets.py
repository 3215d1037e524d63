"""What is in the buffers of sockets belongs to the memory of a box."""

import shlex
from pathlib import Path

import pytest

from harness import eventually

MIB = 1 << 20
PAGE = 4096

# Fills pairs of sockets that nobody reads, and keeps them until a file is there.
FILL = """
import os, resource, socket, time
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))

def pair(kind):
    if kind == "unix":
        return socket.socketpair()
    one, two = (socket.socket(socket.AF_INET, kind) for _ in range(2))
    two.bind(("127.0.0.1", 0))
    if kind == socket.SOCK_STREAM:
        two.listen()
        one.connect(two.getsockname())
        two, _ = two.accept()
    else:
        one.connect(two.getsockname())
    return one, two

kept, kind, count = [], {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}.get("KIND", "unix"), COUNT
for _ in range(count):
    kept.append(pair(kind))
    one = kept[-1][0]
    one.setblocking(False)
    try:
        for _ in range(50 if kind == socket.SOCK_DGRAM else 10000):
            one.send(bytes(8192))
    except OSError:
        pass
open("/tmp/full", "w").close()
while not os.path.exists("/tmp/over"):
    time.sleep(0.05)
"""


def in_sockets():
    """Bytes in buffers of TCP and of UDP, of the whole machine."""
    lines = dict(line.split(":") for line in Path("/proc/net/sockstat").read_text().splitlines())
    return {name: int(lines[name.upper()].split("mem")[1]) * PAGE for name in ("tcp", "udp")}


@pytest.mark.parametrize("kind, count", [("tcp", 30), ("udp", 700)])
def test_unread_sockets_hold_no_more_than_a_part_of_the_memory(start_box, kind, count):
    """Without a limit of their own they would hold more than the memory of the box."""
    box = start_box(memory=64 * MIB)
    before = in_sockets()[kind]
    code = shlex.quote(FILL.replace("KIND", kind).replace("COUNT", str(count)))
    assert box.post("/v1/bash/exec", command=f"/usr/bin/python3 -c {code}", async_mode=True)["message"] == "Command started"
    assert eventually(lambda: box.run("test -e /tmp/full")["exit_code"] == 0, 90)
    assert in_sockets()[kind] - before < 48 * MIB
    assert box.out("touch /tmp/over; echo alive") == "alive\n"


def test_unread_unix_sockets_count_as_memory(start_box):
    box = start_box(memory=256 * MIB)  # more than what starts its commands has with a sanitizer
    code = shlex.quote(FILL.replace("KIND", "unix").replace("COUNT", "3000"))
    box.run(f"touch /tmp/over; /usr/bin/python3 -c {code}")
    assert box.usage()["memory_peak"] < (256 + 64) * MIB
    assert box.out("echo alive") == "alive\n"


def test_a_small_box_sends_much_to_itself(start_box):
    box = start_box(memory=32 * MIB)
    code = """
import socket, threading
to = socket.create_server(("127.0.0.1", 0))
def send():
    with socket.create_connection(to.getsockname()) as one:
        for _ in range(64): one.sendall(bytes(1 << 20))
threading.Thread(target=send).start()
total, (two, _) = 0, to.accept()
while data := two.recv(1 << 16): total += len(data)
print(total)
"""
    assert box.out(f"/usr/bin/python3 -c {shlex.quote(code)}") == f"{64 * MIB}\n"
