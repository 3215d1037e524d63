"""Previews as routes: deadlines, what the program's answers may say, how they are counted."""

import re
import socket
import threading

import pytest

from harness import eventually, request

pytestmark = pytest.mark.server(env={"AIO_PREVIEW_TIMEOUT": "1", "AIO_BODY_TIMEOUT": "1"})


@pytest.fixture
def program():
    """A program on a port; what it does with each connection is up to the test."""
    listener = socket.create_server(("127.0.0.1", 0))
    conns = []

    class Program:
        port = listener.getsockname()[1]
        does = staticmethod(lambda conn: None)

    def serve():
        while True:
            try:
                conn, _ = listener.accept()
            except OSError:
                return
            conns.append(conn)  # stays open
            Program.does(conn)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield Program
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    for conn in conns:
        conn.close()
    thread.join(10)


def head_of(conn):
    head = b""
    while b"\r\n\r\n" not in head and (piece := conn.recv(1)):
        head += piece
    return head.decode()


def test_a_program_gets_no_power_over_our_pages(server, program):
    """Below /proxy and /absproxy its pages have the origin of the API; at a name of its own they have theirs."""
    program.does = answers("Service-Worker-Allowed: /", 'Clear-Site-Data: "*"', "X-Own: 1",
                           f"Set-Cookie: aio_box_{server.port}=x; Path=/", "Set-Cookie: own=1")
    for path in (f"/proxy/{program.port}/sw.js", f"/absproxy/{program.port}/sw.js"):
        got = server.get(path)
        assert got.status_code == 200 and got.headers["x-own"] == "1"
        assert "service-worker-allowed" not in got.headers and "clear-site-data" not in got.headers
        assert got.headers.get_list("set-cookie") == ["own=1"]
        assert server.get(path, headers={"Service-Worker": "script"}).status_code == 403
    own = server.get("/sw.js", headers={"Host": f"{program.port}-localhost:8080", "Service-Worker": "script"})
    assert own.status_code == 200 and own.headers["service-worker-allowed"] == "/"
    assert own.headers.get_list("set-cookie") == ["own=1"]
    server.client.cookies.clear()


def answers(*lines, body=b"hi"):
    """What sends one answer with these headers."""
    head = "\r\n".join(["HTTP/1.1 200 OK", f"Content-Length: {len(body)}", "Connection: close", *lines, "", ""])

    def does(conn):
        head_of(conn)
        conn.sendall(head.encode() + body)

    return does


def test_a_program_that_never_answers(server, program):
    got = server.get(f"/proxy/{program.port}/")
    assert got.status_code == 504
    assert got.json()["detail"] == f"the program on port {program.port} did not answer within 1 s"


def test_people_see_a_page_about_a_program_that_never_answers(server, program):
    got = server.get(f"/proxy/{program.port}/", headers={"Accept": "text/html"})
    assert got.status_code == 504 and got.headers["content-type"] == "text/html; charset=utf-8"
    assert f"The program on port {program.port} did not answer within 1 s." in got.text and 'id="again"' not in got.text


def test_a_program_that_never_finishes_its_head(server, program):
    program.does = staticmethod(lambda conn: conn.sendall(b"HTTP/1.1 200 OK\r\nX: y"))
    assert server.get(f"/proxy/{program.port}/").status_code == 504


def test_a_program_that_never_accepts(server):
    """Its queue is full: the kernel drops who wants to connect."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port, waiting = listener.getsockname()[1], []
        try:
            for _ in range(4):
                waiting.append(one := socket.socket())
                one.setblocking(False)
                one.connect_ex(("127.0.0.1", port))
            got = server.get(f"/proxy/{port}/")
            assert got.status_code == 504 and str(port) in got.json()["detail"]
        finally:
            for one in waiting:
                one.close()


def test_a_program_that_accepts_and_closes(server, program):
    program.does = staticmethod(lambda conn: conn.close())
    got = server.get(f"/proxy/{program.port}/")
    assert got.status_code == 502 and "without an answer" in got.json()["detail"]


def test_a_body_that_does_not_arrive_is_not_the_programs_fault(server, program):
    with server.connect() as peer:
        peer.send(request(f"/proxy/{program.port}/", "POST", headers={"Content-Length": "10"}) + b"part")
        got = peer.answer()
        assert got.status == 408 and peer.ended()


def test_an_answer_that_began_may_take_its_time(server, program):
    go_on = threading.Event()

    def does(conn):
        head_of(conn)
        conn.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n")
        go_on.wait(30)
        conn.sendall(b"2\r\ncd\r\n0\r\n\r\n")

    program.does = staticmethod(does)
    with server.connect() as peer:
        peer.send(request(f"/proxy/{program.port}/"))
        assert peer.head().status == 200
        threading.Timer(2, go_on.set).start()  # longer than it may take to begin
        body = b""
        while not body.endswith(b"0\r\n\r\n"):
            body += peer.sock.recv(4096)
        assert body.endswith(b"2\r\ncd\r\n0\r\n\r\n")


def test_interim_answers_come_through(server, program):
    def does(conn):
        head_of(conn)
        conn.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 Fine\r\nContent-Length: 2\r\n\r\nhi")

    program.does = staticmethod(does)
    with server.connect() as peer:
        peer.send(request(f"/proxy/{program.port}/"))
        hints = peer.head()
        assert (hints.status, hints["link"]) == (103, "</a>")
        assert peer.answer().body == b"hi"


def test_an_upgrade_passes_bytes_and_half_closes(server, program):
    def does(conn):
        head_of(conn)
        conn.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
        while piece := conn.recv(4096):
            conn.sendall(piece)
        conn.sendall(b"end")
        conn.shutdown(socket.SHUT_WR)

    program.does = staticmethod(does)
    with server.connect() as peer:
        peer.send(request(f"/proxy/{program.port}/", headers={"Connection": "Upgrade", "Upgrade": "echo"}))
        assert peer.head().status == 101
        peer.send(b"ping")
        got = b""
        while got != b"ping":
            got += peer.sock.recv(4)
        peer.sock.shutdown(socket.SHUT_WR)
        while piece := peer.sock.recv(16):
            got += piece
        assert got == b"pingend"


def counted(server, route):
    found = re.search(rf'aio_requests_total{{method="\*",route="{re.escape(route)}",status="2xx"}} (\d+)', server.get("/metrics").text)
    return int(found[1]) if found else 0


def test_previews_are_counted_by_their_route(server, program):
    program.does = staticmethod(answers())
    port = program.port
    for route, how in [
        ("/proxy/{port}/*", {"target": f"/proxy/{port}/a"}), ("/proxy/{port}", {"target": f"/proxy/{port}"}),
        ("/absproxy/{port}/*", {"target": f"/absproxy/{port}/a"}),
        ("preview/{port}", {"target": "/a", "host": f"{port}-localhost"}),
        ("preview/{port}", {"target": "/a", "headers": {"x-aio-proxy-port": port}}),
    ]:
        before = counted(server, route)
        with server.connect() as peer:
            assert peer.ask(request(**how)).body == b"hi"
        assert eventually(lambda: counted(server, route) == before + 1)


def test_a_path_reaches_the_program_as_it_came(server, program):
    """However odd or long: it is the program's."""
    heads = []

    def does(conn):
        heads.append(head_of(conn))
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")

    program.does = staticmethod(does)
    for path in ("/%zz%00/../a//b", "/" + "a" * 10_000, "/?x=%zz", "/a;b=c?d"):
        with server.connect() as peer:
            assert peer.ask(request(f"/proxy/{program.port}{path}")).status == 200
        assert heads.pop().startswith(f"GET {path} HTTP/1.1\r\n")


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"])
def test_any_method_is_the_programs(server, program, method):
    program.does = staticmethod(answers())
    assert server.request(method, f"/proxy/{program.port}/x").text == "hi"


@pytest.fixture
def on_a_socket(tmp_path, start_server):
    """A server whose /other/ is a program on a Unix socket, and the heads that it saw."""
    path = str(tmp_path / "s")
    heads = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()

        def serve():
            while True:
                try:
                    conn, _ = listener.accept()
                except OSError:
                    return
                with conn:
                    heads.append(head_of(conn))
                    conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield start_server(program="fixture", env={"FIXTURE_UPSTREAM": path, "SANDBOX_API_KEY": "the-key"}), heads
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def test_a_route_to_a_unix_socket(on_a_socket):
    server, heads = on_a_socket
    assert server.get("/other/x").status_code == 401 and heads == []
    for path in ("/other/x?y", "/other/", "/other/a/b"):
        assert server.get(path, headers={"X-AIO-API-Key": "the-key"}).text == "hi"
        assert heads.pop().startswith(f"GET {path.removeprefix('/other')} HTTP/1.1\r\n") and heads == []


def test_a_socket_that_nobody_listens_on(start_server, tmp_path):
    server = start_server(program="fixture", env={"FIXTURE_UPSTREAM": str(tmp_path / "none")})
    got = server.get("/other/x")
    assert got.status_code == 502 and "none" in got.json()["detail"]


def test_an_upstream_that_cannot_be_had(fixture_server):
    got = fixture_server.get("/other/x")
    assert got.status_code == 503 and got.json() == {"detail": "the other server did not start"}


def test_previews_are_not_documented_operations(server):
    paths = server.get("/openapi.json").json()["paths"]
    assert not any(path.startswith(("/proxy", "/absproxy")) or "preview" in path for path in paths)


def said_by(server, program, *lines, path="/x", **more):
    """The Location and Set-Cookie that come out of what the program says below /proxy/PORT."""
    program.does = staticmethod(answers(*lines))
    with server.connect() as peer:
        got = peer.ask(request(f"/proxy/{program.port}{path}", **more))
    return [value for name, value in got.headers if name.lower() in ("location", "set-cookie")]


@pytest.mark.parametrize("said, below", [
    ("/login", True), ("/", True), ("/a?b=/c#d", True), ("login", False), ("?a", False), ("//other/x", False),
    ("https://other.example/x", False), ("/proxy/{port}/x", False), ("/proxy/{port}", False), ("/proxy/{port}0/x", True),
])
def test_a_location_stays_below_the_prefix(server, program, said, below):
    said = said.format(port=program.port)
    assert said_by(server, program, f"Location: {said}") == [f"/proxy/{program.port}{said}" if below else said]


def test_a_location_at_the_servers_own_address_too(server, program):
    """Programs make absolute URLs of the Host that they see."""
    host = f"{server.host}:{server.port}"
    for said, path in ((f"http://{host}/a?b", "/a?b"), (f"https://{host}/", "/"), (f"http://{host}", "")):
        assert said_by(server, program, f"Location: {said}", host=host) == [f"/proxy/{program.port}{path}"]
    for said in (f"http://{host}0/a", f"http://{host}.evil.example/a", f"http://{host}@evil.example/"):
        assert said_by(server, program, f"Location: {said}", host=host) == [said]


@pytest.mark.parametrize("said, seen", [
    ("a=1; Path=/", "a=1; Path={prefix}"), ("a=1; path=/b; Secure", "a=1; Path={prefix}/b; Secure"), ("a=1", "a=1"),
    ("a=1; Path=b", "a=1; Path=b"), ("Path=/; Path=/", "Path=/; Path={prefix}"), ("a=1;Path = /", "a=1; Path={prefix}"),
    ("__Host-a=1; Path=/; Secure", "__Host-a=1; Path=/; Secure"), ("a=1; Domain=localhost", "a=1"), ("aio=1", "aio=1"),
    ("a=1; Path={prefix}/b", "a=1; Path={prefix}/b"),
])
def test_a_cookie_stays_below_the_prefix(server, program, said, seen):
    prefix = f"/proxy/{program.port}"
    assert said_by(server, program, f"Set-Cookie: {said.format(prefix=prefix)}") == [seen.format(prefix=prefix)]


def test_a_program_that_sees_whole_paths_answers_with_them(server, program):
    program.does = staticmethod(answers("Location: /login", "Set-Cookie: a=1; Path=/"))
    for how in ({"target": f"/absproxy/{program.port}/x"}, {"target": "/x", "host": f"{program.port}-localhost"}):
        with server.connect() as peer:
            got = peer.ask(request(**how))
        assert got["location"] == "/login" and got["set-cookie"] == "a=1; Path=/"


# --- streams that are used again ---------------------------------------------------------------


@pytest.fixture
def keeping():
    """A program that keeps its connections: what each was asked. `says` may end one."""
    listener = socket.create_server(("127.0.0.1", 0))

    class Program:
        port = listener.getsockname()[1]
        asked = []  # for each connection
        says = staticmethod(lambda number, count: b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")

    def talk(conn, number):
        with conn:
            while head := head_of(conn):
                Program.asked[number].append(head.split()[0])
                if "content-length" in head.lower():
                    conn.recv(100)
                if not (said := Program.says(number, len(Program.asked[number]))):
                    return
                conn.sendall(said)

    def serve():
        while True:
            try:
                conn, _ = listener.accept()
            except OSError:
                return
            Program.asked.append([])
            threading.Thread(target=talk, args=(conn, len(Program.asked) - 1), daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield Program
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(10)


def burst(peer, program, count, method="GET"):
    """Requests that come at once: no moment passes between them in which the connection would be parked."""
    body = b"" if method == "GET" else b"x"
    peer.send(request(f"/proxy/{program.port}/", method, body=body) * count)
    return [(answer := peer.answer(method)).status for _ in range(count)], answer.body


def test_a_stream_is_used_again_by_the_same_client_only(server, keeping):
    with server.connect() as one, server.connect() as other:
        assert burst(one, keeping, 3) == ([200] * 3, b"hi")
        assert keeping.asked == [["GET"] * 3]
        assert burst(other, keeping, 2) == ([200] * 2, b"hi")
        assert keeping.asked == [["GET"] * 3, ["GET"] * 2]


def test_what_may_not_be_repeated_gets_a_stream_of_its_own(server, keeping):
    """The program may end one at the very moment at which it is used again."""
    with server.connect() as peer:
        peer.send(request(f"/proxy/{keeping.port}/") + request(f"/proxy/{keeping.port}/", "DELETE"))
        assert peer.answer().status == 200 and peer.answer().status == 200
    assert keeping.asked == [["GET"], ["DELETE"]]


def test_a_stream_that_the_program_ends_is_replaced(server, keeping):
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
    keeping.says = staticmethod(lambda number, count: answer if count == 1 else b"")  # without a word
    with server.connect() as peer:
        assert burst(peer, keeping, 3) == ([200] * 3, b"hi")
    assert keeping.asked == [["GET", "GET"], ["GET", "GET"], ["GET"]]


def test_a_program_that_never_has_a_word_is_asked_once(server, keeping):
    keeping.says = staticmethod(lambda number, count: b"")
    with server.connect() as peer:
        assert peer.ask(request(f"/proxy/{keeping.port}/")).status == 502
    assert keeping.asked == [["GET"]]


def test_an_answer_that_nobody_asked_for_answers_nothing(server, keeping):
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
    keeping.says = staticmethod(lambda number, count: answer + b"hi" + answer + b"no")
    with server.connect() as peer:
        for _ in range(3):
            assert peer.ask(request(f"/proxy/{keeping.port}/")).body == b"hi"


def test_an_answer_that_says_it_is_the_last_ends_the_stream(server, keeping):
    keeping.says = staticmethod(lambda number, count: b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi")
    with server.connect() as peer:
        assert burst(peer, keeping, 2) == ([200] * 2, b"hi")
    assert keeping.asked == [["GET"], ["GET"]]


def test_a_client_that_rests_holds_no_stream(server, keeping):
    with server.connect() as peer:
        assert peer.ask(request(f"/proxy/{keeping.port}/")).status == 200
        assert eventually(lambda: not any(f":{keeping.port:04X} 01" in line for line in established()))
        assert peer.ask(request(f"/proxy/{keeping.port}/")).status == 200
    assert keeping.asked == [["GET"], ["GET"]]


def established():
    """Lines of /proc/net/tcp with the remote port and state behind each other."""
    with open("/proc/net/tcp") as file:
        return [" ".join(line.split()[2:4]) for line in file]


def test_a_large_upload_that_waits_for_100_continue(server, program):
    """The program's own: nothing of the body is sent before."""
    size, got = 3_000_000, []

    def does(conn):
        head_of(conn)
        conn.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        data = b""
        while len(data) < size and (piece := conn.recv(1 << 16)):
            data += piece
        got.append(data)
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")

    program.does = staticmethod(does)
    with server.connect() as peer:
        peer.send(request(f"/proxy/{program.port}/", "PUT", {"Content-Length": str(size), "Expect": "100-continue"}))
        assert peer.head().status == 100
        peer.send(b"x" * size)
        assert peer.answer().body == b"hi" and got == [b"x" * size]
