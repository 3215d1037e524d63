"""What the host's API refuses, and how it says it: in one shape, with what to do instead."""

import os

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


@pytest.mark.parametrize("url, name", [
    ("https://example.com/simple", "example.com"), ("http://example.com", "example.com"),
    ("https://example.com:8443/a?b", "example.com:8443"), ("example.com/simple", "example.com")])
def test_a_url_is_not_a_name_and_the_error_says_which_is(host, url, name):
    got = post(host, {"network": {"allow": [url]}})
    assert got.status_code == 422 and problem(got).endswith(f"give the host name: {name}") and url in problem(got), got.text
    done = host.cli("create", "--allow", url, check=False)
    assert done.returncode != 0 and f"give the host name: {name}" in done.stderr, done


@pytest.mark.parametrize("url", ["https://example.com/simple", "-a.org"])
def test_the_same_for_the_default_box(start_host, url):
    with pytest.raises(AssertionError) as caught:
        start_host(["--network", "allow", "--allow", url])
    assert "--allow: " in str(caught.value) and url in str(caught.value)


def in_words(size):
    return f"{size / 2**40:.1f}T" if size >= 2**40 else f"{size / 2**30:.1f}G"


def test_a_disk_larger_than_the_disk(host):
    there = os.statvfs(host.state)
    size = there.f_blocks * there.f_frsize
    for asked in ("900T", size + (1 << 30)):
        got = post(host, {"limits": {"disk": asked}})
        assert got.status_code == 422 and is_refusal(got), got.text
        assert problem(got).startswith("limits.disk: ") and f"has {in_words(size)}" in problem(got), problem(got)
    done = host.cli("create", "--disk", "900T", check=False)
    assert done.returncode != 0 and "900.0T" in done.stderr and in_words(size) in done.stderr, done
