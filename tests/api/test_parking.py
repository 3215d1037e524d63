"""Connections that are idle have no thread; those that are busy have one each, however many there are."""

import contextlib
import json
import os
import re
import resource
import signal
import time

import pytest

from harness import LEAN, eventually, request, sanitizer

pytestmark = pytest.mark.concurrency

MANY = 60 if sanitizer() == "thread" else 200


def count(server, what):
    return int(re.search(rf"^aio_{what} (\d+)$", server.get("/metrics").text, re.M)[1])


def all_parked(server, number):
    return eventually(lambda: count(server, "connections_parked") == number)


@contextlib.contextmanager
def parked(server, number, before=request()):
    """So many connections that wait without a thread, after a request or without one."""
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(server.connect()) for _ in range(number)]
        for peer in peers if before else ():
            assert peer.ask(before).status == 200
        assert all_parked(server, number)
        yield peers


@pytest.fixture(scope="module", params=["tcp", "unix"])
def either(request, start_shared, tmp_path_factory):
    """A server on each kind of socket."""
    listen = f"unix:{tmp_path_factory.mktemp('s')}/s" if request.param == "unix" else "127.0.0.1:0"
    return start_shared(program="fixture", listen=listen)


# --- a parked connection is as good as any -----------------------------------------------------


@pytest.mark.parametrize("before", [b"", request()], ids=["new", "kept"])
def test_it_answers(either, before):
    with parked(either, 3, before) as peers:
        for _ in range(2):
            assert [peer.ask(request("/place/x")).status for peer in peers] == [200] * 3
            assert all_parked(either, 3)


def test_pipelined_requests(either):
    with parked(either, 1) as (peer,):
        peer.send(b"".join(request(f"/place/{i}") for i in range(20)))
        assert [peer.answer().json()["data"]["id"] for _ in range(20)] == [str(i) for i in range(20)]


@pytest.mark.parametrize("cut", [1, 10, -1])
def test_half_a_request_and_the_rest(either, cut):
    """It has a thread as soon as it says something, and for as long as that may go on."""
    data = request("/place/x")
    with parked(either, 1) as (peer,):
        peer.send(data[:cut])
        assert all_parked(either, 0)
        peer.send(data[cut:])
        assert peer.answer().status == 200


def test_half_a_request_and_no_rest(start_server):
    server = start_server(["--head-timeout", "0.4"], program="fixture")
    with parked(server, 1) as (peer,):
        peer.send(b"GET / HT")
        assert peer.answer().status == 408 and peer.ended()


def test_a_request_and_then_no_more(either):
    with parked(either, 1) as (peer,):
        peer.send(request("/place/x"))
        peer.half_close()
        assert peer.answer().status == 200 and peer.ended()


@pytest.mark.parametrize("leave", ["close", "reset", "half_close"])
def test_clients_that_leave(either, leave):
    before = either.possessions()["descriptors"]
    with parked(either, 20) as peers:
        for peer in peers:
            peer.sock.close() if leave == "close" else getattr(peer, leave)()
        assert all_parked(either, 0)
        assert eventually(lambda: either.possessions()["descriptors"] <= before)


def test_time_runs_out(start_server):
    server = start_server(["--idle-timeout", "4"], program="fixture")
    start = time.monotonic()
    with parked(server, 20) as peers:
        assert all(peer.ended() for peer in peers) and time.monotonic() - start > 3.9


def test_stopping(start_server):
    """Who is parked is closed at once, whatever else runs; bytes that nobody has read do no harm."""
    server = start_server(program="fixture")
    with parked(server, MANY) as peers, server.connect() as busy:
        busy.send(request("/stubborn?ms=60000"))
        assert server.logged("stubborn begins")
        server.signal(signal.SIGSTOP)
        os.kill(server.pid, signal.SIGSTOP)
        for peer in peers[::2]:
            peer.send(b"GET")
        server.signal(signal.SIGCONT)
        server.signal()
        os.kill(server.pid, signal.SIGCONT)
        assert all(peer.ended() for peer in peers)
        assert server.wait() == 0
    assert "1 requests did not finish" in server.log


def test_no_descriptor_for_another_one(start_server):
    """Those who are connected do not notice."""
    server = start_server(program="fixture")
    with parked(server, 3) as peers:
        soft, hard = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (3, hard))
        with server.connect() as one_more:
            one_more.send(request())
            assert server.logged("cannot accept")
            for _ in range(3):
                assert [peer.ask(request("/place/x")).status for peer in peers] == [200] * 3
                time.sleep(0.1)  # parked again, or not
            resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (soft, hard))
            assert one_more.answer().status == 200


# --- many --------------------------------------------------------------------------------------


def test_all_wake_at_once(fixture_server):
    with parked(fixture_server, MANY) as peers:
        for _ in range(3):
            for number, peer in enumerate(peers):
                peer.send(request(f"/place/{number}"))
            for number, peer in enumerate(peers):
                assert peer.answer().json()["data"]["id"] == str(number)
            assert all_parked(fixture_server, MANY)


def test_waking_just_when_they_are_parked(fixture_server):
    """At the moment after which a connection loses its thread, and around it."""
    peers = [fixture_server.connect() for _ in range(20)]
    try:
        for pause in [0.095 + 0.0005 * step for step in range(20)]:
            for peer in peers:
                assert peer.ask(request("/place/x")).status == 200
            time.sleep(pause)
    finally:
        for peer in peers:
            peer.sock.close()


def test_threads_end_when_they_are_not_needed(fixture_server):
    with parked(fixture_server, MANY) as peers:
        for peer in peers:
            peer.send(request("/wait?ms=2000"))
        assert eventually(lambda: count(fixture_server, "connection_threads") > MANY)
        assert [peer.answer().status for peer in peers] == [200] * MANY
        assert eventually(lambda: count(fixture_server, "connection_threads") <= 2), "one waits, and one counts"
        assert all_parked(fixture_server, MANY)


NESTED = """read -r < gate; exec 3<>/dev/tcp/127.0.0.1/%d
printf 'GET /v1/bash/sessions HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3; head -n1 <&3"""


@pytest.mark.serial
@pytest.mark.skipif(sanitizer() == "thread", reason="1,200 requests and 600 processes at once are too much for it")
def test_requests_that_wait_for_requests(start_server):
    """Six hundred commands, each of which asks the server that waits for it."""
    server = start_server(["--max-sessions", "1000"])
    os.mkfifo(server.home / "gate")
    os.chmod(server.home, 0o755)
    os.chmod(server.home / "gate", 0o666)
    body = json.dumps({"command": NESTED % server.port, "timeout": 200}).encode()
    peers = [server.connect(timeout=200) for _ in range(600)]
    try:
        for peer in peers:
            peer.send(request("/v1/bash/exec", "POST", {"Content-Type": "application/json"}, body))
        assert eventually(lambda: count(server, "connection_threads") > 600)
        gate = os.open(server.home / "gate", os.O_RDWR)
        os.write(gate, b"\n" * 600)
        said = [peer.answer().json()["data"]["stdout"] for peer in peers]
        assert said == ["HTTP/1.1 200 OK\r\n"] * 600
        os.close(gate)
    finally:
        for peer in peers:
            peer.sock.close()
    for session in server.get("/v1/bash/sessions").json()["data"]:
        server.post(f"/v1/bash/sessions/{session['session_id']}/close")
    server.take_baseline()


@pytest.mark.serial
@pytest.mark.parametrize("before", [b"", request()], ids=["new", "kept"])
def test_what_they_cost(start_server, before):
    """Two thousand: a hundredth as many threads, and less memory for each than two pages, of which most is what the
    threads leave that served them at first."""
    server = start_server(env=LEAN)
    assert server.get("/metrics").status_code == 200
    memory = server.memory()
    with parked(server, 2000, before) as peers:
        assert eventually(lambda: len(server._list("task")) <= 20)
        if not sanitizer():
            assert (server.memory() - memory) / 2000 < 8192
        assert [peer.ask(request()).status for peer in peers] == [200] * 2000
