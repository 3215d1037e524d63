"""Other MCP servers for the hub: good ones and bad ones. Run as a program it is one, on its standard
input and output; the first argument says how it behaves.

    good     echo, add, slow (with progress), grow (a tool more)     crash    dies when a tool is called
    stillborn  dies at once, with a last word                        hang     answers nothing but initialize
    mute     does not even answer initialize                         flood    writes without end
    huge     answers with one enormous message                       liar     its schemas are nonsense
    noisy    prints what is no message, and asks us things
"""

import json
import os
import sys
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
            reply(id, {"tools": self.tools()})
        elif method == "tools/call":
            self.call(id, message["params"])
        elif self.kind == "noisy" and not method:
            with open(os.environ["NOISY_TRACE"], "a") as file:
                file.write(json.dumps(message) + "\n")


def main():
    kind = sys.argv[1]
    if kind == "stillborn":
        sys.exit("the library libmissing.so is not there")
    server = Server(kind)
    for line in sys.stdin:
        server.take(json.loads(line))


if __name__ == "__main__":
    main()
