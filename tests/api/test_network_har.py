"""The requests of a tab as an HTTP archive, field by field as HAR 1.2 has it."""

import base64
import json
import pwd
import re
from pathlib import Path

import pytest

import desktop
from desktop import BROWSER_NEEDED, devtools, tabs, tester  # noqa: F401
from harness import Calls, eventually
from sites import Page, Site

pytestmark = BROWSER_NEEDED
BROWSER = Calls("/v1/browser")
NETWORK = Calls("/v1/browser/network")
MOMENT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z"
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")


@pytest.fixture(scope="module")
def server(tester, start_shared):  # noqa: F811
    server = start_shared(**desktop.browser_options(tester))
    desktop.warm_browser(server)
    return server


@pytest.fixture(autouse=True)
def one_blank_tab(server):
    yield
    for _ in tabs(server):
        server.request("DELETE", "/v1/browser/tabs/0")
    server.at_rest()


@pytest.fixture
def site():
    pages = {"/": Page(headers={"set-cookie": ["a=1; Path=/", "b=2=3; HttpOnly"]}, body=b"<title>Home</title>gr\xc3\xb6\xc3\x9fe"),
             "/picture": Page(headers={"content-type": "image/png"}, body=PNG),
             "/away": Page(302, {"location": "/data"}),
             "/data": Page(headers={"content-type": "application/json"}, body=b'{"a": 1}'),
             "/large": Page(headers={"content-type": "text/plain"}, body=b"x" * (2 << 20))}
    with Site(pages) as site:
        yield site


def is_a(value, kind):
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


def check(thing, **fields):
    """That all required fields are there and have their type; others are optional, comments, or begin with _."""
    for name, kind in fields.items():
        optional = name.endswith("_")
        name = name.rstrip("_")
        if not optional or name in thing:
            assert is_a(thing[name], kind), f"{name} of {thing}"
    extra = {name for name in thing if not name.startswith("_")} - {name.rstrip("_") for name in fields} - {"comment"}
    assert not extra, extra


def check_pairs(items):
    for item in items:
        check(item, name=str, value=str)


def check_har(har):
    assert set(har) == {"log"}
    log = har["log"]
    check(log, version=str, creator=dict, browser=dict, pages=list, entries=list)
    assert log["version"] == "1.2"
    check(log["creator"], name=str, version=str)
    check(log["browser"], name=str, version=str)
    assert re.fullmatch(r"[\d.]+", log["browser"]["version"])
    for page in log["pages"]:
        check(page, startedDateTime=str, id=str, title=str, pageTimings=dict)
        check(page["pageTimings"], onContentLoad=(int, float), onLoad=(int, float))
        assert re.fullmatch(MOMENT, page["startedDateTime"])
    for entry in log["entries"]:
        check_entry(entry, {page["id"] for page in log["pages"]})
    starts = [page["id"] for page in log["pages"]]
    assert len(set(starts)) == len(starts)
    return log


def check_entry(entry, pages):
    check(entry, pageref_=str, startedDateTime=str, time=(int, float), request=dict, response=dict, cache=dict, timings=dict,
          serverIPAddress_=str, connection_=str)
    assert re.fullmatch(MOMENT, entry["startedDateTime"]) and entry.get("pageref", next(iter(pages), None)) in pages
    request, response, content, times = entry["request"], entry["response"], entry["response"]["content"], entry["timings"]
    check(request, method=str, url=str, httpVersion=str, cookies=list, headers=list, queryString=list, postData_=dict, headersSize=int,
          bodySize=int)
    check(response, status=int, statusText=str, httpVersion=str, cookies=list, headers=list, content=dict, redirectURL=str, headersSize=int,
          bodySize=int)
    check(content, size=int, mimeType=str, text_=str, encoding_=str)
    assert ("text" in content) != ("comment" in content)
    check(times, blocked=(int, float), dns=(int, float), connect=(int, float), send=(int, float), wait=(int, float),
          receive=(int, float), ssl=(int, float))
    assert min(times["send"], times["wait"], times["receive"]) >= 0
    parts = [value for name, value in times.items() if name != "ssl" and value >= 0]
    assert entry["time"] == pytest.approx(sum(parts), abs=0.01)
    for pairs in (request["headers"], request["cookies"], request["queryString"], response["headers"], response["cookies"]):
        check_pairs(pairs)
    if "postData" in request:
        check(request["postData"], mimeType=str, params=list, text=str)


def visit(server, site, expression="0"):
    BROWSER.ask(server, "tabs", url=site.url + "/")
    assert eventually(lambda: tabs(server)[-1]["title"] == "Home")
    with devtools(server) as page:
        page.evaluate(expression)


def export(server, **body):
    reply = NETWORK.reply(server, "export_har", **body)
    assert reply["success"], reply
    return reply["data"]


def entry_of(server, path):
    """The entry whose URL ends so, once it is there with its body or the reason that it has none."""
    def found():
        for entry in check_har(export(server))["entries"]:
            if entry["request"]["url"].endswith(path) and "still" not in entry["response"]["content"].get("comment", ""):
                return entry
        return None

    entry = eventually(found)
    assert entry, path
    return entry


def test_an_archive_in_the_response(server, site):
    visit(server, site, """fetch('/data?name=gr%C3%B6%C3%9Fe&empty=&x', {method: 'POST', headers: {'content-type': 'text/x-mine'}, body: 'sent'})
        .then((r) => r.text())""")
    entry = entry_of(server, "&x")
    request, response = entry["request"], entry["response"]
    assert (request["method"], request["httpVersion"], request["bodySize"]) == ("POST", "HTTP/1.1", 4)
    assert request["queryString"] == [{"name": "name", "value": "größe"}, {"name": "empty", "value": ""}, {"name": "x", "value": ""}]
    assert request["postData"] == {"mimeType": "text/x-mine", "params": [], "text": "sent"}
    assert eventually(lambda: {"name": "a", "value": "1"} in entry_of(server, "&x")["request"]["cookies"])
    assert {"name": "b", "value": "2=3"} in entry_of(server, "&x")["request"]["cookies"]
    assert (response["status"], response["statusText"]) == (200, "OK")
    assert response["content"] == {"size": 8, "mimeType": "application/json", "text": '{"a": 1}'}
    assert entry["serverIPAddress"] == "127.0.0.1" and entry["_resourceType"] == "fetch"
    log = check_har(export(server))
    assert log["pages"][-1]["title"] == site.url + "/" and log["pages"][-1]["id"] == entry["pageref"]
    assert log["pages"][-1]["pageTimings"]["onLoad"] > 0


def test_cookies_of_a_response(server, site):
    visit(server, site)
    assert eventually(lambda: entry_of(server, f"{site.port}/")["response"]["cookies"] ==
                      [{"name": "a", "value": "1"}, {"name": "b", "value": "2=3"}])
    headers = [header["value"] for header in entry_of(server, f"{site.port}/")["response"]["headers"] if header["name"].lower() == "set-cookie"]
    assert headers == ["a=1; Path=/", "b=2=3; HttpOnly"]


def test_bodies(server, site):
    visit(server, site, """Promise.all(['/picture', '/away', '/large', '/gone'].map((path) => fetch(path).then((r) => r.arrayBuffer())))
        .then(() => fetch('http://127.0.0.1:9/').catch(() => 0)).then(() => 0)""")
    picture = entry_of(server, "/picture")["response"]["content"]
    assert picture["encoding"] == "base64" and base64.b64decode(picture["text"]) == PNG
    large = entry_of(server, "/large")["response"]["content"]
    assert large["size"] == 2 << 20 and "larger" in large["comment"]
    away = entry_of(server, "/away")["response"]
    assert away["status"] == 302 and away["redirectURL"] == "/data"
    assert entry_of(server, "/gone")["response"]["content"]["text"] == "not found"
    failed = entry_of(server, ":9/")["response"]
    assert failed["status"] == 0 and failed["_error"].startswith("net::ERR_") and "failed" in failed["content"]["comment"]


def test_a_file(server, site, tester):  # noqa: F811
    visit(server, site)
    path = Path(f"/home/{tester}/new/har.json")
    data = export(server, save_path=str(path))
    log = check_har(json.loads(path.read_text()))
    assert data == {"path": str(path), "entries": len(log["entries"]), "bytes": path.stat().st_size}
    assert pwd.getpwuid(path.stat().st_uid).pw_name == tester
    assert export(server, save_path="relative.har")["path"] == f"/home/{tester}/relative.har"


def test_nothing_yet(server):
    BROWSER.ask(server, "tabs")
    log = check_har(export(server))
    assert log["entries"] == [] == log["pages"]


def test_a_place_that_may_not_be_written(server):
    for path in ("/proc/x.har", "/root/x.har"):
        reply = NETWORK.reply(server, "export_har", save_path=path)
        assert not reply["success"] and not Path(path).exists()
    assert NETWORK.send(server, "export_har", save_path=7).status_code == 422
    assert NETWORK.send(server, "export_har", save_path="").status_code == 422


def test_a_page_that_waits_for_a_dialog(server, site):
    visit(server, site)
    with devtools(server) as page:
        page.call("Page.enable")
        page.send("Runtime.evaluate", expression="alert(1)", userGesture=True)
        page.event("Page.javascriptDialogOpening")
        log = check_har(export(server))
        assert "dialog" in log["entries"][0]["response"]["content"]["comment"]
        page.call("Page.handleJavaScriptDialog", accept=True)
