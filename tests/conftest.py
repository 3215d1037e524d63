"""What every test gets: real servers, and a look after each test at what it left behind.

    server                     `aio serve` on a free port, without authentication; one per module. What it is started
                               with differs by pytestmark = pytest.mark.server(args, env=…, program=…, warm=…), where
                               warm(server) brings up what stays for good and sets the baseline
    fixture_server             the fixture program, likewise
    start_server(args, env, program="aio", listen="127.0.0.1:0", pass_fds=())
                               one more, for this test alone; listen may be None
    start_shared(…)            the same, for the module: to be called in a fixture of that scope

Each is a harness.Server. After every test each running server must be alive, answer /health, hold no
more descriptors, threads and children than before, and no sanitizer may have reported anything. In
the end it must stop on SIGTERM with exit code 0, which it does not if it leaked memory.
"""

import signal

import pytest

from harness import Server
from results import *  # noqa: F403: its hooks

# Who was started in the background of a script ignores these, and so would all that we start.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)

running = []


@pytest.fixture(scope="session")
def make_server(tmp_path_factory):
    def make(args=(), env=None, program="aio", **more):
        server = Server(program, args, env, tmp_path_factory.mktemp(program), **more)
        running.append(server)
        return server

    return make


def end(servers):
    problems = []
    for server in servers:
        running.remove(server)
        try:
            server.stop()
        except Exception as problem:
            problems.append(problem)
    if problems:
        raise problems[0]


@pytest.fixture(scope="module")
def start_shared(make_server):
    started = []

    def start(*args, **more):
        started.append(make_server(*args, **more))
        return started[-1]

    yield start
    end(started)


@pytest.fixture(scope="module")
def server(request, start_shared):
    marker = request.node.get_closest_marker("server")
    args, options = (marker.args, dict(marker.kwargs)) if marker else ((), {})
    warm = options.pop("warm", None)
    server = start_shared(*args, **options)
    if warm:
        warm(server)
    return server


@pytest.fixture(scope="module")
def fixture_server(start_shared):
    return start_shared(program="fixture")


@pytest.fixture
def start_server(make_server):
    started = []

    def start(*args, **more):
        started.append(make_server(*args, **more))
        return started[-1]

    yield start
    try:
        for server in started:
            if server.proc.poll() is None:  # else the test has stopped it
                server.check()
    finally:
        end(started)


@pytest.fixture(autouse=True)
def nothing_left_behind():
    before = {server: server.possessions() for server in running}
    yield
    for server in running:
        server.check(before.get(server))
