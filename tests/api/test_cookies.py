"""The browser's cookies."""

import time

import pytest

import desktop
from desktop import BROWSER_NEEDED, devtools, tabs, tester  # noqa: F401
from harness import START_SECONDS, Calls, eventually
from sites import Page, Site

pytestmark = BROWSER_NEEDED
BROWSER = Calls("/v1/browser")


@pytest.fixture(scope="module")
def server(tester, start_shared):  # noqa: F811
    server = start_shared(**desktop.browser_options(tester))
    desktop.warm_browser(server)
    return server


@pytest.fixture(autouse=True)
def no_cookies(server):
    yield
    assert server.request("DELETE", "/v1/browser/cookies", timeout=START_SECONDS).json()["success"]
    for _ in tabs(server):
        server.request("DELETE", "/v1/browser/tabs/0")
    server.at_rest()


@pytest.fixture
def site():
    with Site({"/": "<title>Home</title>", "/set": Page(headers={"set-cookie": ["own=7; Path=/; HttpOnly; SameSite=Strict"]}, body=b"<title>Set</title>")}) as site:
        yield site


def cookies(server, **query):
    response = server.get("/v1/browser/cookies", params=query, timeout=START_SECONDS)
    assert response.status_code == 200, response.text
    assert response.json()["success"], response.text
    return sorted(response.json()["data"], key=lambda cookie: (cookie["name"], cookie["domain"]))


def put(server, *some):
    reply = BROWSER.reply(server, "cookies", cookies=list(some))
    assert reply["success"], reply


def names(server, **query):
    return [cookie["name"] for cookie in cookies(server, **query)]


def visit(server, url, title):
    BROWSER.ask(server, "tabs", url=url)
    assert eventually(lambda: tabs(server)[-1]["title"] == title)


def test_what_a_site_sets(server, site):
    visit(server, site.url + "/set", "Set")
    assert cookies(server) == [{"name": "own", "value": "7", "domain": "127.0.0.1", "path": "/", "expires": -1, "httpOnly": True,
                                "secure": False, "sameSite": "Strict"}]


def test_what_is_set_is_sent(server, site):
    later = int(time.time()) + 3600
    put(server, {"name": "a", "value": "1", "url": site.url}, {"name": "b", "value": "größe=7", "domain": "127.0.0.1", "path": "/",
                                                               "expires": later, "httpOnly": True, "sameSite": "Lax"})
    visit(server, site.url, "Home")
    sent = site.asked("/")[0].headers["cookie"]
    assert "a=1" in sent and "b=gr" in sent
    a, b = cookies(server)
    assert (a["name"], a["domain"], a["path"], a["expires"], a["httpOnly"]) == ("a", "127.0.0.1", "/", -1, False)
    assert (b["expires"], b["httpOnly"], b["sameSite"]) == (later, True, "Lax")
    with devtools(server) as page:
        assert page.evaluate("document.cookie") == "a=1"  # the other is for HTTP only


def test_one_for_the_current_page(server, site):
    assert BROWSER.send(server, "cookies", cookies=[{"name": "a", "value": "1"}]).status_code == 422  # it is blank
    visit(server, site.url, "Home")
    put(server, {"name": "a", "value": "1"})
    assert [cookie["domain"] for cookie in cookies(server)] == ["127.0.0.1"]


def test_for_another_domain(server):
    """None of whose pages is shown."""
    put(server, {"name": "host", "value": "1", "domain": "x.test", "path": "/"}, {"name": "all", "value": "2", "domain": ".x.test", "path": "/deep"},
        {"name": "safe", "value": "3", "domain": "x.test", "path": "/", "secure": True, "sameSite": "None"})
    assert [(cookie["name"], cookie["domain"]) for cookie in cookies(server)] == [("all", ".x.test"), ("host", "x.test"), ("safe", "x.test")]
    assert names(server, urls="https://x.test/") == ["host", "safe"]
    assert names(server, urls="http://x.test/deep/er?a,b") == ["all", "host"]
    assert names(server, urls="https://sub.x.test/deep") == ["all"]
    assert names(server, urls="http://sub.x.test/deeper") == [] == names(server, urls="http://nox.test/")
    assert names(server, urls="http://x.test/,https://sub.x.test/deep") == ["all", "host"]
    assert names(server, url="http://x.test/") == ["host"]  # as older clients say it
    assert names(server, urls="") == ["all", "host", "safe"]


def test_exports_of_other_tools(server):
    put(server, {"name": "a", "value": "1", "domain": ".x.test", "hostOnly": False, "session": False, "storeId": "0", "id": 3, "path": "/",
                 "expirationDate": 4102444800.5, "sameSite": "no_restriction", "secure": True, "httpOnly": True},
        {"name": "b", "value": "2", "domain": "x.test", "path": "/", "sameSite": "unspecified", "expires": -1, "expiry": None})
    a, b = cookies(server)
    assert a["sameSite"] == "None" and a["expires"] > time.time() and b["expires"] == -1


def test_all_or_none(server):
    reply = BROWSER.reply(server, "cookies", cookies=[{"name": "good", "value": "1", "domain": "x.test"},
                                                      {"name": "b;d", "value": "1", "domain": "x.test"}])
    assert not reply["success"] and names(server) == []


def test_one_that_expired_removes(server):
    put(server, {"name": "a", "value": "1", "domain": "x.test"})
    put(server, {"name": "a", "value": "1", "domain": "x.test", "expires": 1})
    assert names(server) == []


@pytest.mark.parametrize("cookie", [7, None, {}, {"name": "a"}, {"value": "1"}, {"name": 7, "value": "1", "domain": "x.test"},
                                    {"name": "a", "value": "1", "domain": "x.test", "secure": "yes"},
                                    {"name": "a", "value": "1", "domain": "x.test", "expires": "tomorrow"},
                                    {"name": "a", "value": "1", "domain": "x.test", "sameSite": "sometimes"},
                                    {"name": "a", "value": "1", "domain": "x.test", "sameSite": 7}])
def test_bad_cookies(server, cookie):
    status, text = BROWSER.refused(server, "cookies", cookies=[{"name": "good", "value": "1", "domain": "x.test"}, cookie])
    assert status == 422 and names(server) == [], text


@pytest.mark.parametrize("cookie", [{"name": "a", "value": "x\r\ny", "domain": "x.test"}, {"name": "a", "value": "1", "domain": "x test"},
                                    {"name": "a", "value": "x" * 10000, "domain": "x.test"}, {"name": "", "value": "", "domain": "x.test"},
                                    {"name": "a", "value": "1", "url": "nonsense"}, {"name": "__Secure-a", "value": "1", "domain": "x.test"}])
def test_hostile_cookies(server, cookie):
    response = BROWSER.send(server, "cookies", cookies=[cookie])
    assert response.status_code == 422 or not response.json()["success"], response.text
    assert names(server) == []


def test_which_cookie_the_browser_refuses(server):
    refused = {"name": "__Host-a", "value": "1", "domain": "x.test"}
    one = BROWSER.reply(server, "cookies", cookies=[refused])
    assert not one["success"] and "'__Host-a'" in one["message"]
    several = BROWSER.reply(server, "cookies", cookies=[{"name": "good", "value": "1", "domain": "x.test"}, refused])
    assert not several["success"] and "one of the 2 cookies" in several["message"] and names(server) == []
    status, text = BROWSER.refused(server, "cookies", cookies=[{"name": "long", "value": "x" * 4093, "domain": "x.test"}])
    assert status == 422 and "4096 bytes" in text
    assert BROWSER.reply(server, "cookies", cookies=[{"name": "long", "value": "x" * 4092, "domain": "x.test"}])["success"]


@pytest.mark.parametrize("body", [{}, {"cookies": 7}, {"cookies": {}}])
def test_bad_requests(server, body):
    assert BROWSER.send(server, "cookies", **body).status_code == 422


def test_bad_urls(server):
    assert server.get("/v1/browser/cookies", params={"urls": "nonsense"}).status_code == 422


def test_clearing(server, site):
    put(server, *({"name": f"a{i}", "value": "1", "domain": "x.test"} for i in range(50)))
    assert len(names(server)) == 50
    assert server.request("DELETE", "/v1/browser/cookies").json()["success"] and names(server) == []
