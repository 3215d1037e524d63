"""Notebooks: what their tests share. Channels is a client of Jupyter, on the WebSocket of a kernel."""

import json
import struct
import uuid

from harness import ANSWER_SECONDS, START_SECONDS, connect

V1 = "v1.kernel.websocket.jupyter.org"
API = "/jupyter/api"
PARTS = ("header", "parent_header", "metadata", "content")


class Channels:
    def __init__(self, server, kernel, v1=False, **more):
        url = server.url.replace("http", "ws", 1)
        self.held = []  # messages that came before one that was waited for
        self.v1, self.session = v1, uuid.uuid4().hex
        self.connection = connect(f"{url}{API}/kernels/{kernel}/channels?session_id={self.session}", max_size=None,
                                  **{"subprotocols": [V1] if v1 else None, **more})
        self.ws = self.connection.__enter__()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.__exit__(None, None, None)

    def send(self, kind, content, channel="shell", buffers=()):
        """The id of the message."""
        header = {"msg_id": uuid.uuid4().hex, "msg_type": kind, "session": self.session, "username": "tester",
                  "date": "2026-01-31T12:00:00.000000Z", "version": "5.3"}
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content}
        self.ws.send(self.pack(channel, message, buffers))
        return header["msg_id"]

    def pack(self, channel, message, buffers):
        if self.v1:
            pieces = [channel.encode(), *(json.dumps(message[part]).encode() for part in PARTS), *buffers]
            offsets = [8 * (len(pieces) + 2)]
            for piece in pieces:
                offsets.append(offsets[-1] + len(piece))
            return struct.pack(f"<{len(offsets) + 1}Q", len(offsets), *offsets) + b"".join(pieces)
        text = json.dumps({"channel": channel, **message})
        if not buffers:
            return text
        pieces = [text.encode(), *buffers]
        offsets = [4 * (len(pieces) + 1)]
        for piece in pieces[:-1]:
            offsets.append(offsets[-1] + len(piece))
        return struct.pack(f">{len(offsets) + 1}I", len(pieces), *offsets) + b"".join(pieces)

    def unpack(self, data):
        if self.v1:
            count = struct.unpack_from("<Q", data)[0]
            at = struct.unpack_from(f"<{count}Q", data, 8)
            pieces = [data[start:end] for start, end in zip(at, at[1:])]
            return {"channel": pieces[0].decode(), **dict(zip(PARTS, map(json.loads, pieces[1:]))), "buffers": pieces[5:]}
        if isinstance(data, str):
            return json.loads(data)
        count = struct.unpack_from(">I", data)[0]
        at = [*struct.unpack_from(f">{count}I", data, 4), len(data)]
        pieces = [data[start:end] for start, end in zip(at, at[1:])]
        return {**json.loads(pieces[0]), "buffers": pieces[1:]}

    def next(self, timeout=20):
        if self.held:
            return self.held.pop(0)
        message = self.unpack(self.ws.recv(timeout))
        if not self.v1:  # those of v1 have no other place for it
            assert message["msg_type"] == message["header"]["msg_type"], message
        return message

    def until(self, kind, parent=None, **content):
        """The first message of a kind, of a request, with this in its content; and all that came before it."""
        before = []
        while True:
            message = self.next()
            mine = parent is None or message["parent_header"].get("msg_id") == parent
            if message["header"]["msg_type"] == kind and mine and content.items() <= message["content"].items():
                return message, before
            before.append(message)

    def info(self):
        """Waits until the kernel has answered: it hears this client from now on."""
        return self.until("kernel_info_reply", self.send("kernel_info_request", {}))[0]["content"]

    def begin(self, code, **more):
        """Has code run; the id of the request, once it is running."""
        request = self.send("execute_request", {
            "code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": True,
            "stop_on_error": True, **more})
        self.held = self.until("execute_input", request)[1]
        return request

    def end(self, request):
        """The reply, and the outputs until then."""
        reply = outputs = idle = None
        outputs = []
        while not (reply and idle):
            message = self.next(START_SECONDS)
            if message["parent_header"].get("msg_id") != request:
                continue
            kind, content = message["header"]["msg_type"], message["content"]
            if kind == "execute_reply":
                reply = content
            elif kind == "status":
                idle = content["execution_state"] == "idle"
            else:
                outputs.append((kind, content))
        return reply, outputs

    def run(self, code, **more):
        return self.end(self.begin(code, **more))

    def value(self, code):
        reply, outputs = self.run(code)
        assert reply["status"] == "ok", reply
        return next(content["data"]["text/plain"] for kind, content in outputs if kind == "execute_result")


def kernels(server):
    return server.get(f"{API}/kernels").json()


def kernel(server, name):
    answer = server.get(f"{API}/kernels/{name}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def open_notebook(server, path, **kernel):
    answer = server.post(f"{API}/sessions", {"path": path, "name": path.rpartition("/")[2], "type": "notebook",
                                             "kernel": kernel})
    assert answer.status_code == 201, answer.text
    return answer.json()


def notebooks(server):
    return server.get(f"{API}/sessions").json()
