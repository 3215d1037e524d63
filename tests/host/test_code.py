"""The processes of a box that are the product's run the machine's code only, whatever lies in the box."""

import base64
import json
import os
import subprocess
import sysconfig
from pathlib import Path

import pytest

from harness import eventually

# Says where it was loaded: constructors run before anybody asks a library for anything.
HOSTILE = """
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) static void loaded(void)
{
	int fd = open("/tmp/loaded", O_CREAT | O_WRONLY | O_APPEND, 0666);
	if (fd >= 0)
		dprintf(fd, "%d\\n", getpid());
}
"""
# What it stands in for, below the directory of libraries.
NAMES = ["libnss_hostile.so.2", "libyaml-0.so.2", "libcurl.so.4", "libcurl-gnutls.so.4", "libidn2.so.0", "libunistring.so.2",
         "libnss_systemd.so.2", "libnss_dns.so.2", "libnss_files.so.2", "libjansson.so.4", "libwslay.so.1",
         "ossl-modules/hostile.so", "ossl-modules/legacy.so", "gconv/HOSTILE.so", "gconv/UTF-16.so"]
DATABASES = ["aliases", "ethers", "group", "gshadow", "hosts", "initgroups", "netgroup", "networks", "passwd", "protocols",
             "publickey", "rpc", "services", "shadow"]
OPENSSL = """openssl_conf = start
[start]
providers = them
ssl_conf = them
[them]
hostile = one
[one]
module = {libraries}/ossl-modules/hostile.so
activate = 1
"""
GCONV = "".join(f"module {one}// INTERNAL {{libraries}}/gconv/HOSTILE 1\nmodule INTERNAL {one}// {{libraries}}/gconv/HOSTILE 1\n"
                for one in ["ISO-8859-1", "UTF-16"])  # without UTF-8 no shell would start


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("library")
    (folder / "hostile.c").write_text(HOSTILE)
    subprocess.run(["cc", "-shared", "-fPIC", "-s", "-o", "hostile.so", "hostile.c"], cwd=folder, check=True)
    return (folder / "hostile.so").read_bytes()


def write(box, path, data):
    answer = box.request("POST", "/v1/file/write", json={
        "file": path, "content": base64.b64encode(data).decode(), "encoding": "base64", "sudo": True})
    assert answer.status_code == 200 and answer.json()["success"], answer.text[:500]


@pytest.fixture
def hostile(host, library):
    """A box that was made hostile and then started anew."""
    box = host.create()
    libraries = f"/usr/lib/{sysconfig.get_config_var('MULTIARCH')}"
    write(box, "/tmp/hostile.so", library)
    places = " ".join(f"{libraries}/{name}" for name in NAMES)
    box.run(f"sudo sh -ec 'for i in {places}; do mkdir -p ${{i%/*}}; cp --remove-destination /tmp/hostile.so $i; done;"
            f"rm -f /usr/lib/ssl/openssl.cnf {libraries}/gconv/gconv-modules.cache'")
    write(box, "/etc/nsswitch.conf", "".join(f"{name}: hostile files dns\n" for name in DATABASES).encode())
    write(box, "/etc/ssl/openssl.cnf", OPENSSL.format(libraries=libraries).encode())
    write(box, "/usr/lib/ssl/openssl.cnf", OPENSSL.format(libraries=libraries).encode())
    write(box, f"{libraries}/gconv/gconv-modules", GCONV.format(libraries=libraries).encode())
    first = box.first_process()
    box.kill()
    assert eventually(lambda: box.state == "stopped")
    box.call("POST", "/resume")
    assert box.first_process() != first
    yield box
    box.delete()


def own_processes(box):
    """Init, the server and the cradle: their numbers in the box, and on the machine."""
    space, found = os.readlink(f"/proc/{box.first_process()}/ns/pid"), {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(folder / "ns/pid") == space:
                text = (folder / "status").read_text()
                found[int(text.split("NSpid:")[1].splitlines()[0].split()[-1])] = int(folder.name)
        except OSError:  # it has ended meanwhile
            pass
    return {number: found[number] for number in (1, 2, 3)}


def foreign_code(pid):
    """Its executable mappings that are no file of the machine."""
    found = []
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        _, rights, _, device, inode, *path = line.split(maxsplit=5)
        if "x" not in rights or path in (["[vdso]"], ["[vsyscall]"]):
            continue
        try:
            there = os.stat(path[0])
            if f"{os.major(there.st_dev):02x}:{os.minor(there.st_dev):02x} {there.st_ino}" == f"{device} {inode}":
                continue
        except (OSError, IndexError):
            pass
        found.append(line)
    return found


def use_everything(box):
    """Every route of the API, with what a caller may send it and then with nothing; then what loads most."""
    for path, operations in box.request("GET", "/openapi.json").json()["paths"].items():
        for method in operations:
            with box.host.client.stream(method.upper(), path.replace("{", "").replace("}", ""), headers=box.headers,
                                        json={}, timeout=100) as answer:
                assert answer.status_code < 600
    box.run("mkdir -p ~/skills/one && printf -- '---\\nname: one\\ndescription: d\\n---\\n' >~/skills/one/SKILL.md")
    answer = box.request("POST", "/v1/skills/register", files={"path": (None, "/home/gem/skills")})
    assert answer.status_code == 200 and answer.json()["success"], answer.text
    grep = {"path": "/etc", "pattern": "(?<=lo)cal(?=host)", "sudo": True}
    assert box.request("POST", "/v1/file/grep", json=grep).json()["data"]["matches"]
    box.run("cat /etc/hostname", user="root")


def test_the_server_of_a_hostile_box(hostile):
    """Its libraries, their plug-ins and all that names some are the box's own."""
    use_everything(hostile)
    assert hostile.run("id -un; getent passwd gem >/dev/null; cat /tmp/loaded").split()[1:], "nothing loads them at all"
    loaded = set(map(int, hostile.run("cat /tmp/loaded").split()))
    assert not loaded & {1, 2, 3}, "the server ran code of the box"
    for number, pid in own_processes(hostile).items():
        assert foreign_code(pid) == [], f"process {number}"


def test_a_server_of_mcp_is_found_by_name_in_a_hostile_box(hostile):
    """Names are looked up, and TLS is begun, without what the box has to say about how."""
    servers = {"far": {"url": "https://nowhere.invalid/mcp"}, "near": {"url": "https://localhost:9000/mcp"}}
    write(hostile, "/home/gem/.config/aio/mcp-servers.json", json.dumps({"mcpServers": servers}).encode())
    hostile.begin("exec python3 -m http.server 9000 --bind 127.0.0.1")
    hostile.run("timeout 60 sh -c 'until curl -s -o /dev/null localhost:9000 || grep -qi :2328 /proc/net/tcp; do sleep 0.05; done'")
    reasons = {}

    def are_tried():
        for one in hostile.request("GET", "/v1/mcp/servers", timeout=100).json()["servers"]:
            hostile.request("GET", f"/v1/mcp/{one['name']}/tools", timeout=100)
            reasons[one["name"]] = one.get("reason") or ""
        return "'nowhere.invalid'" in reasons["far"] and "no TLS with localhost" in reasons["near"]

    assert eventually(are_tried), reasons
    for pid in own_processes(hostile).values():
        assert foreign_code(pid) == []


def test_the_server_cannot_run_code_that_it_does_not_have(box):
    """As the kernel sees it: two filters for init and the server, one for what commands are born of."""
    filters = {number: next(int(line.split()[1]) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
                            if line.startswith("Seccomp_filters:")) for number, pid in own_processes(box).items()}
    assert (filters[1], filters[2], filters[3]) == (2, 2, 1)
