"""Clients of /v1/bash: what they may send, the official SDK, and the sandbox user."""

import os
import subprocess

import httpx
import pytest

from commands import close, no_sessions, refused, run, sessions, start, warm  # noqa: F401
from harness import ANSWER_SECONDS, ROOT, START_SECONDS, clean_environment, eventually, program
from processes import ROOT_ONLY, alive, daemon, tester, text_of  # noqa: F401

pytestmark = pytest.mark.server(warm=warm)


# --- another user ------------------------------------------------------------------------------


@ROOT_ONLY
def test_commands_run_as_the_sandbox_user(start, tester):
    server = start(["--user", tester], env={"WORKSPACE": "", "AUTH_TOKEN": "", "HOME": "/root", "MAIL": "/x"})
    command = "id -un; id -Gn; echo $HOME $USER $LOGNAME; pwd; cat /etc/shadow; kill -0 $PPID; touch f; stat -c %U f"
    data = run(server, command)
    assert data["stdout"].splitlines() == [tester, f"{tester} {tester}g", f"/home/{tester} {tester} {tester}",
                                           f"/home/{tester}", tester]
    assert "Permission denied" in data["stderr"] and "not permitted" in data["stderr"]
    assert "uid=0" not in data["stdout"]
    caps = run(server, "grep -E '^(CapPrm|CapEff|CapInh|CapAmb):' /proc/self/status", session_id=data["session_id"])
    assert {line.split()[1] for line in caps["stdout"].splitlines()} == {"0" * 16}
    assert refused(server, "exec", command="pwd", exec_dir="/root", session_id=data["session_id"])[0] in (403, 404)
    close(server, data["session_id"])


@ROOT_ONLY
def test_daemon_of_the_sandbox_user_is_ended(start, tester):
    server = start(["--user", tester], env={"WORKSPACE": ""})
    for how in ("double fork", "without environment"):
        data = run(server, daemon(how, f"/home/{tester}"))
        pid = text_of(f"/home/{tester}/pid")
        assert alive(pid)
        close(server, data["session_id"])
        assert not alive(pid)
        os.unlink(f"/home/{tester}/pid")


def test_user_that_is_none(tmp_path):
    done = subprocess.run([program("aio"), "serve", "--user", "no-such-user"], capture_output=True, text=True,
                          env=clean_environment(tmp_path), timeout=START_SECONDS)
    assert done.returncode == 2 and "no-such-user" in done.stderr


# --- what a client may send --------------------------------------------------------------------


@pytest.mark.parametrize("body", [
    {}, {"command": None}, {"command": 5}, {"command": ["ls"]}, {"command": "a\0b"},
    {"command": "true", "timeout": -1}, {"command": "true", "timeout": "soon"},
    {"command": "true", "hard_timeout": -0.1},
    {"command": "true", "max_output_length": -1}, {"command": "true", "max_output_length": 1.5},
    {"command": "true", "env": "A=b"}, {"command": "true", "env": ["A"]}, {"command": "true", "env": {"A": 5}},
    {"command": "true", "env": {"A": "b\0c"}},
    {"command": "true", "async_mode": "perhaps"}, {"command": "true", "session_id": 5},
    {"command": "true", "session_id": "a\0b"}, {"command": "true", "exec_dir": "/usr\0/x"},
    {"command": "x" * ((1 << 20) + 1)},
])
def test_exec_that_makes_no_sense(server, body):
    answer = server.post("/v1/bash/exec", body)
    assert answer.status_code == 422, answer.text
    assert answer.json()["detail"][0]["loc"][0] == "body"
    assert sessions(server) == []


@pytest.mark.parametrize("name", ["", "=", "A=B"])
def test_variable_with_an_impossible_name(server, name):
    status, text = refused(server, "exec", command="true", env={name: "x"})
    assert status == 422 and "variable" in text


@pytest.mark.parametrize("what, body", [
    ("output", {}), ("output", {"session_id": "x", "wait_timeout": -1}), ("output", {"session_id": "x", "offset": "a"}),
    ("write", {}), ("write", {"session_id": "x"}), ("write", {"input": "x"}), ("kill", {}),
    ("kill", {"session_id": "x", "signal": "x" * 21}), ("sessions/create", {"session_id": []}),
])
def test_other_requests_that_make_no_sense(server, what, body):
    assert refused(server, what, **body)[0] == 422


def test_unset_fields_may_be_null(server):
    names = ("session_id", "exec_dir", "env", "timeout", "hard_timeout")
    assert run(server, "echo x", **dict.fromkeys(names))["stdout"] == "x\n"


def test_command_of_100_kb(server):
    text = "x" * 100_000
    data = run(server, f"v='{text}'; echo ${{#v}}", max_output_length=0)
    assert data["stdout"] == "100000\n" and data["command"] == f"v='{text}'; echo ${{#v}}"


@pytest.mark.parametrize("body", [{"command": ": " + "x" * 1_000_000}, {"command": "true", "env": {"A": "x" * 300_000}},
                                  {"command": "true", "env": {f"A{i}": "x" * 100_000 for i in range(100)}}])
def test_command_too_long_for_the_system(server, body):
    answer = server.post("/v1/bash/exec", body)
    assert answer.status_code == 413, answer.text
    assert sessions(server) == [], "no session is left of it"


# --- clients -----------------------------------------------------------------------------------


def test_official_sdk(server):
    from agent_sandbox import Sandbox

    client = httpx.Client(timeout=ANSWER_SECONDS)
    bash = Sandbox(base_url=server.url, httpx_client=client).bash
    result = bash.exec(command="echo $A; echo err >&2; exit 2", env={"A": "b"}, exec_dir="/usr").data
    assert (result.stdout, result.stderr, result.exit_code, result.status) == ("b\n", "err\n", 2, "completed")
    sid = result.session_id
    result = bash.exec(command="read x; echo got $x", session_id=sid, async_mode=True).data
    assert result.status == "running"
    assert bash.write(session_id=sid, input="it\n").success
    out = bash.output(session_id=sid, command_id=result.command_id, wait=True, wait_timeout=50).data
    assert out.stdout == "got it\n" and out.offset == 7
    result = bash.exec(command="sleep 100", session_id=sid, timeout=0.1, hard_timeout=50, max_output_length=10).data
    assert result.status == "running"
    assert bash.kill(session_id=sid, signal="SIGKILL").success
    assert eventually(lambda: bash.output(session_id=sid, command_id=result.command_id).data.command.status == "killed")
    session = next(s for s in bash.sessions().data if s.session_id == sid)
    assert session.working_dir == "/usr" and session.command_count == 3 and session.status == "ready"
    assert session.created_at.tzinfo is not None
    assert bash.create_session(session_id=sid).data.command_count == 3
    assert bash.close_session(sid).success
    client.close()


@pytest.mark.parametrize("prefix", ["/v1/bash"])
def test_contract_is_whole(prefix):
    tool = ROOT.parent / "shared/tools/contract-coverage"
    if not tool.exists():
        pytest.skip(f"NOT TESTED: there is no {tool}")
    document = subprocess.run([program("aio"), "openapi"], capture_output=True, check=True).stdout
    done = subprocess.run([tool, "--only", prefix, "--all"], input=document, capture_output=True)
    assert done.returncode == 0, done.stdout.decode()
