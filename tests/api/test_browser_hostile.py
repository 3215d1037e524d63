"""The browser when what it works with is hostile: pages, clients and processes that lie, flood, hang or die."""

import os
import signal

import pytest

import desktop
from desktop import BROWSER_NEEDED, browser_processes, tabs, tester  # noqa: F401
from harness import Calls, eventually

pytestmark = BROWSER_NEEDED
BROWSER = Calls("/v1/browser")
PAGE = Calls("/v1/browser/page")


@pytest.fixture(scope="module")
def server(tester, start_shared):  # noqa: F811
    server = start_shared(**desktop.browser_options(tester))
    desktop.warm_browser(server)
    return server


@pytest.fixture(autouse=True)
def one_tab(server):
    """Each test begins and ends with one new tab."""
    renew(server)
    yield
    renew(server)
    server.baseline = server.possessions()


def renew(server):
    BROWSER.reply(server, "tabs", url="about:blank")
    while len(tabs(server)) > 1:
        assert server.request("DELETE", "/v1/browser/tabs/0").status_code == 200


def signal_renderers(server, number):
    for pid in browser_processes(server).get("renderer", []):
        os.kill(pid, number)


def show(server, html):
    reply = PAGE.reply(server, "navigate", url="data:text/html," + html, timeout=20)
    assert reply["success"], reply
    return reply["data"]


def evaluate(server, expression, **more):
    return PAGE.ask(server, "evaluate", expression=expression, **more)


# --- processes ----------------------------------------------------------------------------------


def test_a_tab_whose_process_died_before_it_had_begun_can_be_used(server):
    """What its session was told to report died with it."""
    for number in range(2):
        signal_renderers(server, signal.SIGSTOP)
        BROWSER.ask(server, "tabs", url="about:blank")
        signal_renderers(server, signal.SIGKILL)
        assert eventually(lambda: "the page crashed" in PAGE.reply(server, "evaluate", expression="1", timeout=5)["message"])
        show(server, f"<title>{number}</title>")
        assert evaluate(server, "document.title") == str(number)
