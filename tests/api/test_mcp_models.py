"""What a model gets to see: sessions of its own, results that are short and whole, lines counted from 1."""

import asyncio
import contextlib
import re

import mcp
import pytest

import commands
import kernels
from harness import LEAN, eventually
from mcp_peer import Peer
from processes import gone

pytestmark = [pytest.mark.timeout(180), pytest.mark.server(env=LEAN, warm=kernels.warm)]


@pytest.fixture(autouse=True)
def no_sessions(server):
    yield
    commands.close_all(server)
    server.request("DELETE", "/v1/shell/sessions")
    for session in kernels.node_sessions(server):
        kernels.delete_node_session(server, session)
    kernels.close_all(server)
    kernels.ready(server)


def everything(server):
    """The ids of all sessions that there are."""
    answers = [server.get(f"/v1/{kind}/sessions").json()["data"] for kind in ("bash", "shell", "jupyter", "nodejs")]
    return set(re.findall(r"mcp-[0-9a-f]+|(?:bash|shell|jupyter|nodejs)-[0-9a-f]+-[0-9a-f]+", str(answers)))


class Model:
    """A client of the official SDK."""

    def __init__(self, client):
        self.client = client

    async def call(self, tool, /, **arguments):
        return await self.client.call_tool(tool, arguments)

    async def get(self, tool, /, **arguments):
        result = await self.call(tool, **arguments)
        assert not result.is_error, result
        return result.structured_content


def with_models(server, count, work, mode="legacy"):
    """Runs work(models…) with clients of a session each; of none in mode "auto"."""

    async def run():
        async with contextlib.AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(mcp.Client(f"{server.url}/mcp", mode=mode)) for _ in range(count)]
            return await work(*map(Model, clients))

    return asyncio.run(run())



# --- sessions of its own -----------------------------------------------------------------------


def test_commands_of_a_client_are_its_own(server):
    async def work(one, two):
        first = await one.get("sandbox_execute_bash", command="echo secret; sleep 1000", run_in_background=True)
        other = await two.get("sandbox_execute_bash", command="echo $$ ; exec sleep 1000", timeout=1)
        again = await one.get("sandbox_execute_bash", command="true")
        assert first["session_id"] == again["session_id"] != other["session_id"]
        # The newest of the session: another client's cannot be among them.
        newest = await two.get("sandbox_bash_output", session_id=other["session_id"], wait=True)
        assert newest["command"]["command_id"] == other["command_id"] and "secret" not in newest["stdout"]
        return int(newest["stdout"])

    pid = with_models(server, 2, work)
    assert gone(pid) and eventually(lambda: not everything(server))


def test_a_terminal_of_a_client_is_its_own(server):
    async def work(one, two):
        first = await one.get("sandbox_shell_exec", command="cd /usr; export A=1")
        assert (await one.get("sandbox_shell_exec", command="echo $PWD $A"))["output"] == "/usr 1"
        other = await two.get("sandbox_shell_exec", command="echo $PWD $A")
        assert other["output"] == str(server.home) and other["session_id"] != first["session_id"]
        chosen = await one.get("sandbox_shell_exec", command="echo $PWD", id="chosen")
        assert (chosen["session_id"], chosen["output"]) == ("chosen", str(server.home))

    with_models(server, 2, work)
    assert eventually(lambda: not everything(server))


@pytest.mark.parametrize("language, assign, failure", [
    ("python", "kept = 41", "NameError"), ("javascript", "var kept = 41", "ReferenceError")])
def test_variables_of_a_client_are_its_own(server, language, assign, failure):
    async def work(one, two):
        state = {"language": language, "stateful": True, "timeout": 100}
        first = await one.get("sandbox_execute_code", code=assign, **state)
        second = await one.get("sandbox_execute_code", code="kept + 1", **state)
        assert second["result"] == "42" and first["session_id"] == second["session_id"]
        other = await two.call("sandbox_execute_code", code="kept + 1", **state)
        assert other.is_error and failure in other.structured_content["traceback"]
        chosen = await one.call("sandbox_execute_code", code="kept + 1", session_id="chosen", **state)
        assert chosen.is_error and chosen.structured_content["session_id"] == "chosen"

    with_models(server, 2, work)
    assert eventually(lambda: not everything(server))


def test_a_client_that_ends_while_it_calls_leaves_no_session(server):
    with Peer(server) as peer:
        message = peer.build("tools/call", {"name": "sandbox_execute_bash", "arguments": {"command": "sleep 1000"}})
        with peer.stream(message) as events:
            next(events)
            peer.close()
    assert eventually(lambda: not everything(server))


def test_a_client_without_a_session_gets_an_id_to_go_on_with(server):
    async def work(one):
        first = await one.get("sandbox_execute_bash", command="true")
        assert first["session_id"] != (await one.get("sandbox_execute_bash", command="true"))["session_id"]
        again = await one.get("sandbox_execute_bash", command="true", session_id=first["session_id"])
        assert again["session_id"] == first["session_id"]
        state = await one.get("sandbox_execute_code", code="kept = 41", stateful=True, timeout=100)
        assert state["session_id"] != (await one.get("sandbox_execute_code", code="1", stateful=True))["session_id"]
        result = await one.get("sandbox_execute_code", code="kept + 1", session_id=state["session_id"])
        assert result["result"] == "42"

    with_models(server, 1, work, mode="auto")


# --- code --------------------------------------------------------------------------------------


@pytest.fixture
def peer(server):
    with Peer(server) as peer:
        yield peer


FAILING = [("python", "def fails():\n    return 1 / 0  # marker\n\nprint('before')\nfails()", "ZeroDivisionError: division by zero"),
           ("javascript", "function fails() {\n  throw new Error('broken')\n}\nconsole.log('before')\nfails()", "Error: broken")]


@pytest.mark.parametrize("stateful", [False, True])
@pytest.mark.parametrize("language, code, says", FAILING)
def test_a_traceback_comes_once_in_plain_text_and_without_the_code(peer, language, code, says, stateful):
    result = peer.call("sandbox_execute_code", language=language, code=code, stateful=stateful, timeout=100)
    text, data = result["content"][0]["text"], result["structuredContent"]
    assert result["isError"] and (data["status"], data["stdout"]) == ("error", "before\n")
    assert says in data["traceback"] and text.count(says) == 1, data
    assert "\x1b" not in data["traceback"] and "\\u001b" not in text
    assert "code" not in data and "outputs" not in data and len(result["content"]) == 1


def test_what_else_was_printed_as_errors_is_kept(peer):
    code = "import sys; print('warning', file=sys.stderr); 1 / 0"
    data = peer.call("sandbox_execute_code", code=code)["structuredContent"]
    assert data["stderr"] == "warning\n" and data["traceback"].startswith("Traceback")
    data = peer.call("sandbox_execute_code", code="import sys; sys.exit('enough')")["structuredContent"]
    assert (data["stderr"], data["traceback"], data["exit_code"]) == ("enough\n", None, 1)


@pytest.mark.parametrize("stateful", [False, True])
@pytest.mark.parametrize("code, value", [
    ("x = 5\nx + 1", "6"), ("x = 'a'\nx", "'a'"), ("x = 5", None), ("print('a')", None), ("None", None),
    ("if True:\n    5", None), ("", None), ("# nothing", None)])
def test_the_value_of_the_last_expression_of_python(peer, code, value, stateful):
    data = peer.call("sandbox_execute_code", code=code, stateful=stateful, timeout=100)["structuredContent"]
    assert (data["status"], data["result"]) == ("ok", value)
    assert data["stdout"] == ("a\n" if "print" in code else "")


def test_a_value_that_cannot_be_shown_is_an_error(peer):
    code = "class A:\n    def __repr__(self): raise ValueError('no')\nA()"
    data = peer.call("sandbox_execute_code", code=code)["structuredContent"]
    assert data["status"] == "error" and "ValueError: no" in data["traceback"] and "main.py" in data["traceback"]


def test_a_value_that_is_long_is_cut(peer):
    data = peer.call("sandbox_execute_code", code="'x' * 10_000_000")["structuredContent"]
    assert 1000 < len(data["result"]) < 200_000


def test_tracebacks_of_the_last_expression_show_its_line(peer):
    data = peer.call("sandbox_execute_code", code="x = 0\n\n1 / x")["structuredContent"]
    assert re.search(r'File "main.py", line 3, in <module>\n\s+1 / x', data["traceback"]), data["traceback"]
    data = peer.call("sandbox_execute_code", code="x = 0\nx +")["structuredContent"]
    assert 'File "main.py", line 2' in data["traceback"] and "SyntaxError" in data["traceback"]


def test_other_things_that_are_displayed(peer):
    code = "from IPython.display import display, Markdown\ndisplay(Markdown('**bold**'))\ndisplay({'a': 1})\n'last'"
    data = peer.call("sandbox_execute_code", code=code, stateful=True, timeout=100)["structuredContent"]
    assert data["result"] == "'last'" and data["displayed"] == ["**bold**", "{'a': 1}"]


def test_rest_is_as_it_was(server):
    """The value is only for who asks for it."""
    data = server.post("/v1/code/execute", {"language": "python", "code": "5"}).json()["data"]
    assert data["outputs"] == [] and data["stdout"] == "" and data["code"] == "5"


# --- files -------------------------------------------------------------------------------------


def test_lines_count_from_1_and_relative_paths_from_the_workspace(server, peer):
    (server.home / "lines.txt").write_text("one\ntwo\nthree\nfour\n")

    def read(**lines):
        result = peer.call("sandbox_file_operations", action="read", path="lines.txt", **lines)
        return result["structuredContent"]["content"]

    assert read(start_line=2, end_line=3) == "two\nthree\n" == read(start_line=2, end_line=3)
    assert read(start_line=4) == "four\n" and read(end_line=1) == "one\n" and read(start_line=5) == ""
    assert read(start_line=0, end_line=1) == "one\n"
    found = peer.call("sandbox_file_operations", action="search", path="./lines.txt", content="two")["structuredContent"]
    assert read(start_line=found["line_numbers"][0], end_line=found["line_numbers"][0]) == "two\n"


def test_hints_of_files_arrive(server, peer):
    with open(server.home / "large.txt", "wb") as file:
        file.truncate(64 << 20)
    result = peer.call("sandbox_file_operations", action="grep", path="large.txt", pattern="x")
    assert result["structuredContent"]["match_count"] == 0
    assert "larger than max_file_size and was not searched" in result["content"][-1]["text"], result
    (server.home / "large.txt").unlink()


def test_the_value_of_a_program_is_its_result(server, peer):
    result = peer.call("sandbox_execute_code", language="javascript", code="const a = [1, 2]\na.length")
    assert result["structuredContent"]["result"] == "2" and result["structuredContent"]["stdout"] == "", result


def test_the_descriptions_say_where_lines_and_paths_begin(peer):
    tools = {tool["name"]: tool for tool in peer.ask("tools/list")["tools"]}
    fields = tools["sandbox_file_operations"]["inputSchema"]["properties"]
    assert "from 1" in fields["start_line"]["description"] and "workspace" in fields["path"]["description"]
    assert "absolute" in tools["sandbox_str_replace_editor"]["description"]
    for name in ("sandbox_execute_bash", "sandbox_shell_exec", "sandbox_execute_code"):
        assert "session" in tools[name]["description"], name


def test_a_server_that_isolates_nothing_does_not_promise_it(server):
    with Peer(server) as peer:
        peer.close()
        said = peer.initialize("2025-11-25")["instructions"]
    assert "does not isolate" in said and "of your own" not in said, said
