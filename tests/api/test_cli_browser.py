"""aio browser and aio gui: the browser and the desktop of a sandbox for a shell."""

import json

import pytest

import desktop
from desktop import BROWSER_NEEDED, pixels, tabs, tester  # noqa: F401
from harness import eventually
from shell_calls import bad, good, on_terminal

pytestmark = BROWSER_NEEDED


@pytest.fixture(scope="module")
def browsing(tester, start_shared):  # noqa: F811
    server = start_shared(**desktop.browser_options(tester))
    desktop.warm_browser(server)
    return server


def test_the_browser(browsing, tmp_path):
    url = "data:text/html,<title>Shop</title><body style='margin:0;background:rgb(200,10,20)'>"
    assert json.loads(good(browsing, "browser", "navigate", url))["data"]["title"] == "Shop"
    assert eventually(lambda: tabs(browsing)[0]["title"] == "Shop")
    good(browsing, "browser", "screenshot", "-o", str(tmp_path / "page.png"))
    width, height, rgb = pixels(browsing, (tmp_path / "page.png").read_bytes())
    assert tuple(rgb[:3]) == tuple(rgb[-3:]) == (200, 10, 20)
    desktop_width, desktop_height, _ = pixels(browsing, good(browsing, "gui", "screenshot", "--output=-"))
    assert (desktop_width, desktop_height) == (1280, 1024) and height < 1024
    assert "with a scheme" in bad(browsing, "browser", "navigate", "example")
    assert "No such file" in bad(browsing, "gui", "screenshot", "-o", str(tmp_path / "no/such.png"))
    assert "Shop" in on_terminal(browsing, "browser", "navigate", url)
