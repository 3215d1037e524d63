"""The browser's DevTools at the server's address: as clients of others use them, beside the REST API."""

import json

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

import desktop
from desktop import BROWSER_NEEDED, DevTools, browser_processes, devtools, tabs, tester  # noqa: F401
from harness import START_SECONDS, Calls, connect, eventually

pytestmark = BROWSER_NEEDED
BROWSER = Calls("/v1/browser")
KEY = "k3y-of-the-browser"
PAGE = "data:text/html,<title>One</title><button onclick='document.title = 7'>Go</button>"


@pytest.fixture(scope="module")
def server(tester, start_shared):  # noqa: F811
    server = start_shared(**desktop.browser_options(tester))
    desktop.warm_browser(server)
    return server


@pytest.fixture
def playwright():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        yield started


def version(server, path="/json/version", **more):
    response = server.get(path, timeout=START_SECONDS, **more)
    assert response.status_code == 200, response.text
    return response.json()


def ws(server):
    return f"ws://{server.host}:{server.port}"


# --- what there is -----------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/json/version", "/json/version/", "/cdp/json/version"])
def test_version(server, path):
    said = version(server, path)
    assert said["Protocol-Version"] == "1.3" and "Chrome/" in said["Browser"]
    assert {"User-Agent", "V8-Version", "WebKit-Version"} <= set(said)
    assert said["webSocketDebuggerUrl"] == server.get("/v1/browser/info").json()["data"]["cdp_url"]


@pytest.mark.parametrize("path", ["/json", "/json/list", "/json/list/", "/cdp/json", "/cdp/json/list"])
def test_list(server, path):
    tab = tabs(server)[0]
    found = next(target for target in server.get(path).json() if target["id"] == tab["id"])
    assert found["type"] == "page" and found["url"] == "about:blank"
    assert found["webSocketDebuggerUrl"] == f"{ws(server)}/devtools/page/{tab['id']}"
    assert found["devtoolsFrontendUrl"].endswith(f"?ws={server.host}:{server.port}/devtools/page/{tab['id']}")


@pytest.mark.parametrize("headers, begins", [
    ({"host": "box.localhost:9999"}, "ws://box.localhost:9999/devtools/"),
    ({"x-forwarded-prefix": "/s/abc"}, "ws://{}/s/abc/devtools/"),
    ({"x-forwarded-proto": "https"}, "wss://{}/devtools/"),
])
def test_urls_are_at_the_address_of_the_caller(server, headers, begins):
    begins = begins.format(f"{server.host}:{server.port}")
    assert version(server, headers=headers)["webSocketDebuggerUrl"].startswith(begins)
    for target in server.get("/json", headers=headers).json():
        assert target["webSocketDebuggerUrl"].startswith(begins)


def test_tabs_are_opened_and_closed(server):
    assert server.get("/json/new?about:blank").status_code == 405  # as any page could have sent it
    opened = server.request("PUT", "/json/new?about:blank").json()
    assert opened["webSocketDebuggerUrl"] == f"{ws(server)}/devtools/page/{opened['id']}"
    assert eventually(lambda: [tab["id"] for tab in tabs(server)][1:] == [opened["id"]])
    assert server.get(f"/json/activate/{opened['id']}").status_code == 200
    assert server.get(f"/json/close/{opened['id']}").status_code == 200
    assert eventually(lambda: len(tabs(server)) == 1)
    last = tabs(server)[0]["id"]
    assert server.get(f"/json/close/{last}").status_code == 200  # the browser goes on
    assert eventually(lambda: len(tabs(server)) == 1 and tabs(server)[0]["id"] != last)


def test_targets_that_are_not_there(server):
    for path in ("/json/close/ABC", "/json/activate/ABC", "/json/close/..%2F..%2Fx"):
        assert server.get(path).status_code == 404, path
    assert len(tabs(server)) == 1
    with connect(f"{ws(server)}/devtools/page/ABC") as socket, pytest.raises(ConnectionClosed):
        socket.recv(START_SECONDS)


def test_protocol(server):
    domains = {domain["domain"] for domain in server.get("/json/protocol").json()["domains"]}
    assert {"Page", "Runtime", "Target"} <= domains


# --- clients -----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["", "/cdp"])
def test_playwright_beside_the_rest_api(server, playwright, path):
    browser = playwright.chromium.connect_over_cdp(server.url + path)
    context = browser.contexts[0]
    page = context.pages[0]
    page.goto(PAGE)
    page.click("button")
    assert page.title() == "7" and eventually(lambda: tabs(server)[0]["title"] == "7")
    opened = context.new_page()
    opened.goto("data:text/html,<title>Two</title>")
    assert eventually(lambda: [tab["title"] for tab in tabs(server)] == ["7", "Two"])
    BROWSER.ask(server, "tabs", url="about:blank?three")
    assert eventually(lambda: len(tabs(server)) == 3)
    assert server.get("/v1/browser/info").json()["data"]["page_viewport"]
    assert opened.evaluate("6 * 7") == 42
    browser.close()
    assert len(tabs(server)) == 3
    for _ in range(2):
        server.request("DELETE", "/v1/browser/tabs/1")


def test_playwright_by_the_socket_alone(server, playwright):
    browser = playwright.chromium.connect_over_cdp(server.get("/v1/browser/info").json()["data"]["cdp_url"])
    assert browser.contexts[0].pages[0].evaluate("1 + 1") == 2
    browser.close()


def test_a_socket_without_a_page(server):
    for path in ("/devtools/browser/of-a-browser-that-has-ended", "/cdp"):
        with DevTools(ws(server) + path) as client:
            targets = client.call("Target.getTargets")["targetInfos"]
            assert tabs(server)[0]["id"] in [target["targetId"] for target in targets]


def test_large_messages(server):
    with devtools(server) as page:
        assert page.evaluate("'x'.repeat(20e6).length") == 20_000_000
        assert len(page.evaluate("'x'.repeat(20e6)")) == 20_000_000
        page.evaluate("window.big = " + json.dumps("y" * 5_000_000) + "; 1")
        assert page.evaluate("big.length") == 5_000_000


def test_two_clients_of_one_page(server):
    with devtools(server) as one, devtools(server) as two:
        one.evaluate("window.shared = 5")
        assert two.evaluate("shared") == 5


def test_a_client_that_closes_the_browser_ends_itself(server):
    pid = browser_processes(server)["browser"]
    with DevTools(version(server)["webSocketDebuggerUrl"]) as client:
        client.call("Browser.close")
        with pytest.raises(ConnectionClosed):
            client.socket.recv(START_SECONDS)
    assert browser_processes(server)["browser"] == pid and len(tabs(server)) == 1


def test_where_downloads_go_is_ours_again_when_clients_leave(server, tester, tmp_path):  # noqa: F811
    with DevTools(version(server)["webSocketDebuggerUrl"]) as client:
        client.call("Browser.setDownloadBehavior", behavior="deny")
    server.at_rest()
    click = ("{ const a = document.createElement('a'); a.download = 'after.txt';"
             "a.href = 'data:text/plain,after'; a.click() }")
    with devtools(server) as page:
        page.evaluate(click)
    assert eventually(lambda: any(b"after" in path.read_bytes() for path in
                                  desktop.Path(f"/home/{tester}/Downloads").glob("after*.txt")))


def test_a_restart_ends_its_clients(server):
    with devtools(server) as page:
        assert BROWSER.reply(server, "restart")["success"]
        with pytest.raises(ConnectionClosed):
            while page.socket.recv(START_SECONDS):  # that it is detached
                pass
    with devtools(server) as page:
        assert page.evaluate("1") == 1


# --- credentials -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(tester, start_shared):  # noqa: F811
    options = desktop.browser_options(tester, "--browser-profile", f"/home/{tester}/guarded")
    options["env"]["SANDBOX_API_KEY"] = KEY
    server = start_shared(**options)
    response = server.get("/v1/browser/info", headers={"x-aio-api-key": KEY}, timeout=START_SECONDS)
    assert response.status_code == 200, response.text
    server.at_rest()
    server.baseline = server.possessions()
    return server


def test_nothing_without_the_key(guarded):
    for path in ("/json/version", "/json", "/cdp/json/list", "/json/protocol"):
        assert guarded.get(path).status_code == 401
    for path in ("/devtools/browser/x", "/devtools/page/x", "/cdp"):
        with pytest.raises(InvalidStatus):
            connect(ws(guarded) + path).__enter__()


def test_the_key_in_a_header(guarded, playwright):
    said = version(guarded, headers={"authorization": f"Bearer {KEY}"})
    assert KEY not in said["webSocketDebuggerUrl"]
    browser = playwright.chromium.connect_over_cdp(guarded.url, headers={"x-aio-api-key": KEY})
    assert browser.contexts[0].pages[0].evaluate("1 + 1") == 2
    browser.close()


def test_the_key_in_the_url(guarded, playwright):
    """For clients that can set no header: each URL that they are given has it, too."""
    said = version(guarded, f"/json/version?api_key={KEY}")
    assert said["webSocketDebuggerUrl"].endswith(f"?api_key={KEY}")
    browser = playwright.chromium.connect_over_cdp(said["webSocketDebuggerUrl"])
    assert browser.contexts[0].pages[0].evaluate("1 + 1") == 2
    browser.close()
    info = guarded.get(f"/v1/browser/info?api_key={KEY}").json()["data"]
    assert info["cdp_url"] == said["webSocketDebuggerUrl"]


def test_the_key_goes_to_nobody_else(guarded):
    """Not to the page that is opened, nor to the one of DevTools, which is another's."""
    for query, opened in ((f"about:blank%23x&api_key={KEY}", "about:blank#x"), (f"api_key={KEY}", "about:blank"),
                          (f"ticket=none&api_key={KEY}&about:blank?a", "about:blank?a")):
        target = guarded.request("PUT", f"/json/new?{query}").json()
        assert target["url"] == opened and target["webSocketDebuggerUrl"].endswith(f"api_key={KEY}")
        assert KEY not in target["devtoolsFrontendUrl"]
        assert guarded.get(f"/json/close/{target['id']}?api_key={KEY}").status_code == 200
    for target in guarded.get(f"/json?api_key={KEY}").json():
        assert KEY not in target["devtoolsFrontendUrl"]
