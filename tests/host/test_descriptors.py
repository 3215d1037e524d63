"""Connections that end while the host starts programs, which have its descriptors too until they are run."""

import contextlib
import os
import shutil
import threading

import pytest

from harness import request

if not shutil.which("ip") or not os.path.exists("/usr/sbin/nft"):
    pytest.skip("NOT TESTED: networks of boxes need ip and nft", allow_module_level=True)


def test_the_end_of_a_connection_while_a_program_is_started(host):
    """The host hears no more of what it has closed: AddressSanitizer tells if it does."""
    over = threading.Event()

    def come_and_go():
        while not over.is_set():
            with contextlib.suppress(OSError), host.connect() as peer:
                peer.send(request("/v1/sandbox"))
                peer.half_close()
                peer.rest()

    threads = [threading.Thread(target=come_and_go) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):  # whose networks take several programs each
            host.create(network={"mode": "full"}).delete()
    finally:
        over.set()
        for thread in threads:
            thread.join()
    host.check()
