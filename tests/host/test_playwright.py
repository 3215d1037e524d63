"""Playwright of the product in a box, and recordings of its desktop: with the box's own programs and rights."""

import json

import pytest

from desktop import BROWSER_NEEDED
from harness import START_SECONDS, eventually

pytestmark = BROWSER_NEEDED
PYTHON = """from playwright.sync_api import sync_playwright
with sync_playwright() as p, p.chromium.launch({}) as browser:
    page = browser.new_page()
    page.goto('data:text/html,<title>in a box</title>')
    print(page.title())
    page.goto('chrome://sandbox')
    print('You are adequately sandboxed' in page.content())
"""
NODE = """const { chromium } = require('playwright');
(async () => {
	const browser = await chromium.launch();
	const page = await browser.newPage();
	await page.goto('data:text/html,<title>in a box</title>');
	console.log(await page.title());
	await browser.close();
})();
"""


@pytest.fixture(scope="module")
def box(host):
    box = host.create()
    yield box
    box.delete()


def ask(box, target, **body):
    answer = box.request("POST", target, json=body, timeout=START_SECONDS)
    assert answer.status_code == 200 and answer.json()["success"], answer.text
    return answer.json()["data"]


@pytest.mark.parametrize("options, sandboxed", [("", False), ("chromium_sandbox=True", True)])
def test_python(box, options, sandboxed):
    data = ask(box, "/v1/code/execute", language="python", code=PYTHON.format(options), timeout=60)
    assert data["stdout"].splitlines() == ["in a box", str(sandboxed)], data


def test_node(box):
    assert ask(box, "/v1/nodejs/execute", code=NODE, timeout=60)["stdout"] == "in a box\n"


def test_a_shell(box):
    for name, code in (("a.py", PYTHON.format("")), ("a.js", NODE)):
        ask(box, "/v1/file/write", file=f"/tmp/{name}", content=code)
    assert box.run("cd /tmp && python3 a.py && node a.js && ls ~/.cache/ms-playwright || echo none").splitlines() \
        == ["in a box", "False", "in a box", "none"]


def test_a_recording(box):
    begun = ask(box, "/v1/display/record", action="start", fps=10)
    assert begun["status"] == "recording"
    assert eventually(lambda: ask(box, "/v1/display/record", action="status")["duration"] > 1, seconds=60)
    box.call("POST", "/pause")
    box.call("POST", "/resume")
    before = ask(box, "/v1/display/record", action="status")["duration"]
    assert eventually(lambda: ask(box, "/v1/display/record", action="status")["duration"] > before, seconds=60)
    done = ask(box, "/v1/display/record", action="stop")
    said = json.loads(box.run(f"ffprobe -v error -of json -show_format -show_streams {done['save_path']}"))
    assert said["streams"][0]["codec_name"] == "h264" and abs(float(said["format"]["duration"]) - done["duration"]) < 0.5
    assert box.run(f"ffmpeg -v error -i {done['save_path']} -f null - && stat -c %U {done['save_path']}") == "gem\n"
