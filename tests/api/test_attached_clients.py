"""Libraries of others that drive the same browser while the REST API does: each in a process of its own, as its users run
it (tests/attached)."""

import http.server
import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest

import desktop
from desktop import BROWSER_NEEDED, browser_processes, tabs, tester  # noqa: F401
from harness import ROOT, Calls, clean_environment, eventually

pytestmark = [BROWSER_NEEDED, pytest.mark.timeout(180)]
BROWSER = Calls("/v1/browser")
HERE = ROOT / "tests/attached"
NODE_HOME = ROOT / "build/node/node_modules"
BROWSER_USE = ROOT / "build/browser-use/bin/python"
LINE_SECONDS = 90


def python(module):
    return [sys.executable, HERE / f"{module}.py"], None


def puppeteer():
    own = next((place for place in NODE_HOME.glob("node-linux-*/bin/node")), "node")
    return [own, HERE / "puppeteer_client.mjs"], None if (NODE_HOME / "puppeteer-core").exists() else "no puppeteer-core: make test-deps"


def browser_use():
    return [BROWSER_USE, HERE / "browser_use_client.py"], \
        None if BROWSER_USE.exists() else "no build/browser-use: see tests/requirements-browser-use.txt"


CLIENTS = {"playwright": lambda: python("playwright_client"), "puppeteer": puppeteer, "cdp-use": lambda: python("cdp_use_client"),
           "browser-use": browser_use}


class Page(http.server.BaseHTTPRequestHandler):
    """Its title is its path; it counts the clicks on its button."""

    def do_GET(self):
        body = (f"<title>{self.path.strip('/')}</title><body style='margin: 40px'><h1>Page</h1><input id=name>"
                "<button onclick='window.clicks = (window.clicks ?? 0) + 1'>Go</button><p>Some words to be read.</p>")
        self.send_response(200)
        self.send_header("content-type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def url():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as pages:
        threading.Thread(target=pages.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{pages.server_address[1]}/"
        pages.shutdown()


@pytest.fixture(scope="module")
def server(tester, start_shared):  # noqa: F811
    server = start_shared(**desktop.browser_options(tester))
    desktop.warm_browser(server)
    desktop.warm(server)
    return server


class Client:
    def __init__(self, command, server, home):
        self.log = open(home / "stderr", "w+")
        self.process = subprocess.Popen([*map(str, command), server.url, NODE_HOME], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
                                        text=True, cwd=home, env={**clean_environment(home), "PATH": os.environ["PATH"]})
        assert self.line()["ready"]

    def line(self):
        timer = threading.Timer(LINE_SECONDS, self.process.kill)
        timer.start()
        for line in self.process.stdout:
            if line.startswith("{"):
                timer.cancel()
                return json.loads(line)
        self.log.seek(0)
        raise AssertionError(f"the client has ended, or takes too long:\n{self.log.read()[-3000:]}")

    def ask(self, *order):
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        said = self.line()
        assert "error" not in said, said
        return said["value"]


@pytest.fixture(params=CLIENTS)
def attach(request, server, tmp_path):
    """Attaches a client for a `with`."""
    command, missing = CLIENTS[request.param]()
    if missing:
        pytest.skip(f"NOT TESTED: {missing}")

    @contextmanager
    def attached():
        client = Client(command, server, tmp_path)
        try:
            yield client
        finally:
            if client.process.poll() is None:
                client.process.stdin.close()
                try:
                    client.process.wait(30)
                except subprocess.TimeoutExpired:
                    client.process.kill()
                    client.process.wait()
            client.process.stdout.close()
            client.log.close()
    attached.kind = request.param
    return attached


@pytest.fixture(autouse=True)
def one_tab(server):
    """Leaves a single blank tab behind."""
    before = browser_processes(server)["browser"]
    yield
    assert browser_processes(server)["browser"] == before, "the browser has ended"
    while len(tabs(server)) > 1:
        assert server.request("DELETE", "/v1/browser/tabs/1").status_code == 200
    server.at_rest()


def titles(server):
    return [tab["title"] for tab in tabs(server)]


def shown(server, *wanted):
    """Whether there are tabs with these titles: the browser has a title a little later than the page."""
    return eventually(lambda: set(wanted) <= set(titles(server)))


def test_driven_by_both(server, attach, url):
    """What one does the other sees, on the same tab and on others."""
    with attach() as client:
        assert client.ask("open", f"{url}theirs") == "theirs"
        assert shown(server, "theirs")
        client.ask("fill", "#name", "typed by a client ✓")
        client.ask("click", "button")
        assert client.ask("evaluate", "document.querySelector('#name').value + window.clicks") == "typed by a client ✓1"
        BROWSER.ask(server, "tabs", url=f"{url}ours")
        assert shown(server, "ours")
        assert eventually(lambda: {f"{url}theirs", f"{url}ours"} <= set(client.ask("pages")))
        assert client.ask("evaluate", "document.title") == "theirs"
        theirs = titles(server).index("theirs")
        assert server.request("PUT", f"/v1/browser/tabs/{theirs}/activate").json()["success"]
        text = server.get("/v1/browser/page/markdown").json()
        assert text["success"] and "Some words to be read" in json.dumps(text["data"])
        if attach.kind != "browser-use":  # which gives the page another size than its window has
            x, y = client.ask("evaluate", "(() => { const r = document.querySelector('button').getBoundingClientRect();"
                                          " return [screenX + r.x + r.width / 2, screenY + outerHeight - innerHeight + r.y + r.height / 2] })()")
            BROWSER.ask(server, "actions", action_type="CLICK", x=x, y=y)
            assert eventually(lambda: client.ask("evaluate", "window.clicks") == 2)
        client.ask("leave")
    assert shown(server, "theirs", "ours")
    assert server.get("/v1/browser/info").json()["data"]["page_viewport"]["width"] > 0


def test_leaving_again_and_again(server, attach, url):
    for i in range(3):
        with attach() as client:
            assert client.ask("open", f"{url}{i}") == str(i)
            client.ask("leave")
    assert shown(server, "0", "1", "2")


def test_closing_the_browser_ends_the_client_alone(server, attach, url):
    """The fixture looks whether the browser goes on."""
    with attach() as client:
        client.ask("open", f"{url}closing")
        client.process.stdin.write(json.dumps(["close"]) + "\n")
        client.process.stdin.flush()
        client.line() if attach.kind != "browser-use" else None  # that one connects again
    assert shown(server, "closing")
    assert BROWSER.ask(server, "tabs", url="about:blank")


def test_a_client_that_is_killed(server, attach, url):
    with attach() as client:
        client.ask("open", f"{url}killed")
        client.process.kill()
        client.process.wait()
    assert shown(server, "killed") and BROWSER.ask(server, "tabs", url=f"{url}after")
    assert shown(server, "after")
