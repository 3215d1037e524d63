"""What clients do, and what must come of it. Each is called with a client, and most with a box."""

import contextlib
import itertools
import shutil
import time

import httpx

from harness import ANSWER_SECONDS, eventually

from soak.world import Known

HOME = "/home/gem"
BOXES_MAX = 14
SPARE_SECONDS = 30  # that something may be late on a machine with other things to do
KINDS = [  # of boxes, and how often
    (8, {}),
    (2, {"limits": {"memory": "512M", "pids": 300}}),
    (1, {"limits": {"disk": "48M"}}),
]
if shutil.which("ip") and shutil.which("nft", path="/usr/sbin:/sbin:/usr/bin"):
    KINDS += [(1, {"network": {"allow": ["*.test"]}}), (1, {"network": {"mode": "full"}})]


def was_harmed(box, begun):
    """Whether any process of it was killed since then: what it has said of its programs means nothing."""
    return bool(box.past.since(begun) & {"box", "program"})


def data_of(client, box, answer, begun):
    """What it says, unless that was cut."""
    if answer is None or was_harmed(box, begun):
        return None
    body = answer.json()
    client.must(body["success"], f"not done: {answer.text[:300]}", box)
    return body["data"]


@contextlib.contextmanager
def had_at_once(lock):
    """Whether it could be."""
    mine = lock.acquire(blocking=False)
    try:
        yield mine
    finally:
        if mine:
            lock.release()


@contextlib.contextmanager
def turn_of(world, box):
    """Whether the caller may change the box, which is still there."""
    with had_at_once(box.turn) as mine:
        yield mine and box.id in world.boxes


# --- requests ------------------------------------------------------------------------------------

def write(client, box):
    turn = box.sessions.setdefault((client.name, "file"), 0)
    path = f"{HOME}/{client.name}-{box.id}-{turn}"  # none that a fork has from another
    content = f"{box.marker} {client.word()}\n" * client.rng.choice((1, 1, 20, 3000))
    with client.world.lock:
        for files in (box.files, *box.copies):
            files.setdefault(path, {None}).add(content)
    answer = client.ask(box, "POST", "/v1/file/write", "write", json={"file": path, "content": content})
    with client.world.lock:
        if answer is not None:
            client.must(answer.json()["success"], f"not written: {answer.text[:300]}", box)
            box.files[path] = {content}
            return
        # It may still be written, at any time: nothing can be said of this file any more.
        for files in (box.files, *box.copies):
            files.pop(path, None)
        box.sessions[client.name, "file"] = turn + 1


def read(client, box):
    """What was acknowledged is there. Nobody else writes where this client does."""
    own = [path for path in list(box.files) if path.startswith(f"{HOME}/{client.name}-")]
    if own:
        check_file(client, box, client.rng.choice(own))


def check_file(client, box, path):
    with client.world.lock:
        expected = box.files.get(path)
    answer = client.ask(box, "POST", "/v1/file/read", "read", json={"file": path})
    if answer is None or expected is None:
        return
    body = answer.json()
    found = body["data"]["content"] if body["success"] else None
    client.must(body["success"] or body["data"]["error_type"] == "not_found", f"{path}: {body['message']}", box)
    short = {text and (len(text), text[:60]) for text in expected}
    client.must(found in expected, f"{path}: expected one of {short}, found {found and (len(found), found[:60])}", box)
    client.world.count("acknowledged writes found")


def execute(client, box, wait=0.0):
    word, begun = client.word(), time.monotonic()
    command = f"sleep {wait:.2f}; cat ~/marker; hostname; echo {word}"
    answer = client.ask(box, "POST", "/v1/bash/exec", "exec", json={"command": command})
    data = data_of(client, box, answer, begun)
    right = f"{box.marker}\n{box.id}\n{word}\n", 0
    client.must(not data or (data["stdout"], data["exit_code"]) == right, f"it said {data}", box)
    return answer


def execute_long(client, box):
    """To be in flight when something happens."""
    execute(client, box, client.rng.uniform(0.2, 2))


def count_on(client, box, key, step, close):
    """A session that counts: step(id, begun) has it say the next number. Once it may be harmed, or may have counted
    without being heard, another takes its place."""
    id, number, begun = box.sessions.setdefault(key, (f"s{client.world.number()}", 0, time.monotonic()))
    said = step(id, begun)
    if said is None:
        box.sessions.pop(key)
        client.ask(box, "DELETE", close + id, "close", good=(200, 404))
    else:
        client.must(said == f"{number + 1}", f"session {id}: after {number} it said {said!r}", box)
        box.sessions[key] = id, number + 1, begun


def shell(client, box):
    def step(id, begun):
        answer = client.ask(box, "POST", "/v1/shell/exec", "shell", json={"id": id, "command": "N=$((N + 1)); echo $N"})
        data = data_of(client, box, answer, begun)
        return data and data["output"].strip()

    count_on(client, box, (client.name, "shell"), step, "/v1/shell/sessions/")


def notebook(client, box):
    """In few boxes, and by one client at a time: a kernel is large."""
    def step(id, begun):
        answer = client.ask(box, "POST", "/v1/jupyter/execute", "notebook", json={
            "session_id": id, "code": "n = globals().get('n', 0) + 1\nprint(n)", "timeout": ANSWER_SECONDS})
        data = data_of(client, box, answer, begun)
        return data and "".join(out.get("text", "") for out in data["outputs"]).strip()

    if runs_code(box):
        with had_at_once(box.kernel_turn) as mine:
            if mine:
                count_on(client, box, "kernel", step, "/v1/jupyter/sessions/")


def runs_code(box):
    return box.id == "default" or box.marker.endswith("7")


def code(client, box):
    if not runs_code(box):
        return
    word, begun = client.word(), time.monotonic()
    texts = {"python": f"print(open('{HOME}/marker').read() + '{word}')",
             "javascript": f"console.log(require('fs').readFileSync('{HOME}/marker', 'utf8') + '{word}')"}
    language = client.rng.choice(sorted(texts))
    answer = client.ask(box, "POST", "/v1/code/execute", "code", json={"language": language, "code": texts[language]})
    data = data_of(client, box, answer, begun)
    client.must(not data or data["stdout"] == f"{box.marker}\n{word}\n", f"{language} said {data}", box)


def stranger(client, box):
    """Who has the key of another box is not let in."""
    other = next((one for one in client.world.some(client.rng) if one.token and one is not box), None)
    if other and box.token:
        headers = {**box.headers, "Authorization": f"Bearer {other.token}"}
        if client.send("GET", "/v1/sandbox", headers, "stranger", (401,), box) is not None:
            client.world.count("strangers refused")


def events(client, box):
    """All that was acknowledged is told, in order."""
    told = box.told.copy()
    answer = client.about(box, "GET", "/events", "events")
    if answer is None:
        return
    found = answer.json()["data"]
    numbers = [event["seq"] for event in found]
    client.must(numbers == list(range(numbers[0], numbers[0] + len(numbers))), f"numbers of events: {numbers}", box)
    if numbers[0] == 1:  # else the first ones have made room
        types = [event["type"] for event in found]
        client.must(box.id == "default" or types[0] == "created", f"the first event is {types[0]}", box)
        for what, count in told.items():
            client.must(types.count(what) >= count, f"{count} times {what}, told: {types}", box)


def watch(client, box):
    """Who follows the events of a box sees what is done."""
    answer = client.about(box, "GET", "/events", "events")
    if answer is None:
        return
    world, begun, last = client.world, time.monotonic(), answer.json()["data"][-1]["seq"]
    url = f"{world.host.url}/v1/sandboxes/{box.id}/events?follow=true&after={last}"
    try:
        with client.http.stream("GET", url, headers=world.host.auth) as stream:
            if execute(client, box) is None or sees(stream, "event: exec", begun + ANSWER_SECONDS):
                return world.took("watch", begun)
        problem = f"status {stream.status_code}"
    except httpx.HTTPError as error:
        problem = repr(error)
    client.must(world.excuses(begun, box), f"no event of a command that was run: {problem}", box)


def sees(stream, line, until):
    """Whether that line comes in time; other ones come all the while."""
    return any(said == line for said in itertools.takewhile(lambda _: time.monotonic() < until, stream.iter_lines()))


def listing(client):
    """Exactly those boxes are listed that were acknowledged and are not deleted."""
    begun = time.monotonic()
    settled, possible = client.world.ids()
    answer = client.order("GET", "/v1/sandboxes?limit=1000", "list")
    if answer is None:
        return
    still, since = client.world.ids(begun)
    check_listed(client, answer, settled & still, possible | since)


def check_listed(client, answer, settled, possible):
    listed = {box["id"] for box in answer.json()["data"]["sandboxes"]}
    client.must(settled <= listed, f"not listed: {settled - listed}")
    client.must(listed <= possible, f"listed, though not there: {listed - possible}")
    client.world.count("lists verified")


# --- changes -------------------------------------------------------------------------------------

def made(client, name, answer):
    """The answer to a call that makes a box; where that was cut, of one that asks for it. None: it was not made."""
    if answer is None:
        answer = client.until_answered(client.order, "GET", f"/v1/sandboxes/{name}", "look", good=(200, 404))
        client.world.note(f"{name} {'is' if answer.status_code == 200 else 'is not'} there after its making was cut")
    return answer.json()["data"] if answer.status_code == 200 else None


def mark(client, data, parent=None):
    """It is given what it is known by."""
    client.must(data["state"] == "running", f"it is made, and {data['state']}: {data}")
    box = Known(client.world.host, data, f"mark-{client.world.seed}-{client.world.number()}", parent)
    client.until_answered(client.ask, box, "POST", "/v1/file/write", "write",
                          json={"file": f"{HOME}/marker", "content": f"{box.marker}\n"})
    client.until_answered(execute, client, box)
    client.world.count("boxes made")
    return box


def create(client):
    world = client.world
    if len(world.boxes) >= BOXES_MAX:
        return
    name = f"soak-{world.number()}"
    spec = client.rng.choices([kind for _, kind in KINDS], [often for often, _ in KINDS])[0]
    with world.on_the_way(name):
        answer = client.order("POST", "/v1/sandboxes", "create", json={
            "name": name, "auto_resume": client.rng.random() < 0.5, **spec})
        if data := made(client, name, answer):
            world.add(mark(client, data))


def fork(client, box):
    world = client.world
    if len(world.boxes) >= BOXES_MAX:
        return
    name = f"soak-{world.number()}"
    with world.on_the_way(name):
        with world.lock:
            files = {path: set(content) for path, content in box.files.items()}
            box.copies.append(files)
        answer = client.about(box, "POST", "/fork", "fork", json={"name": name})
        data = made(client, name, answer)
        with world.lock:
            box.copies.remove(files)
        if data:
            fresh = mark(client, data, box)
            fresh.files = files
            for path in client.rng.sample(sorted(files), min(2, len(files))):
                check_file(client, fresh, path)
            world.add(fresh)


def delete(client, box):
    world = client.world
    if box.id == "default":
        return
    with world.on_the_way(box.id):
        box.past.disturb("deleted")
        world.forget(box)
        if client.about(box, "DELETE", "", "delete") is None:
            client.until_answered(client.about, box, "DELETE", "", "delete", good=(200, 404))
        client.until_answered(client.about, box, "GET", "", "look", good=(404,))
    world.count("boxes deleted")


def pause(client, box):
    kinds = () if box.auto_resume else ("stopped",)
    with box.past.disturbed(*kinds):
        client.until_answered(client.about, box, "POST", "/pause", "pause")
        box.told["paused"] += 1
        state = client.until_answered(client.about, box, "GET", "", "look").json()["data"]["state"]
        client.must(state == "paused" or box.auto_resume and state == "running", f"it is paused, and {state}", box)
        time.sleep(client.rng.uniform(0, 0.3))
        answer = client.until_answered(client.about, box, "POST", "/resume", "resume")
    client.must(answer.json()["data"]["state"] == "running", f"resumed: {answer.text[:300]}", box)
    execute(client, box)


def lapse(client):
    """A box with a timeout: it is there until then, and gone soon after."""
    world, name, seconds = client.world, f"soak-{client.world.number()}", client.rng.uniform(2, 6)
    with world.on_the_way(name):
        begun = time.monotonic()
        answer = client.order("POST", "/v1/sandboxes", "create", json={"name": name, "timeout": seconds})
        late = time.monotonic() + seconds + SPARE_SECONDS
        while True:
            look = client.order("GET", f"/v1/sandboxes/{name}", "look", good=(200, 404))
            if look is None:
                late += SPARE_SECONDS  # nobody was there to delete it
            elif look.status_code == 404:
                break
            client.must(time.monotonic() < late, f"{name} has a timeout of {seconds:.1f} s, and is still there")
            time.sleep(0.2)
        lived = time.monotonic() - begun
        client.must(answer is None or lived >= seconds,
                    f"{name} has a timeout of {seconds:.1f} s, and was gone after {lived:.1f}")
    world.count("timeouts kept")


def doze(client):
    """A box with an idle timeout is paused once nobody asks it, and comes back when somebody does."""
    world, name = client.world, f"soak-{client.world.number()}"
    with world.on_the_way(name):
        answer = client.order("POST", "/v1/sandboxes", "create", json={"name": name, "idle_timeout": 1})
        data = made(client, name, answer)
        if not data:
            return
        box = mark(client, data)
        state = lambda: client.until_answered(client.about, box, "GET", "", "look").json()["data"]["state"]
        client.must(eventually(lambda: state() == "paused", SPARE_SECONDS, 0.1), f"idle, and {state()}", box)
        client.until_answered(execute, client, box)
        delete(client, box)
    world.count("idle timeouts kept")


# --- which of them, and how often ------------------------------------------------------------------

ANYONE, OWNER, NOBODY = "with any box", "with a box whose turn it has", "with none"
ACTIONS = [
    (20, ANYONE, write),
    (20, ANYONE, read),
    (20, ANYONE, execute),
    (10, ANYONE, execute_long),
    (10, ANYONE, shell),
    (4, ANYONE, notebook),
    (4, ANYONE, code),
    (4, ANYONE, stranger),
    (5, ANYONE, events),
    (2, ANYONE, watch),
    (3, NOBODY, listing),
    (7, NOBODY, create),
    (3, OWNER, fork),
    (7, OWNER, delete),
    (6, OWNER, pause),
    (1, NOBODY, lapse),
    (1, NOBODY, doze),
]


def act(client):
    """Does one of them."""
    _, whose, action = client.rng.choices(ACTIONS, [often for often, _, _ in ACTIONS])[0]
    if whose is NOBODY:
        return action(client)
    for box in client.world.some(client.rng):
        if whose is ANYONE:
            return action(client, box)
        with turn_of(client.world, box) as mine:
            if mine:
                return action(client, box)
