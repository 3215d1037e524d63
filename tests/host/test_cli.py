"""The command line: tables for people, --json for programs."""

import json
import os
import pty
import select
import shutil
import signal
import subprocess

import pytest

from harness import clean_environment, eventually, program
from hosts import folder


def test_tables_and_json(host):
    said = host.cli("create", "--name", "cli-box", "--metadata", "a=b", "--metadata=c=d", "--memory", "256M",
                    "--timeout", "600", "--env", "X=1").stdout
    token = host.api("GET", "/v1/sandboxes/cli-box")["token"]
    url = f"http://cli-box.localhost:{host.port}"
    assert said.split() == ["cli-box", "running", url, "token", token, "open", f"{url}/terminal?api_key={token}"]
    assert host.client.get(said.split()[-1].replace("cli-box.localhost", "127.0.0.1"),
                           headers={"Host": f"cli-box.localhost:{host.port}"}).status_code == 200
    box = host.api("GET", "/v1/sandboxes/cli-box")
    assert box["metadata"] == {"a": "b", "c": "d"} and box["limits"]["memory"] == 256 << 20
    table = [line.split() for line in host.cli("ls").stdout.splitlines()]
    assert table[0][:3] == ["ID", "STATE", "TEMPLATE"]
    assert ["cli-box", "running", "machine"] in [row[:3] for row in table]
    listed = json.loads(host.cli("ls", "--json").stdout)
    assert {"default", "cli-box"} <= {one["id"] for one in listed}
    top = {row.split()[0]: row.split() for row in host.cli("top").stdout.splitlines()}
    assert top["cli-box"][1] == "running" and len(top["cli-box"]) == len(top["ID"])
    assert json.loads(host.cli("top", "--json").stdout)[0]["memory"] > 0
    assert host.cli("pause", "cli-box").stdout == "cli-box\n"
    assert host.api("GET", "/v1/sandboxes/cli-box")["state"] == "paused"
    assert json.loads(host.cli("resume", "cli-box", "--json").stdout)["state"] == "running"
    assert host.cli("exec", "cli-box", "echo $X").stdout == "1\n"
    assert eventually(lambda: "/v1/bash/exec" in host.cli("logs", "cli-box").stdout, 10)
    assert host.cli("rm", "cli-box").stdout == "cli-box\n"
    assert "cli-box" not in host.ids()


def test_exec_is_transparent(host):
    done = host.cli("exec", "default", "echo out; echo err >&2; exit 7", check=False)
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")
    assert host.cli("exec", "default", "printf", "%s|", "a b", "it's", "$HOME", "--json").stdout == "a b|it's|$HOME|--json|"
    big = host.cli("exec", "default", "head -c 2000000 /dev/zero | tr '\\0' x").stdout
    assert big == "x" * 2_000_000


def test_exec_has_standard_input(host):
    text = "grüße\n" * 20000
    assert host.cli("exec", "default", "cat", input=text).stdout == text
    assert host.cli("exec", "default", "cat; echo ended", input="").stdout == "ended\n"
    assert host.cli("exec", "default", "head -c 2; exit 3", input=text, check=False).returncode == 3


def test_exec_passes_on_every_byte(host):
    got = subprocess.run([program("aio"), "exec", "default", "printf 'a\\0b\\n'"], capture_output=True, timeout=60,
                         stdin=subprocess.DEVNULL, env=clean_environment(host.home, {"AIO_STATE": str(host.state)}))
    assert (got.returncode, got.stdout) == (0, b"a\0b\n")


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_exec_that_is_interrupted_ends_its_command(host, number, code):
    proc = subprocess.Popen([program("aio"), "exec", "default", "echo begun; exec sleep 987"], stdout=subprocess.PIPE,
                            stdin=subprocess.PIPE, env=clean_environment(host.home, {"AIO_STATE": str(host.state)}))
    assert proc.stdout.readline() == b"begun\n"
    proc.send_signal(number)
    assert proc.wait(20) == code
    proc.stdout.close()
    proc.stdin.close()
    assert host.default().run("pgrep -fc '^sleep 987' || true") == "0\n"


def test_exec_on_a_terminal(host):
    master, slave = pty.openpty()
    proc = subprocess.Popen([program("aio"), "exec", "default", "tty; read line; echo got:$line; exit 3"],
                            stdin=slave, stdout=slave, stderr=slave, close_fds=True,
                            env=clean_environment(host.home, {"AIO_STATE": str(host.state), "TERM": "xterm"}))
    os.close(slave)
    text, typed = b"", False
    while b"got:hello" not in text:
        assert select.select([master], [], [], 30)[0], text
        text += os.read(master, 65536)
        if b"/dev/pts/" in text and not typed:
            os.write(master, b"hello\r")
            typed = True
    assert proc.wait(30) == 3
    os.close(master)


def test_mistakes(host):
    for args, code, text in [
        (["rm"], 2, "usage"), (["rm", "nobody"], 1, "no sandbox 'nobody'"), (["create", "--nonsense", "1"], 2, "unknown option"),
        (["create", "--timeout", "soon"], 2, "will not do"), (["create", "--name", "Bad"], 1, "a name is"),
        (["exec", "nobody", "true"], 1, "no sandbox"), (["exec", "default"], 1, "needs a terminal"),
        (["template"], 2, ""), (["template", "rm", "nothing"], 1, "no template"),
        (["template", "import", "x", "/no/such/file"], 1, "no '/no/such/file'"),
    ]:
        done = host.cli(*args, check=False)
        assert done.returncode == code and text in done.stderr, (args, done)


def test_every_command_has_help(host):
    commands = [line.split()[0] for line in host.cli("help").stdout.splitlines() if line.startswith("  ")]
    for name in commands:
        if name != "help":
            done = host.cli(name, "--help")
            assert "Usage" in done.stdout or name == "template", name
    assert "--idle-timeout N" in host.cli("create", "--help").stdout


def test_no_host(tmp_path):
    done = subprocess.run([program("aio"), "ls", "--state", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 1 and "aio up" in done.stderr
    done = subprocess.run([program("aio"), "down", "--state", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 1 and "no host runs" in done.stderr


def test_down_ends_nothing_but_a_host(tmp_path):
    """The number that a host wrote before it crashed is another process's by now."""
    with subprocess.Popen(["sleep", "100"]) as other:
        (tmp_path / "lock").write_text(f"{other.pid}\n")
        done = subprocess.run([program("aio"), "down", "--state", str(tmp_path)], capture_output=True, text=True,
                              timeout=30)
        ended = other.poll()
        other.kill()
    assert done.returncode == 1 and "no host runs" in done.stderr and ended is None


def test_up_refuses_what_is_unsafe():
    place = folder()
    for args, text in [(["--listen", "0.0.0.0:0"], "refusing to listen"), (["--nonsense"], "unknown option")]:
        done = subprocess.run([program("aio"), "up", "--state", str(place / "s"), *args], capture_output=True,
                              text=True, timeout=60)
        assert done.returncode == 2 and text in done.stderr, done
    shutil.rmtree(place)


def test_only_root_makes_boxes(tmp_path):
    os.chmod(tmp_path, 0o777)
    done = subprocess.run([program("aio"), "up", "--state", str(tmp_path / "s")], capture_output=True, text=True,
                          user=65534, timeout=60)
    assert done.returncode == 1 and "root" in done.stderr and "aio serve" in done.stderr
