"""Runs the program on standard input as a script of its own would run: its directory is the current
one, its tracebacks show its lines, and it has nothing more to read."""

import linecache
import sys
import types


def show(_, value, trace):
    import traceback

    traceback.print_exception(value.with_traceback(trace and trace.tb_next))


code = sys.stdin.buffer.read().decode("utf-8", "replace")
sys.stdout.reconfigure(line_buffering=True)  # somebody may watch
sys.path[0] = ""
sys.argv = ["main.py"]
sys.excepthook = show
linecache.cache["main.py"] = (len(code), None, code.splitlines(True), "main.py")
main = sys.modules["__main__"] = types.ModuleType("__main__")
main.__builtins__ = __builtins__
exec(compile(code, "main.py", "exec"), main.__dict__)
