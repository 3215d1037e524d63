"""What a box sees of the machine's devices in /sys: its processors and its own network, nothing else."""

import pytest

from escape.boxes import Refused


def test_no_disk_of_a_neighbour_or_of_the_machine_is_seen(farm, start_box, root):
    try:
        neighbour = start_box(disk=64 << 20)  # on a loop device, where there is no quota
    except Refused as why:
        pytest.skip(f"NOT TESTED: {why}")
    box = start_box()
    files = box.run("find /sys /sys/ -name backing_file -o -path '*/block/*' 2>/dev/null", root)["stdout"]
    assert files == ""
    text = box.run("timeout 60 grep -rIs -m1 '' /sys --include=backing_file --include=serial --include=uevent", root)["stdout"]
    assert neighbour.id not in text and str(farm.state) not in text and "DEVTYPE=disk" not in text
    assert box.out("ls -A /sys/block /sys/class/block /sys/dev/block | grep -v : || true", root).strip() == ""


def test_processors_and_interfaces_are_seen(box, root):
    assert int(box.out("cat /sys/devices/system/cpu/online | tr ',-' '\\n\\n' | tail -n 1", root)) >= 0
    assert box.out("cat /sys/class/net/lo/operstate; ls /sys/devices | wc -l; ls /sys/devices/virtual", root).split() == [
        "unknown", "2", "net"]
    assert box.run("echo 9000 > /sys/devices/virtual/net/lo/mtu", root)["exit_code"] != 0
    assert box.run("touch /sys/devices/x", root)["exit_code"] != 0


def test_programs_that_look_at_devices_run(box):
    for command in ("lsblk", "lscpu", "nproc", "numactl -H", "lspci", "/usr/bin/python3 -c 'import os; print(os.cpu_count())'"):
        if box.run(f"command -v {command.split()[0]}")["exit_code"] == 0:
            done = box.run(f"{command} 2>&1")
            assert done["exit_code"] in ((0, 1) if command == "lspci" else (0,)), (command, done)
