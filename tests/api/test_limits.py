"""Whatever a client chooses the size of has a cap, and a clear answer beyond it."""

import json
import os
import resource
import select
import time

import pytest

from harness import LEAN, chunked, eventually, request
from processes import cpu_seconds

JSON = {"Content-Type": "application/json"}
MIB = 1 << 20
IDLE_SECONDS = 4  # a test that the machine holds up between two steps is not idle yet


@pytest.fixture(scope="module")
def small(start_shared):
    """A server with small caps."""
    return start_shared(["--max-head", "4K", "--max-body", "8K", "--max-upload", "64K"], program="fixture")


@pytest.fixture(scope="module")
def hasty(start_shared):
    """A server without patience."""
    return start_shared(["--head-timeout", "0.4", "--body-timeout", "0.4"], program="fixture")


@pytest.fixture
def restless(start_server):
    """A server with little patience for clients that send nothing; for few tests, as it could take them for such."""
    return start_server(["--idle-timeout", IDLE_SECONDS], program="fixture")


def detail(answer):
    return answer.json()["detail"]


# --- heads -------------------------------------------------------------------------------------


def head_of(size):
    """A request whose head has this many bytes."""
    plain = len(request(headers={"X": ""}))
    return request(headers={"X": "x" * (size - plain)})


def test_head_at_its_cap(small):
    with small.connect() as peer:
        assert len(head_of(4096)) == 4096
        assert peer.ask(head_of(4096)).status == 200
        assert peer.ask(head_of(4096)).status == 200, "the cap is for one head"


@pytest.mark.parametrize("size", [4097, 5000, 10000, 1 << 20])
def test_head_too_large(small, size):
    with small.connect() as peer:
        try:
            peer.send(head_of(size))
        except (BrokenPipeError, ConnectionResetError):
            pass
        answer = peer.answer()
        assert answer.status == 431 and "4096" in detail(answer)
        assert answer["connection"] == "close" and peer.ended()


def test_head_that_never_ends(small):
    with small.connect() as peer:
        try:
            peer.send(b"GET / HTTP/1.1\r\nX: ")
            for _ in range(100):
                peer.send(b"x" * 1000)
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert peer.answer().status == 431


def test_target_too_large(small):
    with small.connect() as peer:
        assert peer.ask(request("/place/" + "x" * 5000)).status == 431


def test_head_cap_with_pipelined_requests(small):
    """What waits behind a head does not count as part of it."""
    with small.connect() as peer:
        peer.send(b"".join(request(f"/place/{i}") for i in range(300)))
        assert {peer.answer().status for _ in range(300)} == {200}


@pytest.mark.parametrize("count, status", [(99, 200), (100, 431), (3000, 431)])
def test_number_of_headers(fixture_server, count, status):
    """Host is one more."""
    with fixture_server.connect() as peer:
        answer = peer.ask(request(headers={f"X{i}": "" for i in range(count)}))
        assert answer.status == status
        if status == 431:
            assert "100 headers" in detail(answer) and peer.ended()


def test_default_head_cap(fixture_server):
    with fixture_server.connect() as peer:
        assert peer.ask(head_of(65536)).status == 200
        assert peer.ask(head_of(65537)).status == 431


# --- bodies ------------------------------------------------------------------------------------


def body_of(size):
    body = b'{"text":"t","free":"%s"}'
    return body % (b"x" * (size - len(body) + 2))


def test_body_at_its_cap(small):
    body = body_of(8192)
    with small.connect() as peer:
        assert len(body) == 8192
        assert peer.ask(request("/echo", "POST", JSON, body)).status == 200
        for size in (1, 100, 8192):
            pieces = [body[i : i + size] for i in range(0, len(body), size)]
            data = request("/echo", "POST", {**JSON, "Transfer-Encoding": "chunked"}, chunked(*pieces))
            assert peer.ask(data).status == 200


def test_body_too_large_by_its_length(small):
    with small.connect() as peer:
        answer = peer.ask(request("/echo", "POST", {**JSON, "Content-Length": 8193}))
        assert answer.status == 413 and "8192" in detail(answer)


@pytest.mark.parametrize("size", [8193, 20000, 5 * MIB])
def test_body_too_large_in_chunks(small, size):
    body = body_of(size)
    pieces = [body[i : i + 4096] for i in range(0, size, 4096)]
    with small.connect() as peer:
        try:
            peer.send(request("/echo", "POST", {**JSON, "Transfer-Encoding": "chunked"}, chunked(*pieces)))
        except (BrokenPipeError, ConnectionResetError):
            pass
        answer = peer.answer()
        assert answer.status == 413 and "8192" in detail(answer)


def test_too_large_body_is_told_to_a_client_that_sends_it_all(small):
    """Plain clients write everything before they read."""
    answer = small.post("/echo", content=body_of(100000), headers=JSON)
    assert answer.status_code == 413


def test_chunk_framing_is_capped(small):
    with small.connect() as peer:
        peer.send(request("/echo", "POST", {**JSON, "Transfer-Encoding": "chunked"}, b"1;x="))
        try:
            for _ in range(100):
                peer.send(b"x" * 1000)
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert peer.answer().status == 400


def test_trailers_are_capped(small):
    with small.connect() as peer:
        peer.send(request("/echo", "POST", {**JSON, "Transfer-Encoding": "chunked"}, chunked(body_of(50))[:-2]))
        try:
            for i in range(1000):
                peer.send(b"X-Trailer-%d: %s\r\n" % (i, b"x" * 100))
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert peer.answer().status == 400


# --- forms -------------------------------------------------------------------------------------


def upload(server, content, **fields):
    return server.post("/upload", files={"file": ("name", content)}, data=fields)


def test_upload_at_its_cap(small):
    assert upload(small, b"\1" * 65536).json()["data"]["sum"] == 65536


@pytest.mark.parametrize("size", [65537, 5 * MIB])
def test_upload_too_large(small, size):
    answer = upload(small, b"x" * size)
    assert answer.status_code == 413 and "65536" in answer.json()["detail"]


def test_upload_too_large_in_chunks(small):
    def pieces():
        yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
        for _ in range(100):
            yield b"x" * 10000
        yield b"\r\n--x--\r\n"

    answer = small.post("/upload", content=pieces(), headers={"Content-Type": "multipart/form-data; boundary=x"})
    assert answer.status_code == 413


def test_second_file_of_a_name_counts_too(small):
    """The first one is taken; the rest must not come in through the back door without end."""

    def pieces():
        for _ in range(100):
            yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
            yield b"x" * 60000
            yield b"\r\n"
        yield b"--x--\r\n"

    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    assert small.post("/upload", content=pieces(), headers=headers).status_code == 413


def test_fields_of_a_form_are_capped(fixture_server):
    assert upload(fixture_server, b"x", path="/" + "x" * MIB).status_code == 200
    assert upload(fixture_server, b"x", path="/" + "x" * 5 * MIB).status_code == 413


def test_number_of_parts_is_capped(fixture_server):
    part = b'--x\r\nContent-Disposition: form-data; name="n%d"\r\n\r\n\r\n'
    body = b"".join(part % i for i in range(3000)) + b"--x--\r\n"
    answer = fixture_server.post("/upload", content=body, headers={"Content-Type": "multipart/form-data; boundary=x"})
    assert 400 <= answer.status_code < 500


# --- JSON --------------------------------------------------------------------------------------


def nested(depth, kind):
    """JSON of this depth, all in all."""
    inner = '{"text":"t","free":%s}'
    opening, closing = ("[", "]") if kind == "lists" else ('{"k":', "}")
    middle = "[]" if kind == "lists" else "{}"
    return (inner % (opening * (depth - 2) + middle + closing * (depth - 2))).encode()


@pytest.mark.parametrize("kind", ["lists", "objects"])
def test_depth(fixture_server, kind):
    """The deepest that is allowed fits into a thread's stack, there and back."""
    body = nested(64, kind)
    answer = fixture_server.post("/echo", content=body, headers=JSON)
    assert answer.status_code == 200 and answer.json()["data"]["free"] == json.loads(body)["free"]
    answer = fixture_server.post("/echo", content=nested(65, kind), headers=JSON)
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["type"] == "json_invalid"
    assert "deep" in answer.json()["detail"][0]["msg"]


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"a":'])
def test_depth_without_end(fixture_server, opening):
    start = cpu_seconds(fixture_server)
    answer = fixture_server.post("/echo", content=opening * 1000000, headers=JSON)
    assert answer.status_code == 422 and cpu_seconds(fixture_server) - start < 20


# What is repeated, how often, and what is around it: 60 MB each, made only for the test.
BOMBS = {
    "numbers": (b'{"text":"t","free":[', b"1,", 30_000_000, b"1]}"),
    "empty objects": (b'{"text":"t","free":[', b"{},", 20_000_000, b"{}]}"),
    "empty lists": (b'{"text":"t","free":[', b"[],", 20_000_000, b"[]]}"),
    "strings": (b'{"text":"t","free":[', b'"",', 20_000_000, b'""]}'),
    "keys": (b"{", b'"":0,', 12_000_000, b'"text":"t"}'),
    "commas": (b"[", b",", 60_000_000, b""),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_too_many_values(start_server, bomb):
    """60 MB that would become gigabytes."""
    server = start_server(program="fixture", env=LEAN)
    first, repeated, count, last = BOMBS[bomb]
    body = first + repeated * count + last
    before, start = server.reset_peak(), cpu_seconds(server)
    answer = server.post("/echo", content=body, headers=JSON, timeout=200)
    assert answer.status_code == 422 and "many values" in answer.json()["detail"][0]["msg"]
    assert cpu_seconds(server) - start < 40
    assert server.memory("VmHWM") - before < 160 * MIB, "the text itself, and its buffer's growth"


def test_many_values_that_are_allowed(start_server):
    server = start_server(program="fixture", env=LEAN)
    before = server.reset_peak()
    body = b'{"text":"t","integers":[' + b"7," * 900_000 + b"7]}"
    answer = server.post("/echo", content=body, headers=JSON, timeout=200)
    assert answer.status_code == 200 and len(answer.json()["data"]["integers"]) == 900_001
    assert server.memory("VmHWM") - before < 300 * MIB


def test_memory_of_a_large_request_is_given_back(start_server):
    server = start_server(program="fixture", env=LEAN)
    before = server.memory()
    for _ in range(2):
        body = b'{"text":"t","free":"' + b"x" * (50 * MIB) + b'"}'
        assert server.post("/echo", content=body, headers=JSON, timeout=200).status_code == 200
    assert eventually(lambda: server.memory() - before < 40 * MIB), server.memory() - before


# --- time --------------------------------------------------------------------------------------


def closed_after(peer, start):
    """All that came until the server closed, and how long that took."""
    data = peer.rest()
    return data, time.monotonic() - start


@pytest.mark.parametrize("part", [b"G", b"GET /health HTTP/1.1\r\nHost: lo"])
def test_slow_head(hasty, part):
    start = time.monotonic()
    with hasty.connect() as peer:
        peer.send(part)
        data, seconds = closed_after(peer, start)
        assert data.startswith(b"HTTP/1.1 408 ") and b'{"detail":' in data
        assert 0.3 < seconds < 30


def test_head_that_trickles(hasty):
    """More of it does not buy more time."""
    with hasty.connect() as peer:
        for byte in request("/place/" + "x" * 1000):
            peer.send(bytes([byte]))
            if peer_has_answer(peer, 0.05):
                break
        assert peer.answer().status == 408


def peer_has_answer(peer, seconds):
    return bool(select.select([peer.sock], [], [], seconds)[0])


@pytest.mark.parametrize("headers, part", [
    ({"Content-Length": 100}, b""),
    ({"Content-Length": 100}, b'{"text"'),
    ({"Transfer-Encoding": "chunked"}, b""),
    ({"Transfer-Encoding": "chunked"}, b"5\r\n{"),
    ({"Transfer-Encoding": "chunked"}, b"5\r\n12345\r\n0\r\n"),
])
def test_slow_body(hasty, headers, part):
    with hasty.connect() as peer:
        start = time.monotonic()
        peer.send(request("/echo", "POST", {**JSON, **headers}, part))
        data, seconds = closed_after(peer, start)
        assert data.startswith(b"HTTP/1.1 408 ") and b"Connection: close" in data
        assert 0.3 < seconds < 30


def test_body_that_comes_slowly_but_steadily(hasty):
    """A second more for each KiB: a thin line is no attack. The first half buys time for a machine that is slow."""
    body = body_of(32768)
    with hasty.connect() as peer:
        peer.send(request("/echo", "POST", {**JSON, "Content-Length": len(body)}, body[:16384]))
        for at in range(16384, 32768, 4096):
            assert not peer_has_answer(peer, 0.2)
            peer.send(body[at : at + 4096])
        assert peer.answer().status == 200


def test_idle_connection_is_closed_without_a_word(restless):
    for before in (b"", request()):
        start = time.monotonic()
        with restless.connect() as peer:
            assert not before or peer.ask(before).status == 200
            data, seconds = closed_after(peer, start)
            assert data == b"" and IDLE_SECONDS - 0.1 < seconds < IDLE_SECONDS + 30


def test_handler_may_take_longer_than_that(restless):
    with restless.connect() as peer:
        assert peer.ask(request(f"/wait?ms={IDLE_SECONDS * 1000 + 500}")).json()["data"] == "timeout"
        assert peer.ask(request()).status == 200


# --- connections -------------------------------------------------------------------------------


def test_too_many_connections(start_server):
    server = start_server(["--max-connections", "4"], program="fixture")
    peers = [server.connect() for _ in range(4)]
    try:
        assert [peer.ask(request()).status for peer in peers] == [200] * 4
        with server.connect() as one_more:
            answer = one_more.answer()
            assert answer.status == 503 and answer["retry-after"] and answer["connection"] == "close"
            assert "connections" in detail(answer) and one_more.ended()
        assert peers[0].ask(request()).status == 200, "those inside stay"
        peers.pop().__exit__()

        def served():
            with server.connect() as peer:
                try:
                    return peer.ask(request()).status == 200
                except (BrokenPipeError, ConnectionResetError, EOFError):
                    return False

        assert eventually(served), "room was made"
        assert "aio_connections_refused_total 0" not in peers[0].ask(request("/metrics")).body.decode()
    finally:
        for peer in peers:
            peer.__exit__()
        assert server.settle(), "there is room for those who look at it afterwards"


def test_descriptors_run_out(start_server):
    """The server survives without descriptors, and serves again once there are some."""
    server = start_server(program="fixture")
    soft, hard = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
    used = server.possessions()["descriptors"]
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (used + 4, hard))
    peers = [server.connect() for _ in range(10)]
    try:
        assert peers[0].ask(request()).status == 200
        assert server.logged("cannot accept")
    finally:
        for peer in peers:
            peer.__exit__()
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (soft, hard))


# --- descriptors -------------------------------------------------------------------------------


def leave_descriptors(server, count, most):
    """Lets a server have only so many more than it has."""
    free = (fd for fd in range(most) if not os.path.exists(f"/proc/{server.pid}/fd/{fd}"))
    limit = next(fd for i, fd in enumerate(free) if i == count)
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (limit, most))


@pytest.mark.parametrize("path, body", [
    ("/v1/shell/sessions/create", {}), ("/v1/shell/exec", {"command": "true", "timeout": 1}),
    ("/v1/bash/exec", {"command": "true"}), ("/v1/file/watch", {"path": "/tmp", "recursive": False}),
    ("/v1/file/watch/wait", {"path": "/etc/passwd"}), ("/v1/nodejs/execute", {"code": "1"})])
def test_few_descriptors(start_server, path, body):
    """Whichever is the one that is missing: it is said, nothing waits for ever, and nothing stays."""
    server = start_server(env=LEAN)
    server.post("/v1/bash/exec", {"command": "true"})  # the pump has its own from now on
    statuses = set()
    with server.connect(timeout=60) as peer:
        assert peer.ask(request("/health")).status == 200
        most = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)[1]
        for count in (0, 1, 2, 3, 4, 5, 7, 9):
            leave_descriptors(server, count, most)
            statuses.add(peer.ask(request(path, "POST", JSON, json.dumps(body).encode())).status)
            resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (most, most))
    assert statuses <= {200, 429} and 200 in statuses
    server.request("DELETE", "/v1/shell/sessions")
    for session in server.get("/v1/bash/sessions").json()["data"]:
        server.post(f"/v1/bash/sessions/{session['session_id']}/close")
    for watcher in server.get("/v1/file/watch").json()["watchers"]:
        server.request("DELETE", f"/v1/file/watch/{watcher['watcher_id']}")
    eventually(lambda: not server.children())
