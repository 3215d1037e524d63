"""Fixtures for a host of an ordinary user, which is an account of this machine:

    rootless       the host, with a template `small` of the archive that the module's fixture `image` is
    ranges         the first of each range of ids that its boxes can have: two, or the module's BOXES
    group          the cgroup that is the user's
    launcher       what starts a program as the user, in that group"""

import contextlib
import fcntl
import os
import pwd
import shutil
import subprocess
from pathlib import Path

import pytest

from archives import add, archive
from harness import eventually, program
from hosts import UNIFIED, Host, folder

IDS = 65536
FIRST = 0x20000000  # of ids that neither root's hosts nor useradd give to anybody
account = next((u for u in pwd.getpwall() if u.pw_name in ("games", "news")), pwd.getpwnam("nobody"))
AS_USER = ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]


@pytest.fixture(scope="module")
def ranges(request):
    """In /etc/subuid and /etc/subgid; no other run of these tests has them meanwhile."""
    count = getattr(request.module, "BOXES", 2)
    if not all(map(shutil.which, ("newuidmap", "newgidmap", "setpriv"))):
        pytest.skip("NOT TESTED: a rootless host needs newuidmap, newgidmap and setpriv")
    if subprocess.run([*AS_USER, "test", "-x", program("aio")]).returncode:
        pytest.skip("NOT TESTED: others cannot reach the program where it is built")
    line = f"{account.pw_name}:{FIRST}:{count * IDS}\n"
    with open("/etc/subuid", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for add_to in (line, ""):
            for path in ("/etc/subuid", "/etc/subgid"):
                text = Path(path).read_text().replace(line, "") if os.path.exists(path) else ""
                Path(path).write_text(text + ("\n" if text and text[-1] != "\n" else "") + add_to)
            if add_to:
                yield [FIRST + i * IDS for i in range(count)]


@contextlib.contextmanager
def delegated(name):
    """A cgroup that is the user's, as systemd gives them with Delegate=yes."""
    path = UNIFIED / f"aio-rootless-{os.getpid()}{name}"
    path.mkdir()
    for file in (".", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"):
        os.chown(path / file, account.pw_uid, account.pw_gid)
    yield path
    def removed():  # what was in it may be ending still
        with contextlib.suppress(OSError):
            for found in sorted(path.glob("**/"), reverse=True):
                found.rmdir()
        return not path.exists()

    assert eventually(removed), path


@pytest.fixture(scope="module")
def group():
    with delegated("") as path:
        yield path


@pytest.fixture(scope="module")
def launcher(group):
    """Starts a program as the user, in that group, with a /dev/net/tun that is everybody's, as it mostly is."""
    tun = Path(f"/dev/net/aio-{os.getpid()}")
    if os.path.exists("/dev/net/tun"):
        os.mknod(tun, 0o020666, os.makedev(10, 200))
        tun.chmod(0o666)
    yield ["unshare", "--mount", "sh", "-c", f'echo $$ >{group}/cgroup.procs && '
           f'{{ ! test -e {tun} || mount --bind {tun} /dev/net/tun; }} && exec "$@"', "sh", *AS_USER]
    tun.unlink(missing_ok=True)


@contextlib.contextmanager
def image_of(fill):
    """An archive of a root file system, with `root`, which runs others as root, and the probe."""
    def fill_all(tar):
        fill(tar)
        add(tar, "bin/root", open("/bin/bash", "rb").read(), mode=0o4755)
        add(tar, "probe", Path(program("driver")).with_name("probe").read_bytes())

    path = folder() / "image.tar"
    path.write_bytes(archive(fill_all))
    path.chmod(0o644)
    yield path
    shutil.rmtree(path.parent)


@pytest.fixture(scope="module")
def rootless(ranges, group, launcher, image):
    place = folder()
    os.chown(place, account.pw_uid, account.pw_gid)
    maker = type("Rootless", (Host,), {"before": launcher})
    host = maker(place, ["--open-nets", "127.0.0.0/8,198.51.100.0/24", "--mount-roots", "/usr/share",
                         "--import-roots", image.parent])
    host.group = group
    host.api("POST", "/v1/templates", json={"name": "small", "source": str(image)})
    yield host
    host.end()
