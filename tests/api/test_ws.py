"""WebSockets against the fixture server, whose route /ws/echo sends every message back."""

import base64
import contextlib
import hashlib
import os
import socket
import struct
import threading
import time
from urllib.parse import quote

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import serve

from harness import ANSWER_SECONDS, START_SECONDS, connect

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


@pytest.fixture
def echo_url(fixture_server):
    return f"ws://{fixture_server.host}:{fixture_server.port}/ws/echo"


@pytest.fixture(autouse=True)
def still_serves(echo_url):
    """Whatever a test did, the next client is served."""
    yield
    with connect(echo_url, compression=None) as ws:
        ws.send("alive")
        assert ws.recv(timeout=30) == "alive"


# --- by hand ---------------------------------------------------------------------------------


def new_key():
    return base64.b64encode(os.urandom(16)).decode()


def upgrade_head(server, method="GET", path="/ws/echo", **changes):
    """The head of a good handshake; a change of None leaves that header out."""
    headers = {
        "Host": f"{server.host}:{server.port}",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": new_key(),
    }
    headers.update({name.replace("_", "-"): value for name, value in changes.items()})
    lines = [f"{name}: {value}" for name, value in headers.items() if value is not None]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode()


class Raw:
    """A connection that sends and receives bytes and single frames."""

    def __init__(self, server):
        self.sock = socket.create_connection((server.host, server.port), timeout=ANSWER_SECONDS)
        self.data = b""

    def take(self, count):
        while len(self.data) < count:
            more = self.sock.recv(65536)
            if not more:
                raise EOFError
            self.data += more
        taken, self.data = self.data[:count], self.data[count:]
        return taken

    def read_head(self):
        while b"\r\n\r\n" not in self.data:
            more = self.sock.recv(65536)
            if not more:
                raise EOFError
            self.data += more
        head, self.data = self.data.split(b"\r\n\r\n", 1)
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, value in (x.split(":", 1) for x in lines)}
        return int(first.split()[1]), headers

    def read_frame(self):
        """The first byte and the payload."""
        first, length = self.take(2)
        assert length < 128, "a server does not mask"
        if length == 126:
            (length,) = struct.unpack("!H", self.take(2))
        elif length == 127:
            (length,) = struct.unpack("!Q", self.take(8))
        return first, self.take(length)

    def read_close(self):
        """The code of the Close that comes next, and of nothing behind it."""
        first, payload = self.read_frame()
        assert first == 0x80 | CLOSE
        code = struct.unpack("!H", payload[:2])[0] if payload else None
        self.sock.shutdown(socket.SHUT_WR)
        with pytest.raises((EOFError, ConnectionError)):
            self.take(1)
        return code


def frame(opcode, payload=b"", fin=True, mask=b"\x11\x22\x33\x44", rsv=0, length=None):
    length = len(payload) if length is None else length
    first = fin << 7 | rsv << 4 | opcode
    masked = 0x80 if mask else 0
    if length < 126:
        head = struct.pack("!BB", first, masked | length)
    elif length < 65536:
        head = struct.pack("!BBH", first, masked | 126, length)
    else:
        head = struct.pack("!BBQ", first, masked | 127, length)
    if mask:
        key = (mask * (len(payload) // 4 + 1))[: len(payload)]
        payload = (int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")).to_bytes(
            len(payload), "big"
        )
    return head + (mask or b"") + payload


@pytest.fixture
def raw(fixture_server):
    """A connection before its handshake."""
    raw = Raw(fixture_server)
    with contextlib.closing(raw.sock):
        yield raw


@pytest.fixture
def raw_ws(raw, fixture_server):
    """A connection after its handshake."""
    raw.sock.sendall(upgrade_head(fixture_server))
    assert raw.read_head()[0] == 101
    return raw


# --- messages --------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65535, 65536, 1 << 20])
def test_echo(echo_url, size):
    data = (os.urandom(4096) * (size // 4096 + 1))[:size]
    with connect(echo_url, compression=None, max_size=None) as ws:
        ws.send(data)
        assert ws.recv(timeout=30) == data
        ws.send("x" * size)
        assert ws.recv(timeout=30) == "x" * size


def test_text_stays_text(echo_url):
    text = "h\u00e9llo \u20ac \U0001f600 \0 end"
    with connect(echo_url) as ws:
        ws.send(text)
        assert ws.recv(timeout=30) == text


def test_messages_keep_their_order(echo_url):
    with connect(echo_url) as ws:
        for i in range(200):
            ws.send(str(i))
        assert [ws.recv(timeout=30) for _ in range(200)] == [str(i) for i in range(200)]


def test_fragments_are_assembled(echo_url):
    with connect(echo_url, compression=None) as ws:
        ws.send(["one ", "", "two ", "three"])
        assert ws.recv(timeout=30) == "one two three"
        ws.send([b"\0" * 70000, b"\1" * 70000])
        assert ws.recv(timeout=30) == b"\0" * 70000 + b"\1" * 70000


def test_control_frames_between_fragments(raw_ws):
    raw_ws.sock.sendall(
        frame(TEXT, b"a\xe2\x82", fin=False)
        + frame(PING, b"there?")
        + frame(0, b"\xac", fin=False)
        + frame(PONG, b"unasked")
        + frame(0, b"b")
    )
    assert raw_ws.read_frame() == (0x80 | PONG, b"there?")
    assert raw_ws.read_frame() == (0x80 | TEXT, "a\u20acb".encode())


def test_one_byte_at_a_time(raw_ws):
    raw_ws.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in frame(TEXT, b"x" * 130):
        raw_ws.sock.sendall(bytes([byte]))
    assert raw_ws.read_frame() == (0x80 | TEXT, b"x" * 130)


def test_frame_sent_with_the_handshake(raw, fixture_server):
    raw.sock.sendall(upgrade_head(fixture_server) + frame(TEXT, b"early"))
    assert raw.read_head()[0] == 101
    assert raw.read_frame() == (0x80 | TEXT, b"early")


def test_ping(echo_url):
    with connect(echo_url) as ws:
        assert ws.ping("x" * 125).wait(30)
        assert ws.ping().wait(30)


# --- closing ---------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [1000, 1001, 1003, 1007, 1011, 3000, 4999])
def test_close_is_answered_with_its_code(raw_ws, code):
    raw_ws.sock.sendall(frame(CLOSE, struct.pack("!H", code) + b"bye"))
    assert raw_ws.read_close() == code


def test_close_without_a_code(raw_ws):
    raw_ws.sock.sendall(frame(CLOSE))
    assert raw_ws.read_close() is None


def test_close_is_quick(echo_url):
    with connect(echo_url, close_timeout=60) as ws:
        start = time.monotonic()
        ws.close(4000, "done")
        assert time.monotonic() - start < 50, "it did not wait in vain"
        assert ws.protocol.close_rcvd.code == 4000


BREACHES = {
    "unmasked": (frame(TEXT, b"x", mask=None), 1002),
    "reserved bit": (frame(TEXT, b"x", rsv=4), 1002),
    "reserved opcode": (frame(3, b"x"), 1002),
    "reserved control opcode": (frame(11), 1002),
    "continuation of nothing": (frame(0, b"x"), 1002),
    "message inside another": (frame(TEXT, b"x", fin=False) + frame(TEXT, b"x"), 1002),
    "long ping": (frame(PING, b"x" * 126), 1002),
    "fragmented ping": (frame(PING, b"x", fin=False), 1002),
    "wasteful length": (b"\x81\xfe\x00\x01\0\0\0\0x", 1002),
    "negative length": (frame(BINARY, b"x", length=1 << 63), 1002),
    "half a close code": (frame(CLOSE, b"\x03"), 1002),
    "close code 1005": (frame(CLOSE, struct.pack("!H", 1005)), 1002),
    "close code 2000": (frame(CLOSE, struct.pack("!H", 2000)), 1002),
    "close reason": (frame(CLOSE, struct.pack("!H", 1000) + b"\xff"), 1007),
    "bad text": (frame(TEXT, b"\xc0\x80"), 1007),
    "cut text": (frame(TEXT, b"\xe2\x82"), 1007),
    "bad text over fragments": (frame(TEXT, b"\xed", fin=False) + frame(0, b"\xa0\x80"), 1007),
    "oversize": (frame(BINARY, b"x" * 100000, length=1 << 40), 1009),
    "largest length": (frame(BINARY, b"x", length=(1 << 63) - 1), 1009),
}


@pytest.mark.parametrize("breach", BREACHES)
def test_breach_is_told(raw_ws, breach):
    data, code = BREACHES[breach]
    raw_ws.sock.sendall(data)
    assert raw_ws.read_close() == code


def test_oversize_is_told_to_a_client_that_is_still_sending(echo_url):
    """The Close must get through although the server leaves input unread."""
    with connect(echo_url, compression=None, max_size=None) as ws:
        with pytest.raises(ConnectionClosed) as closed:
            ws.send(b"x" * (80 << 20))
            ws.recv(timeout=30)
    assert closed.value.rcvd.code == 1009


# --- many, rude and absent clients -----------------------------------------------------------


def test_fifty_at_once(echo_url):
    problems = []
    everyone = threading.Barrier(50, timeout=START_SECONDS)

    def talk(number):
        try:
            with connect(echo_url, compression=None) as ws:
                everyone.wait()
                for i in range(20):
                    text = f"{number}:{i}:" + "x" * (number * 100)
                    ws.send(text)
                    assert ws.recv(timeout=30) == text
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=talk, args=(n,)) for n in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems


@pytest.mark.parametrize("last", [b"", frame(TEXT, b"x" * 500)[:100], frame(TEXT, b"x", fin=False)])
@pytest.mark.parametrize("reset", [False, True])
def test_client_vanishes(raw_ws, last, reset):
    raw_ws.sock.sendall(last)
    if reset:
        raw_ws.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raw_ws.sock.close()


def test_client_half_closes(raw_ws):
    raw_ws.sock.sendall(frame(TEXT, b"last"))
    raw_ws.sock.shutdown(socket.SHUT_WR)
    assert raw_ws.read_frame() == (0x80 | TEXT, b"last")
    with pytest.raises((EOFError, ConnectionError)):
        while True:
            raw_ws.read_frame()


def test_client_that_does_not_read_stalls_only_itself(raw_ws, echo_url):
    raw_ws.sock.settimeout(1)  # for which nothing moves any more
    with pytest.raises(TimeoutError):
        for _ in range(1000):
            raw_ws.sock.sendall(frame(BINARY, b"x" * 65536))
    with connect(echo_url) as ws:
        ws.send("quick")
        assert ws.recv(timeout=30) == "quick"


# --- handshakes ------------------------------------------------------------------------------


def test_handshake(raw, fixture_server):
    key = new_key()
    raw.sock.sendall(upgrade_head(fixture_server, Sec_WebSocket_Key=key))
    status, headers = raw.read_head()
    accept = base64.b64encode(hashlib.sha1((key + GUID).encode()).digest()).decode()
    assert status == 101
    assert headers["sec-websocket-accept"] == accept
    assert headers["upgrade"].lower() == "websocket"
    assert headers["connection"].lower() == "upgrade"
    assert "sec-websocket-extensions" not in headers
    assert "content-length" not in headers and "transfer-encoding" not in headers


def test_handshake_is_generous_about_case_and_lists(raw, fixture_server):
    raw.sock.sendall(
        upgrade_head(fixture_server, Upgrade="WebSocket", Connection="keep-alive, upgrade")
    )
    assert raw.read_head()[0] == 101


def test_compression_is_not_agreed_on(echo_url):
    with connect(echo_url, compression="deflate") as ws:
        assert ws.protocol.extensions == []
        ws.send("plain")
        assert ws.recv(timeout=30) == "plain"


REFUSALS = {
    "no key": ({"Sec_WebSocket_Key": None}, {400}),
    "short key": ({"Sec_WebSocket_Key": "c2hvcnQ="}, {400}),
    "key that is no base64": ({"Sec_WebSocket_Key": "*" * 24}, {400}),
    "old version": ({"Sec_WebSocket_Version": "8"}, {426}),
    "no version": ({"Sec_WebSocket_Version": None}, {426}),
    "no upgrade": ({"Upgrade": None, "Connection": None}, {426}),
    "upgrade without connection": ({"Connection": "keep-alive"}, {426}),
    "other protocol": ({"Upgrade": "h2c"}, {426}),
    "POST": ({"method": "POST"}, {405}),
    "body": ({"Content_Length": "5"}, {400}),
}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_handshake_is_refused(raw, fixture_server, refusal):
    changes, statuses = REFUSALS[refusal]
    raw.sock.sendall(upgrade_head(fixture_server, **changes))
    status, headers = raw.read_head()
    assert status in statuses
    if status == 426:
        assert headers["sec-websocket-version"] == "13"
        assert headers["upgrade"].lower() == "websocket"


# --- our client: /ws/relay takes messages to another server and brings the answers back ---------


@pytest.fixture
def shouter():
    """A server of the websockets package, which answers in capitals."""

    def shout(ws):
        with contextlib.suppress(ConnectionClosed):
            for message in ws:
                ws.send(message.upper())

    with serve(shout, "127.0.0.1", 0, max_size=None) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield "ws://127.0.0.1:%d/any/path?q=1" % server.socket.getsockname()[1]
        server.shutdown()
        thread.join()


def relay(server, url):
    target = f"ws://{server.host}:{server.port}/ws/relay?url={quote(url, safe='')}"
    return connect(target, compression=None, max_size=None)


def test_client_sends_and_receives(fixture_server, shouter):
    with relay(fixture_server, shouter) as ws:
        for message in ("text", b"bytes\x00\xff", "", "grüße", "x" * (1 << 20), b"y" * 70000):
            ws.send(message)
            assert ws.recv(timeout=30) == message.upper()


@pytest.mark.parametrize("url", ["ws://127.0.0.1:1/", "ws://no such host/", "wss://127.0.0.1/", "http://127.0.0.1/"])
def test_client_that_cannot_connect(fixture_server, url):
    with relay(fixture_server, url) as ws, pytest.raises(ConnectionClosed) as closed:
        ws.recv(timeout=30)
    assert closed.value.rcvd.code == 1013 and closed.value.rcvd.reason


def test_client_of_a_server_that_is_none(fixture_server):
    """It is answered, but not with a handshake."""
    with relay(fixture_server, f"ws://{fixture_server.host}:{fixture_server.port}/health") as ws:
        with pytest.raises(ConnectionClosed) as closed:
            ws.recv(timeout=30)
    assert closed.value.rcvd.code == 1013
