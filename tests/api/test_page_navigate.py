"""Showing pages: what navigate waits for and says, the history, and what can be in the way."""

import os
import re
import signal
import time

import httpx
import pytest
from agent_sandbox import Sandbox

import desktop
from desktop import BROWSER_NEEDED, browser_processes, devtools, free_port, tabs, tester  # noqa: F401
from harness import ANSWER_SECONDS, Calls, eventually, sanitizer
from processes import patiently
from pages import site  # noqa: F401

pytestmark = BROWSER_NEEDED
PAGE = Calls("/v1/browser/page")


@pytest.fixture(scope="module")
def server(tester, start_shared):  # noqa: F811
    server = start_shared(**desktop.browser_options(tester))
    desktop.warm_browser(server)
    return server


@pytest.fixture(autouse=True)
def one_blank_tab(server, site):  # noqa: F811
    yield
    site.release()
    for _ in tabs(server):
        server.request("DELETE", "/v1/browser/tabs/0")
    assert [tab["url"] for tab in tabs(server)] == ["about:blank"]
    server.at_rest()


def go(server, url, **more):
    answer = PAGE.reply(server, "navigate", url=url, **more)
    assert answer["success"], answer
    return answer["data"]


def refused(server, what, **body):
    """Why it failed."""
    answer = PAGE.reply(server, what, **body)
    assert not answer["success"] and answer["data"] is None, answer
    return answer["message"]


def test_navigate(server, site):  # noqa: F811
    data = go(server, site.url + "/hello")
    assert data == {"url": site.url + "/hello", "title": "Hello", "status": 200, "download": False}
    assert tabs(server)[0]["url"] == site.url + "/hello"


def test_redirects_are_followed(server, site):  # noqa: F811
    data = go(server, site.url + "/moved")
    assert (data["url"], data["status"]) == (site.url + "/hello", 200)
    assert "without end" in refused(server, "navigate", url=site.url + "/loop")


@pytest.mark.parametrize("path, status, title", [("/broken", 500, "Broken"), ("/absent", 404, "Not found"), ("/empty", 404, None)])
def test_http_errors_are_pages(server, site, path, status, title):  # noqa: F811
    data = go(server, site.url + path)
    assert (data["url"], data["status"]) == (site.url + path, status)
    assert title is None or data["title"] == title


@pytest.mark.parametrize("url", ["data:text/html,<title>Data</title>", "about:blank"])
def test_without_http(server, url):
    data = go(server, url)
    assert data["url"] == url and data["status"] is None


def test_a_file(server, tester):  # noqa: F811
    path = f"/home/{tester}/page.html"
    with open(path, "w") as file:
        file.write("<title>From a file</title>")
    assert go(server, f"file://{path}")["title"] == "From a file"
    assert "no such file" in refused(server, "navigate", url=f"file://{path}x")


def test_the_title_is_the_document_s(server, site):  # noqa: F811
    """Whatever elements the page has by that name."""
    site.pages["/clobber"] = (200, {"content-type": "text/html"}, b"<title>Real</title><img name=title><form name=body></form>text")
    assert go(server, site.url + "/clobber")["title"] == "Real"
    assert server.get("/v1/browser/page/text").json()["data"] == "text"


# --- what cannot be shown ----------------------------------------------------------------------


@pytest.mark.parametrize("url", ["example.com", "/hello", "http://", "nonsense", "localhost:8000", "localhost:8000/a", "example.com:80"])
def test_what_is_not_an_address(server, url):
    assert "invalid URL" in (why := refused(server, "navigate", url=url)) and url in why


@pytest.mark.parametrize("url", ["unheard:of", "mailto:a@b.example", "TEL:+123", " zoommtg://zoom.us/join"])
def test_a_scheme_of_another_program(server, site, url):  # noqa: F811
    """Which Chromium would ask about in a window of its own: it would take all further input."""
    go(server, site.url + "/hello")
    assert "not for a browser" in (why := refused(server, "navigate", url=url)) and url.strip() in why
    opened = server.post("/v1/browser/tabs", {"url": url}).json()
    assert not opened["success"] and "not for a browser" in opened["message"] and len(tabs(server)) == 1
    assert PAGE.reply(server, "evaluate", expression="addEventListener('click', () => document.title = 'clicked')")["success"]
    assert PAGE.reply(server, "click", selector="h1")["success"]
    assert eventually(lambda: tabs(server)[0]["title"] == "clicked")


@pytest.mark.parametrize("url", ["example.com", "localhost:8000/"])
def test_a_tab_of_what_is_not_an_address(server, url):
    opened = server.post("/v1/browser/tabs", {"url": url}).json()
    assert not opened["success"] and "invalid URL" in opened["message"] and len(tabs(server)) == 1


def test_nothing_listens(server, site):  # noqa: F811
    go(server, site.url + "/hello")
    port = free_port()
    why = refused(server, "navigate", url=f"http://127.0.0.1:{port}/")
    assert "nothing listens" in why and "ERR_CONNECTION_REFUSED" in why and str(port) in why
    assert "network" not in why
    assert tabs(server)[0]["url"] == f"http://127.0.0.1:{port}/"
    assert go(server, site.url + "/hello")["title"] == "Hello"


def test_a_host_that_is_not_there(server):
    assert "no such host" in refused(server, "navigate", url="http://nowhere.invalid/")


def test_without_a_network_it_says_so(tester, start_server):  # noqa: F811
    """And how to get one; only where that may help."""
    options = desktop.browser_options(tester, "--browser-profile", f"/home/{tester}/offline", AIO_SANDBOX_NETWORK="none")
    server = start_server(**options)
    desktop.warm_browser(server)
    why = refused(server, "navigate", url="http://nowhere.invalid/")
    assert "this sandbox has no network" in why and "aio create --network" in why
    assert "has no network" not in refused(server, "navigate", url=f"http://127.0.0.1:{free_port()}/")


def test_no_document(server, site):  # noqa: F811
    """204: the page stays."""
    go(server, site.url + "/hello")
    assert "204" in refused(server, "navigate", url=site.url + "/nothing")
    assert tabs(server)[0]["url"] == site.url + "/hello"


def test_a_download(server, site, tester):  # noqa: F811
    go(server, site.url + "/hello")
    answer = PAGE.reply(server, "navigate", url=site.url + "/file")
    assert answer["success"] and "download" in answer["message"]
    assert answer["data"] == {"url": site.url + "/hello", "title": "Hello", "status": 200, "download": True}
    assert eventually(lambda: os.path.exists(f"/home/{tester}/Downloads/report.bin"))


@pytest.mark.parametrize("body", [{}, {"url": ""}, {"url": 7}, {"url": "about:blank", "wait_until": "never"},
                                  {"url": "about:blank", "timeout": -1}, {"url": "about:blank", "timeout": "x"}])
def test_bad_requests(server, body):
    assert PAGE.refused(server, "navigate", **body)[0] == 422


# --- what is waited for ------------------------------------------------------------------------


def test_a_slow_server(server, site):  # noqa: F811
    began = time.monotonic()
    assert "/slow" in (why := refused(server, "navigate", url=site.url + "/slow", timeout=1)) and "in time" in why
    assert 1 <= time.monotonic() - began < 10
    peer = server.begin("/v1/browser/page/navigate", url=site.url + "/slow?again")
    assert eventually(lambda: ("GET", "/slow?again") in site.seen)
    site.release()
    assert peer.answer("POST").json()["data"]["title"] == "Slow"


@pytest.mark.parametrize("until, comes", [("commit", True), ("domcontentloaded", False), ("load", False), ("networkidle", False)])
def test_an_endless_load(server, site, until, comes):  # noqa: F811
    answer = PAGE.reply(server, "navigate", url=site.url + "/endless", wait_until=until, timeout=20 if comes else 1)
    assert answer["success"] == comes
    assert comes or f"'{until}'" in answer["message"]
    assert eventually(lambda: server.get("/v1/browser/page/text").json()["data"] == "begun")


def test_a_document_before_its_pictures(server, site):  # noqa: F811
    site.pages["/album"] = (200, {"content-type": "text/html"}, b"<title>Album</title><img src=/slow>text")
    assert go(server, site.url + "/album", wait_until="domcontentloaded")["title"] == "Album"
    assert "'load'" in refused(server, "navigate", url=site.url + "/album", timeout=1)


def test_an_idle_network(server, site):  # noqa: F811
    """Not before what the page asks for later is there."""
    site.pages["/later"] = (200, {"content-type": "text/html"},
                            b"<title>Early</title><script>onload = () => fetch('/slow-later').then((r) => r.text()).then(() => document.title = 'Late')</script>")
    assert go(server, site.url + "/later")["title"] == "Early"
    peer = server.begin("/v1/browser/page/navigate", url=site.url + "/later", wait_until="networkidle")
    assert eventually(lambda: site.seen.count(("GET", "/slow-later")) == 2)
    site.release()
    answer = peer.answer("POST").json()
    assert answer["success"] and answer["data"]["title"] == "Late", answer


# --- within a document, back and forth ---------------------------------------------------------


def test_history(server, site):  # noqa: F811
    for path in ("/hello", "/broken", "/hello#part"):
        go(server, site.url + path)
    shown = lambda what: PAGE.ask(server, what)["url"].removeprefix(site.url)  # noqa: E731
    assert [shown("back"), shown("back")] == ["/broken", "/hello"]
    assert [shown("forward"), shown("reload")] == ["/broken", "/broken"]
    assert site.seen[-1] == ("GET", "/broken")


def test_the_ends_of_the_history(server, site):  # noqa: F811
    server.post("/v1/browser/tabs", {"url": site.url + "/hello"})
    assert "no page to go forward" in refused(server, "forward")
    assert eventually(lambda: "no page to go back" in PAGE.reply(server, "back")["message"])


def test_moves_within_a_document(server, site):  # noqa: F811
    go(server, site.url + "/hello")
    count = len(site.seen)
    assert go(server, site.url + "/hello#there")["url"].endswith("#there")
    with devtools(server) as page:
        page.evaluate("history.pushState({}, '', '/app/2')")
    assert eventually(lambda: tabs(server)[0]["url"] == site.url + "/app/2")
    assert PAGE.ask(server, "back")["url"] == site.url + "/hello#there"
    assert PAGE.ask(server, "forward")["url"] == site.url + "/app/2"
    assert len(site.seen) == count


def test_back_to_a_server_that_is_gone(server, site):  # noqa: F811
    gone = type(site)()
    go(server, gone.url + "/hello")
    go(server, site.url + "/hello")
    gone.close()
    assert gone.url in refused(server, "back")
    assert go(server, site.url + "/hello")["title"] == "Hello"


# --- what is in the way ------------------------------------------------------------------------


LEAVE = b"<title>Stay</title><script>onbeforeunload = (event) => { event.preventDefault(); return 'no' }</script>"


@pytest.mark.parametrize("outside", [False, True])
def test_a_page_that_asks_does_not_hold_up(server, site, outside):  # noqa: F811
    """It is left at once; or, while a client of others is there that might answer, in seconds."""
    site.pages["/stay"] = (200, {"content-type": "text/html"}, LEAVE)
    go(server, site.url + "/hello")
    go(server, site.url + "/stay")
    with devtools(server) as page:
        page.evaluate("1")  # as if somebody had used the page: else it may not ask
        if outside:
            assert go(server, site.url + "/hello")["title"] == "Hello"
    if not outside:
        assert PAGE.ask(server, "reload")["title"] == "Stay"
        assert PAGE.ask(server, "back")["title"] == "Hello"


def test_a_dialog_while_it_loads(server, site):  # noqa: F811
    site.pages["/alert"] = (200, {"content-type": "text/html"}, b"<script>alert('Look')</script>")
    answer = PAGE.reply(server, "navigate", url=site.url + "/alert")
    assert not answer["success"] and "Look" in answer["message"] and "Look" in answer["hint"]
    for what in ("html", "text"):
        why = server.get(f"/v1/browser/page/{what}").json()
        assert not why["success"] and "Look" in why["message"] and "/dialog" in why["message"]


def kill(server, kind):
    for pid in browser_processes(server).get(kind, []):
        os.kill(pid, signal.SIGKILL)


def test_a_page_that_crashed(server, site):  # noqa: F811
    go(server, site.url + "/hello")
    kill(server, "renderer")
    assert eventually(lambda: "crashed" in (server.get("/v1/browser/page/text").json()["message"]))
    assert PAGE.ask(server, "reload")["title"] == "Hello"
    kill(server, "renderer")
    assert eventually(lambda: "crashed" in (server.get("/v1/browser/page/text").json()["message"]))
    assert go(server, site.url + "/broken")["title"] == "Broken"


def test_a_renderer_killed_before_the_page_has_come(server, site):  # noqa: F811
    """Not by the page, which has not been there: it is asked for once more."""
    go(server, site.url + "/hello")
    peer = server.begin("/v1/browser/page/navigate", url=site.url + "/slow?once-more")
    assert eventually(lambda: ("GET", "/slow?once-more") in site.seen)
    kill(server, "renderer")
    assert eventually(lambda: site.seen.count(("GET", "/slow?once-more")) == 2)
    site.release()
    assert peer.answer("POST").json()["data"]["title"] == "Slow"


def test_a_renderer_killed_in_mid_call(server, site):  # noqa: F811
    go(server, site.url + "/hello")
    peer = server.begin("/v1/browser/page/evaluate", expression="new Promise(() => {})")
    kill(server, "renderer")
    began = time.monotonic()
    answer = peer.answer("POST")
    assert b"crashed" in answer.body and time.monotonic() - began < 10
    assert go(server, site.url + "/hello")["title"] == "Hello"


@pytest.mark.parametrize("path", ["/slow", "/endless"])
def test_a_browser_killed_in_mid_call(server, site, path):  # noqa: F811
    """An error within 2 s, and the next call has another browser. A busy machine may have to be asked again."""
    def seconds(attempt):
        url = f"{path}?{attempt}"
        peer = server.begin("/v1/browser/page/navigate", url=site.url + url)
        assert eventually(lambda: ("GET", url) in site.seen)
        kill(server, "browser")
        began = time.monotonic()
        answer = peer.answer("POST")
        took = time.monotonic() - began
        assert answer.status == 503 and b"browser" in answer.body, answer
        assert go(server, site.url + "/hello")["title"] == "Hello"
        return took

    assert patiently(seconds, lambda took: took < 2) < 2
    server.at_rest()
    server.baseline = server.possessions()


def test_two_tabs_at_once(server, site):  # noqa: F811
    """A call is for the tab that was current when it came."""
    first = server.begin("/v1/browser/page/navigate", url=site.url + "/slow?1")
    assert eventually(lambda: ("GET", "/slow?1") in site.seen)
    server.post("/v1/browser/tabs", {})
    second = server.begin("/v1/browser/page/navigate", url=site.url + "/slow?2")
    assert eventually(lambda: ("GET", "/slow?2") in site.seen)
    assert go(server, site.url + "/hello")["title"] == "Hello"  # takes the place of the second
    site.release()
    assert first.answer("POST").json()["data"]["url"] == site.url + "/slow?1"
    assert not second.answer("POST").json()["success"]
    assert [tab["title"] for tab in tabs(server)] == ["Slow", "Hello"]


# --- what it holds -----------------------------------------------------------------------------


def test_html_and_text(server, site):  # noqa: F811
    site.pages["/text"] = (200, {"content-type": "text/html; charset=utf-8"},
                           "<!doctype html><html lang=en><title>Täxt</title><body>日本 <b>bold</b><i hidden>no</i><script>document.body.append('!')</script>".encode())
    go(server, site.url + "/text")
    assert server.get("/v1/browser/page/text").json()["data"].strip() == "日本 bold!"
    inner = server.get("/v1/browser/page/html").json()["data"]
    assert inner.startswith("<head><title>Täxt</title>") and "<i hidden" in inner and "!</body>" in inner
    outer = server.get("/v1/browser/page/html?outer=true").json()["data"]
    assert outer == f'<!DOCTYPE html>\n<html lang="en">{inner}</html>'


def test_a_page_that_is_too_large(server, site):  # noqa: F811
    go(server, site.url + "/hello")
    with devtools(server) as page:
        page.evaluate("document.body.textContent = 'x'.repeat(20000000), 1")
    for what in ("html", "text"):
        answer = server.get(f"/v1/browser/page/{what}").json()
        assert not answer["success"] and "20000" in answer["message"]


@pytest.mark.serial
@pytest.mark.skipif(bool(sanitizer()), reason="a sanitizer keeps what was freed")
def test_a_hundred_pages_do_not_grow_the_server(server, site):  # noqa: F811
    def memory():
        with open(f"/proc/{server.pid}/smaps_rollup") as file:
            return int(re.search(r"Anonymous: +(\d+)", file.read())[1])

    for _ in range(30):
        go(server, site.url + "/hello")
    before = memory()
    for _ in range(100):
        go(server, site.url + "/hello")
    assert memory() - before < 2048, (before, memory())


# --- what is remembered of it -------------------------------------------------------------------


def test_pages_are_events_of_the_sandbox(server, site):  # noqa: F811
    def shown(after):
        events = server.get(f"/v1/sandbox/events?type=page_shown&after={after}").json()["data"]
        return [(event["data"]["url"].removeprefix(site.url), event["data"]["failed"]) for event in events]

    after = max(event["seq"] for event in server.get("/v1/sandbox/events").json()["data"])
    go(server, site.url + "/hello?password=hunter2")
    go(server, site.url + "/moved")
    PAGE.ask(server, "reload")
    refused(server, "navigate", url=f"http://127.0.0.1:{free_port()}/")
    assert eventually(lambda: len(shown(after)) == 3)
    assert shown(after)[:2] == [("/hello?password=***", False), ("/hello", False)] and shown(after)[2][1]


# --- the official SDK ---------------------------------------------------------------------------


def test_the_sdk(server, site, tester):  # noqa: F811
    with httpx.Client(timeout=ANSWER_SECONDS) as client:
        page = Sandbox(base_url=server.url, httpx_client=client).browser_page
        assert page.navigate(url=site.url + "/hello", wait_until="domcontentloaded", timeout=20).data["title"] == "Hello"
        assert page.navigate(url=site.url + "/broken").success
        assert page.back().success and page.forward().success and page.reload().success
        assert page.evaluate(expression="[document.title, {n: 1}]").data == ["Broken", {"n": 1}]
        assert "<body>" in page.get_html().data and page.get_html(outer=True).data.startswith("<!DOCTYPE")
        assert page.get_text().data == "sorry"
        page.evaluate(expression="console.warn('from the SDK')")
        assert page.wait(type="function", expression="1", polling=10, timeout=5).data == {"value": 1}
        assert page.wait(type="selector", selector="body", state="visible").success
        assert page.wait(type="url", url=site.url + "/broken").success
        assert eventually(lambda: [entry["text"] for entry in page.get_console().data][-1:] == ["from the SDK"])
        exported = page.export_console(save_path=f"/home/{tester}/sdk.json", clear=True)
        assert exported.success and page.get_console(clear=True).data == []
