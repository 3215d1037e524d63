"""Credentials: they stay out of addresses and out of boxes, and without one no box can be told from none."""

import base64
import json
import statistics
import time
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from harness import request
from hosts import FakeServer, Host, answer, folder
from processes import cpu_seconds

KEY, TOKEN = "the-operators-key", "the-operators+token"
HTML = "text/html,application/xhtml+xml,*/*;q=0.8"
OPENED = {"Accept": HTML, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "none"}
SAFARI = {**OPENED, "User-Agent": "Mozilla/5.0 (Macintosh) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.0 Safari/605.1.15"}
FRAMED = {**OPENED, "Sec-Fetch-Dest": "iframe", "Sec-Fetch-Site": "cross-site"}
FETCHED = {"Accept": HTML, "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty", "Sec-Fetch-Site": "same-origin"}
PREFLIGHT = {"Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "content-type"}
private = ed25519.Ed25519PrivateKey.generate()


def jwt(**claims):
    part = lambda value: base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")
    text = part({"alg": "EdDSA", "typ": "JWT"}) + b"." + part({"exp": time.time() + 600, **claims})
    return (text + b"." + base64.urlsafe_b64encode(private.sign(text)).rstrip(b"=")).decode()


@pytest.fixture(scope="module")
def host():
    """One whose default box has keys."""
    pem = private.public_key().public_bytes(serialization.Encoding.PEM,
                                            serialization.PublicFormat.SubjectPublicKeyInfo)
    host = Host(folder(), env={"SANDBOX_API_KEY": KEY, "AUTH_TOKEN": TOKEN,
                               "JWT_PUBLIC_KEY": base64.b64encode(pem).decode()})
    yield host
    host.end()


def serve(fake, conn):
    while fake.read_head(conn):
        conn.sendall(answer(b"from the box"))


@pytest.fixture
def fake(box):
    with FakeServer(box, serve) as fake:
        yield fake


def ask(host, target, headers=(), name="localhost", method="GET", **more):
    with host.connect() as peer:
        return peer.ask(request(target, method, dict(headers), host=f"{name}:{host.port}", **more))


def cookie_of(got):
    return next((value.split(";")[0] for name, value in got.headers
                 if name.lower() == "set-cookie" and value.startswith("aio_box=")), None)


def ticket_of(box):
    return box.request("POST", "/tickets").json()["ticket"]


# --- addresses -----------------------------------------------------------------------------------

@pytest.mark.parametrize("port", ["", "3000-"])
@pytest.mark.parametrize("way", ["api_key", "ticket", "%61pi_key"])
@pytest.mark.parametrize("how", [OPENED, {"Accept": HTML}], ids=["told", "guessed"])
def test_an_address_that_is_opened_loses_its_credential(host, box, fake, port, way, how):
    name = f"{port}{box.id}.localhost"
    value = ticket_of(box) if way == "ticket" else box.token
    fake.heads.clear()
    got = ask(host, f"/a/b?x=1&{way}={value}&y=%20", how, name)
    assert got.status == 303 and got["location"] == f"//{name}:{host.port}/a/b?x=1&y=%20"
    assert got["referrer-policy"] == "no-referrer" and fake.heads == []
    assert "HttpOnly" in got["set-cookie"]
    cookie = {"Cookie": cookie_of(got)}
    assert ask(host, "/a/b?x=1&y=%20", {**how, **cookie}, name).body == b"from the box"
    # With the cookie it is the same, and a credential that is wrong by now goes, too.
    for value in (box.token, "expired"):
        again = ask(host, f"/c?{way}={value}", {**how, **cookie}, name)
        assert again.status == 303 and again["location"] == f"//{name}:{host.port}/c"
    assert len(fake.heads) == 1


def test_the_way_back_is_the_same_host(host, box, fake):
    """A path that looks like the beginning of another address."""
    name = f"{box.id}.localhost"
    for path in ("//evil.example/", "/%5cevil.example/", "/\\evil.example/"):
        assert ask(host, f"{path}?api_key={box.token}", OPENED, name)["location"] == f"//{name}:{host.port}{path}"


@pytest.mark.parametrize("how", [
    FETCHED, {"Accept": "*/*"}, {}, {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image", "Sec-Fetch-Site": "same-origin"},
], ids=["fetch", "curl", "bare", "image"])
def test_programs_are_not_led_elsewhere(host, box, fake, how):
    name = f"3000-{box.id}.localhost"
    for method in ("GET", "POST", "PUT", "HEAD"):
        got = ask(host, f"/a?api_key={box.token}", how, name, method)
        assert got.status == 200
    assert ask(host, f"/s/{box.id}/a?api_key={box.token}", how).status == 200
    assert ask(host, f"/a?api_key={box.token}", OPENED, name, "POST").status == 200
    assert [head.split()[1] for head in fake.heads] == ["/a"] * 6
    socket = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
              "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
    for more in ({"Sec-Fetch-Mode": "websocket", "Sec-Fetch-Site": "same-origin"}, {"Accept": HTML}):
        assert ask(host, f"/ws?api_key={box.token}", {**socket, **more}, name).body == b"from the box"


@pytest.mark.parametrize("prefix, name, how", [("/s/{}", "localhost", OPENED), ("", "3000-{}.localhost", FRAMED)])
def test_where_no_cookie_holds_a_key_becomes_a_ticket(host, box, fake, prefix, name, how):
    """On the address that boxes share, and in a frame of another site."""
    prefix, name = prefix.format(box.id), name.format(box.id)
    got = ask(host, f"{prefix}/a?x=1&api_key={box.token}", how, name)
    assert got.status == 303 and got["referrer-policy"] == "no-referrer" and cookie_of(got) is None
    there = urlsplit(got["location"])
    query = parse_qs(there.query)
    assert there.netloc == f"{name}:{host.port}" and there.path == f"{prefix}/a"
    assert query["x"] == ["1"] and set(query) == {"x", "ticket"}
    assert ask(host, f"{there.path}?{there.query}", how, name).body == b"from the box"
    assert fake.heads[0].split()[1] == "/a?x=1"


@pytest.mark.parametrize("way", ["api_key", "ticket"])
@pytest.mark.parametrize("path, name, how", [
    ("/s/{}/proxy/3000/a", "localhost", SAFARI), ("/s/{}/absproxy/3000", "localhost", SAFARI),  # others are led to its name
    ("/a", "3000-{}.localhost", FRAMED), ("/proxy/3000/a", "{}.localhost", FRAMED),
])
def test_a_ticket_that_a_programs_page_sees_is_for_programs(host, box, fake, path, name, how, way):
    path, name, own = path.format(box.id), name.format(box.id), f"{box.id}.localhost"
    given = ticket_of(box) if way == "ticket" else box.token
    got = ask(host, f"{path}?{way}={given}", how, name)
    assert got.status == 303 and cookie_of(got) is None
    (ticket,) = parse_qs(urlsplit(got["location"]).query)["ticket"]
    assert ticket != given
    of_port, cookies = name.startswith("3000-"), []
    for again in (how, OPENED if of_port else SAFARI, FETCHED, {}):
        got = ask(host, f"{path}?ticket={ticket}", again, name)
        if of_port and again is OPENED:  # there alone it becomes a cookie, which is for programs, too
            assert got.status == 303 and "?" not in got["location"]
            cookies.append({"Cookie": cookie_of(got)})
        else:
            assert got.body == b"from the box" and cookie_of(got) is None, "let in, with no more than before"
        for target, where in (("/v1/docs", own), ("/v1/sandbox", own), ("/proxy", own), (f"/s/{box.id}/v1/x", "localhost"),
                              (f"/s/{box.id}/%70roxy/3000/", "localhost")):
            refused = ask(host, f"{target}?ticket={ticket}", again, where)
            assert refused.status == 401 and cookie_of(refused) is None
            for cookie in cookies:
                assert ask(host, target, {**again, **cookie}, where).status == 401
    for cookie in cookies:
        assert ask(host, path, {**OPENED, **cookie}, name).body == b"from the box"
        assert ask(host, f"/?ticket={cookie['Cookie'].partition('=')[2]}", {}, name).status == 401
    assert len(cookies) == of_port and all(ticket not in head for head in fake.heads)


@pytest.mark.parametrize("path", ["/terminal", "/v1/docs", "/v1/sandbox"])
def test_the_default_box_has_a_cookie_on_the_plain_address(host, path):
    """What is shown there is the host's own, or has no origin: whoever opens it may keep one."""
    for name in ("localhost", "127.0.0.1"):
        got = ask(host, f"{path}?x=1&api_key={KEY}", OPENED, name)
        assert got.status == 303 and got["location"] == f"//{name}:{host.port}{path}?x=1"
        assert got["referrer-policy"] == "no-referrer"
        kept, *limits = got["set-cookie"].split("; ")
        assert kept.startswith(f"aio_box_{host.port}=") and {"HttpOnly", "SameSite=Lax"} < set(limits)
        cookie = {"Cookie": kept}
        assert ask(host, path, {**OPENED, **cookie}, name).status in (200, 307)
        assert ask(host, path, OPENED, name).status == 401
        # Of pages of boxes below the same address, whose origin is none, and of other ports.
        for more in ({"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
                     {"Sec-Fetch-Site": "cross-site", "Referer": f"http://{name}:{host.port}/s/evil/"}):
            foreign = {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image", **more}
            assert ask(host, path, {**cookie, **foreign}, name).status == 401
        assert ask(host, "/v1/bash/exec", {**cookie, "Origin": "null"}, name, "POST", body=b"{}").status == 403
        assert ask(host, "/tickets", cookie, name, "POST").status == 401


def test_a_cookie_of_the_plain_address_is_the_default_boxs_alone(host, box, fake):
    got = ask(host, f"/v1/docs?api_key={KEY}", OPENED)
    cookie = {"Cookie": f"{got['set-cookie'].partition(';')[0]}; mine=1"}
    assert ask(host, f"/s/{box.id}/v1/sandbox", cookie).status == 401
    assert ask(host, "/v1/sandbox", {**cookie, "X-AIO-Sandbox": box.id}).status == 401
    assert ask(host, "/v1/sandboxes", cookie).status == 401
    own = ask(host, f"/a?api_key={box.token}", OPENED, f"{box.id}.localhost")
    value = cookie_of(own).partition("=")[2]
    assert ask(host, "/v1/sandbox", {"Cookie": f"aio_box_{host.port}={value}"}).status == 401
    # Nor does a box see it, or set it.
    assert ask(host, f"/s/{box.id}/a", {**cookie, "X-AIO-API-Key": box.token}).body == b"from the box"
    assert "aio_box" not in fake.heads[-1] and "mine=1" in fake.heads[-1]


def test_a_referer_tells_no_credential(host, box, fake):
    name, elsewhere = f"3000-{box.id}.localhost", f"http://x.localhost:{host.port}"
    ticket = ticket_of(box)
    for value, shown in (
            (f"http://{name}/p?api_key={box.token}&a=b", f"http://{name}/p?a=b"),
            (f"{elsewhere}/p?a=b&%74icket={ticket}", f"{elsewhere}/p?a=b"),
            (f"{elsewhere}/p?path={quote('ws?ticket=' + ticket, safe='')}", f"{elsewhere}/p"),
            (f"{elsewhere}/?key={box.token}&x", f"{elsewhere}/?x"),
            ("https://example.com/a?b=c", "https://example.com/a?b=c")):
        assert ask(host, "/", {"Referer": value, "X-AIO-API-Key": box.token}, name).status == 200
        rows = [row for row in fake.heads[-1].split("\r\n") if row.lower().startswith("referer")]
        assert rows == [f"Referer: {shown}"]
        assert box.token not in fake.heads[-1] and ticket not in fake.heads[-1]


# --- signing in ----------------------------------------------------------------------------------

def action_of(page):
    """Where the form leads, without where it leads back to."""
    text = page.decode()
    assert 'method="post"' in text
    return text.split('action="', 1)[1].split('"', 1)[0]


@pytest.mark.parametrize("prefix, name", [("", "{}.localhost"), ("", "3000-{}.localhost"), ("/s/{}", "localhost")])
def test_signing_in_is_a_post(host, box, fake, prefix, name):
    prefix, name = prefix.format(box.id), name.format(box.id)
    page = ask(host, f"{prefix}/v1/x?a=<b&c=\"d&ticket=old", OPENED, name)
    assert page.status == 401 and page["content-type"].startswith("text/html")
    action = action_of(page.body)
    form = {**OPENED, "Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://{name}:{host.port}",
            "Sec-Fetch-Site": "same-origin"}
    sign_in = lambda key, to=action: ask(host, to, form, name, "POST", body=f"api_key={quote(key, safe='')}".encode())
    wrong = sign_in("wrong")
    assert wrong.status == 303 and "ticket" not in wrong["location"]
    assert ask(host, wrong["location"], OPENED, name).status == 401
    right = sign_in(box.token)
    assert right.status == 303 and right["location"].startswith(f"{prefix}/v1/x?") and "&ticket=" in right["location"]
    assert box.token not in right["location"]
    assert right["referrer-policy"] == "no-referrer"
    home = ask(host, right["location"], OPENED, name)
    if not prefix:
        assert home.status == 303
        home = ask(host, urlsplit(home["location"])._replace(scheme="", netloc="").geturl(),
                   {**OPENED, "Cookie": cookie_of(home)}, name)
    assert home.body == b"from the box" and fake.heads[-1].split()[1] == "/v1/x?a=<b&c=\"d"
    for elsewhere in ("//evil.example/", "https://evil.example/", "/\\evil.example", "", "x", "/a\r\nX: y"):
        got = sign_in(box.token, f"{action.partition('?')[0]}?to={quote(elsewhere, safe='')}")
        assert got["location"].startswith(f"{prefix}/?ticket=")
    assert ask(host, action, {**form, "Origin": "https://evil.example"}, name, "POST", body=b"").status == 403


# --- what a preview receives ---------------------------------------------------------------------

def test_a_preview_receives_no_credential_of_this_host(host, box):
    other, open_box = host.create(), host.create(auth="none")
    secrets = {
        "another box's": other.token, "the host's": host.token, "the default box's key": KEY, "its other key": TOKEN,
        "a JWT for another": jwt(aud=other.id), "for nobody": jwt(), "for its own": jwt(aud=box.id),
        "of yesterday": jwt(exp=1), "of tomorrow": jwt(nbf=time.time() + 9999), "its own": box.token,
    }
    for target in (box, open_box):
        name = f"3000-{target.id}.localhost"
        with FakeServer(target, serve) as fake:
            for what, secret in secrets.items():
                coded = quote(secret, safe="")
                for target_path, headers in (
                        ("/", {"Authorization": f"Bearer {secret}"}), ("/", {"Authorization": f"  bearer   {secret}"}),
                        ("/", {"Authorization": f"Token {secret}"}), ("/", {"Authorization": secret}),
                        (f"/?api_key={coded}&x", {}), (f"/?k={secret}", {}), (f"/?k={coded}", {}),
                        ("/", {"Referer": f"http://x/?k={coded}"}), ("/", {"Cookie": f"a=1; b={secret}; c=2"}),
                        ("/", {"X-AIO-Token": secret, "Proxy-Authorization": secret})):
                    key = {"X-AIO-API-Key": box.token} if target is box else {}
                    assert ask(host, target_path, {**headers, **key}, name).status == 200
                    head = fake.heads[-1]
                    assert secret not in head and coded not in head, (what, head)
            two = (f"GET / HTTP/1.1\r\nHost: {name}\r\nX-AIO-API-Key: {box.token}\r\nAuthorization: Bearer mine\r\n"
                   f"Authorization: Bearer {other.token}\r\n\r\n")
            with host.connect() as peer:
                assert peer.ask(two.encode()).status == 200
            assert "Bearer mine" in fake.heads[-1] and other.token not in fake.heads[-1]
            # What is the application's own is passed on.
            own = {"Authorization": "Bearer eyJhbGciOiJub25lIn0.e30.c2ln", "Cookie": "a=1; b=2",
                   "Referer": "http://x/?key=1", **({"X-AIO-API-Key": box.token} if target is box else {})}
            assert ask(host, "/?token=abc&k=" + "x" * 32, own, name).status == 200
            for kept in ("/?token=abc&k=" + "x" * 32, own["Authorization"], "Cookie: a=1; b=2", "http://x/?key=1"):
                assert kept in fake.heads[-1]
    ticket = ticket_of(other)
    with FakeServer(open_box, serve) as fake:
        ask(host, f"/?ticket={ticket}&a", {"Cookie": f"aio_box={ticket}"}, f"3000-{open_box.id}.localhost")
        assert ticket not in fake.heads[-1] and fake.heads[-1].startswith("GET /?a ")
    other.delete()
    with FakeServer(open_box, serve) as fake:  # nobody takes it any more
        ask(host, "/", {"Authorization": f"Bearer {other.token}"}, f"3000-{open_box.id}.localhost")
        assert other.token in fake.heads[-1]


def test_many_that_look_like_tokens_are_not_all_looked_at(host):
    """Each signature takes the loop's time, which is other boxes' too. What is not looked at is not passed on."""
    box = host.create(auth="none")
    forged = lambda n: f"eyJhbGciOiJFZERTQSJ9.e30.{n:0>3}{'A' * 83}"
    query = "&".join(f"k{n}={forged(n)}" for n in range(400))
    with FakeServer(box, serve) as fake, host.connect() as peer:
        ask_once = lambda: peer.ask(request(f"/?{query}&own=www.example.com", host=f"3000-{box.id}.localhost:{host.port}"))
        assert ask_once().status == 200
        target = fake.heads[-1].split()[1]
        assert forged(0) in target and forged(399) not in target and target.endswith("&own=www.example.com")
        few = "/?" + "&".join(f"k{n}={forged(n)}" for n in range(8))
        assert ask(host, few, OPENED, f"3000-{box.id}.localhost").status == 200
        assert fake.heads[-1].split()[1] == few
        begin = cpu_seconds(host)
        for _ in range(20):
            assert ask_once().status == 200
        assert cpu_seconds(host) - begin < 0.4
    box.delete()


# --- which boxes there are -----------------------------------------------------------------------

WAYS = {"header": ("{path}", {"x-aio-sandbox": "{id}"}, "localhost"), "path": ("/s/{id}{path}", {}, "localhost"),
        "name": ("{path}", {}, "{id}.localhost"), "preview": ("{path}", {}, "3000-{id}.localhost")}
ASKED = {
    "nothing": ("GET", "/v1/sandbox", {}), "a file": ("GET", "/x", {}), "a command": ("POST", "/v1/bash/exec", {}),
    "health": ("GET", "/health", {}), "auth": ("GET", "/auth", {}), "ticket": ("POST", "/tickets", {}),
    "wrong key": ("GET", "/v1/sandbox", {"X-AIO-API-Key": "wrong"}),
    "wrong token": ("GET", "/v1/sandbox", {"Authorization": "Bearer wrong"}),
    "checked": ("GET", "/auth", {"Authorization": "Bearer wrong"}),
    "JWT for another": ("GET", "/v1/sandbox", {"Authorization": f"Bearer {jwt(aud='another')}"}),
    "JWT for nobody": ("GET", "/v1/sandbox", {"Authorization": f"Bearer {jwt()}"}),
    "old JWT": ("GET", "/v1/sandbox", {"Authorization": f"Bearer {jwt(exp=1)}"}),
    "query": ("GET", "/v1/sandbox?api_key=wrong", {}), "old ticket": ("GET", f"/x?ticket={'A' * 75}", {}),
    "opened": ("GET", "/terminal", OPENED), "opened page": ("GET", "/v1/sandbox", OPENED),
    "cookie": ("GET", "/x", {"Cookie": f"aio_box={'A' * 75}"}),
    "socket": ("GET", "/v1/shell/ws", {"Connection": "Upgrade", "Upgrade": "websocket"}),
    "preflight": ("OPTIONS", "/v1/sandbox", {"Origin": "https://example.com", **PREFLIGHT}),
    "sign in": ("POST", "/.aio/sign-in", {"Content-Type": "application/x-www-form-urlencoded"}),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("what", ASKED)
def test_without_credentials_no_box_is_told_from_none(host, box, way, what):
    def look(name):
        method, path, headers = ASKED[what]
        target, more, at = WAYS[way]
        more = {key: value.format(id=name) for key, value in more.items()}
        got = ask(host, target.format(path=path, id=name), {**headers, **more}, at.format(id=name), method)
        return got.status, [(key, value) for key, value in got.headers if key.lower() not in ("date", "x-request-id")], got.body

    absent = "z" + box.id[1:]  # as long
    assert absent not in host.ids()
    there = json.dumps(look(box.id), default=bytes.decode)
    assert there.replace(box.id, absent) == json.dumps(look(absent), default=bytes.decode)
    assert box.state == "running"


def test_a_refusal_takes_as_long_without_a_box(host, box):
    def seconds(name):
        with host.connect() as peer:
            times = []
            for _ in range(300):
                begin = time.perf_counter()
                assert peer.ask(request("/v1/sandbox", headers={"x-aio-sandbox": name, "X-AIO-API-Key": "wrong"})).status == 401
                times.append(time.perf_counter() - begin)
        return statistics.median(times)

    pairs = [(seconds(box.id), seconds("nobody")) for _ in range(5)]
    assert min(max(a, b) / min(a, b) for a, b in pairs) < 1.5, pairs


# --- preflights ----------------------------------------------------------------------------------

def test_no_preflight_reaches_a_box_without_credentials(host, box, fake):
    name = f"3000-{box.id}.localhost"
    same = f"http://{box.id}.localhost:{host.port}"
    for origin, status in (("https://example.com", 403), ("null", 403), (same, 204)):
        for body in (b"", b"a body"):
            headers = {"Origin": origin, **PREFLIGHT, **({"Content-Length": len(body)} if body else {})}
            for target, at in (("/", name), (f"/s/{box.id}/x", "localhost")):
                expected = status if at == name else 403
                got = ask(host, target, headers, at, "OPTIONS", body=body)
                assert got.status == expected and fake.heads == [], (origin, target)
                assert got["access-control-allow-origin"] == (origin if expected == 204 else None)
    got = ask(host, "/", {"Origin": same, **PREFLIGHT}, name, "OPTIONS")
    assert got["access-control-allow-headers"] == "content-type" and "PUT" in got["access-control-allow-methods"]
    assert got["access-control-allow-credentials"] == "true" and got["vary"] == "Origin"
    # With credentials it is a request like any other.
    got = ask(host, "/", {"Origin": "https://example.com", **PREFLIGHT, "X-AIO-API-Key": box.token}, name, "OPTIONS")
    assert got.body == b"from the box" and len(fake.heads) == 1
