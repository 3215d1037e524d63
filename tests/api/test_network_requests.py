"""The log of what a tab has asked of the network."""

import json
import re
import threading

import pytest

import desktop
from desktop import BROWSER_NEEDED, devtools, tabs, tester  # noqa: F401
from harness import START_SECONDS, Calls, eventually
from sites import Page, Site, streaming

pytestmark = BROWSER_NEEDED
BROWSER = Calls("/v1/browser")


@pytest.fixture(scope="module")
def server(tester, start_shared):  # noqa: F811
    server = start_shared(**desktop.browser_options(tester))
    desktop.warm_browser(server)
    return server


@pytest.fixture(autouse=True)
def one_blank_tab(server):
    yield
    for _ in tabs(server):
        server.request("DELETE", "/v1/browser/tabs/0")
    server.at_rest()


@pytest.fixture
def site():
    with Site({"/": "<title>Home</title>hello", "/data": Page(headers={"content-type": "application/json"}, body=b'{"a": 1}')}) as site:
        yield site


def requests(server, **query):
    response = server.get("/v1/browser/network/requests", params=query, timeout=START_SECONDS)
    assert response.status_code == 200, response.text
    body = response.json()
    assert body["success"], body
    return body["data"]


def awaited(server, path, **wanted):
    """The one request for a path, once it has the wanted values."""
    last = None

    def found():
        nonlocal last
        last = some = [one for one in requests(server, limit=1000) if one["url"].endswith(path)]
        return some[-1:] if some and all(some[-1][name] == value for name, value in wanted.items()) else None

    some = eventually(found)
    assert some, f"{path} {wanted}: {json.dumps(last)}"
    return some[0]


def visit(server, url):
    BROWSER.ask(server, "tabs", url=url)
    awaited(server, url.partition("?")[0][-20:] if "?" not in url else url[-20:], state="finished")


def fetch(server, expression):
    with devtools(server) as page:
        return page.evaluate(expression)


# --- what is kept ------------------------------------------------------------------------------


def test_a_document(server, site):
    BROWSER.ask(server, "tabs", url=site.url + "/?q=1#part")
    one = awaited(server, "/?q=1", state="finished")
    assert one["url"] == site.url + "/?q=1"  # no fragment
    assert (one["method"], one["status"], one["resource_type"], one["mime_type"]) == ("GET", 200, "document", "text/html")
    assert one["status_text"] == "OK" and one["protocol"] == "http/1.1" and one["failure"] is None
    assert one["remote_address"] == f"127.0.0.1:{site.port}"
    assert one["body_size"] == len("<title>Home</title>hello") and one["transfer_size"] > one["body_size"]
    assert eventually(lambda: awaited(server, "/?q=1")["headers"].get("Host") == f"127.0.0.1:{site.port}")  # as it was really sent
    assert {name.lower(): value for name, value in one["response_headers"].items()}["content-length"] == "24"
    assert 0 < one["duration_ms"] < 60000 and one["timing"]["wait_ms"] >= 0 and one["timing"]["receive_ms"] >= 0
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", one["started_at"])
    assert not one["from_cache"] and not one["from_service_worker"] and one["redirected_from"] is None


def test_a_post_with_its_body(server, site):
    visit(server, site.url + "/")
    fetch(server, "fetch('/data', {method: 'POST', body: 'größe=7', headers: {'x-mine': 'yes'}}).then(r => r.text())")
    one = awaited(server, "/data", state="finished")
    assert (one["method"], one["resource_type"], one["post_data"]) == ("POST", "fetch", "größe=7")
    assert one["headers"]["x-mine"] == "yes"
    big = "x" * 70000
    fetch(server, f"fetch('/data?big', {{method: 'POST', body: '{big}'}}).then(r => r.text())")
    assert awaited(server, "/data?big", state="finished")["post_data"] is None


def test_redirects_are_an_entry_each(server, site):
    site.pages["/one"] = Page(302, {"location": "/two"})
    site.pages["/two"] = Page(307, {"location": "/three", "set-cookie": "hop=2"})
    site.pages["/three"] = "<title>There</title>"
    BROWSER.ask(server, "tabs", url=site.url + "/one")
    three = awaited(server, "/three", state="finished")
    one, two = awaited(server, "/one"), awaited(server, "/two")
    assert [hop["status"] for hop in (one, two, three)] == [302, 307, 200]
    assert [hop["state"] for hop in (one, two, three)] == ["finished"] * 3
    assert (one["redirected_from"], one["redirected_to"]) == (None, two["id"])
    assert (two["redirected_from"], two["redirected_to"]) == (one["id"], three["id"])
    assert (three["redirected_from"], three["redirected_to"]) == (two["id"], None)
    # Each hop has its own headers.
    assert {name.lower() for name in one["response_headers"]} >= {"location"}
    assert "set-cookie" not in {name.lower() for name in one["response_headers"]}
    assert {name.lower(): value for name, value in two["response_headers"].items()}["set-cookie"] == "hop=2"


def test_failures(server, site):
    visit(server, site.url + "/")
    port = desktop.free_port()
    fetch(server, f"fetch('http://127.0.0.1:{port}/nobody', {{mode: 'no-cors'}}).catch(() => 0)")
    one = awaited(server, "/nobody", state="failed")
    assert "net::ERR_CONNECTION_REFUSED" in one["failure"] and one["status"] is None and one["duration_ms"] >= 0
    fetch(server, f"fetch('{site.other}/data').catch(() => 0)")
    one = awaited(server, "/data", state="failed")
    assert "MissingAllowOriginHeader" in one["failure"]
    fetch(server, "fetch('/gone').then(r => r.text())")
    assert awaited(server, "/gone", state="finished")["status"] == 404


def test_a_slow_body_is_pending_until_it_ends(server, site):
    gate = threading.Event()
    site.pages["/slow"] = streaming(b"begin", b"end", gate=gate)
    visit(server, site.url + "/")
    with devtools(server) as page:
        page.send("Runtime.evaluate", expression="void fetch('/slow').then(r => r.text()).then(t => document.title = t)")
        one = awaited(server, "/slow", status=200)
        assert one["state"] == "pending" and one["duration_ms"] is None
        gate.set()
        assert awaited(server, "/slow", state="finished")["body_size"] == 8


def test_what_a_document_left_behind_is_over(server, site):
    gate = threading.Event()
    site.pages["/never"] = streaming(b"x", b"y", gate=gate)
    visit(server, site.url + "/")
    with devtools(server) as page:
        page.evaluate("void fetch('/never')")
        awaited(server, "/never", status=200)
        page.call("Page.navigate", url=site.url + "/data")
    assert awaited(server, "/never", state="failed")["failure"]
    gate.set()


def test_a_frame_of_another_process(server, site):
    site.pages["/outer"] = f"<iframe src='{site.other}/inner'></iframe>"
    site.pages["/inner"] = "<script>fetch('/from-inside').then(r => r.text())</script>"
    BROWSER.ask(server, "tabs", url=site.url + "/outer")
    outer = awaited(server, "/outer", state="finished")
    inner = awaited(server, "/inner", state="finished")
    inside = awaited(server, "/from-inside", state="finished")
    assert inner["resource_type"] == "document" and inside["status"] == 404
    assert inside["frame_id"] == inner["frame_id"] != outer["frame_id"]


def test_a_popup_from_its_first_request(server, site):
    site.pages["/popup"] = "<title>Popup</title>"
    visit(server, site.url + "/")
    fetch(server, "void open('/popup')")
    assert awaited(server, "/popup", state="finished")["status"] == 200  # the popup is the current tab
    assert len(requests(server, filter="/popup")) == 1


def test_cached_responses(server, site):
    site.pages["/kept"] = Page(headers={"cache-control": "max-age=600", "content-type": "text/plain"}, body=b"kept")
    visit(server, site.url + "/")
    fetch(server, "fetch('/kept').then(r => r.text())")
    assert not awaited(server, "/kept", state="finished")["from_cache"]
    assert fetch(server, "fetch('/kept').then(r => r.text())") == "kept"
    assert awaited(server, "/kept", state="finished", from_cache=True)["status"] == 200
    assert len(site.asked("/kept")) == 1


def test_a_service_worker(server, site):
    site.pages["/sw.js"] = Page(headers={"content-type": "text/javascript"}, body=b"""
        self.addEventListener('activate', (event) => event.waitUntil(clients.claim()));
        self.addEventListener('fetch', (event) => {
            if (event.request.url.endsWith('/by-worker')) event.respondWith(new Response('from the worker'));
        });""")
    visit(server, site.url + "/")
    assert fetch(server, """navigator.serviceWorker.register('/sw.js').then(() => navigator.serviceWorker.ready)
        .then(() => navigator.serviceWorker.controller ||
              new Promise((done) => navigator.serviceWorker.oncontrollerchange = done))
        .then(() => fetch('/by-worker')).then((r) => r.text())""") == "from the worker"
    assert awaited(server, "/by-worker", state="finished")["from_service_worker"]
    assert not site.asked("/by-worker")
    fetch(server, "navigator.serviceWorker.getRegistrations().then((all) => Promise.all(all.map((r) => r.unregister())))")


def test_a_websocket(server, site):
    visit(server, site.url + "/")
    url = f"{server.url.replace('http', 'ws')}/v1/shell/ws"
    fetch(server, f"void (window.socket = new WebSocket('{url}'))")
    one = awaited(server, "/v1/shell/ws", resource_type="websocket")
    assert one["url"] == url
    fetch(server, "socket.close()")
    assert awaited(server, "/v1/shell/ws", resource_type="websocket")["state"] in ("pending", "finished", "failed")
    assert eventually(lambda: awaited(server, "/v1/shell/ws")["state"] != "pending")


def test_data_urls_are_not_requests(server):
    BROWSER.ask(server, "tabs", url="data:text/html,<title>Data</title><img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='>")
    assert eventually(lambda: [tab["title"] for tab in tabs(server)][-1] == "Data")
    assert requests(server) == []


def test_hostile_headers_and_names(server, site):
    """What a server sends is shown, whatever it is."""
    site.pages["/hostile"] = Page(headers={"x-odd": "a\xff\xfeb", "x-many": ["one", "two"]}, body=b"x")
    visit(server, site.url + "/")
    fetch(server, "fetch('/hostile').then(r => r.text())")
    headers = {name.lower(): value for name, value in awaited(server, "/hostile", state="finished")["response_headers"].items()}
    assert headers["x-many"].split("\n") == ["one", "two"] and headers["x-odd"].startswith("a")


# --- what is asked for -------------------------------------------------------------------------


def test_filter_and_limit(server, site):
    visit(server, site.url + "/")
    fetch(server, "Promise.all([1, 2, 3, 4, 5].map((n) => fetch('/api/v1/item' + n + '?page=2').then(r => r.text())))")
    assert eventually(lambda: len(requests(server, filter="/api/")) == 5)
    assert [one["url"][-13:] for one in requests(server, filter="**/item{2,4}?page=*")] == ["/item2?page=2", "/item4?page=2"]
    assert len(requests(server, filter=site.url + "/api")) == 5
    assert len(requests(server, filter="/api/*/item3*")) == 1 and requests(server, filter="/api/*3*") == []
    assert requests(server, filter="nothing like it") == []
    last = requests(server, limit=2)
    assert last == requests(server)[-2:]
    for name in ("url_pattern", "pattern"):  # as older clients call it
        assert len(requests(server, **{name: "/api/"})) == 5


@pytest.mark.parametrize("query", [{"limit": 0}, {"limit": -1}, {"limit": "x"}, {"limit": 5000}, {"filter": "x" * 3000}])
def test_bad_questions(server, query):
    assert server.get("/v1/browser/network/requests", params=query).status_code == 422


def test_ten_thousand_requests_are_bounded(server, site):
    visit(server, site.url + "/")
    with devtools(server) as page:
        page.send("Runtime.evaluate", awaitPromise=True, expression="""(async () => {
            for (let i = 0; i < 10000; i += 50)
                await Promise.all(Array.from({length: 50}, (_, k) =>
                    fetch('%s/health?' + (i + k), {mode: 'no-cors'}).then(r => r.text(), () => 0)));
            document.title = 'all';
        })()""" % server.url)
        assert eventually(lambda: tabs(server)[-1]["title"] == "all", seconds=120)
    found = requests(server, limit=1000)
    assert 500 <= len(found) <= 1000
    assert found[-1]["url"] == server.url + "/health?9999" and found[-1]["state"] != "pending"
    assert [one["id"] for one in found] == list(range(found[0]["id"], found[-1]["id"] + 1))
