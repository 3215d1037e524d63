"""Other MCP servers on the network: TLS, proxies, and servers that do not come to an end."""

import base64
import contextlib
import http.server
import json
import socket
import ssl
import subprocess
import threading

import pytest

import mcp_servers
from harness import eventually
from mcp_peer import FIXTURE, Peer, failed


def openssl(*arguments, cwd):
    subprocess.run(["openssl", *map(str, arguments)], cwd=cwd, check=True, capture_output=True)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """A folder with ca.pem, and certificates by what they are for."""
    folder = tmp_path_factory.mktemp("ca")
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=test",
            "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", cwd=folder)
    for name, names, days in [("localhost", "DNS:localhost", 1), ("address", "IP:127.0.0.1", 1),
                              ("elsewhere", "DNS:example.com", 1), ("late", "DNS:localhost", -1)]:
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=x",
                "-keyout", f"{name}.key", "-out", f"{name}.csr", cwd=folder)
        (folder / f"{name}.ext").write_text(f"subjectAltName={names}\n")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                "-days", days, "-extfile", f"{name}.ext", "-out", f"{name}.pem", cwd=folder)
    return folder


@contextlib.contextmanager
def over_https(authority, certificate, answer=lambda message, headers: None, host="localhost"):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / f"{certificate}.pem", authority / f"{certificate}.key")
    with mcp_servers.over_http(answer, context) as server:
        server.url = f"https://{host}:{server.server_port}/mcp"
        yield server


@pytest.fixture
def hub(start_server, tmp_path):
    def start(env=None, **servers):
        file = tmp_path / "mcp-servers.json"
        file.write_text(json.dumps({"mcpServers": servers}))
        return start_server(["--mcp-servers", file], program="fixture", env={**FIXTURE, **(env or {})})

    return start


# --- TLS ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("certificate, host", [("localhost", "localhost"), ("address", "127.0.0.1")])
def test_a_server_over_https(hub, authority, certificate, host):
    with over_https(authority, certificate, host=host) as far:
        server = hub(env={"SSL_CERT_FILE": str(authority / "ca.pem")}, far={"url": far.url})
        with Peer(server) as peer:
            for _ in range(5):
                assert peer.text("far_echo") == "good"
        assert server.at_rest()


def test_large_messages_over_https(hub, authority):
    """Many times what fits into a record, a socket or a pipe, both ways."""
    def answer(message, _):
        if message.get("method") == "tools/call":
            given = message["params"]["arguments"]["text"]
            return 200, [{"id": message["id"], "result": mcp_servers.text(given[::-1])}]

    text = "".join(map(str, range(400_000)))
    with over_https(authority, "localhost", answer) as far:
        with Peer(hub(env={"SSL_CERT_FILE": str(authority / "ca.pem")}, far={"url": far.url})) as peer:
            assert peer.text("far_echo", text=text) == text[::-1]


@pytest.mark.parametrize("certificate, trusted, reason", [
    ("elsewhere", True, "hostname mismatch"), ("late", True, "expired"), ("address", True, "hostname mismatch"),
    ("localhost", False, "certificate")])
def test_a_certificate_that_does_not_hold(hub, authority, certificate, trusted, reason):
    with over_https(authority, certificate) as far:
        env = {"SSL_CERT_FILE": str(authority / ("ca.pem" if trusted else "elsewhere.pem"))}
        with Peer(hub(env=env, far={"url": far.url})) as peer:
            said = failed(peer.call("far_echo"))
            assert "the certificate of localhost is not valid" in said and reason in said
        assert far.posts == [], "and nothing was said to it"


def test_https_where_there_is_none(hub):
    with mcp_servers.over_http(lambda *_: None) as far:
        with Peer(hub(far={"url": far.url.replace("http:", "https:")})) as peer:
            assert "no TLS with 127.0.0.1" in failed(peer.call("far_echo"))


# --- those that take their time ----------------------------------------------------------------


@contextlib.contextmanager
def listener(serve):
    """serve(connection) in a thread for each one; all end with the test."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        connections, threads = [], []

        def accept():
            while True:
                try:
                    connection = listening.accept()[0]
                except OSError:
                    return
                connections.append(connection)
                threads.append(threading.Thread(target=run, args=(connection,)))
                threads[-1].start()

        def run(connection):
            with contextlib.suppress(OSError):
                serve(connection)

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            for one in threads:
                one.join()
            for connection in connections:
                connection.close()


ENDLESS = {
    "nothing": b"", "half a head": b"HTTP/1.1 200 OK\r\nContent-", "many heads": b"HTTP/1.1 100 Continue\r\n\r\n" * 100,
    "half a size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1",
    "half a body": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
    "no end": b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: here\n\n",
}


def answer_all_but_calls(connection, said):
    """As good as any, until a tool is called."""
    with connection.makefile("rb") as lines:
        size = 0
        for line in iter(lines.readline, b""):
            if line.lower().startswith(b"content-length:"):
                size = int(line.split(b":")[1])
            if line == b"\r\n":
                break
        message = json.loads(lines.read(size))
    result = {"initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}},
              "tools/list": {"tools": [mcp_servers.tool("echo")]}}.get(message["method"])
    if message["method"] == "tools/call":
        connection.sendall(said)
        return True
    body = json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": result}).encode() if result else b""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    return False


@pytest.mark.parametrize("kind", ENDLESS)
def test_one_that_does_not_go_on(hub, kind):
    """The call's own time is what counts, wherever the server stops."""
    def serve(connection):
        if answer_all_but_calls(connection, ENDLESS[kind]):
            while connection.recv(65536):
                pass

    with listener(serve) as port:
        server = hub(far={"url": f"http://127.0.0.1:{port}/mcp", "timeout": 1})
        with Peer(server) as peer:
            assert "in time" in failed(peer.call("far_echo"))
        assert server.at_rest()


def test_one_that_does_not_go_on_with_tls(hub):
    def serve(connection):
        connection.recv(65536)
        connection.sendall(b"\x16\x03\x03\x00\x7a\x02")
        while connection.recv(65536):
            pass

    with listener(serve) as port:
        server = hub(far={"url": f"https://127.0.0.1:{port}/mcp"})
        with Peer(server) as peer:
            assert "in time" in failed(peer.call("far_echo"))
        assert server.at_rest()


@pytest.mark.parametrize("answer, reason", [
    (b"", "closed the connection"), (b"nonsense\r\n\r\n", "cannot be reached"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", "ends in the middle"),
    (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n", "HTTP status 302"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", "HTTP status 200")])
def test_one_that_answers_nonsense(hub, answer, reason):
    def serve(connection):
        if answer_all_but_calls(connection, answer):
            connection.shutdown(socket.SHUT_RDWR)

    with listener(serve) as port:
        server = hub(far={"url": f"http://127.0.0.1:{port}/mcp"})
        with Peer(server) as peer:
            assert reason in failed(peer.call("far_echo"))
        assert server.at_rest()


def test_a_call_that_is_cancelled_lets_go_of_its_server(hub):
    left = threading.Event()

    def serve(connection):
        if answer_all_but_calls(connection, ENDLESS["no end"]):
            while connection.recv(65536):
                pass
            left.set()

    with listener(serve) as port, Peer(hub(far={"url": f"http://127.0.0.1:{port}/mcp"})) as peer:
        names = eventually(lambda: [tool for tool in peer.ask("tools/list")["tools"] if tool["name"] == "far_echo"])
        assert names
        message = peer.build("tools/call", {"name": "far_echo"}, meta={"progressToken": 1})
        with peer.stream(message) as events:
            next(iter(events))
            peer.tell("notifications/cancelled", {"requestId": message["id"]})
            assert left.wait(60), "its server still waits"


# --- proxies -----------------------------------------------------------------------------------


@contextlib.contextmanager
def proxy(status=200):
    """One that notes what it is asked for."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            server.asked.append((self.command, self.path, self.headers["Proxy-Authorization"]))
            body = self.rfile.read(int(self.headers["Content-Length"]))
            host, _, port = self.path.split("/")[2].partition(":")
            with socket.create_connection((host, int(port))) as to:
                target = "/" + self.path.split("/", 3)[3]
                to.sendall(f"POST {target} HTTP/1.0\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
                while data := to.recv(65536):
                    self.wfile.write(data)
            self.close_connection = True

        def do_CONNECT(self):
            server.asked.append((self.command, self.path, self.headers["Proxy-Authorization"]))
            self.send_response(status)
            self.end_headers()
            if status != 200:
                return
            host, _, port = self.path.partition(":")
            with socket.create_connection((host, int(port))) as to:
                back = threading.Thread(target=copy, args=(to, self.connection))
                back.start()
                copy(self.connection, to)
                back.join()

        def log_message(self, *_):
            pass

    def copy(a, b):
        with contextlib.suppress(OSError):
            while data := a.recv(65536):
                b.sendall(data)
            b.shutdown(socket.SHUT_WR)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.asked = []
    with mcp_servers.serving(server):
        yield server


def test_a_proxy_for_http(hub):
    with mcp_servers.over_http(lambda *_: None) as far, proxy() as between:
        env = {"http_proxy": f"http://me:se%40cret@127.0.0.1:{between.server_port}"}
        with Peer(hub(env=env, far={"url": far.url + "?a=b"})) as peer:
            assert peer.text("far_echo") == "good"
        credentials = "Basic " + base64.b64encode(b"me:se@cret").decode()
        assert set(between.asked) == {("POST", far.url + "?a=b", credentials)}


def test_a_proxy_for_https(hub, authority):
    with over_https(authority, "localhost") as far, proxy() as between:
        env = {"HTTPS_PROXY": f"127.0.0.1:{between.server_port}", "SSL_CERT_FILE": str(authority / "ca.pem")}
        with Peer(hub(env=env, far={"url": far.url})) as peer:
            assert peer.text("far_echo") == "good"
        assert set(between.asked) == {("CONNECT", f"localhost:{far.server_port}", None)}


@pytest.mark.parametrize("excepted", ["*", "127.0.0.1", "other, 127.0.0.1:{port}", ".0.0.1"])
def test_no_proxy(hub, excepted):
    with mcp_servers.over_http(lambda *_: None) as far:
        env = {"http_proxy": "http://127.0.0.1:9", "no_proxy": excepted.format(port=far.server_port)}
        with Peer(hub(env=env, far={"url": far.url})) as peer:
            assert peer.text("far_echo") == "good"


@pytest.mark.parametrize("env, reason", [
    ({"http_proxy": "http://127.0.0.1:9", "no_proxy": "27.0.0.1,127.0.0.1:1,x"}, "127.0.0.1:9"),
    ({"all_proxy": "socks5://127.0.0.1:9"}, "the proxy 'socks5://…' is not supported"),
    ({"http_proxy": "http://u:secret@bad host/"}, "names no proxy"),
    ({"HTTP_PROXY": "http://127.0.0.1:9"}, None)])
def test_a_proxy_that_does_not_do(hub, env, reason):
    with mcp_servers.over_http(lambda *_: None) as far, Peer(hub(env=env, far={"url": far.url})) as peer:
        if reason is None:
            assert peer.text("far_echo") == "good"
        else:
            said = failed(peer.call("far_echo"))
            assert reason in said and "secret" not in said and far.posts == []


def test_a_proxy_that_refuses(hub, authority):
    with over_https(authority, "localhost") as far, proxy(status=407) as between:
        env = {"https_proxy": f"http://127.0.0.1:{between.server_port}"}
        with Peer(hub(env=env, far={"url": far.url})) as peer:
            assert "the proxy answered 407" in failed(peer.call("far_echo"))
