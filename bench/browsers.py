"""The desktop and the browser: beside the same Chromium and Xvnc started by hand, ImageMagick's `import`, and Playwright on the
same Chromium. All run as the caller: as root without Chromium's sandbox, both of them."""
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
import urllib.request

import hosts
import peers
from measure import in_turns, median, ratio

ROUNDS, CALLS = 7, 40
PAGE = """<!doctype html><title>Bench</title><style>body { background: linear-gradient(#def, #fed) }
i { display: inline-block; width: 20px; height: 20px; margin: 2px; background: hsl(calc(var(--n) * 7), 70%, 60%) }</style>
<input id=name><button onclick="window.clicks = (window.clicks ?? 0) + 1">Go</button><p>Some words on a page.</p>""" + \
    "".join(f"<i style='--n: {n}'></i>" for n in range(400))


@contextlib.contextmanager
def aio(folder):
    """A server with a profile, a display and ports of its own."""
    port, display = peers.free_port(), 2000 + os.getpid() % 30000
    while pathlib.Path(f"/tmp/.X11-unix/X{display}").exists():
        display += 1
    env = {**os.environ, "HOME": folder, "WORKSPACE": folder, "AIO_DISPLAY": str(display), "AIO_BROWSER_PROFILE": f"{folder}/profile",
           "BROWSER_REMOTE_DEBUGGING_PORT": str(peers.free_port()), "AIO_BROWSER_SANDBOX": str(os.geteuid() != 0).lower()}
    argv = [peers.AIO, "serve", "--listen", f"127.0.0.1:{port}", "--log-level", "error"]
    with peers.server(folder, port, argv, env) as it:
        it.devtools, it.folder = env["BROWSER_REMOTE_DEBUGGING_PORT"], folder
        yield it


@contextlib.contextmanager
def browser():
    """One whose browser shows a page of 1280×1024, as do its rows."""
    with tempfile.TemporaryDirectory(prefix="aio-bench.") as folder, aio(folder) as it:
        page = pathlib.Path(folder, "page.html")
        page.write_text(PAGE)
        it.page = page.as_uri()
        it.caller = Caller(it)
        it.caller("GET", "/v1/browser/screenshot")
        time.sleep(2)  # what Chromium does when it has just started
        it.caller("POST", "/v1/browser/page/navigate", {"url": it.page})
        yield it


class Caller:
    """On one connection."""

    def __init__(self, server):
        self.conn = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)

    def __call__(self, method, path, body=None):
        self.conn.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
        answer = self.conn.getresponse()
        data = answer.read()
        if answer.status != 200 or (path.count("/page/") and not json.loads(data)["success"]):
            raise RuntimeError(f"{method} {path}: {answer.status} {data[:200]!r}")
        return data


def p50(call, times=CALLS):
    """The median of so many calls, in milliseconds."""
    took = []
    for _ in range(times):
        begin = time.perf_counter()
        call()
        took.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(took)


def against(line, what, ours, theirs, name, bar):
    a, b = in_turns(ROUNDS, ours, theirs)
    r = ratio(a, b)
    return line(what, f"{median(a):.2f} ms", f"{name} {median(b):.2f} ms", r, f"≤ {bar} ×", r <= bar)


# --- from cold ---------------------------------------------------------------------------------
def words(pid):
    return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode().rstrip("\0").replace("\0", " ").split(" ")


def commands(server):
    """The command lines of our X server and our browser, the environment, the cookie of the display."""
    lines = [words(pid) for pid in peers.family(server.pid)]
    x_line = next(line for line in lines if "vnc" in line[0])
    line = next(line for line in lines if line[0].endswith(("/chromium", "/chrome", "/chromium-browser"))
                     and not any(word.startswith("--type") for word in line))
    authority = x_line[x_line.index("-auth") + 1]
    env = {**os.environ, "DISPLAY": x_line[1], "XAUTHORITY": authority, "DBUS_SESSION_BUS_ADDRESS": "disabled:",
           "DBUS_SYSTEM_BUS_ADDRESS": "disabled:"}
    return x_line, line, env, pathlib.Path(authority).read_bytes()


def by_hand(x_line, browser_line, env, cookie):
    """The same two, with files of their own, until /json/version answers; the seconds."""
    folder, port, number = tempfile.mkdtemp(prefix="aio-bench."), peers.free_port(), None
    reader, writer = os.pipe()
    started = []
    try:
        pathlib.Path(f"{folder}/xauth").write_bytes(cookie)
        x_line = list(x_line)
        x_line[1] = f":{int(x_line[1][1:]) + 1}"
        x_line[x_line.index("-displayfd") + 1] = str(writer)
        x_line[x_line.index("-rfbunixpath") + 1] = f"{folder}/rfb"
        x_line[x_line.index("-auth") + 1] = f"{folder}/xauth"
        browser_line = [word for word in browser_line if not word.startswith(("--user-data-dir", "--remote-debugging"))]
        browser_line[1:1] = [f"--user-data-dir={folder}/profile", f"--remote-debugging-port={port}"]
        begin = time.perf_counter()
        started.append(subprocess.Popen(x_line, pass_fds=[writer], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        start_new_session=True))
        number = os.read(reader, 20).decode().strip()
        started.append(subprocess.Popen(browser_line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                                        env={**env, "DISPLAY": f":{number}", "XAUTHORITY": f"{folder}/xauth", "HOME": folder}))
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/json/version", timeout=5):
                return time.perf_counter() - begin
            if time.perf_counter() - begin > 60:
                raise RuntimeError("Chromium does not start by hand")
            time.sleep(0.002)
    finally:
        os.close(reader)
        os.close(writer)
        for process in reversed(started):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def cold(line):
    with browser() as server:
        lines = commands(server)

    def ours():
        with tempfile.TemporaryDirectory(prefix="aio-bench.", ignore_cleanup_errors=True) as folder, aio(folder) as server:
            begin = time.perf_counter()
            server.get("/v1/browser/info")
            return time.perf_counter() - begin

    a, b = in_turns(ROUNDS, ours, lambda: by_hand(*lines))
    r = ratio(a, b)
    yield line("browser ready from cold", f"{median(a) * 1e3:.0f} ms", f"by hand {median(b) * 1e3:.0f} ms", r, "≤ 1.1 ×", r <= 1.1)


# --- calls -------------------------------------------------------------------------------------
def screenshot(line):
    with browser() as server:
        _, _, env, _ = commands(server)

        def imported():
            subprocess.run(["import", "-window", "root", "png:-"], env=env, stdout=subprocess.DEVNULL, check=True)

        yield against(line, "screenshot of the desktop, PNG, 1280×1024", lambda: p50(lambda: server.caller("GET", "/v1/browser/screenshot"), 15),
                      lambda: p50(imported, 3), "import", 0.3)


@contextlib.contextmanager
def playwright(server):
    """A page of Playwright's, the tab that ours is at: on the same Chromium, at its own port."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as it:
        client = it.chromium.connect_over_cdp(f"http://127.0.0.1:{server.devtools}")
        yield client.contexts[0].pages[0]
        client.close()


def pages(line):
    """Both on the same tab, in turns. Playwright is attached only while it is measured: the other's navigations would
    interrupt its own."""
    with browser() as server:
        ask = server.caller

        def our_form():
            ask("POST", "/v1/browser/page/click", {"selector": "button"})
            ask("POST", "/v1/browser/page/fill", {"selector": "#name", "text": "some words"})
            ask("POST", "/v1/browser/page/evaluate", {"expression": "document.querySelector('#name').value"})

        def their_form(page):
            page.click("button")
            page.fill("#name", "some words")
            page.evaluate("document.querySelector('#name').value")

        def theirs(call, times):
            with playwright(server) as page:
                call(page)
                return p50(lambda: call(page), times)

        yield against(line, "page.evaluate", lambda: p50(lambda: ask("POST", "/v1/browser/page/evaluate", {"expression": "1 + 1"})),
                      lambda: theirs(lambda page: page.evaluate("1 + 1"), CALLS), "Playwright", 0.7)
        yield against(line, "navigate to a local page (load)",
                      lambda: p50(lambda: ask("POST", "/v1/browser/page/navigate", {"url": server.page}), 8),
                      lambda: theirs(lambda page: page.goto(server.page), 8), "Playwright", 1.05)
        yield against(line, "click, fill and evaluate", lambda: p50(our_form, 15), lambda: theirs(their_form, 15), "Playwright", 1.0)


# --- memory of boxes ---------------------------------------------------------------------------
def kib(pids, *names):
    """Sums of fields of smaps_rollup."""
    sums = dict.fromkeys(names, 0)
    for pid in pids:
        with contextlib.suppress(OSError):
            for row in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
                name, value = row.split()[:2]
                if name.rstrip(":") in sums:
                    sums[name.rstrip(":")] += int(value)
    return [sums[name] / 1024 for name in names]


def members(box):
    """All processes of a box."""
    group = next(path for base in ("unified/", "") for path in hosts.GROUPS.glob(f"{base}aiobox/*-{box['id']}"))
    return [int(pid) for procs in group.glob("**/cgroup.procs") for pid in procs.read_text().split()]


def boxes(line):
    """Each is the other's neighbour: what they share counts for both, half each."""
    with hosts.host() as server:
        found = []
        for _ in range(3):
            box = server.call("POST", "/v1/sandboxes", {})
            server.call("GET", "/v1/browser/info", box=box)
            server.call("POST", "/v1/browser/page/navigate", {"url": "data:text/html,<h1>Bench</h1>"}, box=box)
            time.sleep(5)  # what Chromium does when it has nothing to do
            found.append(members(box))
        sizes = [kib(pids, "Anonymous", "Pss", "Pss_Anon") for pids in found]
        first, others = sizes[0], sizes[1:]
        mean = [sum(size[i] for size in others) / len(others) for i in range(3)]
        yield line("anonymous memory of a further box with a browser", f"{mean[2]:.0f} MiB (PSS {mean[1]:.0f} MiB)",
                   f"the first {first[2]:.0f} MiB (PSS {first[1]:.0f} MiB)", mean[2] / first[2], "≤ 0.9 ×", mean[2] / first[2] <= 0.9)
