"""Web pages that make a browser call this server: only its own, and those that were allowed, may."""

import pytest
from websockets.exceptions import InvalidStatus

from harness import connect, request

BODY = b'{"text":"hello"}'
JSON = {"Content-Type": "application/json"}
FRIEND = "https://app.example.com"


@pytest.fixture(scope="module")
def friendly(start_shared):
    """A server with other origins and a name of its own."""
    return start_shared(["--cors-origins", f"https://other.example, {FRIEND}", "--domain", "box.example.com"],
                        program="fixture")


@pytest.fixture(scope="module")
def guarded(start_shared):
    return start_shared(env={"SANDBOX_API_KEY": "key"}, program="fixture")


def ask(server, target="/echo", method="POST", host=None, body=BODY, **headers):
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    with server.connect() as peer:
        data = request(target, method, {**JSON, **headers}, body if method == "POST" else b"",
                       host=host or f"{server.host}:{server.port}")
        return peer.ask(data)


def foreign(server):
    return ["http://evil.example", "https://evil.example:443", "null", "http://localhost", "https://localhost",
            f"http://{server.host}:{server.port + 1}", f"http://{server.host}", f"http://localhost:{server.port}",
            f"http://evil.example/http://{server.host}:{server.port}", f"http://{server.host}:{server.port}.evil.example",
            f"http://evil@{server.host}:{server.port}", f"ftp://{server.host}:{server.port}", f"{server.host}:{server.port}",
            f"http://{server.host}:{server.port}/", "", "*", "file://", "chrome-extension://abcdef"]


# --- origins -----------------------------------------------------------------------------------


def test_own_origin(fixture_server):
    origin = f"http://{fixture_server.host}:{fixture_server.port}"
    answer = ask(fixture_server, Origin=origin)
    assert answer.status == 200
    assert answer["access-control-allow-origin"] == origin and answer["vary"] == "Origin"
    secure = origin.replace("http:", "https:")  # behind a proxy that ends TLS
    assert ask(fixture_server, Origin=secure).status == 200


def test_no_origin(fixture_server):
    answer = ask(fixture_server)
    assert answer.status == 200 and answer["access-control-allow-origin"] is None


@pytest.mark.parametrize("number", range(18))
@pytest.mark.parametrize("method, target", [("POST", "/echo"), ("DELETE", "/place/x"), ("POST", "/nothing"), ("PUT", "/echo")])
def test_foreign_origin_may_change_nothing(fixture_server, number, method, target):
    answer = ask(fixture_server, target, method, Origin=foreign(fixture_server)[number])
    assert answer.status == 403 and "--cors-origins" in answer.json()["detail"]
    assert answer["access-control-allow-origin"] is None


def test_foreign_origin_may_not_read(fixture_server):
    """A plain GET cannot be told from a picture on a page; the browser keeps its answer to itself."""
    answer = ask(fixture_server, "/place/x", "GET", Origin="http://evil.example")
    assert answer["access-control-allow-origin"] is None and answer["access-control-allow-credentials"] is None
    assert answer["vary"] == "Origin"


def test_error_can_be_read_by_own_pages(friendly):
    for target in ("/nothing", "/echo", "/fail?code=1003"):
        answer = ask(friendly, target, "GET", Origin=FRIEND)
        assert answer.status in (404, 405) and answer["access-control-allow-origin"] == FRIEND


# --- other origins that are allowed ------------------------------------------------------------


@pytest.mark.parametrize("origin", [FRIEND, "https://other.example", "HTTPS://APP.example.com"])
def test_allowed_origin(friendly, origin):
    answer = ask(friendly, Origin=origin)
    assert answer.status == 200
    assert answer["access-control-allow-origin"] == origin
    assert answer["access-control-allow-credentials"] == "true"
    assert answer["vary"] == "Origin"


@pytest.mark.parametrize("origin", [
    "http://app.example.com", "https://app.example.com:8443", "https://app.example.com.evil.example",
    "https://evil-app.example.com", "https://sub.app.example.com", "https://app.example.co", "https://other.example,",
    f"https://other.example, {FRIEND}", "https://other.example ",
])
def test_origin_that_only_looks_allowed(friendly, origin):
    assert ask(friendly, Origin=origin).status == (200 if origin.strip() == "https://other.example" else 403)


def test_all_origins(start_server):
    server = start_server(["--cors-origins", "*"], program="fixture")
    answer = ask(server, Origin="http://any.example")
    assert answer.status == 200 and answer["access-control-allow-origin"] == "http://any.example"


def preflight(server, origin, method="POST", headers=None, target="/echo"):
    more = {"Access-Control-Request-Headers": headers} if headers else {}
    return ask(server, target, "OPTIONS", Origin=origin, **{"Access-Control-Request-Method": method, **more})


def test_preflight(friendly):
    answer = preflight(friendly, FRIEND, "DELETE", "content-type, x-aio-api-key")
    assert answer.status == 204
    assert answer["access-control-allow-origin"] == FRIEND
    assert "DELETE" in answer["access-control-allow-methods"].split(", ")
    assert answer["access-control-allow-headers"] == "content-type, x-aio-api-key"
    assert int(answer["access-control-max-age"]) > 0
    assert answer["vary"] == "Origin"


def test_preflight_of_a_foreign_origin(friendly, fixture_server):
    for server in (friendly, fixture_server):
        answer = preflight(server, "https://evil.example")
        assert answer.status == 403 and answer["access-control-allow-origin"] is None


def test_preflight_needs_no_credentials(start_server):
    """A browser sends none."""
    server = start_server(["--cors-origins", FRIEND], env={"SANDBOX_API_KEY": "key"}, program="fixture")
    assert preflight(server, FRIEND).status == 204
    answer = ask(server, Origin=FRIEND)
    assert answer.status == 401 and answer["access-control-allow-origin"] == FRIEND


def test_preflight_for_a_great_many_headers(friendly):
    """What comes back is as long as what was asked."""
    names = ", ".join(f"x-{i:05}" for i in range(6000))
    answer = preflight(friendly, FRIEND, headers=names)
    assert answer.status == 204 and answer["access-control-allow-headers"] == names


# --- WebSockets --------------------------------------------------------------------------------


def open_ws(server, origin, host=None):
    url = f"ws://{server.host}:{server.port}/ws/echo"
    with connect(url, origin=origin, compression=None) as ws:
        ws.send("x")
        return ws.recv(timeout=30)


def test_websocket_of_own_origin(fixture_server):
    assert open_ws(fixture_server, f"http://{fixture_server.host}:{fixture_server.port}") == "x"
    assert open_ws(fixture_server, None) == "x"


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:1"])
def test_websocket_of_a_foreign_origin(fixture_server, origin):
    """Browsers do not ask before they open one."""
    with pytest.raises(InvalidStatus) as refused:
        open_ws(fixture_server, origin)
    assert refused.value.response.status_code == 403


def test_websocket_of_an_allowed_origin(friendly):
    assert open_ws(friendly, FRIEND) == "x"


def test_foreign_websocket_with_credentials(guarded):
    """A page could only have them if they were given to it; still it is not our page."""
    url = f"ws://{guarded.host}:{guarded.port}/ws/echo?api_key=key"
    with pytest.raises(InvalidStatus) as refused, connect(url, origin="http://evil.example"):
        pass
    assert refused.value.response.status_code == 403


# --- host names --------------------------------------------------------------------------------

OURS = ["localhost", "LOCALHOST", "localhost.", "127.0.0.1", "127.9.9.9", "[::1]", "10.1.2.3", "foo.localhost",
        "a.b.localhost", "5173-localhost", "8080-localhost"]
FOREIGN = ["evil.example", "localhost.evil.example", "evil-localhost", "evillocalhost", "127.0.0.1.evil.example",
           "127.0.0.1.nip.io", "x5173-localhost", "5173-evil-localhost", "-localhost", "localhost.localdomain",
           "localhost evil.example", "localhost,evil.example", "localhost/evil", "evil.example#localhost", "evil.example@localhost",
           "2130706433", "0x7f000001", "127.1", "[::1].evil.example", "[evil]", "localhost:80:80", "localhost:x", "box.example.com"]


@pytest.mark.parametrize("host", OURS)
@pytest.mark.parametrize("port", ["", ":80", ":PORT"])
def test_own_host_name(fixture_server, host, port):
    host += port.replace("PORT", str(fixture_server.port))
    assert ask(fixture_server, host=host).status == (502 if "-localhost" in host else 200)  # a preview of nothing


@pytest.mark.parametrize("host", FOREIGN)
@pytest.mark.parametrize("method, target", [("POST", "/echo"), ("GET", "/place/x"), ("GET", "/health"), ("OPTIONS", "/echo")])
def test_foreign_host_name(fixture_server, host, method, target):
    """DNS rebinding: the page's own name leads to us, and its origin would be ours."""
    answer = ask(fixture_server, target, method, host=host, Origin=f"http://{host}")
    assert answer.status in (400, 403), "before anything else is said"
    assert ask(fixture_server, target, method, host=host).status in (400, 403)


def test_foreign_host_name_of_a_websocket(fixture_server):
    with fixture_server.connect() as peer:
        answer = peer.ask(request("/ws/echo", host="evil.example", headers={
            "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Origin": "http://evil.example"}))
        assert answer.status == 403


def test_host_of_an_absolute_target_does_not_hide_the_header(fixture_server):
    with fixture_server.connect() as peer:
        assert peer.ask(request("http://localhost/place/x", host="evil.example")).status == 403


@pytest.mark.parametrize("host", ["box.example.com", "BOX.example.com:80", "sub.box.example.com", "5173-box.example.com", "localhost"])
def test_configured_domain(friendly, host):
    assert ask(friendly, host=host).status == (502 if host[0].isdigit() else 200)  # a preview of nothing


@pytest.mark.parametrize("host", ["example.com", "evilbox.example.com", "evil-box.example.com", "box.example.com.evil.example"])
def test_beside_the_configured_domain(friendly, host):
    assert ask(friendly, host=host).status == 403


def test_any_host_name_with_authentication(guarded):
    """Whoever has the key is no stray page."""
    for host in ("evil.example", "any.name:1234"):
        assert ask(guarded, host=host, X_AIO_API_Key="key").status == 200
        assert ask(guarded, host=host).status == 401


def test_any_host_name_when_insecure(start_server):
    server = start_server(["--insecure"], program="fixture")
    assert ask(server, host="any.example").status == 200
    assert ask(server, host="any.example", Origin="http://evil.example").status == 403, "origins still count"
    assert ask(server, host="any.example", Origin="http://any.example").status == 200


# --- forms -------------------------------------------------------------------------------------


@pytest.mark.parametrize("type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
                                  "text/plain; application/json", "text/plain;charset=UTF-8"])
def test_form_of_a_page_is_no_json(fixture_server, type):
    """The kinds of body that a browser sends anywhere without asking."""
    with fixture_server.connect() as peer:
        assert peer.ask(request("/echo", "POST", {"Content-Type": type}, BODY)).status == 415


# --- what pages make the browser send by itself ------------------------------------------------


def unseen(server, site="cross-site", mode="no-cors", dest="script", **more):
    return ask(server, "/health", "GET", Sec_Fetch_Site=site, Sec_Fetch_Mode=mode, Sec_Fetch_Dest=dest, **more).status


def test_scripts_images_and_frames_of_other_pages(fixture_server, guarded):
    for site in ("cross-site", "same-site"):
        assert unseen(fixture_server, site) == unseen(fixture_server, site, "cors", "empty") == 403
        assert unseen(fixture_server, site, "navigate", "iframe") == 403
        assert unseen(fixture_server, site, "navigate", "document") == 200
    assert unseen(fixture_server, "none", "navigate", "document", Sec_Purpose="prefetch") == 403
    assert unseen(fixture_server, "none", "navigate", "document") == 200
    assert unseen(fixture_server, "same-origin") == 200
    assert unseen(guarded) == 200  # it is the key that counts


def test_scripts_images_and_frames_of_friends(friendly):
    assert unseen(friendly, Referer=f"{FRIEND}/page") == unseen(friendly, mode="cors", Origin=FRIEND) == 200
    for referer in ("https://evil.example/", f"{FRIEND}.evil.example/", f"https://evil.example/{FRIEND}/", ""):
        assert unseen(friendly, Referer=referer) == 403
    assert unseen(friendly, Referer=f"{FRIEND}/page", Origin="null") == 403
