"""What the server counts."""
import re

import pytest

from mcp_peer import Peer


def open_sessions(server):
    text = server.get("/metrics").text
    return {kind: int(count) for kind, count in re.findall(r'^aio_sessions\{kind="(\w+)"\} (\d+)$', text, re.M)}


@pytest.mark.parametrize("kind, path", [
    ("shell", "/v1/shell/sessions/create"),
    ("bash", "/v1/bash/sessions/create"),
    ("nodejs", "/v1/nodejs/sessions"),
    ("watch", "/v1/file/watch"),
])
def test_every_kind_of_session_is_counted(start_server, kind, path):
    server = start_server()
    before = open_sessions(server)
    answer = server.post(path, json={"path": str(server.home)} if kind == "watch" else {})
    assert answer.status_code == 200, answer.text
    assert open_sessions(server) == before | {kind: before[kind] + 1}
    server.stop()  # the open session ends with it


def test_clients_of_mcp_are_counted(start_server):
    server = start_server()
    before = open_sessions(server)
    peer = Peer(server)
    peer.initialize()
    assert open_sessions(server) == before | {"mcp": before["mcp"] + 1}
    peer.close()
    assert open_sessions(server) == before
