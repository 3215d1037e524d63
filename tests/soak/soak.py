"""Many clients on many boxes of one host, while it, its makers and its boxes are killed. Each answer is verified, and
in the end nothing acknowledged is lost and nothing is left over."""

import contextlib
import os
import re
import threading
import time
from pathlib import Path

from harness import ANSWER_SECONDS, LEAN, check_sanitizers, eventually
from hosts import Host, each, folder

from soak.actions import act, check_file, check_listed, delete, execute, mark
from soak.client import Client
from soak.faults import FAULTS, kill
from soak.world import Failure, Over, World

CLIENTS = 8
# What the host may have more than at its start: for each connection, for each box, and while it is at rest.
MOST = {"descriptors": (6, 12, 4), "threads": (3, 2, 2), "MiB": (4, 4, 96)}


def usage(host):
    """Nothing while it is away."""
    with contextlib.suppress(OSError, TypeError):
        own = Path(f"/proc/{host.pid}")
        return {"descriptors": len(os.listdir(own / "fd")), "threads": len(os.listdir(own / "task")),
                "MiB": int(re.search(r"VmRSS:\s+(\d+)", (own / "status").read_text())[1]) // 1024}
    return {}


class Soak:
    def __init__(self, seconds, seed, without=()):
        self.seconds, self.without = seconds, without
        self.host = Host(folder(), env=LEAN)
        self.world = World(self.host, seed)
        self.judge = Client(self.world, "judge")
        default = mark(self.judge, {"id": "default", "token": None, "auto_resume": True, "state": "running"})
        self.world.add(default)
        self.base = usage(self.host)

    # --- the mix

    def use(self, client):
        while not self.world.over.is_set():
            act(client)

    def harm(self, client, every, fault):
        while not self.world.over.wait(client.rng.uniform(0, 2 * every)):
            if fault(client):
                self.world.kills[client.name] += 1

    def guarded(self, work, *args):
        """Whatever goes wrong in a thread is a failure, and ends the others."""
        try:
            work(*args)
        except (Failure, Over):
            pass
        except BaseException as problem:
            with contextlib.suppress(Failure):
                self.world.fail(f"{threading.current_thread().name}: {type(problem).__name__}: {str(problem)[-3000:]}")

    def thread(self, name, work, *args):
        def run():
            client = Client(self.world, name)
            with client.http:
                self.guarded(work, client, *args)

        return threading.Thread(target=run, name=name, daemon=True)

    def threads(self):
        return [self.thread(f"client-{number}", self.use) for number in range(CLIENTS)] + [
            self.thread(name, self.harm, *fault) for name, fault in FAULTS.items() if name not in self.without]

    def check_usage(self):
        for what, now in usage(self.host).items():
            client, box, rest = MOST[what]
            most = self.base[what] + client * (CLIENTS + len(FAULTS)) + box * (len(self.world.ids()[1]) + 4) + rest
            self.world.peaks[what] = max(self.world.peaks[what], now)
            self.judge.must(now <= most, f"the host has {now} {what}, more than {most}; {self.base[what]} at its start")

    def mix(self):
        threads = self.threads()
        for thread in threads:
            thread.start()
        until = time.monotonic() + self.seconds
        while time.monotonic() < until and not self.world.over.wait(0.5):
            self.guarded(self.check_usage)
        self.world.over.set()
        for thread in threads:
            thread.join(3 * ANSWER_SECONDS)
            if thread.is_alive():
                self.guarded(self.world.fail, f"{thread.name} does not end")

    # --- what holds in the end

    def check_boxes(self):
        """All that was acknowledged, and nothing else."""
        listed = self.judge.order("GET", "/v1/sandboxes?limit=1000", "list")
        check_listed(self.judge, listed, *[set(self.world.boxes)] * 2)
        for box in list(self.world.boxes.values()):
            self.judge.about(box, "POST", "/resume", "resume")
            execute(self.judge, box)
            for path in list(box.files):
                check_file(self.judge, box, path)
        for log in each(lambda path: path.read_text(errors="replace"), (self.host.state / "log").iterdir()):
            check_sanitizers(log)

    def check_leftovers(self):
        """Once all boxes but the default one are deleted."""
        for box in list(self.world.boxes.values()):
            delete(self.judge, box)
        self.host.settled()
        own = [doc["uid_base"] // 65536 for doc in self.host.stored().values()]
        clean = {"loops": [], "links": [], "ranges": own, "ways out": []}
        is_clean = eventually(lambda: self.host.traces() == clean)
        self.judge.must(is_clean, f"left over: {self.host.traces()}, not {clean}")
        makers = os.cpu_count() + 1
        self.judge.must(eventually(lambda: len(self.host.makers()) <= makers), f"{len(self.host.makers())} makers")
        at_rest = lambda: all(now <= self.base[what] + MOST[what][2] for what, now in usage(self.host).items())
        self.judge.must(eventually(at_rest), f"at rest the host has {usage(self.host)}, at its start {self.base}")

    def check_end(self):
        """Of the host, and of all that was its."""
        self.host.check()
        self.host.stop()
        held, traces = self.host.holdings(), self.host.traces()
        left = held["cgroups"] + held["mounts"] + traces["loops"] + traces["links"] + traces["ways out"]
        self.judge.must(not left, f"left over: {left}")
        self.judge.must(eventually(lambda: not self.host.makers()), f"makers left over: {self.host.makers()}")

    def run(self):
        try:
            self.mix()
            for check in (self.check_boxes, self.check_leftovers, self.check_end):
                if not self.world.failures:
                    self.guarded(check)
        finally:
            self.guarded(self.sweep)
        if self.world.failures:
            raise self.world.failures[0]

    def sweep(self):
        """Nothing of it stays, however it went: the next host of this state removes what it finds."""
        if self.host.proc.poll() is None:
            self.host.kill()
        for group in self.host.holdings()["cgroups"]:
            with contextlib.suppress(OSError):
                Path(group, "cgroup.kill").write_text("1")
        kill(self.host.makers(), self.host.makers)
        self.host.start()
        self.host.end()

    def summary(self):
        world, asked = self.world, sum(map(len, self.world.seconds.values()))
        yield f"seed {world.seed}: {self.seconds:.0f} s, {asked} requests, {world.counts['cut']} cut by a kill"
        yield "killed: " + ", ".join(f"{name} {count}" for name, count in sorted(world.kills.items()))
        for what, seconds in sorted(world.seconds.items()):
            yield f"{len(seconds):8} {what}, at most {max(seconds):.2f} s"
        for what, count in sorted(world.counts.items()):
            yield f"{count:8} {what}"
        yield "host: " + ", ".join(f"{what} {self.base[what]} and at most {most}" for what, most in world.peaks.items())
