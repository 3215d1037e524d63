"""aio browser and aio gui: the browser and the desktop of a sandbox for a shell."""

import json
import os
import re
import shlex
import subprocess

import pytest

import desktop
from desktop import BROWSER_NEEDED, pixels, tabs, tester  # noqa: F401
from harness import ROOT, eventually, program
from shell_calls import aio, bad, good, on_terminal

pytestmark = BROWSER_NEEDED


@pytest.fixture(scope="module")
def browsing(tester, start_shared):  # noqa: F811
    server = start_shared(**desktop.browser_options(tester))
    desktop.warm_browser(server)
    return server


def test_the_browser(browsing, tmp_path):
    url = "data:text/html,<title>Shop</title><body style='margin:0;background:rgb(200,10,20)'>"
    assert json.loads(good(browsing, "browser", "navigate", url))["data"]["title"] == "Shop"
    assert eventually(lambda: tabs(browsing)[0]["title"] == "Shop")
    good(browsing, "browser", "screenshot", "-o", str(tmp_path / "page.png"))
    width, height, rgb = pixels(browsing, (tmp_path / "page.png").read_bytes())
    assert tuple(rgb[:3]) == tuple(rgb[-3:]) == (200, 10, 20)
    desktop_width, desktop_height, _ = pixels(browsing, good(browsing, "gui", "screenshot", "--output=-"))
    assert (desktop_width, desktop_height) == (1280, 1024) and height < 1024
    assert "with a scheme" in bad(browsing, "browser", "navigate", "example")
    assert "No such file" in bad(browsing, "gui", "screenshot", "-o", str(tmp_path / "no/such.png"))
    assert "Shop" in on_terminal(browsing, "browser", "navigate", url)


PAGE = """<title>Shop</title><h1>Shop</h1><input id=q><input id=c type=checkbox><select id=s><option>a<option>b</select>
<input id=f type=file><div style='height:5000px'></div><button id=b onclick='document.title = prompt("Who?")'>Buy</button>"""

# As in test_cli_verbs.py.
ROWS = """
browser navigate file://{folder}/page.html | title +Shop
browser info | user_agent
browser tabs | Shop
browser tabs open about:blank | index +1
browser tabs activate 0 | index +0
browser tabs close 1 |
browser html | id="?q
browser text | Shop
browser markdown | Shop
browser snapshot | heading
browser elements | INDEX
browser fill '#q' words |
browser evaluate 'document.querySelector("#q").value' | ^words$
browser fill --index 0 others |
browser click '#q' |
browser hover '#q' |
browser type more |
browser press-key End |
browser hot-key Control a |
browser check '#c' |
browser uncheck '#c' |
browser select-option '#s' b |
browser upload-file '#f' {folder}/page.html |
browser fill-form '{"selector": "#q", "value": "x"}' |
browser scroll down 200 |
browser scroll-to 0 0 |
browser scroll-to-element '#b' |
browser find-text Shop | Shop
browser wait selector --selector '#b' |
browser console |
browser console export {folder}/console.json | count
browser downloads |
browser captcha detect | detected +false
browser captcha wait --timeout 1 | resolved
browser network requests | GET
browser network export-har --save-path {folder}/x.har |
browser network headers X-A=1 |
browser network scoped-headers http://localhost:1 X-A=1 |
browser network route '*/blocked' --abort |
browser network unroute '*/blocked' |
browser cookies set '{"name": "a", "value": "b", "url": "http://localhost:1"}' |
browser cookies --urls http://localhost:1 | a +b
browser state save {folder}/state.json | cookies
browser cookies clear |
browser state load {folder}/state.json | cookies
browser record status | idle
browser proxy-pac |
browser reload | Shop
browser back |
browser forward |
gui move-to 5 6 | MOVE_TO
gui move-rel 1 -1 | MOVE_REL
gui click 5 6 | CLICK
gui double-click 5 6 |
gui right-click 5 6 |
gui press Escape |
gui mouse-down |
gui mouse-up |
gui drag-to 7 8 |
gui drag-rel 1 1 |
gui scroll 0 -1 |
gui type x |
gui key-down Shift |
gui key-up Shift |
gui hotkey ctrl a |
gui wait 0.01 |
gui record status | idle
gui resize 1280x1024 | width +1280
browser click '#b' |
browser dialog | Who
browser dialog answer --text Bob |
browser restart --mode soft |
"""


def test_each_verb(browsing, tester, tmp_path):  # noqa: F811
    folder = f"/home/{tester}"
    good(browsing, "file", "write", f"{folder}/page.html", PAGE)
    for row in ROWS.strip().splitlines():
        words, _, expected = row.partition(" |")
        words = [word.replace("{folder}", folder) for word in shlex.split(words)]
        done = aio(browsing, *words, "--plain")
        said = done.stdout.decode() + done.stderr.decode()
        assert done.returncode == 0 and re.search(expected.strip(), said, re.M), done
    desktop.warm_browser(browsing)


def test_the_examples_of_the_manual(browsing, tmp_path):
    (block,) = [block for block in re.findall(r"```sh\n(.*?)```", (ROOT / "docs/cli.md").read_text(), re.S) if "aio browser" in block]
    env = {**os.environ, "AIO_URL": browsing.url, "PATH": f"{os.path.dirname(program('aio'))}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-ec", block], env=env, capture_output=True, text=True, timeout=100, cwd=tmp_path)
    assert done.returncode == 0 and not done.stderr and "# Shop" in done.stdout, done
    assert (tmp_path / "page.png").read_bytes()[:4] == (tmp_path / "desktop.png").read_bytes()[:4] == b"\x89PNG"


def test_pictures_and_papers(browsing, tmp_path):
    assert good(browsing, "browser", "screenshot", "--format", "jpeg").startswith(b"\xff\xd8")
    good(browsing, "browser", "pdf", "-o", str(tmp_path / "page.pdf"), "--landscape")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    assert good(browsing, "gui", "screenshot").startswith(b"\x89PNG")
