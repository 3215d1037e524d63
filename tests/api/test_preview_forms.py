"""What a program in the sandbox sees of a request in each form of its address, and what becomes of what it says; the page
that people see where there is no program."""

import base64
import hashlib
import re
import socket
import threading

import pytest

import commands
from harness import ROOT, eventually, request

pytestmark = pytest.mark.server(warm=commands.warm)
HTML = {"Accept": "text/html,*/*"}


def head_of(conn):
    head = b""
    while b"\r\n\r\n" not in head and (piece := conn.recv(1)):
        head += piece
    return head.decode()


class Program:
    """A program on a port: what it answers to each path, and the heads that it has seen."""

    def __init__(self, address="127.0.0.1"):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.listener = socket.create_server((address, 0), family=family)
        self.port = self.listener.getsockname()[1]
        self.heads, self.says = [], lambda path: "200 OK"
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            try:
                conn, _ = self.listener.accept()
            except OSError:
                return
            with conn:
                if not (head := head_of(conn)):
                    continue
                self.heads.append(head)
                said = self.says(head.split()[1])
                conn.sendall(f"HTTP/1.1 {said}\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi".encode())

    @property
    def paths(self):
        return [head.split()[1] for head in self.heads]

    def end(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(10)


@pytest.fixture
def program():
    program = Program()
    yield program
    program.end()


def forms(port, path="/a?b"):
    """Each form of an address: target, Host, header."""
    return {
        "name": {"target": path, "host": f"{port}-localhost:8080"},
        "below": {"target": path, "host": f"{port}-x.localhost:8080"},
        "header": {"target": path, "host": "localhost", "headers": {"x-aio-proxy-port": str(port)}},
        "proxy": {"target": f"/proxy/{port}{path}"},
        "absproxy": {"target": f"/absproxy/{port}{path}"},
    }


def ask(server, how, **headers):
    how = {**how, "headers": {**how.get("headers", {}), **{k.replace("_", "-"): v for k, v in headers.items()}}}
    with server.connect() as peer:
        return peer.ask(request(**how))


def headers_of(head):
    return [(name.lower(), value) for name, _, value in (line.partition(": ") for line in head.split("\r\n")[1:] if line)]


# --- what the program sees ---------------------------------------------------------------------


@pytest.mark.parametrize("form", forms(1))
def test_a_program_sees_itself_at_localhost(server, program, form):
    """As on its developer's machine, by whatever name it was asked for: and Origin says the same."""
    how = forms(program.port)[form]
    host = how.get("host", "localhost")
    assert ask(server, how, Origin=f"https://{host}").status == 200
    seen = headers_of(program.heads.pop())
    local = f"localhost:{program.port}"
    assert [value for name, value in seen if name == "host"] == [local]
    assert [value for name, value in seen if name == "origin"] == [f"http://{local}"]


def test_a_foreign_origin_is_passed_on_as_it_is(server, program):
    for origin in ("http://other.example", "null", f"http://localhost:{program.port}", "http://localhost.other.example"):
        assert ask(server, forms(program.port)["proxy"], Origin=origin).status == 200
        assert ("origin", origin) in headers_of(program.heads.pop())


@pytest.mark.parametrize("form", forms(1))
def test_what_a_client_says_was_forwarded_is_not_passed_on(server, program, form):
    forged = {"X-Forwarded-For": "6.6.6.6", "X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "https",
              "X-Forwarded-Port": "666", "Forwarded": "for=6.6.6.6", "X-Real-IP": "6.6.6.6", "X-Forwarded-Prefix": "//evil"}
    how = forms(program.port)[form]
    how["headers"] = {**how.get("headers", {}), **forged}
    assert ask(server, how).status == 200
    seen = dict(headers_of(program.heads[-1]))
    assert seen["x-forwarded-for"] == server.host
    assert seen.get("x-forwarded-prefix") == (f"/proxy/{program.port}" if form == "proxy" else None)
    assert not {name.lower() for name in forged} - {"x-forwarded-for", "x-forwarded-prefix"} & set(seen)
    assert "evil" not in program.heads[-1] and "6.6.6.6" not in program.heads[-1]


def test_below_a_path_of_a_proxy(server, program):
    """The program learns of the whole prefix, and what it answers stays below it."""
    program.says = lambda path: "302 Found\r\nLocation: /login\r\nSet-Cookie: a=1; Path=/"
    port = program.port
    for form, prefix in (("proxy", f"/sandbox/proxy/{port}"), ("absproxy", "/sandbox"), ("header", "/sandbox")):
        got = ask(server, forms(port)[form], X_Forwarded_Prefix="/sandbox/")
        assert got["location"] == f"{prefix}/login" and got["set-cookie"] == f"a=1; Path={prefix}", form
        assert ("x-forwarded-prefix", prefix) in headers_of(program.heads.pop())


def test_a_program_on_ipv6_only(server):
    program = Program("::1")
    try:
        for how in forms(program.port).values():
            assert ask(server, how).body == b"hi"
    finally:
        program.end()


@pytest.mark.parametrize("form", forms(1))
def test_ranges_and_encodings_pass_untouched(server, program, form):
    program.says = lambda path: "206 Partial Content\r\nContent-Range: bytes 0-1/9\r\nContent-Encoding: gzip\r\nETag: \"x\"\r\nVary: Accept"
    sent = {"Range": "bytes=0-1", "If-Range": '"x"', "Accept-Encoding": "gzip, br", "Cache-Control": "no-cache"}
    got = ask(server, forms(program.port)[form], **{name.replace("-", "_"): value for name, value in sent.items()})
    assert (got.status, got.body, got["content-range"], got["content-encoding"], got["etag"], got["vary"]) == \
        (206, b"hi", "bytes 0-1/9", "gzip", '"x"', "Accept")
    assert {(name.lower(), value) for name, value in sent.items()} <= set(headers_of(program.heads[-1]))


# --- what it says ------------------------------------------------------------------------------


@pytest.mark.parametrize("said, seen", [
    ("http://localhost:{port}/login?a=b#c", "{prefix}/login?a=b#c"), ("http://127.0.0.1:{port}/", "{prefix}/"),
    ("https://LOCALHOST:{port}/x", "{prefix}/x"), ("http://[::1]:{port}/x", "{prefix}/x"),
    ("/login", "{prefix}/login"), ("login", "login"), ("https://other.example/x", "https://other.example/x"),
    ("http://localhost:1/x", "http://localhost:1/x"), ("http://localhost:{port}0/", "http://localhost:{port}0/"),
    ("http://localhost:{port}//other.example/", "http://localhost:{port}//other.example/"), ("//other.example/", "//other.example/"),
])
@pytest.mark.parametrize("form", forms(1))
def test_a_location_leads_to_the_program_in_every_form(server, program, form, said, seen):
    port = program.port
    names = {"port": port, "prefix": f"/proxy/{port}" if form == "proxy" else ""}
    program.says = lambda path: f"302 Found\r\nLocation: {said.format(**names)}"
    assert ask(server, forms(port)[form])["location"] == seen.format(**names)


def test_a_location_without_a_path(server, program):
    program.says = lambda path: f"302 Found\r\nLocation: http://localhost:{program.port}"
    assert ask(server, forms(program.port)["name"])["location"] == "/"
    assert ask(server, forms(program.port)["proxy"])["location"] == f"/proxy/{program.port}"


@pytest.mark.parametrize("form", forms(1))
def test_a_cookie_is_for_the_program_in_every_form(server, program, form):
    prefix = f"/proxy/{program.port}" if form == "proxy" else ""
    for said, seen in (("a=1; Path=/; Secure; HttpOnly", f"a=1; Path={prefix or '/'}; Secure; HttpOnly"),
                       ("a=1; Path=/b; SameSite=None", f"a=1; Path={prefix}/b; SameSite=None"), ("a=1", "a=1"),
                       ("a=1; Domain=localhost", "a=1"), ("a=1; domain = .localhost; Path=/", f"a=1; Path={prefix or '/'}"),
                       ("__Host-a=1; Path=/; Secure", "__Host-a=1; Path=/; Secure")):
        program.says = lambda path, said=said: f"200 OK\r\nSet-Cookie: {said}"
        assert ask(server, forms(program.port)[form])["set-cookie"] == seen


# --- programs that know their prefix -----------------------------------------------------------


def test_a_program_that_redirects_to_its_base_gets_whole_paths(server, program):
    """As Vite does with `base`."""
    base = f"/proxy/{program.port}/"
    program.says = lambda path: "200 OK" if path.startswith(base) else f"302 Found\r\nLocation: {base}"
    assert server.get(base).text == "hi" and program.paths == ["/", base]
    assert server.get(f"{base}a?b").text == "hi" and program.paths[2:] == [f"{base}a?b"]
    assert server.get(f"{base}a", headers={"X-Forwarded-Prefix": "/other"}).status_code == 302  # not what it knows
    assert program.paths[3:] == ["/a"]


def test_a_base_below_a_path_of_a_proxy(server, program):
    base = f"/sandbox/proxy/{program.port}/"
    program.says = lambda path: "200 OK" if path.startswith(base) else f"302 Found\r\nLocation: {base}"
    assert server.get(f"/proxy/{program.port}/", headers={"X-Forwarded-Prefix": "/sandbox"}).text == "hi"
    assert server.get(f"/proxy/{program.port}/x", headers={"X-Forwarded-Prefix": "/sandbox"}).text == "hi"
    assert program.paths == ["/", base, f"{base}x"]


def test_a_program_that_has_nothing_elsewhere_gets_whole_paths(server, program):
    """As Next.js with `basePath`. It is asked only where a person opens a page."""
    base = f"/proxy/{program.port}"
    program.says = lambda path: "200 OK" if path.startswith(base) else "404 Not Found"
    assert server.get(f"{base}/").status_code == 404 and program.paths == ["/"]
    assert server.get(f"{base}/a", headers=HTML).status_code == 200 and program.paths[1:] == ["/a", f"{base}/a"]
    assert server.get(f"{base}/b.js").status_code == 200 and program.paths[3:] == [f"{base}/b.js"]


def test_what_is_missing_is_missing_where_the_program_sees_it(server, program):
    program.says = lambda path: f"404 Not Found\r\nX-Path: {path}"
    got = server.get(f"/proxy/{program.port}/a", headers=HTML)
    assert got.status_code == 404 and got.headers["x-path"] == "/a"
    assert program.paths == ["/a", f"/proxy/{program.port}/a", "/a"]
    assert server.get(f"/proxy/{program.port}/b").headers["x-path"] == "/b"


def test_a_request_with_a_body_is_sent_once(server, program):
    program.says = lambda path: f"302 Found\r\nLocation: /proxy/{program.port}/"
    got = server.request("POST", f"/proxy/{program.port}/", content=b"body", headers=HTML)
    assert got.status_code == 302 and program.paths == ["/"]


def test_another_program_on_the_port_is_asked_anew(server):
    program = Program()
    port, base = program.port, f"/proxy/{program.port}/"
    program.says = lambda path: "200 OK" if path.startswith(base) else f"302 Found\r\nLocation: {base}"
    assert server.get(base).status_code == 200
    program.end()
    assert server.get(base).status_code == 502
    with socket.create_server(("127.0.0.1", port)) as listener:
        def answer():
            conn, _ = listener.accept()
            with conn:
                heads.append(head_of(conn))
                conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")

        heads = []
        thread = threading.Thread(target=answer)
        thread.start()
        assert server.get(base).text == "hi" and heads[0].startswith("GET / ")
        thread.join(10)


# --- where there is no program -----------------------------------------------------------------


@pytest.fixture(scope="module")
def unused():
    """A port on which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.fixture
def listening(server):
    """The port of a program that the sandbox has started."""
    data = commands.run(server, "exec python3 -uc 'import socket; s = socket.create_server((\"127.0.0.1\", 0)); "
                                "print(s.getsockname()[1]); input()' '<b>'", async_mode=True)
    assert eventually(lambda: commands.read(server, data)["stdout"].endswith("\n"))
    yield int(commands.read(server, data)["stdout"])
    commands.close_all(server)


def test_people_see_which_ports_there_are(server, unused, listening):
    for form, how in forms(unused, "/x").items():
        how["headers"] = {**how.get("headers", {}), **HTML}
        got = ask(server, how)
        page = got.body.decode()
        assert got.status == 502 and got["content-type"] == "text/html; charset=utf-8" and got["cache-control"] == "no-store"
        assert f"No preview of port {unused}" in page and 'id="again"' in page and "&#60;b&#62;" in page and "<b>&" not in page
        link = {"name": f"//{listening}-localhost:8080/", "below": f"//{listening}-x.localhost:8080/",
                "proxy": f"/proxy/{listening}/", "absproxy": f"/absproxy/{listening}/"}.get(form)
        assert re.findall(r'<a href="(.*?)">(\d+)</a>', page) == ([(link, str(listening))] if link else [])
        assert str(listening) in page and f"{server.port}</" not in page


def test_strangers_learn_of_no_port(start_server, unused):
    """A preflight reaches a program without credentials."""
    server = start_server(env={"SANDBOX_API_KEY": "the-key"})
    own = {"X-AIO-API-Key": "the-key"}
    started = server.request("POST", "/v1/bash/exec", headers=own, json={"command": "python3 -m http.server 0", "async_mode": True})
    assert started.status_code == 200
    assert eventually(lambda: "programs listen" in server.get(f"/proxy/{unused}/", headers=own).text)
    asks = {"Origin": "https://example.com", "Access-Control-Request-Method": "PUT", "Accept": "text/html"}
    got = server.request("OPTIONS", f"/proxy/{unused}/", headers=asks)
    assert got.json() == {"detail": f"nothing listens on port {unused} in the sandbox"}
    server.request("POST", f"/v1/bash/sessions/{started.json()['data']['session_id']}/close", headers=own)


def test_a_secret_in_a_command_line_is_not_shown(server, unused):
    commands.run(server, "exec python3 -m http.server 0 --directory /tmp/api_key=hunter2hunter2", async_mode=True)
    assert eventually(lambda: "http.server" in server.get(f"/proxy/{unused}/", headers=HTML).text)
    assert "hunter2" not in server.get(f"/proxy/{unused}/", headers=HTML).text
    commands.close_all(server)


def test_the_links_stay_below_a_path_of_a_proxy(server, unused, listening):
    page = server.get(f"/proxy/{unused}/", headers={**HTML, "X-Forwarded-Prefix": "/sandbox"}).text
    assert f'href="/sandbox/proxy/{listening}/"' in page


def test_programs_get_the_same_as_json(server, unused, listening):
    got = server.get(f"/proxy/{unused}/")
    assert got.status_code == 502
    assert got.json() == {"detail": f"nothing listens on port {unused} in the sandbox; programs listen on {listening}"}


def test_the_page_has_no_script_but_its_own(server, unused):
    got = server.get(f"/proxy/{unused}/", headers=HTML)
    (script,) = re.findall(r"<script>(.*?)</script>", got.text, re.S)
    own = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = got.headers["content-security-policy"]
    assert "default-src 'none'" in policy and f"script-src 'sha256-{own}'" in policy
    assert script in (ROOT / "web/preview/index.html").read_text()


def test_a_head_request_has_no_page(server, unused):
    with server.connect() as peer:
        got = peer.ask(request(f"/proxy/{unused}/", "HEAD", HTML))
        assert got.status == 502 and int(got["content-length"]) > 1000
        assert peer.ask(request("/health")).status == 200
