"""The sandbox's browser and its outbound proxy: what changes while it runs holds at once, without a restart."""

import socket
import ssl
import subprocess
import threading

import pytest

import desktop
from desktop import BROWSER_NEEDED, browser_processes, tester  # noqa: F401
from harness import Calls, eventually
from sites import Page, Site
from upstream_proxies import UpstreamProxy

pytestmark = BROWSER_NEEDED
page = Calls("/v1/browser/page")


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@pytest.fixture(scope="module")
def server(tester, start_shared):  # noqa: F811
    options = desktop.browser_options(tester, "--browser-profile", f"/home/{tester}/outbound")
    options["env"]["TINYPROXY_PORT"] = str(free_port())
    server = start_shared(**options)
    desktop.warm_browser(server)
    # Chromium keeps connections to a proxy, at most 32: each has a thread, and a descriptor for each side and change.
    server.baseline["threads"] += 32
    server.baseline["descriptors"] += 96
    return server


def call(sandbox, method, what, /, **body):
    answer = sandbox.request(method, f"/v1/proxy/{what}", json=body or None)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def show(server, url):
    """The text of the page at an address."""
    answer = page.send(server, "navigate", url=url)
    if answer.status_code != 200:
        return f"FAILED: {answer.text}"
    return page.ask(server, "evaluate", expression="document.body.innerText")


def test_a_running_browser_follows_each_change(server):
    before = browser_processes(server)["browser"]
    with UpstreamProxy("one") as one, UpstreamProxy("two", credentials="me:secret") as two, \
            Site({"/": "here", "/api/": "mapped"}) as site:
        assert "NAME_NOT_RESOLVED" in show(server, "http://far.test/")
        call(server, "PUT", "upstream", server=one.address)
        assert "one GET http://far.test/" in show(server, "http://far.test/")
        call(server, "PUT", "upstream", server=f"me:secret@{two.address}")
        assert "two GET http://far.test/" in show(server, "http://far.test/")
        assert show(server, f"{site.url}/") == "here" and show(server, f"{site.other}/") == "here"
        call(server, "POST", "mappings", source="*.app.test/v1/*", target=f":{site.port}/api/")
        assert show(server, "http://www.app.test/v1/") == "mapped"
        call(server, "POST", "excludes", pattern="far.test")
        assert "two GET" not in show(server, "http://far.test/")
        call(server, "DELETE", "excludes", pattern="far.test")
        call(server, "DELETE", "upstream")
        assert "two GET" not in show(server, "http://far.test/")
        assert show(server, "http://www.app.test/v1/") == "mapped"
    assert browser_processes(server)["browser"] == before
    assert call(server, "GET", "health")["healthy"]


def test_sockets_and_secure_pages_go_by_it(server, tmp_path):
    from websockets.sync.server import serve

    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=shop.test",
                    "-keyout", tmp_path / "key", "-out", tmp_path / "cert"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    with serve(lambda peer: [peer.send(f"echo {message}") for message in peer], "127.0.0.1", 0) as echo, \
            Site({"/": "here"}) as site, Site({"/": "secure"}) as secure:
        secure.server.socket = context.wrap_socket(secure.server.socket, server_side=True)
        threading.Thread(target=echo.serve_forever, daemon=True).start()
        call(server, "POST", "mappings", source="ws.test", target=f":{echo.socket.getsockname()[1]}")
        call(server, "POST", "mappings", source="page.test", target=f":{site.port}")
        call(server, "POST", "mappings", source="shop.test", target=f":{secure.port}")
        assert show(server, "http://page.test/") == "here"
        said = page.ask(server, "evaluate", expression="""new Promise((done, fail) => {
            const socket = new WebSocket("ws://ws.test/"); socket.onerror = () => done("failed");
            socket.onopen = () => socket.send("hello"); socket.onmessage = (event) => done(event.data); })""")
        assert "echo hello" in str(said)
        assert "CERT_AUTHORITY_INVALID" in show(server, "https://shop.test/")  # it got there, and knows whom to trust
        echo.shutdown()


def test_a_download(server):
    body = b"x" * 3_000_000
    with Site({"/file": Page(200, {"content-disposition": "attachment; filename=f.bin", "content-type": "a/b"}, body)}) as site:
        call(server, "POST", "mappings", source="files.test", target=f":{site.port}")
        page.send(server, "navigate", url="http://files.test/file")
        assert eventually(lambda: [one["received"] for one in server.get("/v1/browser/downloads").json()["data"]
                                   if one["state"] == "completed"] == [len(body)])


def test_a_browser_that_starts_with_it(server):
    """Its arguments name the proxy; what the one before had loaded is gone."""
    with UpstreamProxy("late") as upstream:
        call(server, "PUT", "upstream", server=upstream.address)
        before = browser_processes(server)["browser"]
        assert server.post("/v1/browser/restart", {}).status_code == 200
        assert "late GET http://far.test/" in show(server, "http://far.test/")
        (pid,) = browser_processes(server)["browser"]
        assert [pid] != before
        line = open(f"/proc/{pid}/cmdline").read()
        assert "--proxy-server=http://127.0.0.1:" in line and "proxy-pac-url" not in line
    call(server, "DELETE", "upstream")
