"""VS Code at /code-server/, in a real Chromium: one server and one page for the file.

Screenshots for human eyes land in build/screens/.
"""

import contextlib
import os
import signal
import socket
import time
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus

from chromium import NEEDED, browser, new_context, screenshot
from editors import NEEDED as EDITOR_NEEDED
from editors import Editor, processes, write_extension
from harness import ANSWER_SECONDS, START_SECONDS, connect, eventually
from processes import gone, tester  # noqa: F401

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = sync_api.expect
expect.set_options(timeout=ANSWER_SECONDS * 1000)
pytestmark = [NEEDED, EDITOR_NEEDED]
KEY = "the-editors-key"
ELSEWHERE = "editor.test"


def options(user, *args, **more):
    home = f"/home/{user}"
    return {"args": ["--user", user, *args],
            "env": {"HOME": home, "USER": user, "WORKSPACE": f"{home}/work", "DISABLE_BROWSER": "true", **more}}


def read(server, path):
    return server.post("/v1/file/read", {"file": path}).json()["data"]


def content(server, path):
    """What a file holds; None while there is none."""
    data = read(server, path)
    return data and data["content"]


@pytest.fixture(scope="module")
def chromium():
    """For which a name that is not localhost leads here."""
    with browser(f"--host-resolver-rules=MAP {ELSEWHERE} 127.0.0.1") as started:
        yield started


@pytest.fixture(scope="module")
def server(tester, start_shared):  # noqa: F811
    return start_shared(**options(tester, "--domain", ELSEWHERE))


@pytest.fixture(scope="module")
def work(tester):  # noqa: F811
    return f"/home/{tester}/work"


@pytest.fixture(scope="module")
def editor(server, work, chromium):
    """Its page. How many connections a browser has to it is the browser's affair: they may come and go, up to a
    number, and are gone with the page."""
    server.post("/v1/file/write", {"file": f"{work}/notes.txt", "content": "first\n"})
    context = new_context(chromium, width=1280, height=800)
    assert server.get("/code-server/", timeout=START_SECONDS).status_code == 200
    server.at_rest()
    server.baseline = at_rest = server.possessions()
    server.baseline = {what: count + 30 for what, count in at_rest.items()}
    yield Editor(context, server.url + "/code-server/")
    context.close()
    server.baseline = at_rest
    server.check()


def test_a_file_is_edited_and_saved(server, editor, work):
    editor.write("notes.txt", "typed in the editor")
    assert eventually(lambda: content(server, f"{work}/notes.txt") == "first\ntyped in the editor")
    screenshot(editor.page, "editor")
    assert editor.foreign(server.url) == []
    assert editor.notices() == []
    assert not editor.page.locator(".monaco-dialog-box, .part.auxiliarybar:visible, .interactive-session:visible").count()
    assert "Welcome" not in editor.page.locator(".tabs-container").inner_text()


def test_its_terminal(server, editor, work, tester):  # noqa: F811
    editor.type_in_terminal('echo "$(whoami) $PWD $SHELL $(type -p code-server)" >terminal.txt')
    assert eventually(lambda: content(server, f"{work}/terminal.txt"))
    assert content(server, f"{work}/terminal.txt").split()[:3] == [tester, work, "/bin/bash"]
    screenshot(editor.page, "editor-terminal")


def test_plain_http_at_another_name(server, editor, chromium):
    """The page says what browsers withhold there, and how to have it."""
    context = new_context(chromium, width=1280, height=800)
    page = Editor(context, f"http://{ELSEWHERE}:{server.port}/vscode").page
    expect(page.locator(".notification-toast")).to_contain_text("clipboard", timeout=START_SECONDS * 1000)
    expect(page.locator(".notification-toast")).to_contain_text("HTTPS")
    screenshot(page, "editor-plain-http")
    context.close()


def test_an_extension_from_a_file(server, editor, work, tmp_path):
    """Its page renders without the internet, and may run scripts and load files of the extension."""
    write_extension(tmp_path / "shows.vsix")
    server.client.post("/v1/file/upload", files={"file": (tmp_path / "shows.vsix").read_bytes()},
                       data={"path": f"{work}/shows.vsix"})
    done = server.post("/v1/bash/exec", {"command": f"code-server --install-extension {work}/shows.vsix && code-server --list-extensions"},
                       timeout=START_SECONDS).json()["data"]
    assert done["exit_code"] == 0 and "tests.shows" in done["stdout"], done
    editor.page.reload()
    editor.await_files()
    expect(editor.webview().locator("#shown")).to_have_text("from the extension", timeout=START_SECONDS * 1000)
    assert eventually(lambda: content(server, f"{work}/told.txt") == "rgb(1, 2, 3)")
    screenshot(editor.page, "editor-webview")
    assert editor.foreign(server.url) == []


def test_it_comes_back(server, editor, work):
    (before,) = processes(server)
    os.kill(before, signal.SIGKILL)
    editor.page.reload()
    editor.await_files()
    (after,) = processes(server)
    assert after != before
    expect(editor.webview().locator("#shown")).to_be_visible(timeout=START_SECONDS * 1000)  # it takes the focus
    editor.write("notes.txt", " again")
    assert eventually(lambda: content(server, f"{work}/notes.txt") == "first\ntyped in the editor again")


# --- who may use it -----------------------------------------------------------------------------


def test_disabled(start_server, tester):  # noqa: F811
    server = start_server(**options(tester, DISABLE_CODE_SERVER="true"))
    refused = server.get("/code-server/")
    assert refused.status_code == 503 and "DISABLE_CODE_SERVER" in refused.text and not processes(server)


@pytest.fixture(scope="module")
def guarded(tester, start_shared):  # noqa: F811
    """It is stopped soon after its use."""
    server = start_shared(**options(tester, "--service-idle", "1", SANDBOX_API_KEY=KEY))
    server.client.headers["X-AIO-API-Key"] = KEY
    return server


def tunnel(server, **headers):
    return connect(f"ws://{server.host}:{server.port}/code-server/?reconnection=false", additional_headers=headers)


@contextlib.contextmanager
def watched(server):
    """While it has a WebSocket, of somebody who leaves without a goodbye; its process."""
    with tunnel(server, **{"X-AIO-API-Key": KEY}) as peer:
        (pid,) = processes(server)
        yield pid
        peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        peer.socket.close()
    assert gone(pid)


def test_who_gets_in(guarded):
    view = guarded.post("/tickets", {"scope": "view"}).json()["ticket"]
    stranger = {"X-AIO-API-Key": "no"}
    for path in ("/code-server", "/vscode", "/code-server/", "/code-server/stable/static/x.js"):
        assert guarded.get(path, headers=stranger).status_code == 401
        assert guarded.get(path, headers=stranger, params={"ticket": view}).status_code == 403
    for headers, status in ((stranger, 401), ({"X-AIO-API-Key": KEY, "Origin": "http://evil.example"}, 403),
                            ({"X-AIO-API-Key": KEY, "Origin": f"http://{guarded.host}:{guarded.port + 1}"}, 403)):
        with pytest.raises(InvalidStatus) as refused:
            tunnel(guarded, **headers)
        assert refused.value.response.status_code == status
    asked = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    assert guarded.request("OPTIONS", "/code-server/", headers={**stranger, **asked}).status_code == 403
    assert not processes(guarded)


def test_a_ticket_leaves_the_address(guarded):
    ticket = guarded.post("/tickets", {}).json()["ticket"]
    opened = {"X-AIO-API-Key": "no", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "none"}
    first = guarded.get("/vscode", headers=opened, params={"ticket": ticket, "folder": "/tmp"})
    assert first.status_code == 303 and first.headers["location"].endswith("/vscode?folder=%2Ftmp")
    cookie = {**opened, "Cookie": first.headers["set-cookie"].partition(";")[0]}
    second = guarded.get("/vscode?folder=/tmp", headers=cookie)
    assert second.headers["location"] == "code-server/?folder=/tmp"
    page = guarded.get("/code-server/?folder=/tmp", headers=cookie)
    assert page.status_code == 200 and "workbench" in page.text
    other = guarded.get("/code-server/", headers=opened, params={"ticket": ticket})
    assert other.status_code == 303 and other.headers["location"].endswith("/code-server/")


def test_it_is_stopped_when_idle(guarded):
    """Not while a page is open, which has a WebSocket."""
    with watched(guarded) as pid:
        time.sleep(3)
        assert processes(guarded) == [pid]
    assert guarded.get("/code-server/", timeout=START_SECONDS).status_code == 200


USURPER = r'''
import http.server, os, socketserver, sys
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        for name, value in [("Service-Worker-Allowed", "/"), ("Clear-Site-Data", "*"), ("Set-Cookie", "aio_box_" + self.headers["Host"].partition(":")[2] + "=x; Path=/")]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(repr((self.path, dict(self.headers))).encode())
        if self.path.endswith("/quit"):
            os._exit(0)
    address_string = lambda self: "x"
    def log_message(self, *a): pass
os.unlink(sys.argv[1])
socketserver.UnixStreamServer(sys.argv[1], H).serve_forever()
'''


def test_a_program_in_its_place(guarded, tester):  # noqa: F811
    """It may answer for the editor, and learns no key. Nothing that it says holds for our other pages."""
    with watched(guarded) as pid:
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        path = words[words.index("--socket-path") + 1]
        assert Path(path).parent.stat().st_mode & 0o777 == 0o700
        guarded.post("/v1/file/write", {"file": f"/home/{tester}/usurp.py", "content": USURPER})
        guarded.post("/v1/bash/exec", {"command": f"exec python3 ~/usurp.py {path}", "async_mode": True})
        assert eventually(lambda: "Host" in guarded.get("/code-server/worker.js").text)
        said = guarded.get("/code-server/worker.js", headers={"Service-Worker": "script"}, params={"api_key": KEY})
        assert said.status_code == 200 and KEY not in said.text
        assert not {"service-worker-allowed", "clear-site-data", "set-cookie"} & set(said.headers)
        guarded.get("/code-server/quit")
