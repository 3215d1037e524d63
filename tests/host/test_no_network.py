"""A box without a network: what it asks for outside fails at once, its API says why, and the host's history has the
names. Boxes with one say what is open."""

import contextlib
import json
import os
import shutil
import time

import pytest

from harness import eventually

REASON = "this sandbox has no network"
# Each gives up by itself; the bound is far above what they take and far below their retries.
TOOLS = {
    "curl": "curl -sS https://packages.example.com/",
    "python3": "python3 -m pip install --disable-pip-version-check no-such-package-of-ours",
    "npm": "npm install no-such-package-of-ours",
    "apt-get": "sudo apt-get -o Acquire::http::Proxy=false update",
    "git": "git ls-remote https://packages.example.com/x",
}
SLOWEST_SECONDS = {"npm": 15}  # it takes seconds to load beside other tests, and 70 with its retries


def execute(box, command, **more):
    answer = box.request("POST", "/v1/bash/exec", json={"command": command, **more}, timeout=120)
    assert answer.status_code == 200, answer.text
    return answer.json()


def names(box):
    return [event["data"]["host"] for event in box.call("GET", "/events") if event["type"] == "denied"]


@pytest.mark.parametrize("tool", TOOLS)
def test_tools_fail_at_once_and_say_why(host, box, tool):
    if not shutil.which(tool):
        pytest.skip(f"no {tool} on this machine")
    began = time.monotonic()
    answer = execute(box, TOOLS[tool])
    assert time.monotonic() - began < SLOWEST_SECONDS.get(tool, 6), answer
    assert answer["data"]["exit_code"] != 0 or tool == "apt-get", answer
    assert "resol" in str(answer) or "ENOTFOUND" in str(answer) or "not known" in str(answer), answer
    assert REASON in answer["hint"] and "aio create --network allow" in answer["hint"], answer


def bash_tool(box, command):
    answer = box.request("POST", "/mcp", timeout=120, headers={
        "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}, json={
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "sandbox_execute_bash", "arguments": {"command": command}}})
    assert answer.status_code == 200, answer.text
    text = answer.text
    return json.loads(text[text.index("{"):])["result"]


def test_a_model_sees_why(host, box):
    result = bash_tool(box, "getent hosts packages.example.com")
    assert result["structuredContent"]["exit_code"] == 2 and REASON in result["structuredContent"]["hint"], result
    assert REASON in result["content"][0]["text"]
    assert "hint" not in bash_tool(box, "true")["structuredContent"]


def test_aio_exec_says_why(host, box):
    done = host.cli("exec", box.id, "--", "getent", "hosts", "packages.example.com", check=False)
    assert (done.returncode, done.stdout) == (2, "") and f"aio exec: A program asked for a host outside, but {REASON}" in done.stderr
    assert host.cli("exec", box.id, "--", "true").stderr == ""


def test_a_command_that_asks_for_nothing_has_no_hint(host, box):
    assert execute(box, "getent hosts localhost $(hostname); curl -sS localhost:1")["hint"] is None


def test_what_a_browser_looks_up_on_its_own_is_not_an_event(host, box):
    """Its updates, whenever it starts: nobody has asked for those."""
    execute(box, "getent hosts clients2.google.com; getent hosts update.googleapis.com; getent hosts asked.example.com")
    assert eventually(lambda: "asked.example.com" in names(box)), names(box)
    assert not {"clients2.google.com", "update.googleapis.com"} & set(names(box))


def test_names_are_events_of_the_box(host, box):
    execute(box, "curl -sS https://first.example.com/; curl -sS https://a-second_one.example.com/; "
                 "curl -sS https://first.example.com/; getent hosts 192.0.2.7")
    assert eventually(lambda: {"first.example.com", "a-second_one.example.com"} <= set(names(box))), names(box)
    event = next(event for event in box.call("GET", "/events")
                 if event["type"] == "denied" and event["data"]["host"] == "first.example.com")
    assert event["data"]["reason"] == REASON and event["data"]["port"] == 0 and event["data"]["times"] >= 1, event
    assert event["data"]["time"] > 1.7e9
    row = next(row for row in host.cli("events", box.id).stdout.splitlines() if "host=first.example.com" in row)
    assert "times=" in row and " time=" not in row and "port=" not in row, row
    assert names(box).count("first.example.com") == 1  # the same is told once in a while
    assert not any("arpa" in name for name in names(box))  # programs ask for the names of addresses by themselves


def test_what_answers_gives_no_way_out_and_takes_anything(host, box):
    """Garbage, answers, compressed names, long names; then it still answers, and nothing came out."""
    replies = box.run(r"""python3 - <<'X'
import os, socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(20)
def ask(data):
    s.sendto(data, ("127.0.0.1", 53))
head = struct.pack(">6H", 7, 0x100, 1, 0, 0, 0)
for data in (b"", b"x", head, head[:11], struct.pack(">6H", 7, 0x8100, 1, 0, 0, 0) + b"\1a\0\0\1\0\1", head + b"\xc0\x0c\0\1\0\1",
             head + b"\x3f" + b"a" * 70, head + (b"\x3f" + b"a" * 63) * 5 + b"\0\0\1\0\1", head + b"\5a\"b\n}\0\0\1\0\1",
             os.urandom(2000), os.urandom(60000)):
    ask(data)
ask(struct.pack(">6H", 99, 0x100, 1, 0, 0, 0) + b"\5alive\7example\0\0\1\0\1")
while True:
    got, source = s.recvfrom(4096)
    if got[:2] == b"\0\x63":
        break
print(got[3] & 15, struct.unpack(">H", got[6:8])[0], source)
X""")
    assert replies.strip() == "3 0 ('127.0.0.1', 53)"
    assert eventually(lambda: "alive.example" in names(box))
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_.") for name in names(box)), names(box)


def test_a_flood_of_names_does_not_fill_the_history(host):
    box = host.create()
    box.run(r"""python3 - <<'X'
import socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(20)
for i in range(20000):
    name = b"n%d" % i
    s.sendto(struct.pack(">6H", 7, 256, 1, 0, 0, 0) + bytes([len(name)]) + name + b"\7example\0\0\1\0\1", ("127.0.0.1", 53))
    s.recv(512)
X""")
    assert eventually(lambda: len(names(box)) >= 40)
    assert len(names(box)) < 200
    assert "created" in box.events()
    assert len(box.logs()) < 100_000
    box.delete()


def test_a_server_that_was_taken_over_cannot_fill_the_history(host):
    """Its log is what reports come by: it can write there what it likes."""
    box = host.create()
    log = os.open(f"/proc/{box.first_process()}/fd/5", os.O_WRONLY | os.O_NONBLOCK)
    report = "denied %s times=%s (this sandbox has no network)\n"
    os.write(log, "".join([report % ("Upper.example", 1), report % ('x","y":"', 1), report % ("a" * 300, 1),
                           report % ("minus.example", -1), report % ("much.example", "9" * 30), "denied cut.exa\n",
                           "x " + report % ("later.example", 1), report % ("good.example", 5)]).encode())
    assert eventually(lambda: "good.example" in names(box))
    for i in range(400):
        with contextlib.suppress(BlockingIOError):
            os.write(log, "".join(report % (f"n{i}-{n}.example", 1) for n in range(40)).encode())
    os.close(log)
    assert eventually(lambda: len(names(box)) >= 50)
    assert len(names(box)) < 200
    assert names(box)[0] == "good.example" and all(".example" in name for name in names(box)), names(box)
    box.delete()


def test_what_the_api_says(host, box):
    data = box.request("GET", "/v1/sandbox").json()
    assert data["detail"]["system"]["network"] == "none"
    for text in (data["data"], box.request("GET", "/llms.txt").text, instructions(box)):
        assert "Network: none" in text and '"network": {"mode": "allow", "allow": [' in text, text[:3000]
        assert "aio create --network allow --allow " in text


def instructions(box):
    answer = box.request("POST", "/mcp", headers={"Accept": "application/json, text/event-stream"}, json={
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}})
    assert answer.status_code == 200, answer.text
    return answer.text.replace('\\"', '"')


def test_boxes_with_a_network_say_what_is_open(host):
    if not shutil.which("nft", path="/usr/sbin:/usr/bin"):
        pytest.skip("no nftables on this machine")
    box = host.create(network={"allow": ["packages.example.com", "*.example.org:443"]})
    for text in (box.request("GET", "/v1/sandbox").json()["data"], box.request("GET", "/llms.txt").text, instructions(box)):
        assert "Network: allow" in text and "packages.example.com, *.example.org:443" in text, text[:3000]
    assert execute(box, "curl -sS https://other.example.com/; echo $PIP_RETRIES$npm_config_fetch_retries")["data"]["stdout"] == "\n"
    box.delete()
    box = host.create(network={"mode": "full"})
    for text in (box.request("GET", "/v1/sandbox").json()["data"], instructions(box)):
        assert "Network: full" in text
    box.delete()


def test_an_empty_list_of_names_is_remarked_on(host):
    if not shutil.which("nft", path="/usr/sbin:/usr/bin"):
        pytest.skip("no nftables on this machine")
    for more in ([], ["--allow", "packages.example.com"]):
        done = host.cli("create", "remarked", "--network", "allow", *more)
        assert ("box 'remarked' reaches nothing" in done.stderr) == (not more), done
        host.cli("rm", "remarked")


def test_a_long_list_of_names_is_cut_in_what_is_said(host):
    if not shutil.which("nft", path="/usr/sbin:/usr/bin"):
        pytest.skip("no nftables on this machine")
    box = host.create(network={"allow": [f"a-rather-long-name-number-{i}.packages.example.com" for i in range(1000)]})
    assert "of 1000 names" in box.request("GET", "/v1/sandbox").json()["data"]
    assert len(box.run("echo $AIO_SANDBOX_NETWORK")) < 5000
    box.delete()


def test_who_made_the_box_decides_about_retries(host):
    box = host.create(env={"PIP_RETRIES": "7"})
    assert box.run("echo $PIP_RETRIES $AIO_SANDBOX_NETWORK") == "7 none\n"
    box.delete()


def test_a_dns_server_of_the_box_s_own_takes_its_place(host, box):
    """It may be what the work is about."""
    assert box.run(r"""sudo python3 - <<'X'
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", 53))
print("bound")
X""") == "bound\n"
