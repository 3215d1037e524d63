"""How things are measured: load by wrk, start by posix_spawn, in rounds that take turns."""
import json
import re
import os
import signal
import socket
import statistics
import subprocess
import tempfile
import time

median = statistics.median

REPORT = """\
done = function(summary, latency)
	local e = summary.errors
	io.stderr:write(string.format(
		'{"requests": %d, "us": %d, "p50": %.1f, "p99": %.1f, "errors": %d}',
		summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
		e.connect + e.read + e.write + e.status + e.timeout))
end
"""


UNIQUE = """\
local body, n = [==[%s]==], 0
local threads = 0
function setup(thread) thread:set("offset", threads * 1e8); threads = threads + 1 end
function request()
	n = n + 1
	return wrk.format("POST", nil, nil, (body:gsub("UNIQUE", string.format("%%d", offset + n))))
end
"""


def wrk(url, connections, seconds, setup="", body=None, headers=None):
    """Requests a second, latencies in microseconds, errors. setup is Lua, for other requests than GET. With a
    body they are POSTs, and UNIQUE in it is another number in each."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(setup)
        if body:
            script.writelines(f"wrk.headers['{name}'] = '{value}'\n" for name, value in headers.items())
            script.write(UNIQUE % body)
        script.write(REPORT)
        script.flush()
        threads = min(connections, os.cpu_count() or 1)
        argv = ["wrk", f"-t{threads}", f"-c{connections}", f"-d{seconds}s", "-s", script.name, url]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=seconds + 30, check=True)
    got = json.loads(done.stderr)
    got["rate"] = got["requests"] / got["us"] * 1e6
    return got


def in_turns(rounds, *measures):
    """Calls the measures in turn, A B A B …, and returns the list of results of each. BENCH_SHARE=0.3 is for those who
    run the whole several times."""
    results = [[] for _ in measures]
    for _ in range(max(2, round(rounds * float(os.environ.get("BENCH_SHARE", "1"))))):
        for measure, kept in zip(measures, results):
            kept.append(measure())
    return results


def ratio(ours, theirs):
    """The median of the ratios of neighbours: what slowed a whole round slowed both."""
    return median(a / b for a, b in zip(ours, theirs))


# --- keep-alive --------------------------------------------------------------------------------
def ask(sock, path):
    """One request on an open connection; True when it is answered 200, in full."""
    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    got = b""
    while b"\r\n\r\n" not in got:
        piece = sock.recv(65536)
        if not piece:
            return False
        got += piece
    head, body = got.split(b"\r\n\r\n", 1)
    length = next(int(line[15:]) for line in head.split(b"\r\n")
                  if line.lower().startswith(b"content-length:"))
    while len(body) < length:
        piece = sock.recv(65536)
        if not piece:
            return False
        body += piece
    return head.startswith(b"HTTP/1.1 200 ")


# --- start -------------------------------------------------------------------------------------
class Caller:
    """Posts the same JSON again and again on one connection, with as little of its own as can be."""

    def __init__(self, port, path, body, headers=None):
        data = json.dumps(body).encode()
        more = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        self.sock = socket.create_connection(("127.0.0.1", port), 30)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.request = (f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
                        f"{more}Content-Length: {len(data)}\r\n\r\n").encode() + data

    def __call__(self):
        """Milliseconds from the request to the end of its answer."""
        begin = time.perf_counter()
        self.sock.sendall(self.request)
        got = b""
        while True:
            got += self.sock.recv(65536)
            head, end, rest = got.partition(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", head) if end else None
            if length and len(rest) >= int(length[1]):
                break
        if not got.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(got[:80].decode(errors="replace"))
        return (time.perf_counter() - begin) * 1e3


class Beginner(Caller):
    """What an MCP client does first: initialize, then tools/list in the new session."""

    def __init__(self, port, hello, then, headers):
        super().__init__(port, "/mcp", hello, headers)
        self.port, self.then, self.headers = port, json.dumps(then).encode(), headers

    def ask(self, request):
        self.sock.sendall(request)
        got = b""
        while True:
            got += self.sock.recv(1 << 20)
            head, end, rest = got.partition(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", head) if end else None
            if length and len(rest) >= int(length[1]):
                return head, rest

    def __call__(self):
        begin = time.perf_counter()
        head, _ = self.ask(self.request)
        session = re.search(rb"(?i)mcp-session-id: (\S+)", head)[1].decode()
        more = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
        _, tools = self.ask((f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nMcp-Session-Id: {session}\r\n"
                             f"Content-Type: application/json\r\n{more}Content-Length: {len(self.then)}\r\n\r\n")
                            .encode() + self.then)
        took = (time.perf_counter() - begin) * 1e3
        if b"test_simple_text" not in tools:
            raise RuntimeError(tools[:80].decode(errors="replace"))
        return took


def spawn(argv, log, keep=()):
    actions = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
               (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
               (os.POSIX_SPAWN_DUP2, 1, 2)]
    for fd in keep:
        os.set_inheritable(fd, True)
    return os.posix_spawn(argv[0], argv, os.environ, file_actions=actions)


def time_true(log):
    """Milliseconds from spawning /bin/true to having reaped it."""
    start = time.perf_counter()
    os.waitpid(spawn(["/bin/true"], log), 0)
    return (time.perf_counter() - start) * 1000


def time_start(program, log):
    """Milliseconds from spawning the server to its first answer, to a client that was there first:
    the socket listens already, as it does when a host starts the server."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)
        with socket.create_connection(listener.getsockname(), timeout=10) as client:
            client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            start = time.perf_counter()
            fd = listener.fileno()
            pid = spawn([program, "serve", "--listen", f"fd:{fd}"], log, [fd])
            try:
                answer = client.recv(4096)
                took = (time.perf_counter() - start) * 1000
            finally:
                os.kill(pid, signal.SIGTERM)
                os.waitpid(pid, 0)
    if not answer.startswith(b"HTTP/1.1 200 "):
        raise RuntimeError(f"the first answer is {answer!r}")
    return took
