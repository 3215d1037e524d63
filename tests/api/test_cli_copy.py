"""aio file cp: between this machine and a sandbox, both ways; what a hostile sandbox sends."""

import asyncio
import contextlib
import io
import json
import os
import pty
import re
import signal
import ssl
import subprocess
import tarfile
import threading
import time
from pathlib import Path

import pytest
from websockets.sync.server import serve

from harness import ANSWER_SECONDS, LEAN, eventually, program

MEGA = 1 << 20
BIG = 200 * MEGA
WHEN = 1577934245


def start(server_url, *words, **more):
    return subprocess.Popen([program("aio"), "file", "cp", *words, "--api-url", server_url], stderr=subprocess.PIPE, **more)


def copy(server, *words, code=0, url=None, **more):
    """What it wrote to standard error."""
    done = subprocess.run([program("aio"), "file", "cp", *words, "--api-url", url or server.url], capture_output=True,
                          timeout=100, **more)
    assert done.returncode == code, done
    return done.stdout if "-" in words and code == 0 else done.stderr.decode(errors="replace")


@pytest.fixture
def there(server, tmp_path):
    """A directory of the sandbox, which is on this machine too."""
    path = tmp_path / "there"
    path.mkdir()
    return path


def tree(path):
    """What is below a directory: names, kinds, modes, times, contents."""
    found = {}
    for folder, dirs, files in os.walk(os.fsencode(path)):
        for name in dirs + files:
            full = os.path.join(folder, name)
            st = os.lstat(full)
            what = (os.readlink(full) if os.path.islink(full) else b"" if os.path.isdir(full) else open(full, "rb").read())
            kept = (0, 0) if os.path.islink(full) else (st.st_mode & 0o777, int(st.st_mtime))
            found[os.path.relpath(full, os.fsencode(path))] = (st.st_mode >> 12, kept, what)
    return found


@pytest.fixture
def nasty(tmp_path):
    """A tree with names and kinds that break programs."""
    top = os.fsencode(tmp_path / "nasty")
    long_name = b"n" * 250
    for folder in (b"empty", b"sp ace", b"d\nnl", b"a/b/c/d", b"/".join([long_name] * 4)):
        os.makedirs(os.path.join(top, folder))
    for name in (b"plain", b"sp ace/x y", b"d\nnl/\n", b"-rf", b"--help", "grüße 好".encode(), b"bad\xff\xfe", b"'\"$(x)`\\", b"*",
                 b".hidden", b"a/b/c/d/deep", b"/".join([long_name] * 5), b"~", b"a:b"):
        with open(os.path.join(top, name), "wb") as file:
            file.write(name * 3)
        os.utime(os.path.join(top, name), (WHEN, WHEN))
    open(os.path.join(top, b"nothing"), "w").close()
    os.chmod(os.path.join(top, b"plain"), 0o755)
    os.chmod(os.path.join(top, b".hidden"), 0o600)
    os.symlink(b"../plain", os.path.join(top, b"a/up"))
    os.symlink(b"nowhere", os.path.join(top, b"dangling"))
    os.symlink(b"x" * 200, os.path.join(top, b"long link"))
    os.chmod(os.path.join(top, b"a/b"), 0o750)
    os.chmod(os.path.join(top, b"empty"), 0o500)
    for folder, _, _ in os.walk(top, topdown=False):
        os.utime(folder, (WHEN, WHEN))
    return os.fsdecode(top)


def test_a_tree_there_and_back(server, there, nasty, tmp_path):
    assert copy(server, nasty, f":{there}") == ""
    assert tree(there / "nasty") == tree(nasty)
    assert copy(server, f":{there}/nasty", str(tmp_path / "back")) == ""
    assert tree(tmp_path / "back") == tree(nasty)
    assert copy(server, f":{there}/nasty", f":{there}/again") == ""
    assert tree(there / "again") == tree(nasty)


def test_where_it_goes(server, there, tmp_path):
    here = tmp_path / "here"
    (here / "sub").mkdir(parents=True)
    (here / "sub/file").write_text("one")
    copy(server, str(here / "sub"), f":{there}/new")  # absent: a copy of that name
    copy(server, str(here / "sub"), f":{there}/new")  # a directory: inside it
    copy(server, f"{here}/sub/.", f":{there}/new")  # the contents
    assert sorted(os.listdir(there / "new")) == ["file", "sub"]
    copy(server, str(here / "sub/file"), f":{there}/new/renamed")
    copy(server, str(here / "sub/file"), f":{there}/made/on/the/way/")
    assert (there / "new/renamed").read_text() == (there / "made/on/the/way/file").read_text() == "one"
    copy(server, f":{there}/new", str(tmp_path / "got"))
    copy(server, f":{there}/new/", str(tmp_path / "got"))
    copy(server, f":{there}/new/sub/.", str(tmp_path / "got/new"))
    assert sorted(os.listdir(tmp_path / "got")) == ["file", "new", "renamed", "sub"]
    copy(server, "-r", f":{there}/new/file", str(tmp_path / "got/sub"))
    (there / "link").symlink_to("new/file")
    (here / "other").write_text("two")
    copy(server, str(here / "other"), f":{there}/link")
    assert (there / "link").is_symlink() and (there / "new/file").read_text() == "two"
    copy(server, f":{there}/link", str(tmp_path / "followed"))
    assert (tmp_path / "followed").read_text() == "two" and not (tmp_path / "followed").is_symlink()
    workspace = tmp_path / "from-workspace"
    copy(server, str(here / "other"), ":relative")
    copy(server, ":relative", str(workspace))
    assert workspace.read_text() == "two" and os.path.exists(f"{server.home}/relative")
    os.chmod(there / "made", 0o750)
    copy(server, f":{there}/new/sub/.", f":{there}/made")
    assert (there / "made/file").read_text() == "one" and os.stat(there / "made").st_mode & 0o777 == 0o750
    assert not [name for name in os.listdir(there) if name.startswith(".aio")]


def test_standard_input_and_output(server, there):
    data = bytes(range(256)) * 1000
    assert copy(server, "-", f":{there}/in", input=data) == b""
    assert (there / "in").read_bytes() == data
    assert copy(server, f":{there}/in", "-") == data
    assert "is a directory" in copy(server, f":{there}", "-", code=1)
    assert "is a directory" in copy(server, "-", f":{there}", code=1, input=b"")


def test_mistakes(server, there, tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    (there / "file").write_text("old")
    for words, code, said in ((["a", "b"], 2, "neither is in a sandbox"), (["a"], 2, "usage"), ([":a", "b", "c"], 2, "unexpected"),
                              (["--nonsense", ":a", "b"], 2, "unknown option"), (["-", "-"], 2, "neither"),
                              ([":/no\x1b[2J/such", "x"], 1, "there is no"), (["/no/such", ":x"], 1, "No such file"),
                              ([str(tmp_path / "folder"), f":{there}/file"], 1, "not a directory"),
                              ([f":{there}", str(tmp_path / "file")], 1, "ot a directory"),
                              ([f":{there}/file", f"{tmp_path}/no/such/x"], 1, "No such file"),
                              ([f":{there}/file", f"{tmp_path}/absent/"], 1, "No such file"),
                              ([str(tmp_path / "file"), ":/proc/x"], 1, "Failed|failed"), (["/dev/null", ":x"], 1, "neither"),
                              ([":/dev/null", "x"], 1, "neither")):
        err = copy(server, *words, code=code, cwd=tmp_path)
        assert any(word in err for word in said.split("|")) and "\x1b" not in err, err
    assert (there / "file").read_text() == "old"
    assert "cannot connect" in copy(server, ":x", "y", code=1, url="http://127.0.0.1:1")



def test_what_cannot_be_copied_is_said_and_the_rest_is(server, there, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "file").write_text("x")
    os.mkfifo(source / "fifo\x1b[2J")
    (source / "out").symlink_to("/etc/passwd")
    err = copy(server, str(source), f":{there}", code=1)
    assert "neither a file nor a directory" in err and "\x1b" not in err
    assert sorted(os.listdir(there / "source")) == ["file", "out"]
    err = copy(server, f":{source}", str(tmp_path / "back"), code=1)
    assert "leads out of the directory" in err and os.listdir(tmp_path / "back") == ["file"]


def test_much_is_streamed(server, there, tmp_path):
    """200 MiB with a hole in it: neither side holds it in memory, and the hole stays one here."""
    with open(tmp_path / "big", "wb") as file:
        file.write(os.urandom(MEGA))
        file.truncate(BIG - MEGA)
        file.seek(0, os.SEEK_END)
        file.write(os.urandom(MEGA))

    def lean(*words):
        peak, child = 0, start(server.url, *words, env={**os.environ, **LEAN})
        while child.poll() is None:  # ru_maxrss would be that of this process, which it was forked from
            with contextlib.suppress(OSError, TypeError):  # it has just ended
                peak = max(peak, int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{child.pid}/status").read_text())[1]) * 1024)
            time.sleep(0.005)
        assert child.returncode == 0, child.stderr.read()
        child.stderr.close()
        assert 0 < peak < BIG * 3 // 4

    lean(str(tmp_path / "big"), f":{there}/big")
    lean(f":{there}/big", str(tmp_path / "back"))
    assert subprocess.run(["cmp", tmp_path / "big", tmp_path / "back"]).returncode == 0
    assert os.stat(tmp_path / "back").st_blocks * 512 < BIG // 2


def test_progress_on_a_terminal(server, there, tmp_path):
    with open(tmp_path / "some", "wb") as file:
        file.truncate(5 * MEGA)
    ours, its = pty.openpty()
    child = subprocess.Popen([program("aio"), "file", "cp", str(tmp_path / "some"), f":{there}", "--api-url", server.url],
                             stdin=its, stdout=its, stderr=its)
    os.close(its)
    said = b""
    with os.fdopen(ours, "rb", 0) as out:
        try:
            while piece := out.read(65536):
                said += piece
        except OSError:
            pass
    assert child.wait(60) == 0 and b"%" in said and b"some" in said and said.endswith(b"\r\x1b[K"), said


def test_interrupted(server, there, tmp_path):
    """What was there before stays, and nothing half."""
    fifo, target = tmp_path / "fifo", tmp_path / "got"
    os.mkfifo(there / "fifo")
    (there / "file").write_text("old")
    target.write_text("old")
    child = start(server.url, "-", f":{there}/file", stdin=subprocess.PIPE)
    child.stdin.write(b"x" * MEGA)
    child.stdin.flush()
    assert eventually(lambda: any(name.startswith(".aio-cp") for name in os.listdir(there)))
    child.send_signal(signal.SIGINT)
    assert child.wait(60) == 130 and b"interrupted" in child.stderr.read()
    child.stderr.close()
    child.stdin.close()
    assert (there / "file").read_text() == "old" and not fifo.exists()


class Tls:
    """A reverse proxy that takes HTTPS and WSS for a server."""

    def __init__(self, server, folder):
        self.certificate = folder / "cert.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=x",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key.pem", "-out", self.certificate],
                       check=True, capture_output=True)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(self.certificate, folder / "key.pem")
        self.server = server

    async def pass_on(self, reader, writer):
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(self, reader, writer):
        there, to = await asyncio.open_connection(self.server.host, self.server.port)
        await asyncio.gather(self.pass_on(reader, to), self.pass_on(there, writer))

    async def run(self, *commands):
        """How commands ended that are given the proxy's address."""
        proxy = await asyncio.start_server(self.serve, "127.0.0.1", 0, ssl=self.context)
        url = f"https://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
        found = []
        for trusted, *words in commands:
            env = {**os.environ, "SSL_CERT_FILE": str(self.certificate) if trusted else "/dev/null",
                   "ASAN_OPTIONS": "detect_leaks=0"}  # the thread that speaks TLS may end with the program
            child = await asyncio.create_subprocess_exec(program("aio"), *words, "--api-url", url, env=env,
                                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            out, err = await child.communicate()
            found.append((child.returncode, out, err))
        proxy.close()
        return found


def test_over_tls(server, there, tmp_path):
    data = os.urandom(3 * MEGA)
    (tmp_path / "some").write_bytes(data)
    proxy = Tls(server, tmp_path)
    health, sent, got, refused = asyncio.run(proxy.run(
        (True, "sandbox", "health"), (True, "file", "cp", str(tmp_path / "some"), f":{there}"),
        (True, "file", "cp", f":{there}/some", str(tmp_path / "back")), (False, "file", "cp", f":{there}/some", "x")))
    assert health[:2] == (0, b"OK") and sent[0] == got[0] == 0, (health, sent, got)
    assert (there / "some").read_bytes() == (tmp_path / "back").read_bytes() == data
    assert refused[0] == 1 and b"certificate" in refused[2]


# ---- a hostile sandbox ----


class Box:
    """One that runs nothing, and sends what it likes."""

    def __init__(self, *output, code=0, cut=False, errors=b"", hangs=False):
        self.output, self.code, self.cut, self.errors = output, code, cut, errors
        self.left = threading.Event()  # which ends one that hangs
        if not hangs:
            self.left.set()

    def __enter__(self):
        self.server = serve(self.answer, "127.0.0.1", 0, compression=None)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.socket.getsockname()[1]}"
        return self

    def __exit__(self, *_):
        self.left.set()
        self.server.shutdown()

    def answer(self, ws):
        ws.recv()
        if self.errors:
            ws.send(b"\x02" + self.errors)
        for piece in self.output:
            ws.send(b"\x01" + piece)
        self.left.wait(ANSWER_SECONDS)
        if not self.cut:
            ws.send(json.dumps({"type": "exit", "exit_code": self.code}))


def archive(*entries, end=True):
    """(name, type, link or content) as an archive; any bytes are taken for a name."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, kind, what in entries:
            info = tarfile.TarInfo(name)
            info.type, info.mode = kind, 0o777 if kind != tarfile.REGTYPE else 0o6777
            if kind == tarfile.REGTYPE:
                info.size = len(what)
                tar.addfile(info, io.BytesIO(what))
            else:
                info.linkname = what or ""
                tar.addfile(info)
    data = out.getvalue()
    return data if end else data[: sum(1024 for _ in entries)]


FILE, DIR, LINK, HARD = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE

ESCAPES = {
    "above": [("./../evil", FILE, b"evil")],
    "above, deep": [("./a", DIR, None), ("./a/../../evil", FILE, b"evil")],
    "absolute": [("{outside}/evil", FILE, b"evil")],
    "through a link": [("./l", LINK, "{outside}"), ("./l/evil", FILE, b"evil")],
    "through a relative link": [("./l", LINK, ".."), ("./l/evil", FILE, b"evil")],
    "through two links": [("./a", DIR, None), ("./a/b", DIR, None), ("./a/b/up", LINK, "../.."), ("./a/b/x", LINK, "up/../outside"),
                          ("./a/b/x/evil", FILE, b"evil")],
    "over a link": [("./l", LINK, "{outside}/evil"), ("./l", FILE, b"evil")],
    "a directory for a link": [("./l", LINK, "../outside"), ("./l", DIR, None), ("./l/evil", FILE, b"evil")],
    "a hard link": [("./h", HARD, "{outside}/secret"), ("./h", FILE, b"evil")],
    "a hard link above": [("./h", HARD, "../outside/secret"), ("./h", FILE, b"evil")],
    "a hard link to a link": [("./l", LINK, "../outside/secret"), ("./h", HARD, "./l"), ("./h", FILE, b"evil")],
    "the directory as a link": [("./", LINK, "{outside}"), ("./evil", FILE, b"evil")],
    "dots": [("././/./../evil", FILE, b"evil")],
}


@pytest.mark.parametrize("name", ESCAPES)
def test_nothing_is_written_outside(server, tmp_path, name):
    outside, target = tmp_path / "outside", tmp_path / "target"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    entries = [(a.replace("{outside}", str(outside)), kind, c.replace("{outside}", str(outside)) if isinstance(c, str) else c)
               for a, kind, c in ESCAPES[name]]
    with Box(b"d 0\n", archive(("./", DIR, None), *entries, ("./last", FILE, b"good"))) as box:
        done = start(box.url, ":x", str(target))
        _, err = done.communicate(timeout=ANSWER_SECONDS)
    assert done.returncode in (0, 1) and sorted(os.listdir(tmp_path)) == ["outside", "target"], err
    assert os.listdir(outside) == ["secret"] and (outside / "secret").read_text() == "secret"
    assert (outside / "secret").stat().st_nlink == 1 and (target / "last").read_text() == "good"
    for folder, dirs, files in os.walk(target):
        for entry in dirs + files:
            assert f"{os.path.realpath(os.path.join(folder, entry))}/".startswith(f"{os.path.realpath(target)}/")
            assert not os.lstat(os.path.join(folder, entry)).st_mode & 0o6000
    assert not [entry for entry in os.listdir(target) if entry.startswith(".aio")]


def test_links_that_stay_are_links(server, tmp_path):
    entries = [("./a", DIR, None), ("./a/f", FILE, b"x"), ("./a/up", LINK, "../a/f"), ("./l", LINK, "a/up"), ("./h", HARD, "./a/f"),
               ("./dup", FILE, b"one"), ("./dup", FILE, b"two"), ("./h2", HARD, "./h"), ("./h2", HARD, "a/f")]
    with Box(b"d 0\n", archive(*entries)) as box:
        assert start(box.url, ":x", str(tmp_path / "t")).wait(60) == 0
    t = tmp_path / "t"
    assert (t / "l").read_text() == (t / "h").read_text() == "x" and (t / "a/f").stat().st_nlink == 3
    assert (t / "dup").read_text() == "two" and sorted(os.listdir(t)) == ["a", "dup", "h", "h2", "l"]


@pytest.mark.parametrize("sent", [[], [b"\n"], [b"d"], [b"nonsense\n"], [b"x" * 100000], [b"f 5\n"], [b"f 5\n", b"\0" * 1024],
                                  [b"f 5\n", b"x" * 4096], [b"f 5\n", archive(("f", FILE, b"x" * 600), end=False)],
                                  [b"f 5\n", archive(("f", LINK, "/etc/passwd"))], [b"f 5\n", archive(("f", DIR, None))]],
                         ids=lambda sent: repr(sent)[:40])
def test_a_file_that_does_not_come_whole(server, tmp_path, sent):
    target = tmp_path / "target"
    target.write_text("old")
    with Box(*sent) as box:
        child = start(box.url, ":x", str(target))
        _, err = child.communicate(timeout=ANSWER_SECONDS)
    assert child.returncode == 1 and err.startswith(b"aio file cp: "), err
    assert target.read_text() == "old" and os.listdir(tmp_path) == ["target"]


def test_what_it_says_does_nothing_to_the_terminal(server, tmp_path):
    with Box(b"d 0\n", archive(("./\x1b[2J\n../x", FILE, b""), ("./..\x1b[31m/../x", FILE, b"")), code=3,
             errors=b"\x1b]0;t\x07tar: \xff\xe2\x80\xaebad\n") as box:
        child = start(box.url, ":x", str(tmp_path / "t"))
        _, err = child.communicate(timeout=ANSWER_SECONDS)
    assert child.returncode == 1 and b"bad" in err
    assert not set(err) & set(b"\x1b\x07") and b"\xe2\x80\xae" not in err, err


def test_one_that_leaves(server, tmp_path):
    with Box(b"d 0\n", archive(("./a", FILE, b"x" * 600), end=False), cut=True) as box:
        child = start(box.url, ":x", str(tmp_path / "t"))
        _, err = child.communicate(timeout=ANSWER_SECONDS)
    assert child.returncode == 1 and err
    assert not [name for name in os.listdir(tmp_path / "t") if name.startswith(".aio")]


def test_one_that_never_ends_is_interrupted(server, tmp_path):
    with Box(b"d 0\n", archive(("./a", FILE, b"x" * 600), end=False), hangs=True) as box:
        child = start(box.url, ":x", str(tmp_path / "t"))
        assert eventually(lambda: (tmp_path / "t").exists() and os.listdir(tmp_path / "t"))
        child.send_signal(signal.SIGTERM)
        assert child.wait(60) == 130
        child.stderr.close()
    assert os.listdir(tmp_path / "t") == []
