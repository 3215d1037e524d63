"""The tools of the browser, as the official Python client calls them, on real pages."""

import asyncio
import base64
import http.server
import json
import threading

import jsonschema
import mcp
import pytest

import desktop
from desktop import BROWSER_NEEDED, pixels, tabs, tester  # noqa: F401
from harness import ANSWER_SECONDS, eventually
from mcp_peer import Peer, failed

pytestmark = [BROWSER_NEEDED, pytest.mark.timeout(180)]


# --- pages ---------------------------------------------------------------------------------------

PAGES = {
    "/": "<title>Shop</title><h1>Shop</h1><p>Everything for sale.</p><a href=/about>About us</a><button>Buy</button>",
    "/about": "<title>About</title><h1>About us</h1><p>Since 1999.</p><a href=/>Home</a>",
}


class Site(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        page = PAGES.get(self.path.partition("?")[0])
        file = self.path == "/report.csv"
        body = b"a,b\n1,2\n" if file else ("<!doctype html><meta charset=utf-8>" + (page or "nothing here")).encode()
        self.send_response(200 if page or file else 404)
        self.send_header("content-type", "text/csv" if file else "text/html")
        if file:
            self.send_header("content-disposition", "attachment; filename=report.csv")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def site():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


# --- the client ----------------------------------------------------------------------------------


class Tools:
    """The official client, a connection for each call."""

    def __init__(self, url, path="/mcp"):
        self.url = url + path

    def with_client(self, use):
        async def run():
            async with mcp.Client(self.url) as client:
                return await use(client)

        return asyncio.run(run())

    def listed(self):
        return {tool.name: tool for tool in self.with_client(lambda client: client.list_tools()).tools}

    def result(self, tool, /, **arguments):
        return self.with_client(lambda client: client.call_tool(tool, arguments, read_timeout_seconds=ANSWER_SECONDS))

    def call(self, tool, /, **arguments):
        """The result, which must not be an error."""
        result = self.result(tool, **arguments)
        assert not result.is_error, result
        return result

    def text(self, tool, /, **arguments):
        return "\n".join(item.text for item in self.call(tool, **arguments).content if item.type == "text")

    def error(self, tool, /, **arguments):
        result = self.result(tool, **arguments)
        assert result.is_error, result
        return result.content[0].text

    def picture(self, tool, /, **arguments):
        """What it says of its picture, the MIME type and the file."""
        said, picture = self.call(tool, **arguments).content
        assert (said.type, picture.type) == ("text", "image")
        return said.text, picture.mime_type, base64.b64decode(picture.data, validate=True)


@pytest.fixture(scope="module")
def server(tester, start_shared):  # noqa: F811
    server = start_shared(**desktop.browser_options(tester))
    desktop.warm_browser(server)
    desktop.warm(server)
    Peer(server).ask("tools/list")
    return server


@pytest.fixture
def tools(server):
    return Tools(server.url)


@pytest.fixture(autouse=True)
def one_blank_tab(server):
    yield
    for _ in tabs(server):
        server.request("DELETE", "/v1/browser/tabs/0")
    server.at_rest()


def urls(server):
    return [tab["url"] for tab in tabs(server)]


# --- the lists -----------------------------------------------------------------------------------

# Of behaviour §13: what the hub lists, and what the browser's own server does.
HUB = """get_info new_tab switch_tab close_tab tab_list get_download_list""".split()
SERVER = """new_tab tab_list switch_tab close_tab get_download_list close""".split()
GUI = ["gui_screenshot", "gui_execute_action"]


def test_documented_names_are_listed(tools, server):
    listed = tools.listed()
    assert {f"sandbox_browser_{name}" for name in HUB + GUI} <= set(listed)
    assert not [name for name in listed if name.startswith("browser_")]
    own = Tools(server.url, "/mcp?search=browser").listed()
    assert {f"browser_{name}" for name in SERVER} | {"browser_get_info", "browser_gui_screenshot"} <= set(own)
    assert all(name.startswith("browser_") for name in own)


def test_the_browser_is_a_server(server):
    answer = server.get("/v1/mcp/servers").json()
    assert "browser" in answer["data"]
    listed = server.get("/v1/mcp/browser/tools").json()["data"]["tools"]
    assert {f"browser_{name}" for name in SERVER} <= {tool["name"] for tool in listed}
    done = server.post("/v1/mcp/browser/tools/browser_tab_list", {}).json()["data"]
    assert not done["isError"] and done["structuredContent"]["tabList"][0]["active"]
    done = server.post("/v1/mcp/sandbox/tools/sandbox_browser_tab_list", {}).json()["data"]
    assert not done["isError"]


def test_every_tool_is_well_described(tools):
    for name, tool in tools.listed().items():
        assert len(tool.description) > 60, name
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        for field, schema in tool.input_schema.get("properties", {}).items():
            assert schema.get("description"), (name, field)


def test_structured_results_are_what_their_schemas_say(tools, server, site):
    listed = tools.listed()
    tools.call("sandbox_browser_new_tab", url=site)
    for name in ("get_info", "tab_list", "get_download_list"):
        result = tools.call(f"sandbox_browser_{name}")
        jsonschema.validate(result.structured_content, listed[f"sandbox_browser_{name}"].output_schema)
        assert json.loads(result.content[0].text) == result.structured_content


def test_the_instructions_mention_it(server):
    assert "sandbox_browser_navigate" in Peer(server).initialize()["instructions"]


# --- tabs ----------------------------------------------------------------------------------------


def test_tabs(tools, server, site):
    assert tools.text("sandbox_browser_new_tab", url=f"{site}/about").startswith(f"Opened new tab with URL: {site}/about")
    assert eventually(lambda: [tab["title"] for tab in tabs(server)] == ["about:blank", "About"])
    listed = tools.call("browser_tab_list").structured_content["tabList"]
    assert listed[1] == {"index": 1, "active": True, "title": "About", "url": f"{site}/about"}
    assert tools.text("browser_switch_tab", index=0).startswith("Switched to tab 0")
    assert [tab["active"] for tab in tabs(server)] == [True, False]
    assert tools.text("browser_close_tab") == "Closed current tab [0]"
    assert urls(server) == [f"{site}/about"]
    tools.call("sandbox_browser_new_tab")
    assert tools.text("sandbox_browser_close_tab", index=0) == "Closed tab [0]"
    assert urls(server) == ["about:blank"]
    assert "no tab 7" in tools.error("browser_switch_tab", index=7)
    assert "no tab 7" in tools.error("browser_close_tab", index=7)
    assert "index" in tools.error("browser_switch_tab")


def test_closing_all(tools, server, site):
    tools.call("browser_new_tab", url=site)
    tools.call("browser_new_tab", url=f"{site}/about")
    tools.text("browser_close")
    assert urls(server) == ["about:blank"]


def test_downloads(tools, server, site):
    tools.call("browser_new_tab", url=f"{site}/report.csv")
    got = eventually(lambda: [item for item in tools.call("browser_get_download_list").structured_content["list"]
                              if item["state"] == "completed"])
    assert got[0]["url"] == f"{site}/report.csv" and got[0]["progress"] == 1
    assert got[0]["suggestedFilename"].startswith("report") and got[0]["resourceUri"] == f"file://{got[0]['path']}"
    read = tools.call("sandbox_file_operations", action="read", path=got[0]["path"])
    assert read.structured_content["content"] == "a,b\n1,2\n"


# --- the screen ----------------------------------------------------------------------------------


def test_a_picture_of_the_screen(tools, server):
    for arguments, mime, magic in (({}, "image/jpeg", b"\xff\xd8\xff"), ({"format": "png"}, "image/png", b"\x89PNG")):
        said, kind, file = tools.picture("sandbox_browser_gui_screenshot", **arguments)
        assert "1280x1024" in said and kind == mime and file.startswith(magic)
        assert pixels(server, file)[:2] == (1280, 1024)
    assert "quality" in tools.error("browser_gui_screenshot", quality=0)


def test_a_picture_of_a_large_screen_is_made_smaller(tools, server):
    said, _, file = tools.picture("sandbox_browser_gui_screenshot", max_size=640, format="png")
    assert "640x512" in said and "1280x1024" in said and "multiply coordinates of the picture by 2" in said
    width, height, small = pixels(server, file)
    assert (width, height) == (640, 512)
    whole = pixels(server, tools.picture("sandbox_browser_gui_screenshot", format="png")[2])[2]
    for x, y in ((0, 0), (100, 20), (320, 300), (639, 511)):  # the blank page and the tabs do not move
        at = [whole[((2 * y + dy) * 1280 + 2 * x + dx) * 3:][:3] for dy in (0, 1) for dx in (0, 1)]
        mean = [round(sum(colors) / 4) for colors in zip(*at)]
        assert all(abs(a - b) <= 1 for a, b in zip(mean, small[(y * 640 + x) * 3:][:3])), (x, y)
    answer = server.get("/v1/browser/screenshot?max_size=64&format=jpeg")
    assert [answer.headers[f"x-{what}"] for what in ("image-width", "image-height", "screen-width", "screen-height")] == ["64", "51", "1280", "1024"]
    assert server.get("/v1/browser/screenshot?max_size=0").status_code == 422


def test_mouse_and_keyboard(tools, server, site):
    """A person's way: into the address bar, type, press Enter; and again if a tab that just opened took the focus."""
    def go():
        did = tools.call("browser_gui_execute_action", action={"action_type": "HOTKEY", "keys": ["ctrl", "l"]})
        assert did.structured_content == {"status": "success", "action_performed": "HOTKEY"}
        tools.call("browser_gui_execute_action", action={"action_type": "TYPING", "text": f"{site}/about"})
        tools.call("sandbox_browser_execute_action", action_type="PRESS", key="Return")
        return eventually(lambda: urls(server) == [f"{site}/about"], seconds=5)

    assert eventually(go)
    tools.call("sandbox_browser_execute_action", action={"action_type": "WAIT", "duration": 0.1})
    assert "duration" in tools.error("browser_execute_action", action={"action_type": "WAIT"})
    assert "action_type" in tools.error("browser_execute_action")
    assert "1280" in tools.error("browser_execute_action", action={"action_type": "CLICK", "x": 5000, "y": 1})


# --- where there is none -------------------------------------------------------------------------


def test_without_a_browser_there_are_no_such_tools(tester, start_server):  # noqa: F811
    server = start_server(**desktop.options(tester))
    peer = Peer(server)
    assert not [tool["name"] for tool in peer.ask("tools/list")["tools"] if "browser" in tool["name"]]
    assert Peer(server, "/mcp?search=browser").ask("tools/list")["tools"] == []
    assert "DISABLE_BROWSER" in failed(peer.call("browser_tab_list"))
    info = {one["name"]: one for one in server.get("/v1/mcp/servers").json()["servers"]}
    assert info["browser"]["status"] == "unavailable" and "DISABLE_BROWSER" in info["browser"]["reason"]
    with peer:
        assert "sandbox_browser" not in peer.initialize()["instructions"]
