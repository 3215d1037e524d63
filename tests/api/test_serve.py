"""The command line, starting, listening and stopping."""

import contextlib
import json
import os
import random
import re
import signal
import socket
import stat
import subprocess
import threading
import time

import pytest

from harness import ROOT, clean_environment, eventually, program, request


@pytest.fixture
def run(tmp_path):
    """run("serve", "--nonsense") runs aio to its end."""

    def run(*args, env=None, **more):
        return subprocess.run([program("aio"), *args], env=clean_environment(tmp_path, env), cwd=tmp_path,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, **more)

    return run


@pytest.fixture
def refused(run):
    """Runs `aio serve`, which must refuse with one line, and returns that line."""

    def refused(*args, env=None, **more):
        result = run("serve", *args, env=env, **more)
        lines = result.stderr.splitlines()
        assert result.returncode == 2 and len(lines) == 1, result
        assert lines[0].startswith("aio serve: ") and result.stdout == ""
        return lines[0]

    return refused


@pytest.fixture
def taken():
    """A port that somebody else listens on."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


# --- the command line --------------------------------------------------------------------------


def test_version(run):
    for flag in ("--version", "-V"):
        result = run(flag)
        assert result.returncode == 0 and re.fullmatch(r"aio \d+\.\d+\.\d+\n", result.stdout)


def test_help(run):
    for args in (["help"], ["--help"], ["-h"], []):
        result = run(*args)
        assert result.returncode == 0 and result.stderr == ""
        for command in ("serve", "openapi", "help"):
            assert re.search(rf"^  {command} ", result.stdout, re.M)


def test_unknown_command(run):
    result = run("fly")
    assert result.returncode == 2 and result.stdout == ""
    assert len(result.stderr.splitlines()) == 1 and "'fly'" in result.stderr


def table():
    """Flag, environment variable, default: from the source, which is what --help has to tell."""
    text = (ROOT / "src/config/config.c").read_text()
    rows = re.findall(r'\{ (?:NULL|"([\w-]+)"), (?:NULL|"(\w+)"), OPT_\w+, AT\(\w+\), (?:NULL|"([^"]*)")', text)
    assert len(rows) > 15
    return rows


def test_help_of_serve_is_complete(run):
    result = run("serve", "--help")
    assert result.returncode == 0 and result.stderr == ""
    for flag, variable, default in table():
        (entry,) = re.findall(rf"^  (?:--{flag}\b.*)" if flag else rf"^  {variable}=.*", result.stdout, re.M)
        assert variable in entry
        assert not default or f"(default {default})" in entry
    assert all(len(line) <= 100 for line in result.stdout.splitlines())


def test_every_option_is_understood(start_server, tmp_path):
    """Each flag of the table, with its default where it has one. (The desktop of --browser-ready would come later.)"""
    args = []
    for flag, _, default in table():
        if flag and flag not in ("listen", "user", "domain", "cors-origins", "workspace"):
            args += {"false": [f"--{flag}"], "true": [f"--{flag}=true"]}.get(default, [f"--{flag}", default])
    server = start_server([*args, "--domain=example.com", "--cors-origins", "https://a.example,https://b.example",
                           "--workspace", str(tmp_path / "made")], env={"DISABLE_BROWSER": "true"})
    assert (tmp_path / "made").is_dir(), "the workspace is made when missing"
    assert server.get("/health").status_code == 200


def test_environment_is_understood(start_server):
    env = {variable: default for flag, variable, default in table() if flag and default}
    server = start_server(env={**env, "AIO_LOG_FORMAT": "json", "AIO_MAX_BODY": "2k", "AIO_HEAD_TIMEOUT": "0.5"},
                          program="fixture")
    assert server.logged("\n")
    assert json.loads(server.log.splitlines()[0])["event"] == "request"
    assert server.post("/echo", {"text": "t", "free": "x" * 3000}).status_code == 413


def test_flag_wins_over_environment(start_server):
    server = start_server(["--log-format=text"], env={"AIO_LOG_FORMAT": "json"})
    assert server.logged(" info request ") and not server.log.startswith("{")


def test_openapi(run):
    result = run("openapi")
    document = json.loads(result.stdout)
    assert result.returncode == 0 and result.stderr == ""
    assert document["openapi"].startswith("3.1") and "/health" in document["paths"]
    assert document == json.loads(run("openapi").stdout), "the same each time"


def test_openapi_is_valid(run):
    validator = pytest.importorskip("openapi_spec_validator", reason="openapi-spec-validator is not installed")
    validator.validate(json.loads(run("openapi").stdout))


def test_openapi_is_what_the_server_says(run, server):
    document = json.loads(run("openapi").stdout)
    assert server.get("/openapi.json").json() == document
    assert server.get("/v1/openapi.json").json() == document


def test_fixture_document_is_valid(fixture_server):
    validator = pytest.importorskip("openapi_spec_validator", reason="openapi-spec-validator is not installed")
    validator.validate(fixture_server.get("/openapi.json").json())


def test_openapi_takes_no_arguments(run):
    assert run("openapi", "--help").returncode == 0
    assert run("openapi", "nonsense").returncode == 2


def test_output_that_nobody_takes(run):
    with open("/dev/full", "w") as full:
        result = subprocess.run([program("aio"), "openapi"], stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert result.returncode == 1


# --- refusing to start -------------------------------------------------------------------------


@pytest.mark.parametrize("args, word", [
    (["--nonsense"], "--nonsense"),
    (["--nonsense=5"], "--nonsense"),
    (["--max-hea", "5K"], "--max-hea"),
    (["-x"], "-x"),
    (["nonsense"], "nonsense"),
    (["--", "nonsense"], "nonsense"),
    (["--max-head"], "--max-head"),
    (["--listen"], "--listen"),
    (["--max-head", "much"], "much"),
    (["--max-head", "-1"], "-1"),
    (["--max-head", ""], "--max-head"),
    (["--max-head", "5X"], "5X"),
    (["--max-head", "1"], "1024"),
    (["--max-head", "1e99"], "1e99"),
    (["--max-head", "nan"], "nan"),
    (["--max-connections", "0"], "--max-connections"),
    (["--max-connections", "2.5"], "2.5"),
    (["--idle-timeout", "inf"], "inf"),
    (["--idle-timeout", "0"], "0.1"),
    (["--log-level", "loud"], "loud"),
    (["--log-format", ""], "--log-format"),
    (["--insecure=perhaps"], "perhaps"),
    (["--ticket-ttl", "0"], "--ticket-ttl"),
    (["--user", "nobody-of-that-name"], "nobody-of-that-name"),
    (["--workspace", "relative"], "relative"),
    (["--workspace", "/proc/nowhere"], "/proc/nowhere"),
    (["--workspace", "/etc/passwd"], "/etc/passwd"),
])
def test_bad_option(refused, args, word):
    assert word in refused(*([] if "--listen" in args else ["--listen", "127.0.0.1:0"]), *args)


@pytest.mark.parametrize("env, word", [
    ({"PUBLIC_PORT": "http"}, "PUBLIC_PORT"),
    ({"PUBLIC_PORT": "65536"}, "65535"),
    ({"PUBLIC_PORT": "0"}, "PUBLIC_PORT"),
    ({"AIO_MAX_BODY": "x"}, "AIO_MAX_BODY"),
    ({"AIO_LOG_LEVEL": "all"}, "AIO_LOG_LEVEL"),
    ({"TICKET_TTL_SECONDS": "soon"}, "TICKET_TTL_SECONDS"),
    ({"SANDBOX_API_KEY": "  "}, "SANDBOX_API_KEY"),
    ({"AUTH_TOKEN": "\n"}, "AUTH_TOKEN"),
    ({"JWT_PUBLIC_KEY": "nonsense"}, "JWT_PUBLIC_KEY"),
    ({"JWT_PUBLIC_KEY": "bm9uc2Vuc2U="}, "JWT_PUBLIC_KEY"),
    ({"JWT_PUBLIC_KEY": "LS0tLS1CRUdJTiBQVUJMSUMgS0VZLS0tLS0="}, "JWT_PUBLIC_KEY"),
])
def test_bad_environment(refused, env, word):
    listen = ["--listen", "127.0.0.1:0"] if "PUBLIC_PORT" not in env else []
    assert word in refused(*listen, env=env)


@pytest.mark.parametrize("listen", [
    "", "nonsense", "localhost", "127.0.0.1", ":http", "127.0.0.1:", "127.0.0.1:-1", "127.0.0.1:65536", "127.0.0.1:99999999999",
    "127.0.0.1:80x", "[::1]", "::1:x", "unix:", "unix:" + "x" * 200, "unix:/nowhere/at/all", "fd:", "fd:x", "fd:-1",
    "fd:9999", "fd:99999999999999", "fd:0", "256.256.256.256:0", "no.such.name.invalid:0", "[127.0.0.1:0", "127.0.0.1]:0",
])
def test_bad_listen(refused, listen):
    refused("--listen", listen)


def test_taken_port(refused, taken):
    assert "in use" in refused("--listen", f"127.0.0.1:{taken}")
    assert str(taken) in refused(env={"PUBLIC_PORT": str(taken)})


@pytest.mark.parametrize("listen", ["0.0.0.0:0", ":0", "[::]:0"])
def test_open_address_needs_authentication(refused, listen):
    line = refused("--listen", listen)
    assert "SANDBOX_API_KEY" in line and "--insecure" in line


@pytest.mark.parametrize("env, args", [({"SANDBOX_API_KEY": "key"}, []), ({}, ["--insecure"]), ({"AIO_INSECURE": "1"}, [])])
def test_open_address_with_authentication(start_server, env, args):
    server = start_server(args, env, listen="0.0.0.0:0")
    assert server.url == f"http://localhost:{server.port}"


def test_refusals_leak_nothing_and_tell_no_secret(refused, taken):
    """LeakSanitizer would have spoken on stderr."""
    line = refused("--listen", f"127.0.0.1:{taken}", env={"SANDBOX_API_KEY": "very-secret"})
    assert "very-secret" not in line


# --- listening ---------------------------------------------------------------------------------


def test_ready_line(server):
    assert server.out_path.read_text().count("\n") == 1
    assert re.match(rf"aio \S+ is ready: http://127\.0\.0\.1:{server.port} ", server.ready)


def test_nothing_is_said_on_stderr_but_requests(start_server):
    server = start_server(["--log-level", "warn"])
    assert server.log == ""


def test_port_0_takes_a_free_one(start_server):
    assert len({start_server().port for _ in range(3)}) == 3


def free_port():
    """One of those that the system gives to nobody by itself, and so neither before we are back here."""
    while True:
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", random.randrange(20000, 32000))) as sock:
            return sock.getsockname()[1]


def test_public_port(start_server):
    port = free_port()
    assert start_server(listen=None, env={"PUBLIC_PORT": str(port)}).port == port


def test_listen_from_the_environment(start_server):
    port = free_port()
    assert start_server(listen=None, env={"AIO_LISTEN": f"localhost:{port}", "PUBLIC_PORT": "1"}).port == port


def test_port_is_free_again_at_once(start_server):
    port = free_port()
    for _ in range(2):
        server = start_server(listen=f"127.0.0.1:{port}")
        with server.connect() as peer:
            assert peer.ask(request(headers={"Connection": "close"})).status == 200
        server.stop()


@pytest.mark.skipif(not os.path.exists("/proc/net/if_inet6"), reason="no IPv6 on this machine")
def test_ipv6(start_server):
    server = start_server(listen="[::1]:0")
    assert server.url == f"http://[::1]:{server.port}"
    assert server.logged("peer=[::1]:")


def test_unix_socket(start_server, tmp_path):
    path = tmp_path / "socket"
    server = start_server(listen=f"unix:{path}", program="fixture")
    assert stat.S_ISSOCK(path.stat().st_mode) and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert server.ready.endswith(f"unix:{path}")
    assert server.get("/place/x").json()["data"]["id"] == "x"
    with server.connect() as peer:
        assert peer.ask(request("/place/y", host="any.name.at.all")).status == 200
    server.stop()
    assert not path.exists()


def test_stale_unix_socket_is_replaced(start_server, tmp_path):
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as old:
        old.bind(str(path))
    assert path.exists()
    start_server(listen=f"unix:{path}")


def test_live_unix_socket_is_left_alone(start_server, refused, tmp_path):
    path = tmp_path / "socket"
    server = start_server(listen=f"unix:{path}")
    assert "in use" in refused("--listen", f"unix:{path}")
    assert path.exists() and server.get("/health").status_code == 200


def test_file_in_the_place_of_a_socket_is_left_alone(refused, tmp_path):
    path = tmp_path / "precious"
    path.write_text("data")
    refused("--listen", f"unix:{path}")
    assert path.read_text() == "data"


def test_next_server_takes_the_name_while_the_last_one_finishes(start_server, tmp_path):
    """As in a restart: the old server must not remove the new one's socket."""
    path = tmp_path / "socket"
    old = start_server(listen=f"unix:{path}", program="fixture")
    with old.connect() as peer:
        peer.send(request("/stubborn?ms=3000"))
        assert old.logged("stubborn begins")
        old.signal()
        assert eventually(lambda: not path.exists())
        new = start_server(listen=f"unix:{path}", program="fixture")
        assert peer.answer().status == 200
    assert old.wait() == 0
    assert new.get("/place/new").status_code == 200


@pytest.mark.parametrize("family", ["tcp", "unix"])
def test_inherited_descriptor(start_server, tmp_path, family):
    if family == "tcp":
        sock = socket.create_server(("127.0.0.1", 0))
    else:
        sock = socket.socket(socket.AF_UNIX)
        sock.bind(str(tmp_path / "socket"))
        sock.listen()
    with sock:
        sock.setblocking(False)
        server = start_server(listen=f"fd:{sock.fileno()}", pass_fds=[sock.fileno()])
        if family == "tcp":
            assert server.port == sock.getsockname()[1]
        assert server.get("/health").status_code == 200
        server.stop()
        if family == "unix":
            assert (tmp_path / "socket").exists(), "it belongs to whoever made it"


@pytest.mark.parametrize("kind", ["not listening", "datagram", "file"])
def test_inherited_descriptor_of_another_kind(refused, tmp_path, kind):
    with socket.socket(type=socket.SOCK_DGRAM if kind == "datagram" else socket.SOCK_STREAM) as sock, \
            open(tmp_path / "file", "w") as file:
        fd = file.fileno() if kind == "file" else sock.fileno()
        refused("--listen", f"fd:{fd}", pass_fds=[fd])


def test_inherited_open_address_needs_authentication(refused):
    with socket.create_server(("0.0.0.0", 0)) as sock:
        assert "SANDBOX_API_KEY" in refused("--listen", f"fd:{sock.fileno()}", pass_fds=[sock.fileno()])


# --- stopping ----------------------------------------------------------------------------------

def at_once(server):
    """Nothing was waited for until there was no more patience."""
    return "did not finish" not in server.log


def stop_and_time(server, number=signal.SIGTERM):
    start = time.monotonic()
    server.signal(number)
    code = server.wait()
    return code, time.monotonic() - start


@pytest.mark.concurrency
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_idle_server_stops_at_once(start_server, number):
    server = start_server(program="fixture")
    peers = [server.connect() for _ in range(5)]
    for peer in peers[:3]:
        assert peer.ask(request()).status == 200
    code, seconds = stop_and_time(server, number)
    assert code == 0 and seconds < 40 and at_once(server)
    for peer in peers:
        assert peer.ended()
        peer.sock.close()


@pytest.mark.concurrency
def test_running_request_is_finished(start_server):
    def finished():
        """False when the machine was too slow to tell: a request takes 3 s, and the server waits for 5 s."""
        server = start_server(program="fixture")
        with server.connect() as peer, server.connect() as half:
            half.send(request("/echo", "POST", {"Content-Type": "application/json", "Content-Length": 16,
                                                "Expect": "100-continue"}))
            assert half.head().status == 100
            half.send(b'{"text"')
            sent = time.monotonic()
            peer.send(request("/stubborn?ms=3000"))
            assert server.logged("stubborn begins")
            server.signal()
            assert eventually(lambda: refuses(server)), "no new ones"
            half.send(b':"hello"}')
            if quick := time.monotonic() - sent < 2.9:
                answer = half.answer()
                assert answer.status == 200 and answer["connection"] == "close" and half.ended()
                answer = peer.answer()
                assert answer.status == 200 and answer.complete and answer["connection"] == "close"
                assert peer.ended()
        assert server.wait() == 0
        return quick

    assert eventually(finished), "the machine is too slow"


def refuses(server):
    try:
        server.connect().sock.close()
    except (ConnectionRefusedError, ConnectionResetError):
        return True
    return False


@pytest.mark.concurrency
def test_waiting_requests_are_woken(start_server):
    server = start_server(program="fixture")
    with server.connect() as peer, server.connect() as events:
        peer.send(request("/wait?ms=60000"))
        events.send(request("/events?count=1000&ms=60000"))
        assert events.head().status == 200 and events.chunk()
        assert server.logged("wait begins")
        code, seconds = stop_and_time(server)
        assert code == 0 and seconds < 40 and at_once(server)
        assert peer.answer().json()["data"] == "stopping"
        assert events.chunk() is None, "cut, not ended: there would have been more"


@pytest.mark.concurrency
def test_open_websockets_do_not_hold_it_up(start_server):
    from websockets.exceptions import ConnectionClosed
    from harness import connect

    server = start_server(program="fixture")
    with connect(f"ws://{server.host}:{server.port}/ws/echo") as ws:
        ws.send("x")
        assert ws.recv(timeout=30) == "x"
        code, seconds = stop_and_time(server)
        assert code == 0 and seconds < 40 and at_once(server)
        with pytest.raises(ConnectionClosed) as closed:
            ws.recv(timeout=30)
        assert closed.value.rcvd.code == 1001, "going away"


@pytest.mark.concurrency
def test_request_that_takes_too_long_is_cut(start_server):
    server = start_server(program="fixture")
    with server.connect() as peer:
        peer.send(request("/stubborn?ms=60000"))
        assert server.logged("stubborn begins")
        code, seconds = stop_and_time(server)
        assert code == 0 and 4.5 < seconds < 40
        assert peer.rest() == b""
    assert "did not finish" in server.log


@pytest.mark.concurrency
def test_request_that_ends_while_the_server_gives_up(start_server):
    """It wakes when everything it uses is being taken down."""
    server = start_server(program="fixture")
    peers = [server.connect() for _ in range(30)]
    for i, peer in enumerate(peers):
        peer.send(request(f"/stubborn?ms={6900 + i * 10}"))
    assert eventually(lambda: server.log.count("stubborn begins") == 30)
    server.signal()
    assert server.wait() == 0
    for peer in peers:
        peer.sock.close()


@pytest.mark.concurrency
def test_second_signal_is_more_urgent(start_server):
    def seconds_until_cut():
        server = start_server(program="fixture")
        with server.connect() as peer:
            peer.send(request("/stubborn?ms=60000"))
            assert server.logged("stubborn begins")
            start = time.monotonic()
            server.signal()
            assert eventually(lambda: refuses(server))
            server.signal()
            assert peer.rest() == b""
            seconds = time.monotonic() - start
        assert server.wait() == 0
        return seconds

    # Once is proof: without the second signal it never takes less than 5 s.
    assert eventually(lambda: seconds_until_cut() < 4.9)


@pytest.mark.concurrency
def test_slow_reader_does_not_hold_it_up(start_server):
    server = start_server(program="fixture")
    with server.connect() as peer:
        peer.send(request("/items?count=10000&size=100000"))
        assert peer.head().status == 200
        code, seconds = stop_and_time(server)
        assert code == 0 and seconds < 40
        assert not peer.rest().endswith(b"0\r\n\r\n")


def test_stopping_twice_as_fast_as_starting(start_server):
    for _ in range(5):
        start_server().stop()


def test_other_signals(start_server):
    """A client that leaves, a terminal that hangs up: none of it ends the server by accident."""
    server = start_server()
    for number in (signal.SIGPIPE, signal.SIGCHLD, signal.SIGURG, signal.SIGWINCH, signal.SIGCONT):
        os.kill(server.pid, number)
    assert server.get("/health").status_code == 200


@pytest.mark.concurrency
def test_signal_during_start(tmp_path):
    """It ends well whenever the signal comes."""
    for delay in (0, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1):  # the stimulus
        process = subprocess.Popen([program("aio"), "serve", "--listen", "127.0.0.1:0"],
                                   env=clean_environment(tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        timer = threading.Timer(delay, process.terminate)
        timer.start()
        _, err = process.communicate(timeout=60)
        timer.join()
        assert process.returncode in (0, -signal.SIGTERM), err
