"""Chromium inside a box, and whether its own sandbox is around its pages there."""

import os
import re
import shlex
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness import eventually

# Shows a page whose image does not come before somebody has written to a pipe. --no-sandbox is not given:
# Chromium ends with an error when it cannot have its sandbox.
SCRIPT = r'''
import os, socket, subprocess, sys
server = socket.create_server(("127.0.0.1", 0))
at = "http://127.0.0.1:%d/" % server.getsockname()[1]
os.mkfifo("/tmp/go")
browser = subprocess.Popen(["timeout", "60", "chromium", "--headless", "--no-first-run", "--disable-gpu", "--dump-dom", at],
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


def check_sandbox(run, group, more=""):
    """Shows a page, with more in it, in the box whose commands `run` runs and whose processes are in `group`."""
    with ThreadPoolExecutor(1) as pool:
        shown = pool.submit(run, f"python3 -c {shlex.quote(SCRIPT)} {shlex.quote(more)}")
        try:
            assert eventually(lambda: shown.done() or "there" in run("ls /tmp"), 60)
            assert not shown.done(), shown.result()
            main, pages = processes(group)
            assert len(main) == 1 and pages, (main, pages)
            for page in pages:
                for kind in ("user", "pid", "net"):
                    assert os.readlink(page / "ns" / kind) != os.readlink(main[0] / "ns" / kind), kind
                # One filter is the box's, another Chromium's.
                assert filters(page) > filters(main[0]) >= 1
        finally:
            run("timeout 5 sh -c 'echo >/tmp/go'; rm -f /tmp/go /tmp/there")
        assert "<p>hello</p>" in shown.result(60)
