"""The host dies; its boxes do not. The next one takes them back and leaves nothing of what was half made."""

import contextlib
import fcntl
import itertools
import json
import os
import pathlib
import signal
import sqlite3
import subprocess
import tempfile
import threading

import httpx
import pytest
from harness import clean_environment, eventually, program
from hosts import UNIFIED, Host, folder, machine, seed_of


def step_wall_clock(host, seconds):
    """What a step of the clock looks like to the next host: the moments of the wall clock in its store are wrong."""
    with contextlib.closing(sqlite3.connect(host.state / "store.db")) as store:
        for name, doc in store.execute("SELECT id, doc FROM box").fetchall():
            doc = json.loads(doc)
            if doc["deadline"]:
                doc["deadline"]["wall_ms"] -= seconds * 1000
            store.execute("UPDATE box SET doc = ? WHERE id = ?", (json.dumps(doc), name))
        store.commit()


@pytest.fixture(scope="module")
def mortal():
    """A host to be killed and started again: each test leaves it running, with no box but `default`."""
    host = Host(folder())
    yield host
    host.end()


@pytest.fixture(autouse=True)
def only_default_is_left(request):
    yield
    if "mortal" in request.fixturenames:
        host = request.getfixturevalue("mortal")
        host.check()
        for extra in set(host.ids()) - {"default"}:
            host.api("DELETE", f"/v1/sandboxes/{extra}")


def test_boxes_outlive_the_host(mortal):
    host = mortal
    box, other = host.create(metadata={"a": "b"}), host.create()
    default = host.default()
    default.run("echo kept >~/file")
    box.begin("exec sleep 1000")
    assert eventually(lambda: box.count("^sleep 1000") == 1)
    dying, later = host.create(timeout=4), host.create(timeout=3600)
    paused = host.create()
    paused.call("POST", "/pause")
    before = host.holdings()
    events = box.events()
    other.request("GET", "/said-to-the-first")

    host.kill()
    step_wall_clock(host, 86400)
    host.start()

    assert set(host.ids()) - {dying.id} == {"default", box.id, other.id, later.id, paused.id}
    assert box.count("^sleep 1000") == 1  # the same processes
    assert default.run("cat ~/file") == "kept\n"
    assert box.call("GET")["metadata"] == {"a": "b"} and box.events()[:len(events)] == events
    assert box.call("GET")["token"] == box.token
    told = host.api("GET", "/v1/events")  # of all of them, by time
    assert [one["at"] for one in told] == sorted(one["at"] for one in told) and told[0]["sandbox"] == "default"
    assert [one["type"] for one in told if one["sandbox"] == box.id][:len(events)] == events
    other.request("GET", "/said-to-the-next")  # and its log, with what nobody had read yet
    assert eventually(lambda: all(f"/said-to-the-{who}" in other.logs() for who in ("first", "next")))
    assert paused.state == "paused"
    assert paused.call("POST", "/resume")["state"] == "running" and paused.run("echo up") == "up\n"
    assert eventually(lambda: dying.id not in host.ids())  # its timer goes on
    other.delete()
    later.delete()
    after = host.settled()
    assert len(after["directories"]) == 3
    assert after["mounts"] == before["mounts"] == []
    assert len(after["cgroups"]) == 3 * sum(path.endswith(box.id) for path in before["cgroups"]) > 0
    host.check()

    # Asked to end, it leaves them too.
    host.stop(signal.SIGTERM)
    assert os.path.exists(box.socket_path)
    host.start()
    assert box.count("^sleep 1000") == 1

    # Told to take them along, it does; their files stay.
    host.stop(signal.SIGINT)
    assert host.holdings()["cgroups"] == []
    host.start()
    assert box.state == "stopped" and default.run("cat ~/file") == "kept\n"
    assert box.call("POST", "/resume")["state"] == "running"
    for one in (box, paused):
        one.delete()
    left = host.settled()
    assert left["directories"] == ["default"] and left["sockets"] == ["default"]


def test_a_box_that_died_while_nobody_watched(mortal):
    host = mortal
    box = host.create(auto_resume=True)
    box.run("echo kept >~/file")
    host.kill()
    box.kill()
    host.start()
    assert eventually(lambda: box.state == "stopped") and "exited" in box.events()
    assert box.run("cat ~/file") == "kept\n"  # a request starts it again
    box.delete()


def test_half_made_boxes_are_removed(mortal):
    """Killed in the middle of making boxes, again and again."""
    host = mortal
    for _ in range(4):

        def make():
            try:
                while True:
                    httpx.post(f"{host.url}/v1/sandboxes", headers=host.auth, json={}, timeout=20, trust_env=False)
            except httpx.HTTPError:
                pass

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        known = len(host.ids())
        assert eventually(lambda: len(os.listdir(host.state / "boxes")) > known + 1, 60)
        host.kill()
        for thread in threads:
            thread.join()
        host.start()
        ids, held = set(host.ids()), host.settled()
        assert set(held["directories"]) == ids and held["mounts"] == []
        for box in ids - {"default"}:
            assert host.api("GET", f"/v1/sandboxes/{box}")["state"] == "running"
            host.api("DELETE", f"/v1/sandboxes/{box}")
        assert host.holdings()["directories"] == ["default"]


def test_no_request_brings_a_box_back_while_the_host_goes_down(mortal):
    host = mortal
    for _ in range(4):  # the default box is ended first: time to ask for it again
        host.create()
    over = threading.Event()

    def ask():
        while not over.is_set():
            with contextlib.suppress(httpx.HTTPError):
                httpx.get(f"{host.url}/v1/sandbox", timeout=10, trust_env=False)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    host.stop(signal.SIGINT)
    over.set()
    for thread in threads:
        thread.join()
    assert host.holdings()["cgroups"] == []

    # With a key that is none, a host that has boxes starts no more than one that has none.
    done = subprocess.run([program("aio"), "up", "--listen", "127.0.0.1:0", "--state", str(host.state)],
                          capture_output=True, text=True, timeout=60,
                          env=clean_environment(host.home, {"JWT_PUBLIC_KEY": "garbage"}))
    assert done.returncode != 0 and "JWT_PUBLIC_KEY" in done.stderr, done
    host.start()


def test_what_cannot_be_stored_has_not_happened(host):
    paused, stopped = host.create(), host.create()
    paused.call("POST", "/pause")
    stopped.kill()
    assert eventually(lambda: stopped.state == "stopped")
    frozen = paused.group("cgroup.events")
    with contextlib.closing(sqlite3.connect(host.state / "store.db")) as store:
        store.execute("ALTER TABLE box RENAME TO away")
        for box, state in ((paused, "paused"), (stopped, "stopped")):
            got = host.client.post(f"/v1/sandboxes/{box.id}/resume", headers=host.auth)
            assert got.status_code == 500 and box.state == state
        assert eventually(lambda: "frozen 1" in frozen.read_text())
        assert eventually(lambda: not any(path.endswith(stopped.id) for path in host.holdings()["cgroups"]))
        store.execute("ALTER TABLE away RENAME TO box")
    for box in (paused, stopped):
        assert box.call("POST", "/resume")["state"] == "running" and box.run("echo up") == "up\n"


def test_who_reads_the_store_does_not_stop_the_host(host):
    """A backup may lock it for a moment: then the host waits."""
    with contextlib.closing(sqlite3.connect(host.state / "store.db", isolation_level=None,
                                            check_same_thread=False)) as store:
        store.execute("BEGIN IMMEDIATE")
        timer = threading.Timer(1, store.execute, ["COMMIT"])  # until when the host cannot write
        timer.start()
        assert host.create().run("echo made") == "made\n"
        timer.join()


def test_makers_that_died_are_replaced(host):
    """Of memory that ran out, say: the next boxes are made by others."""
    before = set()

    def are_killed():
        found = host.makers()
        before.update(found)
        for pid in found:
            with contextlib.suppress(ProcessLookupError):  # one that had only looked like a maker
                os.kill(pid, signal.SIGKILL)
        return not found

    assert eventually(are_killed) and before
    assert host.create().run("echo made") == "made\n"
    after = host.makers()
    assert after and not set(after) & before


def test_one_host_per_state_directory(host):
    done = subprocess.run([program("aio"), "up", "--listen", "127.0.0.1:0", "--state", str(host.state)],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "another host" in done.stderr
    host.check()


def test_a_host_that_was_just_killed_is_no_other_host(mortal):
    """It is not reaped yet, and what it had in the making is not done."""
    host = mortal
    host.client.close()
    host.proc.kill()
    dead = host.proc
    with open(host.state / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # as a stage of it would
        threading.Timer(0.5, fcntl.flock, (lock, fcntl.LOCK_UN)).start()
        host.start()
    assert dead.wait() == -signal.SIGKILL
    assert host.default().run("echo back") == "back\n"


class Unmounted(Host):
    """A host where nobody has mounted cgroup v2, as in a container of a machine with v1."""

    before = ("unshare", "--mount", "--propagation", "private", "sh", "-c",
              f'umount -l {UNIFIED} && exec "$@"', "sh")


def test_what_a_killed_host_was_making_is_waited_for(mortal):
    """However long it takes on a busy machine; the log says why nothing happens meanwhile."""
    mortal.kill()
    before = len(mortal.log)
    with open(mortal.state / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        starts = threading.Thread(target=mortal.start)
        starts.start()
        waits = "waiting for a box that a killed host"
        assert eventually(lambda: waits in mortal.log[before:]) and starts.is_alive()
    starts.join()
    assert mortal.ids() == ["default"] and mortal.log[before:].count(waits) == 1


def test_boxes_where_cgroup_v2_is_not_mounted(host):
    at = folder()
    machine.lend(at / "state")
    other = Unmounted(at)
    try:
        box = other.create()
        assert box.run("grep -c cgroup /proc/self/mountinfo; hostname; true") == f"0\n{box.id}\n"
        assert box.call("POST", "/pause")["state"] == "paused" and box.call("POST", "/resume")["state"] == "running"
        box.begin("exec sleep 1000")
        assert eventually(lambda: box.count("^sleep 1000") == 1)
        other.kill()
        other.start()
        assert box.count("^sleep 1000") == 1
        box.delete()
    finally:
        other.end()


def points_to(path, target):
    with contextlib.suppress(FileNotFoundError):  # another host's, given back just now
        return os.readlink(path) == str(target)
    return False


def test_two_hosts_of_a_machine_share_no_ids(host, start_host):
    """Wherever they begin to look for ranges of ids, by the paths of their state directories."""
    ranges = 12288
    first = lambda path: int(seed_of(path / "state"), 16) % ranges
    near = next(path for i in itertools.count() for path in [pathlib.Path(f"{tempfile.gettempdir()}/aio-host.{os.getpid()}-{i}")]
                if first(path) == int(host.seed(), 16) % ranges)
    near.mkdir(mode=0o711)
    other = start_host(at=near)

    def ids(of):
        """The ids that boxes have outside, by box."""
        docs = of.stored()
        for doc in docs.values():
            with contextlib.suppress(FileNotFoundError), open(f"/proc/{doc['proc']['pid']}/uid_map") as file:
                assert int(file.read().split()[1]) == doc["uid_base"]
        return {name: doc["uid_base"] for name, doc in docs.items()}

    box, its = host.create(), other.create()
    taken = ids(other)
    assert len(taken) == 2 and not set(taken.values()) & set(ids(host).values())
    # Those of boxes whose host is gone for a while are still theirs.
    other.kill()
    more = host.create()
    assert not set(taken.values()) & set(ids(host).values())
    other.start()
    assert ids(other) == taken and its.run("echo here") == "here\n"
    # Of one that was off while another took them, after the machine was started again, say: it has others.
    other.stop()
    claims = pathlib.Path("/run/aiobox/uids")
    number = str(taken[its.id] // 65536)
    assert os.readlink(claims / number) == str(other.state)
    (claims / number).unlink()
    (claims / number).symlink_to(host.state)
    other.start()
    its.call("POST", "/resume")
    assert its.run("echo again") == "again\n" and ids(other)[its.id] != taken[its.id]
    (claims / number).unlink()
    its.delete()
    other.stop()
    other.start()  # then what no box has is given up
    left = ids(other)["default"] // 65536
    assert [path.name for path in claims.iterdir() if path.is_symlink() and points_to(path, other.state)] == [str(left)]
    box.delete()
    more.delete()


def test_the_store_knows_a_box_before_its_maker_does(mortal):
    """What was acknowledged survives a crash at once."""
    host = mortal
    for _ in range(3):
        box = host.create()
        host.kill()
        assert box.id in host.stored()
        host.start()
        assert box.run("echo here") == "here\n"
        box.delete()
