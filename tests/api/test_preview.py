"""Programs that listen in the sandbox, through its server: four ways to name their port."""

import socket
import threading

import pytest

from harness import request


@pytest.fixture
def program():
    """A program that tells what it was asked; b"" once it is to say nothing."""
    listener = socket.create_server(("127.0.0.1", 0))
    heads, answers = [], []

    def serve():
        while True:
            try:
                conn, _ = listener.accept()
            except OSError:
                return
            with conn:
                head = b""
                while b"\r\n\r\n" not in head and (piece := conn.recv(1)):
                    head += piece
                heads.append(head.decode())
                conn.sendall(answers.pop(0) if answers else b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname()[1], heads, answers
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(10)


def test_four_ways_to_a_port(server, program):
    port, heads, _ = program
    with server.connect() as peer:  # one connection for all: it is kept
        for ask, seen in [
            (request("/a?b", host=f"{port}-localhost:8080"), "/a?b"),
            (request("/a", headers={"x-aio-proxy-port": port}), "/a"),
            (request(f"/proxy/{port}/a?b"), "/a?b"), (request(f"/proxy/{port}"), "/"),
            (request(f"/absproxy/{port}/a"), f"/absproxy/{port}/a"),
        ]:
            got = peer.ask(ask)
            assert (got.status, got.body) == (200, b"hi")
            assert heads[-1].startswith(f"GET {seen} HTTP/1.1\r\n") and "proxy-port" not in heads[-1].lower()


@pytest.mark.parametrize("path", ["/proxy/0/x", "/proxy/65536/x", "/proxy/12x/y", "/proxy//x", "/proxy/"])
def test_what_is_no_port_is_no_route(server, path):
    assert server.get(path).status_code == 404


@pytest.mark.parametrize("said", [b"", b"garbage", b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
                                  b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx"])
def test_a_program_that_does_not_speak_http(server, program, said):
    port, _, answers = program
    answers.append(said)
    assert server.get(f"/proxy/{port}/").status_code == 502


def test_nothing_listens(server):
    with socket.socket() as taken:  # by us, that nobody else may listen there
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        got = server.get(f"/proxy/{port}/")
    assert got.status_code == 502 and str(port) in got.json()["detail"]


def test_keys_of_the_sandbox_do_not_reach_the_program(start_server, program):
    port, heads, _ = program
    server = start_server(env={"SANDBOX_API_KEY": "the-key"})
    assert server.get(f"/proxy/{port}/").status_code == 401 and heads == []
    for more in ({"headers": {"Authorization": "Bearer the-key"}}, {"headers": {"X-AIO-API-Key": "the-key"}},
                 {"params": {"api_key": "the-key", "x": "1"}}):
        assert server.get(f"/proxy/{port}/", **more).text == "hi"
        assert "the-key" not in heads[-1]
    server.get(f"/proxy/{port}/?api_key=the-key", headers={"Authorization": "Bearer the-programs-own"})
    assert "Bearer the-programs-own" in heads[-1]


def test_keys_in_addresses_do_not_reach_the_programs_pages(start_server, program):
    """Neither by the address that a browser opens, nor by that of the page before."""
    port, heads, _ = program
    server = start_server(env={"SANDBOX_API_KEY": "the-key"})
    for opened in ({"Accept": "text/html"}, {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Site": "none"}):
        got = server.get(f"/proxy/{port}/a?x=1&api_key=the-key", headers=opened)
        assert got.status_code == 303 and got.headers["referrer-policy"] == "no-referrer" and heads == []
        where = got.headers["location"]
        assert "the-key" not in where and where.startswith(f"//{server.host}:{server.port}/proxy/{port}/a?x=1&ticket=")
        assert server.get(where.partition(str(server.port))[2], headers=opened).text == "hi"
        assert heads.pop().startswith("GET /a?x=1 HTTP/1.1\r\n")
    for value in ("the-key", "the%2Dkey"):
        server.get(f"/proxy/{port}/", headers={
            "X-AIO-API-Key": "the-key", "Referer": f"http://localhost/?api_key={value}&a=b", "Cookie": "k=the-key; c=1"})
        assert "Referer: http://localhost/?a=b\r\n" in heads[-1] and "Cookie: c=1\r\n" in heads[-1]


def test_only_an_empty_preflight_reaches_a_program_without_credentials(start_server, program):
    port, heads, _ = program
    server = start_server(env={"SANDBOX_API_KEY": "the-key"})
    asks = {"Origin": "https://example.com", "Access-Control-Request-Method": "PUT"}
    assert server.request("OPTIONS", f"/proxy/{port}/", headers=asks, content=b"a body").status_code == 401
    assert server.request("OPTIONS", f"/proxy/{port}/", headers=asks, content=(b"in chunks",)).status_code == 401
    assert heads == []
    socket = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
              "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
    with server.connect() as peer:
        asked = request(f"/proxy/{port}/", "OPTIONS", {**asks, **socket, "Origin": server.url}, host=f"{server.host}:{server.port}")
        assert peer.ask(asked).status == 401
    assert heads == []
    assert server.request("OPTIONS", f"/proxy/{port}/", headers=asks).text == "hi"
