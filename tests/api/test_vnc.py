"""VNC on a WebSocket: what a person does reaches the programs of the desktop, and what a viewer does, does not."""

import contextlib
import os
import signal
import socket
import struct
import time
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus

import desktop
from desktop import NEEDED, tester  # noqa: F401
from harness import ANSWER_SECONDS, START_SECONDS, connect, eventually, request
from rfb import CONTINUOUS, FENCE, RAW, Rfb
from x11 import BUTTON_PRESS, KEY_PRESS, MOTION, Client, Hostile

pytestmark = NEEDED
KEY = "the+key"
HEADERS = {"X-AIO-API-Key": KEY}
A, B = 0x61, 0x62


@pytest.fixture(scope="module")
def server(tester, start_shared):  # noqa: F811
    server = start_shared(**desktop.options(tester))
    desktop.warm(server)
    return server


@pytest.fixture(scope="module")
def guarded(tester, start_shared):  # noqa: F811
    """One that wants a key, with a desktop."""
    server = start_shared(**desktop.options(tester, SANDBOX_API_KEY=KEY))
    server.client.headers.update(HEADERS)
    desktop.warm(server)
    return server


@pytest.fixture
def peer(server):
    with Client(desktop.access(server)) as peer:
        yield peer


def ticket(server, **body):
    response = server.post("/tickets", body, headers=HEADERS)
    assert response.status_code == 200, response.text
    assert response.json()["expires_in"] == 30
    return response.json()["ticket"]


def viewer(server, **more):
    return Rfb(server, f"?ticket={ticket(server, scope='view')}", **more)


def shot_size(server):
    headers = server.get("/v1/browser/screenshot", headers=HEADERS).headers
    return int(headers["x-screen-width"]), int(headers["x-screen-height"])


# --- a desktop -------------------------------------------------------------------------------------


def test_the_picture(server, peer):
    with Rfb(server) as vnc:
        assert (vnc.width, vnc.height) == shot_size(server) == (1280, 1024)
        for colour in (0x123456, 0xfedcba):
            peer.paint(colour)
            assert eventually(lambda: vnc.pixel(640, 900) == colour)


def test_keys_and_mouse_reach_a_program(server, peer):
    window = peer.window()
    x, y = peer.place(window)
    with Rfb(server) as vnc:
        vnc.pointer(x + 10, y + 20)
        assert peer.seen(MOTION, until=lambda found: found[-1][2:] == (x + 10, y + 20))
        vnc.pointer(x + 10, y + 20, 1)
        vnc.pointer(x + 10, y + 20, 0)
        assert peer.event(BUTTON_PRESS)[1] == 1
        vnc.key(A)
        first = peer.event(KEY_PRESS)[1]
        vnc.key(B)
        assert peer.event(KEY_PRESS)[1] != first


def test_the_clipboard_both_ways(server, peer):
    window = peer.window()
    with Rfb(server) as vnc:
        vnc.picture()
        vnc.cut_text(b"from the visitor")
        vnc.picture()
        assert eventually(lambda: peer.fetch(window) == b"from the visitor")
        peer.own(window, b"from the desktop")
        peer.serve(offers=True)

        def comes():
            vnc.picture()
            return b"from the desktop" in vnc.cut

        assert eventually(comes)


def test_the_desktop_follows(server):
    with Rfb(server) as vnc, Rfb(server) as other:
        vnc.picture(), other.picture()
        vnc.resize(900, 700)
        assert eventually(lambda: len(vnc.picture()) == 900 * 700 * 4)
        assert eventually(lambda: len(other.picture()) == 900 * 700 * 4) and shot_size(server) == (900, 700)
        vnc.resize(1280, 1024)
        assert eventually(lambda: shot_size(server) == (1280, 1024))


def test_many_at_once(server, peer):
    with contextlib.ExitStack() as stack:
        all = [stack.enter_context(Rfb(server)) for _ in range(8)]
        peer.paint(0x00aa55)
        for vnc in all:
            assert eventually(lambda: vnc.pixel(640, 900) == 0x00aa55)
        window = peer.window()
        assert window
        for vnc in all:
            vnc.key(A)
            assert peer.event(KEY_PRESS)


@pytest.mark.parametrize("offered, agreed", [(None, None), (["binary"], "binary"), (["base64", "binary"], "binary"),
                                             (["chat"], None)])
def test_subprotocols(server, offered, agreed):
    """noVNC offers none, older ones offer "binary" and want it agreed to."""
    with Rfb(server, hello=False, subprotocols=offered) as vnc:
        assert vnc.socket.subprotocol == agreed
        vnc.hello(RAW)
        assert vnc.picture()


def test_the_last_input_arrives(server, peer):
    """Of who leaves at once."""
    peer.window()
    for leave in (lambda vnc: vnc.socket.close(), lambda vnc: vnc.socket.socket.shutdown(socket.SHUT_WR)):
        with Rfb(server) as vnc:
            vnc.key(A)
            leave(vnc)
            assert peer.event(KEY_PRESS)


@pytest.mark.parametrize("leave", [lambda vnc: vnc.socket.close(), lambda vnc: vnc.socket.socket.close()], ids=["in order", "cut"])
def test_what_is_held_is_let_go_of(server, peer, leave):
    """When its client is gone: the next click would drag something."""
    def held():
        pointer, keys = peer.ask(38, 0, struct.pack("<I", peer.root)), peer.ask(44, 0)
        return struct.unpack_from("<hh", pointer, 16), struct.unpack_from("<H", pointer, 24)[0], any(keys[8:40])

    with Rfb(server) as vnc:
        vnc.pointer(10, 20)
        vnc.pointer(30, 40, 1)
        vnc.key(A, 1)
        assert eventually(lambda: held() == ((30, 40), 1 << 8, True))
        leave(vnc)
        assert eventually(lambda: held() == ((30, 40), 0, False)), held()


def test_what_another_client_holds_is_left_to_it(server, peer):
    def held():
        return struct.unpack_from("<H", peer.ask(38, 0, struct.pack("<I", peer.root)), 24)[0]

    with Rfb(server) as dragging:
        dragging.pointer(30, 40, 1)
        assert eventually(lambda: held() == 1 << 8)
        with Rfb(server) as vnc:
            vnc.picture()
        server.at_rest()
        assert held() == 1 << 8
    assert eventually(lambda: held() == 0)


def test_text_is_refused(server):
    with Rfb(server, hello=False) as vnc:
        vnc.socket.send("RFB 003.008\n")
        assert vnc.closed()[0] == 1003


def test_a_message_that_is_too_large(server):
    with Rfb(server) as vnc:
        vnc.socket.send(bytes(2 << 20))
        assert vnc.closed()[0] == 1009
    with Rfb(server) as vnc:
        assert vnc.picture()


def test_bytes_may_come_in_any_pieces(server, peer):
    peer.window()
    with Rfb(server, hello=False) as vnc:
        for piece in b"RFB 003.008\n\1\1":
            vnc.socket.send(bytes([piece]))
        for piece in struct.pack(">BBxxI", 4, 1, A) + struct.pack(">BBxxI", 4, 0, A):
            vnc.socket.send([bytes([piece]), b""])  # a message of two frames
        assert peer.event(KEY_PRESS)


def test_without_an_upgrade(server):
    assert server.get("/websockify").status_code == 426
    assert server.post("/websockify").status_code == 405


def test_a_slow_client_is_cut_and_holds_nothing_up(server, peer):
    """One that asks and never reads: the desktop goes on for others, little is kept, and it is cut in the end."""
    with Rfb(server) as other, server.connect(receive_buffer=4096) as slow:
        before = server.memory()
        slow.send(request("/websockify", headers={
            "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}))
        frame = lambda data: slow.send(bytes([0x82, 0x80 | len(data), 0, 0, 0, 0]) + data)
        frame(b"RFB 003.008\n\1\1")
        start = time.monotonic()
        for _ in range(200):
            frame(struct.pack(">BBHHHH", 3, 0, 0, 0, 1280, 1024))
        for colour in (0x111111, 0x222222):
            peer.paint(colour)
            assert eventually(lambda: other.pixel(640, 900) == colour)
        assert server.memory() < before + (16 << 20)

        def cut():
            try:
                frame(struct.pack(">BBHHHH", 3, 0, 0, 0, 1280, 1024))
            except OSError:
                return True
            other.picture()
            return False

        assert eventually(cut, 120, 0.5)
        assert time.monotonic() - start > 20
        assert other.picture()


def test_a_desktop_that_is_killed(start_server, tester):  # noqa: F811
    """Its clients are told, and the next one has a new desktop."""
    server = start_server(**desktop.options(tester))
    desktop.warm(server)
    with Rfb(server) as vnc:
        vnc.picture()
        os.kill(next(pid for pid in server.children() if "vnc" in open(f"/proc/{pid}/cmdline").read()), signal.SIGKILL)
        assert vnc.closed() == (1001, "the desktop has ended")

    def again():
        with Rfb(server) as vnc:
            return vnc.picture()

    assert again()
    server.at_rest()
    server.baseline = server.possessions()


def test_a_client_that_breaks_the_protocol(server):
    with Rfb(server) as other:
        for rest in (b"\7" * 100, bytes(range(200, 240)) * 25, b"RFB 009.009\n" * 9):
            with Rfb(server) as vnc:
                vnc.socket.send(rest + b"\7" * 65536)
                assert vnc.closed() == (1001, "the desktop closed the connection")
        for _ in range(20):  # nobody is locked out by those who leave early
            with Rfb(server, hello=False) as vnc:
                vnc.take(12)
        assert other.picture()


def test_no_desktop(start_server, tester):  # noqa: F811
    """The reason is in the close frame."""
    options = desktop.options(tester)
    server, number = start_server(**options), options["env"]["AIO_DISPLAY"]
    lock = Path(f"/tmp/.X11-unix/X{number}")
    with Hostile(number, lambda sock: sock.recv(1)), Rfb(server, hello=False) as vnc:
        code, reason = vnc.closed()
    assert code == 1013 and "another X server" in reason, reason
    assert not lock.exists()


# --- pages -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path, to", [("/vnc", "vnc/index.html"), ("/vnc/", "index.html")])
def test_short_addresses(server, path, to):
    for query in ("", "?autoconnect=true&path=websockify%3Fa%3Db&resize=scale"):
        got = server.get(path + query, follow_redirects=False)
        assert got.status_code in (302, 307) and got.headers["location"] == to + query
    got = server.get(path + "?autoconnect=true", follow_redirects=True)
    assert got.status_code == 200 and "<title>Desktop</title>" in got.text
    assert got.url.path == "/vnc/index.html" and got.url.query == b"autoconnect=true"


def test_the_page(server):
    got = server.get("/vnc/index.html?autoconnect=true")
    assert got.status_code == 200 and got.headers["content-type"].startswith("text/html")
    assert "script-src 'self'" in got.headers["content-security-policy"]
    got = server.get("/static/novnc/core/rfb.js")
    assert got.status_code == 200 and "javascript" in got.headers["content-type"]


# --- looking only ----------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [{"scope": "all"}, {"scope": None}, {}, None])
def test_a_ticket_for_all(guarded, body):
    response = guarded.post("/tickets", body)
    assert response.status_code == 200 and set(response.json()) == {"ticket", "expires_in"}
    with connect_as(guarded, response.json()["ticket"]) as vnc, Client(desktop.access(guarded)) as peer:
        peer.window()
        vnc.key(A)
        assert peer.event(KEY_PRESS)


def connect_as(server, ticket):
    return Rfb(server, f"?ticket={ticket}")


@pytest.mark.parametrize("scope", ["View", "", "view ", 1, ["view"], "root"])
def test_a_scope_that_there_is_not(guarded, scope):
    response = guarded.post("/tickets", {"scope": scope})
    assert response.status_code == 422 and response.json()["detail"][0]["loc"] == ["body", "scope"]


def input_of(vnc, x, y):
    vnc.pointer(x, y)
    vnc.pointer(x, y, 1)
    vnc.pointer(x, y, 0)
    vnc.key(A)
    vnc.cut_text(b"a viewer's")
    vnc.send("BxxxiI", 6, -8, 1 | 1 << 27, then=b"abcd")  # extended
    vnc.resize(800, 600)
    vnc.send("BBHII", 255, 0, 1, A, 38)
    vnc.send("BBHII", 255, 0, 0, A, 38)
    vnc.send("BxBB", 250, 1, 2)


def test_a_viewer_sees_and_does_nothing(guarded):
    with Client(desktop.access(guarded)) as peer, viewer(guarded) as vnc, Rfb(guarded, additional_headers=HEADERS) as full:
        window = peer.window()
        x, y = peer.place(window)
        full.cut_text(b"the owner's")
        full.picture()
        assert eventually(lambda: peer.fetch(window) == b"the owner's")
        full.pointer(x + 50, y + 60)
        peer.seen(MOTION, until=lambda found: found[-1][2:] == (x + 50, y + 60))
        input_of(vnc, x + 5, y + 5)
        peer.paint(0x778899)
        assert eventually(lambda: vnc.pixel(1270, 1000) == 0x778899)  # so all before it was read
        full.key(B)
        full.pointer(x + 70, y + 80)
        data = peer.event(BUTTON_PRESS, KEY_PRESS, MOTION)
        assert data[0] & 127 == KEY_PRESS, "a viewer's mouse"
        code = data[1]
        seen = peer.seen(BUTTON_PRESS, KEY_PRESS, MOTION, until=lambda found: found[-1][0] == MOTION)
        assert seen == [(MOTION, 0, x + 70, y + 80)]
        full.key(A)
        assert peer.event(KEY_PRESS)[1] != code
        assert peer.fetch(window) == b"the owner's"
        assert shot_size(guarded) == (1280, 1024)


def test_what_a_viewer_may_send(guarded):
    with viewer(guarded, encodings=(RAW, FENCE, CONTINUOUS)) as vnc:
        vnc.picture()
        vnc.send("BxxxIB", 248, 1 << 31, 3, then=b"abc")  # to be answered
        while getattr(vnc, "payload", b"") != b"abc":
            vnc.message()
        vnc.send("BBHHHH", 150, 1, 0, 0, 1280, 1024)
        with Client(desktop.access(guarded)) as peer:
            peer.paint(0x010203)
            while vnc.pixels[-4:] != b"\3\2\1\0":  # without being asked for
                vnc.message()


@pytest.mark.parametrize("rest", [b"\7", b"\xfd\1\0\4abcd", b"\xfc", b"\xff\3\0\0", b"\6\0\0\0\x7f\xff\xff\xff"],
                         ids=["7", "gii", "252", "qemu", "endless"])
def test_what_ends_a_viewer(guarded, rest):
    with viewer(guarded) as vnc:
        vnc.socket.send(rest)
        code, reason = vnc.closed()
        assert code == 1002 and reason.startswith("not a viewer's RFB")


@pytest.mark.parametrize("first", [b"RFB 003.003\n", b"RFB 004.001\n", b"GET / HTTP/1", b"RFB 003.008\n\x02", b"RFB 003.008\n\x10"])
def test_what_a_viewer_may_not_begin_with(guarded, first):
    with Rfb(guarded, f"?ticket={ticket(guarded, scope='view')}", hello=False) as vnc:
        vnc.socket.send(first)
        assert vnc.closed()[0] == 1002


def test_a_viewer_in_pieces(guarded):
    """Input hidden in what may pass, split anywhere."""
    typed = struct.pack(">BBxxI", 4, 1, A) + struct.pack(">BBxxI", 4, 0, A)
    update = struct.pack(">BBHHHH", 3, 0, 0, 0, 8, 8)
    with Client(desktop.access(guarded)) as peer, Rfb(guarded, additional_headers=HEADERS) as full:
        peer.window()
        for step in (1, 2, 3, 5, 7, 11):
            with viewer(guarded) as vnc:
                data = update + typed + struct.pack(">BxxxI", 6, 16) + typed + typed + update + typed
                for at in range(0, len(data), step):
                    vnc.socket.send(data[at:at + step])
                vnc.picture()
        full.key(B)
        code = peer.event(KEY_PRESS)[1]
        full.key(B)
        assert peer.event(KEY_PRESS)[1] == code, "a viewer's key was typed"


def test_a_viewer_does_not_throw_others_out(guarded):
    with Rfb(guarded, additional_headers=HEADERS) as full, \
            Rfb(guarded, f"?ticket={ticket(guarded, scope='view')}", hello=False) as vnc:
        vnc.hello(RAW, shared=0)
        assert vnc.picture() and full.picture()


VIEW = {"/vnc", "/vnc/", "/vnc/index.html", "/vnc/access", "/favicon.ico", "/static/web/vnc/vnc.js",
        "/static/novnc/core/rfb.js"}
FREE = {"/health", "/auth"}  # for everybody


def refused(response):
    """A redirect to elsewhere is none."""
    return response.status_code == 403 and "looking at the desktop only" in response.text


@pytest.mark.parametrize("way", ["ticket", "cookie"])
def test_every_other_route_is_refused(guarded, way):
    text = ticket(guarded, scope="view")
    query, headers = ({"ticket": text}, {}) if way == "ticket" else ({}, {"Cookie": cookie_of(guarded, text)})
    ask = lambda method, path: guarded.client.request(method, path, params=query, follow_redirects=False,
                                                      headers={**headers, "X-AIO-API-Key": "", "Accept": "*/*"})
    for path in VIEW:
        got = ask("GET", path)
        assert got.status_code in (200, 307), (path, got.text)
    paths = guarded.get("/v1/openapi.json").json()["paths"]
    assert len(paths) > 70
    tried = [(method.upper(), path.replace("{", "").replace("}", "")) for path, item in paths.items() for method in item]
    tried += [("GET", path) for path in (
        "/", "/index.html", "/v1/docs", "/terminal", "/mcp", "/v1/mcp", "/metrics", "/nowhere", "/vnc/other", "/vnc/../terminal",
        "/json/version", "/json/list", "/cdp/json/list", "/cdp", "/devtools/browser", "/devtools/page/x", "/v1/shell/ws",
        "/v1/bash/ws", "/proxy/9222/", "/proxy/80", "/absproxy/80/x", "/llms.txt", "/v1/openapi.json", "/static/..%2f..")]
    for method, path in tried:
        got = ask(method, path)
        if path in FREE:
            assert got.status_code != 403 or path == "/auth"
        else:
            assert refused(got) or (got.status_code == 404 and path.startswith("/static/")), (method, path, got.status_code, got.text)
    # By names of programs' ports, and by the header for these.
    for more in ({"Host": f"3000-localhost:{guarded.port}"}, {"X-AIO-Proxy-Port": "3000"}):
        got = guarded.client.get("/vnc/index.html", params=query, headers={**headers, "X-AIO-API-Key": "", **more})
        assert refused(got), got.text
    assert refused(ask("POST", "/tickets"))


def cookie_of(server, text):
    """As a browser gets it, that opens the page by a link with a ticket."""
    got = server.client.get(f"/vnc/index.html?ticket={text}&autoconnect=true", follow_redirects=False,
                            headers={"X-AIO-API-Key": "", "Accept": "text/html", "Sec-Fetch-Mode": "navigate"})
    assert got.status_code == 303 and got.headers["location"].endswith("/vnc/index.html?autoconnect=true")
    server.client.cookies.clear()
    return got.headers["set-cookie"].split(";")[0]


def test_the_cookie_of_a_viewer_is_one(guarded):
    cookie = {"Cookie": cookie_of(guarded, ticket(guarded, scope="view")), "Origin": f"http://{guarded.host}:{guarded.port}"}
    got = guarded.client.get("/vnc/access", headers={**cookie, "X-AIO-API-Key": ""})
    assert got.status_code == 200 and got.json() == {"scope": "view"}
    with Client(desktop.access(guarded)) as peer, Rfb(guarded, additional_headers=cookie) as vnc:
        peer.window()
        vnc.key(A)
        assert vnc.picture()
        with Rfb(guarded, additional_headers=HEADERS) as full:
            full.key(B)
            code = peer.event(KEY_PRESS)[1]
            full.key(B)
            assert peer.event(KEY_PRESS)[1] == code


def test_who_has_more_keeps_it(guarded):
    """A link for looking, opened by somebody who is signed in, takes nothing away."""
    mine = cookie_of(guarded, ticket(guarded))
    text = ticket(guarded, scope="view")
    got = guarded.client.get(f"/vnc/index.html?ticket={text}", follow_redirects=False, headers={
        "X-AIO-API-Key": "", "Accept": "text/html", "Sec-Fetch-Mode": "navigate", "Cookie": mine})
    assert got.status_code == 303 and "set-cookie" not in got.headers
    access = lambda query="", **headers: guarded.client.get("/vnc/access" + query, headers={"X-AIO-API-Key": "", **headers}).json()
    assert access(Cookie=mine) == {"scope": "all"}
    assert access(f"?ticket={text}", Cookie=mine) == {"scope": "view"}  # what is asked for itself goes first
    assert access(f"?ticket={text}&api_key=the%2Bkey") == {"scope": "all"}
    assert access(f"?api_key=the%2Bkey&ticket={text}") == {"scope": "all"}


def test_a_forged_scope(guarded):
    """The scope is under the MAC, and the header of hosts means nothing here."""
    text = ticket(guarded, scope="view")
    for at in range(len(text)):
        other = text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1:]
        got = guarded.client.get("/v1/sandbox", params={"ticket": other}, headers={"X-AIO-API-Key": ""})
        assert got.status_code == 401, (at, got.text)
    ask = lambda **headers: guarded.client.get("/vnc/access", headers={**HEADERS, **headers}).json()["scope"]
    assert ask(**{"X-AIO-View": "1"}) == "all"
    got = guarded.client.get("/vnc/access", params={"ticket": text}, headers={"X-AIO-API-Key": "", "X-AIO-View": "0"})
    assert got.json()["scope"] == "view"


def test_a_gateways_check_lets_no_viewer_through(guarded):
    """It could not keep them to looking."""
    text = ticket(guarded, scope="view")
    for uri in (f"/v1/sandbox?ticket={text}", f"/vnc/index.html?ticket={text}", f"/websockify?ticket={text}"):
        got = guarded.client.get("/auth", headers={"x-original-uri": uri, "X-AIO-API-Key": ""})
        assert got.status_code == 403, got.text


def test_a_ticket_that_has_expired(start_server, tester):  # noqa: F811
    server = start_server(**desktop.options(tester, SANDBOX_API_KEY=KEY, TICKET_TTL_SECONDS="1"))
    text = server.post("/tickets", {"scope": "view"}, headers=HEADERS).json()["ticket"]
    get = lambda path: server.client.get(path, params={"ticket": text}).status_code
    assert eventually(lambda: get("/vnc/index.html") == 401)
    assert get("/v1/sandbox") == 401
    with pytest.raises(InvalidStatus) as refusal, Rfb(server, f"?ticket={text}"):
        pass
    assert refusal.value.response.status_code == 401


def test_where_no_key_is_wanted(server, peer):
    """Everybody may do everything; a link for looking still does no more than that."""
    text = server.post("/tickets", {"scope": "view"}).json()["ticket"]
    assert server.get("/vnc/access").json() == {"scope": "all"}
    assert server.get("/vnc/access", params={"ticket": text}).json() == {"scope": "view"}
    assert server.get("/v1/sandbox", params={"ticket": text}).status_code == 403
    assert server.get("/proxy/80/", params={"ticket": text}).status_code == 403
    peer.window()
    with Rfb(server, f"?ticket={text}") as vnc, Rfb(server) as full:
        vnc.key(A)
        assert vnc.picture()
        full.key(B)
        code = peer.event(KEY_PRESS)[1]
        full.key(B)
        assert peer.event(KEY_PRESS)[1] == code


def test_sockets_of_a_viewer(guarded):
    text = ticket(guarded, scope="view")
    for path in ("/v1/shell/ws", "/v1/bash/ws", "/cdp", "/devtools/browser", "/proxy/9222/devtools/browser/x"):
        with pytest.raises(InvalidStatus) as refusal, \
                connect(f"ws://{guarded.host}:{guarded.port}{path}?ticket={text}"):
            pass
        assert refusal.value.response.status_code == 403, path
