"""A box that logs without end: the host writes a little of it, and keeps its other boxes' time."""

import contextlib
import fcntl
import os
import threading
import time

from harness import SETTLE_SECONDS, eventually

SECOND, BURST, MARGIN = 512 << 10, 1 << 20, 1 << 20  # bytes: keeper.c has the first two
F_SETPIPE_SZ = 1031


def log_end(box):
    """The descriptor that its server logs to, as that process itself could use it."""
    first = box.first_process()
    with open(f"/proc/{first}/task/{first}/children") as file:
        return os.open(f"/proc/{file.read().split()[0]}/fd/2", os.O_WRONLY | os.O_NONBLOCK)


def log_of(host, box):
    return b"".join(path.read_bytes() for path in (host.state / "log").glob(f"{box.id}.log*"))


def test_a_flood_of_logs_is_bounded(host):
    box, neighbour = host.create(), host.create(timeout=3)
    end, stop = log_end(box), threading.Event()
    before = len(log_of(host, box))

    def flood():
        line = b"x" * 65535 + b"\n"
        while not stop.is_set():
            with contextlib.suppress(OSError):  # it is full, or larger than that by now
                fcntl.fcntl(end, F_SETPIPE_SZ, 1 << 20)
                while not stop.is_set():
                    os.write(end, line)
            stop.wait(0.001)

    begin = time.monotonic()
    writer = threading.Thread(target=flood)
    writer.start()
    try:
        assert eventually(lambda: neighbour.id not in host.ids())
        late = time.monotonic() - begin - 3
        assert host.default().run("echo well") == "well\n"
        most = BURST + SECOND * (time.monotonic() - begin) + MARGIN
        assert 0 < len(log_of(host, box)) - before < most, (len(log_of(host, box)), most)
    finally:
        stop.set()
        writer.join()
    assert late < SETTLE_SECONDS
    # How much is missing is said once in a while, and what comes later is there again.
    assert eventually(lambda: b"bytes of log dropped" in log_of(host, box))
    assert log_of(host, box).count(b"bytes of log dropped") <= 2 + time.monotonic() - begin

    def calm():
        with contextlib.suppress(BlockingIOError):
            os.write(end, b"\ncalm again\n")
        return "\ncalm again\n" in box.logs()

    assert eventually(calm)
    os.close(end)
    assert box.run("echo still") == "still\n"
    box.delete()


def test_the_host_logs_what_happens_to_a_box(host):
    box = host.create(name="logged")
    box.call("POST", "/pause")
    box.call("POST", "/resume")
    box.kill()
    assert eventually(lambda: box.state == "stopped")
    box.call("POST", "/resume")
    box.delete()
    lines = [line.partition(" info ")[2] for line in host.log.splitlines() if " box id=logged " in line]
    assert lines == ["box id=logged event=created template=machine", "box id=logged event=started",
                     "box id=logged event=paused why=asked", "box id=logged event=resumed",
                     "box id=logged event=exited", "box id=logged event=started",
                     "box id=logged event=deleted why=asked"]
