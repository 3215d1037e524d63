"""`aio mcp` under test, spoken to by hand."""

import json
import subprocess

from harness import STOP_SECONDS, check_sanitizers, children_of, clean_environment, program


def alone(home):
    """Where no host runs, whatever this machine has."""
    return clean_environment(home, {"AIO_STATE": str(home / "no-host")})


class Stdio:
    def __init__(self, home, *args, stdout=subprocess.PIPE, env=None):
        self.home, self.errors = home, open(home / "stderr", "wb+")
        self.proc = subprocess.Popen([program("aio"), "mcp", *args], stdin=subprocess.PIPE, stdout=stdout,
                                     stderr=self.errors, cwd=home, env=env or alone(home))
        self.id = 0

    def send(self, message):
        self.proc.stdin.write((message if isinstance(message, bytes) else json.dumps(message).encode()) + b"\n")
        self.proc.stdin.flush()

    def read(self):
        line = self.proc.stdout.readline()
        assert line, "the output has ended"
        return json.loads(line)

    def ask(self, method, params=None):
        self.id += 1
        self.send({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params or {}})
        while (message := self.read()).get("id") != self.id:
            pass
        return message

    def initialize(self, version="2025-11-25"):
        result = self.ask("initialize", {"protocolVersion": version, "capabilities": {}})["result"]
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return result

    def call(self, tool, /, **arguments):
        return self.ask("tools/call", {"name": tool, "arguments": arguments})["result"]

    def children(self):
        return children_of(self.proc.pid)

    def end(self):
        """Its exit code after the end of the input, and nothing may be left on the output."""
        self.proc.stdin.close()
        rest = self.proc.stdout.read()
        code = self.proc.wait(STOP_SECONDS)
        self.errors.seek(0)
        check_sanitizers(self.errors.read().decode(errors="replace"))
        self.errors.close()
        return code, rest
