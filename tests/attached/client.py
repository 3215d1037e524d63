"""What the Python programs of this folder share: each attaches to a browser with a library of others, and does what it is
told on standard input, a line of JSON each: [what, value...]. It says what came of it on standard output."""

import asyncio
import inspect
import json
import sys


async def serve(client):
    """client has a method for each order; "leave" and "close" are the last one."""
    print(json.dumps({"ready": True}), flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        what, *values = json.loads(line)
        try:
            value = getattr(client, what)(*values)
            said = {"value": await value if inspect.isawaitable(value) else value}
        except Exception as error:
            said = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(said), flush=True)
        if what in ("leave", "close"):
            break
