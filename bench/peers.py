"""The servers that are measured: ours, and those it stands beside. Each is a context that yields a
Server, writes into a temporary folder, and takes its processes with it when it ends."""
import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
AIO = pathlib.Path(os.environ.get("AIO", ROOT / "build/aio"))
NOT_COPIED = {"server", "date", "content-type", "content-length", "connection", "transfer-encoding"}


class Server:
    def __init__(self, process, port):
        self.process, self.port = process, port

    @property
    def pid(self):
        return self.process.pid

    def url(self, path):
        return f"http://127.0.0.1:{self.port}{path}"

    def get(self, path):
        """Body and headers of a path; an HTTPError unless it is found."""
        with urllib.request.urlopen(self.url(path), timeout=10) as answer:
            return answer.read(), answer.headers

    def memory(self):
        """RSS and USS in MiB of all its processes: aio serve has a first stage, whose child is the
        server. What the two share since their fork is the server's own all the same, and Pss_Anon
        counts it once; the RSS of both is added, though it is partly the same."""
        rss = uss = 0
        for pid in family(self.pid):
            kib = {}
            for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
                name, value = line.split()[:2]
                kib[name.rstrip(":")] = int(value)
            rss += kib["Rss"]
            uss += kib["Private_Clean"] + max(kib["Private_Dirty"], kib.get("Pss_Anon", 0))
        return rss / 1024, uss / 1024


def family(pid):
    """A process and all below it."""
    pids = [pid]
    for parent in pids:
        with contextlib.suppress(OSError):
            for task in pathlib.Path(f"/proc/{parent}/task").iterdir():
                pids += map(int, (task / "children").read_text().split())
    return pids


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(process, port, log):
    until = time.monotonic() + 20
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
            return
        if process.poll() is not None:
            break
        time.sleep(0.01)
    sys.exit(f"bench: {process.args[0]} does not start:\n{log.read_text()}")


@contextlib.contextmanager
def server(folder, port, argv, env=None):
    """Runs a program in a group of its own, its output going to a file as a service's would."""
    log = pathlib.Path(folder, "log")
    with log.open("w") as out:
        process = subprocess.Popen(list(map(str, argv)), stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=out, start_new_session=True, env=env)
    try:
        wait_for(process, port, log)
        yield Server(process, port)
    finally:
        end(process)


def end(process):
    """Asks it to stop; what is then left of its processes, in whatever group, is killed."""
    pidfds = []
    for pid in family(process.pid):
        with contextlib.suppress(ProcessLookupError):
            pidfds.append(os.pidfd_open(pid))
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        pass
    for pidfd in pidfds:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        os.close(pidfd)
    process.wait()


@contextlib.contextmanager
def aio(*options):
    """With a home of its own: what somebody's start-up files do at every prompt is not ours."""
    port = free_port()
    argv = [AIO, "serve", "--listen", f"127.0.0.1:{port}", *options]
    with tempfile.TemporaryDirectory(prefix="aio-bench.") as folder, \
            server(folder, port, argv, {**os.environ, "HOME": folder}) as it:
        yield it


# --- nginx -------------------------------------------------------------------------------------
NGINX_CONF = """\
{user}
worker_processes auto;
daemon off;
pid nginx.pid;
error_log stderr error;
events {{ worker_connections 16384; }}
http {{
	access_log {log};
	keepalive_timeout 300;
	keepalive_requests 1000000000;
	client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4;
	scgi_temp_path t5;
	geo $dollar {{ default "$"; }}
	server {{
		listen 127.0.0.1:{port} backlog=4096;
		default_type "{type}";
		{headers}
		location / {{ {answer} }}
	}}
}}
"""


def quote(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("$", "${dollar}") + "'"


def nginx_answer(body):
    """`return`, the fastest of nginx's ways, from variables: its parser takes no long text."""
    text = body.decode()
    parts = [quote(text[at:at + 400]) for at in range(0, len(text), 400)]
    variables = "".join(f"set $part{i} {part}; " for i, part in enumerate(parts))
    return variables + 'return 200 "' + "".join(f"${{part{i}}}" for i in range(len(parts))) + '";'


@contextlib.contextmanager
def nginx(body, headers, log=True):
    """Answers every request with these bytes and with the headers aio had."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="aio-bench.") as folder:
        copied = "".join(f"add_header {name} {quote(value)}; " for name, value in headers.items()
                         if name.lower() not in NOT_COPIED)
        text = NGINX_CONF.format(user="user root;" if os.getuid() == 0 else "", port=port,
                                 log="access.log combined" if log else "off",
                                 type=headers["Content-Type"], headers=copied,
                                 answer=nginx_answer(body))
        pathlib.Path(folder, "nginx.conf").write_text(text)
        argv = ["nginx", "-p", folder, "-c", "nginx.conf", "-e", "stderr"]
        env = {**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin"}
        with server(folder, port, argv, env) as it:
            yield it


# --- FastAPI -----------------------------------------------------------------------------------
@contextlib.contextmanager
def fastapi(body):
    """The program of fastapi_peer.py, whose data is this body."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="aio-bench.") as folder:
        answer = pathlib.Path(folder, "answer.json")
        answer.write_bytes(body)
        argv = [sys.executable, "-m", "uvicorn", "fastapi_peer:app", "--port", port,
                "--app-dir", ROOT / "bench"]
        with server(folder, port, argv, env={**os.environ, "BENCH_ANSWER": str(answer)}) as it:
            yield it


# --- MCP ---------------------------------------------------------------------------------------
@contextlib.contextmanager
def mcp_ours():
    """The fixture program, which has the tool that the peer has, beside the sandbox's own."""
    port = free_port()
    argv = [ROOT / "build/fixture", "--listen", f"127.0.0.1:{port}"]
    with tempfile.TemporaryDirectory(prefix="aio-bench.") as folder, \
            server(folder, port, argv, {**os.environ, "HOME": folder, "FIXTURE_MCP": "1"}) as it:
        yield it


@contextlib.contextmanager
def mcp_peer():
    """The official Python SDK; it answers with JSON, the fastest of its ways."""
    port = free_port()
    argv = [sys.executable, ROOT / "bench/mcp_peer.py", port]
    with tempfile.TemporaryDirectory(prefix="aio-bench.") as folder, server(folder, port, argv) as it:
        yield it
