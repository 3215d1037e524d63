"""The sandbox's own tools, resources and prompts, as a model's client uses them, and the plain view of them."""

import base64
import json
import os
import signal
import re

import commands
import httpx
import jsonschema
import pytest

from harness import LEAN, eventually
from mcp_peer import META, Peer, RpcError, failed, in_thread
from processes import patience



def warm(server):
    """The list of tools is built once and kept."""
    Peer(server).ask("tools/list")
    commands.warm(server)


pytestmark = pytest.mark.server(env=LEAN, warm=warm)


@pytest.fixture
def peer(server):
    with Peer(server) as peer:
        yield peer


@pytest.fixture(autouse=True)
def no_sessions(server):
    yield
    commands.close_all(server)
    server.request("DELETE", "/v1/shell/sessions")


def tools(peer):
    return {tool["name"]: tool for tool in peer.ask("tools/list")["tools"]}


def structured(peer, tool, /, **arguments):
    """What a tool gives as a structure, which is what its schema says, and what its text says too."""
    result = peer.call(tool, **arguments)
    assert not result.get("isError"), result
    jsonschema.validate(result["structuredContent"], tools(peer)[tool]["outputSchema"])
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    return result["structuredContent"]


# --- the list ----------------------------------------------------------------------------------


def test_every_tool_is_well_described(peer):
    found = tools(peer)
    assert {"sandbox_get_context", "sandbox_get_packages", "sandbox_execute_bash", "sandbox_shell_exec"} <= set(found)
    for name, tool in found.items():
        assert re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name)
        assert len(tool["description"]) > 60 and tool["title"] == tool["annotations"]["title"]
        jsonschema.Draft202012Validator.check_schema(tool["inputSchema"])
        assert tool["inputSchema"]["type"] == "object" and "components" not in json.dumps(tool)
        assert all(field.get("description") for field in tool["inputSchema"]["properties"].values()), name
        if "outputSchema" in tool:
            jsonschema.Draft202012Validator.check_schema(tool["outputSchema"])
            assert tool["outputSchema"]["type"] == "object"


def test_only_tools_whose_routes_exist_are_listed(server, peer):
    paths = server.get("/openapi.json").json()["paths"]
    for tool, path in [("sandbox_execute_code", "/v1/code/execute"), ("sandbox_file_operations", "/v1/file/read"),
                       ("sandbox_convert_to_markdown", "/v1/util/convert_to_markdown"),
                       ("sandbox_load_skill", "/v1/skills/metadatas")]:
        assert (tool in tools(peer)) == (path in paths)


def test_a_plot_is_a_picture(peer):
    """And not 20 kB of base64 in a text that a model has to read."""
    code = "import matplotlib.pyplot as p; p.figure(figsize=(2, 1), dpi=50); p.plot([1, 2]); p.show(); print('done')"
    result = peer.call("sandbox_execute_code", code=code, language="python", timeout=100)
    text, picture = result["content"]
    assert (text["type"], picture["type"], picture["mimeType"]) == ("text", "image", "image/png")
    assert base64.b64decode(picture["data"], validate=True).startswith(b"\x89PNG")
    assert "done" in text["text"] and len(text["text"]) < 3000 and picture["data"] not in json.dumps(result["structuredContent"])


def test_hints_are_right(peer):
    hints = {name: tool["annotations"] for name, tool in tools(peer).items()}
    for name in ["sandbox_get_context", "sandbox_get_packages", "sandbox_bash_output", "sandbox_shell_view"]:
        assert hints[name]["readOnlyHint"] is True and "destructiveHint" not in hints[name]
    assert hints["sandbox_execute_bash"]["destructiveHint"] and hints["sandbox_execute_bash"]["openWorldHint"]
    assert hints["sandbox_bash_kill"]["idempotentHint"] is True


def test_the_order_is_always_the_same(peer):
    assert len({tuple(tools(peer)) for _ in range(5)}) == 1


@pytest.mark.parametrize("alias", [
    "get_context", "sandbox_get_sandbox_context", "terminal_execute", "shell_exec", "sandbox_exec_command", "bash",
    "execute_bash", "terminal_session", "sandbox_python_packages"])
def test_other_names_are_answered_and_not_listed(peer, alias):
    assert alias not in tools(peer)
    assert not peer.call(alias, command="true").get("isError")


def test_a_server_of_aliases(server):
    listed = {tool["name"] for tool in server.get("/v1/mcp/shell/tools").json()["data"]["tools"]}
    assert {"shell_exec", "shell_view", "shell_kill"} <= listed
    answer = server.get("/v1/mcp/servers").json()["data"]
    assert "sandbox" in answer and "shell" not in answer
    assert "shell" in server.get("/v1/mcp/servers?include_hidden=true").json()["data"]
    assert set(tools(Peer(server, "/mcp?search=shell"))) == listed


# --- context, packages -------------------------------------------------------------------------


def test_context(server, peer):
    got = structured(peer, "sandbox_get_context")
    assert "System Environment (v" in got["info"] and got["workspace"] == str(server.home)
    assert got["info"] == server.get("/v1/sandbox").json()["data"]


@pytest.mark.parametrize("language, has, lacks", [
    (None, "Python Packages:", None), ("python", "Python Packages:", "Node.js"), ("py", "Python Packages:", "Node.js"),
    ("nodejs", "Node.js Packages:", "Python"), ("node", "Node.js Packages:", "Python")])
def test_packages(peer, language, has, lacks):
    text = peer.text("sandbox_get_packages", **({"language": language} if language else {}))
    assert text.startswith(has) and (not lacks or lacks not in text)
    if "Python" in has:
        assert re.search(r"^  - pip==\d", text, re.M)


def test_packages_of_an_unknown_language(peer):
    assert "language" in failed(peer.call("sandbox_get_packages", language="cobol"))


# --- bash --------------------------------------------------------------------------------------


def test_bash(server, peer):
    got = structured(peer, "sandbox_execute_bash", command="echo out; echo err >&2; pwd; exit 3")
    assert re.fullmatch("mcp-[0-9a-f]{8}", got["session_id"])
    assert got == {"status": "completed", "output": f"out\n{server.home}\nerr\n", "exit_code": 3,
                   "cwd": str(server.home), "session_id": got["session_id"], "command_id": "cmd-1"}


def test_bash_in_a_directory_with_an_environment(server, peer):
    (server.home / "below").mkdir(exist_ok=True)
    got = structured(peer, "sandbox_execute_bash", cmd="pwd; echo $A", cwd="below", env={"A": "b"})
    assert got["output"] == f"{server.home}/below\nb\n"
    assert "No such file" in failed(peer.call("sandbox_execute_bash", command="true", cwd="/nowhere"))


def test_bash_cuts_what_is_long(peer):
    command = "head -c 200000 /dev/zero | tr '\\0' x"
    assert len(structured(peer, "sandbox_execute_bash", command=command)["output"]) < 31000
    assert len(structured(peer, "sandbox_execute_bash", command=command, truncate=False)["output"]) == 200000


def test_bash_that_prints_anything(peer):
    got = structured(peer, "sandbox_execute_bash", command=r"printf '\xff\x00\xe2\x82\xac'")
    assert got["output"] == "\ufffd\0\u20ac"


def test_bash_in_the_background(peer):
    got = structured(peer, "sandbox_execute_bash", command="read line; echo got $line; sleep 60", run_in_background=True)
    assert got["status"] == "running" and got["exit_code"] is None
    ids = {"session_id": got["session_id"], "command_id": got["command_id"]}
    assert peer.call("sandbox_bash_input", **ids, input="hello\n").get("isError") is None
    news = structured(peer, "sandbox_bash_output", **ids, wait=True)
    assert news["stdout"] == "got hello\n"
    assert "SIGTERM" in peer.text("sandbox_bash_kill", **ids)
    ended = structured(peer, "sandbox_bash_output", **ids, offset=news["offset"], wait=True)
    assert ended["command"]["status"] == "killed" and ended["stdout"] == ""


def test_bash_that_takes_longer(peer):
    for seconds in patience(lambda: got["output"]):
        got = structured(peer, "sandbox_execute_bash", command="echo begun; sleep 60", timeout=seconds)
    assert (got["status"], got["output"]) == ("running", "begun\n")
    got = structured(peer, "sandbox_execute_bash", command="sleep 60", hard_timeout=0.2)
    assert got["status"] == "timed_out"


@pytest.mark.parametrize("arguments, says", [
    ({}, "command: Field required"), ({"command": 5}, "command"), ({"command": "x", "timeout": -1}, "timeout"),
    ({"command": "x", "timeout": "soon"}, "timeout"), ({"command": "x", "env": 5}, "env"),
    ({"command": "\ud800"}, None)])
def test_arguments_that_are_wrong_are_told_to_the_model(peer, arguments, says):
    result = peer.call("sandbox_execute_bash", **arguments)
    if says:
        assert failed(result).startswith("Invalid arguments: ") and says in failed(result)


@pytest.mark.concurrency
def test_many_commands_at_once(peer):
    waits = [in_thread(lambda n=n: peer.call("sandbox_execute_bash", command=f"sleep 0.2; echo {n}")) for n in range(20)]
    assert [wait()["structuredContent"]["output"] for wait in waits] == [f"{n}\n" for n in range(20)]


def test_a_cancelled_command_answers_nothing(peer, server):
    message = peer.build("tools/call", {"name": "sandbox_execute_bash", "arguments": {"command": "sleep 60"}})
    with peer.stream(message) as events:
        next(events)
        peer.tell("notifications/cancelled", {"requestId": message["id"]})
        assert not [event for event in events if event.get("data")]
    assert peer.ask("ping") == {}


# --- terminals ---------------------------------------------------------------------------------


def test_a_terminal_remembers(peer):
    first = structured(peer, "sandbox_shell_exec", command="cd /usr; export A=1", id="t")
    assert first["session_id"] == "t"
    assert structured(peer, "sandbox_shell_exec", command="echo $PWD $A", id="t")["output"] == "/usr 1"
    assert structured(peer, "sandbox_shell_view", id="t")["session_id"] == "t"


def test_a_terminal_is_typed_into(peer):
    got = structured(peer, "sandbox_shell_exec", command="read -p 'name? ' n; echo hi $n", id="t", timeout=1)
    assert got["status"] == "running"
    assert eventually(lambda: "name? " in structured(peer, "sandbox_shell_view", id="t")["output"])
    peer.call("sandbox_shell_write", id="t", input="me", press_enter=True)
    assert eventually(lambda: "hi me" in structured(peer, "sandbox_shell_view", id="t")["output"])


# --- the plain view ----------------------------------------------------------------------------


def test_the_plain_view_of_a_tool(server):
    answer = server.post("/v1/mcp/sandbox/tools/sandbox_execute_bash", {"command": "echo hi"}).json()
    assert answer["success"] and answer["data"]["structuredContent"]["output"] == "hi\n"
    assert answer["data"]["isError"] is False
    answer = server.post("/v1/mcp/sandbox/tools/execute_bash", {}).json()
    assert answer["success"] and answer["data"]["isError"] is True
    assert server.post("/v1/mcp/sandbox/tools/sandbox_get_context").status_code == 200  # no body at all


@pytest.mark.parametrize("body, status", [(b"[1]", 422), (b"{", 422), (b"5", 422)])
def test_the_plain_view_of_wrong_arguments(server, body, status):
    answer = server.request("POST", "/v1/mcp/sandbox/tools/sandbox_execute_bash", content=body)
    assert answer.status_code == status and "object" in answer.text
    assert server.post("/v1/mcp/sandbox/tools/nothing", {}).status_code == 404
    assert server.post("/v1/mcp/nothing/tools/sandbox_execute_bash", {}).status_code == 404


def test_the_official_sdk_reads_the_plain_view(server):
    from agent_sandbox import Sandbox

    with httpx.Client(timeout=60) as http:
        client = Sandbox(base_url=server.url, httpx_client=http)
        assert "sandbox" in client.mcp.list_mcp_servers().data
        listed = client.mcp.list_mcp_tools("sandbox").data.tools
        assert "sandbox_execute_bash" in [tool.name for tool in listed]
        result = client.mcp.execute_mcp_tool("sandbox", "sandbox_execute_bash", request={"command": "echo sdk"}).data
    assert "sdk" in result.content[0].text and not result.is_error


# --- resources ---------------------------------------------------------------------------------


def contents(peer, uri):
    (one,) = peer.ask("resources/read", {"uri": uri})["contents"]
    return one


def not_found(peer, uri):
    with pytest.raises(RpcError) as caught:
        peer.ask("resources/read", {"uri": uri})
    return caught.value


def test_files_of_the_workspace_are_resources(server, peer, tmp_path):
    folder = server.home / "res"
    folder.mkdir(exist_ok=True)
    (folder / "n\u00f6te one.txt").write_text("h\u00e9llo")
    (folder / "raw.bin").write_bytes(b"\0\xff\1")
    (folder / ".hidden").write_text("x")
    listed = {one["name"]: one for one in peer.ask("resources/list")["resources"]}
    note = listed["res/n\u00f6te one.txt"]
    assert note["uri"] == f"file://{folder}/n%C3%B6te%20one.txt" and note["size"] == 6
    assert not any(".hidden" in name for name in listed)
    assert contents(peer, note["uri"])["text"] == "h\u00e9llo"
    assert base64.b64decode(contents(peer, listed["res/raw.bin"]["uri"])["blob"]) == b"\0\xff\1"
    assert set(contents(peer, f"file://{folder}")["text"].split("\n")) >= {"raw.bin", ".hidden"}


def test_the_list_comes_in_pages(start_server):
    server = start_server()
    for n in range(250):
        (server.home / f"f{n:03}").touch()
    peer, seen, cursor, pages = Peer(server), [], None, 0
    while pages == 0 or cursor:
        got = peer.ask("resources/list", {"cursor": cursor} if cursor else {})
        seen += [one["name"] for one in got["resources"] if one["uri"].startswith("file:")]
        cursor, pages = got.get("nextCursor"), pages + 1
    assert pages == 3 and seen == sorted(set(seen)) and len(seen) == 250
    for bad in ["x", "at-", "at-1x", "at--1", 5, "at-99999999999999999999999"]:
        with pytest.raises(RpcError) as caught:
            peer.ask("resources/list", {"cursor": bad})
        assert caught.value.code == -32602
    assert peer.ask("resources/list", {"cursor": "at-100000"})["resources"] == []


def test_templates_and_completion(server, peer):
    (server.home / "complete").mkdir(exist_ok=True)
    for name in ["alpha", "alto", "beta"]:
        (server.home / "complete" / name).touch()
    (template,) = peer.ask("resources/templates/list")["resourceTemplates"]
    assert template["uriTemplate"] == "file://{+path}"
    ask = {"ref": {"type": "ref/resource", "uri": template["uriTemplate"]},
           "argument": {"name": "path", "value": f"{server.home}/complete/al"}}
    got = peer.ask("completion/complete", ask)["completion"]
    assert got["values"] == [f"{server.home}/complete/{name}" for name in ["alpha", "alto"]]
    with pytest.raises(RpcError):
        peer.ask("completion/complete", {"ref": {"type": "x"}})


@pytest.mark.parametrize("uri", ["file:///nowhere/at/all", "http://x/", "", "file://host/x", "file:///%00", "file:///%zz",
                                 "file://", "x" * 5000])
def test_what_is_no_resource(peer, server, uri):
    error = not_found(peer, uri)
    assert error.code == -32002 and error.data == {"uri": uri}
    assert not_found(Peer(server, modern=True), "file:///nowhere").code == -32602


def test_what_cannot_be_read(peer, server):
    fifo = server.home / "fifo"
    os.mkfifo(fifo) if not fifo.exists() else None
    assert "not a regular file" in not_found(peer, f"file://{fifo}").message
    big = server.home / "big"
    with open(big, "wb") as file:
        file.truncate(17 << 20)
    assert "in parts" in not_found(peer, f"file://{big}").message
    big.unlink(), fifo.unlink()


def test_the_sandbox_itself_is_a_resource(peer, server):
    assert contents(peer, "sandbox://context")["text"] == server.get("/v1/sandbox").json()["data"]
    assert isinstance(json.loads(contents(peer, "sandbox://mcp-servers")["text"]), list)


@pytest.mark.concurrency
def test_a_subscriber_hears_of_changes(server, peer):
    file = server.home / "watched.txt"
    file.write_text("1")
    uri = f"file://{file}"
    assert peer.ask("resources/subscribe", {"uri": uri}) == {}
    with peer.stream() as events:
        (server.home / "other.txt").write_text("not this one")
        file.write_text("2")
        news = events.message()
        assert (news["method"], news["params"]) == ("notifications/resources/updated", {"uri": uri})
        replacement = server.home / "new"
        replacement.write_text("3")
        os.replace(replacement, file)  # as editors do
        assert events.message()["params"]["uri"] == uri
        assert peer.ask("resources/unsubscribe", {"uri": uri}) == {}
    assert eventually(lambda: "inotify" not in " ".join(server._links()))


def test_one_file_s_changes_do_not_hide_another_s(server, peer):
    busy, quiet = server.home / "busy", server.home / "quiet"
    busy.write_text("1")
    quiet.write_text("1")
    for file in (busy, quiet):
        peer.ask("resources/subscribe", {"uri": f"file://{file}"})
    with peer.stream() as events:
        os.kill(server.pid, signal.SIGSTOP)  # so that it finds all of them at once
        try:
            for _ in range(100):
                busy.write_text("2")
            quiet.write_text("2")
        finally:
            os.kill(server.pid, signal.SIGCONT)
        assert events.message()["params"]["uri"] == f"file://{busy}"
        assert events.message(lambda news: news["params"]["uri"] == f"file://{quiet}")


def test_a_listener_hears_of_changes(server):
    file = server.home / "listened.txt"
    file.write_text("1")
    peer, uri = Peer(server, modern=True), f"file://{file}"
    message = peer.build("subscriptions/listen", {"notifications": {"resourceSubscriptions": [uri]}}, id=9)
    with peer.stream(message) as events:
        assert events.message()["method"] == "notifications/subscriptions/acknowledged"
        file.write_text("2")
        news = events.message()
        assert news["params"]["uri"] == uri and news["params"]["_meta"][META + "subscriptionId"] == 9
    assert eventually(lambda: "inotify" not in " ".join(server._links()))


def test_the_end_of_a_session_ends_its_subscriptions(server):
    with Peer(server) as peer:
        peer.ask("resources/subscribe", {"uri": f"file://{server.home}/x"})
        peer.ask("resources/subscribe", {"uri": "other://thing"})
        assert "inotify" in " ".join(server._links())
    assert eventually(lambda: "inotify" not in " ".join(server._links()))


def test_a_subscription_needs_a_session(server):
    with pytest.raises(RpcError) as caught:
        Peer(server).ask("resources/subscribe", {"uri": "file:///x"})
    assert "needs a session" in caught.value.message


# --- prompts -----------------------------------------------------------------------------------


def test_prompts(peer):
    listed = {prompt["name"]: prompt for prompt in peer.ask("prompts/list")["prompts"]}
    assert {"explore_workspace", "run_and_fix", "analyze_data"} <= set(listed)
    required = [a["name"] for a in listed["run_and_fix"]["arguments"] if a["required"]]
    assert required == ["command"]
    got = peer.ask("prompts/get", {"name": "run_and_fix", "arguments": {"command": "make {x} [[y]]"}})
    text = got["messages"][0]["content"]["text"]
    assert "`make {x} [[y]]`" in text and "in the directory" not in text and "{command}" not in text
    got = peer.ask("prompts/get", {"name": "run_and_fix", "arguments": {"command": "x", "directory": "/d"}})
    assert "in the directory /d" in got["messages"][0]["content"]["text"]


@pytest.mark.parametrize("params", [{}, {"name": "nothing"}, {"name": "run_and_fix"},
                                    {"name": "run_and_fix", "arguments": {"command": 5}}])
def test_prompts_that_are_asked_for_wrongly(peer, params):
    with pytest.raises(RpcError) as caught:
        peer.ask("prompts/get", params)
    assert caught.value.code == -32602
