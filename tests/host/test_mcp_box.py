"""`aio mcp` where a host runs: a model gets a box, its own or one that is named."""

import asyncio
import signal

import pytest

from harness import eventually, program
from mcp_stdio import Stdio

MARK = {"made_by": "aio mcp"}


@pytest.fixture
def begin(host, tmp_path):
    started = []

    def start(*args, **env):
        started.append(Stdio(tmp_path, *args, env=host.environment(**env)))
        return started[-1]

    yield start
    for one in started:
        if one.proc.poll() is None:
            one.proc.kill()
        one.proc.stdout.close()
        one.proc.wait()


def own_boxes(host):
    return [box for box in host.api("GET", "/v1/sandboxes?metadata=made_by=aio%20mcp")["sandboxes"]]


def run(client, command):
    return client.call("sandbox_execute_bash", command=command)["structuredContent"]["output"]


def test_a_client_has_a_box_of_its_own_that_ends_with_it(host, begin):
    one, other = begin(), begin("--memory", "300M", "--env", "X=1", "--metadata", "a=b")
    assert "A Linux sandbox of your own" in one.initialize()["instructions"]
    other.initialize()
    assert run(one, "echo $X > /tmp/x; hostname") != run(other, "hostname")
    assert run(other, "test -e /tmp/x || echo $X") == "1\n"
    boxes = own_boxes(host)
    assert len(boxes) == 2 and all(box["expires_at"] and box["auto_resume"] for box in boxes)
    assert {"a": "b", **MARK} in [box["metadata"] for box in boxes]
    assert 300 << 20 in [box["limits"] and box["limits"].get("memory") for box in boxes]
    assert one.end() == (0, b"")
    assert len(own_boxes(host)) == 1
    other.proc.send_signal(signal.SIGTERM)
    assert other.proc.wait(30) == 0
    assert own_boxes(host) == []


def test_the_python_sdk(host, tmp_path):
    import mcp

    async def talk():
        parameters = mcp.StdioServerParameters(command=program("aio"), args=["mcp"], env=host.environment(), cwd=tmp_path)
        async with mcp.Client(parameters) as client:
            return (await client.call_tool("sandbox_execute_bash", {"command": "id -un; hostname"})).structured_content

    user, name = asyncio.run(talk())["output"].split()
    assert user == "gem" and name not in host.ids()
    assert own_boxes(host) == []


def test_the_time_of_its_box_is_renewed_until_it_is_killed(host, begin):
    one = begin("--timeout", "4")
    one.initialize()
    (first,) = own_boxes(host)
    assert eventually(lambda: own_boxes(host)[0]["expires_at"] > first["expires_at"])
    one.proc.kill()
    assert eventually(lambda: own_boxes(host) == [])


def test_a_box_that_is_named_stays(host, box, begin):
    one = begin("--box", box.id)
    one.initialize()
    assert run(one, "echo kept > /tmp/kept; hostname") == box.run("hostname")
    assert one.end() == (0, b"")
    assert box.run("cat /tmp/kept") == "kept\n" and own_boxes(host) == []


def test_a_box_that_was_started_again_goes_on(host, begin):
    box = host.create(auto_resume=True)
    one = begin("--box", box.id)
    one.initialize()
    assert run(one, "echo 1") == "1\n"
    box.kill()
    assert eventually(lambda: box.state == "stopped")
    assert run(one, "echo 2") == "2\n"
    assert one.end()[0] == 0
    box.delete()


def test_without_a_box_where_a_host_runs(host, begin):
    one = begin("--no-box")
    assert "NOT a sandbox" in one.initialize()["instructions"]
    assert own_boxes(host) == []
    assert one.end()[0] == 0


def test_what_is_wrong_is_said(host, box):
    box.call("POST", "/pause")
    for args, status, words in [
            (["--box", "nobody"], 1, "there is no box 'nobody'"),
            (["--box", box.id], 1, f"aio resume {box.id}"),
            (["--box"], 2, "--box needs a value"),
            (["--box", box.id, "--no-box"], 2, "only one"),
            (["--workspace", "/tmp"], 2, "--no-box"),
            (["--box", box.id, "--memory", "1G"], 2, "--memory"),
            (["--memory", "lots"], 2, "is not a size"),
            (["--state", "/nowhere", "--box", box.id], 1, "no host has run"),
    ]:
        done = host.cli("mcp", *args, input="", check=False)
        assert (done.returncode, done.stdout) == (status, "") and words in done.stderr, (args, done)
    box.call("POST", "/resume")


def test_its_help_has_the_options_of_a_box(host):
    said = host.cli("mcp", "--help").stdout
    created = host.cli("create", "--help").stdout
    for flag in ("--box", "--no-box", "--state", "--help"):
        assert f"\n  {flag}" in said
    assert created.split("Flags:\n")[1].split("  --json")[0] in said
