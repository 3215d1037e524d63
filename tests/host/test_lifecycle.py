"""Boxes are made, listed, limited, paused, copied, watched and deleted."""

import ctypes
import json
import os
import re
import select
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness import connect, eventually, request
from hosts import Box
from processes import patiently


def test_a_box_from_its_first_to_its_last_moment(host):
    before = host.settled()
    box = host.create(name="whole-life", metadata={"owner": "ann"}, env={"COLOUR": "blue"})
    assert box.data["id"] == "whole-life" and box.data["state"] == "running" and len(box.token) == 32
    assert box.data["metadata"] == {"owner": "ann"} and box.data["expires_at"] is None
    assert box.run("echo $COLOUR; whoami; hostname; echo $HOME").split() == ["blue", "gem", "whole-life", "/home/gem"]
    assert box.run("sudo id -u") == "0\n"
    assert "whole-life" in host.ids() and len(host.holdings()["directories"]) == len(before["directories"]) + 1
    assert box.events()[:3] == ["created", "started", "exec"]
    box.delete()
    assert "whole-life" not in host.ids()
    assert eventually(lambda: host.holdings() == before), (before, host.holdings())
    assert box.request("GET", "/v1/sandbox").status_code == 401  # its token opens nothing any more
    got = host.client.get("/v1/sandboxes/whole-life", headers=host.auth)
    assert got.status_code == 404 and got.json()["success"] is False


def test_boxes_do_not_share_files_or_processes(host, box):
    other = host.create()
    box.run("echo mine >/tmp/secret; echo mine >~/secret; (sleep 1000 &) ; true")
    assert other.run("cat /tmp/secret ~/secret 2>/dev/null; pgrep -c sleep; true").split() == ["0"]


@pytest.mark.parametrize("spec,field", [
    ({"name": "Upper"}, None), ({"name": "1abc"}, None), ({"name": "a" * 41}, "name"), ({"name": "a--b"}, None),
    ({"name": "-a"}, None), ({"name": "a/../b"}, None), ({"timeout": -1}, "timeout"), ({"timeout": "x"}, "timeout"),
    ({"limits": {"memory": -5}}, "memory"), ({"limits": []}, "limits"), ({"auth": "maybe"}, "auth"),
    ({"network": {"mode": "some"}}, "mode"), ({"env": {"A=B": "x"}}, None), ({"env": {"": "x"}}, None),
    ({"mounts": [{"source": "/etc", "target": "/mnt"}]}, None), ({"mounts": [{"source": "etc", "target": "/m"}]}, "source"),
    ({"metadata": {str(i): "x" for i in range(65)}}, None),
])
def test_what_cannot_be_is_refused(host, spec, field):
    got = host.client.post("/v1/sandboxes", headers=host.auth, json=spec)
    assert got.status_code in (400, 422), got.text
    if field:
        assert field in json.dumps(got.json()["detail"])


def test_sizes_as_people_write_them(host):
    for memory, bytes in [("256M", 256 << 20), ("1.5G", 3 << 29), ("2GiB", 2 << 30), ("300 mb", 300 << 20)]:
        box = host.create(limits={"memory": memory, "cpus": "0.5"})
        assert box.data["limits"]["memory"] == bytes and box.data["limits"]["cpus"] == 0.5
        box.delete()


def test_the_least_that_is_allowed_works(host):
    """A shell, and beside it a pipeline and a file."""
    limits = {"memory": "16M", "pids": 8, "disk": "16M"}
    if host.client.post("/v1/sandboxes", headers=host.auth, json={"limits": {"disk": "16M"}}).status_code != 200:
        del limits["disk"]
    box = host.create(limits=limits)
    shell = box.request("POST", "/v1/shell/exec", json={"command": "echo shell"}).json()
    assert shell["data"]["exit_code"] == 0, shell
    assert box.run("seq 5 | sort -r | head -1; head -c 1000000 /dev/zero >~/file; stat -c %s ~/file") == "5\n1000000\n"


@pytest.mark.parametrize("query, word", [
    ("state=bogus", "'creating', 'running', 'paused' or 'stopped'"), ("state=running&state=", "'creating'"),
])
def test_a_state_that_there_is_not_is_refused(host, query, word):
    answer = host.client.get(f"/v1/sandboxes?{query}", headers=host.auth)
    assert answer.status_code == 422 and word in answer.text
    assert "default" in [box["id"] for box in host.api("GET", "/v1/sandboxes?state=running&state=paused")["sandboxes"]]


def test_a_service_is_ready_before_it_is_asked_for(host):
    box = host.create(services=["jupyter"])
    assert eventually(lambda: box.count("[f]orkserver"))


def test_no_such_template(host):
    got = host.client.post("/v1/sandboxes", headers=host.auth, json={"template": "nothing"})
    assert got.status_code == 404 and "nothing" in got.json()["message"]


def test_a_name_is_taken_once(host):
    host.create(name="only-one")
    got = host.client.post("/v1/sandboxes", headers=host.auth, json={"name": "only-one"})
    assert got.status_code == 409


def test_the_list_is_filtered_and_paged(host):
    made = [host.create(metadata={"n": str(n), "kind": "odd" if n % 2 else "even"}) for n in range(4)]
    ids = [box.id for box in made]
    def listed(query):
        page = host.api("GET", f"/v1/sandboxes?{query}")
        return [box["id"] for box in page["sandboxes"]], page["total"]
    assert listed("metadata=kind=odd") == ([ids[1], ids[3]], 2)
    assert listed("metadata=kind=odd&metadata=n=3") == ([ids[3]], 1)
    assert listed("metadata=n&limit=2") == (ids[:2], 4)
    assert listed("metadata=n&limit=2&offset=2") == (ids[2:], 4)
    made[2].call("POST", "/pause")
    assert listed("metadata=n&state=paused") == ([ids[2]], 1)
    assert host.client.get("/v1/sandboxes?limit=0", headers=host.auth).status_code == 422
    page = host.api("GET", "/v1/sandboxes")
    assert all(box["token"] is None for box in page["sandboxes"])


def test_a_timeout_deletes(host):
    box = host.create(timeout=1)
    assert box.data["expires_at"]
    assert eventually(lambda: box.id not in host.ids())


def test_a_timeout_can_be_moved(host):
    def move(seconds):
        box = host.create(timeout=seconds)
        return box, seconds, host.client.post(f"/v1/sandboxes/{box.id}/timeout", headers=host.auth, json={"timeout": 0})

    box, seconds, moved = patiently(move, lambda result: result[2].status_code != 404)
    assert moved.json()["data"]["expires_at"] is None
    later = host.create(timeout=seconds + 1)
    assert eventually(lambda: later.id not in host.ids())
    assert box.id in host.ids()


def test_pause_and_resume(host):
    box = host.create()
    box.run("(while true; do echo x >>/tmp/ticks; sleep 0.02; done) >/dev/null 2>&1 & until [ -s /tmp/ticks ]; do sleep 0.02; done")
    assert box.call("POST", "/pause")["state"] == "paused"
    assert box.call("POST", "/pause")["state"] == "paused"
    got = box.request("GET", "/v1/sandbox")
    assert got.status_code == 409 and "paused" in got.json()["detail"]

    def rests():
        """The last of its processes may still be on its way to where it stops."""
        cpu = box.call("GET", "/metrics")["cpu_seconds"]
        time.sleep(0.5)  # in which it would write 25 lines
        return box.call("GET", "/metrics")["cpu_seconds"] == cpu

    assert eventually(rests)
    assert box.call("POST", "/resume")["state"] == "running"
    before = int(box.run("wc -l </tmp/ticks"))
    assert eventually(lambda: int(box.run("wc -l </tmp/ticks")) > before)
    assert [e for e in box.events() if e in ("paused", "resumed")] == ["paused", "resumed"]


@pytest.mark.concurrency
def test_a_request_resumes_where_that_is_wanted(host):
    box = host.create(auto_resume=True)
    box.call("POST", "/pause")
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda n: box.run(f"echo {n}"), range(8))) == {f"{n}\n" for n in range(8)}
    assert box.state == "running"


def test_who_has_no_credentials_does_not_wake_a_box(host):
    """Neither by a health check nor by a browser's question."""
    box = host.create(auto_resume=True)
    anyone = {"x-aio-sandbox": box.id}
    box.call("POST", "/pause")
    preflight = {**anyone, "Origin": "http://localhost", "Access-Control-Request-Method": "GET"}
    assert host.client.get("/health", headers=anyone).status_code == 401
    assert host.client.options("/v1/sandbox", headers=preflight).status_code == 403
    assert box.state == "paused"
    assert box.request("GET", "/health").status_code == 200
    assert box.state == "running"


def test_health_checks_do_not_keep_a_box_awake(host):
    box = host.create(idle_timeout=1)
    def idle():
        host.client.get("/health", headers={"x-aio-sandbox": box.id})
        return box.state == "paused"
    assert eventually(idle)


def test_an_idle_box_is_paused_and_comes_back(host):
    box = host.create(idle_timeout=1)
    assert box.data["auto_resume"] is True and box.data["idle_timeout"] == 1
    assert eventually(lambda: box.state == "paused")
    assert box.run("echo back") == "back\n"
    # A request that takes longer than that is not idleness.
    assert box.run("sleep 2.5; echo done") == "done\n"


def test_a_box_whose_first_process_dies_is_stopped_and_starts_again(host):
    box = host.create()
    box.run("echo kept >~/file")
    os.kill(box.first_process(), 9)
    assert eventually(lambda: box.state == "stopped")
    assert "exited" in box.events()
    assert box.request("GET", "/v1/sandbox").status_code == 409
    assert box.call("POST", "/resume")["state"] == "running"
    assert box.run("cat ~/file; hostname").split() == ["kept", box.id]


def test_a_box_that_can_start_nothing_any_more_ends_and_starts_again(host):
    """Its root, or its memory's limit, ended the process that all commands are born of."""
    box = host.create()
    box.run("sudo pkill -9 -xf 'aio cradle'")
    assert box.request("POST", "/v1/bash/exec", json={"command": "true"}).status_code == 502
    assert eventually(lambda: box.state == "stopped")
    assert eventually(lambda: "that starts commands" in box.logs())
    assert box.call("POST", "/resume")["state"] == "running" and box.run("echo again") == "again\n"
    box.delete()


def test_a_log_drives_no_terminal(host):
    box = host.create()
    with open(f"/proc/{box.first_process()}/fd/5", "wb") as log:  # as a hostile server would
        log.write("\x1b]0;title\x07 \u009b31m \x7f\ttab, \u00e9 \u2603\n".encode())
    assert eventually(lambda: "?]0;title? ??31m ?\ttab, \u00e9 \u2603\n" in box.logs())
    box.delete()


@pytest.mark.concurrency
def test_many_at_once(host):
    """Made at the same time, each with its own identity; deleted at the same time."""
    before = host.settled()
    with ThreadPoolExecutor(12) as pool:
        boxes = list(pool.map(lambda _: host.create(), range(12)))
        assert list(pool.map(lambda box: box.run("hostname").strip(), boxes)) == [box.id for box in boxes]
        uids = {os.stat(f"/proc/{box.first_process()}").st_uid for box in boxes}
        assert len(uids) == 12 and min(uids) >= 0x40000000
        list(pool.map(lambda box: box.delete(), boxes))
    assert eventually(lambda: host.holdings() == before), (before, host.holdings())


@pytest.mark.concurrency
def test_two_who_delete_the_same_box(host):
    box = host.create()
    with ThreadPoolExecutor(4) as pool:
        codes = sorted(pool.map(lambda _: host.client.delete(f"/v1/sandboxes/{box.id}", headers=host.auth).status_code,
                                range(4)))
    assert codes == [200, 404, 404, 404]


def test_a_fork_has_the_files(host):
    box = host.create(metadata={"a": "1"})
    box.run("mkdir -p ~/d; echo one >~/d/f; sudo sh -c 'echo root >/etc/made'; ln -s d/f ~/link; sudo rm /etc/hostname")
    fork = Box(host, box.call("POST", "/fork", json={"name": "forked"}))
    assert fork.id == "forked" and fork.token != box.token and fork.data["metadata"] == {"a": "1"}
    assert fork.run("cat ~/link /etc/made; hostname; stat -c %U ~/d/f").split() == ["one", "root", "forked", "gem"]
    fork.run("echo two >~/d/f")
    assert box.run("cat ~/d/f") == "one\n" and box.state == "running"
    assert "forked" in box.events()


def test_a_snapshot_is_a_template(host):
    box = host.create()
    box.run("echo base >~/f; sudo rm -rf /usr/share/doc/bash")
    assert box.call("POST", "/snapshot", json={"name": "my-shot"}) == {"template": "my-shot"}
    box.run("echo changed >~/f")
    again = host.client.post(f"/v1/sandboxes/{box.id}/snapshot", headers=host.auth, json={"name": "my-shot"})
    assert again.status_code == 409
    two = [host.create(template="my-shot") for _ in range(2)]
    for one in two:
        assert one.run("cat ~/f; test -e /usr/share/doc/bash || echo gone").split() == ["base", "gone"]
    two[0].run("echo other >~/f")
    assert two[1].run("cat ~/f") == "base\n"
    used = host.client.delete("/v1/templates/my-shot", headers=host.auth)
    assert used.status_code == 409
    for one in two:
        one.delete()
    host.api("DELETE", "/v1/templates/my-shot")
    assert [t["name"] for t in host.api("GET", "/v1/templates")] == ["machine"]


def test_metrics(host, box):
    box.run("python3 -c 'import time\nwhile time.process_time() < 0.4: pass'")
    got = box.call("GET", "/metrics")
    assert got["state"] == "running" and got["cpu_seconds"] > 0.2
    assert got["memory"] > 100_000 and got["pids"] >= 2 and got["requests"] >= 1


class Opened:
    """Whether a directory was opened since it was last asked."""

    def __init__(self, path):
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        assert libc.inotify_add_watch(self.fd, os.fsencode(path), 0x20) > 0

    def within(self, seconds):
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        return bool(os.read(self.fd, 65536))


def test_files_of_a_box_are_counted_only_for_who_asks(host):
    """One thread keeps all boxes: a million files in one of them would hold up the timers of the others."""
    box = host.create()
    opened = Opened(host.state / "boxes" / box.id / "rw")
    box.run("true")
    # It looks for memory that ran out every two seconds; whoever else walks over all files passes.
    assert not all(opened.within(4) for _ in range(5))
    assert box.call("GET", "/metrics")["disk"] > 0 and opened.within(0)
    os.close(opened.fd)


def test_memory_is_limited_and_the_host_says_so(host):
    box = host.create(limits={"memory": 512 << 20, "pids": 100})
    got = box.request("POST", "/v1/bash/exec", json={
        "command": "python3 -c 'a = bytearray(1200 << 20); print(len(a))'"}).json()["data"]
    assert got["exit_code"] != 0 and "1258291200" not in got["stdout"]
    assert box.run("echo alive") == "alive\n"
    assert eventually(lambda: "oom" in box.events())
    # Commands are killed before what starts them.
    assert box.run("for i in $(seq 600); do read score </proc/$$/oom_score_adj; [ $score = 600 ] && break; sleep 0.05; done; "
                   "echo $score") == "600\n"


@pytest.mark.parametrize("field, value, word", [
    ("network", {"mode": "none", "allow": ["example.org"]}, "not for 'none'"),
    ("network", {"mode": "full", "allow": ["example.org"]}, "not for 'full'"),
    ("limits", {"cpus": 0.001}, "limits.cpus: 0.001 is too little: the least is 0.01"),
    ("limits", {"cpus": "5000"}, "counts cores, not percent"),
    ("limits", {"memory": 1000}, "limits.memory: 1000 is too little: the least is 16M"),
    ("limits", {"memory": "15.5M"}, "the least is 16M"),
    ("limits", {"disk": 10}, "limits.disk: 10 is too little: the least is 16M"),
    ("limits", {"pids": 1}, "limits.pids: 1 is too little: the least is 8"),
    ("limits", {"memory": "lots"}, 'a size: bytes, or a number with K, M, G or T, such as \\"512M\\"'),
    ("limits", {"memory": True}, "a size"), ("limits", {"memory": 1.5}, "a size"), ("limits", {"disk": "1Q"}, 'such as \\"2G\\"'),
    ("limits", {"disk": "-1M"}, "a size"), ("limits", {"disk": "5000000G"}, "less than or equal"),
    ("limits", {"cpus": "many"}, "such as 1.5"), ("limits", {"pids": "few"}, "such as 200"),
    ("services", ["bogus"], "'jupyter'"),
])
def test_a_wish_that_contradicts_itself_is_refused(host, field, value, word):
    got = host.client.post("/v1/sandboxes", headers=host.auth, json={field: value})
    assert got.status_code == 422 and word in got.text, got.text


def test_a_limit_that_cannot_be_held_is_refused(host):
    """Never silently weaker."""
    got = host.client.post("/v1/sandboxes", headers=host.auth, json={"limits": {"disk": 100 << 20}})
    if got.status_code == 200:
        box = Box(host, got.json()["data"])
        full = box.request("POST", "/v1/bash/exec", json={"command": "head -c 300000000 /dev/zero >~/big"})
        assert full.json()["data"]["exit_code"] != 0
    else:
        assert got.status_code in (400, 422, 501) and "disk" in got.text


def test_without_a_limit_a_box_still_leaves_processes_to_others(host):
    if re.search(r"^pids +none", host.log, re.M):
        pytest.skip("NOT TESTED: no cgroup controller 'pids'")
    with open("/proc/sys/kernel/pid_max") as file:
        most = int(file.read())
    box = host.create()
    limits = [os.path.join(path, "run/pids.max") for path in host.holdings()["cgroups"] if path.endswith(box.id)]
    limits = [path for path in limits if os.path.exists(path)]
    assert limits
    with open(limits[0]) as file:
        assert 0 < int(file.read().replace("max", "0")) <= most // 4
    assert host.create(limits={"pids": 77}).run("echo fits") == "fits\n"


def test_spare_disks_do_not_pile_up(host):
    """One is kept ready for the next box, not one of every size there ever was: their space is all taken."""
    def is_restocked(size):
        got = host.client.post("/v1/sandboxes", headers=host.auth, json={"limits": {"disk": size << 20}})
        if got.status_code != 200:
            pytest.skip(f"NOT TESTED: no limits of disks here: {got.text}")
        ready = host.state / f".disk-{size << 20}"
        return eventually(lambda: ready.exists() or not list(host.state.glob(".disk-*")), 10)

    for size in (32, 40, 48):
        # None is made while another one is being made, perhaps for a box of the test before: then the next box brings it.
        assert eventually(lambda: is_restocked(size))
    assert eventually(lambda: len(list(host.state.glob(".disk-*"))) <= 1)


def test_mounts_come_from_the_operators_roots_only(host):
    (host.roots / "data").mkdir()
    (host.roots / "data/file").write_text("shared")
    (host.roots / "out").symlink_to("/etc")
    os.chmod(host.roots, 0o755)
    box = host.create(mounts=[{"source": str(host.roots / "data"), "target": "/mnt/data"}])
    assert box.run("cat /mnt/data/file; touch /mnt/data/x 2>/dev/null || echo read-only").split() == ["shared", "read-only"] \
        or box.run("cat /mnt/data/file") == "shared"
    for source in (host.roots / "out", "/etc", host.roots / "data/../../../etc", host.roots.parent):
        got = host.client.post("/v1/sandboxes", headers=host.auth, json={
            "mounts": [{"source": str(source), "target": "/mnt/x"}]})
        assert got.status_code == 422 or got.status_code == 400, got.text


# --- events ------------------------------------------------------------------------------------

@pytest.mark.concurrency
def test_events_are_streamed(host):
    box = host.create()
    got, ready = [], threading.Event()

    def watch():
        with host.client.stream("GET", f"/v1/sandboxes/{box.id}/events", headers={
                **host.auth, "Accept": "text/event-stream"}) as stream:
            for line in stream.iter_lines():
                if line.startswith("event:"):
                    got.append(line.split(":", 1)[1].strip())
                    ready.set()

    thread = threading.Thread(target=watch)
    thread.start()
    assert ready.wait(60)
    box.run("true")
    box.call("POST", "/pause")
    box.call("POST", "/resume")
    box.delete()
    thread.join(60)
    assert not thread.is_alive()
    assert got == ["created", "started", "exec", "paused", "resumed", "deleted"]


@pytest.mark.concurrency
def test_a_slow_watcher_is_sent_the_deletion(host):
    """The box is deleted while earlier events are being sent."""
    box = host.create()
    for _ in range(500):
        assert box.request("POST", "/v1/bash/exec", json={}).status_code == 422
    with host.connect(receive_buffer=4096) as peer:
        peer.send(request(f"/v1/sandboxes/{box.id}/events", headers={**host.auth, "Accept": "text/event-stream"}))
        assert peer.head().status == 200
        box.delete()
        events = b""
        while chunk := peer.chunk():
            events += chunk
    assert chunk == b"", "its end is marked"
    types = [line.partition(b": ")[2] for line in events.splitlines() if line.startswith(b"event:")]
    assert len(types) == 501 and types[-1] == b"deleted", types[-3:]


def test_all_that_runs_something_is_in_the_history(host):
    box = host.create()
    paths = ["/v1/bash/exec", "/v1/shell/exec", "/v1/code/execute", "/v1/jupyter/execute", "/v1/nodejs/execute",
             "/api/v1/contexts/some/execute", "/v1/mcp/some/tools/any"]
    for path in (*paths, "/v1/file/write", "/api/v1/contexts/some/more/execute"):
        box.request("POST", path, json={})
    box.request("POST", "/v1/bash/exec", json={}, headers={"x-aio-proxy-port": "4321"})  # an application's own
    box.request("GET", "/v1/bash/exec")
    url = f"ws://127.0.0.1:{host.port}/v1/shell/ws"
    with connect(url, additional_headers=box.headers, proxy=None):
        pass

    def told():
        return [event["data"]["path"] for event in box.call("GET", "/events") if event["type"] == "exec"]

    # A WebSocket that says nothing is there when it has ended, which its client does not wait for.
    wanted = [path.replace("some", "*").replace("any", "*") for path in paths] + ["/v1/shell/ws"]
    assert eventually(lambda: told() == wanted), told()
    box.delete()


def test_events_after_a_number(host, box):
    box.run("true")
    events = box.call("GET", "/events")
    assert [e["seq"] for e in events] == sorted(e["seq"] for e in events)
    assert all(e["at"].endswith("Z") and isinstance(e["data"], dict) for e in events)
    last = events[-1]["seq"]
    assert box.call("GET", f"/events?after={last}") == []
    assert [e["seq"] for e in box.call("GET", f"/events?after={last - 1}")] == [last]
    for number in (2**63 - 1, 2**63, -1):
        got = host.client.get(f"/v1/sandboxes/{box.id}/events?after={number}", headers=host.auth)
        assert got.status_code == 422, got.text


def test_wrong_credentials_do_not_wash_the_history_away(host):
    box = host.create()
    for _ in range(30):
        assert host.client.get("/v1/sandbox", headers={"x-aio-sandbox": box.id}).status_code == 401
    events = box.events()
    assert events[:2] == ["created", "started"] and 1 <= events.count("denied") < 30


def test_who_waits_for_a_box_hears_that_it_is_gone(host):
    """And the connection is good for more."""
    box = host.create(auto_resume=True)
    os.kill(box.first_process(), 9)
    assert eventually(lambda: box.state == "stopped")
    files = host.state / "boxes" / box.id / "rw"
    files.rename(files.with_name("away"))
    files.write_text("it cannot start")
    with host.connect() as peer:
        peer.send(request("/v1/sandbox", headers=box.headers))
        assert host.logged(f"box {box.id} could not be resumed")  # it was asked to
        box.delete()
        assert peer.answer().status == 404
        assert peer.ask(request("/health")).status == 200


def size_of(path):
    """Of a file that may just be put aside."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def test_what_the_server_of_a_box_logs(host):
    box = host.create()
    box.request("GET", "/no-such-path-here")
    assert eventually(lambda: "no-such-path-here" in box.logs())
    # A box that floods its log fills nothing: what does not fit is dropped.
    box.run("for i in $(seq 1 300); do head -c 65536 /dev/zero | tr '\\0' x >/proc/1/fd/1; done 2>/dev/null; true")
    assert sum(map(size_of, (host.state / "log").glob(f"{box.id}*"))) < 20 << 20


def test_a_mount_whose_source_becomes_a_symlink_meanwhile(host, tmp_path):
    """Whoever may write below a root swaps a directory with a link to elsewhere, over and over."""
    inside, outside, swapped = host.roots / "racing", tmp_path / "outside", host.roots / "swapped"
    inside.mkdir()
    (inside / "name").write_text("inside")
    outside.mkdir()
    (outside / "name").write_text("outside")
    swapped.symlink_to(outside)
    done = threading.Event()

    def swap():
        libc = ctypes.CDLL(None, use_errno=True)
        while not done.is_set():
            assert libc.renameat2(-100, bytes(inside), -100, bytes(swapped), 2) == 0

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        seen = []
        for _ in range(24):
            answer = host.client.post("/v1/sandboxes", headers=host.auth, json={
                "mounts": [{"source": str(inside), "target": "/mnt/x"}]})
            if answer.status_code == 200:
                box = Box(host, answer.json()["data"])
                seen.append(box.run("cat /mnt/x/name"))
                box.delete()
            else:
                seen.append(answer.status_code)
    finally:
        done.set()
        thread.join()
        swapped.unlink() if swapped.is_symlink() else inside.unlink()
        shutil.rmtree(inside if inside.exists() else swapped)
    assert set(seen) <= {"inside", 422} and len(seen) == 24, seen


def test_io_weight_is_kept_or_refused_by_name(host):
    """As what the host said when it started has it."""
    kept = "io weight    none" not in host.log
    answer = host.client.post("/v1/sandboxes", headers=host.auth, json={"limits": {"io_weight": 300}})
    assert answer.status_code == (200 if kept else 422), answer.text
    assert kept or "io_weight" in answer.text
    for weight in (-1, 10001, "much"):
        answer = host.client.post("/v1/sandboxes", headers=host.auth, json={"limits": {"io_weight": weight}})
        assert answer.status_code == 422 and "io_weight" in answer.text


@pytest.mark.parametrize("spec,where,meant", [
    ({"limits": {"memroy": 1 << 30}}, ["body", "limits", "memroy"], "memory"),
    ({"limts": {"memory": 1 << 30}}, ["body", "limts"], "limits"),
    ({"network": {"alow": ["packages.example.com"]}}, ["body", "network", "alow"], "allow"),
    ({"mounts": [{"source": "/a", "target": "/b", "writeable": True}]}, ["body", "mounts", 0, "writeable"], "writable"),
    ({"é" * 100: 1}, ["body", "é" * 100], None),
])
def test_what_is_mistyped_is_not_ignored(host, spec, where, meant):
    answer = host.client.post("/v1/sandboxes", headers=host.auth, json=spec)
    assert answer.status_code == 422, answer.text
    problem = answer.json()["detail"][0]
    assert problem["loc"] == where and problem["type"] == "extra_forbidden"
    assert f"'{meant}'" in problem["msg"] if meant else "did you mean" not in problem["msg"]


def test_the_hosts_own_calls_are_documented(host):
    document = host.client.get("/openapi.json").json()
    assert host.client.get("/v1/openapi.json").json() == document
    assert {"/v1/sandboxes", "/v1/sandboxes/{id}/fork", "/v1/templates/{name}", "/v1/bash/exec"} <= set(document["paths"])
    limits = document["components"]["schemas"]["SandboxLimits"]
    assert "io_weight" in limits["properties"] and limits["additionalProperties"] is False
    assert json.loads(host.cli("openapi", "--host").stdout) == document
    of_a_box = host.client.get("/s/default/openapi.json").json()
    assert "/v1/sandboxes" not in of_a_box["paths"] and json.loads(host.cli("openapi").stdout) == of_a_box
    manual = host.client.get("/llms.txt").text
    assert "a sandbox has none unless it is created with one" in manual and 'The sandbox \'default\' has the mode "none"' in manual
    assert "POST /v1/sandboxes/{id}/fork" in manual and "POST /v1/bash/exec" in manual
    of_a_box = host.client.get("/s/default/llms.txt").text.replace("in POST /v1/sandboxes;", "")  # how to get a network
    assert "/v1/sandboxes" not in of_a_box
