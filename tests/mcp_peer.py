"""Speaking MCP by hand: messages over HTTP, and streams of events as they come."""

import itertools
import json
import threading

import httpx

from harness import ANSWER_SECONDS, LEAN

FIXTURE = {"FIXTURE_MCP": "1", **LEAN}  # the environment of a fixture program that has tools of its own
SESSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
MODERN = "2026-07-28"
BOTH = "application/json, text/event-stream"
META = "io.modelcontextprotocol/"


class RpcError(Exception):
    def __init__(self, error, status):
        super().__init__(error)
        self.code, self.message, self.data = error["code"], error["message"], error.get("data")
        self.status = status


class EventStream:
    """The events of an answer: each a dictionary with `id`, `event`, `data` and `retry` where it has them."""

    def __init__(self, answer):
        self.answer, self.lines = answer, answer.iter_lines()
        assert answer.status_code == 200, (answer.status_code, answer.read())
        assert answer.headers["content-type"].startswith("text/event-stream"), answer.headers

    def __iter__(self):
        return self

    def __next__(self):
        event = {}
        for line in self.lines:
            if line.startswith(":"):
                continue
            if not line and event:
                return event
            if line:
                name, _, value = line.partition(":")
                value = value.removeprefix(" ")
                event[name] = f"{event[name]}\n{value}" if name in event else value
        raise StopIteration

    def message(self, wanted=lambda message: True):
        """The next message that is wanted, of those that have data."""
        for event in self:
            if event.get("data"):
                message = json.loads(event["data"])
                if wanted(message):
                    return message
        raise AssertionError("the stream has ended")


class Peer:
    """A client: of a session after initialize(), of none before, of the stateless revision if modern."""

    def __init__(self, server, path="/mcp", modern=False, capabilities=None, headers=None):
        self.server, self.path, self.modern = server, path, modern
        self.capabilities = capabilities or {}
        self.headers, self.ids = {"Accept": BOTH, **(headers or {})}, itertools.count(1)
        self.session = self.version = None

    def client(self, timeout=ANSWER_SECONDS):
        return httpx.Client(
            base_url=self.server.url, timeout=timeout, trust_env=False,
            transport=httpx.HTTPTransport(limits=httpx.Limits(max_keepalive_connections=0), verify=False))

    def head(self, message=None, **more):
        head = dict(self.headers)
        if self.session:
            head["Mcp-Session-Id"] = self.session
        if self.version:
            head["MCP-Protocol-Version"] = self.version
        if self.modern and message:
            head |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": message["method"]}
            params = message.get("params", {})
            name = params.get("uri") if message["method"] == "resources/read" else params.get("name")
            if name is not None and message["method"] in ("tools/call", "prompts/get", "resources/read"):
                head["Mcp-Name"] = name
        return head | {name.replace("_", "-"): value for name, value in more.items()}

    def build(self, method, params=None, id=None, meta=None):
        message = {"jsonrpc": "2.0", "id": next(self.ids) if id is None else id, "method": method}
        if self.modern:
            meta = {META + "protocolVersion": MODERN, META + "clientCapabilities": self.capabilities,
                    **(meta or {})}
        if params is not None or meta:
            message["params"] = {**(params or {}), **({"_meta": meta} if meta else {})}
        return message

    def send(self, message, timeout=ANSWER_SECONDS, **headers):
        with self.client(timeout) as client:
            return client.post(self.path, content=json.dumps(message).encode(),
                               headers={"Content-Type": "application/json", **self.head(message if
                                        isinstance(message, dict) and "method" in message else None, **headers)})

    def read(self, answer, id):
        """The message with this id in an answer, which is JSON or events."""
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            for event in answer.text.split("\n\n"):
                data = "\n".join(line[6:] for line in event.split("\n") if line.startswith("data: "))
                message = json.loads(data) if data.strip() else {}
                if message.get("id") == id and "method" not in message:
                    return message
            raise AssertionError(f"no answer to {id} in {answer.text!r}")
        return answer.json()

    def ask(self, method, params=None, timeout=ANSWER_SECONDS, meta=None, **headers):
        """The result of a request; an RpcError when there is none."""
        message = self.build(method, params, meta=meta)
        answer = self.send(message, timeout, **headers)
        reply = self.read(answer, message["id"])
        if "error" in reply:
            raise RpcError(reply["error"], answer.status_code)
        assert answer.status_code == 200 and reply["id"] == message["id"], answer.text
        return reply["result"]

    def tell(self, method, params=None):
        message = {"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})}
        answer = self.send(message)
        assert (answer.status_code, answer.content) == (202, b""), answer.text

    def initialize(self, version="2025-11-25"):
        message = self.build("initialize", {"protocolVersion": version, "capabilities": self.capabilities,
                                            "clientInfo": {"name": "test", "version": "1"}})
        answer = self.send(message)
        assert answer.status_code == 200, answer.text
        self.session, result = answer.headers["mcp-session-id"], answer.json()["result"]
        self.version = result["protocolVersion"]
        self.tell("notifications/initialized")
        return result

    def close(self):
        if self.session:
            with self.client() as client:
                answer = client.delete(self.path, headers=self.head())
                assert answer.status_code == 204, answer.text
            self.session = None

    def __enter__(self):
        if not self.modern:
            self.initialize()
        return self

    def __exit__(self, *_):
        self.close()

    def call(self, tool, /, **arguments):
        return self.ask("tools/call", {"name": tool, "arguments": arguments}, 110)

    def text(self, tool, /, **arguments):
        """The text of a tool's result, which must not be an error."""
        result = self.call(tool, **arguments)
        assert not result.get("isError"), result
        return result["content"][0]["text"]

    def stream(self, message=None, timeout=ANSWER_SECONDS, **headers):
        """An open stream: of a message that is sent, or else of the session. To be used with `with`."""
        return Opened(self, message, timeout, headers)


class Opened:
    def __init__(self, peer, message, timeout, headers):
        self.client = peer.client(timeout)
        if message:
            self.opening = self.client.stream("POST", peer.path, content=json.dumps(message).encode(),
                                              headers={"Content-Type": "application/json",
                                                       **peer.head(message, **headers)})
        else:
            self.opening = self.client.stream("GET", peer.path,
                                              headers=peer.head(**{"Accept": "text/event-stream", **headers}))

    def __enter__(self):
        return EventStream(self.opening.__enter__())

    def __exit__(self, *args):
        self.opening.__exit__(*args)
        self.client.close()


def progress(messages):
    """The reports of progress, each further than the one before. Those of a tool itself have a total, and go on from
    the elapsed seconds that the server may have told before."""
    reports = [message["params"] for message in messages if message.get("method") == "notifications/progress"]
    values = [params["progress"] for params in reports]
    assert all(a < b for a, b in zip(values, values[1:])), values
    return reports


def progress_left(messages):
    """What each report of a tool itself says is left to do."""
    return [round(params["total"] - params["progress"], 6) for params in progress(messages) if "total" in params]


def failed(result):
    """The text of a tool's result, which must be an error."""
    assert result["isError"] is True, result
    return result["content"][0]["text"]


def in_thread(function):
    """Runs it beside the test; call the returned function for what it returned."""
    box = {}

    def run():
        try:
            box["result"] = function()
        except BaseException as problem:  # for the one who waits
            box["problem"] = problem

    thread = threading.Thread(target=run)
    thread.start()

    def wait(seconds=110):
        thread.join(seconds)
        assert not thread.is_alive(), "it does not end"
        if "problem" in box:
            raise box["problem"]
        return box["result"]

    return wait
