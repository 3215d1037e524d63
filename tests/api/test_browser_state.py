"""The browser's state in a file: cookies, and local storage of origins."""

import json
import os
import pwd
import stat
from pathlib import Path

import pytest

import desktop
from desktop import BROWSER_NEEDED, devtools, tabs, tester  # noqa: F401
from harness import START_SECONDS, Calls, eventually
from sites import Page, Site

pytestmark = BROWSER_NEEDED
BROWSER = Calls("/v1/browser")
STATE = Calls("/v1/browser/state")


@pytest.fixture(scope="module")
def server(tester, start_shared):  # noqa: F811
    server = start_shared(**desktop.browser_options(tester))
    desktop.warm_browser(server)
    return server


@pytest.fixture(autouse=True)
def clean(server):
    yield
    server.request("DELETE", "/v1/browser/cookies", timeout=START_SECONDS)
    for _ in tabs(server):
        server.request("DELETE", "/v1/browser/tabs/0")
    server.at_rest()


@pytest.fixture
def site():
    with Site({"/": Page(headers={"set-cookie": "session=7; Path=/"}, body=b"<title>Home</title>")}) as site:
        yield site


def visit(server, url):
    BROWSER.ask(server, "tabs", url=url)
    assert eventually(lambda: tabs(server)[-1]["title"] == "Home")


def evaluate(server, expression):
    with devtools(server) as page:
        return page.evaluate(expression)


def save(server, path):
    reply = STATE.reply(server, "save", path=str(path))
    assert reply["success"], reply
    return reply["data"]


def load(server, path):
    reply = STATE.reply(server, "load", path=str(path))
    assert reply["success"], reply
    return reply["data"]


def test_saved_and_loaded(server, site, tester):  # noqa: F811
    path = Path(f"/home/{tester}/deep/state.json")
    visit(server, site.url)
    evaluate(server, "localStorage.setItem('größe', '7\\u0000\\n\"'), localStorage.setItem('', 'empty')")
    visit(server, site.other + "/")
    evaluate(server, "localStorage.setItem('token', 'x'.repeat(1e6))")
    server.request("DELETE", "/v1/browser/tabs/1")  # its origin is not shown any more
    before = tabs(server)
    data = save(server, path)
    assert tabs(server) == before  # nothing of it is seen
    assert data["path"] == str(path) and data["cookies"] == 2 and data["origins"] == 2
    mode = path.stat()
    assert stat.S_IMODE(mode.st_mode) == 0o600 and pwd.getpwuid(mode.st_uid).pw_name == tester
    state = json.loads(path.read_text())
    stored = {origin["origin"]: {item["name"]: item["value"] for item in origin["localStorage"]} for origin in state["origins"]}
    assert stored == {site.url: {"größe": "7\0\n\"", "": "empty"}, site.other: {"token": "x" * 1000000}}
    assert {(cookie["name"], cookie["domain"]) for cookie in state["cookies"]} == {("session", "127.0.0.1"), ("session", "localhost")}
    assert len(site.asked("/")) == 2  # nothing was asked of the network
    server.request("DELETE", "/v1/browser/cookies")
    evaluate(server, "localStorage.clear(), localStorage.setItem('stranger', '1')")
    assert load(server, path) == data
    assert evaluate(server, "[localStorage.length, localStorage.getItem('token').length]") == [1, 1000000]
    visit(server, site.url)
    assert site.asked("/")[-1].headers["cookie"] == "session=7"
    assert evaluate(server, "[localStorage.getItem('größe'), localStorage.getItem('')]") == ["7\0\n\"", "empty"]


WORKER = """self.onfetch = (event) => event.respondWith(new Response(
    '<title>Mine</title><script>Object.keys = () => { for (;;); }; localStorage.clear()</script>', {headers: {'content-type': 'text/html'}}))"""


def test_a_service_worker_has_no_say(server, tester):  # noqa: F811
    """Or a site that was visited once could keep the state of all from being saved."""
    pages = {"/": "<title>Home</title>", "/sw.js": Page(headers={"content-type": "text/javascript"}, body=WORKER.encode())}
    with Site(pages) as site:
        visit(server, site.url)
        evaluate(server, """localStorage.setItem('kept', '1'), navigator.serviceWorker.register('/sw.js')
            .then(() => navigator.serviceWorker.ready).then((one) => new Promise((done) => {
                const look = () => one.active.state === 'activated' && done();
                one.active.onstatechange = look, look() }))""")
        server.request("DELETE", "/v1/browser/tabs/0")
        path = Path(f"/home/{tester}/worker.json")
        save(server, path)
        stored = {origin["origin"]: origin["localStorage"] for origin in json.loads(path.read_text())["origins"]}
        assert stored[site.url] == [{"name": "kept", "value": "1"}]


def test_an_origin_that_was_never_shown(server, tester):  # noqa: F811
    path = Path(f"/home/{tester}/made.json")
    path.write_text(json.dumps({"cookies": [], "origins": [{"origin": "https://nowhere.test", "localStorage": [{"name": "a", "value": "1"}]}]}))
    assert load(server, path)["origins"] == 1
    save(server, f"/home/{tester}/again.json")
    assert {"origin": "https://nowhere.test", "localStorage": [{"name": "a", "value": "1"}]} in \
        json.loads(Path(f"/home/{tester}/again.json").read_text())["origins"]


def test_playwright_reads_and_writes_the_same(server, site, tester, tmp_path):  # noqa: F811
    from playwright.sync_api import sync_playwright

    visit(server, site.url)
    evaluate(server, "localStorage.setItem('a', '1')")
    path = Path(f"/home/{tester}/pw.json")
    save(server, path)
    with sync_playwright() as playwright:
        browser = playwright.chromium.connect_over_cdp(server.url)
        context = browser.new_context(storage_state=json.loads(path.read_text()))
        page = context.new_page()
        page.goto(site.url)
        assert page.evaluate("localStorage.getItem('a')") == "1"
        page.evaluate("localStorage.setItem('b', '2')")
        context.storage_state(path=tmp_path / "theirs.json")
        context.close()
        browser.close()
    theirs = Path(f"/home/{tester}/theirs.json")
    theirs.write_text((tmp_path / "theirs.json").read_text())
    load(server, theirs)
    assert evaluate(server, "localStorage.getItem('b')") == "2"


def test_an_old_file_is_made_private(server, tester):  # noqa: F811
    path = Path(f"/home/{tester}/old.json")
    path.write_text("old")
    path.chmod(0o644)
    os.chown(path, *(getattr(pwd.getpwnam(tester), name) for name in ("pw_uid", "pw_gid")))
    save(server, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and json.loads(path.read_text())


def test_a_place_that_may_not_be_written(server):
    reply = STATE.reply(server, "save", path="/proc/state.json")
    assert not reply["success"] and "/proc" in reply["message"]
    reply = STATE.reply(server, "save", path="/root/state.json")
    assert not reply["success"] and not Path("/root/state.json").exists()


@pytest.mark.parametrize("content", ["", "x", "[]", "7", "{}", '{"cookies": 7}', '{"cookies": [], "origins": {}}', '{"cookies": [{"name": "a"}]}',
                                     '{"origins": [{"origin": "nonsense", "localStorage": []}]}',
                                     '{"origins": [{"origin": "http://x.test/path", "localStorage": []}]}',
                                     '{"origins": [{"origin": "http://x.test", "localStorage": [{"name": 7}]}]}', "[" * 100000])
def test_bad_files(server, tester, content):  # noqa: F811
    path = Path(f"/home/{tester}/bad.json")
    path.write_text(content)
    reply = STATE.reply(server, "load", path=str(path))
    assert not reply["success"] and reply["message"], reply


def test_a_file_that_is_not_there(server):
    reply = STATE.reply(server, "load", path="/nowhere/state.json")
    assert not reply["success"] and "/nowhere/state.json" in reply["message"]


def test_more_than_an_origin_may_store(server, tester):  # noqa: F811
    path = Path(f"/home/{tester}/large.json")
    path.write_text(json.dumps({"origins": [{"origin": "http://x.test", "localStorage": [{"name": "a", "value": "x" * (6 << 20)}]}]}))
    reply = STATE.reply(server, "load", path=str(path))
    assert not reply["success"] and "quota" in reply["message"].lower(), reply


@pytest.mark.parametrize("what", ["save", "load"])
def test_bad_requests(server, what):
    assert STATE.send(server, what).status_code == 422
    assert STATE.send(server, what, path="").status_code == 422
    assert STATE.send(server, what, path=7).status_code == 422
