"""A default box that needs a key: who has the host's token is given it, and nobody else."""

import base64

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

KEYS = {"SANDBOX_API_KEY": "the-operators-key", "AUTH_TOKEN": "the-operators-token"}


@pytest.mark.parametrize("name", KEYS)
def test_root_uses_it_from_the_command_line(start_host, name):
    host = start_host(env={name: KEYS[name]})
    assert host.cli("exec", "default", "echo works").stdout == "works\n"
    assert "echo works" in host.cli("events", "default", "--inside").stdout
    assert KEYS[name] in host.cli("inspect", "default").stdout
    assert all(box["token"] is None for box in host.api("GET", "/v1/sandboxes")["sandboxes"])
    # Not by the box's own key, nor without one, nor in what the box itself can see.
    for headers in ({"Authorization": f"Bearer {KEYS[name]}"}, {}):
        refused = host.client.get("/v1/sandboxes/default", headers=headers)
        assert refused.status_code == 401 and KEYS[name] not in refused.text
    assert KEYS[name] not in host.cli("exec", "default", "env; cat /proc/*/environ | tr '\\0' '\\n'").stdout


def test_where_only_a_jwt_opens_it_the_command_line_says_so(start_host):
    pem = ed25519.Ed25519PrivateKey.generate().public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    host = start_host(env={"JWT_PUBLIC_KEY": base64.b64encode(pem).decode()})
    done = host.cli("exec", "default", "true", check=False)
    assert done.returncode == 1 and "only a JWT" in done.stderr and "JWT_PUBLIC_KEY" in done.stderr, done
