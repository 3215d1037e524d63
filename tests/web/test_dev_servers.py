"""Development servers in a sandbox, through its server, in a real Chromium: hot reload in every form of their address."""

import shutil
import subprocess
from urllib.parse import urlsplit

import pytest

import commands
from chromium import NEEDED, Watch, chromium, new_context  # noqa: F401 (a fixture)
from dev_servers import FLASK, VITE_FILES, VITE_NEEDED, Seen, flask, free_port, vite, word
from harness import START_SECONDS, eventually

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [NEEDED, pytest.mark.server(warm=commands.warm)]

NGINX = """
daemon off; master_process off; error_log {folder}/error; pid {folder}/pid;
events {{}}
http {{
    access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    proxy_http_version 1.1; proxy_set_header Host $http_host; proxy_set_header Upgrade $http_upgrade;
    proxy_set_header Connection "upgrade";
    server {{
        listen 127.0.0.1:{port};
        location /sandbox/ {{
            proxy_pass {server}/;
            proxy_set_header Host $http_host; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection "upgrade";
            proxy_set_header X-Forwarded-Prefix /sandbox;
        }}
        location / {{
            proxy_pass {server};
            proxy_set_header Host $http_host; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection "upgrade";
            proxy_set_header X-AIO-Proxy-Port {program};
        }}
    }}
}}
"""


@pytest.fixture
def program(server, tmp_path):
    """Starts a program of these files in the sandbox, and waits until it listens."""

    def start(line, port, files):
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        data = commands.run(server, line, exec_dir=str(tmp_path), async_mode=True)
        assert eventually(lambda: server.get(f"/absproxy/{port}/").status_code != 502, START_SECONDS), commands.read(server, data)

    yield start
    commands.close_all(server)


@pytest.fixture
def context(chromium):  # noqa: F811
    context = new_context(chromium)
    yield context
    context.close()


@pytest.fixture
def gateway(server, tmp_path):
    """An nginx that names the port in a header, and shows the sandbox below /sandbox/."""
    if not shutil.which("nginx", path="/usr/sbin:/usr/bin:/bin"):
        pytest.skip("NOT TESTED: there is no nginx here")
    started = []

    def start(program):
        folder = tmp_path / "nginx"
        folder.mkdir()
        (folder / "conf").write_text(NGINX.format(folder=folder, port=(port := free_port()), server=server.url, program=program))
        started.append(subprocess.Popen(["/usr/sbin/nginx", "-c", folder / "conf", "-e", folder / "error"]))
        assert eventually(lambda: (folder / "pid").exists())
        return port

    yield start
    for process in started:
        process.kill()
        process.wait()


FORMS = {
    "name": ("/", "http://{port}-x.localhost:{at}/"),
    "proxy": ("/proxy/{port}/", "http://127.0.0.1:{at}/proxy/{port}/"),
    "absproxy": ("/absproxy/{port}/", "http://localhost:{at}/absproxy/{port}/"),
    "header": ("/", "http://localhost:{gateway}/"),
    "proxy below a path": ("/sandbox/proxy/{port}/", "http://localhost:{gateway}/sandbox/proxy/{port}/"),
}


@VITE_NEEDED
@pytest.mark.parametrize("form", FORMS)
def test_vite(server, program, context, tmp_path, request, form):
    port = free_port()
    base, url = FORMS[form]
    names = {"port": port, "at": server.port}
    if "{gateway}" in url:
        names["gateway"] = request.getfixturevalue("gateway")(port)
    program(vite(port, base.format(**names)), port, {**VITE_FILES, "word.js": word("one")})
    seen, url = Seen(context), url.format(**names)
    seen.open(url, "one")
    (tmp_path / "word.js").write_text(word("two"))
    seen.shows_without_a_reload("two")
    assert {urlsplit(socket).netloc for socket in seen.sockets} == {urlsplit(url).netloc}  # not around the sandbox


@pytest.mark.parametrize("form", ["name", "proxy"])
def test_flask_with_reload(server, program, context, tmp_path, form):
    pytest.importorskip("flask", reason="NOT TESTED: no Flask: make test-deps")
    port = free_port()
    url = FORMS[form][1].format(port=port, at=server.port)
    program(flask(port), port, {"app.py": FLASK})
    page = context.new_page()
    watch = Watch(page)
    page.goto(url)
    assert page.locator("#app").inner_text() == "one"
    page.locator("a").click()
    assert page.locator("#app").inner_text() == "there" and page.url == url + "there"
    page.goto(url + "go")
    assert page.url == url + "there" and watch.foreign(url) == []
    (tmp_path / "app.py").write_text(FLASK.replace("one", "two"))

    def shows():
        page.goto(url)  # while it restarts there is the page that says so
        return page.locator("#app").count() and page.locator("#app").inner_text() == "two"

    assert eventually(shows, pause=0.2)


def test_a_page_waits_for_the_program(server, program, context):
    """Where nothing listens yet; and the other ports are one click away."""
    port, other = free_port(), free_port()
    serve = "exec python3 -m http.server --bind {} {}"
    program(serve.format("127.0.0.1", other), other, {"index.html": "<title>up</title>"})
    page = context.new_page()
    page.goto(f"{server.url}/proxy/{port}/")
    assert page.locator("h1").inner_text() == f"No preview of port {port}"
    page.get_by_role("link", name=str(other)).click()
    page.wait_for_url(f"{server.url}/proxy/{other}/")
    assert page.title() == "up"
    page.goto(f"{server.url}/proxy/{port}/")
    program(serve.format("::1", port), port, {})
    assert eventually(lambda: page.title() == "up", pause=0.1)
