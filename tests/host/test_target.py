"""The target of a request is read by the host as its boxes' servers read it."""

import pytest
from harness import request


@pytest.mark.parametrize("target", ["http://[::1", "http://[::1/health", "http://user@localhost/health", "http://?x=/health"])
def test_a_malformed_authority_is_a_bad_request(host, target):
    with host.connect() as peer:
        assert peer.ask(request(target)).status == 400


def test_the_query_of_a_bare_authority_names_no_path(host):
    with host.connect() as peer:
        assert peer.ask(request("http://localhost/health")).body == b"OK"
        assert peer.ask(request("http://localhost?x=/health")).body != b"OK"
