"""Tickets for looking at a box's desktop: the host gives them, checks them, and reports to the box what they are."""

import re
import socket
from types import SimpleNamespace
from urllib.parse import parse_qs, quote, urlsplit

import chromium
import pytest
from websockets.exceptions import InvalidStatus

from desktop import NEEDED
from harness import START_SECONDS, eventually, request
from hosts import FakeServer, answer
from rfb import Rfb

HTML = "text/html,application/xhtml+xml,*/*;q=0.8"
OPENED = {"Accept": HTML, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "none"}
UPGRADE = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
           "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
SEEN = ["/websockify", "/vnc/access", "/vnc/index.html", "/static/web/vnc/vnc.js", "/favicon.ico", "/vnc", "/vnc/"]
ELSE = ["/", "/v1/sandbox", "/v1/bash/exec", "/v1/shell/ws", "/v1/bash/ws", "/mcp", "/v1/mcp", "/terminal", "/v1/docs",
        "/v1/openapi.json", "/metrics", "/cdp", "/json/version", "/devtools/browser", "/v1/browser/screenshot",
        "/proxy/3000/", "/absproxy/3000/", "/vnc/other", "/nowhere", "/vnc/..%2f..%2fv1/sandbox", "/v1/file/download"]


def serve(fake, conn):
    while fake.read_head(conn):
        conn.sendall(answer(b"from the box"))


@pytest.fixture
def fake(box):
    with FakeServer(box, serve) as fake:
        yield fake


def ask(host, target, headers=(), name="localhost", method="GET", **more):
    with host.connect() as peer:
        return peer.ask(request(target, method, dict(headers), host=f"{name}:{host.port}", **more))


def ticket(box, scope="view"):
    got = box.request("POST", "/tickets", json={"scope": scope})
    assert got.status_code == 200 and set(got.json()) == {"ticket", "expires_in"}, got.text
    return got.json()["ticket"]


def cookie_of(got):
    values = [value.split(";")[0] for name, value in got.headers if name.lower() == "set-cookie"]
    return values[0] if values else None


def viewer_cookie(host, box):
    got = ask(host, f"/vnc/index.html?ticket={ticket(box)}&autoconnect=true", OPENED, f"{box.id}.localhost")
    assert got.status == 303 and got["location"].endswith("/vnc/index.html?autoconnect=true")
    return {"Cookie": cookie_of(got)}


def forms(box):
    """How a request names its box: a prefix, a host name, headers."""
    return [("", f"{box.id}.localhost", {}), (f"/s/{box.id}", "localhost", {}),
            ("", "localhost", {"x-aio-sandbox": box.id})]


def is_refused(got):
    return got.status == 403 and b"looking at the desktop only" in got.body


# --- what reaches a box ---------------------------------------------------------------------------


def test_the_box_is_told(host, box, fake):
    for prefix, name, headers in forms(box):
        for path in SEEN:
            for more in ({}, {"X-AIO-View": "0"}, {"x-aio-view": ""}, {"X-AIO-View": "no"}):
                got = ask(host, f"{prefix}{path}?ticket={ticket(box)}", {**headers, **more}, name)
                assert got.body == b"from the box", (prefix, path, got.body)
                head = fake.heads.pop().lower()
                assert head.count("x-aio-view") == 1 and "\r\nx-aio-view: 1\r\n" in head and "ticket" not in head


def test_no_client_says_so_itself(host, box, fake):
    for credential in ({"Authorization": f"Bearer {box.token}"}, {"X-AIO-API-Key": box.token}):
        for path in ("/websockify", "/v1/sandbox"):
            ask(host, path, {**credential, "x-aio-sandbox": box.id, "X-AIO-View": "1"})
            assert "x-aio-view" not in fake.heads.pop().lower()
    for query in (f"ticket={ticket(box, 'all')}", f"api_key={quote(box.token)}"):
        ask(host, f"/v1/sandbox?{query}", {"x-aio-sandbox": box.id, "X-AIO-View": "1"})
        assert "x-aio-view" not in fake.heads.pop().lower()
    # The strongest of several credentials counts.
    for query in (f"ticket={ticket(box)}&api_key={quote(box.token)}", f"api_key={quote(box.token)}&ticket={ticket(box)}"):
        assert ask(host, f"/v1/sandbox?{query}", {"x-aio-sandbox": box.id}).body == b"from the box"
        assert "x-aio-view" not in fake.heads.pop().lower()


def test_nothing_else_reaches_it(host, box, fake):
    text, cookie = ticket(box), viewer_cookie(host, box)
    fake.heads.clear()
    for prefix, name, headers in forms(box):
        for path in ELSE:
            for method, more in (("GET", {}), ("POST", {"Content-Length": "0"}), ("GET", UPGRADE)):
                got = ask(host, f"{prefix}{path}?ticket={text}", {**headers, **more}, name, method)
                assert is_refused(got), (prefix, path, got.status, got.body)
    for path in ELSE:
        for more in ({}, UPGRADE, {"Sec-Fetch-Site": "same-origin", "Origin": f"http://{box.id}.localhost:{host.port}"}):
            got = ask(host, path, {**cookie, **more}, f"{box.id}.localhost")
            assert is_refused(got), (path, got.status, got.body)
    # Previews, by any way to name a port, and with paths that a viewer may have elsewhere.
    for path in ("/", "/websockify", "/vnc/index.html", "/static/web/vnc/vnc.js"):
        for more in ({}, UPGRADE, OPENED):
            assert is_refused(ask(host, f"{path}?ticket={text}", more, f"3000-{box.id}.localhost"))
            assert is_refused(ask(host, path, {**cookie, **more}, f"3000-{box.id}.localhost"))
            headers = {**more, "x-aio-sandbox": box.id, "x-aio-proxy-port": "3000"}
            assert is_refused(ask(host, f"{path}?ticket={text}", headers))
    assert fake.heads == []


def test_no_ticket_comes_of_it(host, box):
    text, cookie = ticket(box), viewer_cookie(host, box)
    body = {"body": b'{"scope": "all"}'}
    json = {"Content-Type": "application/json", "x-aio-sandbox": box.id}
    for scope in (b'{"scope": "all"}', b'{"scope": "view"}', b""):
        assert is_refused(ask(host, f"/tickets?ticket={text}", json, method="POST", body=scope))
    got = ask(host, "/tickets", {**cookie, "Content-Type": "application/json"}, f"{box.id}.localhost", "POST", **body)
    assert is_refused(got) or got.status == 401
    got = ask(host, "/auth", {"x-aio-sandbox": box.id, "x-original-uri": f"/websockify?ticket={text}"})
    assert got.status == 403
    for way in ({"Authorization": f"Bearer {text}"}, {"X-AIO-API-Key": text}, {"Cookie": f"aio_box={text}"}):
        assert ask(host, "/vnc/access", {**way, "x-aio-sandbox": box.id}).status == 401
    assert box.request("POST", "/tickets", json={"scope": "more"}).status_code == 422


def test_an_address_never_becomes_more(host, box, fake):
    """Visits that lead elsewhere: a view stays one."""
    text = ticket(box)
    for path in ("/vnc/index.html", "/vnc"):
        got = ask(host, f"/s/{box.id}{path}?ticket={text}", OPENED)
        assert got.status == 307 and got["location"].endswith(f"{path}?ticket={text}")
    mine = {"Cookie": cookie_of(ask(host, f"/?api_key={quote(box.token)}", OPENED, f"{box.id}.localhost"))}
    got = ask(host, f"/vnc/index.html?ticket={text}", {**OPENED, **mine}, f"{box.id}.localhost")
    assert got.status == 303 and cookie_of(got) is None  # what was there is more
    fake.heads.clear()
    ask(host, "/v1/sandbox", mine, f"{box.id}.localhost")
    assert "x-aio-view" not in fake.heads.pop().lower()
    ask(host, f"/websockify?ticket={text}", {**mine, **UPGRADE}, f"{box.id}.localhost")
    assert "x-aio-view: 1" in fake.heads.pop().lower()


def test_of_another_box(host, box):
    other = host.create()
    try:
        text, cookie = ticket(box), viewer_cookie(host, box)
        for path in ("/websockify", "/vnc/index.html", "/v1/sandbox"):
            assert ask(host, f"{path}?ticket={text}", {"x-aio-sandbox": other.id}).status == 401
            assert ask(host, path, cookie, f"{other.id}.localhost").status == 401
    finally:
        other.delete()


def test_forged(host, box):
    text = ticket(box)
    for at in range(len(text)):
        other = text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1:]
        assert ask(host, f"/v1/sandbox?ticket={other}", {"x-aio-sandbox": box.id}).status == 401, at


def test_old_ones(start_host):
    """Of before a restart, and expired."""
    host = start_host(env={"TICKET_TTL_SECONDS": "5"})
    box = host.create()
    text = ticket(box)
    assert eventually(lambda: ask(host, f"/vnc/access?ticket={text}", {"x-aio-sandbox": box.id}).status == 401)
    cookie = viewer_cookie(host, box)
    assert ask(host, "/vnc/access", cookie, f"{box.id}.localhost").status == 200
    host.stop()
    host.start()
    assert ask(host, "/vnc/access", cookie, f"{box.id}.localhost").status == 401
    assert ask(host, f"/vnc/access?ticket={text}", {"x-aio-sandbox": box.id}).status == 401


# --- a desktop ------------------------------------------------------------------------------------


def vnc(box, query="", headers=None, name="127.0.0.1"):
    sock = socket.create_connection(("127.0.0.1", box.host.port))
    return Rfb(SimpleNamespace(host=name, port=box.host.port), query, sock=sock,
               additional_headers=box.headers if headers is None else headers)


FOCUSED = "xprop -id $(xprop -root _NET_ACTIVE_WINDOW | grep -o '0x[0-9a-f]*' | head -1) WM_CLASS 2>/dev/null || true"


@NEEDED
def test_a_viewer_does_not_type(host, box):
    if not box.run("command -v xterm || true"):
        pytest.skip("no xterm on this machine")
    assert box.request("GET", "/v1/browser/screenshot", timeout=START_SECONDS).status_code == 200
    box.run("(xterm -geometry 80x24 -e 'touch ~/begun; cat >~/typed' >/dev/null 2>&1 &)")
    assert eventually(lambda: "begun" in box.run("ls ~") and "xterm" in box.run(FOCUSED)), "it has not the focus"
    query, cookie = f"?ticket={ticket(box)}", viewer_cookie(host, box)
    origin = {"Origin": f"http://{box.id}.localhost:{host.port}"}

    def line(client, letter):
        for keysym in (ord(letter), 0xff0d):
            client.key(keysym)
        client.picture()

    with vnc(box) as full:
        line(full, "a")
        assert eventually(lambda: box.run("cat ~/typed") == "a\n")
        for viewer in (vnc(box, query, {"x-aio-sandbox": box.id}), vnc(box, "", {**cookie, **origin}, f"{box.id}.localhost"),
                       vnc(box, query, {"x-aio-sandbox": box.id, "X-AIO-View": "0"})):
            with viewer:
                line(viewer, "v")
                viewer.send("B", 7)
                code, reason = viewer.closed()
                assert code == 1002 and re.match("not a viewer's RFB", reason)
        line(full, "b")
        assert eventually(lambda: box.run("cat ~/typed") == "a\nb\n"), box.run("cat ~/typed")
    with pytest.raises(InvalidStatus) as refusal, vnc(box, "", {"x-aio-sandbox": box.id}):
        pass
    assert refusal.value.response.status_code == 401


@NEEDED
@chromium.NEEDED
def test_the_page_at_each_address(host, box):
    """All of them lead to the box's own name, and there to its desktop."""
    expect = pytest.importorskip("playwright.sync_api").expect
    own = f"http://{box.id}.localhost:{host.port}"
    addresses = [  # {}: a ticket, which is good for half a minute
        (own + "/vnc?ticket={}&path=websockify%3Fticket%3D{}", "Looking only"),
        (f"http://localhost:{host.port}/s/{box.id}/vnc/?ticket=" + "{}", "Looking only"),
        (f"http://127.0.0.1:{host.port}/s/{box.id}/vnc/index.html?api_key={quote(box.token)}", "Connected"),
        (f"http://127.0.0.1:{host.port}/vnc?autoconnect=true", "Connected"),
    ]
    with chromium.browser() as browser:
        for form, word in addresses:
            address = form.replace("{}", ticket(box))
            context = chromium.new_context(browser)
            page = context.new_page()
            watch = chromium.Watch(page)
            page.goto(address)
            expect(page.locator("#status span")).to_have_text(word, timeout=START_SECONDS * 1000)
            assert page.url.startswith(own if box.id in address else f"http://default.localhost:{host.port}")
            assert urlsplit(page.url).path == "/vnc/index.html" and not {"ticket", "api_key"} & set(parse_qs(urlsplit(page.url).query))
            assert watch.trouble == [], address
            if word == "Looking only":
                assert page.goto(f"{own}/terminal").status == 403
            context.close()
