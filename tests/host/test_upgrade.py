"""Boxes that the release before this one has made go on under this one. tools/old builds that release; OLD in the
Makefile says which it is."""

import contextlib
import json
import os
import signal
import threading

import httpx
import pytest

from archives import archive, programs
from harness import ROOT, eventually
from hosts import Box, Host, folder

RELEASE = ROOT / "build/old/release"
if not (RELEASE / "build/aio").exists():
    pytest.skip("NOT TESTED: no earlier release here: 'make old' builds it where the history has it",
                allow_module_level=True)


class Upgraded(Host):
    """A host that the release before has begun, until upgrade() starts this one in its place."""

    before = ("env",)  # not we: each release makes a template of the machine of its own
    is_old = True

    def __init__(self, at, *args):
        super().__init__(at, args, {"AIO_HOME": str(RELEASE)})

    def program(self):
        return str(RELEASE / "build/aio") if self.is_old else super().program()

    def upgrade(self):
        self.is_old, self.env = False, {}
        self.start()


@pytest.fixture
def host():
    at = folder()
    roots = at / "roots"
    for name, owner in (("read", 0), ("write", 1000), ("root", 0)):
        (roots / name).mkdir(parents=True)
        (roots / name / "file").write_text(f"{name}\n")
        os.chown(roots / name, owner, owner)
    host = Upgraded(at, "--mount-roots", roots)
    host.roots = roots
    yield host
    host.end()


# --- what the release before makes --------------------------------------------------------------

MOUNTS = {"read": False, "write": True}


def specs(host):
    """A box of each kind, by name."""
    return {
        "plain": {"metadata": {"owner": "ann"}, "env": {"COLOUR": "blue"}},
        "limited": {"limits": {"memory": "128M", "cpus": 1, "pids": 90}},
        "bounded": {"limits": {"disk": "64M"}},
        "mounted": {"mounts": [{"source": str(host.roots / name), "target": f"/mnt/{name}", "writable": writable}
                               for name, writable in MOUNTS.items()]},
        "some": {"network": {"allow": ["*.test"]}},
        "full": {"network": {"mode": "full"}},
        "lasting": {"timeout": 3600, "idle_timeout": 3000},
        "open": {"auth": "none"},
        "shot": {"template": "shot"},
        "image": {"template": "image"},
        "paused": {},
        "stopped": {},
    }


def make_templates(host):
    path = host.folder / "image.tar"
    path.write_bytes(archive(lambda tar: programs(tar, "bash", "cat", "sleep")))
    host.api("POST", "/v1/templates", json={"name": "image", "source": str(path)})
    box = host.create()
    box.run("echo shot >~/of-template")
    box.call("POST", "/snapshot", json={"name": "shot"})
    box.delete()


def make(host):
    make_templates(host)
    boxes = {name: host.create(name=name, **spec) for name, spec in specs(host).items()}
    boxes["default"] = host.default()
    for name, box in boxes.items():
        box.run(f"echo {name} >~/kept")
        box.begin("exec sleep 1000")
    shell(boxes["plain"], "WORD=remembered")
    code(boxes["plain"], "number = 41")
    boxes["paused"].call("POST", "/pause")
    boxes["stopped"].kill()
    assert eventually(lambda: boxes["stopped"].state == "stopped")
    return boxes


# --- what this one does with them ---------------------------------------------------------------

def post(box, path, **body):
    answer = box.request("POST", path, json=body)
    assert answer.status_code == 200 and answer.json()["success"], answer.text
    return answer.json()["data"]


def shell(box, command):
    return post(box, "/v1/shell/exec", command=command, id="kept")["output"].strip()


def code(box, text):
    return json.dumps(post(box, "/v1/jupyter/execute", code=text, session_id="kept")["outputs"])


def fails(box, command):
    return post(box, "/v1/bash/exec", command=command)["exit_code"] not in (0, None)


def mounts_work(box):
    said = box.run("cat /mnt/*/file; echo new >/mnt/write/made; cat /mnt/write/made; rm /mnt/write/made")
    return said == "read\nwrite\nnew\n" and fails(box, "echo x >/mnt/read/made")


def names_work(box):
    return box.run("getent hosts a.test").startswith("198.18.") and fails(box, "getent hosts a.example")


WORKS = {  # what is special about a box of that name
    "plain": lambda box: box.run("echo $COLOUR") == "blue\n" and box.call("GET")["metadata"] == {"owner": "ann"},
    "limited": lambda box: fails(box, "python3 -c 'b\"x\" * (300 << 20)'"),
    "bounded": lambda box: fails(box, "head -c 100M /dev/zero >~/big; code=$?; rm ~/big; exit $code"),
    "mounted": mounts_work,
    "some": names_work,
    "full": lambda box: len(box.run("ls /sys/class/net").split()) == 2,
    "lasting": lambda box: box.call("GET")["expires_at"] and box.call("GET")["idle_timeout"] == 3000,
    "open": lambda box: box.token is None,
    "shot": lambda box: box.run("cat ~/of-template") == "shot\n",
    "image": lambda box: fails(box, "python3 -c 1"),
}


def use(name, box):
    """All that it was made with is there, and it does what a box does."""
    assert box.run("cat ~/kept") == f"{name}\n"
    post(box, "/v1/file/write", file="/home/gem/new", content="line\n")
    assert post(box, "/v1/file/read", file="/home/gem/new")["content"] == "line\n"
    if box.token:
        assert box.request("GET", "/v1/sandbox", headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert name not in WORKS or WORKS[name](box), name


def start_again(box):
    """Ended, and started on its files, which is this release's doing in all."""
    box.kill()
    assert eventually(lambda: box.state == "stopped")
    assert box.call("POST", "/resume")["state"] == "running"


def fork(name, box):
    """A box with its files, and all that it was made with."""
    made = Box(box.host, box.call("POST", "/fork", json={"name": f"{name}-fork"}))
    assert made.token != box.token or name in ("default", "open")
    use(name, made)
    made.delete()


def snapshot(name, box):
    """A template of its files, and a box of that."""
    box.call("POST", "/snapshot", json={"name": f"{name}-shot"})
    made = box.host.create(template=f"{name}-shot")
    assert made.run("cat ~/kept") == f"{name}\n"
    made.delete()
    box.host.api("DELETE", f"/v1/templates/{name}-shot")


def nothing_is_left(host):
    held = host.settled()
    assert held["directories"] == ["default"] and held["mounts"] == []
    host.stop(signal.SIGTERM)
    host.start()
    own = [doc["uid_base"] // 65536 for doc in host.stored().values()]
    clean = {"loops": [], "links": [], "ranges": own, "ways out": []}
    assert eventually(lambda: host.traces() == clean), (clean, host.traces())


# --- how the one gives way to the other ---------------------------------------------------------

def crash(host):
    """While it makes more boxes."""
    def make():
        with contextlib.suppress(httpx.HTTPError):
            while True:
                httpx.post(f"{host.url}/v1/sandboxes", headers=host.auth, json={}, timeout=20, trust_env=False)

    threads, known = [threading.Thread(target=make) for _ in range(4)], len(host.ids())
    for thread in threads:
        thread.start()
    assert eventually(lambda: len(os.listdir(host.state / "boxes")) > known + 1)
    host.kill()
    for thread in threads:
        thread.join()


ENDINGS = {  # what it is, and whether boxes that ran are left running
    "crash": (crash, True),
    "SIGTERM": (lambda host: host.stop(signal.SIGTERM), True),
    "SIGINT": (lambda host: host.stop(signal.SIGINT), False),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_boxes_of_the_release_before_go_on(host, ending):
    boxes = make(host)
    token, seen = host.token, {name: box.call("GET") for name, box in boxes.items()}
    told = {name: box.events() for name, box in boxes.items()}
    end, run_on = ENDINGS[ending]
    end(host)
    host.upgrade()

    assert host.token == token and set(host.ids()) >= set(boxes)
    for name, box in boxes.items():
        state = seen[name]["state"] if run_on else "running" if name == "default" else "stopped"
        assert {**box.call("GET"), "urls": None} == {**seen[name], "urls": None, "state": state}
        assert box.events()[:len(told[name])] == told[name]
    if run_on:
        assert shell(boxes["plain"], "echo $WORD") == "remembered" and '"42"' in code(boxes["plain"], "number + 1")
        assert boxes["plain"].count("^sleep 1000") == 1
    for name, box in boxes.items():
        assert box.call("POST", "/resume")["state"] == "running"
        use(name, box)
        assert box.call("POST", "/pause")["state"] == "paused" and box.call("POST", "/resume")["state"] == "running"
        start_again(box)
        use(name, box)
        fork(name, box)
    for name in ("plain", "image") if ending == "crash" else ("image",):  # the former is thousands of files
        snapshot(name, boxes[name])

    for id in host.ids():
        host.api("DELETE", f"/v1/sandboxes/{id}")  # in the place of `default` comes another
    for template in ("shot", "image"):
        host.api("DELETE", f"/v1/templates/{template}")
    nothing_is_left(host)


def test_a_mount_that_is_refused_now_is_left_out(host):
    """The box starts without it, and says so."""
    source = str(host.roots / "root")
    box = host.create(mounts=[{"source": source, "target": "/mnt/root", "writable": True}])
    box.run("echo kept >~/kept")
    host.stop(signal.SIGTERM)
    host.upgrade()
    start_again(box)
    assert box.run("cat ~/kept") == "kept\n"
    assert fails(box, "test -e /mnt/root/file")
    assert source in json.dumps(box.call("GET", "/events")), box.events()
