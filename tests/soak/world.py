"""What a soak knows: the boxes that were acknowledged and what was written to them, all that was done, and what excuses
a request that fails."""

import contextlib
import re
import threading
import time
from collections import Counter, defaultdict, deque

from hosts import Box

# How a request may fail that was in flight while this happened. Nothing else may fail, and nothing may go unanswered.
WAYS = {
    "host": {"closed", 502, 503},  # it was killed, or has cut what took too long when it was told to end
    "box": {"closed", 502, 503},  # a process that it cannot live without was killed
    "stopped": {409},  # the same, and paused: of a box that no request resumes
    "deleted": {"closed", 401, 404, 409, 502, 503},  # 401: nothing knows its token any more
}
MARKER = re.compile(r"mark-\d+-\d+")


class Failure(AssertionError):
    """What the host, or a box, may not do. The first one ends the soak."""


class Over(Exception):
    """Somebody else has found a failure."""


class Disturbance:
    def __init__(self, kind):
        self.kind, self.begun, self.ended = kind, time.monotonic(), None

    def was_within(self, begun):
        """Whether it was, or is, at any time since then."""
        return self.ended is None or self.ended >= begun


class Past:
    """What was done to a box, or to the host, and when."""

    def __init__(self):
        self.disturbances, self.lines = [], deque(maxlen=80)

    def since(self, begun):
        return {one.kind for one in list(self.disturbances) if one.was_within(begun)}

    def disturb(self, *kinds):
        """From now on, for good."""
        mine = [Disturbance(kind) for kind in kinds]
        self.disturbances += mine
        return mine

    @contextlib.contextmanager
    def disturbed(self, *kinds):
        """The same, for a while."""
        mine = self.disturb(*kinds)
        try:
            yield
        finally:
            for one in mine:
                one.ended = time.monotonic()


class Known(Box):
    """A box that was acknowledged. Its marker is in what it answers and in its files, which a fork has from another."""

    def __init__(self, host, data, marker, parent=None):
        super().__init__(host, data)
        self.marker, self.auto_resume, self.past = marker, data["auto_resume"], Past()
        self.markers = {marker} | (parent.markers if parent else set())
        self.turn = threading.Lock()  # of who changes or kills it; requests go on meanwhile
        self.kernel_turn = threading.Lock()
        self.files = {}  # path: what may be in it; None: it may not be there
        self.copies = []  # the same, of forks that are being made
        self.sessions = {}  # see actions.count_on
        self.told = Counter()  # acknowledged changes, which its events tell


class World:
    def __init__(self, host, seed):
        self.host, self.seed, self.begun = host, seed, time.monotonic()
        self.lock, self.over, self.up = threading.RLock(), threading.Event(), threading.Event()
        self.boxes, self.moving = {}, {}  # by id; those on their way in or out, and until when they were
        self.flying = {}  # by client: what it asks for, of which box, and since when
        self.past, self.failures = Past(), []
        self.counts, self.kills, self.seconds, self.peaks = Counter(), Counter(), defaultdict(list), Counter()
        self.numbers = 0
        self.up.set()

    def number(self):
        with self.lock:
            self.numbers += 1
            return self.numbers

    def add(self, box):
        with self.lock:
            self.boxes[box.id] = box

    def forget(self, box):
        with self.lock:
            self.boxes.pop(box.id, None)

    @contextlib.contextmanager
    def on_the_way(self, name):
        """While it may be listed or not."""
        with self.lock:
            self.moving[name] = None
        try:
            yield
        finally:
            with self.lock:
                self.moving[name] = time.monotonic()

    def ids(self, since=None):
        """Of boxes that must be there; and of all that may be, or may have been since."""
        with self.lock:
            moving = {name for name, ended in self.moving.items() if ended is None or since and ended >= since}
            return set(self.boxes) - moving, set(self.boxes) | moving

    def some(self, rng):
        """All boxes, in any order, but the default one is often the first."""
        with self.lock:
            boxes = sorted(self.boxes.values(), key=lambda box: box.id)
        rng.shuffle(boxes)
        return sorted(boxes, key=lambda box: box.id != "default") if rng.random() < 0.15 else boxes

    # --- what is told

    def note(self, text, box=None):
        line = f"{time.monotonic() - self.begun:9.3f}  {threading.current_thread().name:9}  {text}"
        (box.past if box else self.past).lines.append(line)

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def took(self, what, begun):
        """Notes and returns how long that was, since then."""
        self.seconds[what].append(time.monotonic() - begun)
        return self.seconds[what][-1]

    def fail(self, text, box=None):
        lines = [f"seed {self.seed}: {text}"]
        if box:
            lines += [f"--- {box.id}, {'resumed by requests' if box.auto_resume else 'not resumed by requests'}:",
                      *box.past.lines]
        lines += ["--- host:", *self.past.lines]
        failure = Failure("\n".join(lines))
        with self.lock:
            self.failures.append(failure)
        self.over.set()
        raise failure

    def excuses(self, begun, box=None, kinds=WAYS):
        """Ways to fail of a request that was sent then."""
        found = self.past.since(begun) | (box.past.since(begun) if box else set())
        return set().union(*(WAYS.get(kind, set()) for kind in found & set(kinds)))
