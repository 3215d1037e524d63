"""What befalls the host, its makers and the processes of its boxes."""

import contextlib
import math
import os
import select
import signal
import threading
import time
from pathlib import Path

from harness import ANSWER_SECONDS, eventually
from hosts import each
from processes import alive, gone

from soak.actions import execute, turn_of

VITAL = ("init", "serve", "cradle")  # a box ends with any of them


# --- the host --------------------------------------------------------------------------------------

one_at_a_time = threading.Lock()


def restart(client, end):
    world = client.world
    with one_at_a_time, world.past.disturbed("host"):
        world.up.clear()
        end()
        time.sleep(client.rng.uniform(0, 0.3))
        begun = time.monotonic()
        world.flying["host"] = "start", None, begun
        world.host.start()
        del world.flying["host"]
        world.took("start of the host", begun)
        world.up.set()


def kill_host(client):
    restart(client, client.world.host.kill)
    return True


def end_host(client):
    """As an administrator would: its boxes run on."""
    def end():
        begun = time.monotonic()
        client.world.host.stop(signal.SIGTERM)
        client.world.took("end of the host", begun)

    restart(client, end)
    return True


# --- processes -------------------------------------------------------------------------------------

def kill(pids, are_still):
    """All at once, but for those whose number another process has by now. The numbers of those that have ended so."""
    with contextlib.ExitStack() as stack:
        found = {}
        for pid in pids:
            with contextlib.suppress(OSError):
                found[pid] = stack.enter_context(open(os.pidfd_open(pid)))
        killed = sorted(set(found) & set(are_still()))
        for pid in killed:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(found[pid].fileno(), signal.SIGKILL)
        for pid in killed:
            select.select([found[pid]], [], [], ANSWER_SECONDS)
    return killed


STARTS = ("create", "fork", "resume", "start")  # what makers serve
one_set_at_a_time = threading.Lock()


def kill_makers(client, some):
    """While there is something to make. Nothing sees it twice: what does may give up."""
    world, host = client.world, client.world.host
    starts = lambda until: [begun for what, _, begun in list(world.flying.values()) if what in STARTS and begun < until]
    with one_set_at_a_time:
        eventually(lambda: starts(math.inf), 1, 0.001)
        killed = kill(some(host.makers()), host.makers)
        world.note(f"killed makers {killed}")
        now = time.monotonic()
        eventually(lambda: not starts(now))
    return killed


def kill_all_makers(client):
    return kill_makers(client, lambda found: found)


def kill_a_maker(client):
    return kill_makers(client, lambda found: [client.rng.choice(found)] if found else [])


def processes(box):
    """Of a box, with their command lines."""
    found = {}
    for group in box.host.holdings()["cgroups"]:
        if group.endswith(f"-{box.id}"):
            for text in each(Path.read_text, Path(group).glob("**/cgroup.procs")):
                found |= {int(pid): line.replace(b"\0", b" ").decode(errors="replace").strip() for pid in text.split()
                          for line in each(Path.read_bytes, [Path(f"/proc/{pid}/cmdline")])}
    return found


@contextlib.contextmanager
def victim(client):
    """A box in which something is going on, and whose turn the caller has; None if all are being changed."""
    for box in client.world.some(client.rng):
        with turn_of(client.world, box) as mine:
            if mine:
                eventually(lambda: any(at is box for _, at, _ in list(client.world.flying.values())), 1)
                yield box
                return
    yield None


def recover(client, box):
    """It comes back, and whoever is told that it is back can use it at once."""
    late = time.monotonic() + ANSWER_SECONDS
    while True:
        answer = client.about(box, "POST", "/resume", "resume", good=(200, 409, 503))
        if answer is not None and answer.status_code == 200:
            break
        client.must(time.monotonic() < late, "it does not come back", box)
        time.sleep(0.05)
    client.must(answer.json()["data"]["state"] == "running", f"resumed: {answer.text[:300]}", box)


def kill_vital(client, name):
    """A process that a box cannot live without, or all of them."""
    with victim(client) as box:
        if not box:
            return False
        with box.past.disturbed("box", *(() if box.auto_resume else ("stopped",))):
            done = end_vital(client, box, name)
            client.world.note(f"killed {name}: {done}", box)
            recover(client, box)
        execute(client, box)
        return done


def end_vital(client, box, name):
    first = box.first_process()
    if name == "all":
        box.kill()
        return gone(first)
    done = kill_one(box, lambda line: line == f"aio {name}", oldest)  # its child looks alike until it runs a program
    if name == "cradle" and done:  # it is missed when the next command is started
        ended = eventually(lambda: not alive(first) or not execute(client, box) and not alive(first))
        client.must(ended, "commands go on without the process that they are born of", box)
    return done


def oldest(pids):
    def begun(path):
        return int(path.read_text().rpartition(")")[2].split()[19]), int(path.parent.name)

    return min(each(begun, [Path(f"/proc/{pid}/stat") for pid in pids]), default=(0, 0))[1]


def kill_one(box, fits, choose):
    found = sorted(pid for pid, line in processes(box).items() if fits(line))
    return bool(found) and kill([choose(found)], lambda: processes(box))


def kill_program(client):
    """A command, a shell, a kernel or what kernels are forked from."""
    vital = {f"aio {name}" for name in VITAL}
    with victim(client) as box:
        if not box:
            return False
        with box.past.disturbed("program"):
            done = kill_one(box, lambda line: line not in vital, client.rng.choice)
            client.world.note(f"killed a program: {done}", box)
        return done


# --- which of them, and every how many seconds -------------------------------------------------------

FAULTS = {
    "host": (20, kill_host),
    "end": (60, end_host),
    "makers": (12, kill_all_makers),
    "maker": (8, kill_a_maker),
    "serve": (6, lambda client: kill_vital(client, "serve")),
    "init": (12, lambda client: kill_vital(client, "init")),
    "cradle": (12, lambda client: kill_vital(client, "cradle")),
    "box": (12, lambda client: kill_vital(client, "all")),
    "program": (3, kill_program),
}
