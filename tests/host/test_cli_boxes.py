"""The command line: looking at boxes, their addresses and times; exec as people type it."""

import json
import os
import pty
import subprocess
from datetime import datetime, timezone

import pytest

from harness import ANSWER_SECONDS, ROOT, program


def on_terminal(host, *args):
    """What a command prints where its output is a terminal."""
    master, slave = pty.openpty()
    done = subprocess.Popen([program("aio"), *args], stdin=slave, stdout=slave, stderr=slave, env=host.environment())
    os.close(slave)
    said = b""
    try:
        while piece := os.read(master, 65536):
            said += piece
    except OSError:  # the terminal has no writer any more
        pass
    os.close(master)
    return done.wait(ANSWER_SECONDS), said.decode().replace("\r\n", "\n")


def test_create_takes_a_name_and_prints_an_address_for_programs(host):
    import agent_sandbox
    said = dict(line.split(maxsplit=1) for line in host.cli("create", "by-name").stdout.splitlines())
    box = host.api("GET", "/v1/sandboxes/by-name")
    assert said["sdk"] == box["urls"]["path"] == f"http://127.0.0.1:{host.port}/s/by-name"
    sdk = agent_sandbox.Sandbox(base_url=said["sdk"], headers={"Authorization": f"Bearer {said['token']}"})
    assert sdk.bash.exec(command="hostname").data.stdout == host.cli("exec", "by-name", "hostname").stdout
    done = host.cli("create", "one", "--name", "two", check=False)
    assert done.returncode == 1 and "twice" in done.stderr
    host.cli("rm", "by-name")


def test_inspect(host):
    box = host.create(limits={"memory": 256 << 20}, network={"allow": ["packages.example.com"]}, metadata={"a": "b"},
                      idle_timeout=90)
    whole = box.call("GET")
    assert json.loads(host.cli("inspect", box.id).stdout) == whole
    assert json.loads(host.cli("inspect", "--json", box.id).stdout) == whole
    code, said = on_terminal(host, "inspect", box.id)
    lines = [line.split(maxsplit=1) for line in said.splitlines()]
    for name, value in [("id", box.id), ("state", "running"), ("token", box.token), ("sdk", whole["urls"]["path"]),
                        ("browser", whole["urls"]["api"]), ("memory", str(256 << 20)), ("mode", "allow"), ("a", "b"),
                        ("paused", "after 90 s without a request"), ("allow", '["packages.example.com"]')]:
        assert [name, value] in lines, (name, said)
    assert code == 0
    missing = host.cli("inspect", "nobody", check=False)
    assert missing.returncode == 1 and "no box 'nobody'" in missing.stderr
    box.delete()


def left(text):
    return (datetime.fromisoformat(text) - datetime.now(timezone.utc)).total_seconds()


def test_timeout(host):
    box = host.create()
    for text, seconds in [("10m", 600), ("1h30m", 5400), ("2d", 172800), ("90", 90), ("1.5h", 5400), ("600000ms", 600)]:
        assert box.id in host.cli("timeout", box.id, text).stdout
        assert seconds - 60 < left(box.call("GET")["expires_at"]) < seconds + 5, text
    assert json.loads(host.cli("timeout", box.id, "never", "--json").stdout)["expires_at"] is None
    for text in ("soon", "+1", "10y", "30m1h", "1m1m", "", "m", "1e3", "inf", "10m ", "1h30"):
        done = host.cli("timeout", box.id, text, check=False)
        assert done.returncode == 1 and "is not a duration" in done.stderr, text
    box.delete()


def test_durations_of_flags(host):
    host.cli("create", "--name", "timed", "--timeout", "10m", "--idle-timeout=1.5m")
    box = host.api("GET", "/v1/sandboxes/timed")
    assert 540 < left(box["expires_at"]) < 605 and box["idle_timeout"] == 90
    host.cli("rm", "timed")


def test_ls_of_some(host, box):
    other = host.create()
    rows = [line.split()[0] for line in host.cli("ls", other.id, box.id).stdout.splitlines()]
    assert rows == ["ID", other.id, box.id]
    listed = json.loads(host.cli("ls", box.id, "--json").stdout)
    assert listed == [one for one in json.loads(host.cli("ls", "--json").stdout) if one["id"] == box.id]
    done = host.cli("ls", "nobody", box.id, check=False)
    assert done.returncode == 1 and box.id in done.stdout and "no box 'nobody'" in done.stderr
    other.delete()


# --- exec -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags, is_terminal", [([], True), (["-it"], True), (["-ti"], True), (["-i", "-t"], True), (["-t"], True),
                                                (["--interactive", "--tty"], True), (["-i"], False), (["--interactive"], False)])
def test_exec_has_the_flags_of_docker(host, flags, is_terminal):
    code, said = on_terminal(host, "exec", *flags, "default", "test -t 0 && echo yes || echo no")
    assert (code, said) == (0, "yes\n" if is_terminal else "no\n")


def test_exec_without_a_terminal(host):
    assert host.cli("exec", "-i", "default", "cat", input="in\n").stdout == "in\n"
    done = host.cli("exec", "-it", "default", "true", check=False)
    assert done.returncode == 1 and "needs a terminal" in done.stderr
    assert host.cli("exec", "default", "echo", "-it").stdout == "-it\n"  # of the command


def test_exec_says_all_of_what_is_wrong(host):
    """Why a command cannot be started is longer than the reason that a WebSocket can be closed with."""
    box = host.create(limits={"pids": 20})
    box.begin("for i in $(seq 30); do sleep 600 & done; wait")
    done = host.cli("exec", box.id, "echo no", check=False)
    while done.returncode == 0:  # until all are there
        done = host.cli("exec", box.id, "echo no", check=False)
    assert done.returncode in (1, 254) and done.stderr.rstrip().endswith(("limits.pids", "Resource temporarily unavailable")), done
    box.delete()


def test_exec_and_the_bash_tool_say_that_memory_ran_out(host):
    box = host.create(limits={"memory": 256 << 20})  # a server with sanitizers takes its part
    eat = "python3 -c 'x = bytearray(400 << 20)'"
    done = host.cli("exec", box.id, f"exec {eat}", check=False)
    assert done.returncode == 137 and "Out of memory" in done.stderr and "256 MiB" in done.stderr and "limits.memory" in done.stderr
    done = host.cli("exec", "default", "kill -9 $$", check=False)
    assert (done.returncode, done.stderr) == (137, "")
    answer = box.request("POST", "/mcp", headers={"Accept": "application/json"}, timeout=120, json={
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "sandbox_execute_bash", "arguments": {"command": f"exec {eat}"}}})
    assert "Out of memory" in answer.text and "limits.memory" in answer.text, answer.text
    box.delete()


# --- documentation ---------------------------------------------------------------------------------


def test_every_command_is_documented(host):
    docs = "".join(path.read_text() for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
    for line in host.cli("help").stdout.splitlines():
        name = line.split()[0] if line.startswith("  ") else "help"
        assert name in ("help", "egress") or f"aio {name}" in docs, name
