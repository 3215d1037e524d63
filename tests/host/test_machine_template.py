"""The template of the machine's own programs, when a box has to make it again."""

import ctypes
import os

CREATED, DELETED = 0x100, 0x200  # the kernel merges two events of one kind, so both are asked for
libc = ctypes.CDLL(None, use_errno=True)


def test_it_is_built_once_by_the_process_that_makes_a_box(start_host):
    """That process has the other half of the work done by a second one, and must learn how it went."""
    host = start_host()
    for made in list(host.state.glob("machine-*")):
        made.rename(host.state / f"away-{made.name}")  # the default box keeps what it has mounted
    events = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    assert libc.inotify_add_watch(events, os.fsencode(host.state), CREATED | DELETED) > 0
    box = host.create()
    box.run("true")
    assert next(host.state.glob("machine-*/root/etc/passwd"))
    assert os.read(events, 1 << 16).count(b".machine.new\0") == 1
    os.close(events)
    box.delete()
