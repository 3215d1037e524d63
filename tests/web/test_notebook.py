"""JupyterLab at /jupyter, in a real Chromium. Screenshots for human eyes land in build/screens/."""

import json
import os
import shutil
import signal
import subprocess

import pytest

from chromium import NEEDED, Watch, chromium, new_context, screenshot  # noqa: F401 (a fixture)
from desktop import free_port
from harness import LEAN, START_SECONDS, children_of, eventually
from kernels import execute, no_sessions, pid_of, sessions, value, warm  # noqa: F401
from notebooks import API, open_notebook

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = sync_api.expect
expect.set_options(timeout=START_SECONDS * 1000)
LONG = START_SECONDS * 1000


def lab(server):
    """The process of JupyterLab; None where there is none."""
    for pid in children_of(server.pid):
        try:
            if b"notebook/lab.py" in open(f"/proc/{pid}/cmdline", "rb").read():
                return pid
        except (FileNotFoundError, ProcessLookupError):
            pass
    return None


def warm_both(server):
    warm(server)
    assert server.get("/jupyter/lab", follow_redirects=True, timeout=START_SECONDS).status_code == 200
    server.at_rest()
    server.baseline = server.possessions()


pytestmark = [NEEDED, pytest.mark.server(env=LEAN, warm=warm_both)]


def write_notebook(server, name, *cells):
    """A notebook with these cells, among the workspace's files."""
    cells = [{"cell_type": "code", "execution_count": None, "id": f"cell-{i}", "metadata": {}, "outputs": [],
              "source": code} for i, code in enumerate(cells)]
    spec = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    (server.home / name).write_text(json.dumps(
        {"cells": cells, "metadata": {"kernelspec": spec}, "nbformat": 4, "nbformat_minor": 5}))


@pytest.fixture
def visit(chromium):  # noqa: F811
    contexts = []

    def visit(url, **more):
        contexts.append(new_context(chromium, width=1200, height=800, **more))
        page = contexts[-1].new_page()
        page.watch = Watch(page)
        page.goto(url, timeout=LONG)
        return page

    yield visit
    for context in contexts:
        context.close()


def idle(page):
    """Waits until the notebook has its kernel."""
    expect(page.get_by_text("Python 3 (ipykernel) | Idle")).to_be_visible(timeout=LONG)


def run_cell(page, number=0):
    page.locator(".jp-Notebook .jp-Cell").nth(number).locator(".cm-content").click()
    page.keyboard.press("Control+Enter")


def output(page, number=0):
    return page.locator(".jp-Notebook .jp-Cell").nth(number).locator(".jp-OutputArea-output")


def test_a_session_of_rest_in_a_notebook_and_back(server, visit):
    execute(server, "x = 41", session_id="work")
    write_notebook(server, "work.ipynb", "y = x + 1\ny", "name = input('who? ')", "name")
    open_notebook(server, "work.ipynb", id="work")
    page = visit(f"{server.url}/jupyter/lab/tree/work.ipynb")
    idle(page)
    run_cell(page)
    expect(output(page)).to_have_text("42")
    assert value(execute(server, "y", session_id="work")) == "42"
    run_cell(page, 1)
    page.locator("input.jp-Stdin-input").fill("Ada")
    page.keyboard.press("Enter")
    run_cell(page, 2)
    expect(output(page, 2)).to_have_text("'Ada'")
    screenshot(page, "notebook")
    # JupyterLab is killed: the kernel has not noticed, and the page opens again with what it had.
    kernel, killed = pid_of(server, "work"), lab(server)
    os.kill(killed, signal.SIGKILL)
    run_cell(page)
    expect(output(page)).to_have_text("42")
    page.reload(timeout=LONG)
    idle(page)
    assert lab(server) != killed and pid_of(server, "work") == kernel
    run_cell(page, 2)
    expect(output(page, 2)).to_have_text("'Ada'")
    assert not page.watch.foreign(server.url)


def test_a_notebook_of_its_own_is_saved_and_is_a_session(server, visit):
    page = visit(f"{server.url}/lab?reset")
    assert page.url.startswith(f"{server.url}/jupyter/lab")
    page.locator(".jp-LauncherCard[data-category=Notebook]", has_text="Python 3").click(timeout=LONG)
    idle(page)
    page.locator(".jp-Notebook .cm-content").first.click()
    page.keyboard.type("made = 6 * 7; made")
    run_cell(page)
    expect(output(page)).to_have_text("42")
    page.keyboard.press("Control+s")
    page.get_by_role("button", name="Rename and Save").click()
    assert eventually(lambda: "made = 6 * 7" in (server.home / "Untitled.ipynb").read_text())
    [name] = sessions(server)
    assert value(execute(server, "made", session_id=name)) == "42"
    assert [each["path"] for each in server.get(f"{API}/sessions").json()] == ["Untitled.ipynb"]
    expect(page.get_by_text("Would you like to")).to_have_count(0)
    assert not [each for each in page.watch.trouble if not each.startswith(("warning:", "failed:"))], page.watch.trouble
    assert not page.watch.foreign(server.url)


NGINX = """
daemon off; master_process off; error_log {folder}/error; pid {folder}/pid;
events {{}}
http {{
    access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    server {{
        listen 127.0.0.1:{port};
        location /deep/box/ {{
            proxy_pass {url}/;
            proxy_http_version 1.1;
            proxy_set_header Host $http_host;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection "upgrade";
        }}
    }}
}}
"""


@pytest.mark.skipif(not shutil.which("nginx"), reason="NOT TESTED: there is no nginx here")
def test_below_a_path_of_a_proxy(server, visit, tmp_path):
    """That takes the path away, and says nothing of it."""
    (tmp_path / "conf").write_text(NGINX.format(folder=tmp_path, port=(port := free_port()), url=server.url))
    proxy = subprocess.Popen(["nginx", "-c", tmp_path / "conf", "-e", tmp_path / "error"])
    try:
        assert eventually((tmp_path / "pid").exists)
        execute(server, "x = 6", session_id="deep")
        (server.home / "a b").mkdir()
        write_notebook(server, "a b/deep.ipynb", "x * 7")
        open_notebook(server, "a b/deep.ipynb", id="deep")
        page = visit(f"http://127.0.0.1:{port}/deep/box/jupyter/lab/tree/a%20b/deep.ipynb")
        idle(page)
        run_cell(page)
        expect(output(page)).to_have_text("42")
        assert not [url for url in page.watch.urls + page.watch.sockets
                    if f":{port}/" in url and f":{port}/deep/box/jupyter/" not in url]
        page.context.close()
    finally:
        proxy.kill()
        proxy.wait()
