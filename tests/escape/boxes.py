"""Boxes without a host: made by tests/escape/driver.c, spoken to through their Unix sockets."""

import contextlib
import itertools
import json
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

import httpx
import pytest

from harness import eventually, program

STATE_PLACE = os.environ.get("AIO_TEST_STATE", "/var/tmp")
GROUPS = Path("/sys/fs/cgroup")
numbers = itertools.count(os.getpid() % 1000 * 10)


class Refused(Exception):
    """What the driver said."""


class Target:
    """A box to attack, in whatever way it was made: post() is how it is asked."""

    def run(self, command, root=False, timeout=90):
        """stdout, stderr and the exit code of a command, as gem or as root."""
        if root:
            command = "sudo -n bash -c " + shlex.quote(command)
        answer = self.post("/v1/bash/exec", command=command, timeout=timeout, max_output_length=0)
        assert answer.get("data"), answer
        return answer["data"]

    def out(self, command, root=False):
        """What a command printed, which has to succeed."""
        data = self.run(command, root)
        assert data["exit_code"] == 0, data
        return data["stdout"]


class Box(Target):
    def __init__(self, farm, options, name=None):
        self.farm, self.id = farm, name or f"{farm.prefix}{next(numbers)}"
        self.client = None
        self.start(*options)

    def start(self, *options):
        if self.client:
            self.client.close()
        self.pid = int(self.farm.run("start", self.id, *options))
        self.client = httpx.Client(
            transport=httpx.HTTPTransport(uds=str(self.farm.state / f"{self.id}.sock")),
            base_url="http://localhost",
            timeout=100,
        )

    def post(self, path, **body):
        return self.client.post(path, json=body).json()

    def usage(self):
        return json.loads(self.farm.run("usage", self.id))

    def stop(self):
        self.farm.run("stop", self.id)

    def remove(self):
        self.client.close()
        self.stop()
        self.farm.run("remove", self.id)
        self.farm.boxes.remove(self)


@contextlib.contextmanager
def volume(*mkfs, size="1G", options=()):
    """A file system of its own on a loop device, mounted; the device as well. Skips where there can be none."""
    folder = Path(tempfile.mkdtemp(prefix="aio-volume-", dir=STATE_PLACE))
    folder.chmod(0o711)
    image, point, device = folder / "image", folder / "mnt", None
    point.mkdir()
    try:
        with open(image, "wb") as file:
            file.truncate(int(size[:-1]) << 30)
        try:
            subprocess.run([*mkfs, image], check=True, capture_output=True)
            done = subprocess.run(["losetup", "-f", "--show", image], check=True, capture_output=True, text=True)
            device = done.stdout.strip()
            subprocess.run(["mount", *options, device, point], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as why:
            pytest.skip(f"NOT TESTED: {mkfs[0]}: {why}")
        point.chmod(0o711)
        yield point, Path(device)
    finally:
        if os.path.ismount(point):  # what made boxes there ends a moment after them
            assert eventually(lambda: subprocess.run(["umount", point], capture_output=True).returncode == 0)
        if device:
            subprocess.run(["losetup", "-d", device], capture_output=True)
        shutil.rmtree(folder)


class Farm:
    """A state directory with boxes in it."""

    def __init__(self, place=STATE_PLACE):
        self.state = Path(tempfile.mkdtemp(prefix="aiobox-", dir=place))
        self.boxes = []
        self.prefix = f"t{os.getpid()}-{next(numbers)}-"  # others may be there at the same time
        self.driver = program("driver")
        self.probe = str(Path(self.driver).with_name("probe"))

    def run(self, *args, env=None):
        done = subprocess.run(
            [self.driver, str(self.state), *args],
            capture_output=True,
            text=True,
            timeout=110,
            env={**os.environ, **(env or {})},
        )
        if done.returncode:
            raise Refused(done.stderr.strip())
        return done.stdout

    def start(self, *mounts, **limits):
        options = [f"{name}={value}" for name, value in limits.items()]
        options += [f"mount={mount}" for mount in mounts]
        name = f"{self.prefix}{next(numbers)}"
        try:
            self.boxes.append(Box(self, options, name))
        except Refused:
            self.run("remove", name)
            raise
        return self.boxes[-1]

    def copy(self, box, **limits):
        """A new box from the files of another."""
        name = f"{self.prefix}{next(numbers)}"
        self.run("freeze", box.id)
        self.run("copy", box.id, name)
        self.run("thaw", box.id)
        self.boxes.append(Box(self, [f"{limit}={value}" for limit, value in limits.items()], name))
        return self.boxes[-1]

    def left(self):
        """What its boxes have left on the machine."""
        mine = self.prefix
        groups = [str(p) for p in GROUPS.glob(f"*/aiobox/test-{mine}*")]
        groups += [str(p) for p in GROUPS.glob(f"aiobox/test-{mine}*")]
        mounts = [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(self.state) in line]
        loops = subprocess.run(["losetup", "-a"], capture_output=True, text=True).stdout
        files = [p.name for p in self.state.iterdir() if p.name.startswith(mine)]
        return groups + mounts + files + [l for l in loops.splitlines() if str(self.state) in l]

    def end(self):
        for box in list(self.boxes):
            box.remove()
        left = self.left()
        removal = subprocess.Popen(["rm", "-rf", str(self.state)], start_new_session=True)
        # A template is many small files: their end is waited for only where a file system is to go with them.
        assert self.state.parent == Path(STATE_PLACE) or removal.wait() == 0
        assert left == []
