"""A server under test: started, spoken to, watched, stopped.

AIO names the program, and the others are beside it (or FIXTURE names one); without it build/asan/ is taken, else build/.
"""

import contextlib
import fcntl
import functools
import json
import os
import re
import signal
import socket
import subprocess
import termios
import time
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parents[1]
# How long may take what takes milliseconds on an idle machine; a test that passes never waits for so long.
START_SECONDS = 90
SETTLE_SECONDS = 60
STOP_SECONDS = 60
ANSWER_SECONDS = 60
# For tests that measure memory: ASan keeps what was freed.
LEAN = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=1"}


class Report(AssertionError):
    """A server died, leaked or was reported by a sanitizer: a fault of the program, for which no test is run again."""


SANITIZER_REPORT = re.compile(
    r"ERROR: (Address|Leak)Sanitizer|WARNING: ThreadSanitizer|runtime error:|SUMMARY: \w*Sanitizer"
)


def check_sanitizers(log):
    if report := SANITIZER_REPORT.search(log):
        raise Report(f"a sanitizer reports:\n{log[max(0, report.start() - 500) :][:8000]}")


def program(name):
    """The path of "aio" or "fixture"."""
    given, beside = os.environ.get(name.upper()), os.environ.get("AIO")
    places = ([Path(given)] if given else [Path(beside).parent / name] if beside else
              [ROOT / "build/asan" / name, ROOT / "build" / name])
    for place in places:
        if place.exists():
            return str(place.resolve())
    raise FileNotFoundError(f"{name} is not built: {' or '.join(map(str, places))}")


@functools.cache
def sanitizer():
    """"address", "thread" or None: what the programs are built with."""
    data = Path(program("aio")).read_bytes()
    return "address" if b"__asan_init" in data else "thread" if b"__tsan_init" in data else None


def eventually(check, seconds=SETTLE_SECONDS, pause=0.01):
    """Calls check until it says something true, and returns that; the last answer after `seconds`, which is one to a
    question asked then: the machine may have slept meanwhile."""
    until = time.monotonic() + seconds
    while True:
        late = time.monotonic() > until
        result = check()
        if result or late:
            return result
        time.sleep(pause)


def children_of(pid):
    """The processes whose parent it is. Looked for twice: while the thread that started one ends, it changes hands and can
    be missed."""
    return sorted(_seen_children(pid) | _seen_children(pid))


def _seen_children(pid):
    found, vanished = set(), (FileNotFoundError, ProcessLookupError)
    with contextlib.suppress(*vanished):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(*vanished):
                found |= set(map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split()))
    return found


def _text(path):
    """What a file of /proc says, or nothing where it is gone."""
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def clean_environment(home, env=None):
    """What a server may see of ours: nothing that configures it."""
    keep = {k: v for k, v in os.environ.items() if k in ("PATH", "LANG") or k.endswith("SAN_OPTIONS")}
    return {**keep, "AIO_HOME": str(ROOT), "HOME": str(home), "WORKSPACE": str(home), **(env or {})}


@contextlib.contextmanager
def serving(folder, env, listen="127.0.0.1:0", pass_fds=()):
    """`aio serve` before it is ready, in a folder, with its output there in `out` and `log`."""
    with open(folder / "out", "wb") as out, open(folder / "log", "wb") as log, subprocess.Popen(
            [program("aio"), "serve", "--listen", listen], cwd=folder, stdout=out, stderr=log,
            env=clean_environment(folder, env), pass_fds=pass_fds) as proc:
        try:
            yield proc
        finally:
            proc.terminate()
            try:
                proc.wait(60)
            finally:
                proc.kill()


# --- speaking HTTP by hand ---------------------------------------------------------------------


class Answer:
    """One answer, as it came: `complete` says whether its end was marked as HTTP wants it."""

    def __init__(self, status, version, headers, body, complete):
        self.status, self.version, self.headers = status, version, headers
        self.body, self.complete = body, complete

    def __getitem__(self, name):
        """The one value of a header, or None."""
        values = [value for key, value in self.headers if key.lower() == name.lower()]
        assert len(values) < 2, f"{name} came {len(values)} times"
        return values[0] if values else None

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {self.headers} {self.body[:200]!r}{'' if self.complete else ' CUT'}>"


class Peer:
    """A connection that sends bytes and reads answers."""

    def __init__(self, sock):
        self.sock, self.data = sock, bytearray()  # what was received and not taken yet

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data)

    def half_close(self):
        self.sock.shutdown(socket.SHUT_WR)

    def reset(self):
        """Leaves without a goodbye."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.sock.close()

    def more(self):
        """Receives some; False at the end of the stream."""
        try:
            data = self.sock.recv(1 << 20)
        except ConnectionResetError:
            data = b""
        self.data += data
        return bool(data)

    def _cut(self, count):
        taken = bytes(self.data[:count])
        del self.data[:count]
        return taken

    def line(self):
        while (end := self.data.find(b"\r\n")) < 0:
            if not self.more():
                raise EOFError(f"the connection ended after {self.data[:500]!r}")
        return self._cut(end + 2)[:-2]

    def take(self, count):
        """count bytes, or fewer at the end of the stream."""
        while len(self.data) < count and self.more():
            pass
        return self._cut(count)

    def head(self):
        version, status, _ = self.line().decode("latin-1").split(" ", 2)
        headers = []
        while line := self.line():
            name, value = line.decode("latin-1").split(":", 1)
            headers.append((name, value.strip()))
        return Answer(int(status), version, headers, b"", True)

    def chunk(self):
        """The data of the next chunk, b"" for the last, None when the stream ends instead."""
        try:
            size = int(self.line(), 16)
            data = self.take(size)
            end = self.line()
        except EOFError:
            return None
        assert end == b"", end
        return data if len(data) == size else None

    def body_of(self, answer, method="GET"):
        """Reads the body that belongs to a head."""
        if method == "HEAD" or answer.status in (204, 304) or answer.status < 200:
            return answer
        if answer["transfer-encoding"]:
            assert answer["transfer-encoding"] == "chunked" and not answer["content-length"]
            while data := self.chunk():
                answer.body += data
            answer.complete = data == b""
        elif answer["content-length"] is not None:
            length = int(answer["content-length"])
            answer.body = self.take(length)
            answer.complete = len(answer.body) == length
        else:
            answer.body = self.rest()
        return answer

    def answer(self, method="GET"):
        return self.body_of(self.head(), method)

    def ask(self, data, method=None):
        """Sends one request and reads its answer."""
        self.send(data)
        return self.answer(method or data.split(b" ", 1)[0].decode("latin-1"))

    def rest(self):
        """Everything until the connection ends."""
        while self.more():
            pass
        return self._cut(len(self.data))

    def ended(self):
        """True once the server has closed and nothing more came."""
        return self.rest() == b""


def dial(address, timeout=ANSWER_SECONDS, receive_buffer=None):
    """A Peer: connected to the path of a socket, or to a host and port."""
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    sock = socket.socket(family)
    if receive_buffer:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    sock.settimeout(timeout)
    sock.connect(address)
    if family != socket.AF_UNIX:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Peer(sock)


def request(target="/health", method="GET", headers=(), body=b"", version="1.1", host="localhost"):
    """The bytes of a request; a body gets its length unless the headers say otherwise."""
    lines = [f"{method} {target} HTTP/{version}"]
    if host is not None:
        lines.append(f"Host: {host}")
    lines += [f"{name}: {value}" for name, value in dict(headers).items()]
    names = {name.lower() for name in dict(headers)}
    if body and not names & {"content-length", "transfer-encoding"}:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def chunked(*pieces, end=b"0\r\n\r\n"):
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + end


def connect(url, **more):
    """A WebSocket. Its handshake may take as long as a start, and a server that is slow is not gone: no pings."""
    from websockets.sync import client

    return client.connect(url, **{"open_timeout": START_SECONDS, "ping_interval": None, **more})


class Calls:
    """The POST calls of one group of the API: Calls("/v1/bash").ask(server, "exec", command="true")."""

    def __init__(self, base, timeout=110):
        self.base, self.timeout = base, timeout

    def send(self, server, what="", **body):
        return server.post(f"{self.base}/{what}" if what else self.base, body, timeout=self.timeout)

    def reply(self, server, what="", **body):
        """The whole body of a response that must have status 200."""
        response = self.send(server, what, **body)
        assert response.status_code == 200, response.text[:1000]
        return response.json()

    def ask(self, server, what="", **body):
        """Its data."""
        return self.reply(server, what, **body)["data"]

    def refused(self, server, what="", **body):
        """The status and the text of a response that must not have status 200."""
        response = self.send(server, what, **body)
        assert response.status_code != 200, response.text[:1000]
        return response.status_code, response.text


class Events:
    """An answer as a stream of events, to a POST with a body or a GET without one."""

    def __init__(self, server, target, headers=None, **body):
        self.peer, self.data = server.connect(), b""
        head = {"Accept": "text/event-stream", **({"Content-Type": "application/json"} if body else {}), **(headers or {})}
        self.peer.send(request(target, "POST" if body else "GET", head, json.dumps(body).encode() if body else b""))
        self.head = self.peer.head()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.peer.sock.close()

    def next(self):
        """The next one: its name, its id if it has one, and its data; None at the end."""
        while b"\n\n" not in self.data:
            piece = self.peer.chunk()
            if not piece:
                return None
            self.data += piece
        event, self.data = self.data.split(b"\n\n", 1)
        lines = event.decode().split("\n")
        if lines[0].startswith(":"):
            return self.next()
        fields = dict(line.split(": ", 1) for line in lines)
        assert len(fields) == len(lines) and {"event", "data"} <= set(fields) <= {"event", "data", "id"}, lines
        ids = (fields["id"],) if "id" in fields else ()
        return fields["event"], *ids, json.loads(fields["data"])

    def __iter__(self):
        while event := self.next():
            yield event


# --- a server ----------------------------------------------------------------------------------


class Fresh(httpx.BaseTransport):
    """A connection of its own for each request: a pool that threads share closes one that another has just taken."""

    context = httpx.create_ssl_context(verify=False)

    def __init__(self, uds):
        self.uds = uds

    def handle_request(self, request):
        one = httpx.HTTPTransport(uds=self.uds, verify=self.context)
        try:
            answer = one.handle_request(request)
        except BaseException:
            one.close()
            raise
        close = answer.stream.close

        def close_both():
            close()
            one.close()

        answer.stream.close = close_both
        return answer


class Server:
    """A running server. Its output is in files: `log` is what it wrote to stderr, `ready` its first
    line on stdout."""

    def __init__(self, name, args, env, folder, pass_fds=(), listen="127.0.0.1:0"):
        self.home = folder / "home"
        self.home.mkdir(parents=True, exist_ok=True)
        self.log_path, self.out_path = folder / "stderr", folder / "stdout"
        command = [program(name)] + (["serve"] if name == "aio" else [])
        command += (["--listen", listen] if listen else []) + [str(arg) for arg in args]
        with open(self.log_path, "wb") as err, open(self.out_path, "wb") as out:
            self.proc = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=self.home,
                env=clean_environment(self.home, env),
                pass_fds=pass_fds,
            )
        self.pid, self.checked = self.proc.pid, 0
        try:
            self._await_ready()
        except BaseException:
            self.kill()
            raise

    def _await_ready(self):
        said = eventually(lambda: b"\n" in self.out_path.read_bytes() or self.proc.poll() is not None,
                          START_SECONDS)
        if (code := self.proc.poll()) is not None:
            raise Report(f"the server has ended with {code} instead of starting:\n{self.log}")
        assert said, f"no start:\n{self.log}"
        # What was started is the first stage; the server is its child.
        self.pid = (children_of(self.proc.pid) or [self.proc.pid])[0]
        self.ready = self.out_path.read_text().splitlines()[0]
        where = re.search(r"ready(?: on|:) (\S+)", self.ready).group(1)
        self.path = where.removeprefix("unix:") if where.startswith("unix:") else None
        self.url = "http://localhost" if self.path else where
        url = httpx.URL(self.url)
        self.host, self.port = url.host, url.port
        self.client = httpx.Client(
            base_url=self.url,
            transport=Fresh(self.path),
            timeout=ANSWER_SECONDS,
            trust_env=False,
        )
        # Its threads before any connection, its descriptors once it accepts. ThreadSanitizer has a
        # thread of its own from the first connection on.
        threads = self.threads() + (sanitizer() == "thread")
        sockets = self._sockets()
        self.check_health()
        eventually(lambda: self._sockets() == sockets and self.threads() <= threads)
        self.baseline = self.possessions()

    # --- speaking to it

    def request(self, method, target, **more):
        return self.client.request(method, target, **more)

    def get(self, target, **more):
        return self.request("GET", target, **more)

    def post(self, target, json=None, **more):
        return self.request("POST", target, **({"json": json} if json is not None else {}), **more)

    def connect(self, timeout=ANSWER_SECONDS, receive_buffer=None):
        """A Peer: a connection to speak by hand."""
        return dial(self.path or (self.host, self.port), timeout, receive_buffer)

    def begin(self, target, **body):
        """A POST whose answer is taken later: once this is back, all of it is at the server's end."""
        peer = self.connect()
        peer.send(request(target, "POST", {"Content-Type": "application/json"}, json.dumps(body).encode()))
        assert eventually(lambda: not any(fcntl.ioctl(peer.sock, termios.TIOCOUTQ, bytes(4))))
        return peer

    def raw(self, data, half_close=False):
        """Sends bytes and returns all that comes until the server closes the connection."""
        with self.connect() as peer:
            try:
                peer.send(data)
                if half_close:
                    peer.half_close()
            except (BrokenPipeError, ConnectionResetError):
                pass
            return peer.rest()

    # --- watching it

    @property
    def log(self):
        return self.log_path.read_text(errors="replace")

    def logged(self, text, seconds=SETTLE_SECONDS):
        """Whether the text is in the log, now or soon: a line is written after its answer."""
        return eventually(lambda: text in self.log, seconds)

    def _list(self, what):
        return os.listdir(f"/proc/{self.pid}/{what}")

    def _links(self):
        links = []
        for fd in self._list("fd"):
            try:
                links.append(os.readlink(f"/proc/{self.pid}/fd/{fd}"))
            except FileNotFoundError:
                pass
        return links

    def _sockets(self):
        return sum(link.startswith("socket:") for link in self._links())

    def children(self):
        """The server's, and the orphans that the first stage has taken in."""
        orphans = children_of(self.proc.pid) if self.pid != self.proc.pid else []
        return children_of(self.pid) + [pid for pid in orphans if pid != self.pid]

    def document_worker(self):
        """The process that reads documents, or None: it stays for a while after the last one."""
        for pid in children_of(self.pid):
            try:
                if b"share/documents/worker.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return pid
            except (FileNotFoundError, ProcessLookupError):
                pass
        return None

    def threads(self):
        """How many it has, but for those that wait for a connection: they say so by their name."""
        names = (Path(f"/proc/{self.pid}/task/{task}/comm") for task in self._list("task"))
        return sum(_text(name) not in ("", "idle\n") for name in names)

    def possessions(self):
        """How much it holds of what can leak; but for the pump, which starts once and for good: a thread,
        the epoll it waits at beside the server's own, and the eventfd that wakes it; and for the document
        worker, a service: the thread that watches it, its socket, its standard error, its process, and the eventfd
        that ends it."""
        links = self._links()
        pump, worker = links.count("anon_inode:[eventpoll]") > 1, self.document_worker() is not None
        return {
            "descriptors": len(links) - 2 * pump - 4 * worker,
            "threads": self.threads() - pump - worker,
            "children": len(self.children()) - worker,
        }

    def settle(self):
        """Waits until nobody is connected and nothing runs any more."""
        threads = self.baseline["threads"]
        return eventually(lambda: not self.children() and self.possessions()["threads"] <= threads)

    def take_baseline(self):
        """What it holds now, at rest, it holds for good."""
        self.settle()
        self.baseline = self.possessions()

    def tasks(self):
        """Its threads, but for those that wait for a connection: whether each sleeps, and how often it has run."""
        found = {}
        for task in self._list("task"):
            try:
                text = Path(f"/proc/{self.pid}/task/{task}/status").read_text()
                if not text.startswith("Name:\tidle\n"):
                    found[task] = re.findall(r"(?:State:|ctxt_switches:)\s+(\w+)", text)
            except (FileNotFoundError, ProcessLookupError):
                pass
        return found

    def at_rest(self, apart_from=()):
        """Waits until it has read all that it was sent, and does nothing but wait: all threads sleep, and none has run
        between two looks."""

        def still():
            looks = [{task: now for task, now in self.tasks().items() if task not in apart_from} for _ in range(2)]
            return looks[0] == looks[1] and all(now[0] == "S" for now in looks[0].values())

        return eventually(still)

    def memory(self, which="VmRSS"):
        """Bytes; VmHWM is the peak, which reset_peak() sets back."""
        text = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(rf"{which}:\s+(\d+)", text).group(1)) * 1024

    def reset_peak(self):
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")
        return self.memory("VmHWM")

    # --- judging it

    def check_health(self):
        if (code := self.proc.poll()) is not None:
            raise Report(f"the server has ended with {code}:\n{self.log[-4000:]}")
        answer = self.get("/health")
        assert (answer.status_code, answer.text) == (200, "OK")

    def check_reports(self):
        check_sanitizers(self.log)

    def check_leaks(self, before):
        """Everything that came since `before` is gone again. What the server has for good, such as a ready kernel, may
        just have been taken then, and is there again now."""

        def settled():
            now = self.possessions()
            return all(now[what] <= max(before[what], self.baseline[what]) for what in before)

        if not eventually(settled):
            raise Report(f"leaked: {before} became {self.possessions()}\n" + "\n".join(self._links()))

    def check(self, before=None):
        self.check_health()
        self.check_leaks(before or self.baseline)
        self.check_reports()

    def signal(self, number=signal.SIGTERM):
        self.proc.send_signal(number)

    def kill(self):
        """Ends it by force: the first stage goes with its child."""
        for pid in [self.pid] if self.pid != self.proc.pid else children_of(self.proc.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            self.proc.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()

    def wait(self, seconds=STOP_SECONDS):
        """Its exit code."""
        return self.proc.wait(seconds)

    def stop(self):
        """Ends it as an administrator would, unless it has ended; it must end well."""
        self.client.close()
        if self.proc.poll() is None:
            self.signal()
        try:
            code = self.wait()
        except subprocess.TimeoutExpired:
            self.kill()
            raise Report(f"the server does not stop:\n{self.log[-4000:]}") from None
        self.check_reports()
        if code != 0:
            raise Report(f"the server ended with {code}:\n{self.log[-4000:]}")
