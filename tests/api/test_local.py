"""The listeners for the sandbox's own programs, a Unix socket and a port: who may call there, and what not even they can
do. tests/host/test_inside.py has the same for a box."""

import contextlib
import json
import os
import pwd
import select
import signal
import socket
import stat
import subprocess

import pytest

from harness import dial, eventually, request
from processes import ROOT_ONLY, tester  # noqa: F401

NOBODY, DAEMON = 65534, 1
SECRET = {"SANDBOX_API_KEY": "secret"}


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@pytest.fixture(scope="module")
def server(start_shared, tmp_path_factory):
    """It wants a key, and its operator has opened much; none of which is for the listeners inside."""
    folder = tmp_path_factory.mktemp("local")
    folder.chmod(0o755)
    port = free_port()
    server = start_shared(
        ["--local-port", str(port), "--local-socket", f"{folder}/api.sock", "--cors-origins", "*", "--domain", "evil.example",
         "--insecure"], env=SECRET)
    server.local_port, server.local_path = port, f"{folder}/api.sock"
    return server


def ask(address, *args, **more):
    """The response to one request."""
    with dial(address) as peer:
        peer.send(request(*args, **more))
        return peer.answer()


@pytest.fixture(params=["port", "IPv6", "socket"])
def inside(server, request):
    """Where the sandbox's own programs call."""
    return {"port": ("127.0.0.1", server.local_port), "IPv6": ("::1", server.local_port),
            "socket": server.local_path}[request.param]


def test_no_key_is_needed(server, inside):
    assert server.get("/v1/sandbox").status_code == 401
    assert ask(inside, "/v1/sandbox").status == 200


def test_a_link_for_looking_is_that_there_too(server, inside):
    text = server.post("/tickets", {"scope": "view"}, headers={"X-AIO-API-Key": "secret"}).json()["ticket"]
    for path in ("/v1/sandbox", "/v1/bash/exec", "/proxy/80/", "/mcp", "/nowhere"):
        assert ask(inside, f"{path}?ticket={text}").status == 403
    assert ask(inside, f"/vnc/access?ticket={text}").body == b'{"scope":"view"}'
    assert ask(inside, "/vnc/access", headers={"X-AIO-View": "1"}).body == b'{"scope":"all"}'


def test_the_socket_is_the_users(server):
    found = os.stat(server.local_path)
    assert stat.S_IMODE(found.st_mode) == 0o600 and found.st_uid == os.geteuid()


def test_commands_are_told_the_socket(server, start_server):
    """It is always there, wherever it was put."""
    other = start_server()
    for one, headers in ((server, {"X-AIO-API-Key": "secret"}), (other, {})):
        got = one.post("/v1/bash/exec", {"command": "stat -c %a $AIO_LOCAL_SOCKET; "
                                         "curl -sS --unix-socket $AIO_LOCAL_SOCKET http://localhost/health"}, headers=headers)
        assert got.json()["data"]["stdout"] == "600\nOK", got.text
    path = other.post("/v1/bash/exec", {"command": "echo -n $AIO_LOCAL_SOCKET"}).json()["data"]["stdout"]
    other.stop()
    assert not os.path.exists(path)


PAGES = [
    ({}, {"host": "evil.example:8080"}),  # a name that leads to 127.0.0.1, though --domain has it for others
    ({}, {"host": "3000-evil.example"}),
    ({"Origin": "http://evil.example"}, {"method": "POST", "target": "/v1/bash/exec"}),
    ({"Origin": "null"}, {"method": "POST", "target": "/v1/bash/exec"}),
    ({"Origin": "http://localhost:3000"}, {"method": "POST", "target": "/v1/bash/exec"}),
    ({"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}, {"method": "OPTIONS"}),
    ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}, {}),
    ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}, {}),
    ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, {"target": "/terminal"}),
    ({"Origin": "http://evil.example", "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
      "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}, {"target": "/v1/shell/ws"}),
]


@pytest.mark.parametrize("headers, more", PAGES)
def test_pages_are_kept_out(inside, headers, more):
    """As they are of a server without authentication, whatever the options say for callers from outside."""
    got = ask(inside, headers=headers, **{"target": "/v1/sandbox", **more})
    assert got.status == 403, got
    assert "access-control-allow-origin" not in got.headers


def test_no_tickets(inside):
    got = ask(inside, "/tickets", "POST")
    assert got.status == 403 and b"need no ticket" in got.body


@pytest.mark.parametrize("target, more", [
    ("/proxy/{}/v1/sandbox", {}), ("/absproxy/{}/v1/sandbox", {}), ("/", {"host": "{}-localhost"}),
    ("/", {"headers": {"x-aio-proxy-port": "{}"}})])
def test_previews(server, inside, target, more):
    """They do not reach the port from outside, where the server would be taken for root; inside there are none."""
    port = server.local_port

    def fill(value):
        return {k: fill(v) for k, v in value.items()} if isinstance(value, dict) else value.format(port)

    outside = fill(more)
    outside["headers"] = {**outside.get("headers", {}), "Authorization": "Bearer secret"}
    got = ask((server.host, server.port), fill(target), **outside)
    assert got.status == 403 and b"is the sandbox's own API" in got.body, got
    del outside["headers"]["Authorization"]
    assert ask((server.host, server.port), fill(target), **outside).status == 401
    got = ask(inside, fill(target), **fill(more))
    if "headers" in more:
        assert got.status != 403 and b"preview" not in got.body  # a gateway's header says nothing here
    else:
        assert got.status == 403 and b"no previews inside" in got.body, got


def test_sudo_is_for_callers_from_outside(server, inside):
    """A program of the sandbox user must not become root by asking the server."""
    body = b'{"file": "/etc/hostname", "sudo": true}'
    head = {"Content-Type": "application/json"}
    got = json.loads(ask(inside, "/v1/file/read", "POST", head, body).body)
    assert not got["success"] and "sudo is not possible" in got["message"], got
    assert json.loads(ask(inside, "/v1/file/read", "POST", head, b'{"file": "/etc/hostname"}').body)["success"]
    call = (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "sandbox_file_operations", '
            b'"arguments": {"action": "read", "path": "/etc/hostname", "sudo": true}}}')
    got = ask(inside, "/mcp", "POST", {**head, "Accept": "application/json, text/event-stream"}, call)
    assert b"sudo is not possible" in got.body and b'"isError":true' in got.body, got


# --- other users -------------------------------------------------------------------------------

CALLER = """
import socket, struct, sys
address, data, how = sys.argv[1], sys.argv[2].encode(), sys.argv[3]
sock = socket.socket(socket.AF_UNIX if "/" in address else socket.AF_INET6 if ":" in address else socket.AF_INET)
sock.settimeout(20)
sock.connect(address if "/" in address else (address, int(sys.argv[4])))
sock.sendall(data)
if how == "reset":
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
if how == "half":
    sock.shutdown(socket.SHUT_WR)
if how in ("stay", "half"):
    got = b""
    try:
        while piece := sock.recv(65536):
            got += piece
    except OSError:
        pass
    print(got.decode())
sock.close()
"""


def call_as(uid, address, data, how="stay"):
    host, port = (address, "") if isinstance(address, str) else map(str, address)
    command = ["/usr/bin/python3", "-I", "-c", CALLER, host, data.decode(), how, port]
    return subprocess.run(command, user=uid, group=uid, extra_groups=[], capture_output=True, text=True, timeout=60)


CLOSE = {"Connection": "close"}


@ROOT_ONLY
@pytest.mark.parametrize("how", ["stay", "half"])
def test_other_users_are_refused(server, inside, how):
    os.chmod(server.local_path, 0o666)  # as if its mode did not keep them out
    with contextlib.ExitStack() as after:
        after.callback(os.chmod, server.local_path, 0o600)
        assert "HTTP/1.1 200" in call_as(0, inside, request("/v1/sandbox", headers=CLOSE), how).stdout
        got = call_as(NOBODY, inside, request("/v1/sandbox", headers=CLOSE), how).stdout
        assert "HTTP/1.1 200" not in got and ("403 Forbidden" in got or got.strip() == ""), got


@ROOT_ONLY
def test_the_mode_of_the_socket(server):
    assert "PermissionError" in call_as(NOBODY, server.local_path, request()).stderr


@ROOT_ONLY
def test_the_sandbox_user_may(start_server, tester):
    uid, port = pwd.getpwnam(tester).pw_uid, free_port()
    start_server(["--user", tester, "--local-port", str(port)], env=SECRET)
    text = request("/v1/sandbox", headers=CLOSE)
    for caller, may in ((uid, True), (0, True), (NOBODY, False), (DAEMON, False)):
        for host in ("127.0.0.1", "::1"):
            assert ("HTTP/1.1 200" in call_as(caller, (host, port), text).stdout) is may, caller


@ROOT_ONLY
@pytest.mark.parametrize("how", ["close", "reset"])
def test_who_left_before_being_looked_at(server, tmp_path, how):
    """A closed socket has no owner: the kernel calls it root's. What it had sent must not be done."""
    made = tmp_path / "made"
    body = f'{{"command": "touch {made}"}}'.encode()
    text = request("/v1/bash/exec", "POST", {"Content-Type": "application/json", **CLOSE}, body)
    refused = server.log.count("connection refused")
    os.kill(server.pid, signal.SIGSTOP)
    try:
        for host in ("127.0.0.1", "::1"):
            assert call_as(NOBODY, (host, server.local_port), text, how).returncode == 0
    finally:
        os.kill(server.pid, signal.SIGCONT)
    assert eventually(lambda: server.log.count("connection refused") == refused + 2)
    assert ask(server.local_path).status == 200 and not made.exists()


@ROOT_ONLY
def test_a_listener_at_the_callers_port_says_nothing(server, tmp_path):
    """The kernel finds a socket that listens where the caller's was: it is root's, and another one."""
    made = tmp_path / "made"
    body = f'{{"command": "touch {made}"}}'.encode()
    text = request("/v1/bash/exec", "POST", {"Content-Type": "application/json", **CLOSE}, body)
    code = CALLER.replace("sock.settimeout(20)", "sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); "
                          "sock.bind(('127.0.0.1', int(sys.argv[5])))")
    refused, port = server.log.count("connection refused"), free_port()
    os.kill(server.pid, signal.SIGSTOP)
    try:
        command = ["/usr/bin/python3", "-I", "-c", code, "127.0.0.1", text.decode(), "reset", str(server.local_port), str(port)]
        assert subprocess.run(command, user=NOBODY, group=NOBODY, extra_groups=[], timeout=60).returncode == 0
        with socket.create_server(("127.0.0.1", port)):
            os.kill(server.pid, signal.SIGCONT)
            assert eventually(lambda: server.log.count("connection refused") == refused + 1)
    finally:
        os.kill(server.pid, signal.SIGCONT)
    assert ask(server.local_path).status == 200 and not made.exists()


# --- the port ----------------------------------------------------------------------------------


def test_a_port_that_is_taken(start_server):
    """It is logged, and everything else goes on; previews reach who has it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = start_server(["--local-port", str(port)])
        assert f"localhost:{port}" in server.log and "Address already in use" in server.log
        assert server.get("/health").status_code == 200
    assert server.get(f"/proxy/{port}/").status_code == 502


def test_a_port_that_is_taken_on_ipv6(start_server):
    """A program that tries ::1 first reaches another server: that is logged, too."""
    with socket.create_server(("127.0.0.1", 0)) as free:  # on the other one, too
        port = free.getsockname()[1]
        taken = socket.create_server(("::1", port), family=socket.AF_INET6)
    with taken:
        server = start_server(["--local-port", str(port)])
        assert f"[::1]:{port}" in server.log and "Address already in use" in server.log
        assert ask(("127.0.0.1", port)).status == 200


def test_callers_from_outside_have_room(server):
    """However many connections the sandbox's programs open."""
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(dial(("127.0.0.1", server.local_port))) for _ in range(270)]
        surplus = [peer.sock for peer in peers[256:]]
        assert eventually(lambda: len(select.select(surplus, [], [], 0)[0]) == len(surplus))
        assert b"503" in peers[-1].sock.recv(100)
        assert server.get("/health").status_code == 200
    assert eventually(lambda: ask(("127.0.0.1", server.local_port)).status == 200)
