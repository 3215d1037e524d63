"""How a box is reached: by host name, header, path, or by nothing; and who may."""

import base64
import contextlib
import itertools
import json
import os
import resource
import time

import httpx
import pytest
from agent_sandbox import Sandbox
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from harness import ANSWER_SECONDS, connect, eventually, request
from hosts import FakeServer, answer, to
from processes import cpu_seconds

HOSTNAME = {"command": "hostname"}


def hostname(client, url="/v1/bash/exec", **more):
    answer = client.post(url, json=HOSTNAME, **more)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]["stdout"].strip()


def bearer(box):
    return {"Authorization": f"Bearer {box.token}"}


def test_four_ways_to_a_box(host, box):
    own = f"{box.id}.localhost:{host.port}"
    assert hostname(host.client) == "default"
    assert hostname(host.client, headers=box.headers) == box.id
    assert hostname(host.client, f"/s/{box.id}/v1/bash/exec", headers=bearer(box)) == box.id
    assert hostname(host.client, headers={"Host": own, **bearer(box)}) == box.id
    assert hostname(host.client, "/s/default/v1/bash/exec") == "default"


def test_urls_of_a_new_box_work_as_they_are(host):
    box = host.create(name="named-one")
    assert box.data["urls"]["api"] == f"http://named-one.localhost:{host.port}"
    with httpx.Client(base_url=box.data["urls"]["path"], headers=bearer(box), trust_env=False,
                      timeout=ANSWER_SECONDS) as client:
        assert hostname(client, "v1/bash/exec") == "named-one"


def test_the_official_sdk(host, box):
    plain = Sandbox(base_url=host.url)
    assert plain.shell.exec_command(command="hostname").data.output == "default"
    by_header = Sandbox(base_url=host.url, headers=box.headers)
    assert by_header.shell.exec_command(command="hostname").data.output == box.id
    by_path = Sandbox(base_url=f"{host.url}/s/{box.id}", headers=bearer(box))
    assert by_path.shell.exec_command(command="hostname").data.output == box.id
    assert by_path.sandbox.get_context().home_dir == "/home/gem"

    class Loopback(httpx.HTTPTransport):
        """Resolves every name to this machine, as browsers do below localhost."""

        def handle_request(self, request):
            request.url = request.url.copy_with(host="127.0.0.1")
            return super().handle_request(request)

    by_name = Sandbox(base_url=f"http://{box.id}.localhost:{host.port}", headers=bearer(box),
                      httpx_client=httpx.Client(transport=Loopback(), timeout=ANSWER_SECONDS))
    assert by_name.shell.exec_command(command="hostname").data.output == box.id


@pytest.mark.concurrency
def test_one_connection_switches_between_boxes(host, box):
    other = host.create()
    boxes = [host.default(), box, other, box, host.default(), other]
    body = json.dumps(HOSTNAME).encode()
    with host.connect() as peer:
        for _ in range(3):
            for one in boxes:
                got = peer.ask(to(one, "/v1/bash/exec", "POST", {"Content-Type": "application/json"}, body=body))
                assert got.json()["data"]["stdout"].strip() == one.id
    other.delete()


def test_requests_sent_at_once_are_answered_in_order(host, box):
    with host.connect() as peer:
        asked = [box, host.default(), box, host.default()]
        peer.send(b"".join(to(one, f"/s{n}") for n, one in enumerate(asked)))
        for one in asked:
            got = peer.answer()
            assert got.status == 404 and got.json() == {"detail": "Not Found"}


def test_the_host_name_wins(host, box):
    """A page can set a header, but not the name it came from."""
    own = {"Host": f"{box.id}.localhost", "x-aio-sandbox": "default", **bearer(box)}
    assert hostname(host.client, headers=own) == box.id


@pytest.mark.parametrize("ask", [
    {"headers": {"x-aio-sandbox": "../default"}}, {"headers": {"x-aio-sandbox": "x" * 500}},
    {"headers": {"Host": "a.b.localhost"}}, {"headers": {"Host": "99999-default.localhost"}},
    {"headers": {"Host": "0-default.localhost"}}, {"path": "/s//health"},
    {"path": "/s/" + "x" * 500}, {"path": "/s/%64efault/health"},
])
def test_there_can_be_no_such_box(host, ask):
    got = host.client.get(ask.get("path", "/health"), headers=ask.get("headers"))
    assert got.status_code == 404 and "detail" in got.json()


@pytest.mark.parametrize("ask", [
    {"headers": {"x-aio-sandbox": "nobody"}}, {"headers": {"Host": "nobody.localhost"}}, {"path": "/s/nobody/health"},
])
def test_there_is_no_such_box(host, ask):
    """But whoever has no credentials is told that of one that is there, too: see test_credentials.py."""
    got = host.client.get(ask.get("path", "/health"), headers=ask.get("headers"))
    assert got.status_code == 401 and "there is no sandbox 'nobody'" in got.json()["detail"]


def test_a_redirect_of_a_box_stays_below_its_path(host, box):
    got = host.client.get(f"/s/{box.id}/", headers=bearer(box))
    assert got.status_code == 307 and got.headers["location"].startswith(f"/s/{box.id}/v1/docs")


def test_pages_below_a_path_that_no_name_leads_to(host, box):
    """Somebody who opens one is told what is missing; at home on this machine there is a name."""
    get = lambda name: host.client.get(f"/s/{box.id}/terminal?x=1", headers={
        "Accept": "text/html,*/*", "Host": name})
    got = get("192.0.2.1:8080")
    assert got.status_code == 404 and "--domain" in got.json()["detail"]
    for name in ("localhost:8080", "127.0.0.1:8080", "[::1]:8080"):
        assert get(name).headers["location"] == f"//{box.id}.localhost:8080/terminal?x=1"
    assert host.client.get(f"/s/{box.id}/v1/sandbox", headers={"Accept": "text/html"}).status_code == 401


def test_bodies_of_every_framing(host, box):
    """Large and small, with a length and in chunks, both ways."""
    seen = []

    def serve(fake, conn):
        while head := fake.read_head(conn):
            file = conn.makefile("rb")
            if "Transfer-Encoding: chunked" in head:
                body = b""
                while size := int(file.readline(), 16):
                    body += file.read(size)
                    file.readline()
                file.readline()
            else:
                body = file.read(int(head.lower().split("content-length: ")[1].split()[0]))
            seen.append(body)
            if "chunks" in head.split()[1]:
                conn.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                for at in range(0, len(body), 70_001):
                    piece = body[at:at + 70_001]
                    conn.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
                conn.sendall(b"0\r\n\r\n")
            else:
                conn.sendall(answer(body))

    with FakeServer(box, serve), httpx.Client(base_url=host.url, trust_env=False, timeout=ANSWER_SECONDS) as client:
        for size in (1, 1000, 65_536, 1_000_003, 20_000_000):
            data = bytes(i % 251 for i in range(min(size, 5000))) * (size // min(size, 5000) + 1)
            data = data[:size]
            for path in ("/plain", "/chunks"):
                assert client.post(path, content=data, headers=box.headers).content == data
                got = client.post(path, content=(data[at:at + 50_000] for at in range(0, size, 50_000)),
                                  headers=box.headers)
                assert got.content == data
        assert len(seen) == 20


def test_a_terminal_over_websocket(host, box):
    url = f"ws://127.0.0.1:{host.port}/v1/shell/ws"
    with connect(url, additional_headers=box.headers, proxy=None) as ws:
        typed, text = False, ""
        while "is:" + box.id not in text:
            message = json.loads(ws.recv(timeout=ANSWER_SECONDS))
            text += message.get("data", "") if message["type"] == "output" else ""
            if message["type"] == "ready" and not typed:
                ws.send(json.dumps({"type": "input", "data": "echo is:$(hostname)\r"}))
                typed = True


def test_events_come_as_they_happen(host, box):
    """A stream is not held back until its end."""
    body = {"command": "echo one; read x; echo $x"}
    with host.client.stream("POST", "/v1/bash/exec", json=body,
                            headers={**box.headers, "Accept": "text/event-stream"}) as stream:
        came = []
        for line in stream.iter_lines():
            event = json.loads(line[5:]) if line.startswith("data:") else {}
            came += [event["data"]] if "data" in event else []
            if event.get("data") == "one\n":
                with httpx.Client(base_url=host.url, trust_env=False, timeout=ANSWER_SECONDS) as other:
                    words = {"session_id": event["session_id"], "input": "two\n"}
                    assert other.post("/v1/bash/write", json=words, headers=box.headers).status_code == 200
    assert came == ["one\n", "two\n"]


def test_a_client_that_leaves_is_left_by_the_host(host, box):
    gone = []

    def serve(fake, conn):
        fake.read_head(conn)
        gone.append(conn.recv(1))

    with FakeServer(box, serve) as fake:
        with host.connect() as peer:
            peer.send(to(box))
            assert eventually(lambda: fake.heads)
            peer.reset()
        assert eventually(lambda: gone == [b""])


def test_a_client_that_was_lost_is_noticed(host):
    """By the kernel, which asks whether it is still there: its timer runs."""
    with host.connect() as peer:
        peer.send(request("/health"))
        assert peer.answer().status == 200
        ends = [f"0100007F:{port:04X}" for port in (host.port, peer.sock.getsockname()[1])]

        def timer():
            """Its kind and when it is due. A look at the table may miss a row while others come and go."""
            with open("/proc/net/tcp") as file:
                kind, _, due = next((row[5] for row in map(str.split, file) if row[1:3] == ends), "").partition(":")
            return int(due, 16) if kind == "02" else None

        due = eventually(timer)  # when we have acknowledged the answer
        assert due and due / os.sysconf("SC_CLK_TCK") <= 60


def test_half_a_close_is_not_leaving(host, box):
    with host.connect() as peer:
        body = b'{"command": "sleep 0.5; echo still here"}'  # it is half closed meanwhile
        peer.send(to(box, "/v1/bash/exec", "POST", {"Content-Type": "application/json"}, body=body))
        peer.half_close()
        assert peer.answer().json()["data"]["stdout"] == "still here\n"


def test_what_was_sent_before_half_a_close_is_answered(host, box):
    exec_body = json.dumps({"command": "until test -e /tmp/on; do sleep .1; done; echo first"}).encode()
    with host.connect() as peer:
        peer.send(request("/v1/bash/exec", method="POST", body=exec_body,
                          headers={**box.headers, "Content-Type": "application/json"}))
        assert eventually(lambda: box.count("^sleep .1"))
        peer.send(request("/health"))
        peer.half_close()
        box.run("touch /tmp/on")
        assert peer.answer("POST").json()["data"]["stdout"] == "first\n"
        assert peer.answer().body == b"OK"


def test_http_1_0(host, box):
    with host.connect() as peer:
        peer.send(request("/health", headers=box.headers, version="1.0"))
        got = peer.answer()
        assert got.body == b"OK" and peer.ended()


@pytest.mark.parametrize("data", [
    b"GARBAGE\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    b"GET / HTTP/1.1\nHost: localhost\n\n", b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x00\xf1\x01\x00",
    b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n",
])
def test_bad_requests_are_refused_at_once(host, data):
    with host.connect() as peer:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the answer may be there before all is sent
            peer.send(data)
        got = peer.answer()
        assert 400 <= got.status < 500 and peer.ended()


# --- previews ----------------------------------------------------------------------------------

APP = """
import http.server, sys
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        text = "%s %s %s|%s|%s" % (self.command, self.path, body.decode(), self.headers.get("host"),
                                   self.headers.get("authorization"))
        self.send_response(200)
        self.send_header("Set-Cookie", "app=1; Path=/")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())
    do_GET = do_POST
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(("127.0.0.1", 4321), H).serve_forever()
"""


@pytest.fixture(scope="module")
def app(host, box):
    box.begin(f"cat >/tmp/app.py <<'E'\n{APP}\nE\nexec python3 /tmp/app.py")
    ready = lambda: box.request("GET", "/proxy/4321/up").status_code == 200
    assert eventually(ready)
    return f"4321-{box.id}.localhost:{host.port}"


def test_previews(host, box, app):
    got = host.client.post("/a/b?c=d", headers={"Host": app, **bearer(box)}, content="body")
    assert got.text == "POST /a/b?c=d body|localhost:4321|None"  # the program sees itself there
    assert got.headers["set-cookie"] == "app=1; Path=/"
    got = box.request("GET", "/a", headers={"x-aio-proxy-port": "4321"})
    assert got.text.startswith("GET /a |") and "set-cookie" not in got.headers
    assert box.request("GET", "/proxy/4321/a?b").text.startswith("GET /a?b |")
    assert box.request("GET", "/absproxy/4321/a").text.startswith("GET /absproxy/4321/a |")
    assert box.request("GET", "/proxy/1/a").status_code == 502
    assert box.request("GET", "/proxy/x/a").status_code == 404


def test_pages_of_a_box_call_its_other_ports(host, box, app):
    """From the same host, that is: another port of the machine is another server."""
    post = lambda origin: host.client.post("/", headers={"Host": app, "Origin": origin, **bearer(box)}).status_code
    for name in (f"{box.id}.localhost", f"3000-{box.id}.localhost"):
        assert post(f"http://{name}:{host.port}") == 200
        assert post(f"http://{name}:{host.port + 1}") == post(f"http://{name}") == 403
    assert post(f"http://default.localhost:{host.port}") == post(host.url) == post("null") == 403


def test_an_application_may_have_tokens_of_its_own(host, box, app):
    ticket = box.request("POST", "/tickets").json()["ticket"]
    got = host.client.get(f"/x?ticket={ticket}&y=1", headers={"Host": app, "Authorization": "Bearer the-apps"})
    assert got.text == "GET /x?y=1 |localhost:4321|Bearer the-apps"
    got = host.client.get(f"/x?ticket={ticket}", headers={"Host": app, "Authorization": f"Bearer {host.token}"})
    assert got.text.endswith("|None")


def test_a_browser_that_came_with_a_ticket_stays(host, box, app):
    ticket = box.request("POST", "/tickets").json()["ticket"]
    first = httpx.get(f"{host.url}/?ticket={ticket}", headers={"Host": app}, trust_env=False, timeout=ANSWER_SECONDS)
    cookies = first.headers.get_list("set-cookie")
    own = next(cookie for cookie in cookies if cookie.startswith("aio_box="))
    assert "HttpOnly" in own and "SameSite=Lax" in own and "domain" not in own.lower()
    value = own.split(";")[0]
    with httpx.Client(base_url=host.url, trust_env=False, timeout=ANSWER_SECONDS) as fresh:
        assert fresh.get("/more", headers={"Host": app, "Cookie": value}).status_code == 200
        assert fresh.get("/more", headers={"Host": app}).status_code == 401
        # A program's own paths are its own, also where the server of a box has one of that name.
        for way in ({"Cookie": value}, {}):
            got = fresh.get("/tickets" if way else f"/tickets?ticket={ticket}", headers={"Host": app, **way})
            assert got.text == "GET /tickets |localhost:4321|None"
        # Not on the plain address, not for another box, and never for the host.
        assert fresh.get("/v1/sandbox", headers={"x-aio-sandbox": box.id, "Cookie": value}).status_code == 401
        assert fresh.get("/v1/sandboxes", headers={"Cookie": value}).status_code == 401
        other = host.create()
        assert fresh.get("/", headers={"Host": f"{other.id}.localhost", "Cookie": value}).status_code == 401
        # What came of a ticket makes no other: it would be good for ever.
        own = {"Host": f"{box.id}.localhost", "Cookie": value}
        assert fresh.get("/v1/sandbox", headers=own).status_code == 200
        assert fresh.post("/tickets", headers=own).status_code == 401


def test_a_preview_switches_protocols(host, box):
    """Bytes both ways after an upgrade, through the host and the box's server."""
    script = r'''
import socket
s = socket.create_server(("127.0.0.1", 4323))
while True:
    c, _ = s.accept()
    head = b""
    while b"\r\n\r\n" not in head: head += c.recv(1)
    if b"pgrade: echo" in head:
        c.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\nhi")
        while data := c.recv(65536): c.sendall(data.upper())
    else:
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    c.close()
'''
    box.begin(f"cat >/tmp/up.py <<'E'\n{script}\nE\nexec python3 /tmp/up.py")
    assert eventually(lambda: box.request("GET", "/proxy/4323/").status_code == 200)
    with host.connect() as peer:
        peer.send(to(box, "/proxy/4323/ws", headers={"Connection": "Upgrade", "Upgrade": "echo"}))
        assert peer.head().status == 101
        assert peer.take(2) == b"hi"
        for size in (1, 100, 300_000):
            peer.send(b"a" * size)
            assert peer.take(size) == b"A" * size
        peer.half_close()
        assert peer.ended()


# --- credentials -------------------------------------------------------------------------------

def test_a_box_opens_with_its_own_token_only(host, box):
    other = host.create()
    for token in (None, "wrong", other.token, host.token, box.token.upper()):
        headers = {"x-aio-sandbox": box.id, **({"Authorization": f"Bearer {token}"} if token else {})}
        got = host.client.get("/v1/sandbox", headers=headers)
        assert got.status_code == 401, token
    for headers in ({"X-AIO-API-Key": box.token}, {"Authorization": f"Bearer {box.token}"}):
        assert host.client.get("/v1/sandbox", headers={"x-aio-sandbox": box.id, **headers}).status_code == 200
    assert host.client.get(f"/s/{box.id}/v1/sandbox?api_key={box.token}").status_code == 200
    assert "denied" in box.events()
    other.delete()


@pytest.mark.parametrize("method,path", [
    ("GET", "/v1/sandboxes"), ("POST", "/v1/sandboxes"), ("GET", "/v1/sandboxes/default"),
    ("DELETE", "/v1/sandboxes/default"), ("GET", "/v1/sandboxes/default/events"), ("GET", "/v1/templates"),
])
def test_the_lifecycle_api_needs_the_hosts_token(host, box, method, path):
    for headers in ({}, bearer(box), {"Authorization": "Bearer x"}, {"Cookie": f"token={host.token}"}):
        got = host.client.request(method, path, headers=headers)
        assert got.status_code == 401
    assert "default" in host.ids()


def test_the_hosts_token_is_roots(host):
    path = host.state / "token"
    assert path.stat().st_mode & 0o777 == 0o600 and len(host.token) == 40
    for name in ("boxes", "run", "log", "templates", "store.db"):
        assert (host.state / name).stat().st_mode & 0o077 == 0


def test_tickets_are_for_one_box(host, box):
    other = host.create()
    ticket = box.request("POST", "/tickets").json()
    assert ticket["expires_in"] == 30
    query = f"ticket={ticket['ticket']}"
    assert host.client.get(f"/s/{box.id}/v1/sandbox?{query}").status_code == 200
    assert host.client.get(f"/s/{other.id}/v1/sandbox?{query}").status_code == 401
    assert host.client.get(f"/v1/sandboxes?{query}").status_code == 401
    assert host.client.post(f"/s/{box.id}/tickets?{query}").status_code == 401  # none renews itself
    check = lambda to: host.client.get(f"/s/{to.id}/auth", headers={"x-original-uri": f"/x?{query}"}).status_code
    assert (check(box), check(other)) == (200, 401)
    other.delete()


def test_a_box_without_token(host):
    box = host.create(auth="none")
    assert box.token is None and box.data["auth"] == "none"
    assert hostname(host.client, headers={"x-aio-sandbox": box.id}) == box.id


def test_configured_credentials_of_the_default_box(start_host):
    key = ed25519.Ed25519PrivateKey.generate()
    pem = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)

    def jwt(**claims):
        part = lambda value: base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")
        text = part({"alg": "EdDSA", "typ": "JWT"}) + b"." + part({"exp": time.time() + 600, **claims})
        return (text + b"." + base64.urlsafe_b64encode(key.sign(text)).rstrip(b"=")).decode()

    host = start_host(env={"SANDBOX_API_KEY": "the-key", "JWT_PUBLIC_KEY": base64.b64encode(pem).decode()})
    box = host.create()

    def status(token, to):
        return host.client.get("/v1/sandbox", headers={
            "x-aio-sandbox": to, "Authorization": f"Bearer {token}"}).status_code

    assert host.client.get("/v1/sandbox").status_code == 401
    assert host.client.get("/v1/docs").status_code == 401
    assert status("the-key", "default") == 200 and status("the-key", box.id) == 401
    assert status(jwt(), "default") == 200 and status(jwt(), box.id) == 401
    assert status(jwt(aud=box.id), box.id) == 200 and status(jwt(aud=box.id), "default") == 401
    assert status(jwt(aud="default"), "default") == 200
    assert host.client.get("/v1/sandboxes", headers={"Authorization": f"Bearer {jwt()}"}).status_code == 401


# --- when there are no more descriptors ----------------------------------------------------------

def test_a_host_without_descriptors_waits_for_some(host):
    """It serves those it has, rests meanwhile, and takes the others when some are free."""
    pid, default = host.pid, host.default()
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(host.connect()) for _ in range(8)]
        for peer in peers:
            assert peer.ask(to(default, "/health")).body == b"OK"
        used = set(map(int, os.listdir(f"/proc/{pid}/fd")))
        stack.callback(resource.prlimit, pid, resource.RLIMIT_NOFILE, (soft, hard))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (next(n for n in itertools.count() if n not in used), hard))
        waiting = [stack.enter_context(host.connect()) for _ in range(20)]
        for peer in waiting:
            peer.send(to(default, "/health"))
        assert host.logged("cannot accept: Too many open files")
        before = cpu_seconds(host)
        time.sleep(1)  # in which it would compute all the time
        assert cpu_seconds(host) - before < 0.5
        for peer in peers:
            assert peer.ask(to(default, "/health")).body == b"OK"
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
        answers = [peer.answer().status for peer in waiting]
        assert answers.count(200) >= 15 and set(answers) <= {200, 503}  # one may have come in without a way on
    assert host.log.count("cannot accept") < 10
