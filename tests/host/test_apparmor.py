"""The profile that lets programs in boxes make user namespaces on Ubuntu 23.10 and later."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

PROFILE = Path(__file__).parents[2] / "share/apparmor/aiobox"


def test_the_profile_is_one():
    """What AppArmor's own compiler says; nothing is loaded."""
    parser = shutil.which("apparmor_parser", path="/usr/sbin:/sbin:/usr/bin:/bin")
    said = subprocess.run([parser, "--version"], capture_output=True, text=True).stdout if parser else ""
    version = re.search(r"version (\d+)", said)
    if not version or int(version.group(1)) < 4 or not os.path.exists("/etc/apparmor.d/abi/4.0"):
        pytest.skip("NOT TESTED: apparmor_parser 4 is not here, and older ones do not know 'userns'")
    done = subprocess.run([parser, "-Q", "-K", "-N", PROFILE], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.split() == ["aiobox"], done


def test_the_host_says_what_to_do_where_user_namespaces_are_restricted(host):
    sysctl = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
    restricted = sysctl.exists() and sysctl.read_text().strip() == "1"
    assert ("AppArmor" in host.log) == restricted
