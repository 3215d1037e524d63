"""What is on the machine and must not be seen in a box: files, processes, sockets; other boxes."""

import contextlib
import os
import secrets
import socket
import subprocess
from pathlib import Path

import pytest

NAME = f"aiobox-secret-{os.getpid()}"
# Where a secret might be, and with which mode: those of /usr and /etc that everyone may read are
# shown by design.
PLACES = [
    ("/root", 0o600), ("/root/.ssh-test", 0o644), ("/etc", 0o600), ("/etc/ssl/private", 0o644),
    ("/etc/ssh", 0o600), ("/etc/sudoers.d", 0o644), ("/home", 0o644), ("/opt", 0o644), ("/srv", 0o644),
    ("/boot", 0o644), ("/tmp", 0o644), ("/var/tmp", 0o644), ("/var/lib", 0o644), ("/var/log", 0o644),
    ("/var/spool", 0o644), ("/var/backups", 0o644), ("/var/cache", 0o644), ("/var/mail", 0o644),
    ("/var/www", 0o644), ("/var/lib/dpkg", 0o600), ("/var/lib/dpkg/info", 0o640), ("/run", 0o644),
    ("/run/secrets", 0o644), ("/dev/shm", 0o644), ("/mnt", 0o644), ("/media", 0o644), ("/", 0o644),
    ("/usr/local/etc", 0o600), ("/usr/local/share", 0o640), ("/usr/share", 0o600), ("/usr/lib", 0o400),
    ("/usr/local/lib/.hidden", 0o600), ("/usr/local/secret-dir", 0o644),
]  # fmt: skip


@contextlib.contextmanager
def plant(places, token, owner=None):
    """Paths of files with a secret, on the machine; of root, or of a user."""
    paths, made = [], []
    for place, mode in places:
        place = Path(place)
        if not place.exists():
            try:
                place.mkdir()
            except OSError:
                continue
            made.append(place)
            if place.name == "secret-dir":
                place.chmod(0o700)
        path = place / NAME
        try:
            path.write_text(token)
            path.chmod(mode)
        except OSError:
            continue
        for one in (place, path) if owner else ():
            os.chown(one, owner.pw_uid, owner.pw_gid)
        paths.append(path)
    yield paths
    for path in paths:
        path.unlink()
    for place in made:
        place.rmdir()


@pytest.fixture(scope="module")
def planted():
    token = secrets.token_hex(16)
    with plant(PLACES, token) as paths:
        assert len(paths) > 25
        yield token, paths


@pytest.fixture(scope="module")
def curious(farm, planted):
    """A box that was made when the secrets were there."""
    box = farm.start()
    yield box
    box.remove()


def test_planted_files_cannot_be_read(curious, planted, root):
    token, paths = planted
    roots = ["", "/..", "/proc/1/root", "/proc/2/root", "/proc/self/root/..", "/proc/self/cwd/../../../.."]
    tries = " ".join(f"{r}{p}" for r in roots for p in paths)
    assert token not in curious.run(f"cat {tries} 2>&1", root)["stdout"]


def test_planted_files_have_no_name_either(curious, planted, root):
    assert curious.run(f"find / -name '{NAME}*' -not -path '/proc/*' 2>/dev/null", root)["stdout"] == ""


def test_a_secret_hidden_by_a_layer_stays_hidden_when_the_layer_is_written(curious, planted):
    token, _ = planted
    command = "mkdir -p /usr/local/etc && touch /usr/local/etc/x && cat /usr/local/etc/*; ls -R /usr/local/secret-dir"
    assert token not in curious.run(command, root=True)["stdout"]


def test_shadow_and_users_are_the_box_s_own(box, root):
    machine = {l.split(":")[0]: l for l in Path("/etc/shadow").read_text().splitlines()}
    text = box.run("cat /etc/shadow /etc/shadow- /etc/gshadow", root)["stdout"]
    for line in text.splitlines():
        assert line.split(":")[1] in ("*", ""), line
    assert not [l for l in machine.values() if l.split(":")[1] not in ("*", "!", "!*", "") and l in text]
    assert box.out("id -un; id -u; echo ~; sudo -n id -u", root=False) == "gem\n1000\n/home/gem\n0\n"


def processes_tell(box, root):
    return box.run("cat /proc/*/environ /proc/*/cmdline /proc/*/maps 2>/dev/null | tr '\\0' '\\n'", root)["stdout"]


def test_the_environment_and_arguments_of_the_host(farm, start_box, root):
    token = secrets.token_hex(16)
    os.environ["AIO_TEST_SECRET"] = token
    try:
        box = start_box()
    finally:
        del os.environ["AIO_TEST_SECRET"]
    text = processes_tell(box, root)
    assert token not in text
    assert str(farm.state) not in text


def test_only_processes_of_the_box_are_seen(box, root):
    names = box.out("for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done", root)
    assert "pytest" not in names
    assert box.out("cat /proc/1/cmdline | tr '\\0' ' '", root).split() == ["aio", "init"]
    assert len([l for l in names.splitlines() if l.strip()]) < 30


def test_processes_of_the_machine_get_no_signal(box, root):
    victim = subprocess.Popen(["sleep", "600"])
    try:
        box.run(f"kill -9 {victim.pid}; kill -9 -1 2>/dev/null; true") if not root else box.run(
            f"kill -9 {victim.pid}", root
        )
        assert victim.poll() is None
    finally:
        victim.kill()
        victim.wait()
    assert box.out("echo alive") == "alive\n"


def test_ports_and_sockets_of_the_machine_are_not_reached(box, root, tmp_path):
    with socket.socket() as tcp, socket.socket(socket.AF_UNIX) as abstract:
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        abstract.bind(f"\0{NAME}")
        abstract.listen()
        port = tcp.getsockname()[1]
        code = (
            "import socket\n"
            f"for family, to in ((socket.AF_INET, ('127.0.0.1', {port})), (socket.AF_UNIX, '\\0{NAME}'),\n"
            "                   (socket.AF_INET, ('169.254.169.254', 80)), (socket.AF_INET, ('1.1.1.1', 53))):\n"
            "    s = socket.socket(family); s.settimeout(2)\n"
            "    try: s.connect(to); print('reached', to)\n"
            "    except OSError as e: print(e.errno)\n"
        )
        said = box.out(f"/usr/bin/python3 -c \"{code}\"", root)
        assert "reached" not in said
        assert "@" not in box.out("cat /proc/net/unix", root).replace("@" + "x", "")
    assert box.out("ls /sys/class/net", root).split() == ["lo"]


def test_devices_of_the_machine_stay_as_they_are(box, root):
    stats = lambda: [os.stat(f"/dev/{name}") for name in ("null", "zero", "tty")]
    look = lambda: [(st.st_mode, st.st_uid, st.st_gid, st.st_mtime > 0) for st in stats()]
    before = look()
    box.run("cd /dev; chmod 600 null zero tty; chown 1000 null zero tty; touch -d @0 null zero tty; rm -f null; mkdir x", root)
    assert look() == before
    assert box.out("test -c /dev/null && test ! -e /dev/x && echo same", root) == "same\n"


def test_ipc_of_the_machine_is_not_seen(box, root):
    made = subprocess.run(["ipcmk", "-M", "4096"], capture_output=True, text=True, check=True).stdout
    number = made.split()[-1]
    try:
        assert box.out("ipcs -m | grep -c 0x || true", root) == "0\n"
    finally:
        subprocess.run(["ipcrm", "-m", number], check=True)


def test_boxes_do_not_see_each_other(start_box, root):
    one, other = start_box(), start_box()
    token = secrets.token_hex(16)
    one.out(f"echo {token} | tee ~/t /tmp/t /var/tmp/t /dev/shm/t | sudo tee /usr/bin/t /etc/t /root/t; ipcmk -M 4096")
    one.run("(python3 -c \"import socket,time; s=socket.socket(socket.AF_UNIX); s.bind('\\0one'); "
            "s.listen(); t=socket.socket(); t.bind(('0.0.0.0', 8123)); t.listen(); time.sleep(999)\" >/dev/null 2>&1 &)")
    one.out("timeout 80 sh -c 'until grep -q 1FBB /proc/net/tcp && grep -q @one /proc/net/unix; do sleep 0.02; done'")
    text = other.run("cat ~/t /tmp/t /var/tmp/t /dev/shm/t /usr/bin/t /etc/t /root/t; "
                     "cat /proc/net/unix /proc/net/tcp; ipcs -m", root)["stdout"]
    assert token not in text
    assert "one" not in text and "1FBB" not in text and "0x" not in text.split("key")[-1]
    assert one.out("hostname") != other.out("hostname")


def test_ids_of_a_box_are_nobody_s_outside(farm, box):
    path = f"/tmp/mine-{os.getpid()}"
    box.out(f"touch {path}", root=True)
    status = Path(f"/proc/{box.pid}/status").read_text()
    uid = int(status.split("Uid:")[1].split()[0])
    assert uid >= 600000000
    # On disk the ids are those of the box, so that a copy of it is good for another.
    found = list(farm.state.glob(f"{box.id}/rw/upper*{path}"))
    assert [f.stat().st_uid for f in found] == [0]


def test_a_link_in_a_mount_or_in_the_files_of_a_box_leads_nowhere(farm, start_box, planted, root, tmp_path):
    token, paths = planted
    secret = next(p for p in paths if str(p).startswith("/root/aio") or p.parent == Path("/root"))
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "link").symlink_to(secret)
    (tmp_path / "shared" / "dir").symlink_to("/root")
    (tmp_path / "shared" / "up").symlink_to("../../../../../../root")
    (tmp_path / "outside").write_text(token)
    os.chmod(tmp_path, 0o755)
    box = start_box(f"{tmp_path}/shared:/data")
    text = box.run(f"cat /data/link /data/dir/{NAME} /data/up/{NAME} /data/../outside", root)["stdout"]
    assert token not in text
    assert box.run("touch /data/x", root)["exit_code"] != 0  # not asked to be writable


def test_a_box_cannot_lead_its_own_mounts_astray(farm, start_box, tmp_path):
    """Started again, on files in which it has replaced what is mounted at by links."""
    box = start_box()
    box.out("cd /; mkdir /x; rm -rf /mnt /media; ln -s /proc /mnt; ln -s /x /media; "
            "mkdir /data && rmdir /data && ln -s /root /data", root=True)
    box.stop()
    box.start(f"mount={farm.probe}:/data/probe", f"mount={tmp_path}:/media")
    out = box.out("ls -ld /media /data; grep -c ' /media ' /proc/mounts; /data/probe af_inet")
    assert "->" not in out and out.endswith("1\naf_inet OK\n")


def test_a_link_in_a_template_leads_nowhere(farm, start_box, planted):
    token, _ = planted
    made = next(farm.state.glob("machine-*"))
    template = farm.state / f"hostile-{os.getpid()}"
    subprocess.run(["cp", "-a", made, template], check=True)
    top = template / "root"
    for name, target in {"proc": "/root", "sys": "../../../root", "dev": "/etc", "home/gem/out": "/../../root"}.items():
        if (top / name).is_dir():
            subprocess.run(["rm", "-rf", top / name], check=True)
        (top / name).symlink_to(target)
    box = start_box(template=template)
    text = box.run(f"ls -ld /proc /sys /dev; cat /home/gem/out/{NAME} /proc/sys/kernel/ostype; echo x > /dev/null",
                   root=True)["stdout"]
    assert token not in text and "->" not in text and "Linux" in text
