"""Sessions of commands on pipes: several commands at once, how sessions end, and how many there may be."""

import re
import resource

import httpx
import pytest

from commands import (  # noqa: F401
    ask, begun, close, close_all, ended, no_sessions, read, refused, run, sessions, start, warm)
from harness import LEAN, eventually, program
from processes import DAEMONS, alive, daemon, gone, text_of, together

MIB = 1 << 20
EURO = "\u20ac"  # three bytes in UTF-8
pytestmark = pytest.mark.server(env=LEAN, warm=warm)


# --- several at once ---------------------------------------------------------------------------


def test_several_commands_in_one_session(server):
    sid = ask(server, "sessions/create")["session_id"]
    commands = [run(server, f"read x; echo {i}$x; exit {i}", session_id=sid, async_mode=True) for i in range(5)]
    assert len({command["command_id"] for command in commands}) == 5
    for i in reversed(range(5)):
        ask(server, "write", session_id=sid, command_id=commands[i]["command_id"], input=f"in{i}\n")
    for i, command in enumerate(commands):
        data = ended(server, command)
        assert data["stdout"] == f"{i}in{i}\n" and data["command"]["exit_code"] == i


@pytest.mark.concurrency
def test_200_parallel_commands(server):
    """They sleep so that they overlap."""

    def one(i):
        data = run(server, f"echo {i}; sleep 0.5; echo {i} >&2; exit {i % 256}")
        return (data["stdout"], data["stderr"], data["exit_code"]) == (f"{i}\n", f"{i}\n", i % 256)

    assert together(200, one) == [True] * 200


@pytest.mark.concurrency
def test_200_commands_of_one_session(server):
    sid = ask(server, "sessions/create")["session_id"]

    def one(i):
        data = run(server, f"echo {i}", session_id=sid)
        return data["stdout"] == f"{i}\n", data["command_id"]

    answers = together(40, lambda i: [one(i) for _ in range(5)])
    assert all(good for some in answers for good, _ in some)
    assert len({id for some in answers for _, id in some}) == 200


def test_200_commands_where_the_usual_limit_is_1024(start_server, tmp_path, monkeypatch):
    """The server takes as many descriptors as it may have; what it starts is given the limit it had. The commands
    sleep so that they overlap."""
    wrapper = tmp_path / "aio"
    wrapper.write_text(f"#!/bin/bash\nulimit -Sn 1024\nexec '{program('aio')}' \"$@\"\n")
    wrapper.chmod(0o755)
    monkeypatch.setenv("AIO", str(wrapper))
    server = warm(start_server())
    hard = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)[1]
    data = run(server, "ulimit -Sn; ulimit -Hn")
    assert data["stdout"].split() == ["1024", str(hard)]
    answers = together(200, lambda i: run(server, f"sleep 0.7; echo {i}", session_id=data["session_id"])["stdout"])
    assert answers == [f"{i}\n" for i in range(200)]
    close(server, data["session_id"])


def test_too_few_descriptors(start):
    """Those who find none are told so, and all is well when there are some again."""
    server = start()
    soft, hard = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
    for more in range(2, 12):
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (len(server._links()) + more, hard))
        try:
            code = server.post("/v1/bash/exec", {"command": "true", "timeout": 5}).status_code
        except httpx.HTTPError:
            code = None  # not even a connection
        finally:
            resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (soft, hard))
        assert code in (None, 200, 429, 503), more
        close_all(server)
    assert code == 200
    server.check_leaks(server.baseline)


@pytest.mark.concurrency
def test_one_who_waits_for_each_other(server):
    """Commands and those who wait for them, all at once on one session."""
    sid = ask(server, "sessions/create")["session_id"]
    command = run(server, "for i in 1 2 3 4 5; do echo $i; sleep 0.1; done", session_id=sid, async_mode=True)

    def follow(_):
        text, offset, status = "", 0, "running"
        while status == "running":
            data = read(server, command, offset=offset, wait=True)
            text, offset, status = text + data["stdout"], data["offset"], data["command"]["status"]
        return text + read(server, command, offset=offset)["stdout"]

    assert together(20, follow) == ["1\n2\n3\n4\n5\n"] * 20


# --- sessions ----------------------------------------------------------------------------------


def test_sessions_are_listed(server):
    made = ask(server, "sessions/create", session_id="mine", exec_dir="/usr")
    assert made["session_id"] == "mine" and made["status"] == "ready" and made["working_dir"] == "/usr"
    assert made["current_command"] is None and made["command_count"] == 0
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", made["created_at"])
    run(server, "true", session_id="mine")
    run(server, "sleep 100", session_id="mine", async_mode=True, exec_dir="/")
    listed = {s["session_id"]: s for s in sessions(server)}["mine"]
    assert listed["current_command"] == "sleep 100" and listed["command_count"] == 2
    assert listed["working_dir"] == "/" and listed["created_at"] == made["created_at"]
    assert listed["last_used_at"] > made["last_used_at"]
    assert ask(server, "sessions/create", session_id="mine")["command_count"] == 2, "the same one"
    close(server, "mine")
    assert "mine" not in [s["session_id"] for s in sessions(server)]
    assert server.post("/v1/bash/sessions/mine/close").status_code == 404


@pytest.mark.parametrize("absent", [{}, {"session_id": None}, {"session_id": ""}])
def test_session_without_a_name_gets_one(server, absent):
    made = {ask(server, "sessions/create", **absent)["session_id"] for _ in range(3)}
    made |= {run(server, "true", **absent)["session_id"] for _ in range(3)}
    assert len(made) == 6 and "" not in made


@pytest.mark.parametrize("name", ["a b/c?d#e", EURO * 64, "'; rm -rf /tmp/x; '", "%s%n", "a=b"])
def test_session_with_an_odd_name(server, name):
    data = run(server, "sleep 1000 >/dev/null 2>&1 & echo $!", session_id=name)
    assert data["session_id"] == name
    assert ask(server, "output", session_id=name)["stdout"] == data["stdout"]
    close(server, name)
    assert not alive(data["stdout"])


def test_session_name_that_is_too_long(server):
    assert refused(server, "exec", command="true", session_id="x" * 65)[0] == 422
    assert refused(server, "sessions/create", session_id="x" * 65)[0] == 422


def test_unnamed_session_does_not_take_over_a_named_one(server):
    """A client may have chosen the very name that would be next."""
    first = run(server, "true")["session_id"]
    kind, stamp, number = first.rsplit("-", 2)
    taken = [f"{kind}-{stamp}-{int(number, 16) + i:x}" for i in range(1, 4)]
    for name in taken:
        ask(server, "sessions/create", session_id=name)
    for _ in range(3):
        run(server, "true")
    names = [s["session_id"] for s in sessions(server)]
    assert len(names) == len(set(names)) == 7


def test_snapshot_is_sourced(server, tmp_path):
    snapshot = tmp_path / "snap shot"
    snapshot.write_text("export FROM=snapshot\ngreet() { echo hello $1; }\n"
                        "shopt -s expand_aliases\nalias hi='greet hi'\n")
    sid = ask(server, "sessions/create", snapshot_path=str(snapshot))["session_id"]
    assert run(server, "greet $FROM\nhi", session_id=sid)["stdout"] == "hello snapshot\nhello hi\n"
    assert refused(server, "sessions/create", snapshot_path="/no/such/file")[0] == 400


def test_close_ends_what_runs_and_answers_who_waits(server):
    command = begun(server, "echo a; sleep 100", "a\n")
    sid = command["session_id"]
    with server.begin("/v1/bash/output", **{name: command[name] for name in ("session_id", "command_id")}, wait=True,
                      offset=2) as waiting, \
            server.begin("/v1/bash/exec", command="trap '' TERM HUP INT; echo b; sleep 100; echo c",
                         session_id=sid) as running:
        assert eventually(lambda: ask(server, "output", session_id=sid)["stdout"] == "b\n")
        assert server.at_rest()
        close(server, sid)
        assert waiting.answer().json()["data"]["command"]["status"] == "killed"
        data = running.answer().json()["data"]
        assert (data["status"], data["exit_code"], data["stdout"]) == ("killed", 137, "b\n")
    assert refused(server, "output", session_id=sid)[0] == 404
    assert run(server, "echo again", session_id=sid)["stdout"] == "again\n", "the name is free again"


@pytest.mark.concurrency
def test_close_and_exec_at_once_leave_nothing_running(server):
    """A command that starts while its session is being closed is ended as well."""

    def one(i):
        sid = f"race-{i % 8}"
        if i % 2:
            server.post(f"/v1/bash/sessions/{sid}/close")
        else:
            server.post("/v1/bash/exec", {"command": "sleep 1000", "session_id": sid, "async_mode": True})

    for _ in range(6):
        together(32, one)
    close_all(server)
    assert eventually(lambda: not server.children()), "a command runs on without a session"


@pytest.mark.parametrize("how", DAEMONS)
def test_daemon_is_ended_with_its_session(server, tmp_path, how):
    data = run(server, daemon(how, tmp_path))
    pid = text_of(tmp_path / "pid")
    assert data["exit_code"] == 0 and alive(pid)
    other = run(server, "sleep 1000", async_mode=True)
    close(server, data["session_id"])
    assert not alive(pid)
    assert read(server, other)["command"]["status"] == "running", "another session is left alone"


def test_1000_sessions_leave_nothing(server):
    before, memory = server.possessions(), None
    for i in range(1000):
        sid = f"s{i}"
        if i % 10 == 0:
            run(server, "echo x", session_id=sid)
        else:
            ask(server, "sessions/create", session_id=sid)
        close(server, sid)
        if i == 200:
            memory = server.memory()
    assert sessions(server) == []
    server.check_leaks(before)
    assert server.memory() - memory < 8 * MIB


def test_commands_that_a_session_forgets(server):
    sid = ask(server, "sessions/create")["session_id"]
    running = run(server, "sleep 100", session_id=sid, async_mode=True)
    commands = [run(server, f"echo {i}", session_id=sid) for i in range(70)]
    assert refused(server, "output", session_id=sid, command_id=commands[0]["command_id"])[0] == 404
    assert read(server, commands[-1])["stdout"] == "69\n"
    assert read(server, commands[10])["stdout"] == "10\n"
    assert read(server, running)["command"]["status"] == "running", "what runs is not forgotten"
    assert sessions(server)[0]["command_count"] == 71


def test_number_of_sessions_has_a_cap(start):
    server = start(["--max-sessions", "3"])
    for name in "abc":
        run(server, "sleep 100", session_id=name, async_mode=True)
    status, text = refused(server, "exec", command="true", session_id="d")
    assert status == 429 and "--max-sessions" in text
    assert refused(server, "sessions/create")[0] == 429
    assert run(server, "echo x", session_id="a")["stdout"] == "x\n"
    ask(server, "kill", session_id="b")
    assert eventually(lambda: server.post("/v1/bash/sessions/create", {"session_id": "d"}).status_code == 200)
    assert {s["session_id"] for s in sessions(server)} == set("acd")
    for name in "acd":
        close(server, name)


@pytest.mark.concurrency
def test_idle_sessions_make_room_for_many_at_once(start):
    """Nobody is refused while something idle could go."""
    server = start(["--max-sessions", "16"])
    codes = together(12, lambda i: [server.post("/v1/bash/sessions/create", {}).status_code for _ in range(20)])
    assert {code for some in codes for code in some} == {200}
    assert len(sessions(server)) <= 16
    close_all(server)


@pytest.mark.concurrency
def test_a_session_is_not_taken_from_one_who_has_just_got_it(start):
    server = start(["--max-sessions", "4"])
    codes = together(8, lambda i: [server.post("/v1/bash/exec", {"command": "true"}).status_code for _ in range(5)])
    assert {200} <= {code for some in codes for code in some} <= {200, 429}
    close_all(server)


def test_idle_session_expires_with_all_it_left(start_server):
    server = start_server(["--session-timeout", "2"])
    idle = run(server, "sleep 1000 >/dev/null 2>&1 & echo $!")
    busy = run(server, "sleep 1000", async_mode=True)
    used = ask(server, "sessions/create")["session_id"]

    def listed():
        run(server, "true", session_id=used)
        return {s["session_id"] for s in sessions(server)}

    # Time and again: on a busy machine the one in use may expire as well, between two of these calls.
    assert eventually(lambda: listed() == {busy["session_id"], used}), listed()
    assert gone(idle["stdout"])
    close(server, busy["session_id"])
    server.post(f"/v1/bash/sessions/{used}/close")  # unless it has just expired as well


def test_history_is_as_long_as_configured(start_server):
    server = start_server(["--max-history", "3"])
    ids = [run(server, f"echo {i}", session_id="h")["command_id"] for i in range(5)]
    told = [server.post("/v1/bash/output", {"session_id": "h", "command_id": i}) for i in ids]
    assert [answer.status_code for answer in told] == [404, 404, 200, 200, 200]
    assert told[2].json()["data"]["stdout"] == "2\n"
    for i in range(5):
        assert server.post("/v1/shell/exec", {"id": "h", "command": f"echo {i}"}).status_code == 200
    console = server.post("/v1/shell/view", {"id": "h"}).json()["data"]["console"]
    assert [record["output"] for record in console] == ["2", "3", "4"]
    close(server, "h")
    assert server.client.delete("/v1/shell/sessions/h").status_code == 200
