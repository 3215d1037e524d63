"""Playwright of the product: a plain launch() has the distribution's Chromium, from whatever runs code. Nothing is
downloaded."""

import http.server
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

import desktop
import kernels
from desktop import BROWSER_NEEDED, CHROMIUM, tester  # noqa: F401
from harness import Calls, eventually
from kernels import no_sessions  # noqa: F401

HERE = Path(__file__).resolve().parents[2]
PYTHON = next(HERE.glob(".venv/lib/python3*/site-packages/playwright"), None)
NODE = HERE / "node_modules/playwright"
pytestmark = [BROWSER_NEEDED, pytest.mark.skipif(not PYTHON or not NODE.exists(), reason="NOT TESTED: no Playwright: make deps")]
TITLE = "Seen by Playwright ✓"

SYNC = """from playwright.sync_api import sync_playwright
with sync_playwright() as p:
    browser = p.chromium.launch({})
    page = browser.new_page()
    page.goto("{}")
    page.click("button")
    print(page.title(), browser.version)
    browser.close()
"""
ASYNC = """from playwright.async_api import async_playwright
p = await async_playwright().start()
browser = await p.chromium.launch()
page = await browser.new_page()
await page.goto("{}")
await page.click("button")
print(await page.title(), browser.version)
await browser.close()
await p.stop()
"""
NODE_CODE = """
const browser = await chromium.launch();
const page = await browser.newPage();
await page.goto("{}");
await page.click("button");
console.log(await page.title(), browser.version());
await browser.close();
"""
REQUIRE = "const {{ chromium }} = require('playwright');" + NODE_CODE
IMPORT = "import {{ chromium }} from 'playwright';" + NODE_CODE
SCRIPT = "(async () => {{" + REQUIRE + "}})();"


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("content-type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(f"<button onclick='document.title = \"{TITLE}\"'>Go</button>".encode())

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def url():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as pages:
        threading.Thread(target=pages.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{pages.server_address[1]}/"
        pages.shutdown()


@pytest.fixture(scope="module")
def server(tester, start_shared):  # noqa: F811
    server = start_shared(**desktop.options(tester))
    desktop.warm(server)
    for language, code in (("python", "1"), ("javascript", "1")):  # whatever they keep from the first use on
        Calls("/v1/code").ask(server, "execute", language=language, code=code)
    return kernels.warm(server)


@pytest.fixture(scope="module")
def version():
    said = subprocess.run([CHROMIUM, "--version"], capture_output=True, text=True, check=True).stdout
    return said.split()[1]


def bash(server, command):
    data = Calls("/v1/bash").ask(server, "exec", command=command, timeout=100)
    assert data["exit_code"] == 0, data
    return data["stdout"]


@pytest.mark.parametrize("language, code", [("python", SYNC), ("javascript", REQUIRE), ("javascript", IMPORT)])
def test_in_code(server, url, version, language, code):
    code = code.format("", url) if code is SYNC else code.format(url)
    data = Calls("/v1/code").ask(server, "execute", language=language, code=code, timeout=100)
    assert data["stdout"].strip() == f"{TITLE} {version}", data


def test_in_a_kernel(server, url, version):
    data = kernels.execute(server, ASYNC.format(url), timeout=100, session_id="playwright")
    assert f"{TITLE} {version}" in str(data["outputs"]), data


@pytest.mark.parametrize("code", [REQUIRE, IMPORT])
@pytest.mark.parametrize("stateful", [False, True])
def test_in_node(server, url, version, code, stateful):
    body = {"stateful": True, "session_id": "playwright"} if stateful else {}
    data = Calls("/v1/nodejs").ask(server, "execute", code=code.format(url), timeout=100, **body)
    assert f"{TITLE} {version}" in str(data), data
    if stateful:
        server.request("DELETE", "/v1/nodejs/sessions/playwright")


def test_in_a_shell(server, tester, url, version):  # noqa: F811
    folder = Path(f"/home/{tester}/scripts")
    bash(server, f"mkdir {folder}")
    (folder / "a.py").write_text(SYNC.format("", url))
    (folder / "a.js").write_text(SCRIPT.format(url))
    assert bash(server, f"cd {folder}; python3 a.py; node a.js; python a.py").splitlines() == [f"{TITLE} {version}"] * 3
    assert bash(server, "playwright --version").startswith("Version ")
    shutil.rmtree(folder)


def test_with_chromiums_sandbox(server, url, version):
    """It is as Playwright has it: off, unless it is asked for; and that works."""
    code = """from playwright.sync_api import sync_playwright
with sync_playwright() as p:
    for sandbox in (True, False):
        with p.chromium.launch(chromium_sandbox=sandbox) as browser:
            page = browser.new_page()
            page.goto("chrome://sandbox")
            print("You are adequately sandboxed" in page.content())
"""
    data = Calls("/v1/code").ask(server, "execute", language="python", code=code, timeout=100)
    assert data["stdout"].split() == ["True", "False"], data


def test_with_a_window_on_the_desktop(server, url, tester):  # noqa: F811
    """And with a video, for which ffmpeg is needed."""
    folder = Path(f"/home/{tester}/window")
    shown, seen = folder / "shown", folder / "seen"
    folder.mkdir()
    shutil.chown(folder, tester)
    code = f"""import time
from playwright.sync_api import sync_playwright
with sync_playwright() as p, p.chromium.launch(headless=False) as browser:
    context = browser.new_context(record_video_dir="{folder}/video", no_viewport=True)
    page = context.new_page()
    page.goto("{url}")
    page.evaluate("document.body.style.background = 'rgb(20, 20, 200)'")
    print(page.evaluate("outerWidth > 400"))
    open("{shown}", "w").close()
    while not __import__("os").path.exists("{seen}"):
        time.sleep(0.05)
    context.close()
    print(page.video.path())
"""
    blue = []

    def blue_pixels():
        width, height, rgb = desktop.pixels(server, server.get("/v1/browser/screenshot").content)
        return sum(rgb[at:at + 3] == bytes((20, 20, 200)) for at in range(0, len(rgb), 3 * 997))

    def look():
        blue.append(eventually(shown.exists, seconds=90) and eventually(lambda: blue_pixels() > 100))
        seen.touch()

    try:
        looking = threading.Thread(target=look)
        looking.start()
        data = Calls("/v1/code").ask(server, "execute", language="python", code=code, timeout=100)
        looking.join()
        assert data["stdout"].split()[0] == "True" and blue == [True], (data, blue)
        if shutil.which("ffprobe"):
            said = subprocess.run(["ffprobe", "-v", "error", "-show_entries", "stream=codec_name", data["stdout"].split()[1]],
                                  capture_output=True, text=True, check=True).stdout
            assert "codec_name=vp" in said
    finally:
        shutil.rmtree(folder)


def test_nothing_is_downloaded(server, tester):  # noqa: F811
    assert not Path(f"/home/{tester}/.cache/ms-playwright").exists()
    assert bash(server, "echo $PLAYWRIGHT_BROWSERS_PATH") == "0\n"
    for package in (PYTHON / "driver/package", HERE / "node_modules/playwright-core"):
        assert sum(path.stat().st_size for path in (package / ".local-browsers").rglob("*")) < 100_000


def test_the_callers_own_choices_count(start_server, tester):  # noqa: F811
    server = start_server(**desktop.options(tester, PLAYWRIGHT_BROWSERS_PATH="/srv/browsers", NODE_PATH="/srv/modules"))
    said = bash(server, "echo $PLAYWRIGHT_BROWSERS_PATH $NODE_PATH").split()
    assert said == ["/srv/browsers", f"/srv/modules:{HERE}/node_modules"]
    server.stop()


def test_packages_that_are_nowhere(server):
    """The error is Node.js's own."""
    for code in ("import 'not-there-at-all'", "await import('not-there-at-all')", "require('not-there-at-all')"):
        data = Calls("/v1/nodejs").ask(server, "execute", code=code)
        assert "not-there-at-all" in data["stderr"] and "elsewhere" not in data["stderr"], data
