"""Services as others see them: in the events of the sandbox, in the metrics and in the log."""

import json
import os
import re
import signal
import sys
import time

import mcp_servers
from harness import eventually
from processes import gone


def events(server, name):
    found = server.get("/v1/sandbox/events?type=service_changed").json()["data"]
    return [(event["data"]["state"], event["data"]["reason"]) for event in found if event["data"]["name"] == name]


def metrics(server, name):
    """What is counted of a service: the state it is in, its starts and its failures."""
    text = server.get("/metrics").text
    [state] = re.findall(rf'^aio_services\{{name="{name}",state="(\w+)"\}} 1$', text, re.M)
    counts = [re.search(rf'^aio_service_{what}_total\{{name="{name}"\}} (\d+)$', text, re.M)[1]
              for what in ("starts", "failures")]
    return state, *map(int, counts)


def convert(server):
    return server.post("/v1/util/convert_to_markdown", {"uri": "data:text/html,<b>bold</b>"})


def test_a_service_that_is_killed_is_started_again(start_server):
    server = start_server()
    assert metrics(server, "documents") == ("idle", 0, 0) and events(server, "documents") == []
    assert convert(server).json()["success"]
    assert metrics(server, "documents") == ("ready", 1, 0)
    assert events(server, "documents") == [("starting", None), ("ready", None)]
    assert server.logged("service name=documents state=ready")
    worker = server.document_worker()
    os.kill(worker, signal.SIGKILL)
    assert gone(worker) and eventually(lambda: metrics(server, "documents") == ("idle", 1, 0))
    assert events(server, "documents")[2:] == [("idle", "it was killed by SIGKILL")]
    assert convert(server).json()["success"]
    assert metrics(server, "documents") == ("ready", 2, 0)


def test_one_that_is_idle_is_stopped(start_server):
    server = start_server(["--document-idle", "0.2"])
    assert convert(server).json()["success"]
    assert eventually(lambda: metrics(server, "documents") == ("idle", 1, 0))
    assert events(server, "documents") == [("starting", None), ("ready", None), ("idle", "it was idle")]
    assert server.children() == []


def test_kernels_that_are_kept_ready_are_ended_too(start_server):
    """Once there is no session: nothing is left of what was used."""
    server = start_server(["--service-idle", "1"])
    done = server.post("/v1/jupyter/execute", {"code": "6 * 7"}).json()["data"]
    assert done["status"] == "ok" and server.children()
    server.request("DELETE", f"/v1/jupyter/sessions/{done['session_id']}")
    assert eventually(lambda: server.children() == [])
    server.at_rest()
    server.baseline = server.possessions()  # the thread that has ended them stays


def test_one_that_fails_says_why(start_server, tmp_path):
    """And is not tried again at once."""
    file = tmp_path / "mcp-servers.json"
    program = {"command": sys.executable, "args": [mcp_servers.__file__, "stillborn"]}
    file.write_text(json.dumps({"mcpServers": {"dead": program}}))
    server = start_server(["--mcp-servers", file])
    began = time.monotonic()
    for _ in range(2):
        answer = server.get("/v1/mcp/dead/tools").json()
        assert not answer["success"] and "libmissing.so" in answer["message"]
    state, starts, failures = metrics(server, "mcp/dead")
    assert state == "failed" and failures == starts >= 1
    assert starts == 1 or time.monotonic() - began > 2, "it was tried again at once"
    (first, _), (then, reason) = events(server, "mcp/dead")[:2]
    assert (first, then) == ("starting", "failed") and "libmissing.so" in reason
    assert server.logged("service name=mcp/dead state=failed")


def test_one_that_is_not_installed_is_not_started(start_server, tmp_path):
    server = start_server(env={"AIO_HOME": str(tmp_path)})
    answer = convert(server)
    assert answer.status_code == 503 and "make deps" in answer.json()["message"]
    assert metrics(server, "documents") == ("idle", 0, 0) and events(server, "documents") == []
