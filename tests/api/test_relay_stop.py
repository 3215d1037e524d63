"""A server that stops lets what it relays finish, as it does its own answers."""

import contextlib
import socket
import time

import pytest

from harness import eventually, request

pytestmark = pytest.mark.concurrency

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"


def refuses(server):
    try:
        server.connect().sock.close()
    except (ConnectionRefusedError, ConnectionResetError):
        return True
    return False


@contextlib.contextmanager
def asked(server, method="GET", **headers):
    """A client that has asked for a program's page, and the program's side of that."""
    with socket.create_server(("127.0.0.1", 0)) as listener, server.connect() as peer:
        listener.settimeout(30)
        peer.send(request(f"/proxy/{listener.getsockname()[1]}/", method, headers))
        program, _ = listener.accept()
        with program:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += program.recv(1)
            yield peer, program


@pytest.mark.parametrize("before, after", [(HEAD + b"ab", b"cd"), (b"", HEAD + b"abcd")], ids=["begun", "asked"])
def test_an_answer_that_is_relayed_is_finished(start_server, before, after):
    def finished():
        """False when the machine was too slow to tell: the server waits for 5 s."""
        server = start_server()
        with asked(server) as (peer, program):
            program.sendall(before)
            if before:
                assert eventually(lambda: peer.sock.recv(999, socket.MSG_PEEK).endswith(b"ab"))
            began = time.monotonic()
            server.signal()
            assert eventually(lambda: refuses(server))
            with contextlib.suppress(OSError):
                program.sendall(after)
            if quick := time.monotonic() - began < 4:
                answer = peer.answer()
                assert answer.status == 200 and answer.body == b"abcd" and peer.ended()
        assert server.wait() == 0
        return quick

    assert eventually(finished), "the machine is too slow"


def test_an_answer_that_does_not_end_is_cut(start_server):
    server = start_server()
    with asked(server) as (peer, program):
        program.sendall(HEAD + b"ab")
        assert eventually(lambda: peer.sock.recv(999, socket.MSG_PEEK).endswith(b"ab"))
        server.signal()
        assert server.wait() == 0 and "1 requests did not finish" in server.log
        assert not peer.answer().complete


def test_a_switched_protocol_does_not_hold_it_up(start_server):
    server = start_server()
    with asked(server, Connection="Upgrade", Upgrade="echo") as (peer, program):
        program.sendall(SWITCH)
        assert peer.head().status == 101
        server.signal()
        assert server.wait() == 0 and "did not finish" not in server.log


EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\n\r\ndata: 1\n\n"


@pytest.mark.parametrize("type", [b"text/event-stream", b"Text/Event-Stream; charset=utf-8"])
def test_a_stream_of_events_does_not_hold_it_up(start_server, type):
    """It has no end of its own, so there is nothing to wait for: as with the server's own."""
    server = start_server()
    with asked(server) as (peer, program):
        program.sendall(EVENTS % type)
        assert eventually(lambda: peer.sock.recv(999, socket.MSG_PEEK).endswith(b"data: 1\n\n"))
        server.signal()
        assert server.wait() == 0 and "did not finish" not in server.log


@pytest.mark.parametrize("method, type", [("GET", b"text/event-streams"), ("POST", b"text/event-stream")])
def test_what_is_no_stream_without_an_end(start_server, method, type):
    """The events of a POST are what it does: like any other answer, they get their time."""
    server = start_server()
    with asked(server, method, **{"Content-Length": "0"} if method == "POST" else {}) as (peer, program):
        program.sendall(EVENTS % type)
        assert eventually(lambda: peer.sock.recv(999, socket.MSG_PEEK).endswith(b"data: 1\n\n"))
        server.signal()
        assert server.wait() == 0 and "1 requests did not finish" in server.log
