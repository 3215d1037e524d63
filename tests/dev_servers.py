"""Development servers, as people run them in a sandbox, and a page of theirs in a browser that sees a change without being
loaded again."""

import shlex
import socket
import sys

import pytest

from harness import ANSWER_SECONDS, ROOT, SETTLE_SECONDS, eventually

NODE_HOME = ROOT / "build/node/node_modules"
NODE = next((str(place) for place in NODE_HOME.glob("node-linux-*/bin/node")), "node")
VITE_NEEDED = pytest.mark.skipif(not (NODE_HOME / "vite").exists(), reason="NOT TESTED: no vite: make test-deps")

VITE_FILES = {
    "index.html": '<!doctype html><title>vite</title><p id="app"></p><script type="module" src="/main.js"></script>',
    "main.js": """import { word } from './word.js';
const show = (text) => { document.querySelector('#app').textContent = text; };
show(word);
if (import.meta.hot) import.meta.hot.accept('./word.js', (next) => show(next.word));
""",
}

FLASK = """from flask import Flask, redirect, url_for
from werkzeug.middleware.proxy_fix import ProxyFix

app = Flask(__name__)
app.wsgi_app = ProxyFix(app.wsgi_app, x_prefix=1)
WORD = "one"

@app.get("/")
def home():
    return f'<p id="app">{WORD}</p><a href="{url_for("there")}">there</a>'

@app.get("/go")
def go():
    return redirect(url_for("there"))

@app.get("/there")
def there():
    return '<p id="app">there</p>'
"""


def word(text):
    return f"export const word = '{text}';\n"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def vite(port, base="/", node=NODE, home=NODE_HOME):
    """Its command line, in the folder of its files."""
    return shlex.join(["exec", node, f"{home}/vite/bin/vite.js", "--port", str(port), "--strictPort", "--base", base])


def flask(port):
    return shlex.join(["exec", sys.executable, "-m", "flask", "--app", "app", "--debug", "run", "--port", str(port)])


class Seen:
    """A page of a development server: the word that it shows, and the WebSockets that it has opened."""

    def __init__(self, context):
        self.page, self.sockets, self.log = context.new_page(), [], []
        self.page.on("websocket", lambda socket: self.sockets.append(socket.url))
        self.page.on("console", lambda message: self.log.append(message.text))

    def open(self, url, shows):
        self.page.goto(url, timeout=ANSWER_SECONDS * 1000)
        self.shows(shows)
        # What is changed before this would be missed.
        assert eventually(lambda: self.page.evaluate("1") and "[vite] connected." in self.log), (self.log, self.sockets)
        self.page.evaluate("self.loaded = 'once'")

    def shows(self, text):
        from playwright.sync_api import expect

        expect(self.page.locator("#app")).to_have_text(text, timeout=SETTLE_SECONDS * 1000)

    def shows_without_a_reload(self, text):
        self.shows(text)
        assert self.page.evaluate("self.loaded") == "once"
