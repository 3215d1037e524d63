"""The host of an ordinary user: an account of this machine that has nothing but subordinate ids and a
cgroup of its own."""

import os
import re
import subprocess
import tarfile
from pathlib import Path

import pytest

import archives
from archives import add, programs
from harness import eventually, program
from host.test_network import await_workers, curl, denied, public, serve  # noqa: F401 (a fixture)
from host.test_sockets import check as check_sockets
from hosts import folder
from processes import gone, text_of
from refusals import problem
from rootless import AS_USER, account, delegated, image_of


@pytest.fixture(scope="module")
def image():
    """A root file system with a few programs."""
    names = "bash id cat stat chmod mkdir ls dd od curl sleep setcap getcap"
    with image_of(lambda tar: programs(tar, *names.split())) as path:
        yield path


@pytest.fixture(autouse=True)
def nothing_is_left(request):
    yield
    if "rootless" in request.fixturenames:
        host = request.getfixturevalue("rootless")
        for extra in host.ids():
            host.api("DELETE", f"/v1/sandboxes/{extra}")
        assert host.proc.poll() is None, host.log[-4000:]
        host.check_reports()
        left = lambda: (os.listdir(host.state / "boxes"), os.listdir(host.state / "run"))
        assert eventually(lambda: left() == ([], ["host.sock"])), left()
        assert eventually(lambda: list(host.group.glob("aiobox/*/")) == [])


def test_an_image_of_the_user_alone_and_one_that_is_sent(rootless, image):
    """The process that unpacks is another user: what the host can read is opened for it."""
    def fill(tar):
        add(tar, "bin/bash", b"#!x")
        add(tar, "home/gem/own", b"x", uid=1000)

    private = archives.image(image.parent / "private", (fill, "w:gz"))
    for path in [private, *private.rglob("*")]:
        os.chown(path, account.pw_uid, account.pw_gid)
        path.chmod(0o700)
    rootless.api("POST", "/v1/templates", json={"name": "private", "source": str(private)})
    rootless.cli("template", "import", "sent", image)
    owners = [(rootless.state / f"templates/private/root/{name}").stat().st_uid for name in ("bin/bash", "home/gem/own")]
    assert owners[0] not in (0, account.pw_uid) and owners[1] == owners[0] + 1000
    for name in ("private", "sent"):
        rootless.api("DELETE", f"/v1/templates/{name}")


def refused(host, **spec):
    got = host.client.post("/v1/sandboxes", headers=host.auth, json=spec)
    return got.status_code, problem(got)


def as_root(box, command):
    return box.run(f"root -p -c {command!r}")


def uid_map(box):
    return box.run("cat /proc/self/uid_map").split()


# --- what is missing


def test_all_that_is_missing_is_named(ranges):
    state = folder()
    hide = "mount --bind /etc/passwd /usr/bin/newuidmap; mount --bind /etc/passwd /usr/bin/newgidmap; " \
        "mount --bind /dev/null /etc/subuid; mount -t tmpfs none /proc/irq; exec \"$@\""
    done = subprocess.run(["unshare", "--mount", "sh", "-c", hide, "sh", *AS_USER, program("aio"), "up",
                           "--listen", "127.0.0.1:0", "--state", f"{state}/s"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done
    missing = re.findall(r"^missing: ([^:]*): .{20,}", done.stderr, re.M)
    assert missing == ["newuidmap", "newgidmap", "subordinate ids", "/proc and /sys", "cgroup v2"], done.stderr
    assert os.listdir(state) == []
    state.rmdir()


def test_what_cannot_be_had_is_refused_by_name(rootless):
    controllers = (rootless.group / "cgroup.controllers").read_text().split()
    said = rootless.log
    for limit, amount in {"memory": 1 << 28, "pids": 100}.items():
        if limit in controllers:
            rootless.create(template="small", limits={limit: amount}).delete()
            continue
        assert re.search(rf"^{limit} +none", said, re.M)
        status, why = refused(rootless, template="small", limits={limit: amount})
        assert status == 422 and f"limits.{limit}" in why
    wanted = {"limits.disk": {"limits": {"disk": 1 << 28}}, "template": {"template": "machine"},
              "mounts": {"mounts": [{"source": "/usr/share/doc", "target": "/doc"}]}}
    if not re.search(r"^full network +pasta", said, re.M):
        wanted["network.mode"] = {"network": {"mode": "full"}}
    for name, spec in wanted.items():
        status, why = refused(rootless, **{"template": "small", **spec})
        assert status == 422 and name in why, why
    assert re.search(r"^template +imported only", said, re.M) and re.search(r"^mounts +none", said, re.M)


def test_one_host_at_a_time(rootless):
    """Another would give its boxes the same ids; so would one whose boxes still run."""
    def start():
        done = subprocess.run([*rootless.before, program("aio"), "up", "--listen", "127.0.0.1:0",
                               "--state", f"{rootless.folder}/other"], capture_output=True, text=True, timeout=60)
        assert done.returncode == 1
        return done.stderr

    assert "another host of this user" in start()
    rootless.create(template="small")
    assert "another of your state directories" in start()


# --- boxes


def test_a_box_has_ids_of_its_own(rootless, ranges):
    one, other = rootless.create(template="small"), rootless.create(template="small")
    assert [int(uid_map(box)[1]) for box in (one, other)] == ranges
    for box, base in zip((one, other), ranges):
        assert box.run("id -un; echo x >f; cat f; stat -c %u:%a f /bin/root /home/gem") == "gem\nx\n1000:644\n0:4755\n1000:755\n"
        assert as_root(box, "id -u; chmod 0 /home/gem/f; mkdir /new; stat -c %u /new") == "0\n0\n"
        [upper] = (rootless.state / "boxes" / box.id).glob("rw/upper0")
        assert (upper / "home/gem/f").stat().st_uid == base + 1000 and (upper / "new").stat().st_uid == base
    status, why = refused(rootless, template="small")
    assert status == 429 and "usermod --add-subuids" in why
    one.delete()
    assert uid_map(rootless.create(template="small"))[1] == str(ranges[0])


def test_fork_and_snapshot_change_ids(rootless, ranges):
    """Those of files, and those that capabilities of files are for."""
    box = rootless.create(template="small")
    as_root(box, "echo mine >/home/gem/f; setcap cap_net_raw+ep /bin/ls; mkdir -m 700 /secret")
    look = "cat /home/gem/f; getcap /bin/ls; stat -c %u:%a /secret /bin/root"
    wanted = "mine\n/bin/ls cap_net_raw=ep\n0:700\n0:4755\n"
    assert box.run(look) == wanted
    copy = box.call("POST", "/fork", json={"name": "forked"})
    forked = type(box)(rootless, copy)
    assert uid_map(forked)[1] == str(ranges[1]) and forked.run(look) == wanted
    forked.call("POST", "/snapshot", json={"name": "snap"})
    try:
        for other in (box, forked):
            other.delete()
            made = rootless.create(template="snap")
            assert made.run(look) == wanted
    finally:
        for extra in rootless.ids():
            rootless.api("DELETE", f"/v1/sandboxes/{extra}")
        rootless.api("DELETE", "/v1/templates/snap")


def test_a_crash_of_the_host(rootless, group):
    """Its boxes run on, in a namespace that the next host has to find; what they leave can be removed."""
    box, other = rootless.create(template="small"), rootless.create(template="small")
    names = lambda: box.run("cat /proc/[0-9]*/comm 2>/dev/null; true").split()
    box.run("mkdir -p d/e; echo x >d/e/f; chmod 0 d; (sleep 1000 >/dev/null 2>&1 &)")
    assert eventually(lambda: "sleep" in names())
    box.call("POST", "/pause")
    before = set((group / "aiobox").glob("*/*/cgroup.procs")), rootless.ids()
    rootless.kill()
    rootless.start()
    assert (set((group / "aiobox").glob("*/*/cgroup.procs")), rootless.ids()) == before
    assert box.state == "paused" and other.state == "running"
    box.call("POST", "/resume")
    assert "sleep" in names() and other.run("echo $((6*7))") == "42\n"
    rootless.stop()  # ends the boxes too, and keeps their files
    rootless.start()
    box.call("POST", "/resume")
    assert as_root(box, "cat /home/gem/d/e/f") == "x\n"


def test_a_host_that_would_not_find_its_boxes(rootless, group):
    """One that is started in another group than they run in."""
    box = rootless.create(template="small")
    rootless.kill()
    with delegated("-other") as other:
        done = subprocess.run([*(part.replace(str(group), str(other)) for part in rootless.before), program("aio"), "up",
                               "--listen", "127.0.0.1:0", "--state", rootless.state], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and f"in the cgroup '{group}/aiobox'" in done.stderr, done
    rootless.start()
    assert box.run("id -un") == "gem\n"


def test_network_allow(rootless):
    with serve("127.0.0.1") as port:
        box = rootless.create(template="small", network={"mode": "allow", "allow": [f"localhost:{port}"]})
        ask = r"exec 3<>/dev/udp/198.18.0.1/53; printf '\0\7\1\0\0\1\0\0\0\0\0\0\011localhost\0\0\1\0\1' >&3; " \
            "dd bs=512 count=1 status=none <&3 | od -An -v -tu1 -w512"
        address = ".".join(box.run(ask).split()[-4:])
        assert address.startswith("198.18.")
        assert curl(box, f"--resolve localhost:{port}:{address} http://localhost:{port}/") == ("hello from outside", 0)
        assert curl(box, "http://evil.example/")[1] == 6
        assert curl(box, f"http://127.0.0.1:{port}/")[1] == 7
        assert eventually(lambda: any(e["type"] == "denied" for e in box.call("GET", "/events")))
        [pid] = await_workers(rootless, 1)
        assert re.search(r"CapPrm:\s*0+$", Path(f"/proc/{pid}/status").read_text(), re.M)
        box.delete()
        assert eventually(lambda: not Path(f"/proc/{pid}").exists())


def test_network_full(rootless, public):  # noqa: F811
    if not re.search(r"^full network +pasta", rootless.log, re.M):
        pytest.skip("NOT TESTED: network full needs pasta and /dev/net/tun")
    box = rootless.create(template="small", network={"mode": "full"})
    assert curl(box, f"-o /dev/null -w '%{{http_code}}' http://{public}:8000/") == ("200", 0)
    # Neither the machine, at any of its addresses, an open one too, nor what is not public.
    with serve("0.0.0.0") as port:
        for address in ("10.213.0.1", "198.51.100.76", "127.0.0.1", "10.213.0.2"):
            assert curl(box, f"http://{address}:{port}/")[1] == 7, address
    assert curl(box, "http://169.254.169.254/")[1] == 7
    assert box.call("GET", "/metrics")["network_received"] > 100
    note = rootless.state / "boxes" / box.id / "pasta.pid"
    pid = int(text_of(note))
    rootless.kill()
    os.kill(pid, 9)
    assert gone(pid)
    rootless.start()
    assert eventually(lambda: int(text_of(note)) != pid)
    assert curl(box, f"-o /dev/null -w '%{{http_code}}' http://{public}:8000/") == ("200", 0)
    pid = int(text_of(note))
    box.delete()
    assert eventually(lambda: not Path(f"/proc/{pid}").exists())


def test_the_command_line(rootless, image):
    assert "small" in rootless.cli("template", "ls").stdout
    rootless.cli("create", "--name", "mine", "--template", "small")
    assert rootless.cli("exec", "mine", "id -un").stdout == "gem\n"
    rootless.cli("rm", "mine")
    assert tarfile.is_tarfile(image)


def test_network_full_and_addresses_that_the_machine_gets_later(rootless):
    """Closed as those that it had, told of, and opened again when they are another's."""
    if not re.search(r"^full network +pasta", rootless.log, re.M):
        pytest.skip("NOT TESTED: network full needs pasta and /dev/net/tun")
    own = "9.213.78.1"
    box = rootless.create(template="small", network={"mode": "full"})
    netns = ["nsenter", f"--net=/proc/{box.first_process()}/ns/net", "nft", "list", "set", "inet", "aio_full", "machine"]
    closed = lambda: own in subprocess.run(netns, capture_output=True, text=True, check=True).stdout
    assert not closed()
    subprocess.run(["ip", "address", "replace", f"{own}/32", "dev", "lo"], check=True)
    try:
        with serve(own) as port:
            assert eventually(closed)
            assert curl(box, f"http://{own}:{port}/")[1] == 7
            curl(box, "http://10.9.9.9/")
            assert eventually(lambda: {(own, port), ("10.9.9.9", 80)} <= {d[:2] for d in denied(box)}), denied(box)
            # Also those of a time when there was no host.
            rootless.kill()
            subprocess.run(["ip", "address", "delete", f"{own}/32", "dev", "lo"], check=True)
            rootless.start()
            assert eventually(lambda: not closed())
    finally:
        subprocess.run(["ip", "address", "delete", f"{own}/32", "dev", "lo"], capture_output=True)
    box.delete()


# --- its sockets

def test_no_socket_of_a_box_belongs_to_the_machines_network(rootless):
    check_sockets(rootless, rootless.create(template="small"))


def test_down_ends_the_boxes_of_a_host_that_was_killed(rootless):
    box = rootless.create(template="small", name="left")
    box.run("echo kept >~/f")
    rootless.kill()
    assert "ended 1 box" in rootless.cli("down").stdout
    rootless.start()
    assert box.state == "stopped"
    box.call("POST", "/resume")
    assert box.run("cat ~/f") == "kept\n"
    box.delete()
