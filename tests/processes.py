"""Looking at processes, and at commands as they run: for the tests of bash, shell and terminal."""

import os
import secrets
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness import SETTLE_SECONDS, children_of, eventually

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: needs root")


def alive(pid):
    """Whether the process runs, or a thread of it, which still holds its descriptors; a zombie does not."""
    try:
        tasks = os.listdir(f"/proc/{int(pid)}/task")
    except (FileNotFoundError, ProcessLookupError):
        return False
    for task in tasks:
        try:
            if Path(f"/proc/{int(pid)}/task/{task}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX":
                return True
        except (FileNotFoundError, ProcessLookupError):
            pass
    return False


def gone(*pids, seconds=SETTLE_SECONDS):
    return eventually(lambda: not any(map(alive, pids)), seconds)


def comm(pid):
    """The name of what a process runs; nothing when it has ended."""
    try:
        return Path(f"/proc/{int(pid)}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def below(server):
    """All processes that descend from a server."""
    found, new = set(), set(server.children())
    while new:
        found |= new
        new = {child for parent in new for child in children_of(parent)} - found
    return found


def cpu_seconds(server):
    """What a server has computed so far, itself."""
    fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# Time limits for what must get somewhere before its time is up: longer ones where the machine is busy.
PATIENCE = (1, 6, 30)


def patiently(attempt, good):
    """The first good result of attempt(times), whose time limits are so many times as long as an idle machine needs;
    else the last result, for the test to judge."""
    for times in PATIENCE:
        result = attempt(times)
        if good(result):
            break
    return result


def patience(happened):
    """The same for a loop over such limits, in seconds, that is left as soon as happened() says so."""
    for seconds in PATIENCE:
        yield seconds
        if happened():
            return
    raise AssertionError("it does not get there")


def text_of(path, seconds=SETTLE_SECONDS):
    """What a file says, once it says something; nothing when it has vanished."""
    path = Path(path)
    try:
        text = eventually(lambda: path.exists() and path.read_text().strip(), seconds)
        assert text, f"{path} stays empty"
        return text
    except (FileNotFoundError, ProcessLookupError):
        return ""


def together(count, fn):
    """fn(i) for all i at once."""
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(fn, range(count)))


def make_user(name, group):
    """Makes a user that is in the group too, trying again while another test file holds the lock of /etc/passwd."""
    def made():
        for command in (["groupadd", "-f", group], ["useradd", "-m", "-G", group, name]):
            result = subprocess.run(command, capture_output=True, text=True)
            if result.returncode:
                errors.append(result.stderr)
                subprocess.run(["userdel", "-r", name], capture_output=True)  # what there is of it
                return False
        return True

    errors = []
    assert eventually(made, pause=0.2), errors


def remove_user(name, group):
    """Removes them, waiting for that lock and for the user's last process."""
    def exists(database, key):
        return subprocess.run(["getent", database, key], capture_output=True).returncode == 0

    def gone():
        subprocess.run(["userdel", "-r", name], capture_output=True)
        subprocess.run(["groupdel", group], capture_output=True)
        return not exists("passwd", name) and not exists("group", group)

    assert eventually(gone, pause=0.2), f"the user {name} or the group {group} cannot be removed"


@pytest.fixture(scope="module")
def tester():
    """The name of a user made for these tests, with a group more than its own."""
    if os.geteuid() != 0 or not shutil.which("useradd"):
        pytest.skip("NOT TESTED: only root can make a user")
    name = f"aiotest{secrets.token_hex(4)}"
    make_user(name, f"{name}g")
    yield name
    remove_user(name, f"{name}g")


# Ways to leave one's parent, group and session; {0} is where the pid goes.
DAEMONS = {
    "double fork": "setsid sh -c 'sleep 1000 & echo $! >{0}/pid' </dev/null >/dev/null 2>&1",
    "setsid": "setsid sh -c 'echo $$ >{0}/pid; exec sleep 1000' </dev/null >/dev/null 2>&1 & disown",
    "nohup": "nohup sleep 1000 >/dev/null 2>&1 & echo $! >{0}/pid; disown",
    "python": """python3 - <<'E'
import os, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.chdir("/")
for fd in range(256):
    try: os.close(fd)
    except OSError: pass
open("{0}/pid", "w").write(str(os.getpid()))
time.sleep(1000)
E""",
    "without environment": "setsid env -i sh -c 'sleep 1000 & echo $! >{0}/pid' </dev/null >/dev/null 2>&1",
    "ignoring all": "setsid sh -c 'trap \"\" TERM HUP INT QUIT; sh -c \"while :; do sleep 1; done\" & echo $! >{0}/pid'"
                    " </dev/null >/dev/null 2>&1",
    "stopped": "setsid sh -c 'sleep 1000 & kill -STOP $!; echo $! >{0}/pid' </dev/null >/dev/null 2>&1",
}


def daemon(how, folder):
    """The command that starts one."""
    return DAEMONS[how].replace("{0}", str(folder))
