"""What a request runs is in the history of its box: the command, cut and without secrets."""

import pytest
from harness import eventually
from websockets.sync.client import connect


def runs(host, box):
    return [event["data"] for event in host.api("GET", f"/v1/sandboxes/{box.id}/events") if event["type"] == "exec"]


@pytest.fixture
def box(host):
    box = host.create()
    yield box
    box.delete()


@pytest.mark.parametrize("path, field", [("/v1/bash/exec", "command"), ("/v1/shell/exec", "command"),
                                         ("/v1/code/execute", "code")])
def test_a_command_or_code_is_in_the_history(host, box, path, field):
    text = "export API_KEY=topsecret; echo é" if field == "command" else "token = 'topsecret'"
    assert box.request("POST", path, json={field: text, "language": "python"}).status_code == 200
    data, = runs(host, box)
    assert data == {"path": path, "command": text.replace("topsecret", "***")}


def test_only_its_first_characters(host, box):
    box.run("echo " + "é" * 400)
    assert runs(host, box)[0]["command"] == "echo " + "é" * 195 + "…"


def test_a_body_in_chunks(host, box):
    def body():
        yield b'{"comm'
        yield b'and": "echo chunks"}'

    assert box.request("POST", "/v1/bash/exec", content=body(), headers={"Content-Type": "application/json"}).json()["data"]["stdout"] == "chunks\n"
    assert runs(host, box) == [{"path": "/v1/bash/exec", "command": "echo chunks"}]


@pytest.mark.parametrize("body", [b'{"command": "true"', b"[]", b'{"command": 3}', b"", b'{"command": "' + b"#" * 20000 + b'"}'],
                         ids=["cut", "list", "number", "empty", "large"])
def test_what_is_not_understood_is_there_without_it(host, box, body):
    box.request("POST", "/v1/bash/exec", content=body, headers={"Content-Type": "application/json"})
    assert runs(host, box) == [{"path": "/v1/bash/exec"}]
    box.run("true")


def test_the_command_of_aio_exec(host, box):
    assert host.cli("exec", box.id, "echo from a terminal").stdout == "from a terminal\n"
    assert runs(host, box) == [{"path": "/v1/bash/ws", "command": "echo from a terminal"}]
    assert "command=\"echo from a terminal\"" in host.cli("events", box.id).stdout


def test_a_websocket_that_says_nothing(host, box):
    with connect(f"ws://127.0.0.1:{host.port}/v1/bash/ws", additional_headers=box.headers, proxy=None):
        assert runs(host, box) == []
    assert eventually(lambda: runs(host, box) == [{"path": "/v1/bash/ws"}])
