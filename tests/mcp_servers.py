"""Other MCP servers for the hub: good ones and bad ones. Run as a program it is one, on its standard
input and output; the first argument says how it behaves.

    good     echo, add, slow (with progress), grow (a tool more)     crash    dies when a tool is called
    stillborn  dies at once, with a last word                        hang     answers nothing but initialize
    mute     does not even answer initialize                         flood    writes without end
    huge     answers with one enormous message                       liar     its schemas are nonsense
    noisy    prints what is no message, and asks us things           deaf     asks without end, and hears no answer
    late     once it has told of new tools, it does not name them
"""

import contextlib
import json
import os
import sys
import threading
import time


def say(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def reply(id, result):
    say({"id": id, "result": result})


def text(value, **more):
    return {"content": [{"type": "text", "text": value}], **more}


def tool(name, /, **properties):
    return {"name": name, "description": f"The tool {name}.", "inputSchema": {"type": "object", "properties": properties}}


LIES = [
    {"name": "no_schema", "description": 5},
    {"name": "list_schema", "inputSchema": []},
    {"name": "wrong_type", "inputSchema": {"type": "string"}},
    {"name": "bad properties!", "inputSchema": {"type": "object"}},
    {"name": "", "inputSchema": {"type": "object"}}, {"inputSchema": {}}, "tool", None, 5,
    {"name": "x" * 200, "inputSchema": {"type": "object"}},
    {"name": "fat", "description": "f" * 100_000, "inputSchema": {"type": "object"}},
    {"name": "false_output", "inputSchema": {"type": "object"},
     "outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}},
    {"name": "no_content", "inputSchema": {"type": "object"}},
    {"name": "odd_content", "inputSchema": {"type": "object"}},
    {"name": "only_structured", "inputSchema": {"type": "object"}},
]


class Server:
    def __init__(self, kind):
        self.kind, self.extra, self.calls = kind, [], 0

    def tools(self):
        if self.kind == "liar":
            return LIES
        return [tool("echo", text={"type": "string"}), tool("add", a={"type": "number"}, b={"type": "number"}),
                tool("slow"), tool("grow"), tool("pid"), tool("env", name={"type": "string"}), tool("big"), *self.extra]

    def call(self, id, params):
        name, given = params["name"], params.get("arguments", {})
        self.calls += 1
        if self.kind == "crash":
            print("I cannot go on", file=sys.stderr, flush=True)
            os._exit(3)
        if self.kind == "hang":
            return
        if self.kind == "huge":
            reply(id, text("h" * (20 << 20)))
        elif name == "echo":
            reply(id, text(given.get("text", "")))
        elif name == "add":
            reply(id, text(str(given["a"] + given["b"]), structuredContent={"sum": given["a"] + given["b"]}))
        elif name == "slow":
            token = params.get("_meta", {}).get("progressToken")
            while given.get("after") and not os.path.exists(given["after"]):
                time.sleep(0.02)
            for step in range(3):
                if token is not None:
                    say({"method": "notifications/progress", "params": {"progressToken": token, "progress": step, "total": 3}})
                time.sleep(0.05)
            reply(id, text("slowly"))
        elif name == "grow":
            self.extra.append(tool(f"grown_{len(self.extra)}"))
            reply(id, text("grown"))
            say({"method": "notifications/tools/list_changed"})
        elif name == "pid":
            reply(id, text(str(os.getpid())))
        elif name == "env":
            reply(id, text(os.environ.get(given["name"], "absent")))
        elif name == "big":
            reply(id, text("b" * (9 << 20)))
        elif name == "false_output":
            reply(id, text("honest", structuredContent={"n": "not a number"}))
        elif name == "no_content":
            reply(id, {"nothing": True})
        elif name == "odd_content":
            reply(id, {"content": "text", "structuredContent": [1]})
        elif name == "only_structured":
            reply(id, {"structuredContent": {"x": 1}})
        else:
            say({"id": id, "error": {"code": -32602, "message": f"no tool {name}"}})

    def take(self, message):
        method, id = message.get("method"), message.get("id")
        if method == "initialize" and self.kind != "mute":
            if self.kind == "noisy":
                print("Welcome to the noisy server!\n{not json\n[1,2]\n", flush=True)
                say({"id": "q1", "method": "ping"})
                say({"id": "q2", "method": "roots/list"})
                say({"id": "q3", "method": "sampling/createMessage", "params": {}})
                say({"id": 999, "result": {}})
            reply(id, {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                       "serverInfo": {"name": self.kind, "version": "1"}})
        elif method == "tools/list":
            if self.kind == "flood":
                while True:
                    say({"method": "notifications/message", "params": {"level": "info", "data": "f" * 10_000}})
            if self.kind == "late" and self.extra:
                return
            reply(id, {"tools": self.tools()})
        elif method == "tools/call":
            self.call(id, message["params"])
            if self.kind == "deaf":
                while True:
                    say({"id": 1, "method": "ping"})
        elif self.kind == "noisy" and not method:
            with open(os.environ["NOISY_TRACE"], "a") as file:
                file.write(json.dumps(message) + "\n")


@contextlib.contextmanager
def serving(server):
    """An HTTP server, in a thread of its own for so long."""
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextlib.contextmanager
def over_http(answer, tls=None):
    """A server on the network: answer(message, headers) gives a status and the messages of a stream; or None, and
    then it is as good as any. What it was sent is in its `posts`. tls: the context of one that speaks TLS."""
    import http.server  # the programs start sooner without it

    good = {"initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}},
            "tools/list": {"tools": [tool("echo")]}, "tools/call": text("good")}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.posts.append(message)
            usual = {"jsonrpc": "2.0", "id": message.get("id"), "result": good.get(message.get("method"))}
            status, said = answer(message, self.headers) or (200 if "method" in message else 202, [usual])
            self.send_response(status)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            with contextlib.suppress(ConnectionError):  # the hub leaves when it has its answer, or no more time
                for one in said:
                    self.wfile.write(f"data: {json.dumps(one)}\n\n".encode())

        def setup(self):
            if tls:
                self.request = tls.wrap_socket(self.request, server_side=True)
            super().setup()

        def log_message(self, *_):
            pass

    class Server(http.server.ThreadingHTTPServer):
        def handle_error(self, *_):
            """A handshake that the client breaks off."""

    server = Server(("127.0.0.1", 0), Handler)
    server.posts, server.url = [], f"http://127.0.0.1:{server.server_port}/mcp"
    with serving(server):
        yield server


def main():
    kind = sys.argv[1]
    if kind == "stillborn":
        sys.exit("the library libmissing.so is not there")
    server = Server(kind)
    for line in sys.stdin:
        server.take(json.loads(line))


if __name__ == "__main__":
    main()
