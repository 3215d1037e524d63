"""A credential that is for something else: whoever holds it is told so, and nobody else learns anything."""

import pytest


def sent(way, token):
    return {"bearer": {"headers": {"Authorization": f"Bearer {token}"}}, "key": {"headers": {"X-AIO-API-Key": token}},
            "query": {"params": {"api_key": token}}}[way]


def refused(host, path, at=None, headers=None, **more):
    got = host.client.get(path, headers={**(headers or {}), **({"x-aio-sandbox": at} if at else {})}, **more)
    assert got.status_code == 401, got.text
    return got.json()["detail"]


def test_the_lifecycle_api_says_which_token_and_where_it_is(host):
    for more in ({}, sent("bearer", "wrong"), sent("query", "wrong")):
        said = refused(host, "/v1/sandboxes", **more)
        assert "the host's token" in said and f"{host.state}/token" in said and host.token not in said


@pytest.mark.parametrize("way", ["bearer", "key", "query"])
def test_a_token_of_a_box_is_not_the_hosts(host, box, way):
    said = refused(host, "/v1/sandboxes", **sent(way, box.token))
    assert "token of a sandbox" in said and f"{host.state}/token" in said and box.id not in said


@pytest.mark.parametrize("way", ["bearer", "key", "query"])
def test_the_hosts_token_is_not_a_boxs(host, box, way):
    said = refused(host, "/v1/sandbox", box.id, **sent(way, host.token))
    assert "the host's token" in said and f"GET /v1/sandboxes/{box.id}" in said
    absent = "z" + box.id[1:]
    assert said.replace(box.id, absent) == refused(host, "/v1/sandbox", absent, **sent(way, host.token))


@pytest.mark.parametrize("way", ["bearer", "key", "query"])
def test_a_token_of_another_box(host, box, way):
    other = host.create()
    said = refused(host, "/v1/sandbox", box.id, **sent(way, other.token))
    assert "token of another sandbox" in said and other.id not in said
    other.delete()


def test_a_text_that_is_no_token_is_just_wrong(host, box):
    said = refused(host, "/v1/sandbox", box.id, **sent("bearer", box.token[:-1]))
    assert "wrong API key" in said and "another" not in said


@pytest.mark.parametrize("named", [False, True])
def test_the_explorer_explains_both(host, box, named):
    got = host.client.get("/openapi.json", headers=box.headers if named else {}).json()
    schemes = got["components"]["securitySchemes"]
    for scheme in ("bearer", "apiKey"):
        said = schemes[scheme]["description"]
        assert "sandbox's token" in said and "host's token" in said and "/v1/sandboxes" in said
