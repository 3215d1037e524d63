"""What is large passes through, and what is slow holds up nobody but itself."""

import os
import time

import httpx
import pytest

from harness import LEAN, eventually, request
from processes import patiently

MIB = 1 << 20
GROWTH = 40 * MIB  # what a stream of any size may cost


@pytest.fixture(scope="module")
def lean(start_shared):
    return start_shared(program="fixture", env=LEAN)


@pytest.fixture(scope="module")
def impatient(start_shared):
    return start_shared(["--send-timeout", "1"], program="fixture")


def drain(peer, length=None):
    """Reads and drops a body, counting: `length` bytes, or chunks to their end."""
    buffer = bytearray(MIB)
    if length is None:
        total = 0
        while data := peer.chunk():
            total += len(data)
        return total
    total = len(peer.take(len(peer.data)))
    while total < length:
        got = peer.sock.recv_into(buffer)
        if not got:
            break
        total += got
    return total


# --- large answers -----------------------------------------------------------------------------


@pytest.mark.parametrize("count, size", [(300, MIB), (3_000_000, 97)])
def test_large_answer_is_not_held_in_memory(lean, count, size):
    """300 MB, as a few large strings and as many small ones."""
    before = lean.reset_peak()
    with lean.connect(timeout=60) as peer:
        peer.send(request(f"/items?count={count}&size={size}"))
        head = peer.head()
        assert head.status == 200 and head["transfer-encoding"] == "chunked"
        frame = len(b'{"success":true,"message":"Operation successful","data":[],"hint":null}')
        assert drain(peer) == frame + count * (size + 3) - 1
        assert lean.memory("VmHWM") - before < GROWTH
        assert peer.ask(request("/place/next")).status == 200


def test_large_answer_to_a_client_that_does_not_read(lean):
    before = lean.reset_peak()
    with lean.connect() as peer:
        peer.send(request("/items?count=300&size=1048576"))
        assert peer.head().status == 200
        assert lean.get("/health").status_code == 200
        assert lean.memory("VmHWM") - before < GROWTH


def test_long_string_passes_in_pieces(lean):
    """One value larger than any buffer."""
    text = "\u20ac\"\\\n" + "x" * (20 * MIB)
    answer = lean.post("/echo", {"text": "t", "free": text}, timeout=200)
    assert answer.json()["data"]["free"] == text


# --- uploads and downloads ---------------------------------------------------------------------

PART = b'--x\r\nContent-Disposition: form-data; name="file"; filename="big"\r\n\r\n'
END = b"\r\n--x--\r\n"
FORM = {"Content-Type": "multipart/form-data; boundary=x"}


@pytest.mark.parametrize("known", [True, False])
def test_large_upload_goes_to_disk(lean, known):
    block, count = bytes(range(256)) * 4096, 200
    before = lean.reset_peak()

    def body():
        yield PART
        for _ in range(count):
            yield block
        yield END

    length = {"Content-Length": str(len(PART) + count * MIB + len(END))} if known else {}
    data = lean.post("/upload", content=body(), headers={**FORM, **length}, timeout=200).json()["data"]
    assert data["size"] == count * MIB and data["sum"] == count * sum(block)
    assert lean.memory("VmHWM") - before < GROWTH


def test_large_file_is_sent_without_being_read(lean, tmp_path):
    file, size = tmp_path / "sparse", 1 << 30
    with open(file, "wb") as f:
        f.truncate(size)
        f.seek(size - 4)
        f.write(b"last")
    before = lean.reset_peak()
    with lean.connect(timeout=60) as peer:
        peer.send(request(f"/download?path={file}"))
        head = peer.head()
        assert head.status == 200 and int(head["content-length"]) == size
        assert drain(peer, size) == size
        assert lean.memory("VmHWM") - before < GROWTH
        answer = peer.ask(request(f"/download?path={file}", headers={"Range": "bytes=-4"}))
        assert answer.status == 206 and answer.body == b"last"


def test_file_that_shrinks_while_it_is_sent(lean, tmp_path):
    """The promised length cannot be kept: the client must notice."""
    file = tmp_path / "shrinking"
    file.write_bytes(b"x" * (50 * MIB))
    with lean.connect() as peer:
        peer.send(request(f"/download?path={file}"))
        head = peer.head()
        os.truncate(file, 1000)
        got = drain(peer, int(head["content-length"]))
        assert got < int(head["content-length"])


# --- clients that do not take their answer -----------------------------------------------------


@pytest.mark.parametrize("target", ["/items?count=1000&size=1048576", "/download?path={big}",
                                    "/events?count=100000000"])
def test_client_that_stops_reading_is_cut(impatient, tmp_path, target):
    big = tmp_path / "big"
    with open(big, "wb") as f:
        f.truncate(1 << 30)
    before = impatient.possessions()
    with impatient.connect(receive_buffer=4096) as peer:
        start = time.monotonic()
        peer.send(request(target.format(big=big)))
        assert peer.head().status == 200
        impatient.check_leaks(before)  # its thread and descriptor are free
        assert time.monotonic() - start > 0.7
        data = peer.rest()
        assert not data.endswith(b"0\r\n\r\n") and len(data) < 1 << 28


def test_client_that_reads_slowly_is_not_cut(impatient, start_server):
    def read(times):
        server = impatient if times == 1 else start_server(["--send-timeout", times], program="fixture")
        with server.connect() as peer:
            peer.send(request("/items?count=60&size=100000"))
            assert peer.head().status == 200
            total, pause = 0, time.monotonic() + 2 * times
            while data := peer.chunk():
                total += len(data)
                if time.monotonic() < pause:
                    time.sleep(0.1 * times)  # slower than the timeout in all, never for so long at once
            return data, total

    data, total = patiently(read, lambda got: got[0] == b"")
    assert data == b"" and total > 6000000


def test_client_that_leaves_in_the_middle(lean):
    before = lean.possessions()
    for leave in ("close", "reset"):
        peer = lean.connect()
        peer.send(request("/items?count=1000&size=1048576"))
        assert peer.head().status == 200
        peer.reset() if leave == "reset" else peer.sock.close()
        lean.check_leaks(before)


# --- events ------------------------------------------------------------------------------------


def test_events(fixture_server):
    answer = fixture_server.get("/events?count=3")
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.text == "".join(f"id: {i}\nevent: tick\ndata: line {i}\ndata: of two\n\n" for i in range(3))


def test_no_events(fixture_server):
    assert fixture_server.get("/events?count=0").status_code == 200


@pytest.mark.concurrency
def test_events_arrive_as_they_happen(fixture_server):
    with httpx.stream("GET", fixture_server.url + "/events?count=4&ms=250", trust_env=False, timeout=30) as answer:
        times = []
        for line in answer.iter_lines():
            if line.startswith("id: "):
                assert line == f"id: {len(times)}"
                times.append(time.monotonic())
    assert len(times) == 4
    with fixture_server.connect() as peer:  # the next would come in a minute
        peer.send(request("/events?count=4&ms=60000"))
        assert peer.head().status == 200 and b"id: 0" in peer.chunk()
        peer.reset()


@pytest.mark.concurrency
@pytest.mark.parametrize("leave", ["close", "reset"])
def test_leaving_ends_the_events(fixture_server, leave):
    before = fixture_server.possessions()
    peer = fixture_server.connect()
    peer.send(request("/events?count=1000000&ms=50"))
    assert peer.head().status == 200
    assert b"id: 0" in peer.chunk()
    peer.reset() if leave == "reset" else peer.sock.close()
    fixture_server.check_leaks(before)


# --- waiting -----------------------------------------------------------------------------------


@pytest.mark.concurrency
def test_leaving_ends_the_wait(fixture_server):
    count, begun = (fixture_server.log.count(text) for text in ("wait ended: left", "wait begins"))
    with fixture_server.connect() as peer:
        peer.send(request("/wait?ms=60000"))
        assert eventually(lambda: fixture_server.log.count("wait begins") == begun + 1)
        peer.reset()
    assert eventually(lambda: fixture_server.log.count("wait ended: left") == count + 1)


@pytest.mark.concurrency
def test_leaving_ends_the_wait_on_a_unix_socket(start_server, tmp_path):
    server = start_server(program="fixture", listen=f"unix:{tmp_path}/socket")
    with server.connect() as peer:
        peer.send(request("/wait?ms=60000"))
        assert server.logged("wait begins")
    assert server.logged("wait ended: left")


def test_wait_is_punctual(fixture_server):
    start = time.monotonic()
    assert fixture_server.get("/wait?ms=300").json()["data"] == "timeout"
    assert 0.29 < time.monotonic() - start < 30


def test_pipelined_input_is_not_taken_for_leaving(fixture_server):
    with fixture_server.connect() as peer:
        peer.send(request("/wait?ms=300"))
        peer.send(request("/place/next"))
        assert peer.answer().json()["data"] == "timeout"
        assert peer.answer().json()["data"]["id"] == "next"
