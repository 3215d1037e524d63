"""Rows about previews: a program's port, through `aio serve` and through nginx, which pass on to the same server."""
import base64
import contextlib
import os
import pathlib
import socket
import struct
import sys
import tempfile
import time

import peers
from measure import in_turns, median, ratio, wrk

SIZE = 100_000_000
SMALL = b'{"status": "ok", "items": [1, 2, 3]}'

# One server for both proxies. The file is in the page cache.
UPSTREAM = """\
{user}
worker_processes auto;
daemon off;
pid nginx.pid;
error_log stderr error;
events {{ worker_connections 4096; }}
http {{
	access_log off;
	keepalive_requests 1000000000;
	client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;
	sendfile on;
	server {{
		listen 127.0.0.1:{port} backlog=4096;
		root .;
		location /absproxy/ {{ rewrite ^/absproxy/[0-9]+(/.*) $1 last; }}
		location = /small {{ default_type application/json; return 200 '{small}'; }}
	}}
}}
"""

PROXY = """\
{user}
worker_processes auto;
daemon off;
pid nginx.pid;
error_log stderr error;
events {{ worker_connections 4096; }}
http {{
	access_log access.log combined;
	keepalive_requests 1000000000;
	client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;
	upstream program {{ server 127.0.0.1:{upstream}; keepalive 32; keepalive_requests 1000000000; }}
	server {{
		listen 127.0.0.1:{port} backlog=4096;
		location / {{
			proxy_pass http://program;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
		}}
	}}
}}
"""


@contextlib.contextmanager
def nginx(conf, **more):
    port = peers.free_port()
    with tempfile.TemporaryDirectory(prefix="aio-bench.") as folder:
        pathlib.Path(folder, "nginx.conf").write_text(
            conf.format(user="user root;" if os.getuid() == 0 else "", port=port, **more))
        if conf is UPSTREAM:
            pathlib.Path(folder, "large").write_bytes(os.urandom(1 << 20) * (SIZE >> 20) + bytes(SIZE % (1 << 20)))
        argv = ["nginx", "-p", folder, "-c", "nginx.conf", "-e", "stderr"]
        env = {**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin"}
        with peers.server(folder, port, argv, env) as it:
            yield it


def download(port, path):
    """MB/s of one response, read in large pieces and thrown away."""
    piece = bytearray(1 << 20)
    with socket.create_connection(("127.0.0.1", port), 60) as sock:
        begin = time.perf_counter()
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += sock.recv(65536)
        got = len(head.partition(b"\r\n\r\n")[2])
        while n := sock.recv_into(piece):
            got += n
        took = time.perf_counter() - begin
    if not head.startswith(b"HTTP/1.1 200") or got != SIZE:
        raise RuntimeError(f"{got} bytes of {path}: {head[:60]!r}")
    return got / 1e6 / took


def small(port, path):
    got = wrk(f"http://127.0.0.1:{port}{path}", 32, 2)
    if got["errors"]:
        raise RuntimeError(f"{got['errors']} errors on port {port}")
    return got["rate"]


class Echo:
    """A WebSocket of little cost of its own: what it sends comes back."""

    def __init__(self, port, path):
        self.sock = socket.create_connection(("127.0.0.1", port), 30)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        key = base64.b64encode(os.urandom(16)).decode()
        self.sock.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                          f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode())
        head = self.sock.recv(65536)
        if not head.startswith(b"HTTP/1.1 101") or not head.endswith(b"\r\n\r\n"):
            raise RuntimeError(f"no WebSocket at {path}: {head[:80]!r}")

    def __call__(self):
        """Microseconds until one message of 64 bytes is back, the median of 500."""
        frame = struct.pack("!BBI", 0x81, 0x80 | 64, 0) + b"x" * 64
        times = []
        for _ in range(500):
            begin = time.perf_counter()
            self.sock.sendall(frame)
            got = b""
            while len(got) < 66:
                got += self.sock.recv(4096)
            times.append((time.perf_counter() - begin) * 1e6)
        return median(times)


@contextlib.contextmanager
def echo(*argv):
    port = peers.free_port()
    with tempfile.TemporaryDirectory(prefix="aio-bench.") as folder, \
            peers.server(folder, port, [*argv, *([port] if sys.executable in argv else ["--listen", f"127.0.0.1:{port}"])],
                         {**os.environ, "HOME": folder}) as it:
        yield it


def rows(line):
    with nginx(UPSTREAM, small=SMALL.decode()) as upstream, peers.aio() as ours, \
            nginx(PROXY, upstream=upstream.port) as theirs:
        large = f"/absproxy/{upstream.port}/large"
        a, n = in_turns(11, lambda: download(ours.port, large), lambda: download(theirs.port, large))
        r = ratio(a, n)
        yield line("preview of 100 MB", f"{median(a):,.0f} MB/s", f"nginx {median(n):,.0f} MB/s", r, "≥ 0.9 ×", r >= 0.9)
        path = f"/absproxy/{upstream.port}/small"
        if ours.get(path)[0] != SMALL or theirs.get(path)[0] != SMALL:
            raise RuntimeError("the two do not answer with the same bytes")
        a, n = in_turns(7, lambda: small(ours.port, path), lambda: small(theirs.port, path))
        r = ratio(a, n)
        yield line("preview of a small GET, 32 connections", f"{median(a):,.0f}/s", f"nginx {median(n):,.0f}/s", r, "≥ 0.8 ×", r >= 0.8)
    for who, argv, most in (("websockets", [sys.executable, peers.ROOT / "bench/echo_peer.py"], 2),
                            ("in C", [peers.ROOT / "build/fixture"], None)):
        with echo(*argv) as program, peers.aio() as ours:
            a, d = in_turns(11, Echo(ours.port, f"/proxy/{program.port}/ws/echo"), Echo(program.port, "/ws/echo"))
            r = ratio(a, d)
            yield line(f"WebSocket echo ({who}) through a preview, p50", f"{median(a):.0f} µs", f"direct {median(d):.0f} µs",
                       r, f"≤ {most} ×" if most else "", r <= most if most else None)
