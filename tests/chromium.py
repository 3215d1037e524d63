"""Chromium: driven by tests from outside (browser, Watch); and inside a box, with its own sandbox around its pages
(check_sandbox)."""

import contextlib
import os
import re
import shlex
import shutil
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from harness import ANSWER_SECONDS, ROOT, eventually

PROGRAM = next((p for p in ("/usr/bin/chromium", shutil.which("chromium")) if p and os.path.exists(p)), None)
NEEDED = pytest.mark.skipif(PROGRAM is None, reason="no chromium on this machine")
SCREENS = ROOT / "build" / "screens"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
         "--disable-sync", "--no-first-run"]


@contextlib.contextmanager
def browser(*flags):
    """A browser, through Playwright."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=PROGRAM, args=[*FLAGS, *flags],
                                             timeout=ANSWER_SECONDS * 1000)
        yield started
        started.close()


@pytest.fixture(scope="module")
def chromium():
    with browser() as started:
        yield started


def new_context(chromium, scheme="light", width=1000, height=640, **more):
    """A browser that knows nothing yet."""
    context = chromium.new_context(color_scheme=scheme, viewport={"width": width, "height": height}, **more)
    context.set_default_timeout(ANSWER_SECONDS * 1000)
    return context


def screenshot(page, name):
    """For human eyes."""
    page.screenshot(path=SCREENS / f"{name}.png")


class Watch:
    """What a page requested, and everything that went wrong in it."""

    def __init__(self, page):
        self.urls, self.sockets, self.trouble = [], [], []
        page.on("request", lambda r: self.urls.append(r.url))
        page.on("websocket", lambda w: self.sockets.append(w.url))
        page.on("requestfailed", lambda r: self.trouble.append(f"failed: {r.url}"))
        page.on("response", lambda r: r.status >= 400 and self.trouble.append(f"{r.status}: {r.url}"))
        page.on("console", lambda m: m.type in ("error", "warning") and self.trouble.append(f"{m.type}: {m.text}"))
        page.on("pageerror", lambda e: self.trouble.append(f"exception: {e}"))

    def foreign(self, url):
        """Requests to other servers than that of the URL."""
        home = urlsplit(url).netloc
        asked = [u for u in self.urls + self.sockets if not u.startswith(("data:", "blob:"))]
        return [u for u in asked if urlsplit(u).netloc != home]


# Shows a page whose image does not come before somebody has written to a pipe. --no-sandbox is not given:
# Chromium ends with an error when it cannot have its sandbox.
SCRIPT = r'''
import os, socket, subprocess, sys
server = socket.create_server(("127.0.0.1", 0))
at = "http://127.0.0.1:%d/" % server.getsockname()[1]
os.mkfifo("/tmp/go")
browser = subprocess.Popen(["timeout", "100", "chromium", "--headless", "--no-first-run", "--disable-gpu", "--dump-dom", at],
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
held = []
while not held:
    conn = server.accept()[0]
    head = conn.recv(65536)
    if head.startswith(b"GET / "):
        body = ("<p>hello</p><img src=%simage>" % at + sys.argv[1]).encode()
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        conn.close()
    elif head.startswith(b"GET /image "):
        held.append(conn)
open("/tmp/there", "w").close()
open("/tmp/go").read()
server.close()
held[0].close()
out = browser.communicate()[0].decode()
print(out)
sys.exit(browser.returncode)
'''


def processes(group):
    """Chromium's own, and those of its pages, in the control group of a box."""
    main, pages = [], []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ").split()
            inside = group in (path / "cgroup").read_text()
        except OSError:
            continue
        if not inside or not words or not words[0].endswith("/chromium"):
            continue
        kind = next((word for word in words if word.startswith("--type=")), None)
        if kind == "--type=renderer":
            pages.append(path)
        elif kind is None:
            main.append(path)
    return main, pages


def filters(path):
    status = (path / "status").read_text()
    assert re.search(r"^Seccomp:\s+2$", status, re.M)
    return int(re.search(r"^Seccomp_filters:\s+(\d+)$", status, re.M).group(1))


def is_apart(page, main):
    """Whether a page's process has its own namespaces, and a filter more than the box's."""
    own = all(os.readlink(page / "ns" / kind) != os.readlink(main / "ns" / kind) for kind in ("user", "pid", "net"))
    return own and filters(page) > filters(main) >= 1


def are_apart(group):
    """Whether all pages are. One that is just being made is not yet, and what is about to be another program looks like
    Chromium itself."""
    main, pages = processes(group)
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return len(main) == 1 and pages and all(is_apart(page, main[0]) for page in pages)
    return False


def check_sandbox(run, group, more=""):
    """Shows a page, with more in it, in the box whose commands `run` runs and whose processes are in `group`."""
    ends = lambda seconds: eventually(lambda: "ended" in run("ls /tmp"), seconds, 0.1)
    run(f"(python3 -c {shlex.quote(SCRIPT)} {shlex.quote(more)} >/tmp/shown 2>&1; echo $? >/tmp/new; mv /tmp/new /tmp/ended) "
        ">/dev/null 2>&1 &")
    try:
        assert eventually(lambda: {"there", "ended"} & set(run("ls /tmp").split()), 90, 0.1)
        assert "ended" not in run("ls /tmp"), run("cat /tmp/shown")
        assert eventually(lambda: are_apart(group)), processes(group)
        run("timeout 60 sh -c 'echo >/tmp/go'")
        assert ends(60) and run("cat /tmp/ended") == "0\n", run("cat /tmp/shown")
        assert "<p>hello</p>" in run("cat /tmp/shown")
    finally:
        run("pkill -x chromium; rm -f /tmp/go /tmp/there /tmp/shown /tmp/ended; true")


# How a script inside a box begins that talks to Chromium: by a pair of pipes, its descriptors 3 and 4, a message of JSON
# each, ended by a zero byte.
DRIVER = r'''
import json, os, subprocess, sys, time
down, up = os.pipe(), os.pipe()
code = "exec 3<&%d 4>&%d; exec timeout 80 /usr/lib/chromium/chromium --headless --no-first-run --disable-gpu " \
       "--user-data-dir=/tmp/profile --remote-debugging-pipe about:blank" % (down[0], up[1])
browser = subprocess.Popen(["bash", "-c", code], pass_fds=(down[0], up[1]), stderr=open("/tmp/chromium", "w"))
os.close(down[0]), os.close(up[1])
rest, count = b"", 0

def call(method, session=None, **params):
    global rest, count
    count += 1
    message = {"id": count, "method": method, "params": params, **({"sessionId": session} if session else {})}
    os.write(down[1], json.dumps(message).encode() + b"\0")
    while True:
        while b"\0" not in rest:
            more = os.read(up[0], 65536)
            if not more:
                sys.exit("it has ended: " + open("/tmp/chromium").read()[-2000:])
            rest += more
        text, rest = rest.split(b"\0", 1)
        answer = json.loads(text)
        if answer.get("id") == count:
            return answer["result"]
'''
