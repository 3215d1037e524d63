"""The browser of a box: Chromium with its own sandbox around its pages, and what becomes of it when its box is paused,
copied, or has too little."""

import socket

import httpx
import pytest

from desktop import BROWSER_NEEDED, DevTools
from harness import START_SECONDS, eventually

pytestmark = BROWSER_NEEDED
PROFILE = "/home/gem/.config/aio-browser"


@pytest.fixture(scope="module")
def box(host):
    box = host.create(services=["browser"])
    yield box
    box.delete()


def info(box):
    answer = box.request("GET", "/v1/browser/info", timeout=START_SECONDS)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def tabs(box):
    answer = box.request("GET", "/v1/browser/tabs", timeout=START_SECONDS)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def devtools(box, tab):
    return DevTools(f"ws://127.0.0.1:{box.host.port}/devtools/page/{tab['id']}", additional_headers=box.headers)


def test_it_is_ready_before_it_is_asked_for(box):
    assert eventually(lambda: box.count("[c]hromium.*--type=renderer"))


def test_its_pages_are_sandboxed(box):
    """As it says itself."""
    answer = box.request("POST", "/v1/browser/tabs", json={"url": "chrome://sandbox"}, timeout=START_SECONDS)
    with devtools(box, answer.json()["data"]) as page:
        assert eventually(lambda: "You are adequately sandboxed." in (page.look("document.body?.innerText") or ""))


def test_devtools_inside(box):
    """Where programs of the sandbox look for them."""
    assert {tab["id"] for tab in tabs(box)} <= set(box.run("curl -s localhost:9222/json/list | grep -o '[0-9A-F]\\{32\\}'").split())


UPGRADE = ("curl -s -m 5 -o /dev/null -w '%{http_code}' -H 'Connection: Upgrade' -H 'Upgrade: websocket' "
           "-H 'Sec-WebSocket-Version: 13' -H 'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==' ")


def test_pages_inside_cannot_use_devtools(box):
    """A browser says of which page they are, or which name it was led here by."""
    url = f"localhost:9222/devtools/page/{tabs(box)[0]['id']}"
    status = lambda command: box.run(command + " || true")
    assert status(UPGRADE + url) == "101"
    for origin in ("http://evil.example", "http://localhost:9222", "null"):
        assert status(f"{UPGRADE} -H 'Origin: {origin}' {url}") == "403"
    assert status("curl -s -o /dev/null -w '%{http_code}' -H 'Host: evil.example' localhost:9222/json/version") != "200"
    assert status("curl -s -o /dev/null -w '%{http_code}' 'localhost:9222/json/new?about:blank'") == "405"


def test_addresses_that_are_blocked_or_allowed(box):
    """By a hard restart, until another says otherwise."""
    def opens(path):
        data = {"url": f"http://127.0.0.1:8123/{path}"}
        answer = box.request("POST", "/v1/browser/page/navigate", json=data, timeout=START_SECONDS).json()
        assert answer["success"] or "BLOCKED_BY_ADMINISTRATOR" in answer["message"], answer
        return answer["success"]

    def restart(**body):
        answer = box.request("POST", "/v1/browser/restart", json=body, timeout=START_SECONDS).json()
        assert answer["success"], answer

    box.run("mkdir -p /tmp/site/yes /tmp/site/no; cd /tmp/site; echo fine | tee yes/index.html >no/index.html; "
            "nohup python3 -m http.server -b 127.0.0.1 8123 >/dev/null 2>&1 & "
            "until curl -s -o /dev/null 127.0.0.1:8123; do :; done")
    try:
        restart(mode="hard", url_blocklist=["127.0.0.1:8123/no"])
        assert [opens("yes/"), opens("no/")] == [True, False]
        restart(url_allowlist=["127.0.0.1:8123/no"])  # the list that is not named stays
        assert [opens("yes/"), opens("no/")] == [True, True]
        restart(url_blocklist=["*"])
        assert [opens("yes/"), opens("no/")] == [False, True]
    finally:
        restart(url_blocklist=[], url_allowlist=[])
    assert [opens("yes/"), opens("no/")] == [True, True]
    box.run("pkill -f 'http.server -b 127.0.0.1 8123'")


def test_programs_appear_on_its_desktop(box):
    assert box.run("echo $DISPLAY $XAUTHORITY").split()[0] == ":99"
    assert "_NET_SUPPORTING_WM_CHECK" in box.run("xprop -root _NET_SUPPORTING_WM_CHECK")


def test_paused_and_resumed(box):
    before = info(box)["cdp_url"]
    box.call("POST", "/pause")
    box.call("POST", "/resume")
    assert info(box)["cdp_url"] == before and len(tabs(box)) >= 1


SOUND = f"""python3 -c '
import pathlib, sqlite3
for path in filter(pathlib.Path.is_file, pathlib.Path("{PROFILE}/Default").iterdir()):
    if path.read_bytes().startswith(b"SQLite format 3"):
        print(sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone()[0])
'"""


def test_a_fork_has_a_browser_of_its_own(host, box):
    """With the same profile, which no longer says that another has it; its databases are whole."""
    before = info(box)["cdp_url"]
    box.run(f"touch {PROFILE}/of-the-first")
    fork = type(box)(host, box.call("POST", "/fork", json={}))
    assert set(fork.run(SOUND).split()) == {"ok"}
    assert info(fork)["cdp_url"] != before and fork.run(f"ls {PROFILE}/of-the-first")
    assert fork.count("[c]hromium.*--type=renderer")
    fork.delete()
    assert info(box)["cdp_url"] == before


def test_a_snapshot_leaves_the_profile_out(host, box):
    """And what else the browser keeps of pages: its cache, and dumps of its processes that crashed."""
    info(box)
    box.run("pkill -SEGV -f '[c]hromium.*--type=gpu-process'")
    assert eventually(lambda: box.run("find ~ -name '*.dmp'"))
    box.run(f"touch {PROFILE}/kept ~/kept ~/.config/kept")
    box.call("POST", "/snapshot", json={"name": "without-browser"})
    assert host.cli("snapshot", box.id, "with-browser", "--include-browser").stdout == "with-browser\n"
    without, whole = host.create(template="without-browser"), host.create(template="with-browser")
    assert whole.run(f"ls {PROFILE}/kept ~/kept") and without.run("ls ~/kept ~/.config/kept")
    assert without.run("find ~ -type f -ipath '*chromium*' -o -type f -path '*aio-browser*'") == ""
    for one in (without, whole):
        assert "Chrome/" in info(one)["user_agent"]
        one.delete()
    for name in ("without-browser", "with-browser"):
        host.api("DELETE", f"/v1/templates/{name}")


def test_a_snapshot_that_cannot_leave_the_profile_out(host):
    """It is made of it only if that is asked for."""
    elsewhere = host.create(env={"AIO_BROWSER_PROFILE": "/home/gem/elsewhere"})
    try:
        make = lambda **more: host.client.post(f"/v1/sandboxes/{elsewhere.id}/snapshot", headers=host.auth,
                                               json={"name": f"{elsewhere.id}-profile", **more})
        refused = make()
        assert refused.status_code == 409 and "include_browser" in refused.text and "/home/gem/elsewhere" in refused.text
        made = make(include_browser=True)
        assert made.status_code < 300, made.text
        host.client.delete(f"/v1/templates/{elsewhere.id}-profile", headers=host.auth)
    finally:
        elsewhere.delete()


@pytest.mark.parametrize("limits, word", [({"pids": 60}, "processes"), ({"memory": 100 << 20}, "memory")])
def test_a_box_that_has_too_little_says_so(host, limits, word):
    small = host.create(limits=limits)
    answer = small.request("GET", "/v1/browser/info", timeout=START_SECONDS)
    assert answer.status_code == 429 and word in answer.json()["message"], answer.text
    assert small.run("echo alive") == "alive\n"
    small.delete()


@pytest.mark.parametrize("how", ["path", "header"])
def test_playwright_attaches_at_every_address(host, box, how):
    """As to any Chromium; the addresses that it is given are ones it can use."""
    from playwright.sync_api import sync_playwright

    base, headers = {"path": (f"{host.url}/s/{box.id}", {"Authorization": f"Bearer {box.token}"}),
                     "header": (host.url, box.headers)}[how]
    with sync_playwright() as playwright:
        browser = playwright.chromium.connect_over_cdp(base, headers=headers)
        page = browser.contexts[0].new_page()
        page.goto("data:text/html,<title>there</title>")
        assert page.title() == "there" and eventually(lambda: "there" in [tab["title"] for tab in tabs(box)])
        page.close()
        browser.close()
    assert len(tabs(box)) >= 1


@pytest.mark.parametrize("path", ["/json/version", "/cdp/json/version", "/v1/browser/info"])
@pytest.mark.parametrize("below", [True, False])
def test_devtools_with_the_key_in_the_url(host, box, path, below):
    """For clients that can set no header: the URL that they are given opens without one, for a while."""
    at = f"http://127.0.0.1:{host.port}" + (f"/s/{box.id}" if below else "")
    more = {} if below else {"x-aio-sandbox": box.id}
    def asked(query="", **headers):
        said = httpx.get(at + path + query, headers={**more, **headers}, timeout=START_SECONDS).json()
        return said["data"]["cdp_url"] if "data" in said else said["webSocketDebuggerUrl"]
    url = asked(f"?api_key={box.token}", **{"X-AIO-Ticket": "mine"})
    address, ticket = url.split("?ticket=")
    assert box.token not in url and ticket != "mine"
    with DevTools(url) as browser:
        assert browser.call("Browser.getVersion")["product"]
    # None renews itself, and those who sent a header can send it again.
    assert asked(f"?ticket={ticket}") == address == asked(Authorization=f"Bearer {box.token}", **{"X-AIO-Ticket": "mine"})


def test_devtools_at_the_name_of_the_box(host, box):
    """Which not every client can resolve: this one connects by the address."""
    name = f"{box.id}.localhost:{host.port}"
    bearer = {"Authorization": f"Bearer {box.token}"}
    said = host.client.get("/json/version", headers={"Host": name, **bearer}, timeout=START_SECONDS).json()
    url = said["webSocketDebuggerUrl"]
    assert url.startswith(f"ws://{name}/devtools/browser/")
    with socket.create_connection(("127.0.0.1", host.port)) as sock, DevTools(url, sock=sock, additional_headers=bearer) as all:
        assert "Chrome/" in all.call("Browser.getVersion")["product"]
