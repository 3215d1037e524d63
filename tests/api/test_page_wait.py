"""Waiting for the page: each type comes when it should, says so when it does not, and outlives changes of the page."""

import os
import time

import pytest

import desktop
from desktop import BROWSER_NEEDED, tabs, tester  # noqa: F401
from harness import Calls, eventually
from pages import page, site  # noqa: F401

pytestmark = BROWSER_NEEDED
PAGE = Calls("/v1/browser/page")


@pytest.fixture(scope="module")
def server(tester, start_shared):  # noqa: F811
    server = start_shared(**desktop.browser_options(tester))
    desktop.warm_browser(server)
    return server


@pytest.fixture(autouse=True)
def one_page(server, site):  # noqa: F811
    go(server, site.url + "/hello")
    yield
    site.release()
    server.at_rest()


def go(server, url, **more):
    answer = PAGE.reply(server, "navigate", url=url, **more)
    assert answer["success"], answer
    return answer["data"]


def run(server, script):
    answer = PAGE.reply(server, "evaluate", expression=f"{script}; 0")
    assert answer["success"], answer


def wait(server, kind, **more):
    answer = PAGE.reply(server, "wait", type=kind, **more)
    assert answer["success"], answer
    return answer["data"]


def late(server, kind, **more):
    """Why it did not come, after a second."""
    began = time.monotonic()
    answer = PAGE.reply(server, "wait", type=kind, timeout=1, **more)
    assert not answer["success"] and answer["data"] is None, answer
    assert 0.8 <= time.monotonic() - began < 15
    return answer["message"]


class Waiting:
    """A wait that has begun before what it waits for."""

    def __init__(self, server, kind, **more):
        self.peer = server.begin("/v1/browser/page/wait", type=kind, **more)

    def data(self):
        with self.peer:
            answer = self.peer.answer("POST").json()
        assert answer["success"], answer
        return answer["data"]


# --- elements ----------------------------------------------------------------------------------


def test_an_element(server):
    assert "h1" in wait(server, "selector", selector="h1")["element"]
    waiting = Waiting(server, "selector", selector="#late")
    run(server, "setTimeout(() => document.body.insertAdjacentHTML('beforeend', '<p id=late>x</p>'), 300)")
    assert waiting.data() | {"element": ""} == {"selector": "#late", "state": "visible", "element": ""}
    assert "#never" in late(server, "selector", selector="#never")


@pytest.mark.parametrize("state, before, after", [
    ("attached", "", "<p id=it hidden>"), ("hidden", "<p id=it>x", "<p id=it hidden>x"), ("detached", "<p id=it>", ""), ("visible", "<p id=it hidden>x", "<p id=it>x")])
def test_states_of_an_element(server, state, before, after):
    run(server, f"document.body.innerHTML = '{before}'")
    assert state in late(server, "selector", selector="#it", state=state) or state == "attached"
    waiting = Waiting(server, "selector", selector="#it", state=state)
    run(server, f"setTimeout(() => document.body.innerHTML = '{after}', 200)")
    assert waiting.data()["state"] == state


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_an_element_of_a_frame(server, site, host):  # noqa: F811
    """Of this site or of another one, as clicks find them too."""
    site.pages["/inner"] = page("Inner", "<script>onmessage = (event) => { document.body.innerHTML = event.data }</script>")
    waiting = Waiting(server, "selector", selector="#deep")
    run(server, f"document.body.innerHTML = '<iframe id=f src={site.url.replace('127.0.0.1', host)}/inner></iframe>'")
    run(server, "new Promise((done) => f.onload = done)")
    assert "#deep" in late(server, "selector", selector="#deep", state="attached")
    run(server, "f.contentWindow.postMessage('<p id=deep>x', '*')")
    assert waiting.data() == {"selector": "#deep", "state": "visible", "element": '<p id="deep">'}
    assert "in another frame is not hidden" in late(server, "selector", selector="#deep", state="hidden")
    waiting = Waiting(server, "selector", selector="#deep", state="detached")
    run(server, "setTimeout(() => f.contentWindow.postMessage('', '*'), 300)")
    assert waiting.data()["state"] == "detached"
    wait(server, "selector", selector="#deep", state="hidden")


def test_an_element_of_the_next_page(server, site):  # noqa: F811
    site.pages["/next"] = page("Next", "<b id=next>here</b>")
    waiting = Waiting(server, "selector", selector="#next")
    run(server, "setTimeout(() => location.href = '/next', 300)")
    assert waiting.data()["selector"] == "#next"
    assert tabs(server)[0]["url"] == site.url + "/next"


def test_what_is_not_a_selector(server):
    for more in ({"selector": "###"}, {"selector": "h1", "state": "happy"}):
        answer = PAGE.reply(server, "wait", type="selector", **more)
        assert not answer["success"] and ("###" in answer["message"] or "happy" in answer["message"]), answer


# --- documents and addresses -------------------------------------------------------------------


def test_the_document(server, site):  # noqa: F811
    assert wait(server, "load")["url"] == site.url + "/hello"
    go(server, site.url + "/endless", wait_until="commit")
    assert "'load'" in late(server, "load")
    assert wait(server, "load", state="commit")["url"] == site.url + "/endless"
    waiting = Waiting(server, "load", state="domcontentloaded")
    site.release()
    assert waiting.data()["url"] == site.url + "/endless"
    assert PAGE.refused(server, "wait", type="load", state="happy")[0] == 422


@pytest.mark.parametrize("kind", ["load", "network_idle"])
@pytest.mark.parametrize("way", ["tab", "script"])
def test_a_document_that_is_on_its_way(server, site, kind, way):  # noqa: F811
    """Not the one that is still there, of which the caller has asked for another."""
    path = f"/slow-{way}-{kind}"
    if way == "tab":
        server.post("/v1/browser/tabs", {"url": site.url + path})
    else:
        run(server, f"void (location.href = '{path}')")
    assert eventually(lambda: ("GET", path) in site.seen)
    waiting = Waiting(server, kind)
    site.release()
    assert waiting.data()["url"] == site.url + path
    for _ in tabs(server)[1:]:
        server.request("DELETE", "/v1/browser/tabs/1")


@pytest.mark.parametrize("kind", ["load", "network_idle"])
def test_a_document_that_never_comes(server, site, kind):  # noqa: F811
    """The response says that there is none: what is shown stays."""
    path = f"/slow-nothing-{kind}"
    site.pages[path] = 204, {}, b""
    run(server, f"void (location.href = '{path}')")
    assert eventually(lambda: ("GET", path) in site.seen)
    waiting = Waiting(server, kind)
    site.release()
    assert waiting.data()["url"] == site.url + "/hello"


@pytest.mark.parametrize("pattern", ["{site}/app/2", "**/app/*", "/app/2", "app/2"])
def test_an_address(server, site, pattern):  # noqa: F811
    pattern = pattern.replace("{site}", site.url)
    assert "/hello" in late(server, "url", url=pattern)
    waiting = Waiting(server, "url", url=pattern)
    run(server, "setTimeout(() => history.pushState({}, '', '/app/2'), 200)")
    assert waiting.data()["url"] == site.url + "/app/2"


def test_an_address_after_a_navigation(server, site):  # noqa: F811
    waiting = Waiting(server, "url", url_pattern="**/broken")
    run(server, "setTimeout(() => location.href = '/broken', 200)")
    assert waiting.data()["url"] == site.url + "/broken"
    assert PAGE.ask(server, "evaluate", expression="document.title") == "Broken"


def test_an_idle_network(server, site):  # noqa: F811
    began = time.monotonic()
    wait(server, "network_idle")
    assert time.monotonic() - began >= 0.5
    run(server, "fetch('/slow').then((r) => r.text()).then(() => document.title = 'Late')")
    assert "networkidle" in late(server, "network_idle")
    waiting = Waiting(server, "network_idle")
    site.release()
    waiting.data()
    assert PAGE.ask(server, "evaluate", expression="document.title") == "Late"


# --- functions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("expression, value", [
    ("globalThis.ready", {"at": 1}), ("() => globalThis.ready", {"at": 1}), ("async () => globalThis.ready && 7", 7), ("ready", None),
    ("const r = globalThis.ready; return r && r.at", 1), ("globalThis.ready && document.body", "ref: <Node>")])
@pytest.mark.parametrize("polling", [None, 50])
def test_a_function(server, expression, value, polling):
    run(server, "setTimeout(() => globalThis.ready = {at: 1}, 300)")
    if value is None:  # there is no such name yet, which is an error and not false
        answer = PAGE.reply(server, "wait", type="function", expression=expression)
        assert not answer["success"] and answer["message"].startswith("ReferenceError: ready is not defined\n    at ")
        return
    assert wait(server, "function", expression=expression, polling=polling) == {"value": value}


def test_functions_that_do_not_come_true(server):
    assert "0 > 1" in late(server, "function", expression="0 > 1")
    assert "in time" in late(server, "function", expression="new Promise(() => {})")
    assert "in time" in late(server, "function", expression="() => { while (true); }")
    assert PAGE.ask(server, "evaluate", expression="document.title") == "Hello"
    answer = PAGE.reply(server, "wait", type="function", expression="1 +")
    assert not answer["success"] and answer["message"].startswith("SyntaxError")


def test_a_function_over_changes_of_the_page(server, site):  # noqa: F811
    waiting = Waiting(server, "function", expression="document.title === 'Broken' && location.pathname")
    run(server, "setTimeout(() => location.href = '/moved', 200)")
    assert eventually(lambda: tabs(server)[0]["url"] == site.url + "/hello" and ("GET", "/moved-2") in site.seen)
    go(server, site.url + "/broken")
    assert waiting.data() == {"value": "/broken"}


def test_under_a_strict_policy(server, site):  # noqa: F811
    site.pages["/strict"] = page("Strict", "x", content_security_policy="default-src 'none'; script-src 'none'")
    go(server, site.url + "/strict")
    assert wait(server, "function", expression="() => document.title === 'Strict'") == {"value": True}


# --- the network -------------------------------------------------------------------------------


def test_a_response(server, site):  # noqa: F811
    waiting = Waiting(server, "response", url_pattern="**/absent*")
    run(server, "setTimeout(() => fetch('/absent?1'), 300)")
    data = waiting.data()
    assert (data["url"], data["status"], data["method"]) == (site.url + "/absent?1", 404, "GET")
    assert "nowhere" in late(server, "response", url_pattern="**/nowhere")


def test_a_response_that_the_call_before_set_off(server, site):  # noqa: F811
    """It may be there before it is waited for; what is older does not count."""
    run(server, "await (await fetch('/hello?2')).text()")
    assert wait(server, "response", url_pattern="**/hello?2")["url"] == site.url + "/hello?2"
    PAGE.ask(server, "evaluate", expression="1")
    assert "no response" in late(server, "response", url_pattern="**/hello?2")


def test_a_request(server, site):  # noqa: F811
    waiting = Waiting(server, "request", url_pattern="**/slow")
    run(server, "setTimeout(() => fetch('/slow', {method: 'POST', body: 'x'}), 300)")
    data = waiting.data()
    assert (data["url"], data["method"], data["resource_type"]) == (site.url + "/slow", "POST", "fetch")


# --- downloads ---------------------------------------------------------------------------------


def test_a_download(server, site, tester):  # noqa: F811
    """Waited for before it begins, or after it has ended; copied where the caller wants it."""
    run(server, "setTimeout(() => location.href = '/file', 300)")
    data = wait(server, "download", save_path="made/copy.bin")
    assert data == {"path": f"/home/{tester}/made/copy.bin", "url": site.url + "/file", "suggested_filename": "report.bin", "size": 1000}
    with open(data["path"], "rb") as file:
        assert file.read() == b"x" * 1000
    assert os.stat(data["path"]).st_uid == os.stat(f"/home/{tester}").st_uid
    assert PAGE.ask(server, "navigate", url=site.url + "/file")["download"]
    path = wait(server, "download")["path"]
    assert path.startswith(f"/home/{tester}/Downloads/report") and os.path.getsize(path) == 1000
    assert "no download began" in late(server, "download")


def test_a_download_that_does_not_end(server, site):  # noqa: F811
    site.pages["/endless-file"] = (200, {"content-type": "application/octet-stream"}, b"x" * 100)
    assert PAGE.ask(server, "navigate", url=site.url + "/endless-file")["download"]
    assert "no download ended" in late(server, "download")
    waiting = Waiting(server, "download", save_path="/root/no")
    site.release()
    with waiting.peer:
        answer = waiting.peer.answer("POST").json()
    assert not answer["success"] and "/root/no" in answer["message"]


# --- all of them -------------------------------------------------------------------------------


def test_time(server):
    began = time.monotonic()
    assert wait(server, "timeout", timeout=1) == {"waited": 1}
    assert 1 <= time.monotonic() - began < 15


def test_a_page_that_crashes_ends_the_wait(server, site):  # noqa: F811
    for kind, more in (("url", {"url": "**/never"}), ("selector", {"selector": "#never"}), ("function", {"expression": "false"}),
                       ("response", {"url_pattern": "**/never"})):
        waiting = Waiting(server, kind, **more)
        for pid in desktop.browser_processes(server)["renderer"]:
            os.kill(pid, 9)
        with waiting.peer:
            answer = waiting.peer.answer("POST").json()
        assert not answer["success"] and "crashed" in answer["message"], (kind, answer)
        go(server, site.url + "/hello")


def test_two_tabs_at_once(server, site):  # noqa: F811
    first = Waiting(server, "function", expression="globalThis.go")
    assert eventually(lambda: PAGE.ask(server, "evaluate", expression="1") == 1)
    server.post("/v1/browser/tabs", {"url": site.url + "/broken"})
    second = Waiting(server, "function", expression="globalThis.go")
    assert eventually(lambda: PAGE.ask(server, "evaluate", expression="document.title") == "Broken")
    run(server, "globalThis.go = 'second'")
    assert second.data() == {"value": "second"}
    server.request("PUT", "/v1/browser/tabs/0/activate")
    run(server, "globalThis.go = 'first'")
    assert first.data() == {"value": "first"}
    server.request("DELETE", "/v1/browser/tabs/1")


@pytest.mark.parametrize("body", [
    {}, {"type": "patience"}, {"type": "selector"}, {"type": "url"}, {"type": "function"}, {"type": "response"}, {"type": "request"},
    {"type": "timeout", "timeout": -1}, {"type": "function", "expression": "1", "polling": -1}, {"type": "selector", "selector": ""}])
def test_bad_requests(server, body):
    assert PAGE.refused(server, "wait", **body)[0] == 422
