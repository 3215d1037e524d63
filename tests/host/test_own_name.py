"""Pages of a box are opened at the box's own name, `default` included: who opens one on the address that all boxes share
is led there, with what the address says and with what the browser is signed in by; or is told where it is."""

import http.client
import http.server
import re
import threading
from urllib.parse import parse_qs, urlsplit

import pytest

from chromium import NEEDED, browser, new_context, screenshot
from desktop import NEEDED as DESKTOP_NEEDED
from firefox import NEEDED as FIREFOX_NEEDED
from firefox import Firefox
from harness import ANSWER_SECONDS, START_SECONDS, eventually, request
from hosts import Host, folder

KEY = "the-operators-key"
OPENED = {"Accept": "text/html,*/*"}
CHROME = {**OPENED, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "none",
          "User-Agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"}
SAFARI = {**CHROME, "User-Agent": "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) "
                                  "Version/18.0 Safari/605.1.15"}
PAGES = ["/", "/vnc/index.html?autoconnect=true", "/vnc", "/vnc.html", "/code-server/", "/code-server/?folder=/home/gem",
         "/vscode", "/jupyter", "/jupyter/lab/tree/a%20b?x=1&y=", "/lab"]


def location(answer):
    return answer.headers.get("location")


@pytest.mark.parametrize("path", PAGES)
def test_a_page_that_is_opened_is_at_the_boxs_name(host, path):
    for headers in (CHROME, OPENED):
        got = host.client.get(path, headers=headers)
        assert got.status_code == 307 and location(got) == f"//default.localhost:{host.port}{path}"
        assert got.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("name, own", [
    ("localhost", "default.localhost"), ("localhost:9999", "default.localhost:9999"),  # a port that was forwarded
    ("127.0.0.1:8080", "default.localhost:8080"), ("127.1.2.3", "default.localhost"), ("[::1]:80", "default.localhost:80"),
])
def test_the_name_as_the_browser_knows_it(host, name, own):
    assert location(host.client.get("/lab?a=b", headers={**CHROME, "Host": name})) == f"//{own}/lab?a=b"
    behind = {**CHROME, "Host": "127.0.0.1:1", "X-Forwarded-Host": name}
    assert location(host.client.get("/lab?a=b", headers=behind)) == f"//{own}/lab?a=b"


NOT_OPENED = [
    ("GET", "/", {}), ("GET", "/vnc/index.html", {"Accept": "*/*"}), ("GET", "/lab", {"Accept": "application/json"}),
    ("POST", "/vnc/index.html", CHROME), ("HEAD", "/", CHROME),
    ("GET", "/vnc/index.html", {**CHROME, "Sec-Fetch-Dest": "iframe"}),
    ("GET", "/vnc/index.html", {**CHROME, "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}),
    ("GET", "/v1/sandbox", CHROME), ("GET", "/v1/docs", CHROME), ("GET", "/terminal", CHROME), ("GET", "/mcp", CHROME),
    ("GET", "/websockify", CHROME), ("GET", "/cdp", CHROME), ("GET", "/json/version/x", CHROME),
    ("GET", "/devtools/page/x", CHROME), ("GET", "/labs", CHROME), ("GET", "/v1/jupyter/sessions", CHROME),
    ("GET", "/lab", {**CHROME, "x-aio-sandbox": "default"}), ("GET", "/lab", {**CHROME, "x-aio-proxy-port": "1"}),
    ("GET", "/lab", {**CHROME, "Host": "default.localhost"}), ("GET", "/proxy/1/lab", {"Accept": "*/*"}),
    ("GET", "/proxy/1/lab", {**CHROME, "Sec-Fetch-Dest": "iframe"}), ("GET", "/absproxy/1/", {**CHROME, "Sec-Fetch-Dest": "empty"}),
    ("POST", "/proxy/1/", CHROME), ("GET", "/proxy/1/", {**CHROME, "x-aio-sandbox": "default"}),
    ("GET", "/proxy/1/", {**CHROME, "Host": "192.0.2.1"}), ("GET", "/proxy/1/", SAFARI),  # where no name may be known
    ("GET", "/proxy/0/", CHROME), ("GET", "/proxy/1x/", CHROME), ("GET", "/proxy/", CHROME), ("GET", "/proxy/99999/", CHROME),
]


@pytest.mark.parametrize("method, path, headers", NOT_OPENED)
def test_everything_else_is_answered_where_it_was_asked_for(host, method, path, headers):
    got = host.client.request(method, path, headers=headers)
    assert "default.localhost" not in (location(got) or "") and "sandbox's own" not in got.text


@pytest.mark.parametrize("path, led", [
    ("/proxy/4000/", "/"), ("/proxy/4000", "/"), ("/proxy/4000/a%20b?x=1&y=", "/a%20b?x=1&y="),
    ("/absproxy/4000/a?b=c", "/absproxy/4000/a?b=c"), ("/absproxy/4000", "/absproxy/4000"),
])
def test_a_preview_that_is_opened_is_at_the_name_of_its_port(host, box, path, led):
    """Only there its page has an origin, without which a development server's scripts do not load."""
    for headers in (CHROME, OPENED):
        assert location(host.client.get(path, headers=headers)) == f"//4000-default.localhost:{host.port}{led}"
        got = host.client.get(f"/s/{box.id}{path}", headers=headers)
        assert got.status_code == 307 and location(got) == f"//4000-{box.id}.localhost:{host.port}{led}"
    behind = {**CHROME, "Host": "localhost:9000", "X-Forwarded-Prefix": "/sandbox/"}
    assert location(host.client.get(path, headers=behind)) == f"//4000-default.localhost:9000/sandbox{led}"


@pytest.mark.parametrize("headers", [
    {**SAFARI, "Host": "localhost:8080"}, {**CHROME, "Host": "192.0.2.1:8080"}, {**OPENED, "Host": "[2001:db8::1]"}])
def test_where_the_name_may_not_resolve_the_page_says_so(host, headers):
    with host.connect() as peer:
        got = peer.ask(request("/vnc/index.html?a=%22%3E&b='<i>", headers=headers, host=None))
    text = got.body.decode()
    assert got.status == 200 and got["content-type"].startswith("text/html")
    assert "--plain-origin default" in text and "--domain" in text
    assert 'href="/v1/docs"' in text and 'href="/terminal"' in text
    local = "localhost" in headers["Host"]
    assert ('href="//default.localhost:8080/vnc/index.html?a=%22%3E&#38;b=&#39;&#60;i&#62;"' in text) == local
    assert "<i>" not in text and ("default.localhost" in text) == local


def test_below_a_path_too(host, box):
    for path in ("/vnc/index.html?a=b", "/lab"):
        got = host.client.get(f"/s/{box.id}{path}", headers=CHROME)
        assert location(got) == f"//{box.id}.localhost:{host.port}{path}"
    assert host.client.get(f"/s/{box.id}/lab", headers={"Accept": "*/*"}).status_code == 401


@pytest.fixture(scope="module")
def keyed():
    host = Host(folder(), ["--domain", "box.test", "--ticket-ttl", "1"], env={"SANDBOX_API_KEY": KEY})
    host.named = {"Host": f"default.localhost:{host.port}"}
    yield host
    host.end()


# --- behind a proxy that shows the host below a path ------------------------------------------


class Proxy(http.server.BaseHTTPRequestHandler):
    """Of one origin: takes /sandbox/ from paths, and says so."""

    protocol_version = "HTTP/1.1"
    port = None

    def do_GET(self):
        conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_SECONDS)
        if not self.path.startswith("/sandbox/"):
            return self.send_error(404)
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        conn.request(self.command, self.path[8:], body, {**self.headers, "X-Forwarded-Prefix": "/sandbox"})
        got = conn.getresponse()
        data = got.read()
        self.send_response(got.status)
        for name, value in got.getheaders():
            if name.lower() not in ("transfer-encoding", "content-length", "date", "server"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_POST = do_GET

    def log_message(self, *args):
        pass


@pytest.fixture
def proxy(keyed):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("ToHost", (Proxy,), {"port": keyed.port}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


def test_a_prefix_of_the_path_stays(keyed):
    """In redirects, in the form for a key, and in the URLs that a box makes."""
    behind = {**CHROME, "Host": "localhost:9000", "X-Forwarded-Prefix": "/sandbox/"}
    bearer = {"Authorization": f"Bearer {KEY}"}
    got = keyed.client.get("/lab?x=1", headers=behind)
    assert location(got) == "//default.localhost:9000/sandbox/lab?x=1"
    got = keyed.client.get(f"/lab?x=1&api_key={KEY}", headers={**behind, "Host": "default.localhost:9000"})
    assert location(got) == "//default.localhost:9000/sandbox/lab?x=1"
    keyed.client.cookies.clear()
    assert 'action="/sandbox/.aio/sign-in?to=' in keyed.client.get("/terminal", headers=behind).text
    got = keyed.client.get("/", headers={**behind, "Accept": "*/*", "Sec-Fetch-Mode": "cors", **bearer})
    assert location(got) == "/sandbox/v1/docs"
    for path, below in (("", ""), ("/s/default", "/s/default")):
        url = keyed.client.get(f"{path}/v1/shell/terminal-url", headers={**behind, **bearer}).json()["data"]
        assert url.startswith(f"http://localhost:9000/sandbox{below}/terminal?"), url
    for forged in ("//evil.example", "/a//b", "evil", "/a?b", "/a\"b", "/" + "a" * 300, "/a b"):
        got = keyed.client.get("/lab", headers={**behind, "X-Forwarded-Prefix": forged})
        assert location(got) == "//default.localhost:9000/lab", forged


@NEEDED
def test_a_terminal_below_a_path_of_a_proxy(keyed, proxy):
    with browser() as chromium:
        context = new_context(chromium)
        page = context.new_page()
        page.goto(f"http://localhost:{proxy}/sandbox/?x=1")
        assert page.url == f"http://default.localhost:{proxy}/sandbox/?x=1"
        page.locator("input").fill(KEY)
        page.keyboard.press("Enter")
        page.wait_for_url(f"http://default.localhost:{proxy}/sandbox/v1/docs**")
        page.goto(f"http://default.localhost:{proxy}/sandbox/terminal")  # with the cookie
        page.locator(".xterm-rows").wait_for()
        context.close()


# --- with a key --------------------------------------------------------------------------------


def shown(host, answer, **cookies):
    """What is shown at the end, by a browser that follows all redirects."""
    jar = dict(cookies)
    for _ in range(5):
        if answer.status_code not in (303, 307):
            return answer, jar
        jar.update(answer.cookies)
        host.client.cookies.clear()
        to = urlsplit(location(answer))
        sent = {**CHROME, "Host": to.netloc or answer.request.headers["host"]}
        if jar:
            sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in jar.items())
        answer = host.client.get(to.path + (f"?{to.query}" if to.query else ""), headers=sent)
    raise AssertionError(answer.headers)


def test_a_domain_is_known_to_every_browser(keyed):
    for headers in (CHROME, SAFARI, OPENED):
        got = keyed.client.get("/lab?x", headers={**headers, "Host": "box.test"})
        assert location(got) == "//default.box.test/lab?x"


def test_a_key_in_the_address_goes_along(keyed):
    got = keyed.client.get(f"/?api_key={KEY}", headers=CHROME)
    assert re.fullmatch(rf"//default.localhost:{keyed.port}/\?ticket=[\w-]+", location(got))  # in its place
    page, jar = shown(keyed, got)
    assert page.status_code == 200 and page.request.url.path == "/v1/docs" and "aio_box" in jar
    assert not page.request.url.query


def test_a_ticket_goes_along_as_it_is(keyed):
    ticket = keyed.client.post("/tickets", headers={"Authorization": f"Bearer {KEY}"}).json()["ticket"]
    got = keyed.client.get(f"/?ticket={ticket}&x=1", headers=CHROME)
    assert location(got) == f"//default.localhost:{keyed.port}/?ticket={ticket}&x=1"
    wrong = keyed.client.get("/?api_key=wrong", headers=CHROME)
    assert location(wrong) == f"//default.localhost:{keyed.port}/?api_key=wrong"


def test_who_is_signed_in_stays_so(keyed):
    """By the cookie of the plain address, which the other name is not sent; even if the address has an old ticket."""
    signed = keyed.client.get(f"/terminal?api_key={KEY}", headers=CHROME)
    (name, value), = signed.cookies.items()
    keyed.client.cookies.clear()
    ticket = keyed.client.post("/tickets", headers={"Authorization": f"Bearer {KEY}"}).json()["ticket"]
    old = lambda: keyed.client.get("/v1/sandbox", params={"ticket": ticket}).status_code == 401
    assert eventually(old)
    for path in ("/", f"/?ticket={ticket}", f"/?x=1&ticket={ticket}"):
        got = keyed.client.get(path, headers={**CHROME, "Cookie": f"{name}={value}"})
        query = parse_qs(urlsplit(location(got)).query)
        assert len(query["ticket"]) == 1 and query["ticket"] != [ticket] and ("x" in query) == ("x=1" in path)
        page, jar = shown(keyed, got)
        assert page.status_code == 200 and page.request.url.path == "/v1/docs" and "aio_box" in jar
    # And who is not is asked for a key there.
    for path in ("/", f"/?ticket={ticket}"):
        page, jar = shown(keyed, keyed.client.get(path, headers=CHROME))
        assert page.status_code == 401 and "needs a key" in page.text and not jar
    forged = keyed.client.get("/", headers={**CHROME, "Cookie": f"{name}=forged"})
    assert location(forged) == f"//default.localhost:{keyed.port}/"


def test_a_program_that_is_opened_learns_of_no_key(keyed):
    """Its service worker sees the address that a visitor is led to before the host does."""
    signed = keyed.client.get(f"/terminal?api_key={KEY}", headers=CHROME)
    (name, value), = signed.cookies.items()
    keyed.client.cookies.clear()
    ticket = keyed.client.post("/tickets", headers={"Authorization": f"Bearer {KEY}"}).json()["ticket"]
    for path, sent in (("/proxy/4000/", {"Cookie": f"{name}={value}"}), (f"/proxy/4000/?api_key={KEY}", {}),
                       (f"/absproxy/4000/?ticket={ticket}", {}), ("/proxy/4000/", {"Authorization": f"Bearer {KEY}"})):
        got = keyed.client.get(path, headers={**CHROME, **sent})
        to = urlsplit(location(got))
        (given,) = parse_qs(to.query)["ticket"]
        assert to.netloc == f"4000-default.localhost:{keyed.port}" and given not in (ticket, KEY)
        for where in ("localhost", "default.localhost"):
            asked = keyed.client.get(f"/v1/sandbox?ticket={given}", headers={"Host": f"{where}:{keyed.port}"})
            assert asked.status_code == 401
        page, jar = shown(keyed, got)
        assert page.status_code == 502 and "4000" in page.text and "aio_box" in jar  # nothing listens there
        stolen = {**CHROME, "Cookie": f"aio_box={jar['aio_box']}", "Host": f"default.localhost:{keyed.port}"}
        assert keyed.client.get("/v1/sandbox", headers=stolen).status_code == 401
        keyed.client.cookies.clear()


def test_the_page_of_a_program_has_no_use_of_the_cookie_beside_it(keyed):
    """Below one domain a browser sends it along, and says who asks."""
    signed = keyed.client.get(f"/terminal?api_key={KEY}", headers={**CHROME, "Host": "default.box.test"})
    (name, value), = signed.cookies.items()
    keyed.client.cookies.clear()
    sent = {"Host": "default.box.test", "Cookie": f"{name}={value}", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}
    own = {**sent, "Origin": "http://default.box.test", "Sec-Fetch-Site": "same-origin"}
    assert keyed.client.get("/v1/sandbox", headers=own).status_code == 200
    for page in ("4000-default.box.test", "other.box.test"):
        there = {**sent, "Origin": f"http://{page}", "Sec-Fetch-Site": "same-site"}
        assert keyed.client.get("/v1/sandbox", headers=there).status_code in (401, 403)
        assert keyed.client.post("/v1/bash/exec", headers=there, json={"command": "true"}).status_code in (401, 403)


def test_no_other_page_is_given_a_ticket(keyed):
    signed = keyed.client.get(f"/terminal?api_key={KEY}", headers=CHROME)
    (name, value), = signed.cookies.items()
    keyed.client.cookies.clear()
    sent = {**CHROME, "Cookie": f"{name}={value}"}
    for path in ("//evil.example/vnc", "/vnc/../../x", "/vnc\\@evil.example"):
        got = keyed.client.get(keyed.url + path, headers=sent)
        assert not location(got) or location(got).startswith(f"//default.localhost:{keyed.port}/"), path
    got = keyed.client.get("/lab", headers={**sent, "X-Forwarded-Host": "evil.example"})
    assert location(got).startswith("//default.box.test/lab?ticket=")


# --- the plain address as the default box's own -------------------------------------------------

APP = r"""
import http.server
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Set-Cookie", "app=1; Path=/")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>app</title><p>a page")
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(("127.0.0.1", 4000), H).serve_forever()
"""


@pytest.fixture(scope="module")
def plain():
    """A host whose plain address is its default box's; an application is there."""
    host = Host(folder(), ["--plain-origin", "default"])
    host.port_name = f"localhost:{host.port}"
    default = host.default()
    default.request("POST", "/v1/file/write", json={"file": "/tmp/app.py", "content": APP})
    default.begin("exec python3 /tmp/app.py")
    assert eventually(lambda: default.request("GET", "/proxy/4000/").status_code == 200)
    yield host
    host.end()


def test_pages_of_the_default_box_are_at_the_plain_address(plain):
    get = lambda path, **headers: plain.client.get(path, headers={**CHROME, **headers})
    for headers in ({}, {"Host": "192.0.2.1:8080"}, {"User-Agent": SAFARI["User-Agent"]}):
        assert location(get("/", **headers)) == "/v1/docs"
        for path, to in (("/lab", "jupyter/lab"), ("/vscode", "code-server/")):  # the box's own answers
            assert location(get(path, **headers)) == to and "--plain-origin" not in get(path, **headers).text
    got = get("/proxy/4000/")
    assert "content-security-policy" not in got.headers and got.cookies["app"] == "1"
    assert got.headers["vary"] == "X-AIO-Sandbox, X-AIO-Proxy-Port"
    assert "/v1/sandboxes" not in plain.client.get("/openapi.json").json()["paths"]
    assert plain.default().run("hostname") == "default\n" and "default" in plain.ids()
    other = plain.create()
    got = plain.client.get("/proxy/4000/", headers={**CHROME, **other.headers})
    assert got.headers.get_list("content-security-policy")[-1].startswith("sandbox")  # added to the page's own


def test_the_hosts_page_is_elsewhere(plain):
    at = {"Host": f"host.localhost:{plain.port}"}
    assert location(plain.client.get("/", headers={**CHROME, **at})) == "/v1/docs"
    assert plain.client.get("/v1/docs", headers={**CHROME, **at}).status_code == 200
    assert "/v1/sandboxes" in plain.client.get("/openapi.json", headers=at).json()["paths"]
    assert plain.client.get("/v1/sandboxes", headers={**plain.auth, **at}).status_code == 200
    assert location(plain.client.get("/lab", headers={**CHROME, **at})) == f"//default.localhost:{plain.port}/lab"
    refused = plain.client.post("/v1/sandboxes", headers=plain.auth, json={"name": "host"})
    assert refused.status_code == 422 and "--plain-origin" in refused.text


DRIVE = """async (id) => {
    const ask = (path, how) => fetch(path, how).then((r) => r.status, () => 'refused');
    const post = (headers) => ({ method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: '{"command":"touch /tmp/pwned"}' });
    return [await ask('/v1/sandbox'), await ask('/v1/bash/exec', post()), await ask(`/s/${id}/v1/sandbox`),
            await ask('/v1/sandbox', { headers: { 'x-aio-sandbox': id } }), await ask(`/s/${id}/v1/bash/exec`, post()),
            await ask('/v1/bash/exec', post({ 'x-aio-sandbox': id })), await ask('/v1/sandboxes')];
}"""


@NEEDED
def test_its_pages_have_an_origin_there_and_drive_no_other_box(plain):
    other = plain.create(auth="none")
    with browser() as chromium:
        context = new_context(chromium)
        page = context.new_page()
        for name in (plain.port_name, f"127.0.0.1:{plain.port}"):
            page.goto(f"http://{name}/proxy/4000/")
            assert page.evaluate("self.origin") == f"http://{name}" and page.evaluate("document.cookie") == "app=1"
            assert page.evaluate(DRIVE, other.id) == [200, 200, 403, 403, 403, 403, 401]
        context.close()
    assert plain.default().run("ls /tmp/pwned") and other.run("ls /tmp/pwned || echo none") == "none\n"


def test_who_has_a_key_signs_in_at_the_plain_address():
    host = Host(folder(), ["--plain-origin", "default"], env={"SANDBOX_API_KEY": KEY})
    try:
        got = host.client.get(f"/lab?x=1&api_key={KEY}", headers=CHROME)
        assert location(got) == f"//127.0.0.1:{host.port}/lab?x=1"
        (name, value), = got.cookies.items()
        assert name == f"aio_box_{host.port}"  # other servers may be at other ports of this name
        assert host.client.get("/v1/sandbox").status_code == 200
        host.client.cookies.clear()
        assert host.client.get("/v1/sandbox").status_code == 401
    finally:
        host.end()


# --- in browsers -------------------------------------------------------------------------------


VNC = "/vnc/index.html?autoconnect=true"
CONNECTED = "document.querySelector('#status')?.dataset.state == 'connected'"


@NEEDED
def test_in_chromium(keyed):
    with browser() as chromium:
        context = new_context(chromium)
        page = context.new_page()
        page.goto(f"{keyed.url.replace('127.0.0.1', 'localhost')}/?api_key={KEY}#/part")
        page.locator(".opblock").first.wait_for()
        there = f"http://default.localhost:{keyed.port}"
        assert page.url == f"{there}/v1/docs#/part" and page.evaluate("self.origin") == there
        assert page.evaluate("fetch('/v1/sandbox').then((r) => r.status)") == 200
        page.goto(f"{keyed.url}/")  # from now on without a key
        page.locator(".opblock").first.wait_for()
        context.close()


@NEEDED
@DESKTOP_NEEDED
def test_the_desktop_in_chromium(keyed, plain):
    """Led to its name, or at the plain address where that is the box's."""
    with browser() as chromium:
        context = new_context(chromium)
        page = context.new_page()
        for at, there, key in ((keyed, f"http://default.localhost:{keyed.port}", f"&api_key={KEY}"), (plain, plain.url, "")):
            page.goto(at.url + VNC + key)
            assert eventually(lambda: page.evaluate(CONNECTED), START_SECONDS), page.content()
            screenshot(page, "host-desktop")
            assert page.url.startswith(f"{there}/vnc/index.html?autoconnect=true") and KEY not in page.url
            assert page.evaluate("self.origin") == there
        context.close()


@FIREFOX_NEEDED
def test_in_firefox(keyed, plain, tmp_path):
    with Firefox(tmp_path) as firefox:
        firefox.open(f"{keyed.url.replace('127.0.0.1', 'localhost')}/?api_key={KEY}")
        there = f"http://default.localhost:{keyed.port}"
        assert eventually(lambda: firefox.evaluate("document.querySelector('.opblock') && location.href") == f"{there}/v1/docs")
        assert firefox.evaluate("self.origin") == there
        assert firefox.evaluate("fetch('/v1/sandbox').then((r) => r.status)") == 200
        if DESKTOP_NEEDED.args[0]:
            return  # test_the_desktop_in_chromium says so
        for at in (keyed, plain):
            firefox.open(at.url + VNC)  # signed in, or without a key
            assert eventually(lambda: firefox.evaluate(CONNECTED), START_SECONDS), firefox.evaluate("location.href + document.body.innerText")
        assert firefox.evaluate("location.origin") == plain.url
