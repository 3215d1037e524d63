"""What happened in a box, seen through the host, whose own history has nothing of it."""

import json
import subprocess
from pathlib import Path

import jsonschema
import pytest

from harness import ANSWER_SECONDS, eventually
from hosts import Box

PATH = "/v1/sandbox/events"


def inside(box, query=""):
    answer = box.request("GET", f"{PATH}{query}")
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def write(box, name, content="x"):
    answer = box.request("POST", "/v1/file/write", json={"file": f"/tmp/{name}", "content": content})
    assert answer.json()["success"] is True, answer.text


def test_events_in_a_box(host, box):
    box.run("true")
    write(box, "a")
    assert [e["type"] for e in inside(box)][-4:] == ["session_opened", "command_started", "command_ended", "file_written"]
    assert host.client.get(PATH, headers={"x-aio-sandbox": box.id}).status_code == 401


def test_the_stream_through_the_host(host, box):
    with host.client.stream("GET", PATH, headers={**box.headers, "Accept": "text/event-stream"}) as answer:
        write(box, "streamed")
        for line in answer.iter_lines():
            if line.startswith("data: ") and "/tmp/streamed" in line:
                break


def test_events_stay_out_of_the_hosts_history(host):
    """Neither that of the box nor that of all: a box could flood it."""
    box = host.create()
    before = len(host.api("GET", "/v1/events"))
    own = box.events()
    for i in range(50):
        write(box, "flood", f"{i}")
    assert len([e for e in inside(box) if e["type"] == "file_written"]) == 50
    assert box.events() == own
    assert len(host.api("GET", "/v1/events")) == before
    box.run("true")  # an "exec", as ever, which the host saw itself
    assert box.events() == own + ["exec"]
    box.delete()


def test_the_history_of_a_box_is_its_own(host):
    one, two = host.create(), host.create()
    write(one, "mine")
    assert "/tmp/mine" in json.dumps(inside(one)) and inside(two) == []
    one.delete()
    two.delete()


def test_the_command_line_shows_them(host):
    box = host.create(name="busy")
    box.run("exit 0")
    table = [line.split() for line in host.cli("events", box.id, "--inside").stdout.splitlines()]
    assert [row[2:4] for row in table[1:]] == [["busy", "session_opened"], ["busy", "command_started"], ["busy", "command_ended"]]
    assert "exit_code=0" in table[-1]
    listed = json.loads(host.cli("events", "--inside", box.id, "--json").stdout)
    assert [event["type"] for event in listed] == ["session_opened", "command_started", "command_ended"]
    proc = host.begin("events", box.id, "--inside", "-f", "--json", text=True, stdout=subprocess.PIPE)
    write(box, "seen")
    while json.loads(proc.stdout.readline())["data"].get("path") != "/tmp/seen":
        pass
    box.delete()
    proc.wait(ANSWER_SECONDS)
    proc.stdout.close()
    assert "--inside needs a BOX" in host.cli("events", "--inside", check=False).stderr


@pytest.mark.parametrize("path, shown", [
    *[(path, path) for path in ("/v1/bash/exec", "/v1/shell/exec", "/v1/code/execute", "/v1/jupyter/execute", "/v1/nodejs/execute")],
    ("/api/v1/contexts/mine/execute", "/api/v1/contexts/*/execute"),
    ("/v1/mcp/sandbox/tools/none", "/v1/mcp/*/tools/*"),
    ("/v1/bash/ws", "/v1/bash/ws"),
    ("/v1/shell/ws", "/v1/shell/ws"),
    ("/v1/bash/output", None),
    ("/v1/bash/exec/more", None),
    ("/v1/mcp/sandbox/tools", None),
])
def test_what_runs_something_is_in_the_hosts_history(host, box, path, shown):
    def recorded():
        return [e["data"]["path"] for e in host.api("GET", f"/v1/sandboxes/{box.id}/events") if e["type"] == "exec"]

    before = recorded()
    box.request("POST", path, json={})
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket"}  # without a key: the box refuses it
    if path.endswith("/ws"):
        box.request("GET", path, headers=upgrade)
    assert set(recorded()[len(before):]) == ({shown} if shown else set())


def test_the_hosts_history_is_as_declared(host):
    document = host.client.get("/openapi.json", headers=host.auth).json()
    schemas = document["components"]["schemas"]
    kinds = schemas["HostEvent"]["properties"]["type"]["enum"]
    assert kinds == schemas["SandboxEvent"]["properties"]["type"]["enum"]
    row = next(line for line in Path(__file__).parents[2].joinpath("docs/host.md").read_text().splitlines() if line.startswith("| `GET …/{id}/events`"))
    assert [kind for kind in kinds if f"`{kind}`" not in row] == []

    box = host.create()
    box.run("true")
    box.call("POST", "/pause")
    box.call("POST", "/resume")
    copy = Box(host, box.call("POST", "/fork", json={}))
    host.client.get("/v1/bash/sessions", headers={"x-aio-sandbox": box.id})  # without its token
    box.kill()
    assert eventually(lambda: "exited" in box.events())
    events = host.api("GET", "/v1/events")
    box.delete()
    copy.delete()
    seen = {event["type"]: event["data"] for event in events if event["sandbox"] == box.id}
    assert {"created", "started", "exec", "paused", "resumed", "forked", "denied", "exited"} <= set(seen) <= set(kinds)
    assert seen["created"] == {"template": "machine"} and seen["exec"]["path"] == "/v1/bash/exec" and seen["exec"]["command"]
    assert seen["started"] == seen["resumed"] == seen["exited"] == {} and seen["forked"] == {"to": copy.id}
    assert seen["denied"] == {"by": "host", "reason": "credentials"} and seen["paused"] == {"why": "asked"}
    for event in events:
        jsonschema.Draft202012Validator({**schemas["HostEvent"], "components": document["components"]}).validate(event)
