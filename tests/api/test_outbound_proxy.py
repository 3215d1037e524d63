"""The forward proxy of a sandbox and /v1/proxy: what goes where, by real connections."""

import base64
import contextlib
import os
import socket
import ssl
import subprocess
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import pytest

import kernels
from harness import connect, dial, eventually, request
from processes import ROOT_ONLY, tester  # noqa: F401
from sites import Page, Site
from upstream_proxies import UpstreamProxy

NOBODY = 65534


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@pytest.fixture(scope="module")
def server(start_shared):
    port = free_port()
    server = kernels.warm(start_shared(env={"TINYPROXY_PORT": str(port)}))
    server.proxy = ("127.0.0.1", port)
    return server


@pytest.fixture(autouse=True)
def cleared(server):
    """Each test begins and ends without any configuration."""
    yield
    for mapping in call(server, "GET", "mappings"):
        call(server, "DELETE", "mappings/" + quote(mapping["source"], safe=""))
    for pattern in call(server, "GET", "excludes"):
        call(server, "DELETE", "excludes", json={"pattern": pattern})
    call(server, "DELETE", "upstream")


@pytest.fixture(scope="module")
def site():
    def echo(handler):
        return f"{handler.command} {handler.path} {handler.headers['host']}"

    with Site({path: echo for path in ("/", "/a", "/api/x", "/api", "/v2")}) as site:
        site.port = int(site.url.rpartition(":")[2])
        yield site


def call(server, method, what, **more):
    answer = server.request(method, f"/v1/proxy/{what}", **more)
    assert answer.status_code == 200, answer.text
    assert answer.json()["success"] is True
    return answer.json()["data"]


def refused(server, method, what, **more):
    answer = server.request(method, f"/v1/proxy/{what}", **more)
    assert answer.status_code >= 400, answer.text
    return answer.status_code, answer.text


def use(server, upstream, **more):
    return call(server, "PUT", "upstream", json={"server": upstream, **more})


def map_to(server, source, target):
    return call(server, "POST", "mappings", json={"source": source, "target": target})


def command(server, text):
    data = server.post("/v1/bash/exec", {"command": text}).json()["data"]
    server.post(f"/v1/bash/sessions/{data['session_id']}/close")
    return data["stdout"]


def get(server, url, **more):
    """The answer of the proxy to a GET."""
    with dial(server.proxy) as peer:
        return peer.ask(request(url, host=url.split("/")[2], **more))


def text(server, url):
    got = get(server, url)
    assert got.status == 200, got
    return got.body.decode()


def tunnel(server, where, data=b""):
    """A connection through the proxy, and its answer."""
    peer = dial(server.proxy)
    peer.send(request(where, "CONNECT", host=where) + data)
    return peer, peer.head()


def diagnose(server, url):
    answer = server.get("/v1/proxy/diagnose", params={"url": url}).json()
    return answer["data"], answer["message"]


# --- without any configuration -------------------------------------------------------------------


def test_at_first_all_goes_directly(server, site):
    assert call(server, "GET", "mappings") == call(server, "GET", "excludes") == []
    assert call(server, "GET", "upstream") is None
    assert call(server, "GET", "health") == {"healthy": True, "gost_alive": True, "nginx_alive": True,
                                             "config_consistent": True, "inconsistencies": []}
    assert text(server, f"{site.url}/a") == f"GET /a 127.0.0.1:{site.port}"
    assert "proxy=" not in command(server, "env").lower().replace("tinyproxy", "")


def test_headers_and_bodies_pass_whole(server):
    seen = []

    def page(handler):
        seen.append(handler.headers)
        return Page(201, {"set-cookie": ["a=1; Domain=x.test; Path=/", "aio_session=2"], "clear-site-data": '"*"'}, b"x" * 300000)

    with Site({"/": page}) as site:
        with dial(server.proxy) as peer:
            got = peer.ask(request(f"{site.url}/", "POST", {
                "Cookie": "aio_session=1", "Connection": "x-hop, keep-alive", "X-Hop": "1", "Proxy-Connection": "keep-alive",
                "Proxy-Authorization": "Basic eDp5", "Authorization": "Bearer t", "Referer": "http://x/?api_key=1"},
                b"y" * 200000, host="elsewhere"))
            assert got.status == 201 and got.body == b"x" * 300000
            assert [value for name, value in got.headers if name.lower() == "set-cookie"] == [
                "a=1; Domain=x.test; Path=/", "aio_session=2"]
            assert got["clear-site-data"] == '"*"'
        assert site.asked("/")[-1].body == b"y" * 200000
    assert dict(seen[-1].items()) == {
        "Host": site.url[7:], "Cookie": "aio_session=1", "Authorization": "Bearer t", "Referer": "http://x/?api_key=1",
        "Content-Length": "200000"}


def test_a_stream_is_passed_on_as_it_comes(server):
    go = threading.Event()

    def page(handler):
        handler.send_response(200)
        handler.send_header("transfer-encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"3\r\none\r\n")
        handler.wfile.flush()
        assert go.wait(60)
        handler.wfile.write(b"3\r\ntwo\r\n0\r\n\r\n")

    with Site({"/": page}) as site, dial(server.proxy) as peer:
        peer.send(request(f"{site.url}/", host="x"))
        assert peer.head().status == 200 and peer.chunk() == b"one"
        go.set()
        assert peer.chunk() == b"two" and peer.chunk() == b""


def test_a_tunnel_whose_sides_end_one_after_the_other(server):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        peer, head = tunnel(server, "127.0.0.1:%d" % listener.getsockname()[1], b"early ")
        assert head.status == 200
        far, _ = listener.accept()
        with peer, far:
            peer.send(b"late")
            peer.half_close()
            assert b"".join(iter(lambda: far.recv(100), b"")) == b"early late"
            far.sendall(b"answer")
            far.shutdown(socket.SHUT_WR)
            assert peer.rest() == b"answer"


# --- mappings ------------------------------------------------------------------------------------


def test_a_mapping(server, site):
    assert map_to(server, "*.App.test/v1/*", f":{site.port}/api/") == {
        "source": "*.App.test/v1/*", "target": f":{site.port}/api/", "source_host": "*.app.test", "source_path": "/v1",
        "internal_port": server.proxy[1]}
    assert text(server, "http://one.app.test/v1/x") == "GET /api/x one.app.test"
    assert text(server, "http://one.APP.test:8080/v1") == "GET /api one.app.test:8080"
    assert get(server, "http://one.app.test/v2").status == 502
    map_to(server, "*.app.test/v1/*", str(site.port))  # the same source, another target
    assert [mapping["target"] for mapping in call(server, "GET", "mappings")] == [str(site.port)]
    map_to(server, "one.app.test", f"127.0.0.1:{site.port}")
    assert text(server, "http://one.app.test/v2") == "GET /v2 one.app.test"
    call(server, "DELETE", "mappings/one.app.test")
    assert get(server, "http://one.app.test/v2").status == 502
    status, said = refused(server, "DELETE", "mappings/one.app.test")
    assert status == 404 and "one.app.test" in said


def test_a_source_with_slashes_is_removed_however_it_is_written(server):
    for source in ("http://api.app.test:80/v1/*", "api.app.test/v1"):
        for path in (quote(source, safe=""), quote(source, safe="/*:")):
            map_to(server, source, ":1")
            call(server, "DELETE", "mappings/" + path)
            assert call(server, "GET", "mappings") == []


def test_programs_go_by_a_mapping(server, site):
    map_to(server, "http://my.app.test/a", f":{site.port}")
    code = "import urllib.request as u; print(u.urlopen('http://my.app.test/a').read().decode())"
    assert command(server, f'curl -sS http://my.app.test/a; echo; python3 -c "{code}"').split("\n")[:2] == [
        "GET /a my.app.test", "GET /a my.app.test"]
    assert kernels.text(kernels.execute(server, code)) == "GET /a my.app.test\n"
    kernels.close_all(server)
    program = "require('http').get({host: '127.0.0.1', port: new URL(process.env.http_proxy).port, path: 'http://my.app.test/a'}," \
        " (r) => r.on('data', (d) => console.log(String(d))))"
    assert "GET /a my.app.test" in server.post("/v1/nodejs/execute", {"code": program}).text


def test_https_is_mapped_as_a_whole(server, tmp_path):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=shop.test", "-addext",
                    "subjectAltName=DNS:shop.test", "-keyout", tmp_path / "key", "-out", tmp_path / "cert"],
                   check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    with Site({"/": "secure"}) as site:
        site.server.socket = context.wrap_socket(site.server.socket, server_side=True)
        port = site.url.rpartition(":")[2]
        map_to(server, "https://shop.test", f":{port}")
        os.chmod(tmp_path, 0o755)
        got = command(server, f"curl -sS --cacert {tmp_path}/cert https://shop.test/")
        assert got == "secure"
    for source, target in (("https://shop.test/a", ":1"), ("https://shop.test", ":1/a")):
        status, said = refused(server, "POST", "mappings", json={"source": source, "target": target})
        assert status == 422 and "encrypted" in said
    map_to(server, "path.test/a", ":1")
    data, why = diagnose(server, "https://path.test/a")
    assert data["matched_mapping"] is None and data["route"] == "direct" and "encrypted" in why


@pytest.mark.parametrize("source, target", [
    ("", ":1"), ("a b", ":1"), ("ftp://x", ":1"), ("x:0", ":1"), ("x:65536", ":1"), ("x/a*b", ":1"), ("x/?q", ":1"),
    ("x\r\ny", ":1"), ("..", ":1"), ("x" * 3000, ":1"), ("x", ""), ("x", "host"), ("x", ":0"), ("x", ":70000"), ("x", "a b:1"),
    ("x", ":1/a b"), ("x", ":1/\r\nX: y"), ("x", "unix:/tmp/x"), ("x", "u@h:1")])
def test_what_is_no_mapping(server, source, target):
    assert refused(server, "POST", "mappings", json={"source": source, "target": target})[0] == 422
    assert call(server, "GET", "mappings") == []


# --- the upstream proxy, and what does not go there ----------------------------------------------


def test_an_upstream_proxy(server, site):
    with UpstreamProxy(leads_to=site.port) as upstream, UpstreamProxy("other") as other:
        assert use(server, upstream.address) == {"addr": upstream.address, "username": None, "password": None}
        assert text(server, "http://far.test/a?b") .endswith("upstream GET http://far.test/a?b\n")
        peer, head = tunnel(server, "far.test:443")
        with peer:
            assert head.status == 200 and peer.ask(request("/a", host="x")).body == b"GET /a x"
        assert upstream.asked == [("GET", "http://far.test/a?b", None), ("CONNECT", "far.test:443", None)]
        assert text(server, f"{site.url}/a").startswith("GET /a")  # the sandbox itself is not far away
        use(server, other.address)
        assert "other GET" in text(server, "http://far.test/")
        assert "other GET" in command(server, "curl -sS http://far.test/; echo $http_proxy $HTTPS_PROXY $no_proxy")
        call(server, "DELETE", "upstream")
        assert call(server, "GET", "upstream") is None and get(server, "http://far.test/").status == 502


def test_what_the_far_server_says_first_is_not_lost(server):
    """Also where it comes together with the other proxy's answer."""
    with socket.create_server(("127.0.0.1", 0)) as upstream:
        call(server, "PUT", "upstream", json={"server": "127.0.0.1:%d" % upstream.getsockname()[1]})

        def serve():
            peer = upstream.accept()[0]
            peer.recv(65536)
            peer.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n220 ready\r\n")
            peer.close()

        thread = threading.Thread(target=serve)
        thread.start()
        peer, head = tunnel(server, "mail.test:25")
        with peer:
            assert head.status == 200 and peer.rest() == b"220 ready\r\n"
        thread.join()


def test_a_tunnel_ends_when_it_would_go_elsewhere(server, site):
    with UpstreamProxy(leads_to=site.port) as upstream, UpstreamProxy("other", leads_to=site.port) as other:
        use(server, upstream.address)
        (one, _), (two, _) = tunnel(server, "far.test:443"), tunnel(server, "stays.test:443")
        with one, two:
            call(server, "POST", "excludes", json={"pattern": "far.test"})
            assert one.rest() == b""
            assert two.ask(request("/a", host="x")).status == 200
            use(server, other.address)
            assert two.rest() == b""


def test_credentials(server):
    with UpstreamProxy(credentials="me:se@c:ret") as upstream:
        assert use(server, f"me:wrong@{upstream.address}") == {"addr": upstream.address, "username": "me", "password": "***"}
        got = get(server, "http://far.test/")
        assert got.status == 502 and "refuses the credentials" in got.json()["detail"] and "wrong" not in str(got)
        for sent in ("me:se@c:ret", "me:se%40c:ret", "http://me:se@c:ret"):
            use(server, f"{sent}@{upstream.address}")
            assert text(server, "http://far.test/").startswith("<title>upstream")
        assert call(server, "GET", "upstream") == {"addr": upstream.address, "username": "me", "password": "***"}
        assert tunnel(server, "far.test:443")[1].status == 502  # it leads nowhere, but knows us
    assert "ret" not in "".join(line for line in server.log.splitlines() if "proxied" in line)
    assert "c:ret" not in server.get("/v1/sandbox/events").text + server.get("/metrics").text + command(server, "env")


def test_auth_cmd(server, tmp_path, site):
    token, runs = tmp_path / "token", tmp_path / "runs"
    os.chmod(tmp_path, 0o777)
    token.write_text("one")
    os.chmod(token, 0o644)
    ask = f"echo run >> {runs}; [ $(id -u) = {os.geteuid()} ]; echo -n \"user:$(cat {token})\" # secret-word"
    with UpstreamProxy(credentials="user:one", leads_to=site.port) as upstream:
        assert use(server, f"x:y@{upstream.address}", auth_cmd=ask) == {
            "addr": upstream.address, "username": "user", "password": "***"}
        for _ in range(5):
            text(server, "http://far.test/")
        assert runs.read_text() == "run\n"  # they are remembered
        upstream.credentials = "user:two"
        token.write_text("two")
        assert eventually(lambda: get(server, "http://far.test/").status == 200)
        upstream.credentials = "user:three"
        token.write_text("three")

        def connected():
            peer, head = tunnel(server, "far.test:443")
            with peer:
                return head.status == 200 and peer.ask(request("/a", host="x")).status == 200

        assert eventually(connected)
        upstream.credentials = "user:four"
        token.write_text("four")

        def posted():
            with dial(server.proxy) as peer:
                return peer.ask(request("http://far.test/", "POST", body=b"z" * 100000)).body.endswith(b"zzz")

        assert eventually(posted)
        assert 4 <= len(runs.read_text().split()) < 40


@pytest.mark.parametrize("script, why", [("exit 3", "exit code 3"), ("echo nothing", "username:password"), ("true", "username:password"),
                                       ("printf 'a:b\\nX-Evil: 1'", "username:password"), ("printf 'a:b\\0c'", "username:password"),
                                       ("yes a:b", "username:password")])
def test_an_auth_cmd_that_does_not_do(server, script, why):
    status, said = refused(server, "PUT", "upstream", json={"server": "127.0.0.1:9", "auth_cmd": script})
    assert status == 400 and why in said
    assert call(server, "GET", "upstream") is None


def test_an_auth_cmd_is_in_no_command_line(server, tmp_path):
    os.mkfifo(tmp_path / "go")
    os.chmod(tmp_path, 0o777)
    os.chmod(tmp_path / "go", 0o666)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(use, server, "127.0.0.1:9", auth_cmd=f"secret=hunter2; read go <{tmp_path}/go; echo me:$secret")
        with open(tmp_path / "go", "w") as go:
            seen = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in server.children()]
            assert any(b"eval" in line for line in seen) and not any(b"hunter2" in line for line in seen)
            go.write("\n")
        assert asked.result()["username"] == "me"


def test_excludes(server, site):
    with UpstreamProxy() as upstream:
        use(server, upstream.address)
        for pattern in (".in.test", "*.deep.test", "one.test", "10.0.0.0/8", "fd00::/8", "one.test"):
            call(server, "POST", "excludes", json={"pattern": pattern})
        assert call(server, "GET", "excludes") == [".in.test", "*.deep.test", "one.test", "10.0.0.0/8", "fd00::/8"]
        for url, route in (("http://in.test", "direct"), ("http://a.in.test", "direct"), ("https://a.deep.test", "direct"),
                           ("http://deep.test", "upstream"), ("http://ONE.test.", "direct"), ("http://two.one.test", "upstream"),
                           ("http://10.9.8.7/", "direct"), ("http://11.0.0.1/", "upstream"), ("http://[fd12::1]/", "direct"),
                           ("http://xin.test", "upstream"), ("wss://far.test/", "upstream"), ("far.test", "upstream")):
            assert diagnose(server, url)[0]["route"] == route, url
        assert get(server, "http://a.in.test/").status == 502 and upstream.asked == []
        call(server, "DELETE", "excludes", json={"pattern": ".in.test"})
        assert get(server, "http://a.in.test/").status == 200
        assert refused(server, "DELETE", "excludes", json={"pattern": ".in.test"})[0] == 404
        for pattern in ("", "a b", "10.0.0.0/33", "10.0.0.0/x", "x/8", "http://x", "*" * 3000):
            assert refused(server, "POST", "excludes", json={"pattern": pattern})[0] == 422


def test_diagnosing(server, site):
    map_to(server, "app.test", f":{site.port}")
    data, why = diagnose(server, "http://app.test/x?y")
    assert data == {"url": "http://app.test/x?y", "matched_mapping": call(server, "GET", "mappings")[0],
                    "resolved_target": f"127.0.0.1:{site.port}/x?y", "target_reachable": True, "route": "mapping"}
    assert "app.test" in why
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = "127.0.0.1:%d" % taken.getsockname()[1]
        use(server, address)
        data, why = diagnose(server, "https://far.test/")
        assert data == {"url": "https://far.test/", "matched_mapping": None, "resolved_target": address,
                        "target_reachable": False, "route": "upstream"}
        assert address in why
        assert get(server, "http://far.test/").status == 502
    assert refused(server, "GET", "diagnose")[0] == refused(server, "GET", "diagnose?url=ftp://x")[0] == 422


@pytest.mark.parametrize("address", ["", "x", "x:0", "x:70000", "socks5://x:1", "https://x:1", "a b:1", ":p@x:1", "x:1/path", "u:p%0a@x:1",
                                  "u:p\r\n@x:1"])
def test_what_is_no_upstream(server, address):
    status, said = refused(server, "PUT", "upstream", json={"server": address})
    assert status == 422, said


# --- who may call, and what cannot be done by it -------------------------------------------------


def test_a_request_does_not_go_in_circles(server):
    host, port = server.proxy
    for name in (host, "localhost", "0.0.0.0", "127.1"):
        assert get(server, f"http://{name}:{port}/").status == 508
        peer, head = tunnel(server, f"{name}:{port}")
        peer.sock.close()
        assert head.status == 508
    map_to(server, "loop.test", f":{port}")
    assert get(server, "http://loop.test/").status == 508
    use(server, f"{host}:{port}")
    assert get(server, "http://far.test/").status == 508
    with UpstreamProxy(leads_to=port) as upstream:  # by way of another
        use(server, upstream.address)
        peer, head = tunnel(server, "far.test:443")
        with peer:
            assert head.status == 200
            via = upstream.heads[-1]["via"]
            assert peer.ask(request("http://far.test/", headers={"Via": via}, host="x")).status == 508


def test_it_gives_no_more_than_its_callers_have(server, start_server):
    """The server's own listeners see a program, and not the server."""
    with dial(server.proxy) as peer:
        assert peer.ask(request("/v1/sandbox", host=f"127.0.0.1:{server.proxy[1]}")).status == 400
    other = start_server(env={"TINYPROXY_PORT": str(free_port()), "SANDBOX_API_KEY": "key"})
    assert get(server, f"{other.url}/v1/sandbox").status == 401
    with dial(server.proxy) as peer:  # the Host is that of the URL, whatever the header says
        assert peer.ask(request(f"{server.url}/v1/sandbox", host="evil.test")).status == 200
    map_to(server, "evil.test", f":{server.port}")
    assert get(server, "http://evil.test/v1/sandbox").status in (400, 403, 421)


@ROOT_ONLY
def test_another_user_is_refused(server):
    code = f"curl -s -o /dev/null -w '%{{http_code}}' -x http://127.0.0.1:{server.proxy[1]} http://x.test/"
    for uid, status in ((NOBODY, "403"), (os.geteuid(), "502")):
        got = subprocess.run(["bash", "-c", code], user=uid, capture_output=True, text=True, cwd="/", check=False)
        assert got.stdout == status


@ROOT_ONLY
def test_it_connects_as_the_sandbox_user(start_server, tester):  # noqa: F811
    """A server that asks the kernel who calls does not take a program for root."""
    port = free_port()
    server = start_server(["--user", tester], env={"TINYPROXY_PORT": str(port), "WORKSPACE": f"/home/{tester}"})
    server.proxy = ("127.0.0.1", port)
    uid = int(command(server, "id -u"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        peer, _ = tunnel(server, "127.0.0.1:%d" % listener.getsockname()[1])
        with peer, listener.accept()[0] as far:
            ends = [f"0100007F:{name[1]:04X}" for name in (far.getpeername(), far.getsockname())]
            rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
            assert [row[7] for row in rows if row[1:3] == ends] == [str(uid)]


@pytest.mark.parametrize("head", [
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"GET https://x/ HTTP/1.1\r\nHost: x\r\n\r\n", b"GET ftp://x/ HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET http://u:p@x/ HTTP/1.1\r\nHost: x\r\n\r\n", b"GET http://x y/ HTTP/1.1\r\nHost: x\r\n\r\n", b"GET http:// HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET http://x:99999/ HTTP/1.1\r\nHost: x\r\n\r\n", b"CONNECT x HTTP/1.1\r\nHost: x\r\n\r\n", b"CONNECT x:0 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\ny", b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"GET http://x/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", b"\x16\x03\x01\x00\x05hello\r\n\r\n",
    b"GET http://x/ HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", b"GET http://x/ HTTP/1.1\r\nHost: x\r\n folded: y\r\n\r\n",
    b"GET http://" + b"a" * 9000 + b"/ HTTP/1.1\r\nHost: x\r\n\r\n", b"GET http://x/ HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n"])
def test_malformed_requests(server, head):
    with dial(server.proxy) as peer:
        peer.send(head)
        got = peer.answer()
        assert 400 <= got.status < 500, got
        assert peer.rest() == b""


@pytest.mark.parametrize("said", [b"", b"garbage\r\n\r\n", b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
                                  b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
                                  b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200000 + b"\r\n\r\n"])
def test_a_hostile_upstream(server, said):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        use(server, "127.0.0.1:%d" % listener.getsockname()[1])
        for ask in (request("http://far.test/", host="x"), request("far.test:443", "CONNECT", host="x")):
            with dial(server.proxy) as peer:
                peer.send(ask)
                far, _ = listener.accept()
                with far, contextlib.suppress(OSError):
                    far.recv(1000)
                    far.sendall(said)
                    far.shutdown(socket.SHUT_WR)
                    status = peer.head().status
                    assert status == 502 or (ask[:1] == b"C" and b" 200 OK" in said and b"y" * 10 not in said), status


def test_a_hundred_at_once(server, site):
    with UpstreamProxy(leads_to=site.port) as upstream:
        use(server, upstream.address)

        def one(number):
            if number % 2:
                return text(server, f"http://far.test/{number}").endswith(f"/{number}\n")
            peer, head = tunnel(server, f"far{number}.test:443")
            with peer:
                return head.status == 200 and peer.ask(request("/a", host="x")).body == b"GET /a x"

        with ThreadPoolExecutor(100) as pool:
            assert all(pool.map(one, range(200)))


def test_a_crowd_leaves_room_for_others(server, site):
    """Programs that open more than there may be are refused; the API goes on."""
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(dial(server.proxy)) for _ in range(300)]
        for peer in peers:
            with contextlib.suppress(ConnectionError):
                peer.send(request("http://x", host="x")[:-2])  # a head that does not end
        assert server.get("/v1/sandbox").status_code == 200
        assert peers[-1].head().status == 503


def test_a_websocket(server):
    from websockets.sync.server import serve

    with serve(lambda peer: [peer.send(message) for message in peer], "127.0.0.1", 0) as echo:
        threading.Thread(target=echo.serve_forever, daemon=True).start()
        port = echo.socket.getsockname()[1]
        map_to(server, "ws.test", f":{port}")
        for sock in (tunnel(server, "ws.test:80")[0].sock, None):
            with connect("ws://ws.test/", **({"sock": sock} if sock else {"proxy": "http://%s:%d" % server.proxy})) as peer:
                peer.send("hello")
                assert peer.recv() == "hello"
        with dial(server.proxy) as peer:  # as a request with a whole URL
            peer.send(request("http://ws.test/", headers={
                "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
                "Sec-WebSocket-Key": base64.b64encode(b"x" * 16).decode()}, host="ws.test"))
            assert peer.head().status == 101
        echo.shutdown()


# --- what it begins with -------------------------------------------------------------------------


def test_variables(start_server, site):
    with UpstreamProxy(credentials="me:secret") as upstream:
        port = free_port()
        server = start_server(env={
            "TINYPROXY_PORT": str(port), "PROXY_SERVER": f"http://me:secret@{upstream.address}", "PROXY_EXCLUDE": "no.in.test, 10.0.0.0/8",
            "PROXY_INCLUDE": ".in.test,one.test", "PROXY_MAP": f"app.test=:{site.port},wrong,*.b.test/x=127.0.0.1:{site.port}/api/"})
        server.proxy = ("127.0.0.1", port)
        assert "http://a.in.test/" in text(server, "http://a.in.test/") and upstream.asked[-1][2] == "me:secret"
        assert text(server, "http://app.test/a") == "GET /a app.test"
        assert text(server, "http://a.b.test/x/x") == "GET /api/x a.b.test"
        for url, route in (("http://other.test/", "direct"), ("http://no.in.test/", "direct"), ("http://one.test/", "upstream")):
            assert diagnose(server, url)[0]["route"] == route
        assert call(server, "GET", "excludes") == ["no.in.test", "10.0.0.0/8"]
        assert [one["source"] for one in call(server, "GET", "mappings")] == ["app.test", "*.b.test/x"]
        health = call(server, "GET", "health")
        assert not health["healthy"] and health["gost_alive"] and "PROXY_MAP: " in health["inconsistencies"][0]
        env = command(server, "env")
        assert f"http_proxy=http://127.0.0.1:{port}\n" in env and "secret" not in env


def test_the_proxy_of_the_servers_environment(start_server, site):
    """It stays what programs have, until something else is configured; then ours passes on to it."""
    with UpstreamProxy() as outer, UpstreamProxy("other") as other:
        port = free_port()
        env = {"http_proxy": f"http://{outer.address}", "no_proxy": "localhost,.in.test", "TINYPROXY_PORT": str(port)}
        server = start_server(env=env)
        server.proxy = ("127.0.0.1", port)
        assert call(server, "GET", "upstream")["addr"] == outer.address
        show = "echo $http_proxy; curl -sS http://far.test/"
        assert command(server, show).split("\n")[0] == env["http_proxy"]
        map_to(server, "app.test", f":{site.port}")
        said = command(server, show)
        assert said.startswith(f"http://127.0.0.1:{port}\n") and "upstream GET http://far.test/" in said
        assert diagnose(server, "http://a.in.test/")[0]["route"] == "direct"
        use(server, other.address)
        assert "other GET http://far.test/" in command(server, show)
        call(server, "DELETE", "upstream")
        assert command(server, show) == f"http://127.0.0.1:{port}\n" + get(server, "http://far.test/").body.decode()


def test_a_port_that_another_program_has(start_server):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = start_server(env={"TINYPROXY_PORT": str(port), "PROXY_SERVER": "127.0.0.1:9"})
        assert server.logged(f"port {port} of 127.0.0.1")
        health = call(server, "GET", "health")
        assert not health["healthy"] and not health["gost_alive"] and str(port) in health["inconsistencies"][0]
        assert "http_proxy" not in command(server, "env")
    assert eventually(lambda: call(server, "GET", "health")["healthy"])
    assert f"http_proxy=http://127.0.0.1:{port}" in command(server, "env")
    server.take_baseline()


def test_it_ends_with_the_server(start_server):
    port = free_port()
    server = start_server(env={"TINYPROXY_PORT": str(port)})
    server.proxy = ("127.0.0.1", port)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        peer, head = tunnel(server, "127.0.0.1:%d" % listener.getsockname()[1])
        with peer:
            assert head.status == 200
            server.stop()
            assert peer.rest() == b""
    with pytest.raises(ConnectionRefusedError):
        dial(("127.0.0.1", port))


def test_a_client_library(server, site):
    map_to(server, "app.test", f":{site.port}")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": "http://%s:%d" % server.proxy}))
    assert opener.open("http://app.test/a").read() == b"GET /a app.test"
