"""Pages of tests/pages, served on loopback and shown in the browser. In a test file:

    from contents import blank, browsing, site  # noqa: F401

    browsing  one server per module whose browser runs; after each test it has one blank tab again (blank)
    site      the address of a web server for tests/pages; its add() gives it further ones"""

import contextlib
import http.server
import threading
from pathlib import Path

import httpx
import pytest
from agent_sandbox import Sandbox

import desktop
from desktop import devtools, tabs
from harness import Calls

PAGES = Path(__file__).parent / "pages"
BROWSER = Calls("/v1/browser")


class Handler(http.server.SimpleHTTPRequestHandler):
    def __init__(self, *args):
        super().__init__(*args, directory=PAGES)

    def do_GET(self):
        made = self.server.made.get(self.path.partition("?")[0])
        if made is None:
            return super().do_GET()
        data, kind = made
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


class Site(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.made = {}
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def add(self, path, html, kind="text/html; charset=utf-8"):
        """The URL of a page that only this test has."""
        self.made[path] = html if isinstance(html, bytes) else html.encode(), kind
        return self.url + path


@pytest.fixture(scope="module")
def site():
    with Site() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(scope="module")
def browsing(tester, start_shared):
    server = start_shared(**desktop.browser_options(tester))
    desktop.warm_browser(server)
    return server


@pytest.fixture(autouse=True)
def blank(browsing):
    """A test ends with one blank tab, whatever it has opened."""
    yield
    for _ in tabs(browsing):
        browsing.request("DELETE", "/v1/browser/tabs/0")
    assert [tab["url"] for tab in tabs(browsing)] == ["about:blank"]
    browsing.at_rest()


def show(server, url):
    """Has the active tab show a page, and waits for it."""
    with devtools(server) as page:
        page.call("Page.enable")
        page.call("Page.navigate", url=url)
        page.event("Page.loadEventFired")


def reply(server, path, **query):
    """The body of a GET below /v1/browser that must have status 200."""
    response = server.get(f"/v1/browser/{path}", params=query or None, timeout=110)
    assert response.status_code == 200, response.text[:1000]
    return response.json()


def ask(server, path, **query):
    """Its data, of a call that succeeds."""
    body = reply(server, path, **query)
    assert body["success"], body["message"]
    return body["data"]


@contextlib.contextmanager
def sdk(server):
    """The official client, whose connection ends with it."""
    with httpx.Client(timeout=110) as client:
        yield Sandbox(base_url=server.url, httpx_client=client)
