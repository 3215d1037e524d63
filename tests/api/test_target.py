"""The target of a request: a path, or an absolute URL whose authority must be one."""

import pytest

from harness import request

MALFORMED = ["http://[::1", "http://[::1/health", "http://[::1]x/health", "http://a b/".replace(" ", "%20"),
             "http://user@localhost/health", "http:///health", "http://localhost:99999/health", "http://?x=/health"]


@pytest.mark.parametrize("target", MALFORMED)
def test_a_malformed_authority_is_a_bad_request(server, target):
    with server.connect() as peer:
        assert peer.ask(request(target)).status == 400


@pytest.mark.parametrize("target", ["http://[::1]/health", "http://localhost:80/health?x=/y", "HTTP://Localhost/health"])
def test_a_whole_authority_is_none_of_the_path(server, target):
    with server.connect() as peer:
        assert peer.ask(request(target)).body == b"OK"


def test_a_path_is_not_looked_for_in_the_query(server):
    with server.connect() as peer:  # the page at "/", not /health
        assert peer.ask(request("http://localhost?x=/health")).status == 307
