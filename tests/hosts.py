"""A host under test: `aio up` with a state directory of its own, and its boxes."""

import atexit
import contextlib
import glob
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import threading
from pathlib import Path

import httpx

from harness import (ANSWER_SECONDS, SETTLE_SECONDS, START_SECONDS, STOP_SECONDS, check_sanitizers,
                     clean_environment, dial, eventually, program, request)

UNIFIED = next((p for p in (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup"))
                if (p / "cgroup.procs").exists()), None)

CLAIMS = Path("/run/aiobox/uids")  # of ranges of user ids, by all hosts of the machine


def why_not():
    """Why there can be no host here, or None."""
    if os.geteuid() != 0:
        return "boxes need root"
    if UNIFIED is None:
        return "no cgroup v2"
    return None


def folder():
    """Not pytest's: a box's first process must be able to walk there."""
    path = Path(tempfile.mkdtemp(prefix="aio-host."))
    path.chmod(0o711)
    return path


def each(look, paths):
    """What look(path) says of each, where it says something and the path has not just vanished."""
    for path in paths:
        with contextlib.suppress(OSError):
            if said := look(path):
                yield said


def seed_of(state):
    """By which a host's names on the machine differ from another's."""
    value = 2166136261
    for byte in os.path.realpath(state).encode():
        value = ((value ^ byte) * 16777619) & 0xFFFFFFFF
    return f"{value:08x}"


class Machine:
    """The template of the machine that the first host made. Others on the same disk get it as links: it is thousands of
    files, which only their contents make worth a copy."""

    def __init__(self):
        self.folder, self.made = None, None

    def is_near(self, place):
        return self.folder.stat().st_dev == place.stat().st_dev

    def lend(self, state):
        if not self.made or state.exists() or not self.is_near(state.parent):
            return
        state.mkdir(mode=0o711)
        copy = state / self.made.name
        subprocess.run(["cp", "-al", self.made, copy], check=True)
        (copy / "layers").unlink()  # hosts lock it
        shutil.copy2(self.made / "layers", copy)

    def keep(self, state):
        if not self.folder:
            self.folder = Path(tempfile.mkdtemp(prefix="aio-machine."))
            atexit.register(subprocess.run, ["rm", "-rf", str(self.folder)], check=False)
        made = next(state.glob("machine-*"), None)
        if made and self.is_near(made) and not (self.folder / made.name).exists():
            self.made = self.folder / made.name
            subprocess.run(["cp", "-al", made, self.made], check=True)


machine = Machine()


class Box:
    """One box, reached by the header that names it."""

    def __init__(self, host, data):
        self.host, self.data, self.id, self.token = host, data, data["id"], data["token"]
        self.headers = {"x-aio-sandbox": self.id}
        if self.token:
            self.headers["Authorization"] = f"Bearer {self.token}"

    def request(self, method, path, headers=None, **more):
        return self.host.client.request(method, path, headers={**self.headers, **(headers or {})}, **more)

    def run(self, command, **more):
        """stdout of a command, which must succeed."""
        answer = self.request("POST", "/v1/bash/exec", json={"command": command, **more})
        assert answer.status_code == 200, answer.text
        data = answer.json()["data"]
        assert data["exit_code"] == 0, data
        return data["stdout"]

    def begin(self, command):
        """Starts a command and leaves it running."""
        answer = self.request("POST", "/v1/bash/exec", json={"command": command, "async_mode": True})
        assert answer.status_code == 200, answer.text

    def count(self, pattern):
        """How many of its processes have a command line that matches."""
        return int(self.run(f"pgrep -fc '{pattern}' || true"))

    def call(self, method, what="", **more):
        return self.host.api(method, f"/v1/sandboxes/{self.id}{what}", **more)

    @property
    def state(self):
        return self.call("GET")["state"]

    def events(self):
        return [event["type"] for event in self.call("GET", "/events")]

    def logs(self):
        """What its server has logged. A line may come a moment after what it is about."""
        return self.host.client.get(f"/v1/sandboxes/{self.id}/logs", headers=self.host.auth).content.decode()

    def first_process(self):
        """The machine's number of it."""
        return self.host.stored()[self.id]["proc"]["pid"]

    def group(self, file):
        """The path of a file of its control group of version 2."""
        return next(path for path in (Path(group) / file for group in self.host.holdings()["cgroups"])
                    if path.parent.name.endswith(f"-{self.id}") and path.exists())

    def kill(self):
        """Ends all its processes at once, as the machine might."""
        self.group("cgroup.kill").write_text("1")

    @property
    def socket_path(self):
        return self.host.state / "boxes" / self.id / "socket"

    def delete(self):
        self.host.api("DELETE", f"/v1/sandboxes/{self.id}")


class Host:
    before = ()  # what starts `aio`, if it is not we

    def __init__(self, folder, args=(), env=None, state=None):
        self.folder, self.state = folder, state or folder / "state"
        self.args, self.env = list(map(str, args)), env or {}
        self.home = folder / "home"
        self.home.mkdir(parents=True, exist_ok=True)
        self.log_path, self.out_path = folder / "stderr", folder / "stdout"
        self.start()

    def program(self):
        return program("aio")

    def start(self):
        if not self.before:
            machine.lend(self.state)
        with open(self.log_path, "ab") as err, open(self.out_path, "wb") as out:
            self.proc = subprocess.Popen(
                [*self.before, self.program(), "up", "--listen", "127.0.0.1:0", "--state", str(self.state), *self.args],
                stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                env=clean_environment(self.home, self.env))
        said = eventually(lambda: b"\n" in self.out_path.read_bytes() or self.proc.poll() is not None,
                          START_SECONDS)
        if not said or self.proc.poll() is not None:
            code = self.proc.poll()
            self.proc.kill()
            self.proc.wait()
            raise AssertionError(f"no start: {code}\n{self.log}")
        self.url = re.search(r"ready: (\S+)", self.out_path.read_text()).group(1)
        self.port = httpx.URL(self.url).port
        if not self.before:
            machine.keep(self.state)
        self.token = (self.state / "token").read_text().strip()
        self.auth = {"Authorization": f"Bearer {self.token}"}
        self.client = httpx.Client(base_url=self.url, timeout=ANSWER_SECONDS, trust_env=False,
                                   limits=httpx.Limits(keepalive_expiry=None))

    @property
    def pid(self):
        return self.proc.pid

    @property
    def log(self):
        return self.log_path.read_text(errors="replace")

    def logged(self, text, seconds=SETTLE_SECONDS):
        """Whether the text is in the log, now or soon."""
        return eventually(lambda: text in self.log, seconds)

    def api(self, method, path, **more):
        """`data` of a lifecycle call, which must succeed."""
        answer = self.client.request(method, path, headers=self.auth, **more)
        assert answer.status_code == 200, (answer.status_code, answer.text)
        return answer.json()["data"]

    def create(self, **spec):
        return Box(self, self.api("POST", "/v1/sandboxes", json=spec))

    def default(self):
        return Box(self, {"id": "default", "token": None})

    def ids(self):
        return [box["id"] for box in self.api("GET", "/v1/sandboxes?limit=1000")["sandboxes"]]

    def connect(self, timeout=ANSWER_SECONDS, receive_buffer=None):
        return dial(("127.0.0.1", self.port), timeout, receive_buffer)

    def environment(self, **more):
        """Of commands that are for this host."""
        return clean_environment(self.home, {"AIO_STATE": str(self.state), **more})

    def begin(self, *args, **more):
        """A command of `aio` that runs beside the test."""
        return subprocess.Popen([program("aio"), *args], env=self.environment(), **more)

    def cli(self, *args, input=None, check=True, timeout=100):
        done = subprocess.run([*self.before, program("aio"), *map(str, args)], capture_output=True, text=True,
                              input=input, timeout=timeout, env=self.environment())
        assert not check or done.returncode == 0, (done.returncode, done.stdout, done.stderr)
        return done

    # --- ending and judging it

    def kill(self):
        """As a crash would."""
        self.client.close()
        self.proc.kill()
        self.proc.wait()

    def stop(self, number=signal.SIGINT):
        self.client.close()
        if self.proc.poll() is None:
            self.proc.send_signal(number)
        code = self.proc.wait(STOP_SECONDS)
        self.check_reports()
        assert code == 0, f"the host ended with {code}:\n{self.log[-4000:]}"

    def check_reports(self):
        check_sanitizers(self.log)

    def check(self):
        assert self.proc.poll() is None, f"the host has ended:\n{self.log[-4000:]}"
        assert self.client.get("/health").text == "OK"
        self.check_reports()

    def end(self):
        left = self.proc.poll() is not None
        try:
            self.stop()
        finally:
            if self.proc.poll() is None:
                self.kill()
                left = True
            if left:  # its boxes run on
                self.cli("down", check=False)
            # A template is many small files: their end is not waited for.
            subprocess.Popen(["rm", "-rf", str(self.folder)], start_new_session=True)

    # --- what it holds of the machine

    def holdings(self):
        """All that a box leaves traces in, of this host alone."""
        return {
            "directories": sorted(os.listdir(self.state / "boxes")),
            "sockets": sorted(path.parent.name for path in self.state.glob("boxes/*/socket")),
            "logs": sorted(name for name in os.listdir(self.state / "log") if not name.startswith("default")),
            "cgroups": sorted(path for base in ("", "*/") for path in
                              glob.glob(f"/sys/fs/cgroup/{base}aiobox/{self.seed()}-*")),
            "mounts": [line for line in Path("/proc/self/mountinfo").read_text().splitlines()
                       if str(self.state) in line],
        }

    def settled(self):
        """What it holds once nothing is left of boxes that were deleted: that goes a moment after them."""
        held = {}

        def is_settled():
            ids = set(self.ids())
            held.update(self.holdings())
            groups = {path.rsplit("/", 1)[1].partition("-")[2] for path in held["cgroups"]}
            logs = {name.partition(".")[0] for name in held["logs"]}
            return set(held["directories"]) == ids and groups | logs | set(held["sockets"]) <= ids

        assert eventually(is_settled), held
        return held

    def traces(self):
        """What else of the machine its boxes have, and is to be gone with them; of ranges of ids their numbers."""
        state = os.path.realpath(self.state)
        number, letters = int(self.seed(), 16), "0123456789abcdefghijklmnopqrstuvwxyz"
        own = "aiob" + "".join(letters[number // 36 ** i % 36] for i in range(5)) + "-"
        return {
            "loops": sorted(path for path in each(Path.read_text, Path("/sys/block").glob("loop*/loop/backing_file"))
                            if path.startswith(state)),
            "links": sorted(name for name in os.listdir("/sys/class/net") if name.startswith(own)),
            "ranges": sorted(int(path.name) for path in each(lambda path: os.readlink(path) == state and path,
                                                             CLAIMS.iterdir())),
            "ways out": [line for line in each(Path.read_bytes, Path("/proc").glob("[0-9]*/cmdline"))
                         if b"\0egress\0" in line and state.encode() in line],
        }

    def seed(self):
        return seed_of(self.state)

    def stored(self):
        """What its store says about each box."""
        with contextlib.closing(sqlite3.connect(self.state / "store.db")) as store:
            return {name: json.loads(doc) for name, doc in store.execute("SELECT id, doc FROM box").fetchall()}

    def makers(self):
        """The process that makes its boxes. A child that it has just forked looks alike."""
        found, stage = [], f"{os.path.realpath(self.state)}/stage"
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if (Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"aio\0maker\0")
                        and os.readlink(f"/proc/{pid}/cwd") == stage):
                    found.append(int(pid))
        return sorted(found)


class FakeServer:
    """Plays a box's server on its socket: calls `serve(conn)` in a thread for each stream."""

    def __init__(self, box, serve):
        self.path = box.socket_path
        self.real = self.path.with_name(self.path.name + ".real")
        os.rename(self.path, self.real)
        self.listener = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        # The path may be longer than a socket's name can be.
        folder = os.open(self.path.parent, os.O_PATH)
        self.listener.bind(f"/proc/self/fd/{folder}/{self.path.name}")
        os.close(folder)
        self.listener.listen(64)
        self.serve, self.heads, self.streams, self.errors = serve, [], [], []
        self.threads = [threading.Thread(target=self._accept, daemon=True)]
        self.threads[0].start()

    def _accept(self):
        while True:
            try:
                conn, _ = self.listener.accept()
            except OSError:
                return
            conn.settimeout(ANSWER_SECONDS)
            self.streams.append(conn)
            self.threads.append(threading.Thread(target=self._run, args=(conn,), daemon=True))
            self.threads[-1].start()

    def _run(self, conn):
        try:
            self.serve(self, conn)
        except OSError:
            pass
        except Exception as error:  # shown by close()
            self.errors.append(error)

    def read_head(self, conn):
        """One request's head, as text; b"" at the end."""
        data = b""
        while b"\r\n\r\n" not in data:
            piece = conn.recv(1)
            if not piece:
                return ""
            data += piece
        self.heads.append(data.decode("latin-1"))
        return self.heads[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.threads[0].join(ANSWER_SECONDS)  # it accepts no more
        self.listener.close()
        for conn in self.streams:
            with contextlib.suppress(OSError):
                conn.shutdown(socket.SHUT_RDWR)  # wakes its thread, which a close would not
        for thread in self.threads:
            thread.join(ANSWER_SECONDS)
        for conn in self.streams:
            conn.close()
        with contextlib.suppress(FileNotFoundError):  # the box was deleted meanwhile
            os.rename(self.real, self.path)
        assert not self.errors, self.errors


def answer(body=b"ok", status="200 OK", headers=(), length=True):
    lines = [f"HTTP/1.1 {status}", *headers]
    if length:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def to(box, target="/x", method="GET", headers=(), **more):
    """The bytes of a request to a box."""
    return request(target, method, {**box.headers, **dict(headers)}, **more)
