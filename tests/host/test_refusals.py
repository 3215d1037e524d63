"""What the host's API refuses, and how it says it: in one shape, with what to do instead."""

import pytest

from refusals import is_refusal, of_document, problem


def post(host, body, path="/v1/sandboxes"):
    return host.client.post(path, headers=host.auth, json=body)


def test_every_field_of_the_host_is_refused_in_one_shape(host):
    seen, odd = set(), []
    for method, path, query, body in of_document(host.client.get("/openapi.json").json()):
        answer = host.client.request(method.upper(), path, headers=host.auth, params=query, json=body)
        if answer.status_code == 422:
            seen.add((method, path))
            if not is_refusal(answer):
                odd.append((method, path, query, body, answer.text[:300]))
    assert not odd, odd[:5]
    assert len(seen) >= 5, seen


@pytest.mark.parametrize("body, says", [
    ({"network": {"allow": ["a b"]}}, "network.allow: 'a b'"), ({"env": {"A=B": "c"}}, "env: 'A=B'"),
    ({"network": {"mode": "full", "allow": ["example.com"]}}, "network.allow"),
    ({"mounts": [{"source": "/etc", "target": "/mnt"}]}, "/etc"), ({"limits": {"memory": "1M"}}, "16M"),
    ({"metadata": {str(n): "x" for n in range(65)}}, "64 labels"), ({"name": 5}, "string"),
    ({"template": {}}, "string"), ({"netwrok": {}}, "network")])
def test_a_spec_that_is_refused(host, body, says):
    got = post(host, body)
    assert got.status_code == 422 and is_refusal(got), got.text
    assert says in problem(got) and got.json()["detail"][0]["loc"][0] == "body"


def test_a_template_that_cannot_be_imported(host):
    got = post(host, {"name": "t", "source": "/etc/passwd"}, "/v1/templates")
    assert got.status_code == 422 and is_refusal(got), got.text
