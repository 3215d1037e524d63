"""The page of one box that tries to drive another, or the host, in a real browser.

The boxes here: an evil one, whose server sends whatever it wants; a victim, whose user has its terminal and
an application of it open in the same browser; and `default`, which needs no credentials. What counts is what
the victims and the host notice, and what the evil page could read. The same attempts made by the victim's
own page do work: see test_its_own_page_can."""

import re
from urllib.parse import urlsplit

import pytest
from chromium import NEEDED, browser, new_context, screenshot
from harness import ANSWER_SECONDS, eventually
from hosts import Host, folder

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = sync_api.expect
expect.set_options(timeout=ANSWER_SECONDS * 1000)
pytestmark = NEEDED

SECRET = "the-victims-secret"
KEY = "the-operators-key"
DOMAIN = "box.test"
SAFARI = ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) "
          "Version/18.0 Safari/605.1.15")

APP = r'''
import http.server, urllib.parse
PAGE = "<!doctype html><title>app</title><p>" + "a page"
XML = '<%s xmlns="http://www.w3.org/%s"><script>document.documentElement.setAttribute("ran", self.origin)</script></%s>'
KINDS = {
    "/page.html": ("text/html", PAGE), "/sniffed": (None, PAGE), "/bad.html": ("text/plain", PAGE),
    "/image.svg": ("image/svg+xml", XML % ("svg", "2000/svg", "svg")),
    "/page.xml": ("application/xhtml+xml", XML % ("html", "1999/xhtml", "html")),
    "/data.js": ("text/javascript", "var secret = 'the-victims-secret'"),
    "/worker.js": ("text/javascript", "onfetch = (e) => e.respondWith(new Response('taken over'))"),
    "/form": ("text/html", "sent"),
}
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        length = int(self.headers.get("content-length", 0))
        self.rfile.read(length)
        with open("/tmp/seen", "a") as seen: print(self.command, self.path, self.headers, file=seen)
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        kind, body = KINDS.get(url.path, ("text/plain", url.path))
        self.send_response(int(query.get("code", 200)))
        if kind: self.send_header("Content-Type", kind)
        if "to" in query: self.send_header("Location", query["to"])
        for name, value in [("Set-Cookie", "aio_box=forged; Domain=localhost; Path=/"),
                            ("Set-Cookie", "app=1; Domain=localhost; Path=/"), ("Service-Worker-Allowed", "/"),
                            ("X-Content-Type-Options", "none"), ("NEL", "{}"), ("Report-To", "{}"),
                            ("Access-Control-Allow-Origin", self.headers.get("origin", "*")),
                            ("Access-Control-Allow-Credentials", "true"),
                            ("Access-Control-Allow-Headers", "content-type")]:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())
    do_POST = do_OPTIONS = do_GET
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(("127.0.0.1", 4000), H).serve_forever()
'''

# Everything that a page can try by itself, at once. Returns what it could read, by the way that worked.
ATTEMPTS = r"""async ({ bases, scripts, host, go, tag }) => {
  const read = {}, jobs = [];
  const attempt = (how, at, work) => jobs.push((async () => {
    try {
      const got = await Promise.race([work(), new Promise((r) => setTimeout(r, 60000))]);
      if (got) (read[how] ||= []).push(`${at}: ${String(got).slice(0, 300)}`);
    } catch { /* as it should be */ }
  })());
  const event = (target, ...names) => new Promise((r) => names.forEach((n) => target.addEventListener(n, r)));
  const body = (how) => JSON.stringify({ command: `echo '${how} from ${tag}' >>/tmp/pwned` });
  const post = (type, how) => ({ method: 'POST', credentials: 'include', headers: { 'content-type': type }, body: body(how) });
  const put = (tag, set) => {
    const e = Object.assign(document.createElementNS('http://www.w3.org/1999/xhtml', tag), set);
    const loaded = event(e, 'load', 'error');
    (document.body || document.documentElement).append(e);
    return loaded.then(() => e);
  };
  const form = async (url, type, fields) => {
    const name = 'f' + Math.random(), frame = put('iframe', { name });
    await frame;
    const e = Object.assign(document.createElement('form'), { method: 'POST', action: url, enctype: type, target: name });
    for (const [k, v] of fields) e.append(Object.assign(document.createElement('input'), { name: k, value: v }));
    document.body.append(e);
    const loaded = event((await frame), 'load');
    e.submit();
    await loaded;
    return (await frame).contentDocument?.body?.textContent;
  };
  const text = async (url, how) => (await fetch(url, how)).text();

  for (const base of bases) {
    const exec = base + '/v1/bash/exec';
    for (const type of ['text/plain', 'application/json'])
      attempt('fetch ' + type, base, () => text(exec, post(type, 'fetch ' + type)));
    attempt('opaque', base, () => text(exec, { ...post('text/plain', 'opaque'), mode: 'no-cors' }));
    attempt('xhr', base, async () => {
      const x = new XMLHttpRequest();
      x.open('POST', exec);
      x.withCredentials = true;
      x.setRequestHeader('content-type', 'application/json');
      const done = event(x, 'loadend');
      x.send(body('xhr'));
      await done;
      return x.responseText;
    });
    attempt('beacon', base, async () => void navigator.sendBeacon(exec, new Blob([body('beacon')], { type: 'application/json' })));
    attempt('form', base, () => form(exec, 'text/plain', [[body('form').slice(0, -1) + ',"x":"', '"}']]));
    attempt('upload', base, () => form(base + '/v1/file/upload', 'multipart/form-data', [['path', '/tmp/pwned-form'], ['file', 'x']]));
    attempt('get', base, () => text(base + '/v1/sandbox', { credentials: 'include' }));
    attempt('download', base, () => text(base + '/v1/file/download?path=/home/gem/secret.js', { credentials: 'include' }));
    attempt('named', base, () => text(base + '/v1/sandbox', { credentials: 'include', headers: { 'x-aio-sandbox': 'default' } }));
    attempt('ticket', base, () => text(base + '/tickets', { method: 'POST', credentials: 'include' }));
    attempt('socket', base, () => new Promise((done) => {
      const s = new WebSocket(base.replace('http', 'ws') + '/v1/shell/ws');
      let all = '', shown = ''; // which may come in pieces
      s.onmessage = (m) => {
        const { type, data } = JSON.parse(m.data);
        all += m.data;
        if (type === 'output') shown += data;
        if (type === 'ready') s.send(JSON.stringify({ type: 'input', data: `${JSON.parse(body('socket')).command}; echo do''ne; exit\r` }));
        if (shown.includes('done')) done(all);
      };
      s.onclose = () => done(all);
    }));
    attempt('events', base, () => new Promise((done) => {
      const e = new EventSource(base + '/sse', { withCredentials: true });
      e.onerror = () => done(e.close());
      e.addEventListener('endpoint', (m) => { done(m.data); e.close(); });
    }));
    attempt('frame', base, async () => (await put('iframe', { src: base + '/terminal' })).contentDocument?.title);
    attempt('api frame', base, async () => (await put('iframe', { src: base + '/v1/shell/terminal-url' })).contentDocument?.body.textContent);
    attempt('image', base, async () => void await put('img', { src: base + '/v1/shell/terminal-url' }));
    attempt('json script', base, async () => void await put('script', { src: base + '/v1/shell/terminal-url' }));
    attempt('prefetch', base, async () => {
      put('link', { rel: 'prefetch', href: base + '/v1/shell/terminal-url' });
      const rules = Object.assign(document.createElement('script'), { type: 'speculationrules' });
      rules.textContent = JSON.stringify({ prefetch: [{ source: 'list', eagerness: 'immediate', urls: [base + '/v1/shell/terminal-url'] }] });
      document.head?.append(rules);
    });
    if (go) { // a redirect of the page's own server
      attempt('redirected', base, () => text(`${go}?code=302&to=${encodeURIComponent(base + '/v1/sandbox')}`, { credentials: 'include' }));
      attempt('redirected command', base, () => text(`${go}?code=307&to=${encodeURIComponent(exec)}`, post('text/plain', 'redirect')));
      attempt('redirected json', base, () => text(`${go}?code=307&to=${encodeURIComponent(exec)}`, post('application/json', 'redirect json')));
      attempt('redirected form', base, () => form(`${go}?code=307&to=${encodeURIComponent(exec)}`, 'text/plain', [[body('form 307').slice(0, -1) + ',"x":"', '"}']]));
    }
  }
  attempt('script', 'one of', async () => {
    const gave = [];
    for (const src of scripts) {
      self.secret = undefined;
      await put('script', { src });
      if (self.secret) gave.push(src);
    }
    return gave.join(' ');
  });
  for (const at of host) {
    const json = { credentials: 'include', headers: { 'content-type': 'application/json' } };
    attempt('list', at, () => text(at + '/v1/sandboxes', { credentials: 'include' }));
    attempt('create', at, () => text(at + '/v1/sandboxes', { ...json, method: 'POST', body: '{"name":"made-by-evil"}' }));
    attempt('create blindly', at, () => text(at + '/v1/sandboxes', { method: 'POST', mode: 'no-cors', credentials: 'include', body: '{"name":"made-by-evil"}' }));
    attempt('create form', at, () => form(at + '/v1/sandboxes', 'text/plain', [['{"name":"made-by-evil","x":"', '"}']]));
    attempt('delete', at, () => text(at + '/v1/sandboxes/victim', { ...json, method: 'DELETE' }));
    attempt('pause', at, () => text(at + '/v1/sandboxes/victim/pause', { method: 'POST', mode: 'no-cors', credentials: 'include' }));
    attempt('watch', at, () => new Promise((done) => {
      const e = new EventSource(at + '/v1/sandboxes/victim/events', { withCredentials: true });
      e.onerror = () => done(e.close());
      e.onopen = () => done('open');
    }));
  }
  await Promise.all(jobs);
  return read;
}"""


class World:
    """The host, its boxes, and a browser whose user has used the victim's and the host's own pages."""

    def __init__(self, chromium, host):
        self.host, self.port = host, host.port
        self.default = host.default()
        self.evil, self.victim = host.create(name="evil"), host.create(name="victim")
        for box in (self.default, self.evil, self.victim):
            box.request("POST", "/v1/file/write", json={"file": "/tmp/app.py", "content": APP})
            box.request("POST", "/v1/file/write",
                        json={"file": "/home/gem/secret.js", "content": f"var secret = '{SECRET}'"})
            box.begin("exec python3 /tmp/app.py")
        for box in (self.default, self.evil, self.victim):
            assert eventually(lambda: box.request("GET", "/proxy/4000/up").status_code == 200)
        # As one that may not find names below localhost: previews stay at the plain address.
        self.context = new_context(chromium, width=1280, height=720, user_agent=SAFARI)
        for name in ("localhost", DOMAIN):
            terminal = self.open(f"victim.{name}", "/terminal", self.victim)
            connected(terminal)
            terminal.evaluate("localStorage.setItem('mine', 'the-victims-secret')")
            self.open(f"4000-victim.{name}", "/page.html", self.victim)
        connected(self.open("localhost", "/terminal"))
        self.scripts = [self.at(name) + path for name, path in (
            ("localhost", "/proxy/4000/data.js"), ("4000-localhost", "/data.js"),
            ("localhost", "/v1/file/download?path=/home/gem/secret.js"),
            ("4000-victim.localhost", "/data.js"), (f"4000-victim.{DOMAIN}", "/data.js"),
            (f"victim.{DOMAIN}", "/v1/file/download?path=/home/gem/secret.js"))]

    def at(self, name):
        name, slash, path = name.partition("/")
        return f"http://{name}:{self.port}{slash}{path}"

    def ticket(self, box):
        """A fresh one, for a single use: it soon expires."""
        return box.request("POST", "/tickets").json()["ticket"]

    def open(self, name, path, box=None):
        """A page that the user opens: with a ticket the first time."""
        page = self.context.new_page()
        page.goto(self.at(name) + path + ("?ticket=" + self.ticket(box) if box else ""))
        return page

    def sessions(self):
        return [sorted(box.request("GET", "/v1/shell/sessions").json()["data"]["sessions"])
                for box in (self.default, self.victim)]

    def harm(self):
        """What was done to the victims and to the host."""
        made = [box.run("tail -n99 /tmp/pwned* 2>/dev/null; true") for box in (self.default, self.victim)]
        return made + [sorted(self.host.ids()), self.victim.state]


UNHARMED = ["", "", ["default", "evil", "victim"], "running"]


def connected(page):
    expect(page.locator("#status")).to_have_attribute("data-state", "connected")


@pytest.fixture(scope="module")
def world():
    host = Host(folder(), ["--domain", DOMAIN])
    names = [DOMAIN, f"victim.{DOMAIN}", f"evil.{DOMAIN}", f"4000-victim.{DOMAIN}", f"4000-evil.{DOMAIN}"]
    try:
        with browser(
                "--disable-features=LocalNetworkAccessChecks",  # a defence of the browser's own, and not every one's
                f"--host-resolver-rules=MAP *.{DOMAIN} 127.0.0.1,MAP {DOMAIN} 127.0.0.1,MAP rebound.example 127.0.0.1",
                # As if there were TLS: browsers tell more of their requests then.
                "--unsafely-treat-insecure-origin-as-secure=" + ",".join(f"http://{n}:{host.port}" for n in names)
        ) as chromium:
            yield World(chromium, host)
    finally:
        host.end()


# Where the evil page is, and which of the victims' addresses it tries.
LOCAL = ["localhost", "default.localhost", "victim.localhost", "localhost/s/victim"]
STAGES = {
    "preview": ("4000-evil.localhost", "/page.html", "evil", [*LOCAL, "127.0.0.1"]),
    "own name": ("evil.localhost", "/proxy/4000/page.html", "evil", LOCAL),
    "below the plain address": ("localhost", "/s/evil/proxy/4000/page.html", "evil", LOCAL),
    "the default box's, on the plain address": ("localhost", "/proxy/4000/page.html", None, LOCAL),
    "preview below a domain": (f"4000-evil.{DOMAIN}", "/page.html", "evil", [DOMAIN, f"victim.{DOMAIN}"]),
}



def start(page, **ask):
    """Begins the attempts in a page; finish() waits for them."""
    ask = {"bases": [], "scripts": [], "host": [], "go": None, **ask}
    page.evaluate(f"(ask) => {{ self.outcome = ({ATTEMPTS})(ask); }}", ask)


def finish(page):
    return page.evaluate("() => self.outcome")


def test_a_page_of_one_box_drives_neither_another_nor_the_host(world):
    before = world.sessions()
    pages = {}
    for stage, (name, path, box, targets) in STAGES.items():
        pages[stage] = page = world.open(name, path, world.evil if box else None)
        start(page, bases=list(map(world.at, targets)), host=[world.at("localhost"), world.at(DOMAIN)],
              scripts=world.scripts, go=page.url.split("?")[0].replace("page.html", "go"), tag=stage)
    assert {stage: finish(page) for stage, page in pages.items()} == {stage: {} for stage in STAGES}
    # What the product's pages keep in the browser is theirs.
    for stage, page in pages.items():
        kept = page.evaluate("""() => [() => JSON.stringify(localStorage), () => document.cookie].map((work) => {
            try { return work(); } catch (e) { return e.name; }
        })""")
        plain = STAGES[stage][0] == "localhost"
        assert kept == (["SecurityError", "SecurityError"] if plain else ["{}", "app=1"]), stage
        page.close()
    assert world.harm() == UNHARMED
    assert world.sessions() == before


def test_its_own_page_can(world):
    """The same attempts work where they may: it is not the attempts that are wrong."""
    terminal = world.open("victim.localhost", "/terminal")  # with the cookie that it has
    connected(terminal)
    start(terminal, bases=[world.at("victim.localhost")], tag="itself",
          scripts=[world.at("victim.localhost") + "/proxy/4000/data.js"])
    read = finish(terminal)
    for how in ("fetch application/json", "xhr", "get", "download", "socket", "events", "frame", "api frame", "script"):
        assert read.get(how), (how, read)
    done = [f"{how} from itself" for how in ("beacon", "fetch application/json", "socket", "xhr")]
    assert eventually(lambda: world.victim.run("sort /tmp/pwned").splitlines() == done), world.harm()  # nobody waits for a beacon
    world.victim.run("rm /tmp/pwned*")
    terminal.close()
    # A page of one of its applications: another origin, but the same box.
    page = world.open("4000-victim.localhost", "/page.html")
    start(page, scripts=[world.at("4000-victim.localhost") + "/data.js"], tag="app")
    assert list(finish(page)) == ["script"]
    page.close()
    # And the host, for who has its token.
    page = world.open("localhost", "/v1/docs")
    page.locator(".opblock").first.wait_for()
    assert urlsplit(page.url).path == "/v1/docs"
    assert page.evaluate("""async (token) => (await fetch('/v1/sandboxes', {
        headers: { authorization: 'Bearer ' + token } })).status""", world.host.token) == 200
    page.close()


def test_windows_of_each_other(world):
    """A window that an evil page has opened is not the evil page's, and neither is the one it came from."""
    evil = world.open("evil.localhost", "/proxy/4000/page.html", world.evil)
    with world.context.expect_page() as opened:
        evil.evaluate("(url) => { self.other = window.open(url); }", world.at("victim.localhost") + "/terminal")
    terminal = opened.value
    connected(terminal)
    evil.evaluate("""() => {
        for (const work of [() => { other.location = 'about:blank'; }, () => { self.title = other.document.title; },
                            () => other.postMessage({ type: 'input', data: 'touch /tmp/pwned\\r' }, '*'), () => other.close()])
            try { work(); } catch { }
    }""")
    assert evil.evaluate("other.closed && !self.title")  # as far as it can see
    assert urlsplit(terminal.url).path == "/terminal" and not terminal.is_closed()
    with world.context.expect_page() as opened:
        terminal.evaluate("(url) => { window.open(url); }", evil.url)
    opened.value.wait_for_load_state()
    assert opened.value.evaluate("() => { if (opener) opener.location = 'about:blank'; return opener; }") is None
    connected(terminal)
    for page in (evil, terminal, opened.value):
        page.close()
    assert world.harm() == UNHARMED


def test_a_service_worker_stays_at_its_boxs_name(world):
    register = """(url) => navigator.serviceWorker.register(url, { scope: '/' }).then(() => 'registered', (e) => e.name)"""
    page = world.open("localhost", "/terminal")  # even where the page that asks has the host's own origin
    ticket = world.ticket(world.evil)
    assert page.evaluate(register, f"/s/evil/proxy/4000/worker.js?ticket={ticket}") in ("TypeError", "SecurityError")
    assert page.evaluate(register, "/proxy/4000/worker.js") in ("TypeError", "SecurityError")
    page.goto(world.at("localhost") + "/proxy/4000/page.html")
    assert page.evaluate(f"async () => {{ try {{ return await ({register})('/proxy/4000/worker.js') }} catch (e) {{ return e.name }} }}") != "registered"
    page.close()
    page = world.open("4000-evil.localhost", "/page.html")
    assert page.evaluate(register, "/worker.js") == "registered"
    page.evaluate("async () => { await navigator.serviceWorker.ready }")
    page.goto(page.url)
    assert page.content().count("taken over") == 1  # it works there
    page.close()
    for name, path in (("localhost", "/terminal"), ("victim.localhost", "/terminal"), ("4000-victim.localhost", "/page.html")):
        page = world.open(name, path)
        assert "taken over" not in page.content()
        assert page.evaluate("navigator.serviceWorker.controller") is None
        page.close()


def test_cookies_for_other_names(world):
    """What a page sets for a whole domain neither opens a box nor keeps its user out."""
    for name in ("localhost", DOMAIN):
        evil = world.open(f"evil.{name}", "/proxy/4000/page.html", world.evil)
        evil.evaluate("""(name) => {
            for (const path of ['/', '/terminal', '/v1', '/v1/shell', '/v1/shell/ws'])
                document.cookie = `aio_box=forged; domain=${name}; path=${path}`;
        }""", name)
        evil.close()
        url = world.at(f"victim.{name}") + "/v1/shell/ws"
        sent = lambda: {cookie["domain"] for cookie in world.context.cookies(url) if cookie["name"] == "aio_box"}
        own = {f"victim.{name}"} | ({f".{name}"} if name == DOMAIN else set())  # localhost is nobody's
        assert eventually(lambda: sent() == own), sent()
    terminal = world.open(f"victim.{DOMAIN}", "/terminal")
    connected(terminal)
    terminal.close()
    world.context.clear_cookies(domain=f".{DOMAIN}")


def test_a_page_cannot_read_the_key_that_it_was_opened_with(world):
    """Neither in its address nor in what the browser remembers; and its server is not told by the next request."""
    token = world.evil.token
    known = """() => JSON.stringify([location.href, document.referrer, document.URL, history.state,
        performance.getEntries(), self.navigation ? navigation.entries().map((e) => e.url) : []])"""
    for name, path in (("4000-evil.localhost", "/page.html"), (f"evil.{DOMAIN}", "/proxy/4000/page.html"),
                       ("localhost", "/s/evil/proxy/4000/page.html")):
        context = new_context(world.context.browser, user_agent=SAFARI)  # without cookies
        page = context.new_page()
        page.goto(f"{world.at(name)}{path}?x=1&api_key={token}")
        assert page.locator("p").inner_text() == "a page" and "x=1" in page.url
        assert token not in page.url and token not in page.evaluate(known)
        page.evaluate("(url) => { location = url; }", path.replace("page.html", "form") + "?" + urlsplit(page.url).query)
        expect(page.locator("body")).to_have_text("sent")
        assert token not in page.evaluate(known)
        context.close()
    assert token not in world.evil.run("cat /tmp/seen") and "GET /form" in world.evil.run("cat /tmp/seen")


def test_who_signed_in_on_the_plain_address_is_not_driven_there(world):
    """The default box of this host has a key, and its user a cookie for the address that all boxes share."""
    host = Host(folder(), env={"SANDBOX_API_KEY": KEY})
    context = new_context(world.context.browser, user_agent=SAFARI)
    at = lambda name: f"http://{name}:{host.port}"
    try:
        default, evil = host.default(), host.create(name="evil")
        default.headers["Authorization"] = f"Bearer {KEY}"
        evil.request("POST", "/v1/file/write", json={"file": "/tmp/app.py", "content": APP})
        evil.begin("exec python3 /tmp/app.py")
        assert eventually(lambda: evil.request("GET", "/proxy/4000/up").status_code == 200)
        for name in ("localhost", "127.0.0.1"):
            terminal = context.new_page()
            terminal.goto(f"{at(name)}/terminal?api_key={KEY}")
            connected(terminal)
            assert KEY not in terminal.url and "ticket" not in terminal.url
            kept = terminal.evaluate("document.cookie + JSON.stringify([{ ...localStorage }, { ...sessionStorage }])")
            assert KEY not in kept and "aio_box" not in kept
        sessions = lambda: sorted(default.request("GET", "/v1/shell/sessions").json()["data"]["sessions"])
        before, pages = sessions(), {}
        for name, path in (("localhost", "/s/evil/proxy/4000/page.html"), ("127.0.0.1", "/s/evil/proxy/4000/page.html"),
                           ("4000-evil.localhost", "/page.html")):
            pages[name] = page = context.new_page()
            page.goto(f"{at(name)}{path}?api_key={evil.token}")
            assert page.title() == "app"
            start(page, bases=[at("localhost"), at("127.0.0.1"), at("default.localhost")], host=[at("localhost")],
                  go=page.url.split("?")[0].replace("page.html", "go"), tag=name)
        assert {name: finish(page) for name, page in pages.items()} == {name: {} for name in pages}
        assert default.run("tail -n99 /tmp/pwned* 2>/dev/null; true") == "" and sessions() == before
        assert sorted(host.ids()) == ["default", "evil"] and "aio_box" not in evil.run("cat /tmp/seen")
        # The same attempts work for a page of the host's own: the cookie is there, and it is enough.
        start(terminal, bases=[at("127.0.0.1")], tag="itself")
        read = finish(terminal)
        assert read.get("fetch application/json") and read.get("get") and read.get("socket"), read
    finally:
        context.close()
        host.end()


def test_a_preview_in_a_frame_of_another_site(world):
    """There its cookie would not be kept: a key becomes a ticket, and the page is shown."""
    page = world.context.new_page()
    page.goto(world.at("localhost") + "/health")
    page.evaluate("(src) => document.body.append(Object.assign(document.createElement('iframe'), { src }))",
                  f"{world.at('4000-evil.localhost')}/page.html?api_key={world.evil.token}")
    expect(page.frame_locator("iframe").locator("p")).to_have_text("a page")
    frame = page.frames[-1]
    assert "ticket=" in frame.url and world.evil.token not in frame.evaluate("location.href + document.referrer")
    page.close()


def origin(page):
    """None while there is another page to come."""
    try:
        return page.evaluate("self.origin")
    except sync_api.Error:
        return None


@pytest.mark.parametrize("prefix", ["", "/s/evil"])
def test_active_content_on_the_plain_address_has_no_origin(world, prefix):
    page = world.context.new_page()
    for kind in ("page.html", "image.svg", "page.xml", "sniffed", "bad.html"):
        answer = page.goto(f"{world.at('localhost')}{prefix}/proxy/4000/{kind}?ticket={world.ticket(world.evil)}")
        headers = answer.headers_array()
        values = lambda name: [h["value"] for h in headers if h["name"].lower() == name]
        assert values("x-content-type-options") == ["nosniff"]
        assert not values("set-cookie") and not values("nel") and not values("report-to")
        assert page.evaluate("self.origin") == "null", kind
        if kind in ("image.svg", "page.xml"):
            assert page.evaluate("document.documentElement.getAttribute('ran')") == "null"
        else:  # what is not said to be HTML is none
            assert page.evaluate("document.title") == ("app" if kind == "page.html" else "")
    with page.expect_popup() as popup:  # a window of its own has none, either
        page.evaluate("() => { self.other = window.open('/terminal'); }")
    assert eventually(lambda: origin(popup.value) == "null" and popup.value.url not in ("", "about:blank")), popup.value.url
    popup.value.close()
    with page.expect_download():
        page.evaluate("(url) => { location = url }", f"{prefix}/v1/file/download?path=/home/gem/secret.js&ticket={world.ticket(world.evil)}")
    page.close()


def test_a_foreign_name_for_this_address(world):
    """DNS rebinding: the page's name was another address's a moment ago."""
    page = world.context.new_page()
    at = world.at("rebound.example")
    page.route(at + "/evil.html", lambda route: route.fulfill(content_type="text/html", body="<p>evil"))
    page.goto(at + "/evil.html")
    got = page.evaluate(r"""async () => {
        const got = {}, ask = async (path, how) => { got[path] = (await fetch(path, how)).status; };
        for (const path of ['/', '/terminal', '/v1/docs', '/v1/sandbox', '/s/default/v1/sandbox', '/proxy/4000/page.html', '/health']) await ask(path);
        for (const path of ['/s/victim/v1/sandbox', '/v1/sandboxes', '/v1/sandboxes/victim/events']) await ask(path);
        await ask('/v1/bash/exec', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"command":"touch /tmp/pwned"}' });
        await ask('/v1/bash/sessions', { headers: { 'x-aio-sandbox': 'default' } });
        got.socket = await new Promise((done) => {
            const s = new WebSocket('/v1/shell/ws');
            s.onopen = () => done('open');
            s.onerror = () => done('refused');
        });
        return got;
    }""")
    page.close()
    refused = {path for path, status in got.items() if status in (401, 403, "refused")}
    assert set(got) - refused == set(), got
    assert world.harm() == UNHARMED


# --- what people open ---------------------------------------------------------------------------


class Visit:
    """One page that somebody opens, in a browser that knows nothing yet."""

    def __init__(self, world, url, scheme):
        self.context = new_context(world.context.browser, scheme)
        self.page = self.context.new_page()
        self.trouble = []
        self.page.on("console", lambda m: m.type in ("error", "warning") and self.trouble.append(m.text))
        self.page.on("pageerror", lambda e: self.trouble.append(str(e)))
        self.page.goto(url)

    def end(self, name):
        screenshot(self.page, f"host-{name}")
        assert self.trouble == []
        self.context.close()


@pytest.mark.parametrize("address,home,scheme", [
    ("localhost/terminal", "localhost", "light"),
    ("127.0.0.1/s/victim/terminal?ticket=", "victim.localhost", "dark"),
])
def test_terminals_work_wherever_they_are_opened(world, address, home, scheme):
    visit = Visit(world, world.at(address) + (world.ticket(world.victim) if "=" in address else ""), scheme)
    connected(visit.page)
    assert visit.page.url.startswith(world.at(home) + "/terminal?")
    visit.page.keyboard.type("echo at-$(hostname)\n")
    expect(visit.page.locator(".xterm-rows")).to_contain_text(
        "at-victim" if "victim" in home else "at-default")
    visit.end(f"terminal-{home}")


def test_the_api_explorer_of_a_box(world):
    visit = Visit(world, f"{world.at('localhost/s/victim')}?ticket={world.ticket(world.victim)}", "dark")
    visit.page.locator(".opblock").first.wait_for()
    assert visit.page.url.startswith(world.at("victim.localhost") + "/v1/docs")
    visit.end("docs-of-a-box")


def test_who_has_no_key_is_asked_for_it(world):
    visit = Visit(world, world.at(f"victim.{DOMAIN}") + "/terminal", "light")
    field = visit.page.locator("input")
    for scheme in ("light", "dark"):
        visit.page.emulate_media(color_scheme=scheme)
        field.fill("wrong")
        screenshot(visit.page, f"host-key-{scheme}")
        visit.page.keyboard.press("Enter")
        expect(field).to_have_value("")
    expect(field).to_be_focused()  # whoever types does not have to look for it
    assert eventually(lambda: visit.page.title() and len(visit.trouble) == 3), visit.trouble
    assert all("401" in line for line in visit.trouble)
    visit.trouble.clear()
    visit.page.keyboard.type(world.victim.token + "\n")
    connected(visit.page)
    visit.page.goto(world.at(f"victim.{DOMAIN}") + "/terminal")  # from now on without
    connected(visit.page)
    visit.end("terminal-with-key")


def test_the_terminals_address_is_the_boxs(world):
    """However the box was reached that was asked for it."""
    url = world.victim.request("GET", "/v1/shell/terminal-url").json()["data"]
    assert re.fullmatch(rf"{re.escape(world.host.url)}/s/victim/terminal\?session_id=\S+", url)
    get = lambda url, **headers: world.host.client.get(url, headers={"Accept": "text/html", **headers})
    query = urlsplit(url).query
    assert get(url).headers["location"] == f"//victim.localhost:{world.port}/terminal?{query}"
    assert get("/s/victim", Host="192.0.2.1").headers["location"] == f"//victim.{DOMAIN}/"
    # Programs are not led elsewhere, and are told in JSON.
    program = {"Accept": "*/*", "Authorization": f"Bearer {world.victim.token}"}
    assert get("/s/victim/terminal", **program).status_code == 200
    assert get("/v1/sandbox", Host="victim.localhost", Accept="*/*").json()["detail"]
