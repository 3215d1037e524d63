"""Of every endpoint, all that is answered 422 has the same shape, whoever refuses: a field's table or the handler."""

import pytest

from harness import LEAN
from refusals import is_refusal, of_document, problem

pytestmark = pytest.mark.server(env={**LEAN, "DISABLE_BROWSER": "true"})  # what is refused starts nothing


def test_every_field_of_every_endpoint_is_refused_in_one_shape(server):
    document, seen, odd = server.get("/openapi.json").json(), set(), []
    for method, path, query, body in of_document(document):
        answer = server.request(method.upper(), path, params=query, json=body)
        if answer.status_code == 422:
            seen.add((method, path))
            if not is_refusal(answer):
                odd.append((method, path, query, body, answer.text[:300]))
    assert not odd, odd[:5]
    assert len(seen) > 40


@pytest.mark.parametrize("method, path, body, says", [
    ("POST", "/v1/code/execute", {"language": "cobol", "code": "1"}, "cobol"),
    ("POST", "/v1/nodejs/execute", {"code": "1", "version": "latest"}, "version"),
    ("POST", "/v1/bash/exec", {"command": "true", "env": {"A=B": "c"}}, "variable"),
    ("POST", "/v1/mcp/sandbox/tools/sandbox_get_context", [1], "object"),
    ("GET", "/v1/sandbox/events?since=nonsense", None, "nonsense"),
])
def test_what_a_handler_refuses_has_that_shape_too(server, method, path, body, says):
    answer = server.request(method, path, **({} if body is None else {"json": body}))
    assert answer.status_code == 422, answer.text
    assert is_refusal(answer) and says in problem(answer), answer.text
    where = "query" if method == "GET" else "body"
    assert answer.json()["detail"][0]["loc"][0] == where
