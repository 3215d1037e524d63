"""One who asks: each request is answered as it must be, or was cut by something that excuses it."""

import random
import time
from urllib.parse import quote

import httpx

from harness import ANSWER_SECONDS

from soak.world import MARKER, Over


class Client:
    def __init__(self, world, name):
        self.world, self.name = world, name
        self.rng = random.Random(f"{world.seed}-{name}")
        self.http = httpx.Client(timeout=ANSWER_SECONDS, trust_env=False, limits=httpx.Limits(keepalive_expiry=None))

    def word(self):
        return f"w{self.rng.getrandbits(64):016x}"

    def ask(self, box, method, path, what, good=(200,), **more):
        """A request to a box."""
        answer = self.send(method, path, box.headers, what, good, box, **more)
        if answer is not None:
            self.check_markers(box, answer.text)
        return answer

    def order(self, method, path, what, good=(200,), box=None, **more):
        """A call of the host's own; of its boxes, only one that is being deleted excuses anything."""
        return self.send(method, path, self.world.host.auth, what, good, box, kinds=("host", "deleted"), **more)

    def about(self, box, method, path, what, good=(200,), **more):
        return self.order(method, f"/v1/sandboxes/{quote(box.id)}{path}", what, good, box, **more)

    def send(self, method, path, headers, what, good, box, kinds=None, **more):
        """The answer, or None if there was none and that is excused."""
        world = self.world
        world.up.wait(ANSWER_SECONDS)
        if world.failures:
            raise Over
        begun = time.monotonic()
        world.flying[self.name] = what, box, begun
        try:
            answer = self.http.request(method, world.host.url + path, headers=headers, **more)
            outcome, said = answer.status_code, answer.text[:300]
        except httpx.TimeoutException as problem:
            outcome, said = "no answer", repr(problem)
        except httpx.TransportError as problem:
            outcome, said = "closed", repr(problem)
        finally:
            del world.flying[self.name]
        seconds = world.took(what, begun)
        if what != "look" or outcome not in good:
            world.note(f"{what}: {method} {path} {str(more.get('json', ''))[:100]} -> {outcome} in {seconds:.3f} s"
                       + ("" if outcome in good else f": {said}"), box)
        if outcome in good:
            return answer
        if outcome in world.excuses(begun, box, *([kinds] if kinds else [])):
            world.count("cut")
            return None
        return world.fail(f"{what}: {method} {path} -> {outcome} after {seconds:.3f} s: {said}", box)

    def check_markers(self, box, text):
        if others := set(MARKER.findall(text)) - box.markers:
            self.world.fail(f"{box.id} ({box.marker}) has answered for another: {others}", box)

    def until_answered(self, call, *args, **more):
        """Asks until nothing cuts it: for what can be asked twice."""
        while True:
            if (answer := call(*args, **more)) is not None:
                return answer

    def must(self, condition, text, box=None):
        if not condition:
            self.world.fail(text, box)
