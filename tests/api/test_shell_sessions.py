"""Sessions of shells: their names, how they end, and how many there may be."""

import re

import pytest

from harness import LEAN, eventually
from processes import DAEMONS, alive, daemon, gone, text_of, together
from shells import (  # noqa: F401
    ask, delete, delete_all, no_sessions, output, refused, run, sessions, shell, shows, start, view, warm)

MIB = 1 << 20
EURO = "\u20ac"
pytestmark = pytest.mark.server(env=LEAN, warm=warm)


# --- sessions ----------------------------------------------------------------------------------


def test_sessions(server):
    made = ask(server, "sessions/create", id="mine", exec_dir="/usr")
    assert made == {"session_id": "mine", "working_dir": "/usr"}
    run(server, "cd /etc", "mine")
    assert ask(server, "sessions/create", id="mine", exec_dir="/") == {"session_id": "mine", "working_dir": "/etc"}
    info = sessions(server)["mine"]
    assert info["working_dir"] == "/etc" and info["status"] == "ready" and info["current_command"] is None
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", info["created_at"]) and 0 <= info["age_seconds"] < 60
    assert info["last_used_at"] >= info["created_at"]
    delete(server, "mine")
    assert "mine" not in sessions(server)
    assert server.request("DELETE", "/v1/shell/sessions/mine").status_code == 404


@pytest.mark.parametrize("absent", [{}, {"id": None}, {"id": ""}])
def test_session_without_a_name_gets_one(server, absent):
    made = {ask(server, "sessions/create", **absent)["session_id"] for _ in range(2)}
    made |= {ask(server, "exec", command="true", **absent)["session_id"] for _ in range(2)}
    assert len(made) == 4 and "" not in made


@pytest.mark.parametrize("name", ["a b/c?d#e", EURO * 64, "'; touch /tmp/x; '", "%s%n", "$(id)"])
def test_session_with_an_odd_name(server, name):
    data = run(server, "sleep 1000 & echo $!", name)
    assert data["session_id"] == name
    assert view(server, name)["session_id"] == name and name in sessions(server)
    delete(server, name)
    assert not alive(data["output"].split()[-1])


def test_stats(server):
    before = server.get("/v1/shell/sessions/stats").json()["data"]
    assert before == {"total_sessions": 0, "active_sessions": 0, "idle_sessions": 0, "max_sessions": 512,
                      "session_timeout": 86400, "usage_ratio": 0.0}
    for _ in range(4):
        ask(server, "sessions/create")
    stats = server.get("/v1/shell/sessions/stats").json()["data"]
    assert stats["total_sessions"] == stats["active_sessions"] == 4 and stats["usage_ratio"] == 4 / 512


def test_terminal_url(server):
    url = server.get("/v1/shell/terminal-url").json()["data"]
    match = re.fullmatch(re.escape(server.url) + r"/terminal\?session_id=(\S+)", url)
    assert match and match.group(1) in sessions(server)
    page = server.get(url)
    assert page.status_code == 200 and "Web Terminal" in page.text


def test_delete_ends_what_runs_and_answers_who_waits(server, shell):
    with server.begin("/v1/shell/exec", id=shell, command="trap '' TERM HUP INT; echo a; sleep 100") as running:
        shows(server, shell, "\na")
        with server.begin("/v1/shell/exec", id=shell, command="echo no") as queued, \
                server.begin("/v1/shell/wait", id=shell, seconds=50) as waiting:
            assert server.at_rest()
            delete(server, shell)
            told = [peer.answer().json()["data"] for peer in (running, queued, waiting)]
    assert [data["status"] for data in told] == ["terminated"] * 3 and told[0]["output"] == "a"
    assert refused(server, "view", id=shell)[0] == 404
    assert output(server, "echo again", shell) == "again", "the name is free again"


def test_delete_all(server):
    pids = [run(server, "sleep 1000 & echo $!")["output"].split()[-1] for _ in range(5)]
    assert len(sessions(server)) == 5
    answer = server.request("DELETE", "/v1/shell/sessions").json()
    assert answer["success"] and answer["message"] == "5 sessions ended" and sessions(server) == {}
    assert not any(map(alive, pids))


@pytest.mark.parametrize("how", DAEMONS)
def test_daemon_is_ended_with_its_session(server, shell, tmp_path, how):
    data = run(server, daemon(how, tmp_path), shell)
    pid = text_of(tmp_path / "pid")
    assert data["exit_code"] == 0 and alive(pid)
    run(server, "exit", shell)
    assert alive(pid), "it outlives the shell"
    other = run(server, "sleep 1000 & echo $!")["output"].split()[-1]
    delete(server, shell)
    assert not alive(pid)
    assert alive(other), "another session is left alone"


@pytest.mark.concurrency
def test_delete_and_exec_at_once(server):
    """A command that starts while its session is being deleted is ended as well."""

    def one(i):
        sid = f"race-{i % 6}"
        if i % 2:
            server.request("DELETE", f"/v1/shell/sessions/{sid}")
        else:
            server.post("/v1/shell/exec", {"command": "sleep 1000", "id": sid, "timeout": 0.05})

    for _ in range(4):
        together(24, one)
    delete_all(server)
    assert eventually(lambda: not server.children()), "a shell runs on without a session"


def test_1000_sessions_leave_nothing(server):
    before, memory = server.possessions(), None
    for i in range(1000):
        sid = f"s{i}"
        if i % 20 == 0:
            assert output(server, "echo x", sid) == "x"
        else:
            # The shell itself starts with its first command or viewer.
            assert server.get("/v1/shell/terminal-url").status_code == 200
        for sid in sessions(server):
            delete(server, sid)
        if i == 200:
            memory = server.memory()
    server.check_leaks(before)
    assert server.memory() - memory < 8 * MIB


def test_number_of_sessions_has_a_cap(start):
    server = start(["--max-sessions", "3"])
    for name in "abc":
        run(server, "sleep 100", name, async_mode=True)
    status, text = refused(server, "exec", command="true", id="d")
    assert status == 429 and "--max-sessions" in text
    assert server.get("/v1/shell/sessions/stats").json()["data"]["usage_ratio"] == 1
    ask(server, "kill", id="b")
    assert output(server, "echo x", "d") == "x"
    assert set(sessions(server)) == set("acd")
    delete_all(server)


@pytest.mark.concurrency
def test_a_session_is_not_taken_from_one_who_has_just_got_it(start):
    server = start(["--max-sessions", "4"])
    codes = together(8, lambda i: [server.post("/v1/shell/exec", {"command": "true"}).status_code for _ in range(2)])
    assert {200} <= {code for some in codes for code in some} <= {200, 429}
    delete_all(server)


def test_idle_session_expires_with_all_it_left(start_server):
    server = start_server(["--session-timeout", "2"])
    pid = run(server, "sleep 1000 & echo $!")["output"].split()[-1]
    busy = run(server, "sleep 1000", async_mode=True)["session_id"]
    assert eventually(lambda: set(sessions(server)) == {busy})
    assert gone(pid)
    assert server.get("/v1/shell/sessions/stats").json()["data"]["session_timeout"] == 2
    delete(server, busy)
