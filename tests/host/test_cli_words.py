"""What the command line says: of boxes and options, not of sandboxes and JSON."""

import json
import subprocess

from harness import eventually, program


def test_help_of_a_command(host):
    assert host.cli("help", "exec").stdout == host.cli("exec", "--help").stdout
    assert host.cli("help", "template", "import").stdout == host.cli("template", "import", "--help").stdout
    assert host.cli("help", "help").stdout == host.cli("help").stdout
    done = host.cli("help", "nonsense", check=False)
    assert done.returncode == 2 and "unknown command 'nonsense'" in done.stderr


def test_what_is_refused_is_named_by_its_option(host):
    for args, text in [(["--disk", "1"], "--disk: 1 is too little"), (["--memory", "5"], "--memory: 5 is too little"),
                       (["--cpus", "9999"], "--cpus: 9999 is more than"),
                       (["--io-weight", "20000"], "--io-weight: Input should be"),
                       (["--allow", "https://x.example/a"], "--allow: 'https://x.example/a' is a URL"),
                       (["--mounts", "/nowhere:/x"], "mount '/nowhere': "),
                       (["--name", "X!"], "a name is a lower-case letter")]:
        done = host.cli("create", *args, check=False)
        assert done.returncode == 1 and done.stderr.startswith(f"aio create: {text}"), (args, done.stderr)


def test_what_is_refused_to_a_model_is_named_by_its_option(host):
    for args, text in [(["--disk", "1"], "--disk: 1 is too little"), (["--allow", "https://x.example/a"], "--allow: 'https://")]:
        done = host.cli("mcp", *args, input="", check=False)
        assert done.returncode and done.stderr.startswith(f"aio mcp: {text}"), (args, done.stderr)


def test_boxes_are_boxes(host):
    for args in (["inspect", "nobody"], ["exec", "nobody", "true"], ["rm", "nobody"], ["pause", "nobody"], ["logs", "nobody"],
                 ["fork", "nobody"], ["create", "default"]):
        done = host.cli(*args, check=False)
        assert done.returncode == 1 and " box '" in done.stderr and "sandbox" not in done.stderr, (args, done.stderr)


def test_a_box_of_a_model_can_have_no_end(host):
    before = set(host.ids())
    mcp = subprocess.Popen([program("aio"), "mcp", "--timeout", "0"], env=host.environment(), stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE)
    mcp.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode() + b"\n")
    mcp.stdin.flush()
    assert mcp.stdout.readline()
    name, = set(host.ids()) - before
    assert host.api("GET", f"/v1/sandboxes/{name}")["expires_at"] is None
    mcp.stdin.close()
    assert mcp.wait(60) == 0
    assert eventually(lambda: name not in host.ids())


def test_a_kernel_that_ran_out_of_memory_says_so_once(host):
    box = host.create(limits={"memory": 400 << 20})
    answer = box.request("POST", "/v1/jupyter/execute", json={"code": "x = bytearray(800 << 20)"}, timeout=120).json()
    hint, error = answer["hint"], answer["data"]["outputs"][-1]
    assert hint.lower().count("out of memory") == 1 and hint.count("limits.memory") == 1, hint
    assert error["ename"] == "DeadKernelError" and error["evalue"].lower().count("out of memory") == 1, error
    box.delete()
