"""The command line: tables for people, --json for programs."""

import contextlib
import fcntl
import hashlib
import http.server
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import threading

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from harness import ANSWER_SECONDS, clean_environment, eventually, program
from hosts import folder


def test_tables_and_json(host):
    said = host.cli("create", "--name", "cli-box", "--metadata", "a=b", "--metadata=c=d", "--memory", "256MiB",
                    "--timeout", "600", "--env", "X=1", "--network", "none").stdout
    token = host.api("GET", "/v1/sandboxes/cli-box")["token"]
    url = f"http://cli-box.localhost:{host.port}"
    assert said.split() == ["cli-box", "running", url, "token", token, "sdk", f"{host.url}/s/cli-box",
                            "open", f"{url}/terminal?api_key={token}"]
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
    assert eventually(lambda: "/v1/bash/ws" in host.cli("logs", "cli-box").stdout)
    assert host.cli("rm", "cli-box").stdout == "cli-box\n"
    assert "cli-box" not in host.ids()


def test_exec_is_transparent(host):
    done = host.cli("exec", "default", "echo out; echo err >&2; exit 7", check=False)
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")
    assert host.cli("exec", "default", "printf", "%s|", "a b", "it's", "$HOME", "--json").stdout == "a b|it's|$HOME|--json|"
    assert host.cli("exec", "default", "--", "--version", check=False).returncode == 127  # no option of bash
    big = host.cli("exec", "default", "head -c 2000000 /dev/zero | tr '\\0' x").stdout
    assert big == "x" * 2_000_000


def test_exec_passes_on_what_is_no_text(host):
    """Every byte, both ways at once, more than any buffer on the way."""
    data = os.urandom(20_000_000)
    run = [program("aio"), "exec", "default", "tee /dev/stderr | sha256sum"]
    done = subprocess.run(run, input=data, capture_output=True, timeout=100, env=host.environment())
    assert done.returncode == 0 and done.stderr == data and done.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()


def test_exec_of_a_shell_reads_standard_input(host):
    assert host.cli("exec", "default", input="cd /tmp\npwd\nexit 4\n", check=False).returncode == 4
    assert host.cli("exec", "default", input="cd /tmp\npwd\n").stdout == "/tmp\n"


def test_exec_whose_reader_leaves_ends_its_command(host):
    line = f"{program('aio')} exec default 'exec -a endless yes' | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60,
                          env=host.environment())
    assert done.stdout == "y\n141\n"
    assert eventually(lambda: host.default().count("^endless") == 0)


def test_exec_that_is_killed_ends_its_command(host):
    proc = host.begin("exec", "default", "trap '' HUP; (setsid sleep 986 &); sleep 986",
                      stdout=subprocess.PIPE, stdin=subprocess.PIPE)
    assert eventually(lambda: host.default().count("^sleep 986") == 2)
    proc.kill()
    proc.wait()
    proc.stdout.close()
    proc.stdin.close()
    assert eventually(lambda: host.default().count("^sleep 986") == 0)


def test_exec_leaves_what_runs_in_the_background(host):
    assert host.cli("exec", "default", "nohup sleep 985 >/dev/null 2>&1 & echo started").stdout == "started\n"
    assert eventually(lambda: host.default().count("^sleep 985") == 1)  # it was nohup first
    host.default().run("pkill -f '^sleep 985'")


@pytest.mark.parametrize("first", ["[]", "{", "nothing"])
def test_attach_wants_an_object_first(host, first):
    url = f"ws://127.0.0.1:{host.port}/v1/bash/ws"
    with connect(url, proxy=None, open_timeout=ANSWER_SECONDS) as ws:
        ws.send(first)
        with pytest.raises(ConnectionClosed) as closed:
            ws.recv(timeout=ANSWER_SECONDS)
    assert closed.value.rcvd.code == 1003


def test_exec_has_standard_input(host):
    text = "grüße\n" * 20000
    assert host.cli("exec", "default", "cat", input=text).stdout == text
    assert host.cli("exec", "default", "cat; echo ended", input="").stdout == "ended\n"
    assert host.cli("exec", "default", "head -c 2; exit 3", input=text, check=False).returncode == 3


def test_exec_passes_on_every_byte(host):
    got = subprocess.run([program("aio"), "exec", "default", "printf 'a\\0b\\n'"], capture_output=True, timeout=60,
                         stdin=subprocess.DEVNULL, env=host.environment())
    assert (got.returncode, got.stdout) == (0, b"a\0b\n")


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_exec_that_is_interrupted_ends_its_command(host, number, code):
    proc = host.begin("exec", "default", "exec sleep 987", stdout=subprocess.PIPE, stdin=subprocess.PIPE)
    assert eventually(lambda: host.default().count("^sleep 987") == 1)
    proc.send_signal(number)
    assert proc.wait(ANSWER_SECONDS) == code
    proc.stdout.close()
    proc.stdin.close()
    assert eventually(lambda: host.default().count("^sleep 987") == 0)


class Terminal:
    """A command of ours on a terminal of 31 rows and 97 columns."""

    def __init__(self, host, *args):
        self.master, slave = pty.openpty()
        self.before = termios.tcgetattr(slave)
        self.resize(31, 97)
        self.text = b""
        self.proc = subprocess.Popen(
            [program("aio"), *args], stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            env=host.environment(TERM="vt220"))
        os.close(slave)

    def resize(self, rows, cols):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def until(self, wanted):
        while wanted not in self.text:
            assert select.select([self.master], [], [], ANSWER_SECONDS)[0], (wanted, self.text)
            self.text += os.read(self.master, 65536)
        seen, self.text = self.text.split(wanted, 1)
        return seen + wanted

    def type(self, data):
        os.write(self.master, data)

    def end(self):
        """All that is left, and the exit status."""
        with contextlib.suppress(OSError):
            while piece := os.read(self.master, 65536):
                self.text += piece
        os.close(self.master)
        return self.text, self.proc.wait(ANSWER_SECONDS)


def test_exec_whose_command_does_not_read_is_interrupted(host):
    with open("/dev/zero", "rb") as zero:
        proc = host.begin("exec", "default", "echo begun; exec sleep 983", stdout=subprocess.PIPE, stdin=zero)
        assert proc.stdout.readline() == b"begun\n"
        proc.send_signal(signal.SIGINT)
        assert proc.wait(ANSWER_SECONDS) == 130
        proc.stdout.close()


def test_exec_on_a_terminal(host):
    """Nothing but what the command prints is seen; it has our terminal's size and type, and the keys."""
    terminal = Terminal(host, "exec", "default", "echo $TERM; stty size; tty; read line; echo got:$line; stty size; exit 3")
    assert re.fullmatch(rb"vt220\r\n31 97\r\n/dev/pts/\d+\r\n", terminal.until(b"pts/") + terminal.until(b"\n"))
    terminal.resize(12, 34)
    terminal.proc.send_signal(signal.SIGWINCH)
    terminal.type(b"hello\r")
    assert terminal.until(b"got:hello\r\n") == b"hello\r\ngot:hello\r\n"
    assert terminal.end() == (b"12 34\r\n", 3)


def test_a_shell_on_a_terminal(host):
    """A prompt, job control, Ctrl+C, Ctrl+D; our terminal is as it was afterwards."""
    terminal = Terminal(host, "exec", "default")
    terminal.until(b"gem@default:~$ ")
    look = "ps -o stat= -p $(pgrep -f '^sleep 984' || echo 1)"

    def in_front():
        return re.match("SN?[+]", host.default().run(look))  # N: the tests run with little priority

    terminal.type(b"sleep 984\r")
    assert eventually(in_front)
    terminal.type(b"\x1a")
    terminal.until(b"Stopped")
    terminal.until(b"$ ")
    terminal.type(b"fg\r")
    assert eventually(in_front)
    terminal.type(b"\x03")
    terminal.until(b"$ ")
    terminal.type(b"echo code=$?\r")
    terminal.until(b"code=130")
    terminal.until(b"$ ")
    terminal.type(b"\x04")
    terminal.until(b"exit")
    assert eventually(lambda: terminal.proc.poll() is not None) and terminal.proc.returncode == 0
    assert termios.tcgetattr(terminal.master) == terminal.before
    terminal.end()


def test_much_output_on_a_terminal_is_all_of_it(host):
    text, code = Terminal(host, "exec", "default", "seq 200000").end()
    assert code == 0 and text == b"".join(b"%d\r\n" % n for n in range(1, 200001))


def test_top_renews_itself_on_a_terminal(host):
    terminal = Terminal(host, "top")
    terminal.until(b"ID ")
    terminal.until(b"default")
    assert b"%" in terminal.until(b"ID ") + terminal.until(b"default") + terminal.until(b"%")
    terminal.type(b"\x03")
    assert terminal.end()[1] == -signal.SIGINT
    assert Terminal(host, "top", "--once").end()[1] == 0


def test_top_once_knows_what_is_used(host):
    """A share of the time, measured: of a box that is busy, and of one that is not."""
    box = host.create()
    box.begin("while :; do :; done")
    used = box.call("GET", "/metrics")["cpu_seconds"]
    assert eventually(lambda: box.call("GET", "/metrics")["cpu_seconds"] > used + 0.3)  # it has begun

    def in_words():
        rows = {row.split()[0]: row.split() for row in host.cli("top", "--once").stdout.splitlines()}
        assert rows["ID"][2] == "CPU" and re.fullmatch(r"\d+%", rows["default"][2])
        return int(rows[box.id][2][:-1]) > 5

    def in_json():
        share = {one["id"]: one["cpu_percent"] for one in json.loads(host.cli("top", "--json").stdout)}
        assert share["default"] >= 0
        return share[box.id] > max(5, share["default"])

    assert eventually(in_words) and eventually(in_json)  # other work may keep it from the processor for a while
    box.delete()


class FakeHost(http.server.BaseHTTPRequestHandler):
    """Lists 2,500 boxes; the first is deleted while the first list is read."""
    pages = []

    def do_GET(self):
        query = dict(pair.split("=") for pair in self.path.partition("?")[2].split("&"))
        limit, offset = int(query["limit"]), int(query["offset"])
        gone = 1 if self.pages else 0
        self.pages.append(offset)
        ids = [f"b{i}" for i in range(gone, 2500)]
        boxes = [{"id": one, "state": "running", "urls": {"api": "x"}} for one in ids[offset:offset + min(limit, 1000)]]
        body = json.dumps({"data": {"sandboxes": boxes, "total": len(ids), "offset": offset}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def test_ls_lists_more_than_a_page(tmp_path):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), FakeHost)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    env = clean_environment(tmp_path, {"AIO_URL": f"http://127.0.0.1:{server.server_port}", "AIO_HOST_TOKEN": "t"})
    done = subprocess.run([program("aio"), "ls", "--json"], capture_output=True, text=True, env=env, timeout=60)
    server.shutdown()
    server.server_close()
    assert [box["id"] for box in json.loads(done.stdout)] == [f"b{i}" for i in range(1, 2500)], done.stderr


def test_rm_of_the_default_box_says_what_it_means(host):
    host.default().run("echo mine >~/mine")
    other = host.create()
    done = host.cli("rm", "default", other.id)
    assert done.stdout == f"default\n{other.id}\n" and "a new, empty one" in done.stderr
    assert host.default().run("ls ~; hostname") == "default\n"
    assert host.cli("rm", host.create().id).stderr == ""


def test_events_of_a_box_and_of_all(host):
    box = host.create(name="eventful")
    box.run("true")
    table = [line.split() for line in host.cli("events", box.id).stdout.splitlines()]
    assert table[0] == ["TIME", "BOX", "EVENT", "DETAILS"]
    assert [row[2:5] for row in table[1:]] == [["eventful", "created", "template=machine"], ["eventful", "started"],
                                               ["eventful", "exec", "path=/v1/bash/exec"]]
    assert [event["type"] for event in json.loads(host.cli("events", box.id, "--json").stdout)] == ["created", "started", "exec"]
    box.delete()
    listed = json.loads(host.cli("events", "--json").stdout)
    assert [event["type"] for event in listed if event["sandbox"] == box.id] == ["created", "started", "exec", "deleted"]
    assert [event["seq"] for event in listed] == sorted(event["seq"] for event in listed)
    done = host.cli("events", box.id, check=False)
    assert done.returncode == 1 and "no box 'eventful'" in done.stderr
    assert host.client.get("/v1/events").status_code == 401


@pytest.mark.parametrize("all_of_them", [False, True])
def test_events_go_on(host, all_of_them):
    box = host.create()
    proc = host.begin("events", *([] if all_of_them else [box.id]), "-f", "--json", text=True, stdout=subprocess.PIPE)

    def until(box_id, wanted):
        while True:
            event = json.loads(proc.stdout.readline())
            if event.get("sandbox", box.id) == box_id and event["type"] == wanted:
                return event

    until(box.id, "started")
    host.cli("pause", box.id)
    assert until(box.id, "paused")["data"] == {"why": "asked"}
    if all_of_them:
        other = host.create()
        until(other.id, "created")
    box.delete()
    until(box.id, "deleted")
    if all_of_them:
        proc.terminate()
    assert proc.wait(ANSWER_SECONDS) == (-signal.SIGTERM if all_of_them else 0)
    proc.stdout.close()


def test_logs_go_on(host):
    box = host.create()
    proc = host.begin("logs", "-f", box.id, stdout=subprocess.PIPE, text=True)
    assert "is ready" in proc.stdout.readline()
    box.run("true")
    assert "/v1/bash/exec" in proc.stdout.readline()
    # The keeper puts a large log aside: the new one is followed too.
    log = host.state / "log" / f"{box.id}.log"
    os.rename(log, f"{log}.1")
    log.write_text("another file\n")
    assert proc.stdout.readline() == "another file\n"
    box.delete()
    assert proc.wait(ANSWER_SECONDS) == 0
    proc.stdout.close()
    assert json.loads(host.cli("logs", "default", "--json", "--bytes", "100").stdout)["id"] == "default"


def test_one_that_fails_does_not_stop_the_others(host):
    boxes = [host.create() for _ in range(2)]
    done = host.cli("rm", boxes[0].id, "nosuch", boxes[1].id, check=False)
    assert (done.returncode, done.stdout) == (1, f"{boxes[0].id}\n{boxes[1].id}\n")
    assert done.stderr == "aio rm: there is no box 'nosuch'\n"


def test_a_box_that_sleeps_says_what_to_do(host):
    box = host.create()
    host.cli("pause", box.id)
    done = host.cli("exec", box.id, "true", check=False)
    assert (done.returncode, done.stderr) == (1, f"aio exec: box '{box.id}' is paused; 'aio resume {box.id}' wakes it\n")
    host.cli("resume", box.id)
    assert host.cli("exec", box.id, "echo awake").stdout == "awake\n"
    assert json.loads(host.cli("rm", box.id, "--json").stdout) == {"deleted": box.id}


def test_mistakes(host):
    for args, code, text in [
        (["rm"], 2, "usage"), (["rm", "nobody"], 1, "no box 'nobody'"), (["create", "--nonsense", "1"], 2, "unknown option"),
        (["create", "--timeout", "soon"], 2, "--timeout: 'soon' is not a duration: seconds, or a number with ms, s, m, h or d"),
        (["create", "--memory"], 2, "--memory needs a value"), (["create", "--mode", "x"], 2, "one of none, allow, full"),
        (["create", "--network", "x"], 2, "--network: 'x' is not one of none, allow, full"), (["create", "--services", "x"], 2, "one of jupyter"),
        (["create", "--memory", "lots"], 2, "--memory: 'lots' is not a size: bytes, or a number with K, M, G or T, such as 512M"),
        (["create", "--pids", "1K"], 2, "--pids: '1K' is not a number, such as 200"), (["create", "--disk", "10"], 1, "the least is 16M"),
        (["create", "--cpus", "150"], 1, "counts cores, not percent"), (["create", "--pids", "1"], 1, "the least is 8"),
        (["create", "--env", "x"], 2, "NAME=VALUE"), (["ls", "--state"], 2, "--state needs a value"),
        (["down", "--bogus"], 2, "'--bogus'"), (["down", "now"], 2, "'now'"), (["ls", "-x"], 2, "'-x'"),
        (["logs", "default", "-f", "--json"], 1, "--follow"), (["template", "nonsense"], 2, "nonsense"), (["create", "--name", "Bad"], 1, "a name is"),
        (["exec", "nobody", "true"], 1, "no box"),
        (["template"], 2, "Usage"), (["template", "rm", "machine"], 1, "this machine itself"), (["ls", "x"], 1, "no box 'x'"), (["timeout", "x"], 2, "usage: aio timeout BOX DURATION\n"),
        (["template", "rm", "nothing"], 1, "no template"),
        (["template", "import", "x", "/no/such/file"], 1, "no '/no/such/file'"),
    ]:
        done = host.cli(*args, check=False)
        assert done.returncode == code and text in done.stderr, (args, done)


def test_every_command_has_help(host):
    commands = [line.split()[0] for line in host.cli("help").stdout.splitlines() if line.startswith("  ")]
    for name in commands:
        if name != "help":
            done = host.cli(name, "--help")
            assert "Usage" in done.stdout, name
            if name not in ("openapi", "egress", "serve"):
                assert host.cli(name, "-h").stdout == done.stdout, name
    text = host.cli("create", "--help").stdout
    assert "--idle-timeout DURATION" in text and "--network TEXT" in text and "--mode" not in text and "--memory SIZE" in text
    assert text.count("A DURATION is seconds, or a number with") == 1


def test_no_host(tmp_path):
    done = subprocess.run([program("aio"), "ls", "--state", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 1 and "aio up" in done.stderr
    (tmp_path / "url").write_text("http://127.0.0.1:1\n")
    (tmp_path / "token").write_text("x\n")
    done = subprocess.run([program("aio"), "ls", "--state", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr == f"aio ls: no host runs on '{tmp_path}' (start it with 'aio up')\n"
    done = subprocess.run([program("aio"), "down", "--state", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 1 and "no host runs" in done.stderr


def test_down_ends_nothing_but_a_host(tmp_path):
    """The number that a host wrote before it crashed is another process's by now."""
    with subprocess.Popen(["sleep", "100"]) as other:
        (tmp_path / "lock").write_text(f"{other.pid}\n")
        done = subprocess.run([program("aio"), "down", "--state", str(tmp_path)], capture_output=True, text=True,
                              timeout=60)
        ended = other.poll()
        other.kill()
    assert done.returncode == 1 and "no host runs" in done.stderr and ended is None


def test_up_refuses_what_is_unsafe():
    place = folder()
    for args, text in [(["--listen", "0.0.0.0:0"], "refusing to listen"), (["--nonsense"], "unknown option"),
                       (["--allow", "example.org"], "for '--network allow'"), (["--network", "some"], "none|allow|full"),
                       (["--cpus", "150"], "--cpus: 150 is more than this machine's"), (["--cpus", "50%"], "'50%' is not CORES"),
                       (["--memory", "10"], "--memory: 10 is too little: the least is 16M"), (["--disk", "10"], "--disk: 10"),
                       (["--io-weight", "20000"], "--io-weight"), (["--pids", "1"], "--pids: 1 is too little: the least is 8")]:
        done = subprocess.run([program("aio"), "up", "--state", str(place / "s"), *args], capture_output=True,
                              text=True, timeout=60)
        assert done.returncode == 2 and text in done.stderr, done
    # What was percent stays percent.
    done = subprocess.run([program("aio"), "up", "--state", str(place / "s")], capture_output=True, text=True,
                          timeout=60, env={**os.environ, "AIO_CPU_PERCENT": "999900"})
    assert done.returncode == 2 and "--cpus: 9999 is more than this machine's" in done.stderr, done
    shutil.rmtree(place)


def test_only_root_makes_boxes(tmp_path):
    os.chmod(tmp_path, 0o777)
    done = subprocess.run([program("aio"), "up", "--state", str(tmp_path / "s")], capture_output=True, text=True,
                          user=65534, timeout=60)
    assert done.returncode == 1 and "root" in done.stderr and "aio serve" in done.stderr


def test_up_heeds_no_option_of_a_server_in_the_environment(start_host):
    """They may be there for 'aio serve', or for another program."""
    host = start_host(env={"PUBLIC_PORT": "x", "AIO_MAX_SESSIONS": "x", "AIO_MAX_BODY": "none"})
    assert "default" in host.ids()
