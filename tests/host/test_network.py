"""What a box can reach: nothing, some names, or the wide world but not the machine. The servers are the
test's own: on the machine's loopback, reached by the name localhost, and at an address of the machine."""

import contextlib
import glob
import http.server
import json
import os
import shutil
import socket
import struct
import subprocess
import threading

import pytest

from chromium import check_sandbox
from harness import eventually
from hosts import Host, folder
from processes import gone

if not shutil.which("ip") or not os.path.exists("/usr/sbin/nft"):
    pytest.skip("NOT TESTED: networks of boxes need ip and nft", allow_module_level=True)

PUBLIC = "198.51.100.77"  # of an interface that the test makes


SECRET = "a-secret-of-the-host"
SERVE = "(python3 -m http.server 8000 >/dev/null 2>&1 &); until curl -s localhost:8000 >/dev/null; do sleep .1; done"


class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"hello from outside"
        if "/info/refs" in self.path:  # as git asks for it
            body = b"1" * 40 + b"\trefs/heads/hello-from-outside\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@contextlib.contextmanager
def serve(address, handler=Hello):
    server = http.server.ThreadingHTTPServer((address, 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def open_host():
    """A host whose boxes may reach loopback, by name, and nothing else that is not public."""
    host = Host(folder(), ["--open-nets", "127.0.0.0/8,198.51.100.0/24"], env={"AUTH_TOKEN": SECRET})
    yield host
    host.end()


def workers(host):
    """The processes of the ways out of this host's boxes."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        with contextlib.suppress(OSError), open(path) as file:
            text = file.read()
            if "egress" in text and str(host.state) in text:
                found.append(int(path.split("/")[2]))
    return found


def await_workers(host, count, other_than=()):
    """The same, once there are so many, and none of those there were before."""
    found = []
    assert eventually(lambda: found.append(workers(host)) or len(found[-1]) == count
                      and not set(found[-1]) & set(other_than)), (found[-1], other_than)
    return found[-1]


def links(host):
    """The interfaces of this host's boxes: of their names, five letters are the host's."""
    number, letters = int(host.seed(), 16), "0123456789abcdefghijklmnopqrstuvwxyz"
    own = "aiob" + "".join(letters[number // 36 ** i % 36] for i in range(5)) + "-"
    return {name for name in os.listdir("/sys/class/net") if name.startswith(own)}


def curl(box, url):
    """What curl says, and how it ended."""
    answer = box.request("POST", "/v1/bash/exec", json={"command": f"curl -sS -m 30 {url}"}, timeout=60)
    data = answer.json()["data"]
    return data["stdout"] + data["stderr"], data["exit_code"]


def ask(box, name):
    """The address that the box's own DNS server gives; glibc knows localhost without asking."""
    question = b"".join(bytes([len(part)]) + part for part in name.encode().split(b"."))
    return box.run("python3 - <<'X'\nimport socket\n"
                   f"q = {struct.pack('>6H', 7, 256, 1, 0, 0, 0) + question!r} + b'\\0\\0\\x01\\0\\x01'\n"
                   "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(20); s.sendto(q, ('198.18.0.1', 53))\n"
                   "print(socket.inet_ntoa(s.recv(500)[-4:]))\nX\n").strip()


def say_hello(box, address, port, name="evil.example"):
    """Begins TLS for a name."""
    box.run("python3 -c \"import socket, ssl; c = ssl._create_unverified_context()\n"
            f"s = socket.create_connection(('{address}', {port}), 20)\n"
            f"try: c.wrap_socket(s, server_hostname='{name}')\nexcept OSError: pass\"")


def denied(box):
    """What its events say was denied to it."""
    events = [event["data"] for event in box.call("GET", "/events") if event["type"] == "denied"]
    return {(data["host"], data["port"], data["reason"]) for data in events}


def test_none(open_host):
    box = open_host.create()
    with serve("127.0.0.1") as port:
        assert curl(box, f"http://127.0.0.1:{port}/")[1] == 7
        assert curl(box, f"http://localhost.example:{port}/")[1] == 6
    assert box.run("cat /etc/resolv.conf; ls /sys/class/net") == "lo\n"
    assert eventually(lambda: workers(open_host) == [])
    box.delete()


def test_allow(open_host):
    with serve("127.0.0.1") as port:
        box = open_host.create(network={"mode": "allow", "allow": ["*.localhost", f"localhost.:{port}"]})
        address = ask(box, "localhost")
        assert address.startswith("198.18.")
        assert curl(box, f"--resolve localhost:{port}:{address} http://localhost:{port}/") == ("hello from outside", 0)
        assert curl(box, f"http://{address}:{port}/")[1] != 0, "the name must be said"
        assert curl(box, "http://evil.example/")[1] == 6
        assert curl(box, f"http://192.0.2.1:{port}/")[1] == 7
        box.run("python3 -c \"import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                f"try: s.sendto(b'x', ('{address}', 443))\nexcept PermissionError: pass\"")
        wanted = {("evil.example", 0, "not in the allow list"), ("192.0.2.1", port, "an address, not a name of the allow list"),
                  ("localhost", port, "an HTTP request for another host, or one that is malformed"),
                  ("localhost", 443, "only TCP is let through")}
        assert eventually(lambda: wanted <= denied(box)), denied(box)
        metrics = lambda name: box.call("GET", "/metrics")[name]
        assert eventually(lambda: metrics("network_received") > 100 and metrics("network_sent") > 50)
        before = await_workers(open_host, 1)
        with open(f"/proc/{before[0]}/environ") as file:
            assert SECRET not in file.read()  # it reads what boxes send
        # A host that comes back leaves it alone, and so it works all the while.
        open_host.kill()
        open_host.start()
        assert workers(open_host) == before
        assert curl(box, f"--resolve localhost:{port}:{address} http://localhost:{port}/") == ("hello from outside", 0)
        # Another is made for one that was killed meanwhile.
        open_host.kill()
        os.kill(before[0], 9)
        assert gone(*before)
        open_host.start()
        await_workers(open_host, 1, other_than=before)
        address = ask(box, "localhost")
        assert curl(box, f"--resolve localhost:{port}:{address} http://localhost:{port}/") == ("hello from outside", 0)
        box.delete()
    assert eventually(lambda: workers(open_host) == [])


def test_the_way_out_of_one_box_has_no_power_over_another_s(open_host):
    """Were it taken over by what it reads: it is nobody that any other process is."""
    boxes = [open_host.create(network=network) for network in ({"allow": ["a.example"]}, {"mode": "full"})]
    ways = await_workers(open_host, 2)
    bases = [doc["uid_base"] for doc in open_host.stored().values()]
    users = set()
    for pid, other in (ways, ways[::-1]):
        with open(f"/proc/{pid}/status") as file:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in file)
        ids = set(status["Uid"].split() + status["Gid"].split())
        user = int(ids.pop())
        users.add(user)
        assert not ids and not status["Groups"].strip() and user - user % 65536 in bases, status
        assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {0}
        assert (status["Seccomp"], status["NoNewPrivs"]) == ("2", "1")
        assert os.stat(f"/proc/{pid}/environ").st_uid == 0  # not to be looked into, not even by itself
        with open(f"/proc/{pid}/limits") as file:
            limits = {line[:26].strip(): line[26:].split()[0] for line in file}
        assert limits["Max core file size"] == "0" and limits["Max file size"] == str(8 << 20)
        assert int(limits["Max processes"]) == 1024 and int(limits["Max open files"]) <= 4096
        does = lambda *what: subprocess.run(["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *what],
                                            capture_output=True, cwd="/").returncode
        assert does("true") == 0
        assert does("kill", "-0", str(other)) != 0 and does("cat", f"/proc/{other}/environ") != 0
        assert does("cat", f"/proc/{pid}/environ") != 0
    assert len(users) == 2
    for box in boxes:
        box.delete()


def test_allow_tells_of_a_private_address_and_of_one_without_a_name(host):
    box = host.create(network={"allow": ["localhost"]})
    with serve("127.0.0.1") as port:
        say_hello(box, "198.18.7.7", port)
        say_hello(box, ask(box, "localhost"), port, "localhost")
        wanted = {("198.18.7.7", port, "an address that stands for no name"),
                  ("localhost", port, "its address is not a public one")}
        assert eventually(lambda: wanted <= denied(box)), denied(box)
    box.delete()


def test_allow_tells_of_tls_for_another_name(open_host):
    with serve("127.0.0.1") as port:
        box = open_host.create(network={"allow": ["localhost"]})
        say_hello(box, ask(box, "localhost"), port)
        assert eventually(lambda: ("localhost", port, "TLS for another name") in denied(box)), denied(box)
        box.delete()


def test_a_name_does_not_lead_to_the_machine(open_host):
    """Whoever owns an allowed name may let it point to a public address of the machine itself."""
    own = "9.213.77.1"
    subprocess.run(["ip", "address", "replace", f"{own}/32", "dev", "lo"], check=True)
    try:
        with serve(own) as port:
            box = open_host.create(network={"allow": ["*"]})
            address = ask(box, own)
            assert address.startswith("198.18.")
            assert curl(box, f"--connect-to {own}:{port}:{address}:{port} http://{own}:{port}/")[1] != 0
            wanted = (own, port, "its address is the machine's own")
            assert eventually(lambda: wanted in denied(box)), denied(box)
            box.delete()
    finally:
        subprocess.run(["ip", "address", "delete", f"{own}/32", "dev", "lo"], check=True)


def test_chromium_with_its_own_sandbox(open_host):
    """In a box with a way out, which it takes without any setting."""
    if not shutil.which("chromium"):
        pytest.skip("no chromium on this machine")
    name, asked = socket.gethostname(), []

    class Outside(Hello):
        def do_GET(self):
            asked.append(self.path)
            super().do_GET()

    with serve("127.0.0.1", Outside) as port:
        box = open_host.create(network={"mode": "allow", "allow": [name]})
        check_sandbox(box.run, f"{open_host.seed()}-{box.id}", f"<img src=http://{name}:{port}/outside>")
        box.delete()
    with contextlib.suppress(OSError):  # the machine's own name leads to its loopback nearly everywhere
        assert not socket.gethostbyname(name).startswith("127.") or "/outside" in asked


def test_questions_about_an_allowed_name_are_not_denied(open_host):
    """Browsers ask for the ports of names."""
    box = open_host.create(network={"mode": "allow", "allow": ["localhost"]})
    for name in (b"_8443._https.localhost", b"_8443._https.other.example"):
        ask(box, name.decode())
    assert eventually(lambda: denied(box))
    assert {name for name, *_ in denied(box)} == {"_8443._https.other.example"}
    box.delete()


def test_what_was_denied_before_is_not_kept_for_ever(open_host):
    """A box that starts again and again fills nothing outside its own disk."""
    box = open_host.create(network={"allow": ["example.org"]})
    denied = lambda: [e["data"]["host"] for e in box.call("GET", "/events") if e["type"] == "denied"]
    assert curl(box, "http://first.example/")[1] == 6
    assert eventually(lambda: "first.example" in denied())
    box.kill()
    assert eventually(lambda: box.state == "stopped")
    box.call("POST", "/resume")
    told = open_host.state / "boxes" / box.id / "denied"
    assert told.read_text() == ""
    assert curl(box, "http://second.example/")[1] == 6
    assert eventually(lambda: "second.example" in denied()), denied()
    box.delete()


# Each fetches http://NAME:PORT/, without a word about how.
TOOLS = {
    "curl": "curl -sS http://{at}/",
    "python3": "python3 -c \"import urllib.request as r; print(r.urlopen('http://{at}/').read().decode())\"",
    "node": "node -e \"fetch('http://{at}/').then(r => r.text()).then(console.log)\"",
    "git": "git ls-remote http://{at}/repository | tr - ' '",
    "java": "cat >/tmp/J.java <<X\nclass J {{ public static void main(String[] a) throws Exception {{\n"
            "System.out.println(new String(new java.net.URL(\"http://{at}/\").openStream().readAllBytes())); }} }}\n"
            "X\njava /tmp/J.java",
}


def test_allow_is_taken_by_every_tool(open_host):
    """Also by those that know no proxy, and by root, whom sudo leaves no variables."""
    name, tools = socket.gethostname(), [tool for tool in TOOLS if shutil.which(tool)]
    with contextlib.suppress(OSError):
        if not socket.gethostbyname(name).startswith("127."):
            pytest.skip("NOT TESTED: the machine's own name does not lead to its loopback")
    with serve("127.0.0.1") as port:
        box = open_host.create(network={"allow": [name]})
        for tool in tools:
            assert "hello from outside" in box.run(TOOLS[tool].format(at=f"{name}:{port}")), tool
        assert "hello from outside" in box.run("sudo " + TOOLS["curl"].format(at=f"{name}:{port}"))
        box.delete()


@pytest.mark.parametrize("wrong", ["a b", "", " ", "a,b", "a.org, b.org", "a\tb", "a\0b", "-a.org", "a-.org", "a" * 64 + ".org",
                                   "http://a.org", "a.org/x", "*a.org", "*.", "**.a.org", "[::1]", "é.org", "a:", "a:+1"])
def test_what_is_no_host_name_cannot_be_allowed(host, wrong):
    got = host.client.post("/v1/sandboxes", headers=host.auth, json={"network": {"allow": ["example.com", wrong]}})
    assert got.status_code == 422, got.text
    assert "network.allow: '" in got.text or "\0" in wrong, got.text
    alone = host.client.post("/v1/sandboxes", headers=host.auth, json={"network": {"allow": [wrong]}})
    assert alone.status_code == 422, alone.text


def test_allow_that_makes_no_sense(open_host):
    before = open_host.holdings()
    for wrong in ("a..b", "93.184.216.34", "93.184.216.34:443"):
        got = open_host.client.post("/v1/sandboxes", headers=open_host.auth,
                                    json={"network": {"mode": "allow", "allow": ["example.com", wrong]}})
        assert got.status_code == 422 and wrong.split(":")[0] in got.text
    assert open_host.holdings() == before


@pytest.fixture
def public():
    """An address that is public in the eyes of the box: of a machine beyond this one."""
    name = f"aiotest{os.getpid() % 10000}"
    def ip(*args):
        subprocess.run(["ip", *args], check=True, capture_output=True)
    subprocess.run(["ip", "link", "delete", "aiot0"], capture_output=True)  # of a run that was killed
    ip("netns", "add", name)
    try:
        ip("link", "add", "aiot0", "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("address", "add", "198.51.100.76/31", "dev", "aiot0")
        ip("link", "set", "aiot0", "up")
        ip("-n", name, "address", "add", f"{PUBLIC}/31", "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")
        ip("-n", name, "link", "set", "lo", "up")
        code = "import threading, socket; u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(('', 8001)); " \
            "e = lambda: [u.sendto(*u.recvfrom(99)) for _ in iter(int, 1)]; threading.Thread(target=e, daemon=True).start(); " \
            "import http.server as h; s = h.ThreadingHTTPServer(('', 8000), h.SimpleHTTPRequestHandler); print(1, flush=True); s.serve_forever()"
        process = subprocess.Popen(["ip", "netns", "exec", name, "python3", "-c", code], stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, cwd="/usr/share/doc")
        process.stdout.readline()
        yield PUBLIC
        process.kill()
        process.wait()
    finally:
        subprocess.run(["ip", "netns", "delete", name], capture_output=True)
        subprocess.run(["ip", "link", "delete", "aiot0"], capture_output=True)


def test_full(open_host, public):
    assert eventually(lambda: not links(open_host))
    box = open_host.create(network={"mode": "full"})
    other = open_host.create(network={"mode": "full"})
    assert len(links(open_host)) == 2
    assert curl(box, f"-o /dev/null -w '%{{http_code}}' http://{public}:8000/") == ("200", 0)
    # Neither the machine, at any of its addresses, nor another box, nor what is not public.
    gateway = box.run("ip route show default").split()[2]
    neighbour = other.run("hostname -I").split()
    other.run(SERVE)
    with serve("0.0.0.0") as port:
        for address in (gateway, "198.51.100.76", socket.gethostbyname(socket.gethostname())):
            if not address.startswith("127."):
                assert curl(box, f"http://{address}:{port}/")[1] == 7, address
        assert curl(box, f"http://{gateway}:{open_host.port}/")[1] == 7
    for address in neighbour:
        if address.startswith("10.213."):
            assert curl(box, f"http://{address}:8000/")[1] == 7
    assert curl(box, "http://169.254.169.254/")[1] == 7
    assert curl(box, "http://10.0.0.1/")[1] == 7
    wanted = {("169.254.169.254", 80), ("10.0.0.1", 80), ("198.51.100.76", port)}
    wanted |= {(address, 8000) for address in neighbour if address.startswith("10.213.")}
    assert eventually(lambda: wanted <= {d[:2] for d in denied(box)}), denied(box)
    assert not denied(other)
    metrics = lambda name: box.call("GET", "/metrics")[name]
    assert eventually(lambda: metrics("network_received") > 100 and metrics("network_sent") > 100)
    box.delete()
    other.delete()
    assert eventually(lambda: not links(open_host) and not workers(open_host))
    tables = lambda: subprocess.check_output(["/usr/sbin/nft", "list", "tables"], text=True)
    assert eventually(lambda: f"aio_boxes_{open_host.seed()}" not in tables()), tables()


def test_a_way_out_that_has_ended_is_made_anew(open_host, public):
    some = open_host.create(network={"allow": ["localhost"]})
    full = open_host.create(network={"mode": "full"})
    before = await_workers(open_host, 2)
    for way in before:
        os.kill(way, 9)
    for box in (some, full):
        assert eventually(lambda: "reconnected" in box.events())
    await_workers(open_host, 2, other_than=before)
    with serve("127.0.0.1") as port:
        assert curl(some, f"--resolve localhost:{port}:{ask(some, 'localhost')} http://localhost:{port}/")[0] == "hello from outside"
    assert curl(full, f"-o /dev/null -w '%{{http_code}}' http://{public}:8000/") == ("200", 0)
    some.delete()
    full.delete()
    assert eventually(lambda: not workers(open_host))


def test_a_network_that_is_opened_no_more_is_closed_to_boxes_that_run(open_host, public):
    some = open_host.create(network={"allow": ["localhost"]})
    full = open_host.create(network={"mode": "full"})
    asks = f"-o /dev/null -w '%{{http_code}}' http://{public}:8000/"
    args, said = open_host.args, some.run("sleep 1000 >/dev/null & echo $!")
    with serve("127.0.0.1") as port:
        for nets in (args, [], args):
            open_host.kill()
            open_host.args = nets
            open_host.start()
            name = f"--resolve localhost:{port}:{ask(some, 'localhost')} http://localhost:{port}/"
            assert [not curl(some, name)[1], not curl(full, asks)[1]] == [bool(nets)] * 2, nets
    some.run(f"kill -0 {said}")  # it is the same box all the while
    some.delete()
    full.delete()


def test_full_of_two_hosts(host, open_host, public):
    """What one host opens or closes for its boxes, or takes away with them, is nothing to the other's."""
    reaches = lambda one: curl(one, f"-o /dev/null -w '%{{http_code}}' http://{public}:8000/") == ("200", 0)
    opened = open_host.create(network={"mode": "full"})
    closed = host.create(network={"mode": "full"})
    assert reaches(opened) and not reaches(closed)
    mine, its = (one.run("hostname -I").split()[0] for one in (opened, closed))
    closed.run(SERVE)
    assert mine != its and curl(opened, f"http://{its}:8000/")[1] == 7
    closed.delete()
    with serve("0.0.0.0") as port:
        assert reaches(opened) and curl(opened, f"http://198.51.100.76:{port}/")[1] == 7
    opened.delete()


def test_a_flood_of_refused_packets_is_told_in_few_words(open_host):
    """And what is refused meanwhile for the first time is still told."""
    box = open_host.create(network={"mode": "full"})
    box.run("python3 -c \"import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); end = time.time() + 2\n"
            "n = 0\nwhile n < 5000 or time.time() < end:\n    n += 1\n"
            "    try: s.sendto(b'x', ('10.1.2.3', 9))\n    except PermissionError: pass\"")
    assert eventually(lambda: ("10.1.2.3", 9) in {d[:2] for d in denied(box)})
    assert curl(box, "http://10.9.9.9/")[1] == 7
    assert eventually(lambda: ("10.9.9.9", 80) in {d[:2] for d in denied(box)}), denied(box)
    box.run("python3 -c \"import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
            "for i in range(20000):\n"
            "    try: s.sendto(b'x', (f'10.7.{i >> 8}.{i & 255}', 9))\n    except PermissionError: pass\"")
    events = box.events()
    assert events.count("denied") < 150 and {"created", "started"} <= set(events), len(events)
    box.delete()


# From an address (its own, or not), to an echo of datagrams beyond the machine.
SEND = """sudo python3 - <<'X'
import socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
data = b"knock"
udp = struct.pack(">4H", 5555, 8001, 8 + len(data), 0) + data
ip = struct.pack(">BBHHHBBH4s4s", 69, 0, 20 + len(udp), 1, 0, 64, 17, 0,
                 socket.inet_aton("%s"), socket.inet_aton("%s"))
s.sendto(ip + udp, ("%s", 0))
X
"""
HEAR = "(timeout 110 python3 -c 'import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); " \
       "s.bind((\"\", 5555)); open(\"/tmp/ready\", \"w\"); open(\"/tmp/heard\", \"wb\").write(s.recv(99))' " \
       ">/dev/null 2>&1 &); until test -e /tmp/ready; do sleep .1; done; hostname -I"


def test_a_box_sends_from_no_address_but_its_own(open_host, public):
    """Answers to what it sends in another's name would be let in there."""
    box, other = (open_host.create(network={"mode": "full"}) for _ in range(2))
    mine, its = (one.run(HEAR).split()[0] for one in (box, other))
    box.run(SEND % (its, public, public))
    heard = lambda one: one.run("cat /tmp/heard 2>/dev/null; true")

    def knock():  # after it: when this was answered, so would have been that
        box.run(SEND % (mine, public, public))
        return heard(box) == "knock"

    assert eventually(knock) and heard(other) == ""
    box.delete()
    other.delete()


def test_its_root_cannot_change_the_rules(open_host, public):
    """Not its own network's either: that takes rights it does not have."""
    box = open_host.create(network={"mode": "full"})
    for command in ("ip address add 10.0.0.7/8 dev eth0", "ip link set eth0 down", "nft list ruleset",
                    "ip route add 10.0.0.0/8 dev eth0"):
        data = box.request("POST", "/v1/bash/exec", json={"command": f"sudo {command}"}).json()["data"]
        assert data["exit_code"] != 0, (command, data)
    assert curl(box, f"-o /dev/null -w '%{{http_code}}' http://{public}:8000/") == ("200", 0)
    box.delete()


def test_forwarding_of_names(open_host):
    """DNS of a box with the whole network is the machine's."""
    box = open_host.create(network={"mode": "full"})
    data = json.loads(box.run("python3 -c \"import json,socket\ntry: print(json.dumps(socket.gethostbyname('nothing.invalid')))\n"
                              "except socket.gaierror as e: print(json.dumps(e.errno))\""))
    assert data in (-2, -3, -5), "it is answered, be it that there is none"
    box.delete()
