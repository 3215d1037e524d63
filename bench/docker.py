"""Docker, with a daemon, a data root and an image of our own, which are gone afterwards."""
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import peers

TREE = peers.ROOT / "build/bench-root.tar"


class Absent(Exception):
    """Why there is nothing to compare with."""


def root_tar():
    """A small root file system of this machine's distribution, as a tar; made once."""
    if TREE.exists():
        return TREE
    if not shutil.which("debootstrap", path=os.environ["PATH"] + ":/usr/sbin"):
        raise Absent("debootstrap is not installed")
    targets = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME)", "Created-By: Packages"],
                             capture_output=True, text=True).stdout.split("\n")
    release = dict(line.split("=", 1) for line in pathlib.Path("/etc/os-release").read_text().splitlines() if "=" in line)
    suite = release.get("VERSION_CODENAME", "").strip('"')
    mirror = next((line.split()[0] for line in targets if line.endswith(f" {suite}")), None)
    if not mirror:
        raise Absent(f"apt knows no mirror of '{suite}'")
    with tempfile.TemporaryDirectory(prefix="aio-bench.") as folder:
        done = subprocess.run(["debootstrap", "--variant=minbase", suite, f"{folder}/root", mirror], capture_output=True,
                              text=True)
        if done.returncode:
            raise Absent(f"debootstrap failed: {(done.stdout.strip().splitlines() or ['?'])[-1][:80]}")
        subprocess.run(["tar", "-C", f"{folder}/root", "--exclude=./dev/*", "-cf", f"{TREE}.new", "."], check=True)
    os.rename(f"{TREE}.new", TREE)
    return TREE


@contextlib.contextmanager
def daemon(tar):
    """Yields a function that gives the milliseconds of `docker run --rm IMAGE true`. No network, as a box has none:
    Docker need not make a bridge."""
    if not shutil.which("dockerd", path=os.environ["PATH"] + ":/usr/sbin") or not shutil.which("docker"):
        raise Absent("docker.io is not installed")
    with tempfile.TemporaryDirectory(prefix="aio-bench.", ignore_cleanup_errors=True) as folder:
        log = pathlib.Path(folder, "log")
        address = f"unix://{folder}/sock"
        with log.open("w") as out:
            process = subprocess.Popen(
                ["dockerd", "--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec", "--pidfile", f"{folder}/pid",
                 "--host", address, "--bridge", "none", "--iptables=false", "--ip6tables=false"],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
        try:
            yield client(process, ["docker", "--host", address], tar, log)
        finally:
            peers.end(process)
            # What it mounted in its folders, where it left something.
            for line in reversed(pathlib.Path("/proc/self/mounts").read_text().splitlines()):
                if line.split()[1].startswith(folder):
                    subprocess.run(["umount", "-l", line.split()[1]], check=False)


def client(process, docker, tar, log):
    until = time.monotonic() + 30
    while subprocess.run([*docker, "info"], capture_output=True).returncode:
        if process.poll() is not None or time.monotonic() > until:
            raise Absent(f"dockerd does not start: {(log.read_text().strip().splitlines() or ['?'])[-1][-120:]}")
        time.sleep(0.05)
    subprocess.run([*docker, "import", str(tar), "bench"], check=True, capture_output=True)

    def run():
        begin = time.perf_counter()
        done = subprocess.run([*docker, "run", "--rm", "--network", "none", "bench", "true"], capture_output=True, text=True)
        if done.returncode:
            raise Absent(f"docker run fails: {done.stderr.strip()[-120:]}")
        return (time.perf_counter() - begin) * 1e3

    return run


def skip(why):
    print(f"SKIP docker run --rm true: {why}", file=sys.stderr)
