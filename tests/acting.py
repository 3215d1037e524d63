"""Acting on pages: what the tests of clicks, forms and elements share.

    site      of one module: site.url("/path"), site.other("/path") is the same at another origin; put() puts a page there
    page      the one tab there is, with a client of the DevTools protocol; page.show(html) leads it to a page of the site"""

import contextlib
import time

import pytest

import sites
from desktop import devtools, tabs
from harness import Calls, eventually

PAGE = Calls("/v1/browser/page")


def reply(server, what, **body):
    """The whole body of a call on the page."""
    return PAGE.reply(server, what, **body)


def done(server, what, **body):
    """The data of a call that went well."""
    answer = reply(server, what, **body)
    assert answer["success"] is True, answer
    return answer["data"]


def failed(server, what, **body):
    """The message of a call that the page refused."""
    answer = reply(server, what, **body)
    assert answer["success"] is False, answer
    assert answer["data"] is None
    return answer["message"]


POSTED = "<title>posted</title>posted"


class Site:
    """A site of sites.py that gives each page a path of its own."""

    def __init__(self):
        self.web, self.last = sites.Site({path: POSTED for path in ("/sent", "/typed", "/upload", "/form")}), 0
        self.pages = self.web.pages

    def url(self, path="/"):
        return self.web.url + path

    def other(self, path="/"):
        return self.web.other + path

    @property
    def posts(self):
        return [(asked.path, asked.body) for asked in self.web.server.log if asked.method == "POST"]

    def put(self, html):
        """Puts a page at a path of its own."""
        self.last += 1
        self.pages[f"/{self.last}"] = f"<!doctype html><meta charset=utf-8>{html}"
        return f"/{self.last}"


@pytest.fixture(scope="module")
def site():
    site = Site()
    yield site
    site.web.close()


class Page:
    def __init__(self, site, tools):
        self.site, self.tools = site, tools
        self.evaluate, self.look = tools.evaluate, tools.look

    def show(self, html):
        return self.go(self.site.url(self.site.put(html)))

    def go(self, url):
        self.tools.call("Page.enable")
        self.tools.events.clear()
        self.tools.call("Page.navigate", url=url)
        self.tools.event("Page.loadEventFired")
        assert self.evaluate("location.href") == url
        return url

    def becomes(self, expression, value):
        got = eventually(lambda: self.look(expression) == value)
        assert got, (expression, self.look(expression), value)

    def later(self, script, ms=300):
        self.evaluate(f"void setTimeout(() => {{ {script} }}, {ms})")


@pytest.fixture
def page(server, site):
    with devtools(server) as tools:
        yield Page(site, tools)
    for _ in tabs(server):
        server.request("DELETE", "/v1/browser/tabs/0")
    assert [tab["url"] for tab in tabs(server)] == ["about:blank"]
    server.at_rest()


def quickly(seconds=20):
    """A context that must not take that long."""
    @contextlib.contextmanager
    def timed():
        began = time.monotonic()
        yield
        assert time.monotonic() - began < seconds
    return timed()
