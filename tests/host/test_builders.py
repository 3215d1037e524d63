"""Templates from Dockerfiles, by every builder that is installed."""

import os
import shutil
import subprocess
import tarfile

import pytest

from archives import add, archive, programs
from harness import eventually, program

DOCKERFILE = """\
FROM scratch AS base
ADD root.tar /
ENV COLOR=blue PATH=/opt/bin:/bin
WORKDIR /srv/app
COPY . .
FROM base AS all
ARG GREETING=hello
RUN echo "$GREETING $COLOR" >said; ln said again; rm remove-me
RUN mkdir -p /opt/bin; printf '#!/bin/sh\\necho tool\\n' >/opt/bin/tool; chmod 4755 /opt/bin/tool
USER 65534
ENTRYPOINT ["/nothing"]
FROM base AS bad
RUN echo before the end; exit 3
"""


class Builder:
    """Its storage is its own, so that nothing of the machine's is touched."""

    def __init__(self, host, name, folder, env):
        self.host, self.name, self.temporary = host, name, folder / "tmp"
        self.temporary.mkdir()
        self.env = host.environment(TMPDIR=str(self.temporary), **env)
        self.context = folder / "context"
        self.context.mkdir()
        for file, text in {"Dockerfile": DOCKERFILE, ".dockerignore": "secret.env\nroot.tar\n!root.tar\n", "secret.env": "s",
                           "kept.txt": "kept", "remove-me": "x"}.items():
            (self.context / file).write_text(text)

        def fill(tar):
            programs(tar, "bash", "sh", "cat", "id", "ls", "rm", "ln", "mkdir", "chmod")
            add(tar, "tmp", type=tarfile.DIRTYPE, mode=0o1777)

        (self.context / "root.tar").write_bytes(archive(fill))

    def build(self, template, *args):
        return subprocess.run([program("aio"), "template", "build", template, str(self.context), "--builder", self.name, *args],
                              capture_output=True, text=True, timeout=100, env=self.env)

    def images(self):
        driver = [] if self.name == "docker" else ["--storage-driver", "vfs"]
        said = subprocess.run([self.name, *driver, "images"], capture_output=True, text=True,
                              env=self.env, check=True, timeout=60).stdout
        return [line for line in said.splitlines() if "aio-template" in line]


def end(daemon, folder):
    daemon.terminate()
    try:
        daemon.wait(60)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()
    with open("/proc/self/mounts") as mounts:
        ours = [line.split()[1] for line in mounts if line.split()[1].startswith(str(folder))]
    for mount in reversed(ours):
        subprocess.run(["umount", "-l", mount], check=False)


@pytest.fixture
def no_templates(host):
    yield
    for template in host.api("GET", "/v1/templates")[1:]:
        host.cli("template", "rm", template["name"])


@pytest.fixture(params=["buildah", "podman", "docker"])
def builder(host, no_templates, request, tmp_path):
    name = request.param
    if not shutil.which(name):
        pytest.skip(f"{name} is not installed")
    if name != "docker":
        # The driver is told by a variable: an overlay cannot stand on an overlay, as in a container.
        conf = tmp_path / "storage.conf"
        conf.write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{tmp_path}/graph"\nrunroot = "{tmp_path}/run"\n')
        yield Builder(host, name, tmp_path, {"CONTAINERS_STORAGE_CONF": str(conf), "STORAGE_DRIVER": "vfs"})
        return
    if not shutil.which("dockerd", path=os.environ["PATH"] + ":/usr/sbin"):
        pytest.skip("dockerd is not installed")
    address = f"unix://{tmp_path}/d.sock"
    with open(tmp_path / "log", "w") as log:
        daemon = subprocess.Popen(
            ["dockerd", "--data-root", f"{tmp_path}/data", "--exec-root", f"{tmp_path}/exec", "--pidfile", f"{tmp_path}/pid",
             "--host", address, "--bridge", "none", "--iptables=false", "--ip6tables=false"],
            env={**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"},
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    try:
        answers = lambda: subprocess.run(["docker", "--host", address, "version"], capture_output=True).returncode == 0
        eventually(lambda: answers() or daemon.poll() is not None, pause=0.05)
        if not answers():
            pytest.skip(f"dockerd does not start here: {(tmp_path / 'log').read_text()[-300:]}")
        yield Builder(host, name, tmp_path, {"DOCKER_HOST": address})
    finally:
        end(daemon, tmp_path)


def test_a_dockerfile_becomes_a_template(host, builder):
    done = builder.build("built", "--build-arg", "GREETING=good morning", "--target", "all")
    assert (done.returncode, done.stdout) == (0, "built\n"), done
    assert "RUN echo" in done.stderr, "its progress is shown"
    box = host.create(template="built", env={"MORE": "1"})
    assert box.run("pwd; cat said; id -u; tool; echo $COLOR $MORE") == "/srv/app\ngood morning blue\n1000\ntool\nblue 1\n"
    assert box.run("ls").split() == ["Dockerfile", "again", "kept.txt", "root.tar", "said"]
    assert box.run("[ said -ef again ] && [ -u /opt/bin/tool ] && echo yes") == "yes\n"
    assert box.run("pwd", exec_dir="/tmp") == "/tmp\n"
    box.call("POST", "/snapshot", json={"name": "of-built"})
    box.delete()
    # What the image says outlives a snapshot; a request says it better.
    box = host.create(template="of-built", env={"COLOR": "red", "WORKSPACE": "/tmp"})
    assert box.run("pwd; echo $COLOR") == "/tmp\nred\n"
    box.delete()
    box = host.create(template="of-built")
    assert box.run("pwd; echo $COLOR") == "/srv/app\nblue\n"
    box.delete()
    assert "already" in builder.build("built").stderr
    host.cli("template", "rm", "built", "of-built")
    failed = builder.build("built", "--target", "bad")
    assert failed.returncode == 1 and failed.stdout == "", failed
    assert "before the end" in failed.stderr and f"'{builder.name} build' failed with status 3" in failed.stderr
    assert [t["name"] for t in host.api("GET", "/v1/templates")] == ["machine"]
    assert builder.images() == [] and os.listdir(builder.temporary) == []


def test_mistakes_are_told_before_the_work(host, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full/Containerfile").write_text("FROM scratch\n")
    env = host.environment()
    for args, text in [
        (["x", tmp_path / "nothing"], "no directory"), (["x", tmp_path / "empty"], "no Dockerfile"),
        (["X", tmp_path / "full"], "a template's name"), (["x", tmp_path / "full", "--file", "nofile"], "no 'nofile'"),
        (["x", tmp_path / "full"], "apt-get install buildah"),
    ]:
        done = subprocess.run([program("aio"), "template", "build", *map(str, args)], capture_output=True, text=True,
                              timeout=60, env={**env, "PATH": "/nowhere"})
        assert done.returncode == 1 and text in done.stderr, (args, done)
    fake = tmp_path / "docker"
    fake.write_text("#!/bin/sh\nexit 1\n")
    fake.chmod(0o755)
    done = subprocess.run([program("aio"), "template", "build", "x", str(tmp_path / "full")], capture_output=True, text=True,
                          timeout=60, env={**env, "PATH": str(tmp_path)})
    assert done.returncode == 1 and "daemon does not answer" in done.stderr, done
