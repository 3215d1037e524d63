"""A box's own API inside the box, at localhost:8080 and by a socket: for gem and root, and not for pages in the box's
browser, for other users, or for previews. tests/api/test_local.py has the rest."""

import json
import os

import pytest

from chromium import DRIVER
from harness import eventually
from hosts import Box

URL = "http://localhost:8080"
ASK = "curl -sS -m 20 -o /dev/null -w '%{http_code} ' "
MAKE = f"{ASK} {URL}/v1/bash/exec -H 'Content-Type: application/json' -d "


def attacks(box, command):
    return box.run(f"{command} || true", timeout=60)


def test_gem_and_root_may(box):
    for who in ("", "sudo "):
        got = box.run(f"{who}curl -sS {URL}/v1/sandbox; {who}curl -sSg 'http://[::1]:8080/health'; "
                      f"{who}curl -sS --unix-socket /run/aiobox.sock http://localhost/health")
        assert '"success":true' in got and got.endswith("OKOK"), got
    got = box.run(f"{MAKE} '{{\"command\": \"id -un >~/who\"}}'; cat ~/who; sudo stat -c '%a %U' /run/aiobox.sock")
    assert got == "200 gem\n600 gem\n"


def test_as_the_examples_do(box):
    """Python of the sandbox, with requests and without a credential."""
    code = ("import requests; print(requests.post('http://localhost:8080/v1/code/execute', "
            "json={'language': 'bash', 'code': 'echo $((6*7))'}).json()['data']['stdout'])")
    got = box.request("POST", "/v1/code/execute", json={"language": "python", "code": code}, timeout=120).json()["data"]
    assert got["stdout"].strip() == "42", got


@pytest.mark.parametrize("user", ["nobody", "daemon"])
def test_other_users_may_not(box, user):
    for where in (URL, "-g http://[::1]:8080", "http://127.0.0.1:8080"):
        assert "200" not in attacks(box, f"sudo -u {user} {ASK} {where}/v1/sandbox 2>/dev/null")
    assert "200" not in attacks(box, f"sudo -u {user} {ASK} --unix-socket /run/aiobox.sock {URL}/health 2>/dev/null")
    # Not as root of a user namespace of their own either.
    assert "200" not in attacks(box, f"sudo -u {user} unshare -Ur {ASK} {URL}/health 2>/dev/null")


def test_no_way_from_outside(box):
    """Neither as a preview, of which there are four addresses, nor by a name."""
    host = box.host
    for headers, path in (({"x-aio-proxy-port": "8080"}, "/v1/sandbox"), ({}, "/proxy/8080/v1/sandbox"),
                          ({}, "/absproxy/8080/v1/sandbox"), ({"x-aio-sandbox": ""}, f"/s/{box.id}/proxy/8080/v1/sandbox"),
                          ({"Host": f"8080-{box.id}.localhost"}, "/v1/sandbox")):
        headers = {"x-aio-sandbox": box.id, "Authorization": f"Bearer {box.token}", **headers}
        headers = {name: value for name, value in headers.items() if value}
        got = host.client.get(path, headers=headers)
        assert got.status_code == 403 and "own API" in got.text, (path, headers, got.text)
        del headers["Authorization"]
        assert host.client.get(path, headers=headers).status_code in (401, 404), (path, headers)


def test_nothing_that_only_the_host_gives(box):
    """No tickets, no headers of a gateway, no rights that gem does not have."""
    assert box.run(f"{ASK} -X POST {URL}/tickets; {ASK} -H 'x-aio-proxy-port: 22' {URL}/health; {ASK} {URL}/proxy/22/") == \
        "403 200 403 "
    got = box.run(f"curl -sS {URL}/v1/file/read -H 'Content-Type: application/json' -d '{{\"file\": \"/etc/shadow\", \"sudo\": true}}'")
    assert json.loads(got)["success"] is False and "sudo is not possible" in got


def test_pause_and_fork(host):
    """It is there again, also where a copy has the socket of the box before."""
    box = host.create()
    box.call("POST", "/pause")
    box.call("POST", "/resume")
    assert box.run(f"curl -sS {URL}/health") == "OK"
    fork = Box(host, box.call("POST", "/fork", json={}))
    assert fork.run(f"curl -sS {URL}/health; curl -sS --unix-socket /run/aiobox.sock {URL}/health") == "OKOK"


def test_another_port_or_none(host):
    other = host.create(env={"AIO_LOCAL_PORT": "9090"})
    assert other.run("curl -sS localhost:9090/health; echo $AIO_LOCAL_PORT") == "OK9090\n"
    for box, port in ((other, 8080), (host.create(env={"AIO_LOCAL_PORT": "0"}), 8080)):
        box.begin(f"cd /usr/share/doc && exec python3 -m http.server {port}")
        assert eventually(lambda: box.request("GET", f"/proxy/{port}/").status_code == 200)  # noqa: B023
        assert box.run("curl -sS --unix-socket /run/aiobox.sock http://localhost/health") == "OK"


# --- pages in the box's own browser ------------------------------------------------------------

BROWSER = DRIVER + r'''
import http.server, threading

class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200), self.send_header("Content-Type", "text/html"), self.end_headers()
        self.wfile.write(b"<body>a page")
    def log_message(self, *_): pass
threading.Thread(target=http.server.ThreadingHTTPServer(("127.0.0.1", 3000), Page).serve_forever, daemon=True).start()

def visit(url, script):
    """What a script gives in a page that was opened."""
    target = call("Target.createTarget", url=url)["targetId"]
    session = call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    until = time.monotonic() + 30
    def evaluate(text):
        return call("Runtime.evaluate", session, expression=text, awaitPromise=True, returnByValue=True)["result"].get("value")
    def loaded():
        try:
            return evaluate("document.readyState + location.href") == "complete" + url
        except KeyError: # the page that was asked is gone: another has taken its place
            return False
    while not loaded() and time.monotonic() < until:
        time.sleep(.05)
    return evaluate(script)

for url, script in json.loads(sys.argv[1]):
    print(json.dumps(visit(url, script)))
call("Browser.close")
browser.wait()
'''

# Each way that a page has to send something; the name of a file says which one has worked.
SCRIPT = r"""(async () => {
  const api = '%s', done = {};
  const body = name => JSON.stringify({command: 'touch /tmp/by-page-' + name});
  const attempt = async (name, what) => { try { done[name] = await what() } catch (error) { done[name] = String(error) } };
  const json = {'Content-Type': 'application/json'};
  await attempt('json', async () => (await fetch(api + '/v1/bash/exec', {method: 'POST', headers: json, body: body('json')})).status);
  await attempt('plain', async () => (await fetch(api + '/v1/bash/exec', {method: 'POST', mode: 'no-cors', body: body('plain')})).status);
  await attempt('beacon', async () => navigator.sendBeacon(api + '/v1/bash/exec', body('beacon')));
  await attempt('read', async () => (await fetch(api + '/v1/sandbox')).status);
  await attempt('socket', () => new Promise(end => {
    const socket = new WebSocket(api.replace('http', 'ws') + '/v1/shell/ws');
    socket.onopen = () => end('open'); socket.onerror = () => end('refused');
  }));
  await attempt('form', () => new Promise(end => {
    const frame = document.createElement('iframe'); frame.name = 'target'; frame.onload = () => end('sent');
    const form = document.createElement('form');
    Object.assign(form, {action: api + '/v1/bash/exec', method: 'POST', target: 'target', enctype: 'text/plain'});
    const field = document.createElement('input'); field.name = '{"command": "touch /tmp/by-page-form", "x": "'; field.value = '"}';
    form.append(field); document.body.append(frame, form); form.submit();
  }));
  return done;
})()"""


def visits(box, *pages):
    box.run("cat > /tmp/browser.py <<'END'\n" + BROWSER + "\nEND\n")
    box.run("cat > /tmp/pages.json <<'END'\n" + json.dumps(pages) + "\nEND\n")
    got = box.run('rm -f /tmp/by-page-*; /usr/bin/python3 /tmp/browser.py "$(cat /tmp/pages.json)"', timeout=100)
    return [json.loads(line) for line in got.splitlines()]


def test_pages_of_the_boxes_browser_may_not(box):
    """The browser is gem's, so only what it says of its pages keeps them out: one of another origin, and one whose name
    has become 127.0.0.1 since (DNS rebinding), which for the browser is of the same origin."""
    if not os.path.exists("/usr/lib/chromium/chromium"):
        pytest.skip("NOT TESTED: chromium is not installed")
    box.run("echo '127.0.0.1 evil.example' | sudo tee -a /etc/hosts >/dev/null")
    other, named, rebound, own = visits(
        box, ("http://localhost:3000/", SCRIPT % URL), ("http://evil.example:3000/", SCRIPT % "http://127.0.0.1:8080"),
        ("http://evil.example:8080/", SCRIPT % "http://evil.example:8080"), (f"{URL}/v1/docs", SCRIPT % URL))
    for got in (other, named):
        assert "TypeError" in got["json"] and "TypeError" in got["read"] and got["socket"] == "refused", got
    assert rebound["json"] == rebound["read"] == 403 and rebound["socket"] == "refused", rebound
    # The server's own page may: what the others tried does work.
    assert own["json"] == own["read"] == 200 and own["socket"] == "open", own
    assert box.run("ls /tmp | grep by-page") == "by-page-json\n"
