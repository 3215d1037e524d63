"""Boxes without the host: made by tests/escape/driver.c, beside the floor (bench/floor.c)."""
import contextlib
import json
import os
import re
import subprocess
import tempfile
from pathlib import Path

BUILD = Path(__file__).resolve().parents[1] / "build"
GROUPS = Path("/sys/fs/cgroup")
COUNT = 100


class Boxes:
    """A state directory; COUNT + 1 boxes made one by one, then COUNT at once."""

    def __init__(self):
        if os.geteuid() != 0:
            raise RuntimeError("boxes are made by root")
        self.state = tempfile.mkdtemp(prefix="aiobox-", dir="/var/tmp")
        os.chmod(self.state, 0o711)  # the floor mounts there as the root of its box

    def run(self, *args):
        done = subprocess.run([BUILD / args[0], self.state, *map(str, args[1:])], capture_output=True, text=True,
                              timeout=300)
        if done.returncode:
            raise RuntimeError(done.stderr.strip()[:200])
        return done.stdout

    def make(self):
        try:
            return json.loads(self.run("driver", "bench", COUNT)) | {"memory": self.memory()}
        finally:
            self.sweep()

    def floor(self):
        took = sorted(map(float, self.run("floor", COUNT).split()))
        return took[len(took) // 2]

    def sweep(self):
        for path in Path(self.state).glob("bench*.sock"):
            self.run("driver", "stop", path.stem)
            self.run("driver", "remove", path.stem)
        subprocess.run(f"rm -rf {self.state}/floor.*", shell=True, check=True)

    @staticmethod
    def memory():
        """MiB of a box that does nothing: its share of its processes' memory, and the kernel's for it."""
        each = []
        roots = [p for p in (GROUPS / "unified/aiobox", GROUPS / "aiobox") if p.is_dir()]
        for box in roots[0].glob("test-bench*"):
            size = 0
            for pid in (box / "server/cgroup.procs").read_text().split() + (box / "run/cgroup.procs").read_text().split():
                with contextlib.suppress(OSError):
                    size += int(re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)[1])
            v1, v2 = GROUPS / "memory/aiobox" / box.name / "memory.kmem.usage_in_bytes", box / "memory.stat"
            if v1.exists():
                size += int(v1.read_text()) // 1024
            elif v2.exists():
                size += int(re.search(r"^kernel (\d+)", v2.read_text(), re.M)[1]) // 1024
            each.append(size / 1024)
        return sum(each) / len(each)

    def end(self):
        self.sweep()
        subprocess.run(["rm", "-rf", self.state], check=True)
