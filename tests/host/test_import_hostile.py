"""Images that were made to harm the machine that imports them, and what keeps them from it."""

import contextlib
import gzip
import json
import lzma
import os
import shutil
import signal
import socket
import struct
import subprocess
import tarfile
import threading
import time
import zlib
from pathlib import Path
from random import Random

import pytest

from archives import add, archive, bash, blob, image, programs, saved
from harness import SANITIZER_REPORT, SETTLE_SECONDS, eventually, program, sanitizer
from hosts import Host, folder
from refusals import problem


def docker(*layers, manifest=None, **files):
    """As 'docker save' has it, packed; layers are bytes."""
    def fill(tar):
        for number, data in enumerate(layers):
            add(tar, f"{number}.tar", data)
        for name, data in files.items():
            add(tar, name, data)
        text = json.dumps([{"Layers": [f"{n}.tar" for n in range(len(layers))]}]).encode()
        add(tar, "manifest.json", text if manifest is None else manifest)

    return archive(fill)


def processes(word):
    """Those with the word in their command line."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if word.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(int(pid))
    return found


def tree(path):
    """All that is below a directory, with its content."""
    return {str(p.relative_to(path)): p.lstat().st_mode if p.is_dir() or p.is_symlink() else p.read_bytes()
            for p in sorted(path.rglob("*"))}


# --- programs

# What libarchive would hand to a program of that name, looked for where the image put it.
PROGRAMS = {
    "lrzip": b"LRZI\x00\x06" + bytes(600),
    "grzip": b"GRZipII\x00\x02\x04:)" + bytes(600),
    "lzop": b"\x89LZO\x00\r\n\x1a\n\x10\x30\x20\xa0\x09\x40" + bytes(600),
}


def trap(name, marker):
    """A layer with a program of that name: it leaves a process behind and has something to be unpacked."""
    def fill(tar):
        programs(tar, "bash", "cat", "sleep")
        add(tar, f"usr/bin/{name}", f"#!/bin/bash\n/bin/sleep {marker} </dev/null &>/dev/null &\n/bin/cat /payload\n".encode())
        add(tar, "payload", archive(lambda inner: add(inner, "owned", b"x")))

    return archive(fill)


@pytest.mark.parametrize("form", ["docker", "oci"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_program_of_an_image_is_run(host, importer, tmp_path, name, form):
    marker = f"{10**6 + os.getpid()}.{len(name)}"
    layers = [trap(name, marker), PROGRAMS[name]]
    source = docker(*layers) if form == "docker" else image(tmp_path / "layout", *layers)
    try:
        why = importer(source, "trap", status=422)["message"]
        assert "not a tar archive" in why and "gzip" in why
        assert processes(marker) == []
    finally:
        for pid in processes(marker):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("data", [b"begin 644 x.tar\n", b"\xed\xab\xee\xdb\x03\x00" + bytes(600), b"7z\xbc\xaf\x27\x1c", b"PK\x03\x04"],
                         ids=["uu", "rpm", "7z", "zip"])
def test_other_kinds_of_archives_are_refused(importer, data):
    assert "not a tar archive" in importer(docker(data), "other", status=422)["message"]


# --- names and links

def test_links_and_whiteouts_stay_inside(host, importer, tmp_path):
    victim = tmp_path / "victim"
    (victim / "below").mkdir(parents=True)
    (victim / "file").write_text("safe")
    (victim / "below/file").write_text("safe")
    before, inner = tree(victim), str(victim)[1:]

    def first(tar):
        bash(tar)
        add(tar, "abs", type=tarfile.SYMTYPE, linkname=str(victim))
        add(tar, "up", type=tarfile.SYMTYPE, linkname="../" * 30 + inner)
        add(tar, "root", type=tarfile.SYMTYPE, linkname="/")
        add(tar, "loop", type=tarfile.SYMTYPE, linkname="loop")
        add(tar, f"{inner}/file", b"the image's own")  # what the links lead to is in the image
        add(tar, f"{inner}/gone", b"x")
        add(tar, f"{inner}/below/gone", b"x")
        add(tar, "kept", b"x")

    def second(tar):
        add(tar, "abs/planted", b"x")
        add(tar, "up/planted2", b"x")
        add(tar, "abs/file", b"replaced")
        add(tar, "abs/.wh.gone")
        add(tar, "up/below/.wh..wh..opq")
        add(tar, "abs/.wh..wh..opq")  # abs is a link: it has nothing of its own
        add(tar, "root/.wh..wh.plnk")
        add(tar, ".wh..wh..opq")
        add(tar, "root/.wh..")
        add(tar, "root/.wh...")
        add(tar, ".wh.")
        add(tar, "hard", type=tarfile.LNKTYPE, linkname=f"/{inner}/file")
        add(tar, "hard-to-link", type=tarfile.LNKTYPE, linkname="abs")
        add(tar, "hard-to-link/planted3", b"x")
        add(tar, "./root/root//root/./through", b"x")

    root = importer(image(tmp_path / "layout", (first, "w"), (second, "w")), "links")
    assert tree(victim) == before
    own = root / inner
    assert sorted(os.listdir(own)) == ["below", "file", "planted", "planted2", "planted3"]
    assert (own / "file").read_bytes() == b"replaced" and (own / "file").samefile(root / "hard")
    assert os.listdir(own / "below") == [] and (root / "kept").exists() and (root / "through").exists()


@pytest.mark.parametrize("name", ["../x", "a/../../x", "a/b/..", "..", "/..", "a/../.wh.x", "../.wh..wh..opq", "bin/../.wh..wh..opq"])
@pytest.mark.parametrize("form", ["archive", "layer"])
def test_a_name_that_leads_up_is_refused(importer, name, form):
    def fill(tar):
        bash(tar)
        add(tar, "a/b", type=tarfile.DIRTYPE)
        add(tar, name, b"x")

    data = archive(fill)
    assert "has '..'" in importer(data if form == "archive" else docker(data), "up", status=422)["message"]


@pytest.mark.parametrize("target", ["../../../../../../etc/passwd", "/etc/passwd", "link/passwd", "bin/../../etc/passwd", "nothing"])
@pytest.mark.parametrize("form", ["archive", "layer"])
def test_a_hard_link_to_outside_is_refused(importer, target, form):
    def fill(tar):
        bash(tar)
        add(tar, "link", type=tarfile.SYMTYPE, linkname="/etc")
        add(tar, "x", type=tarfile.LNKTYPE, linkname=target)

    data, before = archive(fill), os.stat("/etc/passwd").st_nlink
    importer(data if form == "archive" else docker(data), "hard", status=422)
    assert os.stat("/etc/passwd").st_nlink == before


@pytest.mark.parametrize("name, word", [
    ("/".join("d" * 129), "too deep"), ("n" * 256, "too long"), ("/".join(["n" * 200] * 30), "too long"),
    ("a/" * 3000, "too deep"), ("./" * 100000 + "x", None), ("/".join("d" * 128), None), ("n" * 255, None),
])
def test_depth_and_length_of_names(host, importer, name, word):
    def fill(tar):
        bash(tar)
        add(tar, name, b"x")

    got = importer(archive(fill), "deep", status=422 if word else 200)
    assert not word or word in got["message"]


def test_an_entry_that_comes_again_as_something_else(host, importer, tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir()

    def fill(tar):
        bash(tar)
        add(tar, "a", b"file")
        add(tar, "a", type=tarfile.SYMTYPE, linkname=str(victim))
        add(tar, "a/x", b"1")
        add(tar, "b", type=tarfile.DIRTYPE)
        add(tar, "b/in", b"x")
        add(tar, "c", type=tarfile.SYMTYPE, linkname="b")
        add(tar, "c", b"a file now")
        add(tar, "d", type=tarfile.LNKTYPE, linkname="c")
        add(tar, "d", b"another file")
        add(tar, "e", type=tarfile.FIFOTYPE)
        add(tar, "e", b"no pipe")

    for name, data in (("again", archive(fill)), ("again-layer", docker(archive(fill), archive(fill)))):
        try:
            root = importer(data, name)
        except AssertionError as error:  # refusing all of it is as good
            assert "422" in str(error) or '"success":false' in str(error)
            root = None
        assert os.listdir(victim) == []
        if root:
            assert (root / "c").read_bytes() == b"a file now" and (root / "d").read_bytes() == b"another file"
            assert (root / "b/in").exists() and (root / "e").read_bytes() == b"no pipe"


def test_owners_times_and_devices(host, importer):
    def fill(tar):
        bash(tar)
        for number, (uid, mtime) in enumerate([("-1", "-1"), ("65535", "-99999999999"), ("4294967296", "99999999999999"),
                                               ("9223372036854775807", "9223372036854775807"), ("99999999999999999999", "1e400"),
                                               ("x", "nan")]):
            add(tar, f"odd{number}", b"x", pax_headers={"uid": uid, "gid": uid, "mtime": mtime, "atime": mtime})
        for number, kind in enumerate([tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE]):
            add(tar, f"dev{number}", type=kind, devmajor=1, devminor=3)

    root = importer(archive(fill), "odd")
    assert all((root / f"odd{number}").stat().st_uid <= 65534 for number in range(6))
    assert [name for name in os.listdir(root) if name.startswith("dev")] in ([], ["dev"])


def import_tree(source, to, size=1 << 30):
    """The program that unpacks, by itself: its exit status and what it printed."""
    alive, end = os.pipe()
    with open(source, "rb") as file:
        # As the host starts it: with its descriptors at 3 and 4.
        run = subprocess.run(["bash", "-c", f'exec "$0" import-tree "$1" "$2" 3<&{file.fileno()} 4<&{end}', program("aio"), str(to), str(size)],
                             pass_fds=(file.fileno(), end), stdin=subprocess.DEVNULL, capture_output=True, timeout=SETTLE_SECONDS)
    os.close(end)
    assert os.read(alive, 1) == b"", "nothing has it open any more"
    os.close(alive)
    assert not SANITIZER_REPORT.search(run.stderr.decode()), run.stderr.decode()
    return run.returncode, run.stdout


def test_random_layers_stay_inside(tmp_path):
    """Entries of every type, under names that get in each other's way."""
    random = Random(12)
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("safe")
    before = tree(victim)
    words = ["a", "b", "bin", ".", "..", "", ".wh.a", ".wh..wh..opq", ".wh.", ".wh...", str(victim), str(victim)[1:], "file", "x" * 256]
    types = [tarfile.REGTYPE, tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE]

    def name():
        # What is refused ends the import: rarely.
        usual = [word for word in words if word not in ("..", words[-1])]
        return "/".join(random.choice(words if random.random() < 0.02 else usual) for _ in range(random.randint(1, 3)))

    def fill(tar):
        bash(tar)
        for _ in range(random.randint(1, 12)):
            kind = random.choice(types)
            add(tar, name(), random.randbytes(random.randint(0, 99)) if kind == tarfile.REGTYPE else b"", type=kind,
                linkname=name() if random.random() < 0.7 else "../" * 9 + name(), mode=random.randint(0, 0o7777),
                uid=random.choice([0, 1000, 65535]), mtime=random.choice([0, 1, 2**33]))

    statuses = []
    for number in range(50):
        to, source = tmp_path / f"to{number}", tmp_path / "source"
        to.mkdir()
        data = docker(*[archive(fill) for _ in range(random.randint(1, 3))])
        if random.random() < 0.3:  # damaged
            data = bytearray(data)
            for _ in range(9):
                data[random.randrange(len(data))] = random.randrange(256)
        source.write_bytes(data)
        status, said = import_tree(source, to)
        assert status in (0, 1) and (status == 0) == said.startswith(b"{"), (number, status, said)
        assert tree(victim) == before and set(os.listdir(to)) <= {"root", "image"} and not (to / "root").is_symlink(), number
        statuses.append(status)
        shutil.rmtree(to)
    assert 0 in statuses and 1 in statuses


def test_capabilities_of_files_hold_in_a_box(host, importer):
    """As images of ping and the like have them."""
    raw = "\x01\x00\x00\x02\x00\x20" + "\x00" * 14  # CAP_NET_RAW, permitted and effective

    def fill(tar):
        programs(tar, "bash")
        add(tar, "bin/able", Path("/bin/bash").read_bytes(), pax_headers={"SCHILY.xattr.security.capability": raw})

    root = importer(archive(fill), "able")
    assert os.getxattr(root / "bin/able", "security.capability") == raw.encode("latin-1")
    box = host.create(template="able")
    try:
        said = box.run("/bin/able -c 'while read name value; do case $name in CapEff:) echo $value;; esac; done </proc/self/status'")
        assert said == "0000000000002000\n"
    finally:
        box.delete()


# --- sizes

def header(name, size, kind=tarfile.REGTYPE):
    info = tarfile.TarInfo(name)
    info.type, info.mode = kind, 0o755
    data = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    data[124:136] = b"\x80" + size.to_bytes(11, "big", signed=True) if size < 0 or size >= 8**11 else b"%011o\0" % size
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data)
    return bytes(data)


SHELL = archive(bash)[:1024]  # without the end


@pytest.mark.parametrize("size, status", [(1 << 40, 413), (1 << 62, 413), ((1 << 63) - 1, 422), (10 << 20, 422), (-1, 422)])
@pytest.mark.parametrize("form", ["archive", "layer"])
def test_a_size_that_lies(importer, size, status, form):
    data = SHELL + header("lies", size) + b"short of it"
    importer(data if form == "archive" else docker(data), "lies", status=status)


def test_sparse_files_count_with_their_holes(host, importer):
    def fill(size):
        def do(tar):
            bash(tar)
            add(tar, "sparse", b"1\n0\n4\n".ljust(512, b"\0") + b"data", pax_headers={
                "GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "holes", "GNU.sparse.realsize": str(size)})
        return do

    holes = importer(archive(fill(64 << 20)), "sparse") / "holes"
    assert holes.stat().st_size == 64 << 20 and holes.stat().st_blocks < 1000 and holes.read_bytes()[:5] == b"data\0"
    importer(archive(fill(1 << 50)), "holes", status=413)


def members(entries, times):
    """A gzip stream that is much more when it is unpacked."""
    return gzip.compress(SHELL) + gzip.compress(entries, 1) * times


@pytest.fixture(scope="module")
def many():
    """A million entries in a few hundred KiB; a quarter of a minute and more to be written."""
    return members(b"".join(header(f"{n}", 0) for n in range(20000)), 60)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A host that takes little, from nowhere but requests."""
    host = Host(folder(), ["--import-size", "48M"])
    yield host
    host.end()


def upload(host, data, name="sent", **fields):
    return host.client.post("/v1/templates/upload", headers=host.auth, data={"name": name, **fields}, files={"file": ("x.tar", data)})


def test_a_bomb_stops_at_the_cap(small):
    zeros = header("zeros", 4 << 20) + bytes(4 << 20)
    for data in (members(zeros, 100), docker(members(zeros, 5), members(zeros, 100)), docker(*[members(zeros, 5)] * 3)):
        started = time.monotonic()
        got = upload(small, data)
        assert got.status_code == 413 and "--import-size" in got.json()["message"], got.text
        assert time.monotonic() - started < SETTLE_SECONDS
        assert os.listdir(small.state / "templates") == []


def test_too_many_entries(host, importer):
    """As a layer: it is gone through for whiteouts first, when nothing is written yet."""
    entries = header("x", 0) * 100000
    assert "too many" in importer(docker(members(entries, 21)), "many", status=413)["message"]


def test_large_manifests_are_refused_at_once(host, importer, tmp_path):
    large = b'[{"Layers": ["' + b"x" * (24 << 20) + b'"]}]'
    folder = image(tmp_path / "layout", (bash, "w"))
    (folder / "index.json").write_bytes(large)
    nested = image(tmp_path / "nested", (bash, "w"))
    (nested / "index.json").write_text(json.dumps({"manifests": [blob(nested, large)]}))
    config = docker(archive(bash), manifest=b'[{"Layers": ["0.tar"], "Config": "config"}]', config=large)
    for source in (docker(manifest=large), folder, nested, config):
        started = time.monotonic()
        assert "4 MiB" in importer(source, "large", status=413)["message"]
        assert time.monotonic() - started < SETTLE_SECONDS


@pytest.mark.parametrize("text", [
    b"", b"{", b"[" * 3000000, b"[" + b"{}," * 1100000 + b"{}]", b"null", b"[]", b"{}", b"[null]", b'[{"Layers": 7}]',
    b'[{"Layers": []}]', b'[{"Layers": [7]}]', b'[{"Layers": [""]}]', b'[{"Layers": ["."]}]', b'[{"Layers": ["a\\u0000b"]}]',
    json.dumps([{"Layers": ["0.tar"] * 257}]).encode(), json.dumps([{"Layers": ["x" * 100000]}]).encode(),
    b'[{"Layers": ["0.tar"], "Config": {}}]', b'[{"Layers": ["0.tar"], "Config": "nothing"}]',
], ids=range(18))
def test_odd_manifests(importer, text):
    importer(docker(archive(bash), manifest=text), "odd", status=422)


def test_an_index_that_is_its_own(importer, tmp_path):
    """As deep as an index may lead, no deeper."""
    folder = tmp_path / "layout"
    at = blob(folder, b'{"layers": []}')
    for _ in range(20):
        at = blob(folder, json.dumps({"manifests": [at]}).encode())
    (folder / "index.json").write_text(json.dumps({"manifests": [at]}))
    importer(folder, "chain", status=422)


@pytest.mark.skipif(sanitizer() is not None, reason="a sanitizer takes more memory than the limit")
def test_memory_is_limited(host, importer):
    data = bytearray(lzma.compress(archive(bash)))
    size = (data[12] + 1) * 4  # of the block's head: size, flags, filter 0x21, one byte of properties: the dictionary's size
    assert data[14:16] == b"\x21\x01"
    data[16] = 39  # 3 GiB
    data[12 + size - 4 : 12 + size] = struct.pack("<I", zlib.crc32(data[12 : 12 + size - 4]))
    assert "allocate memory" in importer(bytes(data), "memory", status=422)["message"]


# --- the process that unpacks

def unpackers(host):
    return processes(f"import-tree\0{os.path.realpath(host.state)}/")


def spaces(pid):
    return {name: os.readlink(f"/proc/{pid}/ns/{name}") for name in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")}


def begin(host, data, name="slow"):
    """An upload that goes on beside the test."""
    def send():
        with contextlib.suppress(Exception):
            upload(host, data, name)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


def confined(host):
    """The process that unpacks: of the two, the one whose root is another."""
    def is_one(pid):
        with contextlib.suppress(OSError):
            return os.stat(f"/proc/{pid}/root").st_ino != os.stat("/").st_ino and "Seccomp_filters:\t2" in \
                Path(f"/proc/{pid}/status").read_text()

    return eventually(lambda: next(filter(is_one, unpackers(host)), None))


def test_it_is_confined_and_ends_with_the_host(start_host, many):
    host = start_host()
    thread = begin(host, many)
    pid = confined(host)
    status = Path(f"/proc/{pid}/status").read_text()
    own, theirs = spaces("self"), spaces(pid)
    assert all(own[name] != theirs[name] for name in own), theirs
    assert "NoNewPrivs:\t1" in status and "CapEff:\t000000008004001b" in status and "CapPrm:\t000000008004001b" in status
    assert len(Path(f"/proc/{pid}/mountinfo").read_text().splitlines()) <= 1
    assert "image.json" not in os.listdir(f"/proc/{pid}/root")
    opened = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    assert not [path for path in opened if path.startswith(str(host.state)) and "(deleted)" not in path], opened
    if not sanitizer():
        assert "Max address space         1073741824           1073741824" in Path(f"/proc/{pid}/limits").read_text()
    host.kill()
    assert eventually(lambda: unpackers(host) == [])
    thread.join()
    host.start()
    assert os.listdir(host.state / "templates") == []


def test_it_ends_if_the_host_has_ended_before(tmp_path):
    """Before it could ask to be ended with it."""
    (tmp_path / "source").write_bytes(archive(bash))
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(["bash", "-c", 'exec "$0" import-tree . 1000000 3<source 4</dev/null', program("aio")], stdout=writer,
                          cwd=tmp_path, timeout=SETTLE_SECONDS)
    os.close(writer)
    assert done.returncode == 1 and os.listdir(tmp_path) == ["source"]


def test_only_so_many_at_once(start_host, many):
    host = start_host()
    threads = [begin(host, many, f"slow{number}") for number in range(4)]
    assert eventually(lambda: len(os.listdir(host.state / "templates")) == 4)
    got = upload(host, archive(bash))
    assert got.status_code == 429 and "try again" in got.json()["message"], got.text
    host.kill()
    for thread in threads:
        thread.join()
    assert eventually(lambda: unpackers(host) == [])
    host.start()
    assert upload(host, archive(bash)).status_code == 200


def test_nothing_is_left_of_what_took_too_long(start_host, many):
    host = start_host(["--import-timeout", "2"])
    got = upload(host, many)
    assert got.status_code == 408 and "--import-timeout" in got.json()["message"], got.text
    assert unpackers(host) == [] and os.listdir(host.state / "templates") == []


# --- where imports come from

def test_imports_come_from_below_the_roots(start_host, tmp_path, monkeypatch):
    for name in ("roots", "roots-not", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.tar").write_bytes(archive(bash))
    roots = tmp_path / "roots"
    os.symlink(tmp_path / "other", roots / "leads-out")
    os.symlink(tmp_path / "other/a.tar", roots / "link.tar")
    os.symlink(roots, tmp_path / "leads-in")
    os.mkfifo(roots / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.chdir(roots)  # its path may be too long for a socket
        listener.bind("socket")
        host = start_host(["--import-roots", f"/nothing:{roots}"])

        def post(source):
            return host.client.post("/v1/templates", headers=host.auth, json={"name": "t", "source": str(source)})

        for source in (tmp_path / "other/a.tar", tmp_path / "roots-not/a.tar", roots / "leads-out/a.tar", roots / "link.tar",
                       roots / "../other/a.tar", "/etc/passwd", roots / "nothing", "/", tmp_path):
            got = post(source)
            assert got.status_code == 422 and "not below" in problem(got), (source, got.text)
        for source in ("pipe", "socket"):
            assert post(roots / source).status_code == 422, source
        for source in (roots / "a.tar", roots / "../roots/./a.tar", tmp_path / "leads-in/a.tar"):
            assert post(source).status_code == 200, source
            host.api("DELETE", "/v1/templates/t")


def test_without_roots_it_is_sent(small, tmp_path):
    (tmp_path / "a.tar").write_bytes(archive(bash))
    got = small.client.post("/v1/templates", headers=small.auth, json={"name": "t", "source": str(tmp_path / "a.tar")})
    assert got.status_code == 422 and "/v1/templates/upload" in problem(got)
    layout = image(tmp_path / "layout", (bash, "w:gz"))
    for path in (tmp_path / "a.tar", layout, saved(tmp_path / "saved", [bash], "../0/layer.tar", {})):
        assert small.cli("template", "import", "t", path).stdout == "t\n"
        assert {t["name"]: t["source"] for t in small.api("GET", "/v1/templates")}["t"] == str(path)
        again = small.cli("template", "import", "t", path, check=False)
        assert again.returncode == 1 and "already" in again.stderr
        small.cli("template", "rm", "t")
    assert upload(small, archive(bash)).json()["data"]["source"] == "x.tar"
    assert upload(small, archive(bash)).status_code == 409
    small.cli("template", "rm", "sent")
    odd = b'--b\r\nContent-Disposition: form-data; name="name"\r\n\r\nodd\r\n--b\r\nContent-Disposition: form-data; ' \
        b'name="file"; filename="\xff"\r\n\r\n' + archive(bash) + b"\r\n--b--\r\n"
    got = small.client.post("/v1/templates/upload", headers={**small.auth, "Content-Type": "multipart/form-data; boundary=b"}, content=odd)
    assert got.json()["data"]["source"] == "upload", got.text
    small.cli("template", "rm", "odd")
    assert upload(small, b"x").status_code == 422 and upload(small, archive(bash), "Bad").status_code == 422
    assert small.client.post("/v1/templates/upload", data={"name": "x"}, files={"file": b"x"}).status_code == 401
    (tmp_path / "large").write_bytes(bytes(60 << 20))
    assert upload(small, bytes(60 << 20)).status_code == 413
    large = small.cli("template", "import", "t", tmp_path / "large", check=False)
    assert large.returncode == 1 and "larger" in large.stderr, large
    assert os.listdir(small.state / "templates") == []


def test_a_refusal_says_nothing_to_a_terminal(small, tmp_path):
    """Names in an archive are shown to whoever imports it."""
    def fill(tar):
        bash(tar)
        add(tar, "../\x1b]0;owned\x07\x9b31m\r\n", b"x")

    (tmp_path / "a.tar").write_bytes(archive(fill))
    done = small.cli("template", "import", "t", tmp_path / "a.tar", check=False)
    assert "has '..'" in done.stderr and "owned" in done.stderr and done.stderr.rstrip("\n").isprintable(), done
