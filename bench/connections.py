"""Connections: many that are idle, and many that are new.

Memory is the RSS of the server and its first stage, libraries included: more than is theirs alone. What the
kernel needs for a socket is not in it: some 3.5 KiB for each, which no server can change."""
import contextlib
import resource
import socket
import subprocess
import sys
import time

import measure
import peers
from measure import in_turns, median, ratio, wrk

FEW, MANY, SHARE = 5000, 50000, 10000  # what one client process has


def limit_files(count):
    """Raises the limit of descriptors to that, or as far as it goes; returns it."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(count, hard), max(count, hard)))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


# --- idle ones ---------------------------------------------------------------------------------
def hold(port, address, count):
    """What a client process does: so many connections from one address. For each line that it reads, it asks once
    on each of them, and says how many did not answer."""
    socks = [socket.create_connection(("127.0.0.1", port), 30, (address, 0)) for _ in range(count)]
    for _ in sys.stdin:
        print(sum(not measure.ask(sock, "/health") for sock in socks), flush=True)


class Crowd:
    """Idle connections of several processes, each with an address of its own: an address has only so many ports."""

    def __init__(self, port, count):
        sizes = [min(SHARE, count - at) for at in range(0, count, SHARE)]
        self.clients = [subprocess.Popen([sys.executable, __file__, str(port), f"127.0.0.{number + 2}", str(size)],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                        for number, size in enumerate(sizes)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for client in self.clients:
            client.communicate()

    def ask(self):
        """How many requests failed, of one on each connection."""
        for client in self.clients:
            client.stdin.write("\n")
            client.stdin.flush()
        return sum(int(client.stdout.readline() or SHARE) for client in self.clients)


@contextlib.contextmanager
def crowded(count):
    """A server and its crowd."""
    with peers.aio("--max-connections", str(count + 1000)) as server, Crowd(server.port, count) as crowd:
        yield server, crowd


def rested(server):
    """Its memory, once threads that were needed at first have ended."""
    time.sleep(7)
    return server.memory()[0]


def idle(line):
    """One server without and one with idle connections, so that the two can take turns."""
    room = limit_files(MANY + 1000)
    count = min(FEW, room // 2)
    with peers.aio() as alone, crowded(count) as (loaded, crowd):
        errors = crowd.ask()
        rss, fresh = rested(loaded), alone.memory()[0]
        a, b = in_turns(5, lambda: wrk(loaded.url("/health"), 1, 1), lambda: wrk(alone.url("/health"), 1, 1))
        errors += sum(got["errors"] for got in a + b) + crowd.ask()
    p99 = [[got["p99"] for got in side] for side in (a, b)]
    r = ratio(*p99)
    what = f"{count:,} idle connections"
    yield line(f"{what}: errors", f"{errors}", "", None, "0", errors == 0 and count == FEW)
    yield line(f"{what}: another client's p99", f"{median(p99[0]):.0f} µs", f"none idle {median(p99[1]):.0f} µs", r,
               "< 3 ×", r < 3)
    yield line(f"{what}: RSS", f"{rss:.1f} MiB", f"none idle {fresh:.1f} MiB", None, "≤ 40 MiB", rss <= 40)
    count = min(MANY, room - 200)
    with crowded(count) as (loaded, crowd):
        errors = crowd.ask()
        rss = rested(loaded)
        errors += crowd.ask()
    what = f"{count:,} idle connections" + (", as many as may be open here" if count < MANY else "")
    yield line(f"{what}: errors", f"{errors}", "", None, "0", errors == 0)
    yield line(f"{what}: RSS", f"{rss:.1f} MiB", f"none idle {fresh:.1f} MiB", None, f"≤ 200 MiB for {MANY:,}",
               rss <= 200 if count == MANY else None)


# --- new ones ----------------------------------------------------------------------------------
def new(line, path):
    def rate(server):
        got = wrk(server.url(path), 32, 1, setup="wrk.headers['Connection'] = 'close'\n")
        if got["errors"]:
            raise RuntimeError(f"{got['errors']} errors on port {server.port}")
        return got["rate"]

    with peers.aio() as ours, peers.nginx(*ours.get(path)) as nginx:
        a, n = in_turns(7, lambda: rate(ours), lambda: rate(nginx))
    yield line(f"GET {path}, a new connection each", f"{median(a):,.0f}/s", f"nginx {median(n):,.0f}/s", ratio(a, n), "")


if __name__ == "__main__":
    hold(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
