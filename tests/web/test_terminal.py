"""The terminal at /terminal, in a real Chromium against a real server and real shells.

Screenshots for human eyes land in build/screens/.
"""

import base64
import contextlib
import hashlib
import random
import re
import shutil
import socket
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from chromium import NEEDED, Watch, chromium, new_context, screenshot  # noqa: F401 (a fixture)
from harness import ANSWER_SECONDS, SETTLE_SECONDS, eventually

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = sync_api.expect
expect.set_options(timeout=ANSWER_SECONDS * 1000)
pytestmark = NEEDED

KEY = "terminal key/+&=%"  # characters that a URL has to escape
PROMPT = re.compile(r"[$#] ?\Z")


def lines(page, everything=True):
    """The terminal's lines without their trailing blanks: with what has scrolled away, or the screen."""
    return page.evaluate(
        """(everything) => {
            const b = terminal.buffer.active, out = [];
            for (let y = everything ? 0 : b.baseY; y < b.length; y++) {
                const line = b.getLine(y), text = line.translateToString(true);
                if (line.isWrapped && out.length) out[out.length - 1] += text;
                else out.push(text);
            }
            return out;
        }""",
        everything,
    )


def text(page, everything=True):
    return "\n".join(lines(page, everything)).rstrip()


def sees(page, what, seconds=SETTLE_SECONDS, everything=True):
    """Waits for a text, or for what a pattern describes."""
    pattern = what if isinstance(what, re.Pattern) else re.compile(re.escape(what))
    assert eventually(lambda: pattern.search(text(page, everything)), seconds, 0.05), (
        f"no {pattern.pattern!r} in:\n{text(page, everything)}"
    )


def run(page, command, *expected):
    """Types a command and waits for what it prints, each on a line of its own."""
    page.keyboard.type(command + "\n")
    for line in expected:
        sees(page, re.compile(rf"^{re.escape(line)}$", re.M))


def ask(page, command, answer, expected):
    """A command that reads what the terminal answers to it: without an echo even if that comes before it reads."""
    run(page, f"stty -echo; {command}; stty echo; echo {answer}", expected)


def state(page, name, seconds=SETTLE_SECONDS):
    expect(page.locator("#status")).to_have_attribute("data-state", name, timeout=seconds * 1000)


def shell_learns_size(page):
    """The shell is told the terminal's size, a little later than the terminal itself."""

    def says():
        page.keyboard.type("clear; stty size\n")
        return eventually(lambda: page.evaluate("`${terminal.rows} ${terminal.cols}`") in lines(page, False), 1, 0.05)

    assert eventually(says), text(page)


def address(page):
    """As it is now; page.url is what the browser had told when it was last spoken to."""
    return page.evaluate("location.href")


def session_of(page):
    return parse_qs(urlsplit(address(page)).query).get("session_id", [None])[0]


def listen_again():
    """An address for a server that ends and is followed by another at the same port: none of those that the kernel
    gives to whoever asks for any, so that nobody else has it meanwhile."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(first // 2, first)
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.bind(("127.0.0.1", port))
            return f"127.0.0.1:{port}"


class Visits:
    """Opens terminals; closes them and ends their sessions in the end."""

    def __init__(self, chromium):
        self.chromium, self.contexts, self.used = chromium, [], set()

    def context(self, **more):
        self.contexts.append(new_context(self.chromium, permissions=["clipboard-read", "clipboard-write"], **more))
        return self.contexts[-1]

    def __call__(self, server, query="", key=None, context=None, prompt=True, **more):
        """A page of the server's terminal, once there is a prompt."""
        headers = {"X-AIO-API-Key": key} if key else {}
        if server.get("/terminal", headers=headers).status_code == 404:
            pytest.skip("this server has no /terminal yet")
        page = (context or self.context(**more)).new_page()
        page.watch, page.server = Watch(page), server
        page.on("framenavigated", lambda _: self.note(page, headers, page.url))
        assert page.goto(server.url + "/terminal" + query).status == 200
        state(page, "connected")
        assert eventually(lambda: session_of(page)), "no session_id in the address"
        self.note(page, headers)
        if prompt:
            sees(page, PROMPT)
        return page

    def note(self, page, headers, url=None):
        session = parse_qs(urlsplit(url or address(page)).query).get("session_id")
        if session:
            self.used.add((page.server, session[0], tuple(headers.items())))

    def end(self):
        for context in self.contexts:
            context.close()
        for server, session, headers in self.used:
            if server.proc.poll() is None:
                server.request("DELETE", f"/v1/shell/sessions/{session}", headers=dict(headers))


@pytest.fixture
def visit(chromium):  # noqa: F811
    visits = Visits(chromium)
    yield visits
    visits.end()


# --- a shell ---------------------------------------------------------------------------------------


def test_runs_what_is_typed(server, visit):
    page = visit(server)
    focused = "document.activeElement.closest('#terminal') !== null"
    assert eventually(lambda: page.evaluate(focused)), "the focus is elsewhere"
    run(page, "echo hello-$((40+2))", "hello-42")
    page.wait_for_load_state("networkidle")
    assert page.watch.foreign(server.url) == []
    assert page.watch.trouble == []


def test_the_title_begins_with_web_terminal(server, visit):
    page = visit(server)
    assert "<title>Web Terminal</title>" in server.get("/terminal").text
    assert page.title().startswith("Web Terminal")
    run(page, "PROMPT_COMMAND= PS1='$ '; printf '\\e]0;a <b>title</b>\\a'")
    assert eventually(lambda: page.title() == "Web Terminal – a <b>title</b>"), page.title()
    assert page.locator("#title").inner_text() == "a <b>title</b>"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours(server, visit, scheme):
    page = visit(server, scheme=scheme)
    run(page, r"printf '\e[31mre%s\e[0m \e[38;2;0;128;255mblu%s\e[0m \e[1mstron%s\e[0m\n' d e g", "red blue strong")

    def word(text):
        return expect(page.locator(".xterm-rows span", has_text=re.compile(f"^{text}$")).last)

    word("red").to_be_visible()
    word("red").to_have_css("color", {"light": "rgb(200, 51, 43)", "dark": "rgb(255, 138, 128)"}[scheme])
    if scheme == "dark":  # in light it is darkened until it can be read
        word("blue").to_have_css("color", "rgb(0, 128, 255)")
    word("strong").to_have_css("font-weight", re.compile(r"^[7-9]\d\d$"))
    screenshot(page, f"terminal-{scheme}")


def test_unicode(server, visit):
    page = visit(server)
    run(page, r"printf '%s|\n' grün 中文 ✓ 😀", "grün|", "中文|", "✓|", "😀|")
    # The shell and the terminal agree on what is how wide.
    ask(page, r"printf '%s\e[6n\n' 😀; IFS= read -rsd R at", "at${at#*;}", "at3")


def test_resizing_reaches_the_shell(server, visit):
    page = visit(server)

    def size():
        return page.evaluate("`${terminal.rows} ${terminal.cols}`")

    shell_learns_size(page)
    before = size()
    page.set_viewport_size({"width": 700, "height": 420})
    assert eventually(lambda: size() != before)
    shell_learns_size(page)
    rows, cols = map(int, size().split())
    assert 10 < rows < int(before.split()[0]) and 40 < cols < int(before.split()[1])


@pytest.mark.parametrize("program", ["vim", "less"])
def test_full_screen_program(server, visit, program):
    if not shutil.which(program):
        pytest.skip(f"no {program} on this machine")
    page = visit(server)
    run(page, "echo before; seq 500 >numbers", "before")
    page.keyboard.type({"vim": "vim -u NONE numbers", "less": "less numbers"}[program] + "\n")
    assert eventually(lambda: page.evaluate("terminal.buffer.active.type") == "alternate")
    sees(page, re.compile(r"^1\n2\n3\n"), everything=False)
    page.keyboard.press("Shift+G")
    sees(page, re.compile(r"^499\n500$", re.M), everything=False)
    screenshot(page, f"terminal-{program}")
    before = page.evaluate("terminal.rows")
    page.set_viewport_size({"width": 900, "height": 500})  # it is told, and draws itself anew
    assert eventually(lambda: page.evaluate("terminal.rows") != before)

    def top():
        """Whether its first page, after it was asked for that, fills the screen."""
        page.keyboard.type("gg")
        rows = page.evaluate("terminal.rows")
        whole = re.compile(rf"\A1\n2\n(.*\n){{{rows - 4}}}{rows - 1}(\n|\Z)")
        return eventually(lambda: whole.search(text(page, everything=False)), 2, 0.05)

    assert eventually(top), text(page, everything=False)
    page.keyboard.type({"vim": ":q!\n", "less": "q"}[program])
    assert eventually(lambda: page.evaluate("terminal.buffer.active.type") == "normal")
    sees(page, PROMPT)
    assert "before" in lines(page) and "500" not in lines(page)
    run(page, "echo after", "after")
    assert page.watch.trouble == []


def test_much_output(server, visit):
    page = visit(server)
    run(page, "seq 300000; echo all''done", "alldone")
    seen = lines(page)
    assert len(seen) > 9000
    at = seen.index("alldone")
    assert seen[at - 5000 : at] == [str(n) for n in range(295001, 300001)]


# --- sessions --------------------------------------------------------------------------------------


def test_reload_comes_back_to_the_session(server, visit):
    page = visit(server, query="?theme=dark&mine=a+b")
    session = session_of(page)
    run(page, "remember=this; echo earlier text", "earlier text")
    page.reload()
    state(page, "connected")
    sees(page, re.compile("^earlier text$", re.M))
    sees(page, PROMPT)
    assert session_of(page) == session
    assert parse_qs(urlsplit(address(page)).query) == {"theme": ["dark"], "mine": ["a b"], "session_id": [session]}
    assert text(page).count("\nearlier text\n") == 1
    run(page, "echo $remember-is-there", "this-is-there")
    assert page.watch.trouble == []


def test_old_questions_are_not_answered_again(server, visit):
    page = visit(server)
    ask(page, r"printf '\e[c\e[6n'; IFS= read -rsd R x", "asked", "asked")
    page.reload()
    state(page, "connected")
    sees(page, re.compile("^asked$", re.M))
    run(page, "echo clean", "clean")
    assert not re.search(r"\[\?[\d;]+c|\d+;\d+R", text(page)), text(page)


def test_two_pages_share_a_session(server, visit):
    one = visit(server, width=1000)
    two = visit(server, query=f"?session_id={session_of(one)}", width=760, height=400)
    run(one, "echo from one", "from one")
    sees(two, re.compile("^from one$", re.M))
    run(two, "echo from two", "from two")
    sees(one, re.compile("^from two$", re.M))

    # The session has the size of the page last used, and the other shows all of it.
    small = two.evaluate("[terminal.cols, terminal.rows]")
    assert eventually(lambda: one.evaluate("[terminal.cols, terminal.rows]") == small)
    run(one, "clear; stty size")
    assert eventually(lambda: one.evaluate("[terminal.cols, terminal.rows]") != small)
    large = one.evaluate("[terminal.cols, terminal.rows]")
    assert large[0] > small[0] and large[1] > small[1]
    assert eventually(lambda: two.evaluate("[terminal.cols, terminal.rows]") == large)
    assert eventually(lambda: two.locator(".xterm-screen").evaluate(
        "e => e.getBoundingClientRect().right <= innerWidth && e.getBoundingClientRect().bottom <= innerHeight"
    ))
    screenshot(two, "terminal-foreign-size")
    run(two, "echo at home again", "at home again")
    assert eventually(lambda: two.evaluate("[terminal.cols, terminal.rows]") == small)
    assert one.watch.trouble == [] and two.watch.trouble == []


def test_a_shell_that_ended_is_followed_by_another(server, visit):
    page = visit(server)
    session = session_of(page)
    run(page, "first=shell; exit 7")
    state(page, "ended")
    expect(page.locator("#note")).to_contain_text("exit code 7")
    screenshot(page, "terminal-ended")
    page.keyboard.press("Enter")
    state(page, "connected")
    sees(page, PROMPT)
    run(page, "echo new-$first-", "new--")
    assert session_of(page) == session
    assert page.watch.trouble == []


def test_reload_of_an_ended_shell(server, visit):
    page = visit(server)
    run(page, "echo kept; exit")
    state(page, "ended")
    page.reload()
    state(page, "ended")
    sees(page, re.compile("^kept$", re.M))
    page.locator("#terminal").click()
    state(page, "connected")
    sees(page, PROMPT)
    run(page, "echo alive", "alive")


def test_a_session_that_was_closed_is_followed_by_another(server, visit):
    page = visit(server)
    session = session_of(page)
    server.request("DELETE", f"/v1/shell/sessions/{session}")
    state(page, "closed")
    page.wait_for_timeout(1500)  # longer than it waits before it connects again
    state(page, "closed")  # nobody wants it back
    page.keyboard.press("Enter")
    state(page, "connected")
    assert eventually(lambda: session_of(page) != session)
    visit.note(page, {})
    sees(page, PROMPT)
    run(page, "echo fresh", "fresh")
    assert page.watch.trouble == []


def test_the_server_stops_and_comes_back(start_server, visit):
    server = start_server(listen=listen_again())
    page = visit(server)
    run(page, "echo still here", "still here")
    # Notes when the page asks for its server. After the third time it would wait for longer than this test: the person
    # at the button has to be faster, however long the next server takes to start.
    page.evaluate(
        """() => {
            const ask = fetch, later = setTimeout;
            window.asked = [];
            window.fetch = (...all) => { asked.push(performance.now()); return ask(...all); };
            window.setTimeout = (work, ms, ...all) => later(work, asked.length > 2 && ms >= 500 ? 1e9 : ms, ...all);
        }"""
    )
    server.signal()
    server.wait()
    state(page, "lost")
    expect(page.locator("#note")).to_contain_text("Trying to reconnect")
    expect(page.get_by_role("button", name="Reconnect now")).to_be_visible()
    assert eventually(lambda: page.evaluate("asked.length") == 3)
    first, second, third = page.evaluate("asked")
    assert second - first > 900 and third - second > 1900, "attempts do not grow rare"
    assert eventually(lambda: address(page) and sum(t.startswith("failed:") for t in page.watch.trouble) == 3)
    expect(page.get_by_role("button", name="Reconnect now")).to_be_visible()
    screenshot(page, "terminal-lost")
    assert "still here" in lines(page)
    # The browser itself writes a line for each attempt; we add none.
    assert all("WebSocket" in t or "REFUSED" in t or t.startswith("failed:") for t in page.watch.trouble)

    again = start_server(listen=f"127.0.0.1:{server.port}")
    page.server = again
    page.get_by_role("button", name="Reconnect now").click()
    state(page, "connected")
    expect(page.get_by_role("button", name="Reconnect now")).to_be_hidden()
    assert eventually(lambda: session_of(page))
    visit.note(page, {})
    sees(page, PROMPT)
    run(page, "echo back", "back")


# --- the page --------------------------------------------------------------------------------------


def test_find(server, visit):
    page = visit(server)
    run(page, "seq -f 'needle %g' 40; echo NEEDLE; seq 200; echo d''one", "done")
    sees(page, PROMPT)
    page.keyboard.press("Control+Shift+F")
    expect(page.locator("#find-text")).to_be_focused()
    page.keyboard.type("needle 3")
    count = page.locator("#find-count")
    expect(count).to_have_text("11 of 11")  # the newest first
    assert eventually(lambda: page.evaluate("terminal.getSelection()") == "needle 3")
    visible = page.evaluate("terminal.getSelectionPosition().start.y - terminal.buffer.active.viewportY")
    assert 0 <= visible < page.evaluate("terminal.rows"), "the match is not on the screen"
    page.keyboard.press("Enter")
    expect(count).to_have_text("1 of 11")
    page.keyboard.press("Shift+Enter")
    expect(count).to_have_text("11 of 11")
    page.get_by_role("button", name="Previous").click()
    expect(count).to_have_text("10 of 11")
    page.locator("#find-text").fill("NEEDLE")
    expect(count).to_have_text(re.compile(r" of 4\d$"))
    screenshot(page, "terminal-find")
    page.get_by_role("button", name="Match case").click()
    expect(count).to_have_text(re.compile(r" of [12]$"))
    page.locator("#find-text").fill("no such thing")
    expect(count).to_have_text("No match")
    page.keyboard.press("Escape")
    expect(page.locator("#find")).to_be_hidden()
    run(page, "echo typed again", "typed again")
    assert page.watch.trouble == []


def test_paste_of_several_lines(server, visit):
    page = visit(server)
    page.evaluate("t => navigator.clipboard.writeText(t)", "echo one\necho t''wo\n")
    page.keyboard.press("Control+Shift+V")
    sees(page, "echo t''wo")
    page.keyboard.press("Enter")
    sees(page, re.compile("^one$", re.M))
    sees(page, re.compile("^two$", re.M))

    # A program that asks for it gets the text as one piece.
    page.keyboard.type("printf '\\e[?2004hwai''ting'; IFS= read -rsd! it; printf '\\e[?2004l%q\\n' \"$it\"\n")
    sees(page, "waiting")
    page.evaluate("t => navigator.clipboard.writeText(t)", "a\nb!")
    page.keyboard.press("Shift+Insert")
    sees(page, re.compile(r"\$'.*\[200~a\\[nr]b'"))


def test_paste_of_a_lot(server, visit):
    page = visit(server)
    page.keyboard.type("stty -echo; echo rea''dy; wc -c; stty echo; echo d''one\n")  # no echo among what wc prints
    sees(page, re.compile("^ready$", re.M))
    assert not page.evaluate("terminal.modes.bracketedPasteMode")
    page.evaluate("t => navigator.clipboard.writeText(t)", "0123456789abcde\n" * 4096)
    page.keyboard.press("Control+Shift+V")
    page.keyboard.press("Control+D")
    sees(page, re.compile("^done$", re.M))
    assert "65536" in lines(page)


def test_copy(server, visit):
    page = visit(server)
    run(page, "echo copy this", "copy this")
    row = lines(page).index("copy this")
    page.evaluate("y => terminal.select(0, y, 9)", row)
    page.keyboard.press("Control+Shift+C")
    expect(page.locator("#note")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == "copy this"
    page.evaluate("y => terminal.select(5, y, 4)", row)
    page.keyboard.press("Control+Insert")
    assert eventually(lambda: page.evaluate("navigator.clipboard.readText()") == "this")
    # A program may fill the clipboard, and gets nothing out of it.
    run(page, r"printf '\e]52;c;%s\a' $(printf grün | base64); echo set", "set")
    assert eventually(lambda: page.evaluate("navigator.clipboard.readText()") == "grün")
    run(page, r"printf '\e]52;c;?\a'; IFS= read -rsn1 -t 1 x; echo got:$x.", "got:.")


def test_links_open_elsewhere(server, visit):
    page = visit(server)
    url = f"{server.url}/health?from=link"
    run(page, f"clear; echo see {url} there; printf '\\e]8;;{url}2\\e\\\\hidden\\e]8;;\\e\\\\\\n'", "hidden")
    sees(page, PROMPT)
    for word, target in (("health", url), ("hidden", url + "2")):
        row = next(i for i, line in enumerate(lines(page, False)) if word in line and not line.endswith("n'"))
        column = lines(page, False)[row].index(word) + 2
        x, y = page.locator(".xterm-screen").evaluate(
            "(e, [c, r]) => { const b = e.getBoundingClientRect();"
            " return [b.x + b.width / terminal.cols * (c + .5), b.y + b.height / terminal.rows * (r + .5)]; }",
            [column, row],
        )
        page.mouse.move(x - 3, y)
        page.mouse.move(x, y)
        expect(page.locator("#hint")).to_have_text(target)
        with page.context.expect_page() as opened:
            page.mouse.click(x, y)
        opened.value.wait_for_url(lambda url: url == target)
        assert opened.value.evaluate("[opener, document.referrer]") == [None, ""]
        opened.value.close()


def test_bell_flashes(server, visit):
    page = visit(server)
    page.evaluate(
        """() => { window.flashes = 0;
            new MutationObserver(() => { if (document.getElementById('terminal').matches('.bell')) window.flashes++; })
                .observe(document.getElementById('terminal'), { attributes: true }); }"""
    )
    run(page, r"printf '\a'; echo rung", "rung")
    assert eventually(lambda: page.evaluate("window.flashes") >= 1)
    expect(page.locator("#terminal")).not_to_have_class("bell")


def test_text_size(server, visit):
    page = visit(server)
    rows = page.evaluate("terminal.rows")
    usual = page.evaluate("terminal.options.fontSize")
    for _ in range(4):
        page.keyboard.press("Control+=")
    assert page.evaluate("terminal.options.fontSize") == usual + 4
    assert eventually(lambda: page.evaluate("terminal.rows") < rows)
    page.reload()
    state(page, "connected")
    assert page.evaluate("terminal.options.fontSize") == usual + 4
    page.keyboard.press("Control+-")
    assert page.evaluate("terminal.options.fontSize") == usual + 3
    page.keyboard.press("Control+0")
    assert page.evaluate("terminal.options.fontSize") == usual
    shell_learns_size(page)


def background(page):
    return page.evaluate("[getComputedStyle(document.body).backgroundColor, terminal.options.theme.background]")


LIGHT, DARK = ["rgb(255, 255, 255)", "#ffffff"], ["rgb(15, 17, 21)", "#0f1115"]


def test_colour_scheme(server, visit):
    page = visit(server, scheme="dark")
    assert background(page) == DARK
    page.emulate_media(color_scheme="light")
    assert eventually(lambda: background(page) == LIGHT)
    page.locator("#theme").click()
    page.locator("#theme").click()
    assert page.locator("#theme").get_attribute("aria-label").endswith("dark")
    assert background(page) == DARK
    page.reload()
    state(page, "connected")
    assert background(page) == DARK
    # The address decides, until a person does.
    session = session_of(page)
    page.goto(f"{server.url}/terminal?session_id={session}&theme=light")
    state(page, "connected")
    assert background(page) == LIGHT
    page.locator("#theme").click()
    assert background(page) == DARK and "theme" not in address(page)


def test_keyboard_alone(server, visit):
    page = visit(server)
    run(page, "touch some-long-name; echo made", "made")
    sees(page, PROMPT)
    page.keyboard.type("ls some-lo")
    page.keyboard.press("Tab")  # is the shell's
    sees(page, "ls some-long-name")
    page.keyboard.press("Enter")
    page.keyboard.press("F6")
    seen = []
    for _ in range(4):
        seen.append(page.evaluate("document.activeElement.getAttribute('aria-label')"))
        page.keyboard.press("Tab")
    assert seen[:2] == ["Find", "New terminal"] and seen[2].startswith("Colour scheme") and seen[3] == "Help"
    page.keyboard.press("Control+F6")
    for _ in range(3):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#help")).to_be_visible()
    assert "F6" in page.locator("#help").inner_text()
    screenshot(page, "terminal-help")
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()
    run(page, "echo back in the shell", "back in the shell")
    page.keyboard.press("Control+Shift+Escape")
    assert page.evaluate("document.activeElement.closest('header') !== null")
    page.keyboard.press("Escape")
    run(page, "echo and again", "and again")


def test_a_phone(server, visit):
    page = visit(server, scheme="dark", width=420, height=760, has_touch=True, is_mobile=True, device_scale_factor=2)
    assert page.evaluate("document.documentElement.scrollWidth") <= 420
    page.keyboard.type("echo first")
    page.keyboard.press("Enter")
    sees(page, re.compile("^first$", re.M))
    sees(page, PROMPT)
    page.get_by_role("button", name="Up", exact=True).tap()
    sees(page, re.compile(r"echo first\Z"))
    page.get_by_role("button", name="Ctrl", exact=True).tap()
    expect(page.get_by_role("button", name="Ctrl", exact=True)).to_have_attribute("aria-pressed", "true")
    page.keyboard.type("c")
    expect(page.get_by_role("button", name="Ctrl", exact=True)).to_have_attribute("aria-pressed", "false")
    sees(page, "^C")
    sees(page, PROMPT)
    page.keyboard.type("echo fi")
    page.evaluate("t => navigator.clipboard.writeText(t)", "ve; seq 90")
    page.get_by_role("button", name="Paste", exact=True).tap()
    sees(page, "echo five; seq 90")
    page.keyboard.press("Enter")
    sees(page, re.compile("^90$", re.M))
    sees(page, PROMPT)
    screenshot(page, "terminal-phone")

    # A finger scrolls.
    bottom = page.evaluate("terminal.buffer.active.viewportY")
    touch = page.context.new_cdp_session(page)
    finger = lambda kind, *points: touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    finger("touchStart", {"x": 200, "y": 200})
    for y in range(220, 600, 20):
        finger("touchMove", {"x": 200, "y": y})
    finger("touchEnd")
    assert eventually(lambda: page.evaluate("terminal.buffer.active.viewportY") <= bottom - 10)
    assert page.watch.trouble == []


def test_command_of_the_address(server, visit):
    page = visit(server, query="?command=pwd", prompt=False)
    sees(page, re.compile(r"[$#] pwd\n/"))
    assert eventually(lambda: "command" not in address(page))
    page.reload()
    state(page, "connected")
    sees(page, PROMPT)
    page.wait_for_timeout(500)  # nothing more is to come
    assert len(re.findall(r"[$#] pwd$", text(page), re.M)) == 1

    # More than a program's name waits for Enter: the link could be anybody's.
    page = visit(server, query="?command=" + quote("echo not\nyet"), prompt=False)
    sees(page, re.compile(r"[$#] echo not yet\Z"))
    page.keyboard.press("Enter")
    sees(page, re.compile("^not yet$", re.M))


def test_key_in_the_address(start_server, visit):
    guarded = start_server(env={"SANDBOX_API_KEY": KEY})
    page = visit(guarded, query=f"?api_key={quote(KEY, safe='')}", key=KEY)
    run(page, "echo let in", "let in")
    assert page.locator("header").bounding_box()["height"] < 60, "the style sheets did not come through"
    assert "api_key" not in address(page) and "api_key" not in page.watch.sockets[-1]
    kept = page.evaluate("JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, document.title])")
    assert "terminal key" not in kept and "aio_box" not in kept and "terminal key" not in text(page)
    page.reload()
    state(page, "connected")
    sees(page, re.compile("^let in$", re.M))
    assert page.watch.trouble == []


def test_key_that_no_longer_fits(start_server, visit):
    guarded = start_server(env={"SANDBOX_API_KEY": KEY}, listen=listen_again())
    page = visit(guarded, query=f"?api_key={quote(KEY, safe='')}", key=KEY)
    guarded.signal()
    guarded.wait()
    another = start_server(env={"SANDBOX_API_KEY": "another"}, listen=f"127.0.0.1:{guarded.port}")
    state(page, "refused")
    sockets = len(page.watch.sockets)
    page.wait_for_timeout(1500)  # longer than it would wait before the next time
    assert len(page.watch.sockets) == sockets, "it keeps knocking"

    # Its note leads to a form, and that back to the page.
    page.get_by_role("button", name="Sign in").click()
    page.get_by_label("Token or key").fill("another")
    screenshot(page, "terminal-sign-in")
    page.get_by_role("button", name="Open").click()
    state(page, "connected")
    assert "ticket" not in address(page) and "another" not in address(page)
    assert eventually(lambda: session_of(page))
    page.close()
    for session in another.get("/v1/shell/sessions", headers={"X-AIO-API-Key": "another"}).json()["data"]["sessions"]:
        another.request("DELETE", f"/v1/shell/sessions/{session}", headers={"X-AIO-API-Key": "another"})


def test_content_security_policy_names_the_loader(server):
    answer = server.get("/terminal")
    if answer.status_code == 404:
        pytest.skip("this server has no /terminal yet")
    loader = re.search(r"<script[^>]*>(.*?)</script>", answer.text, re.S).group(1)
    digest = base64.b64encode(hashlib.sha256(loader.encode()).digest()).decode()
    scripts = re.search(r"script-src ([^;]*)", answer.headers["Content-Security-Policy"]).group(1).split()
    assert f"'sha256-{digest}'" in scripts
    assert "'unsafe-inline'" not in scripts and "'unsafe-eval'" not in scripts


def test_addresses_that_other_clients_know(server, chromium):  # noqa: F811
    """The names of AIO Sandbox's bundled files, with the globals that those files set."""
    page = chromium.new_page()
    page.goto(server.url + "/health")
    old = server.url + "/static/sandbox/"
    page.add_style_tag(url=old + "xterm@5.3.0/css/xterm.css")
    page.add_script_tag(url=old + "xterm@5.3.0/lib/xterm.js")
    page.add_script_tag(url=old + "xterm-addon-fit@0.8.0/lib/xterm-addon-fit.js")
    rows = page.evaluate(
        """() => {
            const term = new Terminal(), fit = new FitAddon.FitAddon();
            term.loadAddon(fit);
            document.body.style.height = '500px';
            term.open(document.body);
            fit.fit();
            return term.rows;
        }"""
    )
    assert rows > 24
    page.close()
    for bad in ("xterm-addon-fit@0.8.0/lib/xterm-addon-fit.js/x", "xterm-addon-fit@0.8.0/lib/", "xterm@5.3.0/"):
        assert server.get("/static/sandbox/" + bad).status_code == 404, bad
