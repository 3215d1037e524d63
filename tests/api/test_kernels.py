"""How kernels come and go: the fork server, what is ready, other kernels, users, limits, the end."""

import ast
import base64
import contextlib
import json
import os
import pwd
import re
import resource
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest

from harness import ROOT, Calls, Events, children_of, eventually
from kernels import (JUPYTER, close_all, error, execute, fork_server, kill, package, pid_of, ready, refused, sessions,
                     spares, text, value, warm)
from mcp_peer import Peer
from processes import ROOT_ONLY, below, gone, patience, tester, together  # noqa: F401

PYTHON = ROOT / ".venv/bin/python"


@pytest.fixture
def start(start_server):
    """A server of one's own. It keeps its fork server, so it is not looked at for leaks but when it ends."""

    def start(*args, **more):
        server = start_server(*args, **more)
        server.check = lambda before=None: (server.check_health(), server.check_reports())
        return server

    return start


# --- nothing before the first use --------------------------------------------------------------


def test_nothing_runs_before_the_first_use(start_server):
    server = start_server()
    assert server.children() == []
    server.get("/v1/jupyter/info")
    server.get("/v1/code/info")
    server.get("/v1/jupyter/sessions")
    assert eventually(lambda: server.children() == [])


def test_a_kernel_is_ready_from_the_start_when_configured(start):
    server = start(["--kernel-ready"])
    ready(server)
    pid = spares(server)[0]
    execute(server, "1", session_id="first")
    assert pid_of(server, "first") == pid


def test_no_kernel_is_ready_where_jupyter_is_disabled(start):
    server = start(["--kernel-ready"], env={"DISABLE_JUPYTER": "true"})
    assert server.children() == []
    assert server.logged("no kernel is ready: DISABLE_JUPYTER is set")
    assert value(execute(server, "6 * 7", session_id="asked")) == "42"


def test_the_ready_kernel_is_taken_and_replaced(start):
    server = warm(start())
    first = spares(server)[0]
    execute(server, "1", session_id="a")
    assert pid_of(server, "a") == first
    ready(server)
    second = spares(server)[0]
    assert second != first
    os.kill(second, signal.SIGKILL)  # nobody is bothered by that
    assert value(execute(server, "2", session_id="b")) == "2"
    assert execute(server, "2", session_id="b")["message"] == "Code executed"


# --- forking is safe ---------------------------------------------------------------------------


def test_kernels_share_no_randomness(start):
    server = start(["--kernel-preload", "numpy"])
    code = "import random, uuid, secrets, numpy\n(random.random(), str(uuid.uuid4()), numpy.random.rand(), numpy.random.default_rng().random(), secrets.token_hex(8), hash(object()) * 0)"
    seen = [eval(value(execute(server, code, session_id=f"r{i}"))) for i in range(3)]
    for values in list(zip(*seen))[:5]:
        assert len(set(values)) == 3, seen
    assert len({sessions(server)[f"r{i}"]["connection_file"] for i in range(3)}) == 3


def test_threads_signals_and_processes_work_after_the_fork(start):
    server = start(["--kernel-preload", "numpy,pandas"])
    code = """
import threading, signal, subprocess, multiprocessing, os, numpy, concurrent.futures, asyncio
done = []
t = threading.Thread(target=lambda: done.append(threading.get_ident())); t.start(); t.join()
with concurrent.futures.ThreadPoolExecutor(4) as pool: squares = list(pool.map(lambda x: x * x, range(5)))
with multiprocessing.Pool(2) as pool: absolute = pool.map(abs, [-1, -2])
a = numpy.ones((300, 300)); product = float((a @ a).sum())
out = subprocess.run(['echo', 'hi'], capture_output=True, text=True).stdout
got = []; signal.signal(signal.SIGUSR1, lambda *_: got.append(1)); os.kill(os.getpid(), signal.SIGUSR1)
(len(done), squares, absolute, product, out, got, os.getpid() == os.getsid(0),
 signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, signal.pthread_sigmask(signal.SIG_BLOCK, []))
"""
    got = together(3, lambda i: value(execute(server, code, timeout=120, session_id=f"t{i}")))
    assert got == ["(1, [0, 1, 4, 9, 16], [1, 2], 27000000.0, 'hi\\n', [1], True, True, set())"] * 3


def test_what_children_print_arrives(start):
    """Not through a port, which would be listed as one of the sandbox's. It may arrive after the code's end."""
    server = start()
    code = ("import multiprocessing\nchild = multiprocessing.get_context('fork').Process(target=print, "
            "args=('from a child',), kwargs={'flush': True})\nchild.start(); child.join()")
    assert eventually(lambda: "from a child" in str(execute(server, code)["outputs"]))


def test_the_fork_server_has_one_thread_and_no_socket_of_a_kernel(start):
    server = start()
    together(3, lambda i: execute(server, "1", session_id=f"s{i}"))
    pid = fork_server(server)
    assert len(os.listdir(f"/proc/{pid}/task")) == 1
    # It closes one while we look: what is not there any more has no link.
    links = lambda: [os.path.realpath(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    assert eventually(lambda: sum("socket:" in link for link in links()) == 1)


def test_preloaded_modules_are_there(start):
    server = start(["--kernel-preload", "numpy, matplotlib.pyplot, no_such_module"])
    got = execute(server, "import sys\nprint('numpy' in sys.modules, 'matplotlib.pyplot' in sys.modules, 'pandas' in sys.modules)")
    assert text(got) == "True True False\n"
    got = execute(server, "import matplotlib.pyplot as plt\nplt.plot([1, 2])", session_id=got["session_id"])
    assert [out["output_type"] for out in got["outputs"]] == ["execute_result", "display_data"]


def test_other_versions_of_python_and_pyzmq():
    """Those that others have: Python from 3.9 on, and a pyzmq that is built in another way."""
    for file in (ROOT / "share/kernel").glob("*.py"):
        ast.parse(file.read_text(), feature_version=(3, 9))
    code = ("import importlib.util, sys, zmq; sys.modules['zmq.backend.cython._zmq'] = None\n"
            "if hasattr(sys.modules['zmq.backend.cython'], '_zmq'): del sys.modules['zmq.backend.cython']._zmq\n"
            "spec = importlib.util.spec_from_file_location('f', sys.argv[1])\n"
            "f = importlib.util.module_from_spec(spec); spec.loader.exec_module(f); print(f.frames_sender())")
    done = subprocess.run([PYTHON, "-c", code, ROOT / "share/kernel/forkserver.py"], capture_output=True, text=True)
    assert done.stdout == "None\n", done.stderr


def test_an_ipykernel_that_welcomes_nobody(start, tmp_path):
    """Those before 7 do not tell when a subscription has arrived, and are the last for Python 3.9."""
    (tmp_path / "sitecustomize.py").write_text(
        "import ipykernel.iostream\nipykernel.iostream.IOPubThread._setup_xpub_listener = lambda self: None\n")
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {PYTHON} "$@"\n')
    program.chmod(0o755)
    kernelspec(tmp_path, "older", [program, "-m", "ipykernel_launcher", "-f", "{connection_file}"])
    server = start(env={"JUPYTER_PATH": str(tmp_path / ".local/share/jupyter")})
    for session in "abc":
        assert value(execute(server, "6 * 7", kernel_name="older", session_id=session)) == "42"
    assert fork_server(server)


def test_without_the_fork_server_kernels_still_come(start):
    """Killed by hand, it is replaced; its kernels live on."""
    server = warm(start())
    execute(server, "x = 1", session_id="old")
    old = fork_server(server)
    os.kill(old, signal.SIGKILL)
    assert gone(old) and server.at_rest()  # the server has noticed
    assert value(execute(server, "x", session_id="old")) == "1"
    assert value(execute(server, "2", session_id="new")) == "2"
    assert eventually(lambda: fork_server(server) not in (None, old))
    kill(server, "old")
    got = execute(server, "3", session_id="old")
    assert value(got) == "3" and "new kernel" in got["message"]


# --- what they send ----------------------------------------------------------------------------

# Whoever has an output sends it: threads at once, and handlers of signals in the middle of others.
CROWD = """
import signal, threading, time
from IPython.display import display
count = 0
def interrupt(*_):
    global count
    count += 1
    display("signal")
    if count < 200: signal.setitimer(signal.ITIMER_REAL, 0.001)  # only now: one at a time
signal.signal(signal.SIGALRM, interrupt)
signal.setitimer(signal.ITIMER_REAL, 0.001)
threads = [threading.Thread(target=lambda: [display("thread") for _ in range(200)]) for _ in range(3)]
[thread.start() for thread in threads]
for _ in range(400): display("main")
[thread.join() for thread in threads]
signal.signal(signal.SIGALRM, signal.SIG_IGN)
count
"""
RAISING = """
class Late(Exception): pass
def interrupt(*_): raise Late
signal.signal(signal.SIGALRM, interrupt)
late = 0
def show(text): get_ipython().display_pub.publish({"text/plain": text})
for _ in range(30):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0007)
        for _ in range(100): show("x")
        while True: time.sleep(0.01)
    except Late: late += 1
show("last")
late
"""


def test_outputs_of_threads_and_signals_stay_whole(start):
    server = start()
    got = execute(server, CROWD, session_id="s", timeout=120)
    assert got["status"] == "ok", got["outputs"][-1]
    shown = [out["data"]["text/plain"] for out in got["outputs"] if out["output_type"] == "display_data"]
    assert shown.count("'main'") == 400 and shown.count("'thread'") == 600
    assert shown.count("'signal'") == int(value(got)) > 0
    got = execute(server, RAISING, session_id="s", timeout=120)
    assert value(got) == "30" and got["message"] == "Code executed"
    shown = [out["data"]["text/plain"] for out in got["outputs"] if out["output_type"] == "display_data"]
    assert shown[-1] == "last" and set(shown) == {"x", "last"}


OFTEN = """
import signal, time
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.00005, 0.00005)
for i in range(5000): get_ipython().display_pub.publish({"text/plain": "x"})
signal.setitimer(signal.ITIMER_REAL, 0)
"""


def test_signals_do_not_keep_an_output_from_being_sent(start):
    got = execute(start(), OFTEN, session_id="s", timeout=120)
    assert got["status"] == "ok", got["outputs"][-1]
    assert len([out for out in got["outputs"] if out["output_type"] == "display_data"]) == 5000


def test_what_comes_last_is_not_missed(start):
    """What a program has just written to the descriptor, and what the thread that sends every 0.2 seconds has in hand."""
    server = start()
    spin = "import os, time\nbegin = time.monotonic()\nprint('x')\nwhile time.monotonic() - begin < {}: pass"

    def work(i):
        said = [text(execute(server, f"import os\n_ = os.system('echo {k}')", session_id=f"s{i}")) for k in range(30)]
        assert said == [f"{k}\n" for k in range(30)]
        said = [text(execute(server, spin.format(0.196 + k / 1000), session_id=f"s{i}")) for k in range(8)]
        assert said == ["x\n"] * 8

    together(6, work)


# --- other kernels -----------------------------------------------------------------------------


def kernelspec(home, name, argv, **more):
    folder = home / ".local/share/jupyter/kernels" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kernel.json").write_text(json.dumps(
        {"argv": [str(arg) for arg in argv], "display_name": name, "language": more.pop("language", "python"), **more}))


@pytest.fixture
def others(start, tmp_path):
    """A server that finds other kernels, where Jupyter looks for them."""
    launch = [PYTHON, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    home = tmp_path / "jupyter"
    kernelspec(home, "forked", launch)
    kernelspec(home, "plain", [*launch, "--HistoryManager.enabled=False"], env={"FROM_SPEC": "yes"}, language="snake")
    kernelspec(home, "polite", [*launch, "--HistoryManager.enabled=False"], interrupt_mode="message", language="polite")
    kernelspec(home, "broken", ["/bin/false", "{connection_file}"], language="broken")
    kernelspec(home, "gone", ["/no/such/program"], language="gone")
    (home / ".local/share/jupyter/kernels/nonsense").mkdir()
    (home / ".local/share/jupyter/kernels/nonsense/kernel.json").write_text("[{]")
    return start(env={"JUPYTER_PATH": str(home / ".local/share/jupyter")})


def test_other_kernels(others, tmp_path):
    info = others.get("/v1/jupyter/info").json()["data"]
    assert info["available_kernels"][0] == "python3" and {"forked", "plain", "broken"} <= set(info["available_kernels"])
    assert "nonsense" not in info["available_kernels"]
    got = execute(others, "import os\nprint(os.environ.get('FROM_SPEC'), os.getcwd())", kernel_name="plain", cwd=str(tmp_path), session_id="p")
    assert text(got) == f"yes {tmp_path}\n" and got["kernel_name"] == "plain"
    assert "tcp" in Path(sessions(others)["p"]["connection_file"]).read_text()
    got = execute(others, "while True: pass", kernel_name="plain", session_id="p", timeout=1)
    assert got["status"] == "timeout" and value(execute(others, "1", session_id="p")) == "1"
    got = execute(others, "import os; os._exit(5)", session_id="p")
    assert "exit code 5" in got["message"]
    assert value(execute(others, "4", session_id="p")) == "4"
    assert value(execute(others, "5", kernel_name="forked")) == "5"
    status, message = refused(others, kernel_name="broken")
    assert status == 503 and "exit code 1" in message
    assert refused(others, kernel_name="gone")[0] in (400, 404)


def test_interrupt_by_message(others, tmp_path):
    begun = tmp_path / "begun"
    for seconds in patience(begun.exists):  # code that has not begun ends without an error
        execute(others, "x = 2", kernel_name="polite", session_id="m")
        got = execute(others, f"open('{begun}', 'w').close()\nimport time; time.sleep(1000)", session_id="m",
                      timeout=seconds)
    assert got["status"] == "timeout" and error(got)["ename"] == "KeyboardInterrupt"
    assert value(execute(others, "x", session_id="m")) == "2"


def test_a_language_is_what_its_kernel_speaks(others):
    answer = code_of(others, "snake", "print(6)")
    assert answer["stdout"] == "6\n" and answer["session_id"] is None and not sessions(others)
    listed = [one["language"] for one in others.get("/v1/code/info").json()["data"]["languages"]]
    assert "snake" in listed and listed.count("python") == 1
    assert CONTEXTS.reply(others, language="snake")["language"] == "snake"


def test_a_picture_whose_base64_has_lines(start):
    data = bytes(range(256))
    code = f"from IPython.display import display; import base64; display({{'image/png': base64.encodebytes({data!r}).decode()}}, raw=True)"
    with Peer(start()) as peer:
        result = peer.call("sandbox_execute_code", code=code, language="python", stateful=True)
    assert base64.b64decode(result["content"][-1]["data"], validate=True) == data


# Others' kernels, too, ask although a request says that nobody can answer: R's does.
ASKING = """
from ipykernel.kernelapp import IPKernelApp
from ipykernel.kernelbase import Kernel
class Asking(Kernel):
    implementation = implementation_version = banner = "asking"
    language_info = {"name": "asking", "mimetype": "text/plain", "file_extension": ".txt"}
    _supports_kernel_subshells = False
    async def do_execute(self, code, silent, *args, **more):
        try:
            if code == "ask":
                self._input_request("Your name? ", self._parent_ident["shell"], self.get_parent("shell"))
        except KeyboardInterrupt:
            pass
        return {"status": "ok", "execution_count": self.execution_count, "payload": [], "user_expressions": {}}
IPKernelApp.launch_instance(kernel_class=Asking)
"""


# ipykernel does not reply to a request that was interrupted before its code had begun.
SILENT = """
import time
from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import IPKernelApp
class Silent(IPythonKernel):
    async def execute_request(self, stream, ident, parent):
        if parent["content"]["code"] == "late":
            time.sleep(1000)
        await super().execute_request(stream, ident, parent)
IPKernelApp.launch_instance(kernel_class=Silent)
"""


def test_a_kernel_that_was_interrupted_too_soon_is_kept(start, tmp_path):
    (tmp_path / "silent.py").write_text(SILENT)
    kernelspec(tmp_path, "silent", [PYTHON, tmp_path / "silent.py", "-f", "{connection_file}"], language="silent")
    server = start(env={"JUPYTER_PATH": str(tmp_path / ".local/share/jupyter")})
    execute(server, "x = 5", kernel_name="silent", session_id="s")
    got = execute(server, "late", session_id="s", timeout=1)
    assert got["status"] == "timeout" and got["message"] == "Code timed out"
    assert value(execute(server, "x", session_id="s")) == "5"


def test_a_kernel_that_asks_is_told_that_nobody_types(start, tmp_path):
    (tmp_path / "asking.py").write_text(ASKING)
    kernelspec(tmp_path, "asking", [PYTHON, tmp_path / "asking.py", "-f", "{connection_file}"], language="asking")
    server = start(env={"JUPYTER_PATH": str(tmp_path / ".local/share/jupyter")})
    got = execute(server, "ask", kernel_name="asking", session_id="a", timeout=60)
    assert got["status"] == "error" and error(got)["ename"] == "StdinNotImplementedError"
    assert "Your name?" in error(got)["evalue"]
    got = execute(server, "go on", session_id="a")
    assert got["status"] == "ok" and got["message"] == "Code executed"


CODE, CONTEXTS = Calls("/v1/code"), Calls("/api/v1/contexts")


def code_of(server, language, code, **more):
    return CODE.ask(server, "execute", language=language, code=code, **more)


def test_a_kernel_of_others(start, tmp_path):
    """bash_kernel, as it is on PyPI, instead of ours."""
    packages = sysconfig.get_path("purelib")
    launch = (f"import sys; sys.path.append({packages!r})\nfrom ipykernel.kernelapp import IPKernelApp\n"
              "from bash_kernel.kernel import BashKernel\nIPKernelApp.launch_instance(kernel_class=BashKernel)")
    kernelspec(tmp_path, "bash", [PYTHON, "-c", launch, "-f", "{connection_file}"], language="bash", env={"PS1": "$"})
    server = start(env={"JUPYTER_PATH": str(tmp_path / ".local/share/jupyter")})
    got = code_of(server, "bash", "x=5; cd /usr; echo $x", session_id="b")
    assert (got["stdout"], got["status"], got["exit_code"]) == ("5\n", "ok", 0)
    got = code_of(server, "bash", "echo $x; pwd; (exit 9)", session_id="b")
    assert (got["stdout"], got["status"], got["exit_code"]) == ("5\n/usr\n", "error", 9)
    assert code_of(server, "bash", "sleep 100", session_id="b", timeout=1)["status"] == "timeout"
    assert text(execute(server, "echo $x", session_id="b", kernel_name="bash")) == "5\n"
    made = CONTEXTS.reply(server, language="bash")
    assert made["language"] == "bash" and sessions(server)[made["context_id"]]["kernel_name"] == "bash"


def test_r(start, tmp_path):
    if subprocess.run(["R", "--slave", "-e", "library(IRkernel)"], capture_output=True).returncode if shutil.which("R") else True:
        pytest.skip("R with IRkernel is not installed")
    kernelspec(tmp_path, "ir", ["R", "--slave", "-e", "IRkernel::main()", "--args", "{connection_file}"], language="R")
    server = start(env={"JUPYTER_PATH": str(tmp_path / ".local/share/jupyter")})
    got = execute(server, "x <- c(1, 2, 6); cat('hé\\n'); mean(x)", kernel_name="ir", session_id="r", timeout=60)
    assert text(got) == "hé\n" and got["outputs"][-1]["data"]["text/plain"] == "[1] 3"
    got = code_of(server, "r", "cat(length(x), getwd())", session_id="r", cwd=str(tmp_path))
    assert got["stdout"] == f"3 {tmp_path}"
    got = code_of(server, "R", "stop('bad')", session_id="r")
    assert got["status"] == "error" and any("bad" in line for line in got["traceback"])
    assert error(execute(server, "readline('name')", session_id="r"))["ename"] == "StdinNotImplementedError"
    assert execute(server, "while (TRUE) Sys.sleep(0.1)", session_id="r", timeout=1)["status"] == "timeout"
    assert code_of(server, "r", "cat(length(x))", session_id="r")["stdout"] == "3"
    assert code_of(server, "r", "cat(1 + 1)")["stdout"] == "2" and set(sessions(server)) == {"r"}
    found = {one["language"]: one for one in server.get("/v1/code/info").json()["data"]["languages"]}
    assert found["R"]["runtime_version"][0].isdigit()


def interpreter(folder, version, python):
    """A Python that says it is version 3.X: what there is of others differs from machine to machine."""
    folder.mkdir(exist_ok=True)
    path = folder / f"python3.{version}"
    path.write_text(f"#!/bin/sh\nexport WHICH={version}\n"
                    f"[ \"$1\" != -c ] || {{ echo 3.{version}; exec {python} -c 'import ipykernel'; }}\nexec {python} \"$@\"\n")
    path.chmod(0o755)


def stand_in(server, **body):
    """What ran in python3 because another version was asked for: what it gave, and the hint."""
    got = JUPYTER.reply(server, "execute", code="import os; os.environ.get('WHICH')", **body)
    assert got["data"]["kernel_name"] == "python3" and got["data"]["status"] == "ok", got
    return got["data"], got["hint"]


def test_a_python_that_is_missing(start, tmp_path):
    """A kernel_name of another machine's runs in the Python that is there, and the hint says so."""
    interpreter(tmp_path / "bin", 98, sys.executable)  # the tests' own has no ipykernel
    server = start(env={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"})
    got, hint = stand_in(server, kernel_name="python3.99", session_id="s")
    assert not got["outputs"] and "python3.99 is not installed" in hint and "python3 is used" in hint
    again, hint = stand_in(server, kernel_name="python3.99", session_id="s")  # the session's own name, again
    assert again["execution_count"] == got["execution_count"] + 1 and "python3.99 is not installed" in hint
    assert stand_in(server, session_id="s")[1] is None
    assert stand_in(server, kernel_name="python3", session_id="s")[1] is None
    assert refused(server, session_id="s", kernel_name="python3.97")[0] == 409
    hint = stand_in(server, kernel_name="python3.98")[1]
    assert "has no ipykernel" in hint and "python3.98 -m pip install ipykernel" in hint and "python3 is used" in hint
    made = server.post("/v1/jupyter/sessions/create", {"kernel_name": "python3.99"}).json()
    assert made["data"]["kernel_name"] == "python3" and "python3.99 is not installed" in made["hint"]
    with Events(server, "/v1/jupyter/execute", code="1", kernel_name="python3.99") as events:
        assert "python3.99 is not installed" in json.dumps(list(events)[-1])


def test_python_by_version(start, tmp_path):
    interpreter(tmp_path / "bin", 97, PYTHON)
    interpreter(tmp_path / "bin", 98, sys.executable)  # the tests' own has no ipykernel
    server = start(env={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"})
    got = execute(server, "import os; os.environ['WHICH']", kernel_name="python3.97", session_id="v")
    assert got["kernel_name"] == "python3.97" and value(got) == "'97'"
    status, message = refused(server, kernel_name="python2.7")
    assert status == 400 and "no kernel 'python2.7'; there is: python3, " in message
    assert execute(server, "1", kernel_name="python", session_id="p")["kernel_name"] == "python3"
    assert execute(server, "1", kernel_name="python", session_id="p")["kernel_name"] == "python3"


def test_interpreters_that_are_there(start):
    """Each Python of another version on this machine: it runs, or the hint says what it lacks."""
    names = [f"python3.{minor}" for minor in (10, 11, 12) if shutil.which(f"python3.{minor}")]
    if not names:
        pytest.skip("no other Python is installed")
    server = start()
    for name in names:
        code = "import sys; 'python%d.%d' % sys.version_info[:2]"
        got = execute(server, code, kernel_name=name)
        if got["kernel_name"] == name:
            assert value(got) == repr(name)
        else:
            assert got["kernel_name"] == "python3" and name in got["hint"]


def test_default_kernel_by_python_version(start):
    version = os.popen(f"{PYTHON} -c 'import sys; print(\"%d.%d\" % sys.version_info[:2])'").read().strip()
    server = start(env={"PYTHON_VERSION": version + ".9"})
    assert server.get("/v1/jupyter/info").json()["data"]["default_kernel"] == f"python{version}"
    assert execute(server, "1")["kernel_name"] == f"python{version}"
    server = start(env={"PYTHON_VERSION": "3.2"})
    assert execute(server, "1")["kernel_name"] == "python3"


def test_no_python_is_said(start, tmp_path):
    for name in ("web", "share", "node_modules"):
        (tmp_path / name).symlink_to(ROOT / name)
    server = start(env={"AIO_HOME": str(tmp_path), "JUPYTER_DATA_DIR": "/nowhere"})
    status, message = refused(server)
    assert (status, "python3" in message or "no kernel is installed" in message) in ((400, True), (503, True))


# --- limits, users, the end --------------------------------------------------------------------


def test_idle_sessions_end(start):
    server = start(["--kernel-timeout", "1"])
    kernels = ast.literal_eval(value(execute(server, "import os; [os.getpid(), os.getppid()]", session_id="idle")))
    assert gone(*kernels)  # nobody asks for it meanwhile
    assert sessions(server) == {} and eventually(lambda: server.children() == [])
    assert value(execute(server, "2", session_id="idle")) == "2"


def test_busy_sessions_do_not_end(start):
    server = start(["--kernel-timeout", "1"])
    assert value(execute(server, "import time; time.sleep(3)\n7", session_id="busy")) == "7"


def test_the_oldest_idle_session_makes_room(start):
    server = start(["--max-kernels", "2"])
    for name in "abc":
        execute(server, "1", session_id=name)
    assert set(sessions(server)) == {"b", "c"}
    with Events(server, "/v1/jupyter/execute", code="print(1, flush=True)\nimport time; time.sleep(100)", session_id="b") as b, \
            Events(server, "/v1/jupyter/execute", code="print(1, flush=True)\nimport time; time.sleep(100)", session_id="c") as c:
        for events in (b, c):
            assert [events.next()[0], events.next()[0]] == ["start", "stdout"]
        status, message = refused(server, session_id="d")
        assert status == 429 and "--max-kernels" in message


def test_a_session_that_nobody_named_makes_room_first(start):
    server = start(["--max-kernels", "3"])
    execute(server, "1", session_id="a")
    back, lost = (execute(server, "x = 5")["session_id"] for _ in range(2))
    assert value(execute(server, "x", session_id=back)) == "5"  # and so it has a name, too
    execute(server, "1", session_id="b")
    assert set(sessions(server)) == {"a", back, "b"}
    got = execute(server, "'x' in dir()", session_id=lost)
    assert value(got) == "False" and set(sessions(server)) == {back, "b", lost}
    assert got["hint"] == "The session had ended. A new kernel was started: the variables are gone."
    assert execute(server, "1", session_id=lost)["hint"] is None
    made = server.post("/v1/jupyter/sessions/create", {}).json()["data"]["session_id"]
    execute(server, "1")
    assert made in sessions(server)  # it was asked for as such


@pytest.mark.concurrency
def test_a_session_is_not_taken_from_one_who_has_just_got_it(start):
    server = start(["--max-kernels", "4"])
    codes = together(8, lambda i: [JUPYTER.send(server, "execute", code="1").status_code for _ in range(5)])
    assert {200} <= {code for some in codes for code in some} <= {200, 429}


@ROOT_ONLY
def test_unnamed_sessions_make_room_where_processes_are_short(start, tester):  # noqa: F811
    home = Path(f"/home/{tester}")
    server = start(["--user", tester], env={"WORKSPACE": str(home), "HOME": str(home)})
    resource.prlimit(server.pid, resource.RLIMIT_NPROC, (45, 45))
    execute(server, "x = 1", session_id="kept")
    unnamed = [execute(server, f"x = {i}")["session_id"] for i in range(8)]
    assert unnamed[-1] in sessions(server) and unnamed[0] not in sessions(server)
    assert value(execute(server, "x", session_id="kept")) == "1"
    for i in range(8):
        answer = JUPYTER.send(server, "execute", code="1", session_id=f"more{i}")
        if answer.status_code != 200:
            break
    assert answer.status_code == 429 and "no more processes and threads" in answer.text, answer.text
    assert value(execute(server, "x", session_id="kept")) == "1" and not set(unnamed) & set(sessions(server))
    server.request("DELETE", "/v1/jupyter/sessions/more0")
    assert value(execute(server, "7", session_id="again")) == "7"  # what was refused is not remembered


def tasks_of(user):
    """How many threads a user has: what a limit of processes counts."""
    uid, count = pwd.getpwnam(user).pw_uid, 0
    for task in Path("/proc").glob("[0-9]*/task"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            count += len(os.listdir(task)) if task.parent.stat().st_uid == uid else 0
    return count


@ROOT_ONLY
def test_a_kernel_that_could_not_start_and_is_gone_makes_room(start, tester):  # noqa: F811
    """It said why, and was reaped before the server looked at it."""
    home = Path(f"/home/{tester}")
    server, limit, others = start(["--user", tester], env={"WORKSPACE": str(home), "HOME": str(home)}), 100, []
    resource.prlimit(server.pid, resource.RLIMIT_NPROC, (limit, limit))
    execute(server, "1", session_id="kept")
    unnamed = [execute(server, "1")["session_id"] for _ in range(2)]
    ready(server)
    parent = fork_server(server)

    def looks():
        """How often it has run, and its children."""
        status = Path(f"/proc/{parent}/status").read_text()
        return re.findall(r"ctxt_switches:\s+(\d+)", status), children_of(parent)

    def has_worked():
        seen.append(looks())
        return seen[0][0] != seen[-1][0] and seen[-3:] == [seen[-1]] * 3

    os.kill(parent, signal.SIGSTOP)
    try:
        unnamed.append(execute(server, "1")["session_id"])  # the ready one; the next is ordered
        with server.begin("/v1/jupyter/execute", code="6 * 7", session_id="late") as late:
            assert server.at_rest()
            while tasks_of(tester) < limit - 1:  # room for a process, not for its threads
                others.append(subprocess.Popen(["sleep", "1000"], user=tester))
            seen = [looks()]
            os.kill(server.pid, signal.SIGSTOP)
            try:
                os.kill(parent, signal.SIGCONT)
                assert eventually(has_worked, pause=0.2) and seen[0][1] == seen[-1][1], "what it forked is gone"
            finally:
                os.kill(server.pid, signal.SIGCONT)
            answer = late.answer()
            assert answer.status == 200, answer.body
    finally:
        os.kill(parent, signal.SIGCONT)
        for other in others:
            other.kill()
            other.wait()
    assert value(answer.json()["data"]) == "42"
    assert "kept" in sessions(server) and not set(unnamed) <= set(sessions(server))


@ROOT_ONLY
def test_kernels_run_as_the_sandbox_user(start, tester, tmp_path):  # noqa: F811
    os.chmod(tmp_path, 0o755)
    home = Path(f"/home/{tester}")
    server = start(["--user", tester], env={"WORKSPACE": str(home), "HOME": str(home)})
    got = execute(server, "import os, getpass\nprint(getpass.getuser(), os.getuid() != 0, os.environ['HOME'], len(os.getgroups()))", session_id="u")
    assert text(got) == f"{tester} True {home} 2\n"
    assert error(execute(server, "open('/etc/shadow')", session_id="u"))["ename"] == "PermissionError"
    file = sessions(server)["u"]["connection_file"]
    assert os.stat(file).st_uid == os.stat(home).st_uid == os.stat(os.path.dirname(file)).st_uid
    assert os.stat(os.path.dirname(file)).st_mode & 0o777 == 0o700
    status, _ = refused(server, cwd="/root/x", session_id="u")
    assert status in (403, 404)
    assert code_of(server, "python", "import os; print(os.getuid() != 0)")["stdout"] == "True\n"


# What a fork server is belongs to the user, who may have made it say anything.
FALSE = """#!{python}
import json, os, socket, sys, time
control = socket.socket(fileno=os.dup(0))
if "forkserver.py" not in sys.argv[-1]:
    sys.exit(1)
control.send(b'{{"version": "3"}}')
while data := control.recv(65536):
    request = json.loads(data)
    if "id" in request:
        ours, its = socket.socketpair(socket.AF_UNIX, {kind})
        {more}
        socket.send_fds(control, [json.dumps({{"id": request["id"], "pid": {pid}}}).encode()], [os.pidfd_open({real}), its.fileno()])
        {after}
"""


def false_server(start, tester, **said):  # noqa: F811
    home = Path(f"/home/{tester}")
    program = home / "python"
    program.write_text(FALSE.format(python=PYTHON, **{"kind": "socket.SOCK_SEQPACKET", "more": "", "after": "ours.close()", **said}))
    program.chmod(0o755)
    kernelspec(home, "false", [program, "-m", "ipykernel_launcher", "-f", "{connection_file}"])
    return start(["--user", tester], env={"WORKSPACE": str(home), "HOME": str(home)})


@ROOT_ONLY
@pytest.mark.parametrize("real", ["{pid}", "os.getpid()"])
def test_a_false_fork_server_cannot_have_others_killed(start, tester, real):  # noqa: F811
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as victim:
        try:
            server = false_server(start, tester, pid=victim.pid, real=real.format(pid=victim.pid))
            status, _ = refused(server, kernel_name="false")
            assert status == 503 and victim.poll() is None
            server.stop()
            assert victim.poll() is None
        finally:
            victim.kill()


FULL = """
        def fill(sock):
            sock.setblocking(False)
            try:
                while True:
                    sock.send(b"x" * 4096)
            except BlockingIOError:
                sock.setblocking(True)
        def listen(n, room):
            sock = socket.socket(socket.AF_UNIX)
            sock.bind(request["ip"] + "-" + str(n))
            sock.listen(0 if not room else 5)
            kept.append(sock)
            if not room:
                kept.append(socket.socket(socket.AF_UNIX))
                kept[-1].connect(sock.getsockname())
        kept.append(ours)
        ours.send(b"{{}}")
"""


@ROOT_ONLY
@pytest.mark.parametrize("what", ["listen(1, False); listen(2, False)", "listen(1, True); listen(2, True); fill(its)"])
def test_a_false_kernel_keeps_nobody_waiting(start, tester, what):  # noqa: F811
    """It takes no connection, or no order."""
    server = false_server(start, tester, pid="os.getpid()", real="os.getpid()", kind="socket.SOCK_STREAM", after="",
                          more="kept = globals().setdefault('kept', [])" + FULL.replace("{{", "{").replace("}}", "}") + "        " + what)
    status, _ = refused(server, kernel_name="false")
    assert status == 503


@ROOT_ONLY
def test_a_fork_server_that_leaves_a_stopped_child_keeps_nobody_waiting(start, tester):  # noqa: F811
    """The child has its socket, which therefore does not end."""
    server = false_server(start, tester, pid="0", real="os.getpid()", more="""
        if (child := os.fork()) == 0:
            os.kill(os.getpid(), 19)
        open(os.environ["HOME"] + "/stopped", "a").write(f"{child}\\n")
        os.waitid(os.P_PID, child, os.WSTOPPED)
        os._exit(1)""")
    try:
        for _ in range(2):  # nor does it get in the way of the next
            started = time.monotonic()
            status, _ = refused(server, kernel_name="false")
            assert status == 503 and time.monotonic() - started < 20
    finally:
        for pid in Path(f"/home/{tester}/stopped").read_text().split():
            os.kill(int(pid), signal.SIGKILL)


@ROOT_ONLY
@pytest.mark.timeout(300)
def test_a_user_who_may_not_write_to_python_installs_packages(start, tester):  # noqa: F811
    home = Path(f"/home/{tester}")
    server = start(["--user", tester], env={"WORKSPACE": str(home), "HOME": str(home)})
    folder = package(home, "aiouserpackage")
    subprocess.run(["chown", "-R", tester, folder], check=True)
    execute(server, "1", session_id="before")
    execute(server, f"%pip install --no-index --no-build-isolation --no-deps {folder}", 120, session_id="pip")
    for session in ("pip", "before", "after"):
        assert value(execute(server, "import aiouserpackage; aiouserpackage.answer", session_id=session)) == "42"
    assert str(home) in value(execute(server, "aiouserpackage.__file__", session_id="pip"))
    got = server.post("/v1/bash/exec", {"command": "python3 -c 'import aiouserpackage; print(aiouserpackage.answer)'"})
    assert got.json()["data"]["stdout"] == "42\n"


def test_the_end_of_the_server_ends_busy_kernels(start):
    server = start()
    folders = []
    with Events(server, "/v1/jupyter/execute", session_id="busy", timeout=300,
                code="import subprocess\np = subprocess.Popen(['sleep', '1000'])\nprint(p.pid, flush=True)\nwhile True: pass") as events:
        assert events.next()[0] == "start"
        pids = [int(events.next()[1]["text"])]
        execute(server, "1", session_id="idle")
        pids += below(server)
        folders.append(os.path.dirname(sessions(server)["idle"]["connection_file"]))
        server.signal()
        assert server.wait() == 0
    assert gone(*pids) and not any(map(os.path.exists, folders))


def test_a_killed_server_leaves_nothing(start):
    server = start()
    together(3, lambda i: execute(server, "1", session_id=f"k{i}"))
    pids = below(server)
    folder = os.path.dirname(sessions(server)["k0"]["connection_file"])
    server.stop = server.client.close  # it will not have ended well
    os.kill(server.pid, signal.SIGKILL)
    server.wait()
    assert gone(*pids)
    assert not os.path.exists(os.path.dirname(folder))


def test_files_of_kernels_are_removed(start):
    server = start()
    execute(server, "1", session_id="a")
    file = Path(sessions(server)["a"]["connection_file"])
    its = lambda: [one.name for one in file.parent.iterdir() if re.match(rf"{file.stem}[.-]", one.name)]
    assert len(its()) == 6  # and its sockets
    close_all(server)
    assert eventually(lambda: not its())


def test_memory_of_further_sessions(start):
    server = start()
    for i in range(3):
        execute(server, "1+1", session_id=f"m{i}")
    for i in range(1, 3):
        text_ = Path(f"/proc/{pid_of(server, f'm{i}')}/smaps_rollup").read_text()
        assert sum(map(int, re.findall(r"Private_\w+: +(\d+)", text_))) < 30 * 1024  # the bench has the bar of 20
