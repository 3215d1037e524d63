"""The outbound proxy of a box: in its own network, for its own user, and no way round."""

PROXY = "http://127.0.0.1:8118"


def execute(box, command):
    answer = box.request("POST", "/v1/bash/exec", json={"command": command}, timeout=120)
    return answer.json()["data"]["stdout"]


def test_a_box_has_a_proxy_that_gives_no_more_than_it_has(host, box):
    assert box.request("GET", "/v1/proxy/health").json()["data"]["healthy"] is True
    assert box.request("POST", "/v1/proxy/mappings", json={"source": "me.test", "target": ":8080"}).status_code == 200
    shown = box.request("PUT", "/v1/proxy/upstream", json={"server": "10.0.0.1:1", "auth_cmd": "echo a:secret"})
    assert shown.json()["data"] == {"addr": "10.0.0.1:1", "username": "a", "password": "***"}
    assert f"http_proxy={PROXY}\n" in execute(box, "env")
    # The box's server asks what it asks of any program: a name of its own.
    assert "is not a name of this server" in execute(box, "curl -sS http://me.test/v1/sandbox")
    # Its network is none: the proxy has no other.
    assert "10.0.0.1:1" in execute(box, "curl -sS http://packages.example.com/")
    assert "Only the sandbox user" in execute(box, f"sudo -u nobody curl -sS -x {PROXY} http://x/")
    assert "secret" not in execute(box, "env; cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
