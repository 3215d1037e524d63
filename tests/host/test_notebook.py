"""The notebook of a box, in a real Chromium at the box's own name: after the box was paused, and in a copy of it."""

import json

import pytest

from chromium import NEEDED, browser, new_context
from harness import START_SECONDS
from hosts import Box

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = NEEDED
LONG = START_SECONDS * 1000
IDLE = "Python 3 (ipykernel) | Idle"


def execute(box, code):
    body = {"code": code, "session_id": "work"}
    answer = box.request("POST", "/v1/jupyter/execute", json=body, timeout=START_SECONDS).json()["data"]
    assert answer["status"] == "ok", answer
    return answer["outputs"][-1]["data"]["text/plain"]


def write_notebook(box, name, code):
    cell = {"cell_type": "code", "execution_count": None, "id": "cell-0", "metadata": {}, "outputs": [], "source": code}
    spec = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    text = json.dumps({"cells": [cell], "metadata": {"kernelspec": spec}, "nbformat": 4, "nbformat_minor": 5})
    answer = box.request("POST", "/v1/file/write", json={"file": f"/home/gem/{name}", "content": text}).json()
    assert answer["success"], answer


def link(box, path):
    body = {"path": path, "name": path, "type": "notebook", "kernel": {"id": "work"}}
    assert box.request("POST", "/jupyter/api/sessions", json=body).status_code == 201


def run(page, shown):
    """Runs the cell, once its notebook has a kernel."""
    sync_api.expect(page.get_by_text(IDLE)).to_be_visible(timeout=LONG)
    page.locator(".jp-Notebook .jp-Cell .cm-content").first.click()
    page.keyboard.press("Control+Enter")
    sync_api.expect(page.locator(".jp-OutputArea-output").first).to_have_text(shown, timeout=LONG)


def opened(box, chromium, path):
    """A page at the box's own name, signed in by a key in its address."""
    page = new_context(chromium, width=1200, height=800).new_page()
    home = f"http://{box.id}.localhost:{box.host.port}"
    page.goto(f"{home}{path}?api_key={box.token}", timeout=LONG)
    assert page.url.startswith(f"{home}/jupyter/lab") and "api_key" not in page.url
    return page


def test_after_a_pause_and_in_a_copy(host):
    box = host.create()
    copy = None
    try:
        assert execute(box, "x = 41; x") == "41"
        write_notebook(box, "a.ipynb", "y = x + 1\ny")
        link(box, "a.ipynb")
        with browser() as chromium:
            page = opened(box, chromium, "/jupyter/lab/tree/a.ipynb")
            run(page, "42")
            assert execute(box, "y") == "42"
            box.call("POST", "/pause")
            box.call("POST", "/resume")
            assert execute(box, "x = 42; x") == "42"
            page.reload(timeout=LONG)
            run(page, "43")
            page.context.close()
        # A copy has the files, and what ran in the box does not run there.
        copy = Box(host, box.call("POST", "/fork"))
        assert copy.request("GET", "/jupyter/api/kernels").json() == copy.request("GET", "/jupyter/api/sessions").json() == []
        found = copy.request("GET", "/jupyter/api/contents/a.ipynb", timeout=START_SECONDS).json()
        assert found["content"]["cells"][0]["source"] == "y = x + 1\ny"
        assert execute(copy, "6 * 7") == "42"
    finally:
        box.delete()
        if copy:
            copy.delete()
