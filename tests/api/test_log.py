"""One line per request, that a machine can read and that tells no secret."""

import json
import os
import re
import socket
import subprocess
from urllib.parse import quote

import pytest

from harness import ANSWER_SECONDS, STOP_SECONDS, clean_environment, connect, eventually, program, request

LINE = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) info request id=(?P<id>\S+) peer=(?P<peer>\S+) "
    r'method=(?P<method>\w+) target=(?P<target>"(?:[^"\\]|\\.)*"|\S+) status=(?P<status>\d+) '
    r"bytes=(?P<bytes>\d+) ms=(?P<ms>[\d.e-]+)"
)


@pytest.fixture(scope="module")
def as_json(start_shared):
    return start_shared(["--log-format", "json"], program="fixture")


def line_of(server, id):
    """The line that has this id, of which there must be one."""
    whole = re.compile(rf'^(.*(?:id=|"id":"){re.escape(id)}[ "].*)\n', re.M)
    assert eventually(lambda: whole.search(server.log)), f"no line of {id}"
    lines = whole.findall(server.log)
    assert len(lines) == 1
    return lines[0]


REQUESTS = [
    ("GET", "/place/x?q=1", 200),
    ("GET", "/nothing", 404),
    ("POST", "/health", 405),
    ("POST", "/echo", 415),
    ("GET", "/place/x?limit=0", 422),
    ("GET", "/fail?code=1014", 500),
    ("OPTIONS", "/echo", 204),
    ("HEAD", "/health", 200),
]


@pytest.mark.parametrize("method, target, status", REQUESTS)
def test_line(fixture_server, method, target, status):
    body = b"x" if method == "POST" else b""
    with fixture_server.connect() as peer:
        answer = peer.ask(request(target, method, body=body))
        port = peer.sock.getsockname()[1]
    assert answer.status == status
    found = LINE.fullmatch(line_of(fixture_server, answer["x-request-id"]))
    assert found and found["method"] == method and found["target"].strip('"') == target
    assert int(found["status"]) == status and int(found["bytes"]) == len(answer.body)
    assert found["peer"] == f"127.0.0.1:{port}" and 0 <= float(found["ms"]) < 30000


@pytest.mark.parametrize("method, target, status", REQUESTS)
def test_json_line(as_json, method, target, status):
    with as_json.connect() as peer:
        answer = peer.ask(request(target, method, body=b"x" if method == "POST" else b""))
    line = json.loads(line_of(as_json, answer["x-request-id"]))
    assert line["method"] == method and line["target"] == target and line["status"] == status
    assert line["level"] == "info" and line["event"] == "request" and line["bytes"] == len(answer.body)
    assert isinstance(line["ms"], (int, float)) and line["time"].endswith("Z")


@pytest.mark.parametrize("data", [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n",
                                  b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
                                  b"GET /" + b"x" * 70000 + b" HTTP/1.1\r\n\r\n"])
def test_request_that_could_not_be_read(fixture_server, data):
    """An administrator wants to see these too."""
    with fixture_server.connect() as peer:
        answer = peer.ask(data)
    assert answer.status in (400, 431)
    line = line_of(fixture_server, answer["x-request-id"])
    assert f"status={answer.status}" in line and "peer=127.0.0.1:" in line


def test_size_and_time_of_a_stream(fixture_server):
    with fixture_server.connect() as peer:
        answer = peer.ask(request("/items?count=1000&size=1000"))
    found = LINE.fullmatch(line_of(fixture_server, answer["x-request-id"]))
    assert int(found["bytes"]) == len(answer.body) > 1000000
    answer = fixture_server.get("/wait?ms=200")
    assert float(LINE.fullmatch(line_of(fixture_server, answer.headers["x-request-id"]))["ms"]) >= 199


def test_websocket_is_logged_when_it_ends(fixture_server):
    with connect(f"ws://{fixture_server.host}:{fixture_server.port}/ws/echo?q=logged") as ws:
        ws.send("x")
        assert ws.recv(timeout=30) == "x"
        id = ws.response.headers["x-request-id"]
    line = line_of(fixture_server, id)
    assert "status=101" in line and "target=\"/ws/echo?q=logged\"" in line


def test_ids_are_unique(fixture_server):
    ids = [fixture_server.get("/health").headers["x-request-id"] for _ in range(50)]
    assert len(set(ids)) == 50


@pytest.mark.parametrize("character", [0x80, 0x9b, 0xff, 0x22, 0x5c, 0x27, 0x60, 0x7b])
def test_odd_characters_are_escaped(fixture_server, as_json, character):
    """No client writes into the log as it likes: neither lines nor a terminal's codes."""
    for server in (fixture_server, as_json):
        with server.connect() as peer:
            answer = peer.ask(b"GET /place/a%cb HTTP/1.1\r\nHost: localhost\r\n\r\n" % character)
        if "x-request-id" not in dict((k.lower(), v) for k, v in answer.headers):
            continue
        line = line_of(server, answer["x-request-id"])
        assert line.isprintable()
        if server is as_json:
            json.loads(line)


@pytest.mark.parametrize("target", ["/place/%0a2026-01-01T00:00:00.000Z%20info%20forged", "/place/%1b[31mred", "/place/%00%07"])
def test_encoded_control_characters_stay_encoded(fixture_server, target):
    with fixture_server.connect() as peer:
        answer = peer.ask(request(target))
    assert target in line_of(fixture_server, answer["x-request-id"])


def test_nothing_in_the_log_is_raw(fixture_server):
    fixture_server.get("/place/x", headers={"X-Thing": "\x1b[31m".replace("\x1b", "\\x1b"), "User-Agent": "a\tb"})
    for line in fixture_server.log.splitlines():
        assert line.isprintable(), line


def test_long_target_is_cut(as_json):
    with as_json.connect() as peer:
        answer = peer.ask(request("/place/x?q=" + "y" * 60000))
    line = line_of(as_json, answer["x-request-id"])
    assert len(line) <= 8193
    assert json.loads(line)["status"] == 200, "what is most important survives"


def test_many_escapes_in_a_long_target(as_json):
    with as_json.connect() as peer:
        answer = peer.ask(request("/place/x?q=" + '"\\' * 20000))
    assert json.loads(line_of(as_json, answer["x-request-id"]))["id"] == answer["x-request-id"]


# --- secrets -----------------------------------------------------------------------------------

SECRET = "S3cret-Value+/="


@pytest.mark.parametrize("format", ["text", "json"])
def test_no_secret_is_logged(start_server, format):
    server = start_server(["--log-format", format, "--log-level", "debug"], env={"SANDBOX_API_KEY": SECRET},
                          program="fixture")
    coded, twice = quote(SECRET, safe=""), quote(quote(SECRET, safe=""), safe="")
    for target in (f"/place/x?api_key={coded}", f"/place/x?a=b&api_key={coded}&c=d", f"/place/x?api%5Fkey={coded}",
                   f"/place/x?API_KEY={coded}", f"/nothing?ticket={coded}", f"/place/x?%74icket={coded}",
                   f"/place/x?next=%2Fws%3Fticket%3D{twice}", f"/place/x?token={coded}",
                   f"http://localhost/place/x?api_key={coded}", f"/place/x?api_key={SECRET}"):
        with server.connect() as peer:
            peer.ask(request(target))
    for headers in ({"Authorization": f"Bearer {SECRET}"}, {"X-AIO-API-Key": SECRET}, {"Authorization": f"Basic {SECRET}"},
                    {"Cookie": f"session={SECRET}"}, {"X-Original-URI": f"/x?ticket={coded}"}):
        with server.connect() as peer:
            assert peer.ask(request("/place/x", headers=headers)).status in (200, 401)
        with server.connect() as peer:
            peer.ask(request("/auth", headers=headers))
    ticket = server.post("/tickets", headers={"X-AIO-API-Key": SECRET}).json()["ticket"]
    assert server.get(f"/place/logged?ticket={ticket}").status_code == 200
    assert server.logged("/place/logged")
    assert eventually(lambda: server.log.count("/place/x?") >= 8), "the rest of the target is there"
    for secret in (SECRET, coded, twice, ticket, ticket[:20], SECRET[:8]):
        assert secret not in server.log


def test_no_secret_in_an_error(start_server):
    server = start_server(env={"SANDBOX_API_KEY": SECRET}, program="fixture")
    for headers in ({"Authorization": "Bearer wrong-secret"}, {"X-AIO-API-Key": "wrong-secret"}):
        answer = server.get("/place/x", headers=headers)
        assert answer.status_code == 401 and "wrong-secret" not in answer.text and SECRET not in answer.text


# --- levels ------------------------------------------------------------------------------------


def test_level(start_server):
    for level, expected in (("error", 0), ("warn", 0), ("info", 1), ("debug", 1)):
        server = start_server(["--log-level", level])
        server.get("/nothing")
        assert not expected or server.logged("/nothing")
        server.stop()
        assert server.log.count("/nothing") == expected


def test_log_that_nobody_reads(start_server, tmp_path):
    """A full or closed stderr is no reason to stop serving."""
    read, write = os.pipe()
    process = subprocess.Popen([program("aio"), "serve", "--listen", f"unix:{tmp_path}/socket"], stdout=subprocess.PIPE,
                               stderr=write, env=clean_environment(tmp_path))
    os.close(write)
    try:
        process.stdout.readline()
        os.close(read)
        for _ in range(3):
            with socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(ANSWER_SECONDS)
                sock.connect(f"{tmp_path}/socket")
                sock.sendall(request())
                assert b"200 OK" in sock.recv(65536)
    finally:
        process.terminate()
        assert process.wait(STOP_SECONDS) == 0
        process.stdout.close()
