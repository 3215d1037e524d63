"""The network of the default box under `make run`: full where this machine has it; else none, and why."""

import os
import re
import shutil
import subprocess

import pytest

from harness import ROOT
from hosts import Host, folder, machine

if not shutil.which("ip") or not os.path.exists("/usr/sbin/nft"):
    pytest.skip("NOT TESTED: networks of boxes need ip and nft", allow_module_level=True)


class WithoutNft(Host):
    """On a machine without nftables, as far as this host sees."""

    before = ("unshare", "--mount", "sh", "-c", 'mount --bind /dev/null /usr/sbin/nft && exec "$@"', "sh")

    def start(self):
        machine.lend(self.state)
        super().start()


def network(host):
    return host.api("GET", "/v1/sandboxes/default")["network"]["mode"]


def ready(host):
    return host.out_path.read_text()


@pytest.fixture
def started():
    hosts = []

    def start(kind=Host, args=("--network", "auto")):
        hosts.append(host := kind(folder(), args))
        assert host.default().run("echo $AIO_SANDBOX_NETWORK").strip() == network(host)
        return host, ready(host), network(host)

    yield start
    for host in hosts:
        host.end()


def test_full_where_it_can_be_had_and_only_for_a_box_that_is_made(started):
    host, said, mode = started()
    assert mode == "full" and "box 'default', network full: public addresses only;" in said
    assert 'the mode "full"' in host.client.get("/llms.txt").text
    assert host.create().data["network"] is None
    host.api("DELETE", "/v1/sandboxes/default")  # which the host makes again
    assert network(host) == "full"
    host.stop()
    host.args = ["--network", "none"]  # of a new one
    host.start()
    assert network(host) == "full" and "network full" in ready(host)


def test_a_box_from_before_keeps_what_it_has(started):
    host, said, mode = started(args=())
    assert mode == "none" and "box 'default', without a network;" in said
    host.stop()
    host.args = ["--network", "auto"]
    host.start()
    assert network(host) == "none" and "box 'default', without a network, as it was made;" in ready(host)


def test_none_where_full_does_not_work(started):
    host, said, mode = started(WithoutNft)
    assert mode == "none"
    assert re.search(r"box 'default', without a network: .*install nftables; ", said), said
    assert host.logged("the box 'default' is made without a network: ")


@pytest.mark.parametrize("given, wanted", [({}, "auto"), ({"NETWORK": "none"}, "none"), ({"AIO_NETWORK": "allow"}, "allow")])
def test_what_make_run_asks_for(given, wanted):
    clean = {name: value for name, value in os.environ.items() if name not in ("NETWORK", "AIO_NETWORK", "MAKEFLAGS")}
    plan = subprocess.run(["make", "-n", "run"], cwd=ROOT, env={**clean, **given}, capture_output=True, text=True)
    assert re.search(rf"aio up .*--network {wanted}$", plan.stdout, re.M), plan.stderr
