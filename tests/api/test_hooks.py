"""Hooks: commands that run when the sandbox starts, is ready and ends."""

import os
import signal
import socket
import subprocess
import threading
import time

import httpx
import pytest
from processes import alive

from harness import Calls, children_of, clean_environment, eventually, program, serving

HOOKS = Calls("/v1/sandbox/hooks")
PATH = "/v1/sandbox/hooks"
DEFAULTS = {"event": "shutdown", "timeout": 10, "priority": 100, "source": "api"}


def register(server, name, command, **more):
    return HOOKS.ask(server, name=name, command=command, **more)


def listed(server, query=""):
    answer = server.get(PATH + query)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def stop(server, number=signal.SIGTERM):
    server.client.close()
    server.proc.send_signal(number)
    assert server.proc.wait(60) == 0, server.log


def ended(server):
    """What the events say of hooks, by name."""
    events = server.get("/v1/sandbox/events?type=hook_ended").json()["data"]
    return {event["data"]["name"]: event["data"] for event in events}


# --- those of the API ---------------------------------------------------------------------------


@pytest.fixture
def clean(server):
    yield server
    for hook in listed(server):
        server.request("DELETE", f"{PATH}/{hook['name']}")


def test_hooks_are_listed_in_the_order_in_which_they_run(clean):
    assert listed(clean) == []
    first = register(clean, "first", "true")
    assert first == {"name": "first", "command": "true", **DEFAULTS}
    register(clean, "late", "true", priority=200)
    register(clean, "early", "true", priority=-5, timeout=0.5, event="shutdown")
    register(clean, "second", "true")
    assert [hook["name"] for hook in listed(clean)] == ["early", "first", "second", "late"]
    assert listed(clean) == listed(clean, "?event=shutdown") and listed(clean, "?event=other") == []
    assert [hook["timeout"] for hook in listed(clean)] == [0.5, 10, 10, 10]


def test_a_second_registration_of_a_name_replaces_the_first(clean):
    register(clean, "one", "false", priority=7)
    register(clean, "one", "true")
    assert listed(clean) == [{"name": "one", "command": "true", **DEFAULTS}]


def test_a_hook_is_removed_by_its_name(clean):
    register(clean, "one", "true")
    answer = clean.request("DELETE", f"{PATH}/one")
    assert answer.status_code == 200 and answer.json() == {
        "success": True, "message": "Operation successful", "data": None, "hint": None}
    assert listed(clean) == []
    again = clean.request("DELETE", f"{PATH}/one")
    assert again.status_code == 404 and again.json()["message"] == "there is no hook 'one'"


@pytest.mark.parametrize(("body", "words"), [
    ({"command": "true"}, "name"),
    ({"name": "x"}, "command"),
    ({"name": "", "command": "true"}, "invalid name"),
    ({"name": "a b", "command": "true"}, "invalid name"),
    ({"name": "../x", "command": "true"}, "invalid name"),
    ({"name": "n" * 65, "command": "true"}, "64"),
    ({"name": "x", "command": "c" * 4097}, "4096"),
    ({"name": "x", "command": " \n"}, "empty"),
    ({"name": "x", "command": "true", "event": "start"}, "unknown event 'start'"),
    ({"name": "x", "command": "true", "timeout": 0}, "timeout"),
    ({"name": "x", "command": "true", "timeout": -1}, "timeout"),
    ({"name": "x", "command": "true", "timeout": 1e9}, "timeout"),
    ({"name": "x", "command": "true", "priority": 1.5}, "priority"),
    ({"name": "x", "command": "true", "priority": 1 << 40}, "priority"),
])
def test_what_is_wrong_is_refused(clean, body, words):
    status, text = HOOKS.refused(clean, **body)
    assert status == 422 and words in text
    assert listed(clean) == []


def test_a_huge_command_is_refused(clean):
    assert HOOKS.refused(clean, name="x", command="c" * 1_000_000)[0] == 422
    assert listed(clean) == []


def test_there_are_so_many_hooks_and_no_more(clean):
    for i in range(50):
        register(clean, f"h{i}", "true")
    status, text = HOOKS.refused(clean, name="h50", command="true")
    assert status == 429 and "50 hooks" in text
    register(clean, "h7", "false")  # one that is there can be replaced
    assert len(listed(clean)) == 50


# --- the end ------------------------------------------------------------------------------------


def test_hooks_run_by_priority_and_equal_ones_side_by_side(start_server):
    server = start_server()
    register(server, "last", "echo last >> order", priority=101)
    # Each of the two waits for the other: one after the other they would not end in their time.
    for own, other in ("ab", "ba"):
        register(server, own, f"touch {own}; until [ -e {other} ]; do sleep 0.01; done; echo both >> order")
    register(server, "first", "echo first >> order", priority=-1)
    stop(server)
    assert (server.home / "order").read_text().split() == ["first", "both", "both", "last"]
    assert server.log.count("status=completed") == 4 and "error hook" not in server.log


def test_the_api_still_works_while_hooks_run(start_server):
    server = start_server()
    register(server, "save", f"curl -sf {server.url}/v1/sandbox > context; env > environment; pwd > where; id -un > who")
    stop(server, signal.SIGINT)
    assert '"success":true' in (server.home / "context").read_text()
    assert (server.home / "where").read_text().strip() == str(server.home.resolve())


def test_one_that_fails_is_logged_with_its_code_and_last_words(start_server):
    server = start_server()
    register(server, "bad", "echo fine; echo 'no space left' >&2; exit 3")
    stop(server)
    (line,) = [line for line in server.log.splitlines() if "status=failed" in line]
    assert " error hook name=bad event=shutdown " in line
    assert 'words="no space left"' in line and "exit_code=3" in line
    assert "name=bad output=fine" in server.log


def test_a_hook_that_never_ends_and_forks_away_is_killed_in_its_time(start_server):
    server = start_server()
    register(server, "stuck", "trap '' TERM; setsid bash -c 'trap \"\" TERM; echo $$ > away; while :; do sleep 1000; done' & "
             "echo $$ > stuck; while :; do sleep 1000; done", timeout=2)
    register(server, "next", "echo next > next", priority=101)
    stop(server)
    assert " error hook name=stuck event=shutdown status=timed_out" in server.log
    assert (server.home / "next").exists()
    pids = [int((server.home / name).read_text()) for name in ("stuck", "away")]
    assert eventually(lambda: not any(map(alive, pids)))


def test_all_hooks_together_have_a_time(start_server):
    server = start_server(env={"SANDBOX_SHUTDOWN_HOOKS_TIMEOUT": "1"})
    for i in range(5):
        register(server, f"h{i}", "sleep 1000", priority=i)
    began = time.monotonic()
    stop(server)
    assert time.monotonic() - began < 30  # each on its own would take 10 s
    assert server.log.count("status=timed_out") == 1
    assert "4 of 5 shutdown hooks were not run" in server.log


def test_a_second_signal_skips_them(start_server):
    server = start_server(env={"SANDBOX_SHUTDOWN_HOOKS_TIMEOUT": "600"})
    register(server, "long", "touch began; sleep 1000", timeout=600)
    register(server, "next", "touch next", priority=101)
    server.client.close()
    server.proc.send_signal(signal.SIGTERM)
    assert eventually((server.home / "began").exists)
    server.proc.send_signal(signal.SIGTERM)
    assert server.proc.wait(60) == 0
    assert "name=long event=shutdown status=cancelled" in server.log
    assert not (server.home / "next").exists()


def test_no_hook_runs_when_the_server_is_killed(tmp_path):
    env = {"SANDBOX_SHUTDOWN_HOOKS": "touch ran"}
    with serving(tmp_path, env) as proc:
        assert eventually(lambda: b"ready" in (tmp_path / "out").read_bytes())
        (pid,) = children_of(proc.pid)
        os.kill(pid, signal.SIGKILL)
        assert proc.wait(60) == 137
    assert not (tmp_path / "ran").exists()


def test_a_hook_of_the_environment_runs_first_and_cannot_be_changed(start_server):
    server = start_server(env={"SANDBOX_SHUTDOWN_HOOKS": "echo env >> order"})
    (hook,) = listed(server)
    assert hook == {"name": "SANDBOX_SHUTDOWN_HOOKS", "event": "shutdown", "command": "echo env >> order", "timeout": 10,
                    "priority": 0, "source": "env"}
    gone = server.request("DELETE", f"{PATH}/{hook['name']}")
    assert gone.status_code == 409 and "cannot be removed" in gone.json()["message"]
    assert HOOKS.refused(server, name=hook["name"], command="true")[0] == 409
    register(server, "one", "echo api >> order")
    assert [hook["source"] for hook in listed(server)] == ["env", "api"]
    stop(server)
    assert (server.home / "order").read_text().split() == ["env", "api"]


# --- the start ----------------------------------------------------------------------------------


def test_hooks_of_the_start_run_in_order_and_one_that_fails_is_reported(start_server):
    server = start_server(env={
        "RUN_HOOK_INIT": "echo init >> order; cat /proc/$PPID/environ > /dev/null; echo from init",
        "RUN_HOOK_PRE_SERVICES": "echo pre >> order; echo 'it broke' >&2; exit 4",
        "RUN_HOOK_POST_READY": "echo ready >> order",
    })
    assert eventually(lambda: "RUN_HOOK_POST_READY" in ended(server))
    assert (server.home / "order").read_text().split() == ["init", "pre", "ready"]
    seen = ended(server)
    assert seen["RUN_HOOK_INIT"]["status"] == "completed" and seen["RUN_HOOK_INIT"]["output"] == "from init"
    broken = seen["RUN_HOOK_PRE_SERVICES"]
    assert broken.pop("duration_ms") >= 0
    assert broken == {"name": "RUN_HOOK_PRE_SERVICES", "event": "pre_services", "status": "failed", "exit_code": 4,
                      "output": "it broke"}
    assert " error hook name=RUN_HOOK_PRE_SERVICES " in server.log


def test_nothing_is_answered_before_the_hooks_of_the_start_have_run(start_server, tmp_path):
    """The test opens the listener, so that it can ask before the server says that it is ready."""
    go = tmp_path / "go"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port, answers = listener.getsockname()[1], []

        def ask():
            answers.append((httpx.get(f"http://127.0.0.1:{port}/health", timeout=60, trust_env=False).text, go.exists()))

        thread = threading.Thread(target=ask)
        thread.start()
        opener = threading.Timer(1, go.touch)
        opener.start()
        start_server(listen=f"fd:{listener.fileno()}", pass_fds=[listener.fileno()],
                     env={"RUN_HOOK_PRE_SERVICES": f"until [ -e {go} ]; do sleep 0.01; done"})
        thread.join()
        opener.join()
    assert answers == [("OK", True)]


def test_strict_hooks_keep_the_server_from_starting(tmp_path):
    env = {"RUN_HOOK_INIT": "echo no way; exit 1", "RUN_HOOK_PRE_SERVICES": "touch ran", "RUN_HOOKS_STRICT": "true"}
    done = subprocess.run([program("aio"), "serve", "--listen", "127.0.0.1:0"], env=clean_environment(tmp_path, env),
                          cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert done.returncode == 2 and "RUN_HOOK_INIT has failed, and RUN_HOOKS_STRICT is set" in done.stderr
    assert not (tmp_path / "ran").exists() and "ready" not in done.stdout


def test_a_hook_of_the_start_that_never_ends_is_killed_in_its_time(start_server):
    server = start_server(args=["--hook-timeout", "500ms"], env={"RUN_HOOK_INIT": "trap '' TERM; echo $$ > stuck; while :; do sleep 1000; done"})
    assert ended(server)["RUN_HOOK_INIT"]["status"] == "timed_out"
    assert not alive((server.home / "stuck").read_text())


def test_a_signal_ends_a_hook_of_the_start(tmp_path):
    env = {"RUN_HOOK_INIT": "touch began; sleep 1000", "RUN_HOOK_PRE_SERVICES": "touch next"}
    with serving(tmp_path, env) as proc:
        assert eventually((tmp_path / "began").exists)
        proc.send_signal(signal.SIGTERM)
        assert proc.wait(60) == 0
    assert not (tmp_path / "next").exists()


def test_what_a_hook_leaves_in_the_background_goes_on_and_may_print(start_server):
    server = start_server(env={"RUN_HOOK_PRE_SERVICES": "(until [ -e go ]; do sleep 0.01; done; echo printed; touch done; "
                                                        "exec sleep 1000) & echo $! > pid"})
    pid = int((server.home / "pid").read_text())
    (server.home / "go").touch()
    assert eventually((server.home / "done").exists) and server.logged("output=printed")
    stop(server)
    assert not alive(pid)


def test_a_hook_that_prints_without_end_is_logged_in_part(start_server):
    server = start_server(env={"RUN_HOOK_INIT": "yes line | head -n 100000; echo the end"})
    assert ended(server)["RUN_HOOK_INIT"]["output"] == "the end"
    assert "prints more than 64 KiB" in server.log and server.log.count("output=line") < 20000


# --- being ready --------------------------------------------------------------------------------


def test_the_sandbox_is_ready_once_its_ports_are_open(tmp_path):
    """8079 and 8091 are AIO Sandbox's own, and this server itself."""
    with socket.socket() as held, socket.create_server(("127.0.0.1", 0)) as listener:
        held.bind(("127.0.0.1", 0))
        port, url = held.getsockname()[1], f"http://127.0.0.1:{listener.getsockname()[1]}"
        env = {"WAIT_PORTS": f"8079,8091, {port} nonsense 70000", "RUN_HOOK_POST_READY": "touch posted"}
        out = tmp_path / "out"
        with serving(tmp_path, env, f"fd:{listener.fileno()}", [listener.fileno()]) as proc:
            health = httpx.get(f"{url}/health", timeout=60, trust_env=False)
            assert health.status_code == 503 and f"waiting for port {port} (WAIT_PORTS)" in health.text
            assert httpx.get(f"{url}/v1/sandbox", timeout=60, trust_env=False).status_code == 200
            assert not out.read_bytes() and not (tmp_path / "posted").exists()
            held.listen()
            assert eventually(lambda: httpx.get(f"{url}/health", timeout=60, trust_env=False).text == "OK")
            assert eventually((tmp_path / "posted").exists) and b"ready" in out.read_bytes()
            proc.send_signal(signal.SIGTERM)
            assert proc.wait(60) == 0
        said = (tmp_path / "log").read_text()
        assert "'nonsense' is not a port" in said and "'70000' is not a port" in said


def test_a_port_that_never_opens_is_reported_and_given_up(start_server):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        server = start_server(env={"WAIT_PORTS": str(port), "WAIT_TIMEOUT": "300ms"})
    assert f"nothing listens on port {port}" in server.log and server.get("/health").text == "OK"
