"""Keys, tokens and tickets: once one is configured, nothing but /health goes without."""

import base64
import json
import re
import time
from urllib.parse import quote, quote_plus

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from websockets.exceptions import InvalidStatus

from harness import connect, eventually, request

KEY = "a+b/c=d e%f&g"  # whatever a URL has to escape
TOKEN = "second-key"
BAD = {"Authorization": "Bearer wrong"}


def public_key(private):
    pem = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return pem, base64.b64encode(pem).decode()


PRIVATE = {
    "RS256": rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
}


def make(algorithm="RS256", private=None, **claims):
    claims.setdefault("exp", int(time.time()) + 600)
    return jwt.encode({k: v for k, v in claims.items() if v is not None}, private or PRIVATE[algorithm], algorithm)


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture(scope="module")
def guarded(start_shared):
    """The fixture's routes behind a key and a second key."""
    return start_shared(env={"SANDBOX_API_KEY": KEY, "AUTH_TOKEN": TOKEN}, program="fixture")


@pytest.fixture(scope="module")
def product(start_shared):
    return start_shared(env={"SANDBOX_API_KEY": KEY})


@pytest.fixture(scope="module", params=list(PRIVATE))
def signed(request, start_shared):
    """A server that takes tokens of one algorithm, whose name is .algorithm."""
    server = start_shared(env={"JWT_PUBLIC_KEY": public_key(PRIVATE[request.param])[1]}, program="fixture")
    server.algorithm = request.param
    return server


@pytest.fixture(scope="module")
def both(start_shared):
    env = {"JWT_PUBLIC_KEY": public_key(PRIVATE["RS256"])[1], "SANDBOX_API_KEY": KEY, "TICKET_TTL_SECONDS": "1"}
    return start_shared(env=env, program="fixture")


def status(server, target="/place/x", headers=(), method="GET"):
    return server.request(method, target, headers=dict(headers)).status_code


# --- nothing is open ---------------------------------------------------------------------------


def operations(server):
    document = server.get("/openapi.json", headers=bearer(KEY)).json()
    return [
        (method.upper(), path.replace("{", "").replace("}", ""), operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method in ("get", "put", "post", "delete", "patch", "head", "options")
    ]


OPEN = {("GET", "/health")}
CHECK = ("GET", "/auth")  # which says the same itself


@pytest.mark.parametrize("which", ["guarded", "product"])
def test_every_operation_needs_a_credential(which, request):
    server = request.getfixturevalue(which)
    found = operations(server)
    assert len(found) >= 5 and OPEN <= {(m, p) for m, p, _ in found}
    for method, path, operation in found:
        for headers in ({}, BAD, {"X-AIO-API-Key": "wrong"}):
            answer = server.request(method, path, headers=headers)
            if (method, path) in OPEN:
                assert answer.status_code == 200 and operation["security"] == []
                continue
            assert answer.status_code == 401, (method, path)
            if (method, path) != CHECK:
                assert set(answer.json()) == {"detail"}
                assert answer.headers["www-authenticate"].startswith("Bearer")
                assert "401" in operation["responses"]
        assert server.request(method, path + "?api_key=wrong").status_code in (401, 200)


@pytest.mark.parametrize("method, target", [
    ("GET", "/"), ("GET", "/nothing"), ("POST", "/nothing"), ("GET", "/static/web/docs/index.html"), ("GET", "/v1/docs"),
    ("GET", "/favicon.ico"), ("GET", "/index.html"), ("OPTIONS", "/echo"), ("POST", "/health"), ("DELETE", "/health"),
    ("GET", "/health/"), ("GET", "//health"), ("GET", "/health/../openapi.json"), ("GET", "/Health"), ("PUT", "/tickets"),
    ("GET", "/metrics"), ("HEAD", "/openapi.json"), ("GET", "/static/"), ("GET", "/health%2f..%2fopenapi.json"),
    ("GET", "/openapi.json?x=/health"), ("GET", "/openapi.json#/health"), ("GET", "http://localhost/openapi.json"),
    ("GET", "/openapi.json;/health"), ("POST", "/auth"), ("GET", "/auth/x"),
])
def test_whatever_else_is_asked(guarded, product, method, target):
    """A caller without credentials does not even learn which paths there are."""
    for server in (guarded, product):
        with server.connect() as peer:
            answer = peer.ask(request(target, method))
            assert answer.status in (401, 400), (target, answer)
            assert answer.status == 401 or "#" in target


@pytest.mark.parametrize("path", ["/ws/echo", "/ws/relay?url=ws://localhost/", "/ws/flood", "/ws/nothing"])
def test_websockets_need_a_credential(guarded, path):
    for headers in ({}, BAD):
        with pytest.raises(InvalidStatus) as refused, \
                connect(f"ws://{guarded.host}:{guarded.port}{path}", additional_headers=headers):
            pass
        assert refused.value.response.status_code == 401


def test_head_of_health_is_open(guarded):
    assert status(guarded, "/health", method="HEAD") == 200


def test_refused_connection_goes_on(guarded):
    """A 401 is an answer like any other."""
    with guarded.connect() as peer:
        assert peer.ask(request("/place/x")).status == 401
        assert peer.ask(request("/echo", "POST", {"Content-Type": "application/json"}, b'{"text":"t"}')).status == 401
        assert peer.ask(request("/place/x", headers=bearer(KEY))).status == 200
        assert peer.ask(request("/place/x")).status == 401, "nothing is remembered"


# --- keys --------------------------------------------------------------------------------------


def ways(key):
    return [
        ("/place/x", {"X-AIO-API-Key": key}),
        ("/place/x", {"x-aio-api-key": key}),
        ("/place/x", {"Authorization": f"Bearer {key}"}),
        ("/place/x", {"authorization": f"bearer {key}"}),
        ("/place/x", {"Authorization": f"BEARER   {key}"}),
        (f"/place/x?api_key={quote(key, safe='')}", {}),
        (f"/place/x?q=1&api_key={quote_plus(key)}&limit=5", {}),
    ]


@pytest.mark.parametrize("key", [KEY, TOKEN])
@pytest.mark.parametrize("number", range(7))
def test_each_way_to_give_a_key(guarded, key, number):
    target, headers = ways(key)[number]
    with guarded.connect() as peer:
        assert peer.ask(request(target, headers=headers)).status == 200


@pytest.mark.parametrize("key", ["", " ", "x", KEY[:-1], KEY + "x", KEY.upper(), KEY.replace("+", " "), KEY + " " + KEY,
                                 KEY + "," + TOKEN, "null", "undefined", "x" * 10000, KEY + "\\0"])
@pytest.mark.parametrize("number", range(6))
def test_wrong_key(guarded, key, number):
    target, headers = ways(key)[number]
    if number == 5 and key == KEY.replace("+", " "):
        return  # an unescaped plus means the same
    with guarded.connect() as peer:
        assert peer.ask(request(target, headers=headers)).status == 401


@pytest.mark.parametrize("headers", [
    {"Authorization": KEY}, {"Authorization": f"Basic {KEY}"}, {"Authorization": "Bearer"}, {"Authorization": "Bearer "},
    {"Authorization": f"Bearer{KEY}"}, {"Authorization": f"Token {KEY}"}, {"X-API-Key": KEY}, {"Cookie": f"api_key={KEY}"},
    {"Authorization": "Basic " + base64.b64encode(f"user:{KEY}".encode()).decode()},
])
def test_key_in_the_wrong_place(guarded, headers):
    with guarded.connect() as peer:
        assert peer.ask(request("/place/x", headers=headers)).status == 401


def test_one_good_credential_is_enough(guarded):
    """A proxy's Authorization may be meant for something else."""
    assert status(guarded, headers={**BAD, "X-AIO-API-Key": KEY}) == 200
    assert status(guarded, f"/place/x?api_key={TOKEN}", {**BAD, "X-AIO-API-Key": "wrong"}) == 200
    assert status(guarded, f"/place/x?api_key=wrong&api_key={TOKEN}") == 200


def test_query_of_a_websocket(guarded):
    with connect(f"ws://{guarded.host}:{guarded.port}/ws/echo?api_key={TOKEN}") as ws:
        ws.send("x")
        assert ws.recv(timeout=30) == "x"


def test_key_is_not_told(guarded):
    text = guarded.get("/openapi.json", headers=bearer(KEY)).text + guarded.get("/metrics", headers=bearer(KEY)).text
    assert KEY not in text and TOKEN not in text


def test_key_with_a_line_feed(start_server):
    """As from a file."""
    server = start_server(env={"SANDBOX_API_KEY": "from-file\n"}, program="fixture")
    assert status(server, headers=bearer("from-file")) == 200


def test_no_key(fixture_server):
    """Nothing configured: everything is open, whatever is sent."""
    assert status(fixture_server) == 200
    assert status(fixture_server, headers=BAD) == 200
    assert status(fixture_server, "/place/x?ticket=nonsense") == 200


# --- JSON Web Tokens ---------------------------------------------------------------------------


def test_token(signed):
    assert status(signed, headers=bearer(make(signed.algorithm))) == 200
    assert status(signed, headers=bearer(make(signed.algorithm, sub="me", nbf=int(time.time()) - 10, extra=[1, {}]))) == 200
    assert status(signed) == 401


def test_token_of_another_key(signed):
    other = {"RS256": lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048),
             "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
             "EdDSA": ed25519.Ed25519PrivateKey.generate}[signed.algorithm]()
    assert status(signed, headers=bearer(make(signed.algorithm, other))) == 401


def test_token_of_another_algorithm(signed):
    for algorithm in PRIVATE:
        if algorithm != signed.algorithm:
            assert status(signed, headers=bearer(make(algorithm))) == 401
    assert status(signed, headers=bearer(make("RS512", PRIVATE["RS256"]))) == 401
    assert status(signed, headers=bearer(make("PS256", PRIVATE["RS256"]))) == 401


@pytest.mark.parametrize("claims", [
    {"exp": 1}, {"exp": int(time.time()) - 1}, {"nbf": int(time.time()) + 86400}, {"iat": int(time.time()) + 86400},
    {"exp": -1}, {"exp": 0},
])
def test_token_out_of_its_time(signed, claims):
    answer = signed.get("/place/x", headers=bearer(make(signed.algorithm, **claims)))
    assert answer.status_code == 401


def test_token_expires(signed):
    token = make(signed.algorithm, exp=int(time.time()) + 1)
    assert status(signed, headers=bearer(token)) in (200, 401)
    assert eventually(lambda: status(signed, headers=bearer(token)) == 401, pause=0.1)


def part(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def test_forged_tokens(signed):
    claims = {"exp": int(time.time()) + 600}
    head, body, signature = make(signed.algorithm).split(".")
    pem = public_key(PRIVATE[signed.algorithm])[0]
    import hashlib
    import hmac

    signed_with_public_key = part({"alg": "HS256", "typ": "JWT"}) + "." + part(claims)
    mac = hmac.new(pem, signed_with_public_key.encode(), hashlib.sha256).digest()
    forged = [
        part({"alg": "none"}) + "." + part(claims) + ".",
        part({"alg": "None"}) + "." + part(claims) + ".",
        part({"alg": "none"}) + "." + part(claims) + "." + signature,
        part({"alg": ""}) + "." + part(claims) + "." + signature,
        part({}) + "." + part(claims) + "." + signature,
        signed_with_public_key + "." + base64.urlsafe_b64encode(mac).rstrip(b"=").decode(),
        f"{head}.{part(claims | {'sub': 'admin'})}.{signature}",
        f"{head}.{body}.", f"{head}.{body}", f"{head}..{signature}", f".{body}.{signature}", "..", "a.b.c",
        f"{head}.{body}.{signature[:-4]}", f"{head}.{body}.{signature}AAAA", f"{head}.{body}.{signature}.",
        f"{head}.{body}.{signature}.{signature}", f"{head}.{body}." + "A" * len(signature),
        part({"alg": signed.algorithm, "crit": ["b64"], "b64": False}) + f".{body}.{signature}",
        part({"alg": signed.algorithm, "jwk": {}}) + f".{body}.{signature}",
    ]
    for token in forged:
        assert status(signed, headers=bearer(token)) == 401, token


def test_token_is_for_a_header(signed):
    token = make(signed.algorithm)
    assert status(signed, f"/place/x?api_key={token}") == 401
    assert status(signed, headers={"X-AIO-API-Key": token}) == 401


def test_token_of_a_websocket(signed):
    url = f"ws://{signed.host}:{signed.port}/ws/echo"
    with connect(url, additional_headers=bearer(make(signed.algorithm))) as ws:
        ws.send("x")
        assert ws.recv(timeout=30) == "x"
    with pytest.raises(InvalidStatus), connect(url, additional_headers=bearer(make(signed.algorithm, exp=1))):
        pass


def test_key_and_token_side_by_side(both):
    assert status(both, headers=bearer(KEY)) == 200
    assert status(both, headers=bearer(make())) == 200
    assert status(both, headers=bearer(make(exp=1))) == 401


@pytest.mark.parametrize("shape", ["base64", "wrapped", "pem"])
def test_shapes_of_a_public_key(start_server, shape):
    pem, coded = public_key(PRIVATE["ES256"])
    text = {"base64": coded, "wrapped": base64.encodebytes(pem).decode(), "pem": pem.decode()}[shape]
    server = start_server(env={"JWT_PUBLIC_KEY": text}, program="fixture")
    assert status(server, headers=bearer(make("ES256"))) == 200


# --- tickets -----------------------------------------------------------------------------------


def ticket(server, headers):
    answer = server.post("/tickets", headers=headers)
    assert answer.status_code == 200 and set(answer.json()) == {"ticket", "expires_in"}
    return answer.json()["ticket"]


def test_ticket(guarded):
    answer = guarded.post("/tickets", headers=bearer(KEY)).json()
    assert answer["expires_in"] == 30
    for _ in range(3):
        assert status(guarded, f"/place/x?ticket={answer['ticket']}") == 200, "as often as one likes"
    assert ticket(guarded, bearer(KEY)) != answer["ticket"]


def test_ticket_of_a_token(signed):
    assert status(signed, f"/place/x?ticket={ticket(signed, bearer(make(signed.algorithm)))}") == 200


def test_ticket_opens_a_websocket(guarded):
    url = f"ws://{guarded.host}:{guarded.port}/ws/echo?ticket="
    with connect(url + ticket(guarded, bearer(TOKEN))) as ws:
        ws.send("x")
        assert ws.recv(timeout=30) == "x"
    with pytest.raises(InvalidStatus) as refused, connect(url + "wrong"):
        pass
    assert refused.value.response.status_code == 401


def test_ticket_makes_no_tickets(guarded):
    """Else one would last for ever."""
    one = ticket(guarded, bearer(KEY))
    answer = guarded.post(f"/tickets?ticket={one}")
    assert answer.status_code == 401 and "ticket" in answer.json()["detail"]
    assert guarded.post(f"/tickets?ticket={one}", headers=bearer(KEY)).status_code == 200
    assert guarded.post("/tickets").status_code == 401


def test_ticket_expires(both):
    """Its life is a second here."""
    made = time.monotonic()
    one = ticket(both, bearer(KEY))
    first = status(both, f"/place/x?ticket={one}")
    assert first == 200 or time.monotonic() - made > 0.9
    assert eventually(lambda: status(both, f"/place/x?ticket={one}") == 401, pause=0.05)
    assert time.monotonic() - made > 0.9


def test_forged_tickets(guarded, product):
    one = ticket(guarded, bearer(KEY))
    swapped = one[:-1] + ("A" if one[-1] != "A" else "B")
    for wrong in ("", "x", one[:-1], one + "A", one[1:], swapped, "A" * len(one), "A" * 10000, one.swapcase(), KEY,
                  ticket(product, bearer(KEY))):
        assert status(guarded, f"/place/x?ticket={wrong}") == 401, wrong
    later = base64.urlsafe_b64decode(one + "=" * (-len(one) % 4))
    for at in range(0, len(later), 5):
        changed = later[:at] + bytes([later[at] ^ 1]) + later[at + 1 :]
        wrong = base64.urlsafe_b64encode(changed).rstrip(b"=").decode()
        assert status(guarded, f"/place/x?ticket={wrong}") == 401


def test_ticket_is_for_the_query(guarded):
    one = ticket(guarded, bearer(KEY))
    assert status(guarded, headers=bearer(one)) == 401
    assert status(guarded, headers={"X-AIO-API-Key": one}) == 401
    assert status(guarded, f"/place/x?api_key={one}") == 401


def test_ticket_of_the_last_run(start_server):
    """The key of tickets is born with the process."""
    env = {"SANDBOX_API_KEY": KEY}
    old = start_server(env=env, program="fixture")
    one = ticket(old, bearer(KEY))
    assert status(start_server(env=env, program="fixture"), f"/place/x?ticket={one}") == 401


# --- the check of a gateway --------------------------------------------------------------------


def test_check(guarded, product):
    from urllib.parse import quote

    for server in (guarded, product):
        one = ticket(server, bearer(KEY))
        good = [bearer(KEY), {"X-AIO-API-Key": KEY}, {"X-Original-URI": f"/any/page?ticket={one}"},
                {"X-Original-URI": f"/any/page?a=b&api_key={quote(KEY, safe='')}"},
                {"X-Original-URI": f"https://host/page?ticket={one}&x=y"}]
        for headers in good:
            answer = server.get("/auth", headers=headers)
            assert answer.status_code == 200 and all(isinstance(v, str) for v in answer.json().values())
        for headers in ({}, BAD, {"X-Original-URI": "/any/page"}, {"X-Original-URI": "/any?ticket=wrong"},
                        {"X-Original-URI": f"/any/ticket={one}"}, {"X-Original-URI": ""}):
            assert server.get("/auth", headers=headers).status_code == 401


def test_check_of_a_token(signed):
    assert signed.get("/auth", headers=bearer(make(signed.algorithm))).status_code == 200
    assert signed.get("/auth", headers=bearer(make(signed.algorithm, exp=1))).status_code == 401


def test_check_without_authentication(fixture_server):
    assert fixture_server.get("/auth").status_code == 200


# --- browsers ----------------------------------------------------------------------------------

HTML = "text/html,application/xhtml+xml,*/*;q=0.8"
OPENED = {"Accept": HTML, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "none"}
FETCHED = {"Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty", "Sec-Fetch-Site": "same-origin"}
FOREIGN = {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image", "Sec-Fetch-Site": "cross-site"}


def cookie_of(server, query=None, target="/place/x", how=OPENED):
    answer = server.get(f"{target}?{query or 'api_key=' + quote(KEY, safe='')}", headers=how)
    server.client.cookies.clear()  # what is sent is what a test says
    assert answer.status_code == 303
    return {"Cookie": answer.headers["set-cookie"].partition(";")[0]}


@pytest.mark.parametrize("how", [OPENED, {"Accept": HTML}], ids=["told", "guessed"])
def test_an_address_that_is_opened_loses_its_credential(guarded, how):
    passing = ticket(guarded, bearer(KEY))
    for credential in (f"api_key={quote(KEY, safe='')}", f"%61pi_key={TOKEN}", f"ticket={passing}"):
        answer = guarded.get(f"/place/x?q=1&{credential}&limit=5", headers=how)
        guarded.client.cookies.clear()
        assert answer.status_code == 303
        assert answer.headers["location"] == f"//{guarded.host}:{guarded.port}/place/x?q=1&limit=5"
        assert answer.headers["referrer-policy"] == "no-referrer" and answer.headers["cache-control"] == "no-store"
        kept, *limits = answer.headers["set-cookie"].split("; ")
        assert kept.startswith(f"aio_box_{guarded.port}=") and KEY not in kept and TOKEN not in kept
        assert {"HttpOnly", "SameSite=Lax", "Path=/"} < set(limits)
        assert status(guarded, "/place/x?q=1&limit=5", {**how, "Cookie": kept}) == 200
    # A wrong one goes, too, and gets nothing.
    answer = guarded.get("/place/x?api_key=wrong", headers={**how, "X-AIO-API-Key": KEY})
    assert answer.status_code == 303 and "set-cookie" not in answer.headers
    for path in ("//evil.example/", "/%5cevil.example/"):
        with guarded.connect() as peer:  # (httpx would take it for another server)
            got = peer.ask(request(f"{path}?api_key={TOKEN}", headers=how, host=f"{guarded.host}:{guarded.port}"))
        assert got["location"] == f"//{guarded.host}:{guarded.port}{path}"


@pytest.mark.parametrize("how", [FETCHED, {"Accept": "*/*"}, {}, {"Accept": "application/json"}])
def test_programs_are_not_led_elsewhere(guarded, how):
    for method in ("GET", "HEAD"):
        assert status(guarded, f"/place/x?api_key={TOKEN}", how, method) == 200
    assert guarded.post(f"/echo?api_key={TOKEN}", json={}, headers={**OPENED, **how}).status_code != 303


def test_a_frame_of_another_site_gets_a_ticket(guarded):
    """Browsers keep no cookie there."""
    framed = {**OPENED, "Sec-Fetch-Dest": "iframe", "Sec-Fetch-Site": "cross-site"}
    answer = guarded.get(f"/place/x?api_key={TOKEN}", headers=framed)
    assert answer.status_code == 303 and "set-cookie" not in answer.headers
    where = answer.headers["location"]
    assert TOKEN not in where and where.startswith(f"//{guarded.host}:{guarded.port}/place/x?ticket=")
    assert status(guarded, where.partition(str(guarded.port))[2], framed) == 200


def test_a_cookie_is_for_pages_of_this_server(guarded):
    cookie, own = cookie_of(guarded), {"Origin": guarded.url}
    for headers in (FETCHED, OPENED, own, {**FETCHED, "Referer": guarded.url + "/page"}, {}):
        assert status(guarded, "/place/x", {**cookie, **headers}) == 200, headers
    assert status(guarded, "/place/x", {**cookie, **OPENED, "Sec-Fetch-Site": "cross-site"}) == 200  # a link
    other = f"http://{guarded.host}:{guarded.port + 1}"
    for headers in (FOREIGN, {**FOREIGN, "Sec-Fetch-Site": "same-site"}, {"Origin": other}, {"Referer": other + "/"},
                    {**FETCHED, "Sec-Fetch-Site": "same-site", "Origin": other}, {"Origin": "null"},
                    {**OPENED, "Sec-Fetch-Dest": "iframe", "Sec-Fetch-Site": "cross-site"}):
        assert status(guarded, "/place/x", {**cookie, **headers}) == 401, headers
    assert status(guarded, "/echo", {**cookie, "Origin": other}, "POST") == 403
    assert eventually(lambda: status(guarded, "/place/x", bearer(KEY)) == 200)


def test_a_cookie_opens_a_websocket_for_its_own_page(guarded):
    cookie, url = cookie_of(guarded), f"ws://{guarded.host}:{guarded.port}/ws/echo"
    with connect(url, origin=guarded.url, additional_headers=cookie) as ws:
        ws.send("hello")
        assert ws.recv() == "hello"
    for origin in (f"http://{guarded.host}:1", "https://evil.example"):
        with pytest.raises(InvalidStatus) as refused:
            connect(url, origin=origin, additional_headers=cookie)
        assert refused.value.response.status_code in (401, 403)


def test_cookies_and_tickets_are_not_each_other(guarded, product):
    cookie, passing = cookie_of(guarded)["Cookie"], ticket(guarded, bearer(KEY))
    name, _, value = cookie.partition("=")
    assert status(guarded, f"/place/x?ticket={value}") == 401
    assert status(guarded, "/place/x", {"Cookie": f"{name}={passing}"}) == 401
    assert status(guarded, "/place/x", {"Cookie": f"a=b; {name}=forged; {cookie}"}) == 200
    for wrong in (f"{name}={value[:-1]}", f"{name}={value}A", f"{name}=", f"aio_box={value}", f"x{cookie}"):
        assert status(guarded, "/place/x", {"Cookie": wrong}) == 401, wrong
    # It renews nothing, and is this server's alone.
    assert product.post("/tickets", headers=cookie_of(product, target="/v1/sandbox")).status_code == 401
    assert status(product, "/v1/sandbox", {"Cookie": f"aio_box_{product.port}={value}"}) == 401


def test_people_are_asked_for_a_key(product):
    page = product.get("/v1/docs?theme=%3Cb&ticket=old", headers=OPENED)
    assert page.status_code == 401 and page.headers["content-type"].startswith("text/html")
    assert "form-action 'self'" in page.headers["content-security-policy"]
    action = re.search('action="([^"]*)"', page.text).group(1)
    assert action.startswith("/.aio/sign-in?to=") and "old" not in action
    assert product.get("/nowhere", headers=OPENED).status_code == 401
    for how in (FETCHED, {}, {"Accept": "application/json"}):
        assert "detail" in product.get("/v1/docs", headers=how).json()

    form = {**OPENED, "Content-Type": "application/x-www-form-urlencoded", "Origin": product.url,
            "Sec-Fetch-Site": "same-origin"}
    sign_in = lambda key, to=action: product.post(to, content=f"api_key={quote(key, safe='')}", headers=form)
    wrong = sign_in("wrong")
    assert wrong.status_code == 303 and wrong.headers["location"] == "/v1/docs?theme=%3Cb"
    right = sign_in(KEY)
    assert right.status_code == 303 and right.headers["location"].startswith("/v1/docs?theme=%3Cb&ticket=")
    cookie = cookie_of(product, right.headers["location"].partition("?")[2], "/v1/docs")
    assert product.get("/v1/docs", headers={**OPENED, **cookie}).status_code == 200
    for elsewhere in ("//evil.example/", "https://evil.example/", "/\\evil.example", "", "x"):
        got = sign_in(KEY, f"/.aio/sign-in?to={quote(elsewhere, safe='')}")
        assert got.headers["location"].startswith("/?ticket=")
    assert product.post(action, content="", headers={**form, "Origin": "https://evil.example"}).status_code == 403
    assert product.post(action, content=b"a" * 65537, headers=form).status_code == 413
    assert product.post(action, content=(b"a" * 40000 for _ in range(2)), headers=form).status_code == 413
    assert product.get("/health").status_code == 200


def test_a_token_signs_in(signed):
    form = {**OPENED, "Content-Type": "application/x-www-form-urlencoded"}
    sign_in = lambda key: signed.post("/.aio/sign-in?to=/place/x", content=f"api_key={key}", headers=form).headers["location"]
    where = sign_in(make(signed.algorithm))
    assert where.startswith("/place/x?ticket=")
    assert status(signed, "/place/x", {**OPENED, **cookie_of(signed, where.partition("?")[2])}) == 200
    for wrong in (make(signed.algorithm, exp=int(time.time()) - 99), "", "x", f"&api_key={make(signed.algorithm)}"):
        assert sign_in(wrong) == "/place/x", wrong


def test_signing_in_at_the_name_of_a_program(product):
    """The form is the server's there, too: no program sees the key."""
    name = {"Host": f"1-localhost:{product.port}"}
    page = product.get("/x", headers={**OPENED, **name})
    assert page.status_code == 401 and 'action="/.aio/sign-in?to=' in page.text
    got = product.post("/.aio/sign-in?to=/x", content=f"api_key={quote(KEY, safe='')}",
                       headers={**OPENED, **name, "Content-Type": "application/x-www-form-urlencoded"})
    assert got.status_code == 303 and got.headers["location"].startswith("/x?ticket=")


def test_an_address_of_megabytes_is_asked_for_a_key(start_server):
    server = start_server(["--max-head", "4M"], env={"SANDBOX_API_KEY": KEY})
    path = "/" + "x" * (2 << 20)
    with server.connect(timeout=60) as peer:
        assert peer.ask(request(path, headers=OPENED)).status == 401
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    with server.connect(timeout=60) as peer:
        got = peer.ask(request(f"/.aio/sign-in?to={path}", "POST", form, b"api_key=" + quote(KEY, safe="").encode()))
        assert got.status == 303 and got["location"].startswith("/?ticket=")
    assert server.get("/health").status_code == 200
