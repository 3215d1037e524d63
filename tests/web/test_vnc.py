"""The desktop at /vnc/index.html, in a real Chromium against a real desktop, on which programs look at what arrives.

Screenshots for human eyes land in build/screens/.
"""

import re
import struct

import pytest

import desktop
from chromium import NEEDED, Watch, chromium, new_context, screenshot  # noqa: F401 (a fixture)
from desktop import tester  # noqa: F401
from harness import ANSWER_SECONDS, START_SECONDS, eventually
from x11 import Client

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
    return page.evaluate("([x, y]) => [...document.querySelector('#desktop canvas').getContext('2d').getImageData(x, y, 1, 1).data]", [x, y])[:3]


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
