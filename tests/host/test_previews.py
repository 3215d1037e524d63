"""A Vite app in a box hot-reloads through the host, in every form of its address; and its ports are events of the box."""

import shutil

import pytest

from chromium import NEEDED, browser, new_context
from dev_servers import NODE, NODE_HOME, VITE_FILES, VITE_NEEDED, Seen, vite, word
from harness import START_SECONDS, eventually

pytestmark = [NEEDED, VITE_NEEDED]

MODULES = "/mnt/node_modules"
# What Vite needs to serve modules that import nothing.
PACKAGES = ["vite", "rolldown", "@rolldown", "lightningcss", "lightningcss-linux-*", "postcss", "picomatch", "tinyglobby", "fdir",
            "nanoid", "picocolors", "source-map-js", "detect-libc", "@oxc-project", "node-linux-*"]
PORTS = {"/": 5173, "/absproxy/5174/": 5174, "/proxy/5175/": 5175}


@pytest.fixture(scope="module")
def app(host):
    """A box with an app, and Vite three times: with each base path."""
    modules = host.roots / "node_modules"
    for pattern in PACKAGES:
        for place in NODE_HOME.glob(pattern):
            shutil.copytree(place, modules / place.name, symlinks=True)
    box = host.create(mounts=[{"source": str(modules), "target": MODULES, "writable": False}])
    files = {**VITE_FILES, "word.js": word("one")}
    for name, text in files.items():
        box.request("POST", "/v1/file/write", json={"file": f"/home/gem/app/{name}", "content": text, "create_dirs": True})
    node = NODE.replace(str(NODE_HOME), MODULES)
    for base, port in PORTS.items():
        box.begin(f"cd /home/gem/app && {vite(port, base, node, MODULES)}")
    for base, port in PORTS.items():
        assert eventually(lambda: box.request("GET", f"/absproxy/{port}/").status_code != 502, START_SECONDS)
    yield box
    box.delete()
    shutil.rmtree(modules)


@pytest.fixture(scope="module")
def chromium():
    with browser() as started:
        yield started


@pytest.fixture
def context(chromium):
    context = new_context(chromium)
    yield context
    context.close()


def save(box, text):
    assert box.request("POST", "/v1/file/write", json={"file": "/home/gem/app/word.js", "content": word(text)}).json()["success"]


FORMS = {  # the address, and where it leads
    "port's name": ("http://5173-{id}.localhost:{at}/", None),
    "below the plain address": ("http://localhost:{at}/s/{id}/proxy/5173/", "http://5173-{id}.localhost:{at}/"),
    "below the plain address, whole": ("http://127.0.0.1:{at}/s/{id}/absproxy/5174/", "http://5174-{id}.localhost:{at}/absproxy/5174/"),
    "box's name, absproxy": ("http://{id}.localhost:{at}/absproxy/5174/", None),
    "box's name, proxy": ("http://{id}.localhost:{at}/proxy/5175/", None),
}


@pytest.mark.parametrize("form", FORMS)
def test_vite_through_the_host(host, app, context, form):
    url, led = (at and at.format(id=app.id, at=host.port) for at in FORMS[form])
    save(app, "one")
    seen = Seen(context)
    seen.open(f"{url}?ticket={app.request('POST', '/tickets').json()['ticket']}" if app.token else url, "one")
    assert seen.page.url.partition("?")[0] == (led or url)
    save(app, "two")
    seen.shows_without_a_reload("two")
    assert all(f"{app.id}.localhost:{host.port}/" in socket for socket in seen.sockets)


def test_a_page_goes_on_after_a_pause(host, app, context):
    save(app, "one")
    seen = Seen(context)
    ticket = app.request("POST", "/tickets").json()["ticket"] if app.token else ""
    seen.open(f"http://5173-{app.id}.localhost:{host.port}/?ticket={ticket}", "one")
    app.call("POST", "/pause")
    app.call("POST", "/resume")
    save(app, "three")
    seen.shows("three")


def test_ports_of_a_box_are_its_events(app):
    data = app.request("GET", "/v1/sandbox/events?type=port_opened").json()["data"]
    opened = {event["data"]["port"]: event["data"] for event in data}
    assert set(opened) == set(PORTS.values())  # and none of the sandbox's own
    for event in opened.values():
        assert event["address"] in ("127.0.0.1", "::1") and "vite.js" in event["command"] and event["pid"] > 1
