"""What shells leave behind when the server ends or the disk is full, and what other users see of them."""

import os
import signal
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness import eventually
from processes import ROOT_ONLY, below, comm, gone, tester, text_of  # noqa: F401
from shells import ask, delete, folder_of, folders_of, no_sessions, output, refused, run, start, warm  # noqa: F401

pytestmark = pytest.mark.server(warm=warm)


# --- the end of the server ---------------------------------------------------------------------


BUSY = ["sleep 1000", "trap '' TERM INT HUP; while :; do sleep 1000; done", "cat", "yes >/dev/null", "yes",
        "setsid sh -c 'sleep 1000 &' >/dev/null 2>&1; sleep 1000", "exec sleep 1000", "python3 -q"]


def busy_server(start_server):
    """With commands of all kinds, and a shell without one: the server, and all the processes below it."""
    server = start_server()
    for command in BUSY:
        run(server, command, async_mode=True)
    ask(server, "sessions/create")

    def stay():
        """All the processes, when only those are left that stay."""
        pids = below(server)
        names = Counter(map(comm, pids))
        busy = names >= Counter(sleep=5, cat=1, yes=2, python3=1)
        return pids if busy and not {"", "sh", "setsid"} & set(names) else None

    pids = eventually(stay)
    assert pids, Counter(map(comm, below(server)))
    return server, pids


@pytest.mark.concurrency
def test_sigterm_ends_all(start_server):
    server, pids = busy_server(start_server)
    assert len(pids) >= 9
    used = folders_of(server)
    assert len(used) == len(BUSY) + 1
    with ThreadPoolExecutor(2) as pool:
        running = pool.submit(run, server, "echo a >begun; sleep 1000")
        assert text_of(server.home / "begun")
        server.signal()
        assert server.wait() == 0
        assert running.result(60)["status"] in ("running", "terminated")
    assert gone(*pids, seconds=0)
    assert not any(os.path.exists(os.path.dirname(folder)) for folder in used), "nothing is left on the disk"


def test_sigkill_leaves_nothing(start_server):
    server, pids = busy_server(start_server)
    used = folders_of(server)
    assert len(used) == len(BUSY) + 1
    if server.pid == server.proc.pid:
        pytest.fail("the server has no first stage")
    os.kill(server.pid, signal.SIGKILL)
    assert server.wait() == 128 + signal.SIGKILL
    assert gone(*pids)
    assert not any(os.path.exists(os.path.dirname(folder)) for folder in used), "nothing is left on the disk"
    server.stop = lambda: None  # it did not end well, as it had to


# --- no room on the disk -----------------------------------------------------------------------


@ROOT_ONLY
def test_a_shell_that_finds_no_room_leaves_nothing(start):
    server = start()
    folder = server.shell_folder
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", folder], capture_output=True).returncode:
        pytest.skip("NOT TESTED: nothing can be mounted here")
    try:
        Path(folder, "full").write_bytes(b"x" * 4096)
        for _ in range(2):
            status, text = refused(server, "sessions/create")
            assert status == 507 and "No space left" in text
            assert os.listdir(folder) == ["full"]
        os.unlink(f"{folder}/full")
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
    delete(server, run(server, "true")["session_id"])


# --- another user ------------------------------------------------------------------------------


@ROOT_ONLY
def test_shell_of_the_sandbox_user(start, tester):
    server = start(["--user", tester], env={"WORKSPACE": "", "HOME": "/root"})
    sid = ask(server, "sessions/create")["session_id"]
    text = output(server, "id -un; id -Gn; echo $HOME $USER; pwd; stat -c %U $(tty); test -w $(tty) && echo writable",
                  sid)
    assert text.split("\n") == [tester, f"{tester} {tester}g", f"/home/{tester} {tester}", f"/home/{tester}", tester,
                                "writable"]
    assert "Permission denied" in run(server, "cat /etc/shadow", sid)["output"]
    assert run(server, "exit 3", sid)["exit_code"] == 3
    assert output(server, "whoami", sid) == tester
    delete(server, sid)


@ROOT_ONLY
def test_sandbox_user_cannot_turn_the_servers_files_against_it(start, tester):
    """The server writes, as root, where its shells read: nobody may put something else in that place."""
    server = start(["--user", tester], env={"WORKSPACE": ""})
    sid = ask(server, "sessions/create")["session_id"]
    folder = folder_of(server)
    data = run(server, f"mv {folder} {folder}x; ln -s /etc {folder}; rm -f {folder}/c; ln -s /etc/victim {folder}/c;"
                       f" rm -f {folder}/u {folder}/up; echo $(ls -ld {folder} | cut -c1)", sid, timeout=90)
    assert data["status"] == "completed" and data["output"].endswith("d")
    assert output(server, "echo fine", sid, timeout=90) == "fine"
    assert not os.path.exists("/etc/victim") and not os.path.exists("/etc/c") and not os.path.exists("/etc/u")
    delete(server, sid)


@ROOT_ONLY
def test_other_users_cannot_read_commands(start, tester):
    server = start()
    sid = run(server, "echo secret", None)["session_id"]
    folder = folder_of(server)
    for name in ("c", "u", "rc"):
        assert subprocess.run(["su", tester, "-c", f"cat {folder}/{name}"], capture_output=True).returncode != 0
    assert subprocess.run(["su", tester, "-c", f"echo x >{folder}/up"], capture_output=True).returncode != 0
    delete(server, sid)
