"""More of what a box's server may say to the gateway: see test_hostile.py for the rest."""

import contextlib
import socket
import threading
import time

import pytest
from harness import ANSWER_SECONDS, request
from hosts import FakeServer, answer, to
from processes import cpu_seconds

# Each holds for more than the answer it came with.
FORGED = [
    "Set-Cookie: aio_box=forged; Path=/", "Set-Cookie: a=1; Domain=localhost", "Set-Cookie:\taio_box=forged",
    "Set-Cookie: AIO_box_8080=forged", "set-cookie: b=2; dOmAiN=.localhost; Path=/", "Clear-Site-Data: \"cookies\"", "Clear-Site-Data: \"*\"",
    "Strict-Transport-Security: max-age=9999; includeSubDomains", "Service-Worker-Allowed: /", "Alt-Svc: h2=\"evil:443\"",
    "Public-Key-Pins: x", "NEL: {}", "Report-To: {}", "Accept-CH: Width", "Origin-Agent-Cluster: ?0",
    "WWW-Authenticate: Basic realm=\"your password\"", "X-Content-Type-Options: none",
    "Content-Security-Policy: sandbox allow-scripts allow-same-origin", "Content-Security-Policy: default-src *",
    "Access-Control-Allow-Origin: null", "Access-Control-Allow-Credentials: true",
    "Content-Type: text/html",
]
SHARED = {"set-cookie", "clear-site-data", "strict-transport-security", "service-worker-allowed", "alt-svc",
          "public-key-pins", "nel", "report-to", "accept-ch", "origin-agent-cluster", "www-authenticate"}


def says(*pieces):
    """A server that answers the first request of each stream with these bytes, and then waits."""

    def serve(fake, conn):
        fake.read_head(conn)
        for piece in pieces:
            conn.sendall(piece)
        conn.recv(1)

    return serve


def values(got, name):
    return [value for key, value in got.headers if key.lower() == name]


def own(box):
    return request("/x", host=f"{box.id}.localhost", headers={"Authorization": f"Bearer {box.token}"})


@pytest.mark.parametrize("status", ["200 OK", "401 Unauthorized", "404 Not Found", "500 Oops", "302 Found"])
def test_on_the_shared_address_nothing_holds_for_it(host, box, status):
    with FakeServer(box, says(answer(b"x", status, FORGED))), host.connect() as peer:
        got = peer.ask(to(box))
    assert got.status == int(status[:3]) and got.body == b"x"
    assert {name.lower() for name, _ in got.headers} & SHARED == set()
    assert values(got, "x-content-type-options") == ["nosniff"]
    # Policies add up: the strictest holds, whatever others allow.
    assert any(value.startswith("sandbox") and "same-origin" not in value for value in values(got, "content-security-policy"))


def test_at_its_own_name_nothing_holds_for_other_names(host, box):
    with FakeServer(box, says(answer(b"x", headers=FORGED))), host.connect() as peer:
        got = peer.ask(own(box))
    assert values(got, "set-cookie") == ["a=1", "b=2; Path=/"]
    assert values(got, "clear-site-data") == []  # browsers clear cookies of the whole domain


def test_an_interim_answer_sets_nothing_either(host, box):
    early = "\r\n".join(["HTTP/1.1 103 Early Hints", *FORGED, "", ""]).encode()
    for ask, cookies in ((to(box), []), (own(box), ["a=1", "b=2; Path=/"])):
        with FakeServer(box, says(early, answer(b"x"))), host.connect() as peer:
            peer.send(ask)
            hints = peer.head()
            assert hints.status == 103 and values(hints, "set-cookie") == cookies and not values(hints, "clear-site-data")
            assert peer.answer().body == b"x"


def test_an_upgrade_sets_nothing_either(host, box):
    switch = "\r\n".join(["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade", *FORGED, "", ""])
    with FakeServer(box, says(switch.encode())), host.connect() as peer:
        peer.send(to(box, headers={"Connection": "Upgrade", "Upgrade": "websocket"}))
        got = peer.head()
        assert got.status == 101 and {name.lower() for name, _ in got.headers} & SHARED == set()


@pytest.mark.parametrize("method, head", [
    ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n"), ("GET", b"HTTP/1.1 304 Not Modified\r\n\r\n"),
    ("GET", b"HTTP/1.1 204 No Content\r\n\r\n"), ("GET", b"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n"),
    ("HEAD", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), ("GET", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
])
def test_a_body_where_there_can_be_none_answers_nobody(host, box, method, head):
    """It comes with the answer: the connection ends, and the next request gets no answer, or its own."""
    poison = answer(b"poison")
    with FakeServer(box, says(head + poison)), host.connect() as peer:
        got = peer.ask(to(box, method=method))
        assert got.status in (200, 204, 304) and got.body == b""
        with contextlib.suppress(OSError, EOFError):
            assert b"poison" not in peer.ask(to(host.default(), "/health")).body


def test_an_answer_that_comes_before_the_question(host, box):
    """It is this client's, or none's."""

    def serve(fake, conn):
        conn.sendall(answer(b"early") + answer(b"poison"))
        fake.read_head(conn)
        conn.recv(1)

    with FakeServer(box, serve), host.connect() as peer:
        assert peer.ask(to(box)).body == b"early"
        assert peer.ended()


@pytest.mark.parametrize("begin, piece", [
    (b"HTTP/1.1 200 OK\r\n", b"X-Y: z\r\n"), (b"HTTP/1.1 200 OK\r\nX: ", b"y" * 1000), (b"HTTP/1.1 200 ", b"O" * 1000),
    (b"", b"\r\n"), (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=", b"y" * 1000),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", b"0" * 1000),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"Trailer: x\r\n"),
], ids=["headers", "value", "reason", "lines", "extension", "size", "trailers"])
def test_what_never_ends_is_cut(host, box, begin, piece):
    sent = []

    def serve(fake, conn):
        fake.read_head(conn)
        conn.sendall(begin)
        with contextlib.suppress(OSError):
            while sum(sent) < 64 << 20:
                conn.sendall(piece * 64)
                sent.append(len(piece) * 64)

    with FakeServer(box, serve), host.connect() as peer:
        peer.send(to(box))
        with contextlib.suppress(ConnectionError, EOFError):
            got = peer.answer()
            assert got.status == 502 or not got.complete
        assert peer.ended()
    assert sum(sent) < 16 << 20


def test_a_body_without_end_stays_its_clients(host, box):
    """Chunks of one byte, for as long as it is read: others are answered meanwhile."""
    stop = threading.Event()

    def serve(fake, conn):
        fake.read_head(conn)
        conn.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while not stop.is_set():
            conn.sendall(b"1\r\nx\r\n" * 10_000)

    with FakeServer(box, serve), host.connect() as peer, host.connect() as other:
        peer.send(to(box))
        assert peer.head().status == 200

        def read():
            with contextlib.suppress(OSError):
                while not stop.is_set() and peer.sock.recv(1 << 16):
                    pass

        reader = threading.Thread(target=read)
        reader.start()
        begin = time.monotonic()
        for _ in range(20):
            assert other.ask(to(host.default(), "/health")).body == b"OK"
        stop.set()
        reader.join(ANSWER_SECONDS)
        assert time.monotonic() - begin < ANSWER_SECONDS / 2


@pytest.mark.skipif(not hasattr(socket, "MSG_OOB"), reason="no MSG_OOB here")
def test_urgent_bytes_neither_spin_the_host_nor_stop_it(host, box):
    """Unix streams have had them since Linux 5.15."""

    def serve(fake, conn):
        fake.read_head(conn)
        for piece in (b"HTTP/1.1 200 OK\r\n", b"Content-Length: 10\r\n\r\n", b"01234"):
            conn.sendall(piece)
            with contextlib.suppress(OSError):
                conn.send(b"!", socket.MSG_OOB)
        conn.recv(1)

    with FakeServer(box, serve), host.connect() as peer, host.connect() as other:
        peer.send(to(box))
        before = cpu_seconds(host)
        time.sleep(1)  # in which it would compute all the time
        assert cpu_seconds(host) - before < 0.5
        for _ in range(10):
            assert other.ask(to(host.default(), "/health")).body == b"OK"
