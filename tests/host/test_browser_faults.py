"""The browser of a box when something goes wrong around it: a part that is killed, a disk that is full, a pause in the
middle of a call, a box without a network, many boxes at once; and what a box refuses to run it with."""

import json
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from websockets.exceptions import ConnectionClosed

from chromium import are_apart
from desktop import BROWSER_NEEDED, DevTools, free_port
from harness import START_SECONDS, eventually

pytestmark = BROWSER_NEEDED


def ask(box, method, path, **more):
    return box.request(method, path, timeout=START_SECONDS, **more)


def data(box, method, path, **more):
    answer = ask(box, method, path, **more)
    assert answer.status_code == 200 and answer.json()["success"], answer.text
    return answer.json()["data"]


def devtools(box, tab):
    return DevTools(f"ws://127.0.0.1:{box.host.port}/devtools/page/{tab['id']}", additional_headers=box.headers)


def new_tab(box, url="about:blank"):
    return data(box, "POST", "/v1/browser/tabs", json={"url": url})


def works(box, title):
    """Whether it shows a page."""
    with devtools(box, new_tab(box, f"data:text/html,<title>{title}</title>")) as page:
        return eventually(lambda: page.look("document.title") == title)


# --- killed ------------------------------------------------------------------------------------


def kill(box, pattern):
    """The first of its processes that matches; returns when it is gone."""
    box.run(f"pid=$(pgrep -of '[{pattern[0]}]{pattern[1:]}'); kill -9 $pid; while kill -0 $pid 2>/dev/null; do sleep .05; done")


@pytest.mark.parametrize("what", ["chromium/chromium", "Xvnc", "openbox", "type=gpu-process"])
def test_what_is_killed_is_there_on_the_next_use(box, what):
    data(box, "GET", "/v1/browser/info")
    kill(box, what)
    assert works(box, f"after-{what.replace('/', '-')}")
    kill(box, what)
    assert ask(box, "GET", "/v1/browser/screenshot").headers["content-type"] == "image/png"


def test_the_process_that_makes_those_of_pages(box):
    """They end with it, and not by a crash of their own: callers do not wait for them until their time is up."""
    new_tab(box, "data:text/html,<title>before</title>")
    box.run("pid=$(pgrep -nf '[t]ype=zygote'); kill -9 $pid; while kill -0 $pid 2>/dev/null; do sleep .05; done")
    began = time.monotonic()
    ask(box, "GET", "/v1/browser/page/text")
    assert time.monotonic() - began < 20
    assert works(box, "after")


def test_killed_while_it_is_asked(box):
    """Whoever waits is told: what they wait for cannot come."""
    with devtools(box, new_tab(box)) as page:
        page.send("Runtime.evaluate", expression="self.asked = true; new Promise(() => 0)", awaitPromise=True)
        kill(box, "chromium/chromium")
        with pytest.raises(ConnectionClosed):
            while True:
                page.socket.recv(START_SECONDS)
    assert works(box, "next")


# --- paused ------------------------------------------------------------------------------------


def test_a_pause_in_the_middle_of_a_call(box):
    """The page, what it holds and who is connected to it stay."""
    tab = new_tab(box)
    with devtools(box, tab) as page, devtools(box, tab) as other:
        page.evaluate("self.kept = 'kept'")
        page.send("Runtime.evaluate", expression="new Promise((done) => { self.go = done })", awaitPromise=True)
        assert eventually(lambda: other.evaluate("typeof self.go") == "function")
        box.call("POST", "/pause")
        assert box.state == "paused"
        box.call("POST", "/resume")
        other.evaluate("self.go('went on ' + self.kept)")
        assert json.loads(page.socket.recv(START_SECONDS))["result"]["result"]["value"] == "went on kept"
    assert tab["id"] in {one["id"] for one in data(box, "GET", "/v1/browser/tabs")}


# --- too little --------------------------------------------------------------------------------


def test_a_full_disk(host):
    full = host.client.post("/v1/sandboxes", headers=host.auth, json={"limits": {"disk": "64M"}}).json()
    if not full.get("data"):
        pytest.skip(f"NOT TESTED: {full}")
    full = type(host.default())(host, full["data"])
    full.run("sudo sh -c 'for size in 1M 1k 1; do dd if=/dev/zero of=/fill bs=$size oflag=append conv=notrunc 2>/dev/null; done; test -s /fill'")
    answer = ask(full, "GET", "/v1/browser/info")
    assert answer.status_code == 503 and "No space left on device" in answer.json()["message"], answer.text
    full.run("sudo rm /fill")
    assert eventually(lambda: ask(full, "GET", "/v1/browser/info").status_code == 200, START_SECONDS)
    assert works(full, "room again")
    full.run("sudo sh -c 'dd if=/dev/zero of=/fill bs=1M 2>/dev/null; test -s /fill'")
    assert works(full, "and full")  # a page needs no disk
    kill(full, "chromium/chromium")
    assert eventually(lambda: "No space left on device" in ask(full, "GET", "/v1/browser/info").json()["message"])
    full.run("sudo rm /fill")
    assert eventually(lambda: ask(full, "GET", "/v1/browser/info").status_code == 200, START_SECONDS)
    full.delete()


@pytest.mark.parametrize("env, says", [
    ({"BROWSER_EXTRA_ARGS": "--lang=de --no-sandbox"}, "--no-sandbox"),
    ({"AIO_BROWSER_SANDBOX": "false", "BROWSER_EXTRA_ARGS": "--single-process"}, "--single-process"),
    ({"BROWSER_EXTRA_ARGS": "--renderer-cmd-prefix=/usr/bin/env"}, "--renderer-cmd-prefix"),
])
def test_it_does_not_start_without_its_sandbox(host, env, says):
    box = host.create(env=env)
    answer = ask(box, "GET", "/v1/browser/info")
    assert answer.status_code == 503 and says in answer.json()["message"] and "sandbox" in answer.json()["message"]
    assert box.count("[c]hromium") == 0
    box.delete()


def test_the_option_to_go_without_means_nothing_in_a_box(host):
    box = host.create(env={"AIO_BROWSER_SANDBOX": "false"})
    data(box, "GET", "/v1/browser/info")
    assert eventually(lambda: are_apart(f"-{box.id}/")) and box.count("[n]o-sandbox") == 0
    box.delete()


# --- without a network -------------------------------------------------------------------------


def navigate(box, url):
    return ask(box, "POST", "/v1/browser/page/navigate", json={"url": url}).json()


@pytest.mark.parametrize("url", ["http://example.com/", "https://example.org/a?b", "http://192.0.2.1/", "https://[2001:db8::1]/"])
def test_without_a_network_navigation_says_so(box, url):
    said = navigate(box, url)
    assert not said["success"] and said["data"] is None
    assert url.split("?")[0] in said["message"] and "this sandbox has no network" in said["message"]
    assert "aio create --network allow" in said["message"]
    assert navigate(box, "http://127.0.0.1:8080/v1/sandbox")["success"]  # what is in the box is there


def test_a_box_with_names_says_which_it_may_open(host):
    box = host.create(network={"mode": "allow", "allow": ["allowed.example"]})
    said = navigate(box, "http://other.example/")
    assert not said["success"] and "only the names that it was created with" in said["message"], said
    box.delete()


def test_the_browser_itself_asks_for_nothing_outside(host):
    """Or people would be shown what was denied, and hints, for what they did not do."""
    box = host.create()
    said = navigate(box, "http://127.0.0.1:8080/v1/docs")
    assert said["success"] and not said["hint"], said
    with devtools(box, data(box, "GET", "/v1/browser/tabs")[0]) as page:  # a page with fields
        assert eventually(lambda: (page.look("document.querySelectorAll('.opblock').length") or 0) > 3)
        page.evaluate("document.querySelector('.opblock button').click()")
        page.evaluate("document.body.innerHTML += '<form action=/terminal><input name=email value=ann><input type=password value=secret><button>Go</button></form>'")
        page.evaluate("document.querySelector('form').submit()")
        assert eventually(lambda: page.look("location.pathname") == "/terminal")
    box.run("curl -s http://asked-for.example/ || true")
    asked = lambda: {event["data"]["host"] for event in box.call("GET", "/events") if event["type"] == "denied"}
    assert eventually(asked) and asked() == {"asked-for.example"}
    box.delete()


# --- many --------------------------------------------------------------------------------------


def titles_with_its_own(box):
    """Those of its tabs, once the browser has the one that the page has."""
    seen = lambda: {tab["title"] for tab in data(box, "GET", "/v1/browser/tabs")}
    assert eventually(lambda: box.id in seen())
    return seen()


def test_ten_boxes_with_a_browser_each_at_once(host):
    with ThreadPoolExecutor(10) as pool:
        boxes = list(pool.map(lambda n: host.create(services=["browser"]), range(10)))
        assert all(pool.map(lambda box: works(box, box.id), boxes))
        urls = list(pool.map(lambda box: data(box, "GET", "/v1/browser/info")["cdp_url"], boxes))
        titles = list(pool.map(titles_with_its_own, boxes))
        assert len(set(urls)) == 10
        assert not any(seen & {other.id for other in boxes if other is not box} for box, seen in zip(boxes, titles))
        list(pool.map(lambda box: box.delete(), boxes))


# --- how it is asked for, and reached -----------------------------------------------------------


def test_services_of_the_command_line(host):
    host.cli("create", "with-browser", "--services", "browser")
    box = next(one for one in host.api("GET", "/v1/sandboxes?limit=1000")["sandboxes"] if one["id"] == "with-browser")
    box = type(host.default())(host, host.api("GET", f"/v1/sandboxes/{box['id']}"))
    assert eventually(lambda: box.count("[t]ype=renderer"), START_SECONDS)
    box.delete()
    wrong = host.cli("create", "--services", "browsre", check=False)
    assert wrong.returncode == 2 and "browser" in wrong.stderr


def test_the_first_shell_knows_the_desktop(host):
    """Before there is one: programs that wait for it find it there."""
    box = host.create()
    display, authority = box.run("echo $DISPLAY $XAUTHORITY").split()
    assert display == ":99" and authority.startswith("/tmp/") and box.count("[X]vnc") == 0
    ask(box, "GET", "/v1/browser/screenshot")
    assert box.run("stat -c '%U %a' $XAUTHORITY") == "gem 600\n"
    box.run("xprop -root >/dev/null")
    assert "refused" in box.run("XAUTHORITY=/dev/null xprop -root 2>&1 || echo refused")
    box.delete()


NGINX = """
daemon off; master_process off; error_log {folder}/error; pid {folder}/pid;
events {{}}
http {{
    access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    server {{
        listen 127.0.0.1:{port};
        location /deep/sandbox/ {{
            proxy_pass http://127.0.0.1:{host}/;
            proxy_http_version 1.1;
            proxy_set_header Host $http_host;
            proxy_set_header X-Forwarded-Prefix /deep/sandbox;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection "upgrade";
        }}
    }}
}}
"""


@pytest.mark.skipif(not shutil.which("nginx"), reason="NOT TESTED: there is no nginx here")
def test_playwright_attaches_below_a_path_of_a_proxy(host, box, tmp_path):
    from playwright.sync_api import sync_playwright

    (tmp_path / "conf").write_text(NGINX.format(folder=tmp_path, port=(port := free_port()), host=host.port))
    proxy = subprocess.Popen(["nginx", "-c", tmp_path / "conf", "-e", tmp_path / "error"])
    try:
        base = f"http://127.0.0.1:{port}/deep/sandbox/s/{box.id}"
        headers = {"Authorization": f"Bearer {box.token}"}
        get = lambda: host.client.get(f"{base}/json/version", headers=headers, timeout=START_SECONDS)
        assert eventually(lambda: (tmp_path / "pid").exists())
        assert get().json()["webSocketDebuggerUrl"].startswith(f"ws://127.0.0.1:{port}/deep/sandbox/s/{box.id}/devtools/")
        with sync_playwright() as playwright:
            browser = playwright.chromium.connect_over_cdp(base, headers=headers)
            page = browser.contexts[0].new_page()
            page.goto("data:text/html,<title>there</title>")
            assert page.title() == "there"
            page.close()
            browser.close()
    finally:
        proxy.kill()
        proxy.wait()
