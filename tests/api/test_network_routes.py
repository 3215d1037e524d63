"""Headers that are added to requests, and routes that answer, stop or change them."""

import json
import threading

import pytest

import desktop
from desktop import BROWSER_NEEDED, devtools, tabs, tester  # noqa: F401
from harness import START_SECONDS, Calls, eventually
from sites import Page, Site, streaming

pytestmark = BROWSER_NEEDED
BROWSER = Calls("/v1/browser")
NETWORK = Calls("/v1/browser/network")


@pytest.fixture(scope="module")
def server(tester, start_shared):  # noqa: F811
    server = start_shared(**desktop.browser_options(tester))
    desktop.warm_browser(server)
    return server


def remove(server, pattern):
    response = server.request("DELETE", "/v1/browser/network/route", json={"url_pattern": pattern}, timeout=START_SECONDS)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.fixture(autouse=True)
def routes(server):
    """Adds routes; those that a test leaves go, and so do headers and tabs."""
    added, scopes = [], []

    def add(pattern, **what):
        added.append(pattern)
        reply = NETWORK.reply(server, "route", url_pattern=pattern, **what)
        assert reply["success"], reply

    add.scopes = scopes
    yield add
    for pattern in added:
        remove(server, pattern)
    NETWORK.ask(server, "headers", headers={})
    for origin in scopes:
        NETWORK.ask(server, "scoped_headers", origin=origin, headers={})
    for _ in tabs(server):
        server.request("DELETE", "/v1/browser/tabs/0")
    server.at_rest()


@pytest.fixture
def site():
    with Site({"/": "<title>Home</title>hello", "/data": Page(headers={"content-type": "text/plain"}, body=b"real")}) as site:
        yield site


def scoped(server, routes, origin, headers):
    routes.scopes.append(origin)
    assert NETWORK.reply(server, "scoped_headers", origin=origin, headers=headers)["success"]


def visit(server, url, title="Home"):
    BROWSER.ask(server, "tabs", url=url)
    assert eventually(lambda: tabs(server)[-1]["title"] == title), tabs(server)


def evaluate(server, expression, tab=None):
    with devtools(server, tab) as page:
        return page.evaluate(expression)


def text_of(url, options=""):
    return f"fetch('{url}'{options}).then((r) => r.text(), (e) => 'failed')"


# --- routes ------------------------------------------------------------------------------------


def test_a_response(server, site, routes):
    visit(server, site.url)
    routes("**/data", response={"status": 418, "body": "größe {}", "headers": {"x-mine": "yes"}, "content_type": "text/x-mine"})
    assert evaluate(server, """fetch('/data').then(async (r) => [r.status, r.headers.get('x-mine'), r.headers.get('content-type'),
        await r.text()])""") == [418, "yes", "text/x-mine", "größe {}"]
    assert not site.asked("/data")
    assert remove(server, "**/data")["success"]
    assert evaluate(server, text_of("/data")) == "real"


def test_the_defaults_of_a_response(server, site, routes):
    visit(server, site.url)
    routes("**/data", response={})
    assert evaluate(server, "fetch('/data').then(async (r) => [r.status, r.headers.get('content-type'), await r.text()])") == [200, "text/plain", ""]


def test_a_header_may_say_the_type(server, site, routes):
    visit(server, site.url)
    routes("**/data", response={"headers": {"Content-Type": "application/json"}, "body": "{}"})
    assert evaluate(server, "fetch('/data').then((r) => r.headers.get('content-type'))") == "application/json"


def test_older_names(server, site, routes):
    visit(server, site.url)
    assert NETWORK.reply(server, "route", pattern="**/data", response_body="older", response_status=201)["success"]
    assert evaluate(server, "fetch('/data').then(async (r) => [r.status, await r.text()])") == [201, "older"]
    assert remove(server, "**/data")["success"]


def test_abort(server, site, routes):
    visit(server, site.url)
    routes("/data", abort=True)
    assert evaluate(server, text_of("/data")) == "failed"
    assert not site.asked("/data")
    failed = eventually(lambda: [one for one in server.get("/v1/browser/network/requests", params={"filter": "/data"}).json()["data"]
                                 if one["state"] == "failed"])
    assert "net::ERR_FAILED" in failed[0]["failure"]


def test_changed_requests(server, site, routes):
    visit(server, site.url)
    routes("**/data", headers={"x-added": "1", "Accept": "application/x-mine"}, method="PUT", post_data="other größe")
    assert evaluate(server, text_of("/data", ", {method: 'POST', body: 'mine'}")) == "real"
    asked = site.asked("/data")[-1]
    assert (asked.method, asked.body.decode()) == ("PUT", "other größe")
    assert asked.headers["x-added"] == "1" and asked.headers["accept"] == "application/x-mine"


def test_the_newest_route_counts_and_one_may_let_through(server, site, routes):
    visit(server, site.url)
    routes("**/*", response={"body": "all"})
    routes("**/data")
    assert evaluate(server, text_of("/data")) == "real" and evaluate(server, text_of("/x")) == "all"
    routes("**/*", response={"body": "newest"})  # takes the place of the first, and comes before the second
    assert evaluate(server, text_of("/data")) == "newest"
    assert remove(server, "**/*")["success"]
    assert evaluate(server, text_of("/x")) == "not found"


def test_a_document_and_all_in_it(server, site, routes):
    routes("http://nowhere.test/**", response={"body": "<title>Mocked</title><img src=/img>", "content_type": "text/html"})
    visit(server, "http://nowhere.test/page", "Mocked")


def test_a_redirect_as_response(server, site, routes):
    routes(f"{site.url}/away", response={"status": 302, "headers": {"location": site.url + "/"}})
    visit(server, site.url + "/away")
    assert tabs(server)[-1]["url"] == site.url + "/"


def test_other_origins_may_read_a_response(server, site, routes):
    visit(server, site.url)
    routes(f"{site.other}/api", response={"body": "mocked"})
    assert evaluate(server, text_of(site.other + "/api")) == "mocked"
    # One that asks first, and has credentials.
    assert evaluate(server, text_of(site.other + "/api", ", {method: 'PUT', headers: {'x-own': '1'}, credentials: 'include'}")) == "mocked"
    assert not site.asked("/api")


def test_all_tabs_new_ones_popups_and_frames(server, site, routes):
    site.pages["/frame"] = f"<title>Frame</title><iframe src='{site.other}/inner'></iframe>"
    site.pages["/inner"] = "<script>fetch('/data').then((r) => r.text()).then((t) => parent.postMessage(t, '*'))</script>"
    visit(server, site.url)
    old = tabs(server)[-1]
    visit(server, site.url)
    routes("**/data", response={"body": "mocked"})
    routes("**/popup", response={"body": "<title>Mocked popup</title>", "content_type": "text/html"})
    assert evaluate(server, text_of("/data"), old) == "mocked"
    visit(server, site.url)
    assert evaluate(server, text_of("/data")) == "mocked"
    evaluate(server, "void open('/popup')")
    assert eventually(lambda: tabs(server)[-1]["title"] == "Mocked popup")
    visit(server, site.url)
    assert evaluate(server, f"""new Promise((done) => {{
        onmessage = (event) => done(event.data);
        document.body.innerHTML = "<iframe src='{site.other}/inner'></iframe>"
    }})""") == "mocked"
    assert not site.asked("/data") and not site.asked("/popup")


def test_removal_while_requests_are_pending(server, site, routes):
    gate = threading.Event()
    site.pages["/slow"] = streaming(b"be", b"gin", gate=gate)
    visit(server, site.url)
    routes("**/slow", headers={"x-added": "1"})
    with devtools(server) as page:
        page.evaluate("void (window.slow = fetch('/slow').then((r) => r.text()))")
        assert eventually(lambda: site.asked("/slow"))
        assert remove(server, "**/slow")["success"]
        gate.set()
        assert page.evaluate("slow") == "begin"
    assert site.asked("/slow")[0].headers["x-added"] == "1"


def test_routes_come_and_go_under_load(server, site, routes):
    visit(server, site.url)
    with devtools(server) as page:
        page.evaluate("""void (window.all = (async () => {
            const seen = new Set();
            while (!window.over) for (const text of await Promise.all(Array.from({length: 10}, () =>
                fetch('/data').then((r) => r.text(), () => 'failed')))) seen.add(text);
            return [...seen].sort();
        })())""")
        for _ in range(15):
            routes("**/data", response={"body": "mocked"})
            remove(server, "**/data")
        page.evaluate("void (window.over = true)")
        assert set(page.evaluate("all")) <= {"mocked", "real"}


def test_large_responses_to_many(server, site, routes):
    """More than the browser's pipe can take at once."""
    visit(server, site.url)
    routes("**/large", response={"body": "x" * (9 << 20)})
    assert evaluate(server, """Promise.all(Array.from({length: 24}, (_, i) => fetch('/large').then((r) => r.text())))
        .then((all) => all.map((text) => text.length))""") == [9 << 20] * 24
    assert len(tabs(server)) == 2


def test_a_tab_that_closes_while_its_requests_wait(server, site, routes):
    routes("**/large", response={"body": "x" * (5 << 20)})
    for _ in range(3):
        visit(server, site.url)
        evaluate(server, "for (let i = 0; i < 50; i++) void fetch('/large')")
        server.request("DELETE", f"/v1/browser/tabs/{len(tabs(server)) - 1}")
    visit(server, site.url)
    assert evaluate(server, "fetch('/large').then((r) => r.text()).then((t) => t.length)") == 5 << 20


def test_a_page_that_asks_for_a_password(server, site, routes):
    """Nothing is held up but the page that asks."""
    site.pages["/locked"] = Page(401, {"www-authenticate": 'Basic realm="here"'}, b"<title>Locked</title>")
    routes("**/data", response={"body": "mocked"})
    visit(server, site.url)
    first = tabs(server)[-1]
    BROWSER.ask(server, "tabs", url=site.url + "/locked")
    assert eventually(lambda: site.asked("/locked"))
    assert evaluate(server, text_of("/data"), first) == "mocked"
    with devtools(server) as page:
        page.call("Page.navigate", url=site.url + "/")
    assert eventually(lambda: tabs(server)[-1]["title"] == "Home")


def test_beside_a_client_that_intercepts(server, site, routes):
    """Its routes and ours are independent: it sees what ours let through."""
    visit(server, site.url)
    routes("**/ours", response={"body": "ours"})
    with devtools(server) as page:
        page.call("Fetch.enable", patterns=[{"urlPattern": "*theirs*"}])
        page.send("Runtime.evaluate", expression="void (window.theirs = fetch('/theirs').then((r) => r.text()))")
        paused = page.event("Fetch.requestPaused")["params"]
        page.call("Fetch.fulfillRequest", requestId=paused["requestId"], responseCode=200, body="dGhlaXJz")
        assert page.evaluate("theirs") == "theirs"
        assert page.evaluate(text_of("/ours")) == "ours" and page.evaluate(text_of("/data")) == "real"
        remove(server, "**/ours")
        page.send("Runtime.evaluate", expression="void (window.theirs = fetch('/theirs').then((r) => r.text()))")
        paused = page.event("Fetch.requestPaused")["params"]
        page.call("Fetch.continueRequest", requestId=paused["requestId"])
        assert page.evaluate("theirs") == "not found"


def test_a_route_that_is_not_there(server):
    reply = remove(server, "**/nothing")
    assert not reply["success"] and "**/nothing" in reply["message"]


@pytest.mark.parametrize("body", [
    {}, {"url_pattern": ""}, {"url_pattern": "x" * 3000}, {"url_pattern": 7},
    {"url_pattern": "*", "response": {"status": 99}}, {"url_pattern": "*", "response": {"status": 600}},
    {"url_pattern": "*", "response": {"headers": {"a b": "c"}}}, {"url_pattern": "*", "response": {"headers": {"a": "b\r\nc: d"}}},
    {"url_pattern": "*", "response": {"content_type": "a\nb"}}, {"url_pattern": "*", "response": {}, "abort": True},
    {"url_pattern": "*", "headers": {"Host": "x"}}, {"url_pattern": "*", "method": "a b"}, {"url_pattern": "*", "response": "x"},
])
def test_bad_routes(server, site, body):
    assert NETWORK.send(server, "route", **body).status_code == 422
    visit(server, site.url)  # nothing was added
    assert evaluate(server, text_of("/data")) == "real"


def test_a_body_that_is_too_large(server):
    assert NETWORK.send(server, "route", url_pattern="**/x", response={"body": "x" * ((10 << 20) + 1)}).status_code == 422


def test_too_many_routes(server, routes):
    for i in range(200):
        routes(f"**/route{i}", abort=True)
    response = NETWORK.send(server, "route", url_pattern="**/one-more")
    assert response.status_code == 429 or not response.json()["success"], response.text
    assert "200 routes" in response.text


# --- headers -----------------------------------------------------------------------------------


def test_headers_for_all(server, site):
    visit(server, site.url)
    first = tabs(server)[-1]
    assert NETWORK.reply(server, "headers", headers={"X-Mine": "größe", "Authorization": "Bearer 7"})["success"]
    evaluate(server, text_of("/data"))
    visit(server, site.url + "/?new")
    evaluate(server, text_of("/data?old"), first)
    for asked in (site.asked("/data")[0], site.asked("/")[-1], site.asked("/data")[1]):
        assert asked.headers["authorization"] == "Bearer 7", asked
        # Chromium itself sends other than ASCII in UTF-8 with documents, in Latin-1 with what pages ask for.
        assert asked.headers["x-mine"] in ("größe", "größe".encode().decode("latin-1"))
    NETWORK.ask(server, "headers", headers={"X-Other": "1"})  # takes the place of the others
    evaluate(server, text_of("/data"))
    assert site.asked("/data")[-1].headers["x-other"] == "1" and "x-mine" not in site.asked("/data")[-1].headers
    NETWORK.ask(server, "headers", headers={})
    evaluate(server, text_of("/data"))
    assert "x-other" not in site.asked("/data")[-1].headers


def test_a_popup_and_a_frame_have_them_from_the_first_request(server, site):
    site.pages["/popup"] = f"<title>Popup</title><iframe src='{site.other}/inner'></iframe>"
    site.pages["/inner"] = "inner"
    visit(server, site.url)
    NETWORK.ask(server, "headers", headers={"X-Mine": "1"})
    evaluate(server, "void open('/popup')")
    assert eventually(lambda: site.asked("/inner"))
    assert site.asked("/popup")[0].headers["x-mine"] == "1" and site.asked("/inner")[0].headers["x-mine"] == "1"


def test_scoped_headers(server, site, routes):
    site.pages["/popup"] = "<title>Popup</title>"
    for page in ("/data", "/popup"):
        site.pages[page + "-other"] = site.pages[page]
    visit(server, site.url)
    scoped(server, routes, site.url, {"X-Token": "secret"})
    evaluate(server, text_of("/data"))
    evaluate(server, text_of(site.other + "/data-other", ", {mode: 'no-cors'}"))
    evaluate(server, "void open('/popup')")
    assert eventually(lambda: site.asked("/popup"))
    assert site.asked("/data")[0].headers["x-token"] == "secret" == site.asked("/popup")[0].headers["x-token"]
    assert "x-token" not in site.asked("/data-other")[0].headers
    scoped(server, routes, site.url + "/", {})  # the same origin
    evaluate(server, text_of("/data"))
    assert "x-token" not in site.asked("/data")[-1].headers


@pytest.mark.parametrize("origin", ["127.0.0.1:{port}", "HTTP://127.0.0.1:{port}", "http://127.0.0.1:{port}/data", "http://127.0.0.1:*/**",
                                    "**/data"])
def test_ways_to_name_an_origin(server, site, routes, origin):
    visit(server, site.url)
    scoped(server, routes, origin.format(port=site.port), {"X-Token": "secret"})
    evaluate(server, text_of("/data" if "data" not in origin or "*" in origin else "/data/below"))
    assert [one for one in site.server.log if one.headers.get("x-token") == "secret"]


def test_scoped_headers_do_not_follow_a_redirect_elsewhere(server, site, routes):
    site.pages["/leave"] = Page(302, {"location": site.other + "/there", "access-control-allow-origin": "*"})
    site.pages["/there"] = Page(headers={"access-control-allow-origin": "*"}, body=b"there")
    site.pages["/leave-page"] = Page(302, {"location": site.other + "/there-page"})
    site.pages["/there-page"] = "<title>There</title>"
    site.pages["/stay"] = Page(302, {"location": "/data"})
    visit(server, site.url)
    scoped(server, routes, site.url, {"X-Token": "secret"})
    assert evaluate(server, text_of("/leave")) == "there"
    assert site.asked("/leave")[0].headers["x-token"] == "secret" and "x-token" not in site.asked("/there")[0].headers
    visit(server, site.url + "/leave-page", "There")
    assert site.asked("/leave-page")[0].headers["x-token"] == "secret" and "x-token" not in site.asked("/there-page")[0].headers
    assert evaluate(server, text_of(site.url + "/stay", ", {mode: 'no-cors'}")) is not None
    assert site.asked("/stay")[0].headers["x-token"] == "secret"


def test_routes_and_scoped_headers_together(server, site, routes):
    visit(server, site.url)
    scoped(server, routes, site.url, {"X-Token": "secret"})
    routes("**/mocked", response={"body": "mocked"})
    routes("**/data", headers={"x-added": "1"})
    assert evaluate(server, text_of("/mocked")) == "mocked" and evaluate(server, text_of("/data")) == "real"
    assert site.asked("/data")[0].headers["x-token"] == "secret" and site.asked("/data")[0].headers["x-added"] == "1"


HOSTILE = [{"a": "b\r\nc: d"}, {"a": "b\nc"}, {"a": "b\0c"}, {"a\r\nb": "c"}, {"": "x"}, {"a b": "c"}, {"a:": "b"}, {"größe": "7"},
           {"Host": "evil"}, {"content-length": "5"}, {"Transfer-Encoding": "chunked"}, {"a": "x" * 70000}]


@pytest.mark.parametrize("headers", HOSTILE, ids=lambda headers: json.dumps(headers)[:30])
def test_hostile_headers(server, site, headers):
    assert NETWORK.send(server, "headers", headers=headers).status_code == 422
    assert NETWORK.send(server, "scoped_headers", origin=site.url, headers=headers).status_code == 422
    visit(server, site.url)
    assert "a" not in site.asked("/")[0].headers


@pytest.mark.parametrize("what, body", [("headers", {}), ("headers", {"headers": 7}), ("headers", {"headers": {"a": 7}}),
                                        ("scoped_headers", {"headers": {}}), ("scoped_headers", {"origin": "", "headers": {}})])
def test_bad_requests(server, what, body):
    response = NETWORK.send(server, what, **body)
    assert response.status_code == 422 or body.get("headers") == {"a": 7}
    NETWORK.ask(server, "headers", headers={})


def test_a_restart_forgets_them(tester, start_server, site):  # noqa: F811
    server = start_server(**desktop.browser_options(tester, "--browser-profile", f"/home/{tester}/forgets"))
    desktop.warm_browser(server)
    NETWORK.ask(server, "headers", headers={"X-Mine": "1"})
    NETWORK.ask(server, "route", url_pattern="**/data", response={"body": "mocked"})
    visit(server, site.url)
    assert site.asked("/")[0].headers["x-mine"] == "1" and evaluate(server, text_of("/data")) == "mocked"
    BROWSER.ask(server, "restart", mode="soft")  # attaches anew
    assert eventually(lambda: tabs(server))
    visit(server, site.url)
    assert site.asked("/")[-1].headers["x-mine"] == "1" and evaluate(server, text_of("/data")) == "mocked"
    BROWSER.ask(server, "restart", mode="hard")
    desktop.warm_browser(server)
    visit(server, site.url)
    assert "x-mine" not in site.asked("/")[-1].headers and evaluate(server, text_of("/data")) == "real"
