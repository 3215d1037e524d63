"""Calls of a sandbox's API by the program's own commands: aio browser, gui, sandbox, skills and mcp list."""

import os
import pty
import subprocess

from harness import program


def aio(server, *words, url=None, env=None, **more):
    """How it ended, with what it wrote where that is not a terminal."""
    return subprocess.run([program("aio"), *words, "--api-url", url or server.url], capture_output=True, timeout=100,
                          env={**os.environ, **(env or {})}, **more)


def good(server, *words, **more):
    done = aio(server, *words, **more)
    assert done.returncode == 0 and not done.stderr, done
    return done.stdout


def bad(server, *words, code=1, **more):
    done = aio(server, *words, **more)
    assert done.returncode == code and not done.stdout, done
    return done.stderr.decode()


def on_terminal(server, *words, url=None, code=0):
    ours, its = pty.openpty()
    with os.fdopen(ours, "rb", 0) as out:
        child = subprocess.Popen([program("aio"), *words, "--api-url", url or server.url], stdout=its, stderr=its, stdin=its)
        os.close(its)
        text = b""
        try:
            while piece := out.read(65536):
                text += piece
        except OSError:  # its side is closed
            pass
        assert child.wait(60) == code, text
    return text.decode().replace("\r\n", "\n")
