"""make bench: each thing that should be fast or small, ours beside a peer, measured here and now.

The two take turns, and their ratio counts: times alone say little on a machine that others use too.
A bar that is missed is said loudly but is no failure: exit status 0."""
import argparse
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import browsers
import connections
import editors
import files
import hosts
import httpx
import kernels
import measure
import notebooks
import peers
import proxies
import services
from measure import in_turns, median, ratio, wrk

PATH = "/v1/sandbox"


@dataclasses.dataclass
class Line:
    """A line of the table. ok is None where there is no bar."""
    what: str
    ours: str
    peer: str
    ratio: float | None
    bar: str
    ok: bool | None = None


# --- rows: functions that give lines -----------------------------------------------------------
def throughput():
    def rate(server):
        got = wrk(server.url(PATH), 32, 1)
        if got["errors"]:
            raise RuntimeError(f"{got['errors']} errors on port {server.port}")
        return got["rate"]

    def line(what, ours, peer, theirs, least):
        r = ratio(ours, theirs)
        return Line(what, f"{median(ours):,.0f}/s", f"{peer} {median(theirs):,.0f}/s", r,
                    f"≥ {least} ×" if least else "", r >= least if least else None)

    what = f"GET {PATH}, 32 connections"
    with peers.aio() as ours:
        body, headers = ours.get(PATH)
        with peers.nginx(body, headers) as nginx, peers.fastapi(body) as fastapi:
            same_answer(body, nginx, fastapi)
            a, n, f = in_turns(7, lambda: rate(ours), lambda: rate(nginx), lambda: rate(fastapi))
    yield line(what, a, "nginx", n, 0.7)
    yield line(what, a, "FastAPI", f, 5)
    with peers.aio("--log-level", "error") as ours, peers.nginx(body, headers, log=False) as nginx:
        a, n = in_turns(3, lambda: rate(ours), lambda: rate(nginx))
    yield line("the same, neither writes a log", a, "nginx", n, None)


def same_answer(body, nginx, fastapi):
    if nginx.get(PATH)[0] != body:
        raise RuntimeError("nginx does not answer with the same bytes")
    if json.loads(fastapi.get(PATH)[0]) != json.loads(body):
        raise RuntimeError("FastAPI does not answer with the same data")


def latency():
    with peers.aio() as ours, peers.nginx(*ours.get(PATH)) as nginx:
        a, n = in_turns(7, lambda: wrk(ours.url(PATH), 1, 1)["p50"],
                        lambda: wrk(nginx.url(PATH), 1, 1)["p50"])
    r = ratio(a, n)
    yield Line(f"GET {PATH}, 1 connection, p50", f"{median(a):.0f} µs", f"nginx {median(n):.0f} µs", r,
               "≤ 2 ×", r <= 2)


def start():
    with tempfile.NamedTemporaryFile(prefix="aio-bench.") as log:
        a, b = in_turns(30, lambda: measure.time_start(str(peers.AIO), log.name),
                        lambda: measure.time_true(log.name))
    r = ratio(a, b)
    yield Line("aio serve, start to first answer", f"{median(a):.1f} ms", f"/bin/true {median(b):.1f} ms", r,
               "≤ 5 × or ≤ 20 ms", r <= 5 or median(a) <= 20)


def memory():
    with peers.aio() as ours:
        ours.get("/health")
        rss, uss = ours.memory()
    yield Line("idle memory, private (USS)", f"{uss:.1f} MiB", "", None, "≤ 4 MiB", uss <= 4)
    yield Line("idle memory, RSS", f"{rss:.1f} MiB", "", None, "≤ 12 MiB", rss <= 12)


def commands():
    def spawn_bash():
        """posix_spawn and wait, the floor of running a command."""
        begin = time.perf_counter()
        os.waitpid(os.posix_spawn("/bin/bash", ["bash", "-c", "true"], os.environ), 0)
        return (time.perf_counter() - begin) * 1e3

    def p50(one):
        return lambda: median([one() for _ in range(60)])

    def line(what, ours, peer, theirs, most, also=False):
        r = ratio(ours, theirs)
        return Line(what, f"{median(ours):.2f} ms", f"{peer} {median(theirs):.2f} ms", r,
                    f"≤ {most} ×{also and ' or ≤ 1 ms' or ''}", r <= most or (also and median(ours) <= 1))

    with peers.aio() as ours, peers.fastapi(ours.get(PATH)[0]) as fastapi:
        bash = p50(measure.Caller(ours.port, "/v1/bash/exec", {"command": "true", "session_id": "bench"}))
        shell = p50(measure.Caller(ours.port, "/v1/shell/exec", {"command": "true", "id": "bench"}))
        peer = p50(measure.Caller(fastapi.port, "/v1/bash/exec", {"command": "true"}))
        a, s, p, f = in_turns(7, bash, p50(spawn_bash), peer, shell)
    yield line("bash exec true, p50", a, "posix_spawn", s, 1.15)
    yield line("bash exec true, p50", a, "FastAPI", p, 0.8)
    yield line("shell exec true, p50", f, "posix_spawn", s, 0.5, also=True)


def output():
    command = "head -c 100000000 /dev/zero | tr '\\0' x"

    def streamed(client):
        begin, size = time.perf_counter(), 0
        with client.stream("POST", "/v1/bash/exec", json={"command": command},
                           headers={"Accept": "text/event-stream"}, timeout=60) as answer:
            for piece in answer.iter_raw():
                size += len(piece)
        if size < 100_000_000:
            raise RuntimeError(f"only {size} bytes came")
        return 100 / (time.perf_counter() - begin)

    def piped():
        begin = time.perf_counter()
        subprocess.run(f"{command} | cat | cat >/dev/null", shell=True, check=True)
        return 100 / (time.perf_counter() - begin)

    with peers.aio() as ours, httpx.Client(base_url=ours.url("")) as client:
        a, b = in_turns(5, lambda: streamed(client), piped)
    r = ratio(a, b)
    yield Line("100 MB of output, streamed", f"{median(a):.0f} MB/s", f"bash | cat {median(b):.0f} MB/s", r,
               "≥ 0.5 ×", r >= 0.5)


def file_row(row):
    return lambda: (Line(*line) for line in row())


def javascript():
    """A program of its own for every request, beside Node.js started by hand: in a session of its own
    too, because a busy machine's scheduler shares by session."""
    with peers.aio() as ours:
        node = json.loads(ours.get(PATH)[0])["detail"]["runtime"]["nodejs"][0]["bin"]

        def spawn_node():
            begin = time.perf_counter()
            os.waitpid(os.posix_spawn(node, ["node", "-e", "let one = 1;"], os.environ, setsid=True), 0)
            return (time.perf_counter() - begin) * 1e3

        caller = measure.Caller(ours.port, "/v1/nodejs/execute", {"code": "let one = 1;"})
        session = measure.Caller(ours.port, "/v1/nodejs/execute",
                                 {"code": "var one = 1;", "stateful": True, "session_id": "bench"})
        a, n, s = in_turns(41, caller, spawn_node, session)
    r = ratio(a, n)
    yield Line("JavaScript, stateless, p50", f"{median(a):.1f} ms", f"node -e {median(n):.1f} ms", r,
               "≤ 1.1 ×", r <= 1.1)
    yield Line("JavaScript, in a session, p50", f"{median(s):.1f} ms", f"node -e {median(n):.1f} ms", ratio(s, n), "")


def grep():
    """A tree of 50,000 files in 500 directories, of which 500 have a match."""
    words = [f"{word}{i}" for i in range(40) for word in ("alpha", "beta", "gamma", "delta")]
    text = "\n".join(" ".join(words[i:] + words[:i]) for i in range(5)) + "\n"
    flags = ["--no-config", "--no-ignore", "--hidden", "--max-filesize=1M"]  # as the API has it

    def ours_once(call):
        begin = time.perf_counter()
        answer = call()
        taken = (time.perf_counter() - begin) * 1e3
        if answer["data"]["match_count"] != 500:
            raise RuntimeError(f"found {answer['data']['match_count']} matches, not 500")
        return taken

    def rg_once(tree):
        begin = time.perf_counter()
        # In a session of its own, as ours: on a busy machine the kernel shares time among sessions.
        found = subprocess.run(["rg", *flags, "needle\\d+", "./"], cwd=tree, capture_output=True, check=True,
                               start_new_session=True).stdout
        taken = (time.perf_counter() - begin) * 1e3
        if found.count(b"\n") != 500:
            raise RuntimeError("rg found something else")
        return taken

    with tempfile.TemporaryDirectory(prefix="aio-bench.") as tree:
        os.chmod(tree, 0o755)
        for i in range(50000):
            if i % 100 == 0:
                os.mkdir(f"{tree}/{i // 100}")
            with open(f"{tree}/{i // 100}/{i}.txt", "w") as file:
                file.write(text + (f"a needle{i} in it\n" if i % 100 == 50 else ""))
        with peers.aio() as ours, httpx.Client(base_url=ours.url(""), timeout=60) as client:
            body = {"path": tree, "pattern": "needle\\d+"}
            a, b = in_turns(9, lambda: ours_once(lambda: client.post("/v1/file/grep", json=body).json()),
                            lambda: rg_once(tree))
    r = ratio(a, b)
    yield Line("grep 50,000 files", f"{median(a):.0f} ms", f"rg --max-filesize=1M {median(b):.0f} ms", r, "≤ 1.2 ×", r <= 1.2)


def mcp():
    """Sessions of 2025-11-25, the same trivial tool, answered with JSON."""
    accept = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize",
             "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "b", "version": "1"}}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "test_simple_text", "arguments": {}}}

    def session(client):
        answer = client.post("/mcp", json=hello, headers=accept)
        head = {"Accept": accept["Accept"], "Mcp-Session-Id": answer.headers["mcp-session-id"],
                "MCP-Protocol-Version": "2025-11-25"}
        client.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=head)
        text = client.post("/mcp", json=call, headers=head).json()["result"]["content"][0]["text"]
        if text != "This is a simple text response for testing.":
            raise RuntimeError(text)
        return head

    def p50(one):
        return lambda: median([one() for _ in range(60)])

    def rate(server, head):
        got = wrk(server.url("/mcp"), 32, 1, body=json.dumps({**call, "id": "UNIQUE"}), headers={**accept, **head})
        if got["errors"]:
            raise RuntimeError(f"{got['errors']} errors on port {server.port}")
        return got["rate"]

    with peers.mcp_ours() as ours, peers.mcp_peer() as peer, httpx.Client(base_url=ours.url("")) as a, \
            httpx.Client(base_url=peer.url("")) as b:
        heads = session(a), session(b)
        x, y = in_turns(7, p50(measure.Caller(ours.port, "/mcp", call, heads[0])),
                        p50(measure.Caller(peer.port, "/mcp", call, heads[1])))
        v, w = in_turns(5, lambda: rate(ours, heads[0]), lambda: rate(peer, heads[1]))
        tools, plain = {**call, "method": "tools/list", "params": {}}, {"Accept": accept["Accept"]}
        m, n = in_turns(5, p50(measure.Beginner(ours.port, hello, tools, plain)),
                        p50(measure.Beginner(peer.port, hello, tools, plain)))
    r = ratio(y, x)
    yield Line("MCP tools/call, p50", f"{median(x):.3f} ms", f"Python SDK {median(y):.2f} ms", r, "≥ 5 × faster", r >= 5)
    r = ratio(v, w)
    yield Line("MCP tools/call, 32 clients", f"{median(v):,.0f}/s", f"Python SDK {median(w):,.0f}/s", r, "≥ 5 ×", r >= 5)
    r = ratio(n, m)
    yield Line("MCP initialize and tools/list, p50", f"{median(m):.2f} ms", f"Python SDK {median(n):.2f} ms", r,
               "≤ 2 ms or ≥ 5 × faster", median(m) <= 2 or r >= 5)


# Name, what it needs beside aio, function.
ROWS = [
    ("throughput", ["wrk", "nginx"], throughput),
    ("latency", ["wrk", "nginx"], latency),
    ("new-connections", ["wrk", "nginx"], lambda: connections.new(Line, PATH)),
    ("idle-connections", ["wrk"], lambda: connections.idle(Line)),
    ("start", [], start),
    ("memory", [], memory),
    ("commands", [], commands),
    ("output", [], output),
    ("grep", ["rg"], grep),
    ("file-download", ["nginx"], file_row(files.file_download)),
    ("file-upload", [], file_row(files.file_upload)),
    ("file-read", ["wrk"], file_row(files.file_read)),
    ("file-write", [], file_row(files.file_write)),
    ("file-list", [], file_row(files.file_list)),
    ("previews", ["wrk", "nginx"], lambda: proxies.rows(Line)),
    ("kernels", [], lambda: (Line(*row) for row in kernels.rows())),
    ("javascript", [], javascript),
    ("mcp", ["wrk"], mcp),
    ("browser-cold", ["Xvnc", "chromium"], lambda: browsers.cold(Line)),
    ("desktop-screenshot", ["Xvnc", "chromium", "import"], lambda: browsers.screenshot(Line)),
    ("pages", ["Xvnc", "chromium"], lambda: browsers.pages(Line)),
    ("browser-boxes", ["Xvnc", "chromium"], lambda: browsers.boxes(Line)),
    ("editor-cold", [], lambda: editors.cold(Line)),
    ("notebook-cold", [], lambda: notebooks.cold(Line)),
    ("idle-services", ["Xvnc", "chromium"], lambda: services.row(Line)),
    ("host-requests", ["wrk"], lambda: hosts.requests(Line, PATH)),
    ("host-download", ["curl"], lambda: hosts.download(Line)),
    ("box-create", [], lambda: hosts.create(Line)),
    ("boxes-100", [], lambda: hosts.hundred(Line)),
    ("fork", [], lambda: hosts.stall(Line)),
]

NOTES = """\
Rounds take turns (ours, peer, ours, peer …); figures are medians, ratios the medians of the rounds'.
nginx: worker_processes auto, same body and headers by `return`. FastAPI: uvicorn as pip installs it,
one worker, typed answer. Each writes its usual line per request to a file. jupyter_client: of .venv;
its new kernels are those of start_new_kernel; it takes all outputs, as a front end does."""


# --- the table ---------------------------------------------------------------------------------
def cells(line):
    verdict = {None: "", True: "pass", False: "MISS"}[line.ok]
    return [line.what, line.ours, line.peer, f"{line.ratio:.2f}" if line.ratio else "", line.bar, verdict]


def show(lines):
    table = [["row", "ours", "peer or floor", "ratio", "bar", ""], *map(cells, lines)]
    widths = [max(len(row[i]) for row in table) for i in range(6)]
    table.insert(1, ["-" * width for width in widths])
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    print(f"\n{NOTES}")
    missed = [line for line in lines if line.ok is False]
    bars = sum(line.ok is not None for line in lines)
    if os.getloadavg()[0] > 1.5 * (os.cpu_count() or 1):
        print(f"\nThe machine is busy (load {os.getloadavg()[0]:.1f}), which blurs these figures.")
    print(f"\n{bars - len(missed)} of {bars} bars are met.")
    for line in missed:
        by = f", ratio {line.ratio:.2f}" if line.ratio else ""
        print(f"*** MISSED: {line.what}: {line.ours}{by}, bar {line.bar or 'to run at all'} ***")


def lacking(needs):
    path = os.environ.get("PATH", "") + ":/usr/sbin"
    return [name for name in needs if not shutil.which(name, path=path)]


def run(names):
    lines = []
    for name, needs, row in ROWS:
        if names and name not in names:
            continue
        if lacking(needs):
            print(f"SKIP {name}: not installed: {', '.join(lacking(needs))}", file=sys.stderr)
            continue
        print(f"bench: {name} …", file=sys.stderr)
        try:
            lines.extend(row())
        except (OSError, RuntimeError, ValueError, subprocess.SubprocessError) as error:
            lines.append(Line(name, "failed", str(error)[:80], None, "", False))
    return lines


def main():
    parser = argparse.ArgumentParser(description="Measures aio beside its peers.")
    parser.add_argument("--row", action="append", choices=[name for name, _, _ in ROWS],
                        help="only this one (may be repeated)")
    parser.add_argument("--json", metavar="FILE", help="save the table")
    args = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit("bench: interrupted")) # ends the servers too
    connections.limit_files(2 * connections.FEW)
    lines = run(args.row)
    show(lines)
    if args.json:
        with open(args.json, "w") as file:
            json.dump([dataclasses.asdict(line) for line in lines], file, indent=1)


if __name__ == "__main__":
    main()
