"""A box's server that means harm: whatever it says, other boxes' clients and the host stay well."""

import array
import contextlib
import os
import re
import socket
import struct
import threading
import time

import httpx
import pytest
from harness import ANSWER_SECONDS, eventually, request
from hosts import FakeServer, answer, to


def once(data, then=None):
    """A server that answers the first request of each stream with these bytes."""

    def serve(fake, conn):
        fake.read_head(conn)
        conn.sendall(data)
        if then:
            then(conn)
        conn.recv(1)

    return serve


def test_a_101_that_nobody_asked_for_is_no_tunnel(host, box):
    switch = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"
    with FakeServer(box, once(switch)) as fake, host.connect() as peer:
        got = peer.ask(to(box))
        assert got.status == 502 and "without having been asked" in got.json()["detail"]
        # The next request, meant for another box, never reaches this one.
        with pytest.raises(OSError):
            peer.send(to(host.default(), "/health") + b"x" * 100)
            assert peer.ended()
            raise ConnectionError
        assert len(fake.heads) == 1


def test_a_101_after_a_100_is_none_either(host, box):
    data = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 101 Switching Protocols\r\n\r\n"
    with FakeServer(box, once(data)), host.connect() as peer:
        peer.send(to(box))
        assert peer.head().status == 100
        assert peer.answer().status == 502 and peer.ended()


@pytest.mark.parametrize("status", ["000", "001", "099"])
def test_a_status_below_100_is_none(host, box, status):
    data = answer(status=f"{status} Odd", length=False)
    with FakeServer(box, once(data + answer(b"for whom?"))), host.connect() as peer:
        assert peer.ask(to(box)).status == 502 and peer.ended()


def test_surplus_bytes_close_both_sides(host, box):
    extra = answer(b"ok") + answer(b"for another box's client")
    with FakeServer(box, once(extra)), host.connect() as peer:
        assert peer.ask(to(box)).body == b"ok"
        assert peer.ended()


def test_surplus_bytes_that_come_later_close_both_sides(host, box):
    late = threading.Event()

    def then(conn):
        late.wait(ANSWER_SECONDS)
        conn.sendall(answer(b"poison"))

    with FakeServer(box, once(answer(b"ok"), then)), host.connect() as peer:
        assert peer.ask(to(box)).body == b"ok"
        late.set()
        assert peer.ended()


def test_surplus_bytes_never_answer_another_box(host, box):
    """The client goes on to another box before the surplus comes: it is that box's answer it gets."""
    late, came = threading.Event(), threading.Event()

    def then(conn):
        late.wait(ANSWER_SECONDS)
        try:
            conn.sendall(answer(b"poison"))
        finally:  # the host may have closed it by now
            came.set()

    def other(fake, conn):
        fake.read_head(conn)
        late.set()
        came.wait(ANSWER_SECONDS)
        conn.sendall(answer(b"its own"))
        conn.recv(1)

    with FakeServer(box, once(answer(b"ok"), then)), FakeServer(host.default(), other), host.connect() as peer:
        assert peer.ask(to(box)).body == b"ok"
        assert peer.ask(to(host.default())).body == b"its own"


def test_surplus_bytes_that_may_be_faster_never_answer_another_box(host, box):
    """If they are, the connection ends."""

    def ask():
        late = threading.Event()

        def then(conn):
            late.wait(ANSWER_SECONDS)
            conn.sendall(answer(b"poison"))

        with FakeServer(box, once(answer(b"ok"), then)), host.connect() as peer:
            assert peer.ask(to(box)).body == b"ok"
            peer.send(to(host.default(), "/health"))
            late.set()
            try:
                return peer.answer().body
            except (ConnectionError, EOFError):
                return None

    assert {ask() for _ in range(5)} <= {b"OK", None}


@pytest.mark.parametrize("data", [
    b"garbage\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
    b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok",
    b"HTTP/1.1 200 OK\r\nX: a\r\n b: folded\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n",
    b"HTTP/1.1 200 OK\r\nA: " + b"x" * 200_000 + b"\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
], ids=["garbage", "two-lengths", "length-and-chunked", "bare-lf", "negative", "folded", "coding", "many",
        "large", "tls"])
def test_an_answer_that_is_not_clean_is_a_502(host, box, data):
    with FakeServer(box, once(data)), host.connect() as peer:
        assert peer.ask(to(box)).status == 502
        assert peer.ended()


def test_nothing_but_interim_answers(host, box):
    def serve(fake, conn):
        fake.read_head(conn)
        for _ in range(10_000):
            conn.sendall(b"HTTP/1.1 102 Processing\r\n\r\n")

    with FakeServer(box, serve), host.connect() as peer:
        peer.send(to(box))
        count = 0
        while (head := peer.head()).status == 102:
            count += 1
        assert head.status == 502 and count <= 16


def test_an_answer_without_length_ends_the_connection(host, box):
    def serve(fake, conn):
        fake.read_head(conn)
        conn.sendall(answer(b"all of it", length=False))
        conn.close()

    with FakeServer(box, serve), host.connect() as peer:
        got = peer.ask(to(box))
        assert got.body == b"all of it" and got["connection"] == "close"


def test_chunks_are_framed_anew(host, box):
    """Extensions, leading zeros and trailers of a box never reach the client's parser."""
    data = (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"0005;x=\"y\"\r\nhello\r\n6\r\n world\r\n0\r\nTrailer: evil\r\n\r\n")
    with FakeServer(box, once(data)), host.connect() as peer:
        peer.send(to(box))
        assert peer.head()["transfer-encoding"] == "chunked"
        while b"0\r\n\r\n" not in peer.data and peer.more():
            pass
        raw = bytes(peer.data)
        assert b"evil" not in raw and b";" not in raw and raw.endswith(b"0\r\n\r\n")
        pieces = raw.split(b"\r\n")
        assert b"".join(pieces[1::2]) == b"hello world"


def test_broken_chunks_cut_the_connection(host, box):
    data = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloXX9\r\n"
    with FakeServer(box, once(data)), host.connect() as peer:
        assert not peer.ask(to(box)).complete


def test_a_short_body_cuts_the_connection(host, box):
    def serve(fake, conn):
        fake.read_head(conn)
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")
        conn.close()

    with FakeServer(box, serve), host.connect() as peer:
        got = peer.ask(to(box))
        assert got.body == b"short" and not got.complete


def test_no_length_for_a_204(host, box):
    """A client that believes it would wait for bytes of the next answer."""
    with FakeServer(box, once(b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n")), host.connect() as peer:
        got = peer.ask(to(box))
        assert got.status == 204 and got["content-length"] is None
        assert peer.ask(to(host.default(), "/health")).body == b"OK"


def test_closing_without_an_answer(host, box):
    with FakeServer(box, lambda fake, conn: (fake.read_head(conn), conn.close())), host.connect() as peer:
        assert peer.ask(to(box)).status == 502


def test_a_stream_is_never_shared(host, box):
    """Two clients, one box: two streams, each with its own client's requests only."""
    seen = {}

    def serve(fake, conn):
        while head := fake.read_head(conn):
            seen.setdefault(id(conn), []).append(head.split()[1])
            conn.sendall(answer())

    with FakeServer(box, serve), host.connect() as a, host.connect() as b:
        for i in range(3):
            a.ask(to(box, f"/a{i}"))
            b.ask(to(box, f"/b{i}"))
    assert sorted(seen.values()) == [["/a0", "/a1", "/a2"], ["/b0", "/b1", "/b2"]]


def test_descriptors_sent_by_a_box_do_not_stop_the_host(host, box):
    """CVE class: a TCP socket with unsent data and SO_LINGER is closed by whoever receives it, which
    takes as long as the linger says. Others must not wait for that."""
    lingers, sent = 90, threading.Event()
    sink = socket.create_server(("127.0.0.1", 0))
    sink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)

    def serve(fake, conn):
        fake.read_head(conn)
        bomb = socket.create_connection(sink.getsockname())
        bomb.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, lingers))
        bomb.setblocking(False)
        try:
            while bomb.send(b"x" * 65536):
                pass
        except BlockingIOError:
            pass
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [bomb.fileno()]))]
        try:
            conn.sendmsg([answer()], rights)
        except OSError:
            conn.sendall(answer())  # the kernel refused the descriptor
        sent.set()
        bomb.close()  # which lingers here if the kernel refused it there
        conn.recv(1)

    with FakeServer(box, serve), host.connect() as peer, host.connect() as other:
        peer.send(to(box))
        assert sent.wait(ANSWER_SECONDS)
        slowest = 0
        for _ in range(40):
            begin = time.monotonic()
            assert other.ask(to(host.default(), "/health")).body == b"OK"
            slowest = max(slowest, time.monotonic() - begin)
        assert slowest < lingers / 2
        sink.close()  # which ends the lingering
        assert peer.answer().status == 200


def test_a_box_that_takes_nothing_is_not_buffered_for(host, box):
    """Its client's upload stops; the host's memory does not grow with it."""

    def serve(fake, conn):
        fake.read_head(conn)
        stop.wait(ANSWER_SECONDS)

    def rss():
        with open(f"/proc/{host.pid}/statm") as file:
            return int(file.read().split()[1]) * 4096

    stop = threading.Event()
    with FakeServer(box, serve), host.connect() as peer:
        before = rss()
        peer.sock.settimeout(1)  # for so long nothing is taken: that is the end of it
        sent = 0
        peer.send(to(box, method="POST", headers={"Content-Length": 1 << 30}))
        with pytest.raises(TimeoutError):
            while sent < 200 << 20:
                sent += peer.sock.send(b"x" * (1 << 20))
        assert sent < 64 << 20 and rss() - before < 16 << 20
        stop.set()


def test_a_client_that_takes_nothing_is_not_buffered_for(host, box):
    taken, stopped = [], threading.Event()

    def serve(fake, conn):
        fake.read_head(conn)
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (1 << 30))
        conn.settimeout(1)  # for so long nothing is taken: that is the end of it
        try:
            while sum(taken) < 200 << 20:
                taken.append(conn.send(b"x" * (1 << 20)))
        except TimeoutError:
            pass
        stopped.set()

    with FakeServer(box, serve), host.connect() as peer:
        peer.send(to(box))
        assert stopped.wait(ANSWER_SECONDS)
        assert 0 < sum(taken) < 64 << 20


# --- pages of boxes ----------------------------------------------------------------------------

ACTIVE = answer(b"<script>1</script>", headers=[
    "Content-Type: text/html", "Set-Cookie: a=b; Domain=localhost; Path=/", "Set-Cookie: aio_box=forged",
    "Service-Worker-Allowed: /", "Clear-Site-Data: \"*\"", "NEL: {}", "Report-To: {}",
    "Content-Security-Policy: default-src 'self'"])


def serve_page(fake, conn):
    while fake.read_head(conn):
        conn.sendall(ACTIVE)


def policies(got):
    return [value for name, value in got.headers if name.lower() == "content-security-policy"]


@pytest.mark.parametrize("way", ["header", "path"])
def test_on_the_shared_address_a_page_of_a_box_has_no_origin(host, box, way):
    with FakeServer(box, serve_page), host.connect() as peer:
        ask = to(box) if way == "header" else request(f"/s/{box.id}/x", headers={
            "Authorization": f"Bearer {box.token}"})
        got = peer.ask(ask)
    assert got.body == b"<script>1</script>"
    sandbox = [policy for policy in policies(got) if policy.startswith("sandbox")]
    assert sandbox and "allow-same-origin" not in sandbox[0]
    assert got["x-content-type-options"] == "nosniff"
    # No cache takes it for the answer of another box to the same address.
    assert any("x-aio-sandbox" in value.lower() for name, value in got.headers if name.lower() == "vary")
    for name in ("set-cookie", "service-worker-allowed", "clear-site-data", "nel", "report-to"):
        assert got[name] is None


def test_at_its_own_origin_a_page_keeps_cookies_for_that_name_alone(host, box):
    with FakeServer(box, serve_page), host.connect() as peer:
        got = peer.ask(request("/", host=f"{box.id}.localhost", headers={"Authorization": f"Bearer {box.token}"}))
    cookies = [value for name, value in got.headers if name.lower() == "set-cookie"]
    assert cookies == ["a=b; Path=/"]
    assert policies(got) == ["default-src 'self'"]


def test_no_service_worker_on_the_shared_address(host, box):
    with FakeServer(box, serve_page) as fake, host.connect() as peer:
        assert peer.ask(to(box, "/sw.js", headers={"Service-Worker": "script"})).status == 403
        assert fake.heads == []


def test_the_products_own_pages_come_from_the_host(host):
    """On the plain address no box can put something else in their place."""
    default = host.default()
    with FakeServer(default, serve_page) as fake:
        for path in ("/", "/v1/docs", "/terminal", "/favicon.ico"):
            got = host.client.get(path, follow_redirects=True)
            assert got.status_code == 200 and b"<script>1<" not in got.content
            assert "sandbox" not in got.headers.get("content-security-policy", "")
        assert fake.heads == []


def test_a_page_of_one_box_cannot_call_another(host, box):
    """Its origin is not the other's; and it cannot name another by header from its own."""
    default = host.default()
    origin = f"http://{box.id}.localhost:{host.port}"
    body = {"command": "true"}
    got = host.client.post("/v1/bash/exec", headers={"Origin": origin}, json=body)
    assert got.status_code == 403
    got = host.client.post("/v1/bash/exec", json=body, headers={
        "Host": f"{box.id}.localhost:{host.port}", "Origin": origin, "x-aio-sandbox": default.id,
        "Authorization": f"Bearer {box.token}"})
    assert got.status_code == 200 and got.json()["data"]["exit_code"] == 0
    got = host.client.post("/v1/bash/exec", json={"command": "hostname"}, headers={
        "Host": f"{box.id}.localhost:{host.port}", "Origin": origin, "x-aio-sandbox": default.id,
        "Authorization": f"Bearer {box.token}"})
    assert got.json()["data"]["stdout"].strip() == box.id
    got = host.client.post("/v1/sandboxes", headers={"Origin": origin, **host.auth}, json={})
    assert got.status_code == 403


def test_foreign_host_names_are_refused(host):
    got = host.client.get("/v1/sandbox", headers={"Host": "evil.example"})
    assert got.status_code == 403


# --- what a box sees ---------------------------------------------------------------------------

def test_a_box_never_sees_a_credential_that_opens_something(host, box):
    def serve(fake, conn):
        while fake.read_head(conn):
            conn.sendall(answer())

    with FakeServer(box, serve) as fake, host.connect() as peer:
        secrets = {
            "Authorization": f"Bearer {box.token}", "X-AIO-API-Key": box.token, "Cookie": "aio_box=t; mine=1",
            "X-AIO-Anything": "forged", "X-AIO-Box": "default", "X-Forwarded-Prefix": "//forged",
            "Proxy-Authorization": "Basic x",
        }
        assert peer.ask(request(f"/s/{box.id}/a/b?api_key={box.token}&x=1&%74icket=t&y", headers=secrets,
                                host="127.0.0.1")).status == 200
    head = fake.heads[0]
    line, *rest = head.split("\r\n")
    assert line == "GET /a/b?x=1&y HTTP/1.1"
    headers = {name.lower(): value for name, _, value in (row.partition(": ") for row in rest if row)}
    assert box.token not in head and host.token not in head and "forged" not in head
    assert headers["cookie"] == "mine=1" and headers["x-forwarded-prefix"] == f"/s/{box.id}"
    assert headers["x-forwarded-for"] == "127.0.0.1" and headers["host"] == "127.0.0.1"
    assert "authorization" not in headers and len(headers["x-aio-api-key"]) == 32
    assert {name for name in headers if name.startswith("x-aio-")} == {"x-aio-api-key"}


def test_without_the_kernels_help_a_box_keeps_only_itself_waiting(start_host):
    """Where descriptors cannot be refused, a thread of the box reads its sockets."""
    host = start_host(env={"AIO_NO_PASSRIGHTS": "1"})

    def polls():
        folder, names = f"/proc/{host.pid}/fd", []
        for fd in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError):
                names.append(os.readlink(f"{folder}/{fd}"))
        return names.count("anon_inode:[eventpoll]")

    before = polls()
    box = host.create()
    test_descriptors_sent_by_a_box_do_not_stop_the_host(host, box)
    assert box.run("echo $((6*7))") == "42\n"
    big = box.run("head -c 3000000 /dev/zero | tr '\\0' x", max_output_length=0)
    assert len(big) == 3_000_000

    # Threads of boxes that are gone, or that nobody calls, are gone too.
    for _ in range(3):
        other = host.create()
        assert other.run("echo here") == "here\n"
        other.delete()
    host.client.close()
    host.client = httpx.Client(base_url=host.url, timeout=ANSWER_SECONDS, trust_env=False)
    assert eventually(lambda: polls() <= before), (before, polls())
    assert box.run("echo again") == "again\n"


# --- a stream that ends between two requests ---------------------------------------------------

def twice(second):
    """A server whose streams answer one request and then do `second`; /again is answered at once."""

    def serve(fake, conn):
        if "/again" in fake.read_head(conn):
            conn.sendall(answer(b"again"))
            conn.recv(1)
            return
        conn.sendall(answer(b"first"))
        second(fake, conn)
        conn.close()

    return serve


def reads(fake, conn):
    fake.read_head(conn)


def reads_nothing(fake, conn):
    conn.recv(1, socket.MSG_PEEK)


def says_a_little(fake, conn):
    fake.read_head(conn)
    conn.sendall(b"HTTP/1.1 102 Processing\r\n\r\n")


@pytest.mark.parametrize("method, second, status, times", [
    ("POST", reads, 502, 1), ("PATCH", reads, 502, 1), ("POST", reads_nothing, 200, 1), ("PATCH", reads_nothing, 200, 1),
    ("GET", reads, 200, 2), ("PUT", reads, 200, 2), ("DELETE", reads, 200, 2), ("GET", reads_nothing, 200, 1),
    ("GET", says_a_little, 502, 1),
])
def test_what_may_have_been_done_is_not_asked_again(host, box, method, second, status, times):
    """The box's server closes a stream just as the next request comes: it is sent again if that can do
    no harm, or if the server cannot have had the whole of it."""
    kernel = tuple(map(int, re.findall(r"\d+", os.uname().release)[:2]))
    if kernel < (6, 16) and second is reads_nothing and method != "GET":
        status, times = 502, 0  # a thread stands between, which does not pass on what the kernel knows
    with FakeServer(box, twice(second)) as fake, host.connect() as peer:
        assert peer.ask(to(box)).body == b"first"
        peer.send(to(box, "/again", method))
        got = peer.answer()
        while got.status == 102:
            got = peer.answer()
        assert got.status == status and (status == 502 or got.body == b"again")
        assert sum(f"{method} /again" in head for head in fake.heads) == times


def test_an_upgrade_is_not_asked_for_again(host, box):
    with FakeServer(box, twice(reads)) as fake, host.connect() as peer:
        assert peer.ask(to(box)).body == b"first"
        headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
                   "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
        assert peer.ask(to(box, "/again", headers=headers)).status == 502
        assert sum("/again" in head for head in fake.heads) == 1


# Whatever leads to a path of the machine: tried as they are, and through what each process shows of itself.
KNOCK = """
import glob, os, socket
paths = %r
for path in paths + [top + path for path in paths for top in glob.glob("/proc/[0-9]*/root") + glob.glob("/proc/[0-9]*/cwd")]:
    for name in (path, "\\0" + path):
        s = socket.socket(socket.AF_UNIX)
        try:
            s.connect(name[:107])
            print("reached", name)
        except OSError:
            pass
for path in glob.glob("/proc/[0-9]*/fd/*"):
    try:
        if "host.sock" in os.readlink(path): print("held", path)
    except OSError:
        pass
print("knocked")
"""


def test_the_hosts_control_socket_is_not_reached(host, box):
    """Neither it nor the socket of any box, by gem or by root: they are in no directory that a box has."""
    other = host.create()
    place = "/tmp/knock.py"
    paths = [str(path) for path in (host.state / "run/host.sock", box.socket_path, other.socket_path)]
    box.request("POST", "/v1/file/write", json={"file": place, "content": KNOCK % paths})
    for sudo in ("", "sudo "):
        assert box.run(f"{sudo}python3 {place}") == "knocked\n"
        assert box.run(f"{sudo}find / -name '*host.sock*' -not -path '/proc/*' 2>/dev/null; true") == ""
    other.delete()


def test_a_box_cannot_pass_for_another(host):
    """Not by what it calls itself, not by its token, not by what its server answers."""
    box, other = host.create(), host.create()
    box.run(f"sudo hostname {other.id} 2>/dev/null; echo {other.id} | sudo tee /etc/hostname >/dev/null")
    assert box.run("cat /etc/hostname") == f"{other.id}\n" and other.run("cat /etc/hostname") == f"{other.id}\n"
    token = {"Authorization": f"Bearer {box.token}"}
    for way in ({"x-aio-sandbox": other.id}, {"Host": f"{other.id}.localhost:{host.port}"}):
        assert host.client.get("/v1/sandbox", headers={**token, **way}).status_code == 401, way
    assert host.client.get(f"/s/{other.id}/v1/sandbox", headers=token).status_code == 401
    with host.connect() as both:
        two = (f"GET /v1/sandbox HTTP/1.1\r\nHost: localhost\r\nx-aio-sandbox: {box.id}\r\nx-aio-sandbox: {other.id}\r\n"
               f"Authorization: Bearer {box.token}\r\n\r\n")
        assert both.ask(two.encode()).status in (400, 422)

    def serve(fake, conn):
        while fake.read_head(conn):
            conn.sendall(answer(b"mine", headers=[f"x-aio-sandbox: {other.id}", f"Location: /s/{other.id}/"]))

    events = other.events()
    with FakeServer(box, serve) as fake, host.connect() as peer:
        for _ in range(2):
            assert peer.ask(to(box)).body == b"mine"
        assert b"mine" not in peer.ask(to(other, "/v1/sandbox")).body
        assert len(fake.heads) == 2
    assert other.events() == events
    box.delete()
    other.delete()
