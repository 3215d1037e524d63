"""The browser of a box, attacked by the pages that it shows: they cannot drive it, look at the desktop, or call the box's
API; and it does not run without its own sandbox."""

import json

import pytest

from chromium import are_apart
from desktop import BROWSER_NEEDED
from harness import START_SECONDS, eventually

pytestmark = BROWSER_NEEDED

# Every way in: what opens, what can be read, what changes.
ATTACK = """
const tab = TAB, said = {}, servers = ['localhost:8080', '127.0.0.1:8080', 'localhost:9222', '127.0.0.1:9222'];
const socket = (url) => new Promise((done) => {
  const socket = new WebSocket(url);
  socket.onopen = () => { socket.send('{"id": 1, "method": "Browser.getVersion"}'); said[url] = 'open'; done(); };
  socket.onerror = () => { said[url] = said[url] || 'refused'; done(); };
});
const request = (url, options) => fetch(url, options).then(async (answer) => {
  const text = await answer.text();
  said[`${options.method} ${url}`] = text ? `read: ${text}` : 'unread';
}, () => { said[`${options.method} ${url}`] = 'refused'; });
(async () => {
  for (const server of servers) {
    for (const path of ['/websockify', '/cdp', '/devtools/browser', `/devtools/page/${tab}`]) await socket(`ws://${server}${path}`);
    for (const path of ['/json', '/json/version', '/vnc/access', '/v1/browser/cookies', '/static/web/vnc/vnc.js'])
      for (const mode of ['cors', 'no-cors']) await request(`http://${server}${path}`, {mode, method: 'GET'});
    for (const [method, mode] of [['PUT', 'cors'], ['POST', 'no-cors']])
      for (const path of ['/json/new?about:blank', '/tickets', '/v1/browser/tabs']) await request(`http://${server}${path}`, {mode, method, body: '{}'});
  }
  await request(`http://localhost:8080/json/close/${tab}`, {mode: 'no-cors', method: 'GET'});
  self.done = said;
})();
"""
# The second is in a frame without an origin.
PAGES = {
    "plain": "<script src=attack.js></script>",
    "frame": "<iframe sandbox=allow-scripts src=framed.html></iframe><script>onmessage = (e) => { self.done = e.data }</script>",
    "framed": "<script src=attack.js></script><script>setInterval(() => self.done && parent.postMessage(self.done, '*'), 50)</script>",
}


def ask(box, method, path, **more):
    answer = box.request(method, f"/v1/browser/{path}", timeout=START_SECONDS, **more)
    assert answer.status_code == 200 and answer.json()["success"], answer.text
    return answer.json()["data"]


@pytest.fixture(scope="module")
def tab(box):
    """That the pages are to be in; there is another, too."""
    tab = ask(box, "GET", "tabs")[0]["id"]
    files = {"attack.js": ATTACK.replace("TAB", json.dumps(tab)), **{f"{name}.html": text for name, text in PAGES.items()}}
    for name, content in files.items():
        assert box.request("POST", "/v1/file/write", json={"file": f"/tmp/site/{name}", "content": content}).json()["success"]
    box.run("cd /tmp/site; (setsid python3 -m http.server 3000 >/dev/null 2>&1 &); until curl -s localhost:3000 >/dev/null; do sleep .05; done")
    return tab


@pytest.mark.parametrize("url", ["http://localhost:3000/plain.html", "http://127.0.0.1:3000/plain.html", "http://evil.localhost:3000/plain.html",
                                 "file:///tmp/site/plain.html", "http://localhost:3000/frame.html"])
def test_a_page_cannot_drive_the_browser(box, tab, url):
    ask(box, "POST", "page/navigate", json={"url": url, "timeout": START_SECONDS})
    said = ask(box, "POST", "page/wait", json={"type": "function", "expression": "self.done", "timeout": START_SECONDS})["value"]
    assert len(said) > 60 and {answer for answer in said.values()} == {"refused", "unread"}, said
    assert [one["id"] for one in ask(box, "GET", "tabs")] == [tab]


def test_nor_when_it_is_opened_at_the_servers_name(box, tab):
    """What is downloaded, or was written, is no page of the server's."""
    ask(box, "POST", "page/navigate", json={"url": "http://localhost:8080/vnc/access"})
    assert ask(box, "POST", "page/evaluate", json={"expression": "document.contentType"}) == "application/json"
    for path in ("/v1/file/download?path=/tmp/site/plain.html", "/proxy/3000/plain.html", "/absproxy/3000/plain.html"):
        box.request("POST", "/v1/browser/page/navigate", json={"url": f"http://localhost:8080{path}"}, timeout=START_SECONDS)
        assert ask(box, "POST", "page/evaluate", json={"expression": "typeof self.done + document.scripts.length"}) == "undefined0", path


@pytest.mark.parametrize("args", ["--no-sandbox", "-no-sandbox", "--disable-seccomp-filter-sandbox", "--single-process", "--no-zygote",
                                  "--renderer-cmd-prefix=/usr/bin/env", "--utility-cmd-prefix=/usr/bin/env", "--gpu-launcher=/usr/bin/env",
                                  "--browser-subprocess-path=/usr/bin/env"])
def test_it_is_not_started_without_its_sandbox(host, args):
    box = host.create(env={"AIO_BROWSER_SANDBOX": "false", "BROWSER_EXTRA_ARGS": f"--lang=de {args}"})
    answer = box.request("GET", "/v1/browser/info", timeout=START_SECONDS)
    assert answer.status_code == 503 and "sandbox" in answer.json()["message"] and args.partition("=")[0].strip("-") in answer.json()["message"]
    assert box.count("[c]hromium") == 0
    box.delete()


def test_its_sandbox_is_on(box, tab):
    assert eventually(lambda: are_apart(f"-{box.id}/"))
    ask(box, "POST", "page/navigate", json={"url": "chrome://sandbox"})
    said = ask(box, "GET", "page/text")
    assert "You are adequately sandboxed." in said, said
