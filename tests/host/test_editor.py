"""VS Code in a box, in a browser: at the box's own name, and what becomes of it when the box is paused or copied."""

import shutil
import subprocess
from urllib.parse import urlsplit

import pytest

from chromium import NEEDED, chromium, new_context, screenshot  # noqa: F401 (a fixture)
from desktop import free_port
from editors import NEEDED as EDITOR_NEEDED
from editors import Editor
from harness import START_SECONDS, eventually

pytestmark = [NEEDED, EDITOR_NEEDED]
NOTES = "/home/gem/notes.txt"


@pytest.fixture(scope="module")
def box(host):
    box = host.create(services=["code-server"])
    box.run(f"echo first >{NOTES}")
    yield box
    box.delete()


@pytest.fixture
def visit(chromium):  # noqa: F811
    contexts = []

    def visit(url):
        contexts.append(new_context(chromium, width=1280, height=800))
        return Editor(contexts[-1], url)

    yield visit
    for context in contexts:
        context.close()


def holds(box, text):
    return eventually(lambda: box.run(f"cat {NOTES}") == text)


def test_it_is_ready_before_it_is_asked_for(box):
    assert eventually(lambda: box.count("[s]erver-main.js"))


def test_at_the_name_of_its_box(host, box, visit):
    """Opened as people do, with a link that has a ticket; through a pause and the end of the server."""
    ticket = box.request("POST", "/tickets", json={}).json()["ticket"]
    editor = visit(f"http://{box.id}.localhost:{host.port}/vscode?ticket={ticket}")
    assert urlsplit(editor.page.url)[1:] == (f"{box.id}.localhost:{host.port}", "/code-server/", "", "")
    editor.write("notes.txt", "typed")
    assert holds(box, "first\ntyped")
    assert editor.foreign(editor.page.url) == [] and editor.notices() == []
    screenshot(editor.page, "editor-box")
    box.call("POST", "/pause")
    box.call("POST", "/resume")
    editor.write("notes.txt", " on")
    assert holds(box, "first\ntyped on")
    box.run("pkill -9 -f server-main.j[s]")
    editor.page.reload()
    editor.await_files()
    editor.write("notes.txt", " again")
    assert holds(box, "first\ntyped on again")


NGINX = """
daemon off; master_process off; error_log {folder}/error; pid {folder}/pid;
events {{}}
http {{
    access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    server {{
        listen 127.0.0.1:{port};
        location /deep/box/ {{
            proxy_pass http://127.0.0.1:{host}/;
            proxy_http_version 1.1;
            proxy_set_header Host $http_host;
            proxy_set_header X-Forwarded-Prefix /deep/box;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection "upgrade";
        }}
    }}
}}
"""


@pytest.fixture
def proxy(host, tmp_path):
    """The port of a reverse proxy that has the host below a path."""
    if not shutil.which("nginx"):
        pytest.skip("NOT TESTED: there is no nginx here")
    (tmp_path / "conf").write_text(NGINX.format(folder=tmp_path, port=(port := free_port()), host=host.port))
    nginx = subprocess.Popen(["nginx", "-c", tmp_path / "conf", "-e", tmp_path / "error"])
    assert eventually((tmp_path / "pid").exists)
    yield port
    nginx.kill()
    nginx.wait()


def test_in_a_copy_below_a_path(host, box, visit, proxy):
    """A copy has the files of the other, settings included, and an editor of its own."""
    settings = "/home/gem/.local/share/code-server/User/settings.json"
    assert box.run(f"stat -c %a:%U {settings}") == "600:gem\n"
    box.run(f"echo '{{\"editor.fontSize\": 17}}' >{settings}; echo first >{NOTES}")
    copy = type(box)(host, box.call("POST", "/fork", json={}))
    try:
        ticket = copy.request("POST", "/tickets", json={}).json()["ticket"]
        editor = visit(f"http://{copy.id}.localhost:{proxy}/deep/box/vscode?ticket={ticket}")
        assert editor.page.url == f"http://{copy.id}.localhost:{proxy}/deep/box/code-server/"
        editor.write("notes.txt", "in the copy")
        assert holds(copy, "first\nin the copy") and holds(box, "first\n")
        assert "17" in copy.run(f"cat {settings}")
        beside = [url for url in editor.watch.urls + editor.watch.sockets
                  if url.startswith(("http", "ws")) and f":{proxy}/deep/box/" not in url]
        assert beside == [] and editor.foreign(editor.page.url) == []
    finally:
        copy.delete()


def test_boxes_share_its_files(box):
    """It costs a box no disk."""
    assert box.run("findmnt -n -o OPTIONS --target $(dirname $(readlink -f $(type -p code-server)))").startswith("ro,")
