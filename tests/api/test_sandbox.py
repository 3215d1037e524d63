"""What GET /v1/sandbox, its package lists and /llms.txt say, held against what is really there."""

import json
import os
import pwd
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import jsonschema
import pytest
from agent_sandbox import Sandbox

from harness import eventually, request
from processes import ROOT_ONLY, alive, gone, together

BLOCKS = ("System Environment (", "Development Environment:", "Available Tools:")


def context(server):
    answer = server.get("/v1/sandbox")
    assert answer.status_code == 200
    return answer.json()


def runtime(server, name):
    return context(server)["detail"]["runtime"][name]


def tool_names(answer):
    return [tool["name"] for group in answer["detail"]["utils"] for tool in group["tools"]]


def packages(server, language):
    answer = server.get(f"/v1/sandbox/packages/{language}").json()
    assert answer["success"], answer
    return {package["name"]: package["version"] for package in answer["data"]}


def program(path, script):
    """An executable shell script, there all at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    new.write_text(f"#!/bin/sh\n{script}\n")
    new.chmod(0o755)
    return new.rename(path)


@pytest.fixture
def place(tmp_path):
    """A product's home and a PATH with nothing in them, and the environment that names them."""

    class Place:
        home, bin = tmp_path / "product", tmp_path / "bin"
        env = {"AIO_HOME": str(home), "PATH": str(bin)}

    Place.home.mkdir()
    Place.bin.mkdir()
    return Place


@pytest.fixture
def open_place():
    """The same where every user of the machine may look."""

    class Place:
        root = Path(tempfile.mkdtemp())
        home, bin, notes = root / "product", root / "bin", root / "notes"
        env = {"AIO_HOME": str(home), "PATH": f"{bin}:/usr/bin:/bin"}

    for folder in (Place.root, Place.home, Place.bin, Place.notes):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o777 if folder == Place.notes else 0o755)
    yield Place
    shutil.rmtree(Place.root)


# --- the answer as a whole -----------------------------------------------------------------------


def test_envelope_has_more_keys(server):
    answer = context(server)
    assert list(answer) == ["success", "message", "data", "hint", "home_dir", "workspace", "version", "detail"]
    assert (answer["success"], answer["hint"]) == (True, None)
    assert answer["message"] == "Environment information retrieved"
    assert re.fullmatch(r"v\d+\.\d+\.\d+\.\d+", answer["version"])
    assert list(answer["detail"]) == ["system", "runtime", "utils"]


def test_text_has_three_blocks(server):
    answer = context(server)
    text, system = answer["data"], answer["detail"]["system"]
    starts = [text.index(block) for block in BLOCKS]
    assert starts[0] == 0 and starts == sorted(starts)
    assert text.startswith(f"System Environment ({answer['version']}):\n")
    first, second, third = (text[a:b] for a, b in zip(starts, [*starts[1:], None]))
    for value in (system["os"], system["os_version"], system["arch"], system["user"], system["home_dir"],
                  system["timezone"], ", ".join(system["occupied_ports"])):
        assert value in first
    for label in ("Python", "Node.js", "Git", "gh", "uv"):
        assert re.search(rf"^- {re.escape(label)}\b.*: ", second, re.MULTILINE), label
    for spec in answer["detail"]["runtime"]["python"] + answer["detail"]["runtime"]["nodejs"]:
        assert spec["bin"] in second and ", ".join(spec["alias"]) in second
    for group in answer["detail"]["utils"]:
        names = ", ".join(tool["name"] for tool in group["tools"])
        assert f"- {group['category']}: {names}\n" in third


def test_answers_match_their_schemas(server):
    document = server.get("/openapi.json").json()
    for path in ("/v1/sandbox", "/v1/sandbox/packages/python", "/v1/sandbox/packages/nodejs"):
        schema = document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        validator = jsonschema.Draft202012Validator({**schema, "components": document["components"]})
        validator.validate(server.get(path).json())
    names = ("SandboxDetail", "SystemEnv", "RuntimeEnv", "ToolSpec", "ToolCategory", "AvailableTool")
    assert set(names) <= set(document["components"]["schemas"])


def test_official_sdk_reads_them(server):
    client = Sandbox(base_url=server.url, httpx_client=server.client)
    answer = client.sandbox.get_context()
    assert answer.success and answer.home_dir == context(server)["home_dir"]
    assert answer.detail.system.arch == os.uname().machine
    assert answer.detail.runtime.python[0].bin.startswith("/")
    assert all(group.category and group.tools[0].name for group in answer.detail.utils)
    for listed in (client.sandbox.get_python_packages(), client.sandbox.get_nodejs_packages()):
        assert listed.success and all(item["name"] and item["version"] for item in listed.data)


def test_head_and_credentials(start_server):
    server = start_server(env={"SANDBOX_API_KEY": "key"})
    assert server.get("/v1/sandbox").status_code == 401

    def same():  # a port may come or go between the two
        whole = server.get("/v1/sandbox", headers={"X-AIO-API-Key": "key"})
        head = server.request("HEAD", "/v1/sandbox", headers={"X-AIO-API-Key": "key"})
        assert whole.status_code == head.status_code == 200 and head.content == b""
        return head.headers["content-length"] == str(len(whole.content))

    assert eventually(same)


def test_manual_begins_with_the_same_text(server):
    def same():
        manual = server.get("/llms.txt").text
        return manual if manual.startswith(context(server)["data"] + "\n") else None

    manual = eventually(same)  # a port may come or go between the two
    assert manual
    docs = re.search(r"^Docs: (\S+)$", manual, re.MULTILINE)
    assert docs.group(1) == f"{server.url}/v1/docs"
    assert server.get("/v1/docs").status_code == 200
    assert manual.index("Available Tools:") < docs.start() < manual.index("GET /v1/sandbox\n")


# --- the system ----------------------------------------------------------------------------------


def test_system_is_this_one(server):
    answer = context(server)
    system, uname = answer["detail"]["system"], os.uname()
    assert (system["os"], system["os_version"], system["arch"]) == (uname.sysname, uname.release, uname.machine)
    release = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().split("\n") if "=" in line)
    assert system["distribution"] == release["PRETTY_NAME"].strip('"')
    names = [entry.pw_name for entry in pwd.getpwall()]
    user = "gem" if "gem" in names else pwd.getpwuid(os.getuid()).pw_name
    own = pwd.getpwnam(user).pw_uid == os.getuid()  # then the server's own HOME counts
    assert (system["user"], system["home_dir"]) == (user, str(server.home) if own else pwd.getpwnam(user).pw_dir)
    assert system["workspace"] == answer["workspace"] == str(server.home)
    assert answer["home_dir"] == system["home_dir"]


@pytest.mark.parametrize(
    "given, told",
    [("Asia/Singapore", "Asia/Singapore"), (":Europe/Berlin", "Europe/Berlin"),
     ("/usr/share/zoneinfo/America/New_York", "America/New_York"), ("CET-1CEST", "CET-1CEST")],
)
def test_timezone_is_configured(start_server, place, given, told):
    server = start_server(env={**place.env, "TZ": given})
    assert context(server)["detail"]["system"]["timezone"] == told
    assert f"Timezone: {told}\n" in context(server)["data"]


def test_timezone_of_the_machine(server):
    told = context(server)["detail"]["system"]["timezone"]
    if os.path.islink("/etc/localtime"):
        assert os.path.realpath("/etc/localtime").endswith(f"/{told}") or \
            os.readlink("/etc/localtime").endswith(f"zoneinfo/{told}")
    else:
        name = Path("/etc/timezone")
        assert told == (name.read_text().strip() if name.exists() else "UTC")


def test_ports_are_those_that_listen(server):
    def listed(port):
        return str(port) in context(server)["detail"]["system"]["occupied_ports"]

    assert not listed(server.port)  # its own: nothing that the sandbox runs
    ports = [int(port) for port in context(server)["detail"]["system"]["occupied_ports"]]
    assert ports == sorted(set(ports))
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with socket.socket(family) as sock:
            try:
                sock.bind((address, 0))
            except OSError:
                continue
            port = sock.getsockname()[1]
            assert eventually(lambda: not listed(port), pause=0.1), "it was another's, perhaps a moment ago"
            sock.listen()
            assert eventually(lambda: listed(port), pause=0.1)
        assert eventually(lambda: not listed(port), pause=0.1)


# --- interpreters and tools ----------------------------------------------------------------------


def test_interpreters_are_those_that_run(server):
    detail = context(server)["detail"]["runtime"]
    assert detail["python"]
    for spec in detail["python"] + detail["nodejs"]:
        said = subprocess.run([spec["bin"], "--version"], capture_output=True, text=True).stdout
        assert spec["ver"] == re.search(r"\d+\.\d\S*", said).group()


def test_tools_are_those_installed(server):
    answer = context(server)
    names = tool_names(answer)
    assert len(names) == len(set(names))
    assert {"bash", "tar", "grep"} <= set(names)
    home = os.environ.get("AIO_HOME") or str(Path(__file__).resolve().parents[2])
    path = f"{home}/.venv/bin:{home}/node_modules/.bin:{os.environ['PATH']}"
    for name in names:
        assert shutil.which(name, path=path), name


def test_tools_that_cannot_start_are_not_listed(start_server, place):
    for name, line in (("jq", "#!/no/such/interpreter -x"), ("rg", "#! /bin/sh"), ("vim", "#!/usr/bin/env bash"), ("less", "")):
        program(place.bin / name, "true")
        (place.bin / name).write_text(f"{line}\n")
    for name in ("docker", "podman"):
        program(place.bin / name, "true")
    found = {"rg", "vim", "less"}
    found |= {name for name, needs in (("docker", "/var/run/docker.sock"), ("podman", "/sys/fs/cgroup")) if os.path.exists(needs)}
    assert set(tool_names(context(start_server(env=place.env)))) == found


def test_nothing_installed(start_server, place):
    answer = context(start_server(env=place.env))
    assert answer["detail"]["runtime"] == {"python": [], "nodejs": []}
    assert answer["detail"]["utils"] == []
    assert "- Python: not installed\n" in answer["data"] and "- uv: not installed\n" in answer["data"]


def test_names_versions_and_the_order_of_the_path(start_server, place):
    second = place.bin.parent / "second"
    program(second / "python3.12", "echo Python 3.12.4")  # a version manager's shim
    real = shutil.copy(program(second / "real", "echo Python 3.11.9"), second / "python3")
    os.symlink(real, second / "python")
    program(place.bin / "python3", "echo Python 3.13.0rc1+")
    program(place.bin / "node", "echo v22.1.0")
    os.symlink(place.bin / "node", place.bin / "nodejs")
    program(place.bin / "git", "echo 'git version 2.39.5 (fake 1.0)'")
    program(place.bin / "gh", "echo 'gh version 2.23.0 (2023-02-08)'; echo https://example.com/1.2.3")
    program(place.bin / "uv", "exit 1")
    (place.bin / "jq").write_text("not executable")
    (place.bin / "vim").mkdir()
    os.symlink("nowhere", place.bin / "nano")
    server = start_server(env={**place.env, "PATH": f"{place.bin}::relative:{second}:{place.bin}:/none"})
    answer = context(server)
    assert answer["detail"]["runtime"] == {
        "python": [
            {"ver": "3.13.0rc1+", "bin": f"{place.bin}/python3", "alias": ["python3"]},
            {"ver": "3.11.9", "bin": f"{second}/python3", "alias": ["python"]},
        ],
        "nodejs": [{"ver": "22.1.0", "bin": f"{place.bin}/node", "alias": ["node", "nodejs"]}],
    }
    assert f"- Git 2.39.5: git ({place.bin}/git)\n- gh 2.23.0: gh ({place.bin}/gh)\n- uv: not installed\n" \
        in answer["data"]
    assert set(tool_names(answer)) == {"git", "gh", "uv"}


def test_twins_in_one_directory_are_one(start_server, place):
    for name in ("python3", "python"):
        program(place.bin / name, "echo Python 3.11.7")
    server = start_server(env=place.env)
    assert runtime(server, "python") == [
        {"ver": "3.11.7", "bin": f"{place.bin}/python3", "alias": ["python3", "python"]}
    ]


def test_what_changes_is_noticed(start_server, place):
    server = start_server(env=place.env)
    assert tool_names(context(server)) == []

    def noticed(tools, version):
        answer = context(server)
        versions = [node["ver"] for node in answer["detail"]["runtime"]["nodejs"]]
        return tool_names(answer) == tools and versions == [version]

    program(place.bin / "rg", "true")
    program(place.bin / "node", "echo v20.0.0")
    assert eventually(lambda: noticed(["rg"], "20.0.0"), pause=0.1)
    (place.bin / "rg").unlink()
    program(place.bin / "node", "echo v21.0.0")
    assert eventually(lambda: noticed([], "21.0.0"), pause=0.1)


def test_version_is_asked_once(start_server, place, tmp_path):
    calls = tmp_path / "calls"
    program(place.bin / "python3", f"echo x >>{calls}; echo Python 3.12.0")
    server = start_server(env=place.env)
    context(server)
    program(place.bin / "jq", "true")
    assert eventually(lambda: "jq" in tool_names(context(server)), pause=0.1)
    assert calls.read_text() == "x\n"


def test_hanging_program_does_not_hang_the_answer(start_server, place, tmp_path):
    calls = tmp_path / "calls"
    hanging = program(place.bin / "python3", f"echo x >>{calls}; /bin/sleep 1000 & wait")
    program(place.bin / "node", "echo v22.1.0")
    server = start_server(env=place.env)
    start = time.monotonic()
    answer = context(server)
    assert time.monotonic() - start < 50
    detail = answer["detail"]["runtime"]
    assert detail["python"] == [{"ver": None, "bin": str(hanging), "alias": ["python3"]}]
    assert detail["nodejs"][0]["ver"] == "22.1.0"
    assert eventually(lambda: server.children() == [])  # what lost its parent is taken in first
    time.sleep(2.5)  # for longer than a look lasts: the next one does not ask again
    context(server)
    assert calls.read_text() == "x\n"


def test_endless_output_does_not_hang_the_answer(start_server, place):
    program(place.bin / "node", "exec /usr/bin/yes v22.1.0")
    server = start_server(env=place.env)
    assert len(runtime(server, "nodejs")) == 1


@pytest.mark.concurrency
def test_first_requests_at_once_look_once(start_server, place, tmp_path):
    calls = tmp_path / "calls"
    for name in ("python3", "node", "git"):
        program(place.bin / name, f"echo {name} >>{calls}; /bin/sleep 0.3; echo {name} 1.2.3")
    server = start_server(env=place.env)
    answers = together(32, lambda _: context(server)["detail"]["runtime"])
    assert all(answer == answers[0] for answer in answers)
    assert answers[0]["python"][0]["ver"] == "1.2.3"
    assert sorted(calls.read_text().split()) == ["git", "node", "python3"]


@pytest.mark.concurrency
def test_many_readers_while_things_change(start_server, place):
    program(place.bin / "python3", "echo Python 3.12.0")
    server = start_server(env={**place.env, "PATH": f"{place.bin}:/usr/bin:/bin"})
    until, failures = time.monotonic() + 5, []

    def read(path):
        while time.monotonic() < until:
            answer = server.get(path)
            if answer.status_code != 200:
                failures.append((path, answer.status_code))

    paths = ["/v1/sandbox"] * 4 + ["/llms.txt", "/v1/sandbox/packages/nodejs", "/v1/sandbox/packages/python"]
    threads = [threading.Thread(target=read, args=(path,)) for path in paths]
    for thread in threads:
        thread.start()
    for number in range(20):
        program(place.bin / "python3", f"echo Python 3.12.{number}")
        time.sleep(0.2)  # the stimulus: again and again while they read
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.parametrize("target", ["/v1/sandbox", "/v1/sandbox/packages/python"])
def test_stopping_while_a_program_hangs_leaves_nobody(start_server, place, tmp_path, target):
    pids = tmp_path / "pids"
    program(place.bin / "python3", f"/bin/sleep 1000 & echo $$ $! >{pids}.new; /bin/mv {pids}.new {pids}; wait")

    def stopped_while_it_hung():
        """False when the machine was too slow: the server ends such a program itself after some seconds."""
        pids.unlink(missing_ok=True)
        server = start_server(env=place.env)
        with server.connect() as peer:
            peer.send(request(target))
            assert eventually(pids.exists)
            started = [int(pid) for pid in pids.read_text().split()]
            hung = all(map(alive, started))
            server.signal()
            assert server.wait() == 0 and "did not finish" not in server.log
        assert gone(*started)
        return hung

    assert eventually(stopped_while_it_hung)


def test_programs_learn_no_secret(start_server, place, tmp_path):
    seen = tmp_path / "seen"
    program(place.bin / "python3", f"/usr/bin/env >{seen}; echo Python 3.12.0; exit 0")
    server = start_server(env={**place.env, "SANDBOX_API_KEY": "the-secret", "AUTH_TOKEN": "the-secret"})
    assert server.get("/v1/sandbox", headers={"Authorization": "Bearer the-secret"}).status_code == 200
    text = seen.read_text()
    assert "the-secret" not in text
    assert f"HOME={server.home}\n" in text or "USER=gem\n" in text
    assert re.search(rf"^PATH=.*{re.escape(str(place.bin))}:[^:]*/.local/bin$", text, re.MULTILINE)


@ROOT_ONLY
def test_programs_run_as_the_sandbox_user(start_server, open_place):
    notes = open_place.notes
    for name in ("python3", "node"):
        program(open_place.bin / name, f"id -u >{notes}/{name}.uid; id -G >{notes}/{name}.gids; echo {name} 1.2.3")
    program(open_place.bin / "uv", "echo uv 1.0.0").chmod(0o700)
    (open_place.bin / "closed").mkdir(mode=0o700)
    program(open_place.bin / "closed" / "htop", "true")
    env = {**open_place.env, "PATH": f"{open_place.bin}:{open_place.bin}/closed:/usr/bin:/bin"}
    server = start_server(["--user", "nobody"], env=env)
    nobody = pwd.getpwnam("nobody")
    answer = context(server)
    system = answer["detail"]["system"]
    assert (system["user"], system["home_dir"]) == ("nobody", nobody.pw_dir)
    assert not {"uv", "htop"} & set(tool_names(answer)) or shutil.which("htop", path="/usr/bin:/bin")
    assert "uv: not installed" in answer["data"]
    for name in ("python3", "node"):
        assert (notes / f"{name}.uid").read_text() == f"{nobody.pw_uid}\n"
        assert "0" not in (notes / f"{name}.gids").read_text().split()
    for name in notes.iterdir():
        name.unlink()
    server.get("/v1/sandbox/packages/python")
    assert (notes / "python3.uid").read_text() == f"{nobody.pw_uid}\n"


@ROOT_ONLY
def test_secret_files_are_not_read_for_the_user(start_server, open_place):
    program(open_place.bin / "node", "echo v22.1.0")
    secret = open_place.root / "secret.json"
    secret.write_text('{"name": "secret", "version": "1.0.0"}')
    secret.chmod(0o600)
    (open_place.home / "node_modules" / "planted").mkdir(parents=True)
    os.symlink(secret, open_place.home / "node_modules" / "planted" / "package.json")
    server = start_server(["--user", "nobody"], env=open_place.env)
    assert "secret" not in packages(server, "nodejs")
    secret.chmod(0o644)
    assert packages(server, "nodejs")["secret"] == "1.0.0"


# --- Python packages -----------------------------------------------------------------------------


@pytest.fixture
def venv(place):
    """A virtual environment where the product's would be; its site-packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place.home / ".venv"], check=True)
    site = next((place.home / ".venv").glob("lib/python*/site-packages"))
    settle(site)
    return site


def settle(site):
    """Makes a directory look as if nobody had touched it for long."""
    os.utime(site, (time.time() - 100, time.time() - 100))


def count_starts(site, notes):
    """How often Python was started in the virtual environment: a function."""
    (site / "starts.pth").write_text(f"import os; open({str(notes)!r}, 'a').write(f'{{os.getpid()}} ')\n")
    return lambda: len(set(notes.read_text().split()))


def install(site, name, version):
    folder = site / f"{name}-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return folder


def test_python_packages_are_those_python_finds(server):
    python = runtime(server, "python")[0]["bin"]
    lister = "import importlib.metadata as m; print(*{d.metadata['Name'] for d in m.distributions()}, sep='\\n')"
    expected = subprocess.run([python, "-c", lister], capture_output=True, text=True, cwd="/").stdout.split()
    answer = server.get("/v1/sandbox/packages/python").json()
    names = [package["name"] for package in answer["data"]]
    assert {re.sub("[-_.]+", "-", name).lower() for name in names} == \
        {re.sub("[-_.]+", "-", name).lower() for name in expected}
    assert names == sorted(names, key=lambda name: (name.lower(), name)) and len(names) == len(set(names))
    assert all(set(package) == {"name", "version"} and package["version"] for package in answer["data"])


def test_installed_package_appears_at_once(start_server, place, venv):
    server = start_server(env=place.env)
    assert packages(server, "python") == {}
    folder = install(venv, "tiny", "1.0")
    assert packages(server, "python") == {"tiny": "1.0"}
    install(venv, "Other", "2.0")
    assert packages(server, "python") == {"Other": "2.0", "tiny": "1.0"}
    shutil.rmtree(folder)
    install(venv, "tiny", "1.1")
    assert packages(server, "python") == {"Other": "2.0", "tiny": "1.1"}
    shutil.rmtree(venv / "tiny-1.1.dist-info")
    assert packages(server, "python") == {"Other": "2.0"}


def test_half_installed_package_is_seen_when_it_is_whole(start_server, place, venv):
    server = start_server(env=place.env)
    (venv / "tiny-1.0.dist-info").mkdir()
    assert packages(server, "python") == {}
    (venv / "tiny-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
    assert packages(server, "python") == {"tiny": "1.0"}


def test_python_is_started_only_when_something_changed(start_server, place, venv, tmp_path):
    starts = count_starts(venv, tmp_path / "starts")
    install(venv, "tiny", "1.0")
    settle(venv)
    server = start_server(env=place.env)
    for _ in range(5):
        assert packages(server, "python") == {"tiny": "1.0"}
    assert starts() == 1
    install(venv, "more", "1.0")
    assert packages(server, "python") == {"tiny": "1.0", "more": "1.0"}
    assert starts() == 2


@pytest.mark.concurrency
def test_first_listings_at_once_start_python_once(start_server, place, venv, tmp_path):
    starts = count_starts(venv, tmp_path / "starts")
    install(venv, "tiny", "1.0")
    settle(venv)
    server = start_server(env=place.env)
    assert together(32, lambda _: packages(server, "python")) == [{"tiny": "1.0"}] * 32
    assert starts() == 1


def test_venv_of_the_product_is_the_sandboxs_python(start_server, place, venv):
    program(place.bin / "python3", "echo Python 3.99.0")
    server = start_server(env=place.env)
    first, second = runtime(server, "python")
    assert first["bin"] == f"{place.home}/.venv/bin/python3" and {"python3", "python"} <= set(first["alias"])
    assert first["ver"] == sys.version.split()[0]
    assert second == {"ver": "3.99.0", "bin": f"{place.bin}/python3", "alias": []}


def test_odd_packages(start_server, place, venv):
    install(venv, "Zope.Interface", "1.0")
    twin = place.home / "more"
    twin.mkdir()
    install(twin, "zope-interface", "0.9")  # further down the path: not the one that is imported
    (venv / "more.pth").write_text(f"{twin}\n")
    (venv / "broken-1.0.dist-info").mkdir()
    (venv / "odd-1.0.dist-info").mkdir()
    (venv / "odd-1.0.dist-info" / "METADATA").write_bytes(b"\xff\xfe\0 nonsense")
    (venv / "egg.egg-info").write_text("Metadata-Version: 1.0\nName: egg\nVersion: 3.0\n")
    (venv / "json.py").write_text("raise SystemExit('planted')\n")  # the standard library comes first
    server = start_server(env=place.env)
    assert packages(server, "python") == {"Zope.Interface": "1.0", "egg": "3.0"}


@pytest.mark.parametrize("script", ["exit 3", "echo nonsense", "echo '[1]'", ":", "kill -9 $$"])
def test_python_that_fails(start_server, place, script):
    python = program(place.bin / "python3", script)
    answer = start_server(env=place.env).get("/v1/sandbox/packages/python")
    assert answer.status_code == 200
    if script == "echo '[1]'":
        assert answer.json()["data"] == []
    else:
        assert (answer.json()["success"], answer.json()["data"]) == (False, None)
        assert str(python) in answer.json()["message"]


@pytest.mark.parametrize("language, name", [("python", "Python"), ("nodejs", "Node.js")])
def test_no_interpreter(start_server, place, language, name):
    answer = start_server(env=place.env).get(f"/v1/sandbox/packages/{language}")
    assert answer.status_code == 200
    said = answer.json()
    assert (said["success"], said["data"]) == (False, None)
    assert name in said["message"] and "install" in said["message"]


# --- Node.js packages ----------------------------------------------------------------------------


def node_package(folder, name, version):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text(json.dumps({"name": name, "version": version}))


@pytest.fixture
def node(place):
    """A Node.js whose prefix is not that of the machine's."""
    prefix = place.bin.parent / "prefix"
    program(prefix / "bin" / "node", "echo v22.1.0")
    os.symlink(prefix / "bin" / "node", place.bin / "node")
    return prefix


def test_nodejs_packages_are_the_products_and_the_global_ones(start_server, place, node, tmp_path):
    node_package(place.home / "node_modules" / "zebra", "zebra", "1.0.0")
    node_package(place.home / "node_modules" / "@scope" / "thing", "@scope/thing", "2.0.0")
    node_package(node / "lib" / "node_modules" / "npm", "npm", "10.0.0")
    node_package(node / "lib" / "node_modules" / "zebra", "zebra", "1.0.0")
    node_package(tmp_path / "own" / "lib" / "node_modules" / "mine", "mine", "0.1.0")
    server = start_server(env={**place.env, "NPM_CONFIG_PREFIX": str(tmp_path / "own")})
    answer = server.get("/v1/sandbox/packages/nodejs").json()
    machine = {path.name for path in Path("/usr/local/lib/node_modules").glob("*")}
    listed = [(item["name"], item["version"]) for item in answer["data"] if item["name"] not in machine]
    assert listed == [("@scope/thing", "2.0.0"), ("mine", "0.1.0"), ("npm", "10.0.0"), ("zebra", "1.0.0")]
    node_package(place.home / "node_modules" / "apple", "apple", "1.0.0")
    assert packages(server, "nodejs")["apple"] == "1.0.0"
    node_package(place.home / "node_modules" / "apple", "apple", "1.0.1")
    assert packages(server, "nodejs")["apple"] == "1.0.1"
    shutil.rmtree(place.home / "node_modules" / "apple")
    assert "apple" not in packages(server, "nodejs")


def test_odd_nodejs_packages(start_server, place, node):
    modules = place.home / "node_modules"
    node_package(modules / "good", "good", "1.0.0")
    for name in ("empty", "invalid", "list", "numbers", "large", "pipe", "folder"):
        (modules / name).mkdir()
    (modules / "invalid" / "package.json").write_text("{")
    (modules / "list" / "package.json").write_text("[]")
    (modules / "numbers" / "package.json").write_text('{"name": 1, "version": 2}')
    (modules / "large" / "package.json").write_text('{"name": "large", "version": "1"}' + " " * (1 << 21))
    os.mkfifo(modules / "pipe" / "package.json")
    (modules / "folder" / "package.json").mkdir()
    (modules / "file").write_text("")
    node_package(modules / ".hidden", "hidden", "1.0.0")
    os.symlink(modules, modules / "@loop")
    server = start_server(env=place.env)
    found = packages(server, "nodejs")
    assert found["good"] == "1.0.0"
    assert not {"large", "hidden"} & set(found)


def test_nodejs_packages_of_this_machine(server):
    node = runtime(server, "nodejs")
    if not node:
        pytest.skip("there is no Node.js here")
    prefix = Path(node[0]["bin"]).resolve().parents[1]
    expected = {}
    for manifest in (prefix / "lib" / "node_modules").glob("*/package.json"):
        content = json.loads(manifest.read_text())
        expected[content["name"]] = content["version"]
    assert expected.items() <= packages(server, "nodejs").items()
