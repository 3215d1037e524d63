"""The desktop at /vnc/index.html, in a real Chromium against a real desktop, on which programs look at what arrives.

Screenshots for human eyes land in build/screens/.
"""

import os
import signal
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

import desktop
from chromium import NEEDED, Watch, chromium, new_context, screenshot  # noqa: F401 (a fixture)
from desktop import tester  # noqa: F401
from harness import ANSWER_SECONDS, START_SECONDS, eventually
from x11 import BUTTON_PRESS, CLEAR, KEY_PRESS, Client

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = sync_api.expect
expect.set_options(timeout=ANSWER_SECONDS * 1000)
pytestmark = [NEEDED, desktop.NEEDED]
KEY = "desktop key/+&=%"  # characters that a URL has to escape


@pytest.fixture(scope="module")
def server(tester, start_shared):  # noqa: F811
    server = start_shared(**desktop.options(tester))
    desktop.warm(server)
    return server


@pytest.fixture
def visit(chromium):  # noqa: F811
    contexts = []

    def visit(server, query="", key=None, connects=True, at="/vnc/index.html", **more):
        context = new_context(chromium, **{"permissions": ["clipboard-read", "clipboard-write"], **more})
        contexts.append(context)
        page = context.new_page()
        page.watch = Watch(page)
        page.goto(server.url + at + query)
        if connects:
            state(page, "connected")
        return page

    yield visit
    for context in contexts:
        context.close()


def state(page, name):
    expect(page.locator("#status")).to_have_attribute("data-state", name, timeout=START_SECONDS * 1000)


def size(page):
    return page.evaluate("(c => [c.width, c.height])(document.querySelector('#desktop canvas:not(.ghost)'))")


def pixel(page, x, y):
    return page.evaluate("""([x, y]) => {
        const copy = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
        copy.drawImage(document.querySelector('#desktop canvas:not(.ghost)'), x, y, 1, 1, 0, 0, 1, 1);
        return [...copy.getImageData(0, 0, 1, 1).data.slice(0, 3)];
    }""", [x, y])


def paint(server, colour):
    with Client(desktop.access(server)) as peer:
        peer.paint(colour)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_desktop_is_seen(server, visit, scheme):
    paint(server, 0x204080)
    page = visit(server, scheme=scheme)
    assert size(page) == [1280, 1024]
    assert eventually(lambda: pixel(page, 600, 500) == [0x20, 0x40, 0x80])
    assert eventually(lambda: "1280 × 1024" in page.locator("#title").inner_text())
    screenshot(page, f"vnc-{scheme}")
    page.locator("#help-open").click()
    screenshot(page, f"vnc-help-{scheme}")
    page.keyboard.press("Escape")
    page.locator("#clipboard-open").click()
    screenshot(page, f"vnc-clipboard-{scheme}")
    assert page.watch.foreign(server.url) == []
    assert page.watch.trouble == []


def test_what_is_typed_and_clicked_arrives(server, visit):
    with Client(desktop.access(server)) as peer:
        page = visit(server)
        window = peer.window()
        focused = "document.activeElement === document.querySelector('#desktop canvas')"
        assert eventually(lambda: page.evaluate(focused)), "the focus is elsewhere"
        for key in ("a", "Enter", "F5", "Escape", "Tab", "ArrowLeft"):
            page.keyboard.press(key)
            assert peer.event(KEY_PRESS), key
        assert page.evaluate(focused)
        x, y = peer.place(window)
        scale = page.evaluate("(c => c.getBoundingClientRect().width / c.width)(document.querySelector('#desktop canvas'))")
        box = page.locator("#desktop canvas").bounding_box()
        page.mouse.click(box["x"] + (x + 30) * scale, box["y"] + (y + 40) * scale)
        seen = peer.seen(BUTTON_PRESS, until=lambda found: True)
        assert abs(seen[0][2] - x - 30) <= 2 and abs(seen[0][3] - y - 40) <= 2
    assert page.watch.trouble == []


def test_the_keyboard_leads_out_and_back(server, visit):
    with Client(desktop.access(server)) as peer:
        page = visit(server)
        peer.window()
        page.keyboard.press("a")
        first = peer.event(KEY_PRESS)
        assert first
        page.keyboard.down("Control"), page.keyboard.down("Alt"), page.keyboard.down("Shift")
        assert page.evaluate("document.activeElement.id") == "view"
        page.keyboard.up("Shift"), page.keyboard.up("Alt"), page.keyboard.up("Control")
        for name in ("clipboard-open", "size", "full", "theme", "help-open"):
            page.keyboard.press("Tab")
            assert page.evaluate("document.activeElement.id") == name
        page.keyboard.press("Enter")
        expect(page.locator("#help")).to_be_visible()
        screenshot(page, "vnc-help-keyboard")
        page.keyboard.press("Escape")
        expect(page.locator("#help")).to_be_hidden()
        page.keyboard.press("Escape")
        page.keyboard.press("a")
        while (data := peer.event(KEY_PRESS)) and data[1] != first[1]:  # the modifiers that were pressed before
            pass
        assert data and data[28] & 0b1101 == 0, "a modifier is still down"


def test_the_clipboard_both_ways(server, visit):
    page = visit(server)
    with Client(desktop.access(server)) as peer:
        window = peer.window()
        page.evaluate("t => navigator.clipboard.writeText(t)", "from the visitor: grün 中文")
        page.keyboard.press("Control+v")
        assert peer.pasted(window) == "from the visitor: grün 中文".encode()
        peer.own(window, "from the desktop: grün 中文".encode())
        peer.serve(offers=True)
        assert eventually(lambda: page.evaluate("navigator.clipboard.readText()") == "from the desktop: grün 中文")
        page.locator("#clipboard-open").click()
        expect(page.locator("#clipboard-text")).to_have_value("from the desktop: grün 中文")
        page.locator("#clipboard-text").fill("typed by hand")
        assert peer.event(CLEAR), "it still owns the clipboard"
        assert eventually(lambda: peer.fetch(window) == b"typed by hand")
        page.evaluate("navigator.clipboard.writeText('of the visitor')")
        page.keyboard.press("Escape"), page.keyboard.press("Escape")
        page.keyboard.press("Control+v")
        assert peer.pasted(window) == b"typed by hand"
    assert page.watch.trouble == []


def test_pasting_needs_no_permission(server, visit):
    page = visit(server, permissions=[])
    with Client(desktop.access(server)) as peer:
        window = peer.window()
        page.locator("#clipboard-open").click()
        page.locator("#clipboard-text").fill("cut by hand")
        page.keyboard.press("Control+a"), page.keyboard.press("Control+x")
        page.keyboard.press("Escape"), page.keyboard.press("Escape")
        for key in ("Control+v", "Shift+Insert"):
            page.keyboard.press(key)
            assert peer.event(KEY_PRESS)
        assert eventually(lambda: peer.fetch(window) == b"cut by hand")


def test_sizes(server, visit):
    page = visit(server, width=900, height=700)
    button = page.locator("#size")
    shown = "(r => [r.width, r.height])(document.querySelector('#desktop canvas').getBoundingClientRect())"
    assert size(page) == [1280, 1024] and page.evaluate(shown)[1] <= 700
    button.click()
    assert eventually(lambda: size(page) == page.evaluate("[document.querySelector('main').clientWidth, document.querySelector('main').clientHeight]"))
    screenshot(page, "vnc-follows")
    page.set_viewport_size({"width": 1000, "height": 640})
    assert eventually(lambda: size(page)[0] == 1000)
    button.click()
    assert eventually(lambda: page.evaluate(shown)[0] == 1000)
    other = visit(server, query="?resize=remote", width=1280, height=800)
    assert eventually(lambda: size(other)[0] == 1280) and eventually(lambda: size(page)[0] == 1280)
    desktop_is(server, 1280, 1024)


def desktop_is(server, width, height):
    server.post("/v1/browser/config", {"resolution": {"width": width, "height": height}})


def test_looking_only_by_choice(server, visit):
    with Client(desktop.access(server)) as peer:
        page = visit(server, query="?view_only=true")
        peer.window()
        expect(page.locator("#status")).to_contain_text("Looking only")
        page.locator("#desktop canvas").click()
        page.keyboard.press("a")
        page.locator("#view").click()
        expect(page.locator("#status")).to_contain_text("Connected")
        page.locator("#desktop canvas").click(position={"x": 5, "y": 5})
        peer.window()  # it has the focus
        page.keyboard.press("b")
        first = peer.event(KEY_PRESS)[1]
        page.keyboard.press("b")
        assert peer.event(KEY_PRESS)[1] == first


def test_the_server_comes_back(start_server, visit, tester):  # noqa: F811
    server = start_server(**desktop.options(tester))
    desktop.warm(server)
    page = visit(server)
    page.evaluate("""window.heads = []
        new MutationObserver(() => heads.push(document.querySelector('#curtain h1').textContent))
            .observe(document.querySelector('#curtain'), {subtree: true, childList: true, characterData: true})""")
    desktop_dies(server)
    assert eventually(lambda: "Connection lost" in page.evaluate("heads"))
    screenshot(page, "vnc-lost")
    state(page, "connected")
    expect(page.locator("#curtain")).to_be_hidden()
    assert eventually(lambda: size(page) == [1280, 1024])
    server.signal()
    server.wait()
    state(page, "lost")
    expect(page.get_by_role("button", name="Reconnect now")).to_be_visible()
    assert page.evaluate("!!document.querySelector('.ghost')")
    screenshot(page, "vnc-server-gone")


def desktop_dies(server):
    pids = [pid for pid in server.children() if "vnc" in Path(f"/proc/{pid}/cmdline").read_text()]
    os.kill(pids[0], signal.SIGKILL)


def test_autoconnect_and_other_parameters(server, visit):
    page = visit(server, query="?autoconnect=false", connects=False)
    state(page, "idle")
    expect(page.get_by_role("button", name="Connect")).to_be_focused()
    screenshot(page, "vnc-idle")
    page.keyboard.press("Enter")
    state(page, "connected")
    assert "websockify" in page.watch.sockets[0]
    # Another path, and none on another server.
    page = visit(server, query="?path=websockify%3Fmine%3Dx&autoconnect=true")
    assert page.watch.sockets == [f"ws://{server.host}:{server.port}/websockify?mine=x"]
    for evil in ("//evil.example/websockify", "wss://evil.example/", "http://evil.example/x", "javascript:alert(1)"):
        page = visit(server, query="?path=" + quote(evil, safe=""))
        assert page.watch.sockets == [f"ws://{server.host}:{server.port}/websockify"] and page.watch.foreign(server.url) == []
    page = visit(server, at="/vnc", query="?autoconnect=true&theme=dark")
    assert urlsplit(page.url).path == "/vnc/index.html" and page.evaluate("document.documentElement.style.colorScheme") == "dark"


@pytest.fixture(scope="module")
def guarded(tester, start_shared):  # noqa: F811
    server = start_shared(**desktop.options(tester, SANDBOX_API_KEY=KEY))
    server.client.headers["X-AIO-API-Key"] = KEY
    desktop.warm(server)
    return server


def ticket(server, scope):
    return server.post("/tickets", {"scope": scope}).json()["ticket"]


def test_with_a_ticket(guarded, visit):
    """As guides write the address; it leaves the address bar, and works when the ticket has expired."""
    text = ticket(guarded, "all")
    page = visit(guarded, query=f"?ticket={text}&path=websockify%3Fticket%3D{text}&autoconnect=true")
    assert "?ticket=" not in page.url and page.watch.trouble == []
    page.reload()
    state(page, "connected")
    page = visit(guarded, query="?api_key=" + quote(KEY, safe=""))
    assert "api_key" not in page.url


def test_a_viewer(guarded, visit):
    text = ticket(guarded, "view")
    page = visit(guarded, query=f"?ticket={text}&path=websockify%3Fticket%3D{text}")
    expect(page.locator("#status")).to_contain_text("Looking only")
    expect(page.locator("#view")).to_be_disabled()
    paint(guarded, 0x336633)
    assert eventually(lambda: pixel(page, 600, 500) == [0x33, 0x66, 0x33])
    screenshot(page, "vnc-viewer")
    # One whose page does not keep to it.
    with Client(desktop.access(guarded)) as peer:
        peer.window()
        page.evaluate("desktop.rfb.viewOnly = false; desktop.rfb.sendKey(0x61, 'KeyA')")
        page.evaluate("desktop.rfb.sendKey(0x61, 'KeyA')")
        paint(guarded, 0x663366)
        assert eventually(lambda: pixel(page, 1270, 1010) == [0x66, 0x33, 0x66])
        assert not peer.event(KEY_PRESS, seconds=0.5)
    assert page.goto(guarded.url + "/terminal").status == 403
    assert page.watch.trouble[-1].startswith(("403", "error"))


def test_without_a_credential(guarded, visit):
    page = visit(guarded, connects=False)
    expect(page.locator("input[name=api_key]")).to_be_visible()
    page.locator("input[name=api_key]").fill(KEY)
    page.keyboard.press("Enter")
    state(page, "connected")
    page.context.clear_cookies()
    desktop_dies(guarded)
    state(page, "refused")
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    screenshot(page, "vnc-refused")
    desktop.warm(guarded)


@desktop.BROWSER_NEEDED
def test_a_visitor_finds_a_browser(start_server, visit, tester, tmp_path):  # noqa: F811
    """Nobody has started it; and it stays while somebody looks, however short its time without use is."""
    server = start_server(**desktop.browser_options(tester, "--service-idle", "1", HOMEPAGE="data:text/html,<title>home</title><body bgcolor=336699>"))
    page = visit(server, width=1400, height=1000)
    home = lambda: pixel(page, 640, 700) == [0x33, 0x66, 0x99]
    assert eventually(home, START_SECONDS)
    screenshot(page, "vnc-browser")
    runs = desktop.browser_processes(server)["browser"]
    page.wait_for_timeout(3000)
    assert home() and desktop.browser_processes(server)["browser"] == runs

    def typed():
        """Its address bar, by keys that the visitor's own browser would keep. Keys that a busy machine holds for long repeat."""
        page.keyboard.press("Control+l")
        page.keyboard.type("data:text/html,<body bgcolor=993333>typed")
        page.keyboard.press("Enter")
        return eventually(lambda: pixel(page, 640, 700) == [0x99, 0x33, 0x33], 10)

    assert eventually(typed)
    screenshot(page, "vnc-browser-typed")
    page.close()
    assert eventually(lambda: not desktop.browser_processes(server)), "an idle browser stays"
    server.at_rest()
    server.baseline = server.possessions()
