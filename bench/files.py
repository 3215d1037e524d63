"""Rows about files: each yields (what, ours, peer and theirs, ratio, bar, whether it is met)."""
import contextlib
import http.client
import json
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import time

import peers
from measure import Caller, in_turns, median, ratio, wrk

GIB = 1 << 30
STATIC_CONF = """\
{user}
worker_processes auto;
daemon off;
pid nginx.pid;
error_log stderr error;
events {{ worker_connections 1024; }}
http {{
	access_log access.log combined;
	sendfile on;
	tcp_nopush on;
	client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4;
	scgi_temp_path t5;
	server {{ listen 127.0.0.1:{port}; root {root}; }}
}}
"""


@contextlib.contextmanager
def nginx_files(root):
    """nginx with the files of a folder, sent as fast as it can."""
    port = peers.free_port()
    with tempfile.TemporaryDirectory(prefix="aio-bench.") as folder:
        user = "user root;" if os.getuid() == 0 else ""
        pathlib.Path(folder, "nginx.conf").write_text(STATIC_CONF.format(user=user, port=port, root=root))
        argv = ["nginx", "-p", folder, "-c", "nginx.conf", "-e", "stderr"]
        env = {**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin"}
        with peers.server(folder, port, argv, env) as it:
            yield it


@contextlib.contextmanager
def gibibyte():
    """The path of a file of that size, in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="aio-bench.") as folder:
        path = os.path.join(folder, "large")
        block = os.urandom(1 << 20)
        with open(path, "wb") as file:
            for _ in range(1024):
                file.write(block)
        yield path


def fetch(port, target):
    """GiB/s of a download, read with as little of our own as can be."""
    room = bytearray(1 << 20)
    with socket.create_connection(("127.0.0.1", port), 30) as sock:
        begin = time.perf_counter()
        sock.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        size = 0
        while got := sock.recv_into(room):
            size += got
        took = time.perf_counter() - begin
    if not GIB < size < GIB + 4096:
        raise RuntimeError(f"{size} bytes came from port {port}")
    return 1 / took


def file_download():
    with gibibyte() as path, peers.aio() as ours, nginx_files(os.path.dirname(path)) as nginx:
        a, n = in_turns(7, lambda: fetch(ours.port, f"/v1/file/download?path={path}"),
                        lambda: fetch(nginx.port, "/large"))
    r = ratio(a, n)
    yield ("download 1 GiB", f"{median(a):.2f} GiB/s", f"nginx {median(n):.2f} GiB/s", r, "≥ 0.9 ×", r >= 0.9)


def send(port, path, to):
    """GiB/s of an upload."""
    head = (f'--b\r\nContent-Disposition: form-data; name="path"\r\n\r\n{to}\r\n'
            '--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n').encode()
    tail = b"\r\n--b--\r\n"
    length = len(head) + GIB + len(tail)
    with open(path, "rb") as file, socket.create_connection(("127.0.0.1", port), 60) as sock:
        begin = time.perf_counter()
        sock.sendall(f"POST /v1/file/upload HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n"
                     "Content-Type: multipart/form-data; boundary=b\r\n\r\n".encode() + head)
        sock.sendfile(file)
        sock.sendall(tail)
        answer = http.client.HTTPResponse(sock)
        answer.begin()
        body = json.loads(answer.read())
        took = time.perf_counter() - begin
    if body["data"]["file_size"] != GIB:
        raise RuntimeError(str(body)[:80])
    os.unlink(to)
    return 1 / took


def pipe(path, to):
    begin = time.perf_counter()
    subprocess.run(f"cat {path} | cat >{to}", shell=True, check=True)
    took = time.perf_counter() - begin
    os.unlink(to)
    return 1 / took


def file_upload():
    with gibibyte() as path, peers.aio() as ours:
        to = path + ".copy"
        a, b = in_turns(5, lambda: send(ours.port, path, to), lambda: pipe(path, to))
    r = ratio(a, b)
    yield ("upload 1 GiB", f"{median(a):.2f} GiB/s", f"cat | cat >file {median(b):.2f} GiB/s", r, "≥ 0.5 ×", r >= 0.5)


def file_read():
    with tempfile.NamedTemporaryFile("w", prefix="aio-bench.") as file, peers.aio() as ours, \
            peers.fastapi(ours.get("/v1/sandbox")[0]) as fastapi:
        file.write(("0123456789abcde" * 4 + "abc\n") * 64)
        file.flush()
        assert os.path.getsize(file.name) == 4096
        body = json.dumps({"file": file.name})
        setup = (f"wrk.method = 'POST'\nwrk.body = '{body}'\n"
                 "wrk.headers['Content-Type'] = 'application/json'\n")

        def rate(server):
            got = wrk(server.url("/v1/file/read"), 32, 1, setup)
            if got["errors"]:
                raise RuntimeError(f"{got['errors']} errors on port {server.port}")
            return got["rate"]

        a, f = in_turns(5, lambda: rate(ours), lambda: rate(fastapi))
    r = ratio(a, f)
    yield ("read a 4 KiB file, 32 connections", f"{median(a):,.0f}/s", f"FastAPI {median(f):,.0f}/s", r, "≥ 5 ×", r >= 5)


def write_here(path, data):
    """Milliseconds of a file that is written beside another and takes its place."""
    begin = time.perf_counter()
    with open(path + ".new", "wb") as file:
        file.write(data)
    os.rename(path + ".new", path)
    return (time.perf_counter() - begin) * 1e3


def file_write():
    data = ("0123456789abcde" * 4 + "abc\n") * 64
    with tempfile.TemporaryDirectory(prefix="aio-bench.") as folder, peers.aio() as ours:
        path = os.path.join(folder, "file")
        call = Caller(ours.port, "/v1/file/write", {"file": path, "content": data})
        a, w = in_turns(7, lambda: median([call() for _ in range(200)]),
                        lambda: median([write_here(path + ".peer", data.encode()) for _ in range(200)]))
    yield ("write a 4 KiB file, p50", f"{median(a):.3f} ms", f"write and rename {median(w):.3f} ms", ratio(a, w), "", None)


def ask_list(port, path):
    """Milliseconds of a listing."""
    body = json.dumps({"path": path, "include_permissions": True}).encode()
    room = bytearray(1 << 20)
    with socket.create_connection(("127.0.0.1", port), 30) as sock:
        begin = time.perf_counter()
        sock.sendall(b"POST /v1/file/list HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                     b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        tail, size = b"", 0
        while got := sock.recv_into(room):
            size += got
            tail = (tail + bytes(room[max(0, got - 200):got]))[-200:]
        took = time.perf_counter() - begin
    if not re.search(rb'"total_count":100000,', tail):
        raise RuntimeError(f"the listing of {size} bytes ends with {tail[-60:]!r}")
    return took * 1000


def ask_find(path):
    begin = time.perf_counter()
    subprocess.run(["find", path, "-maxdepth", "1", "-printf", "%f %s %T+ %m\\n"], check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - begin) * 1000


def file_list():
    with tempfile.TemporaryDirectory(prefix="aio-bench.") as folder, peers.aio() as ours:
        for i in range(100_000):
            os.mknod(os.path.join(folder, f"file-{i * 7919 % 100_000:06}.txt"))
        a, f = in_turns(5, lambda: ask_list(ours.port, folder), lambda: ask_find(folder))
    r = ratio(a, f)
    yield ("list 100,000 entries", f"{median(a):.0f} ms", f"find {median(f):.0f} ms", r, "≤ 2 ×", r <= 2)
