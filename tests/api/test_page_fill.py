"""Filling forms of a page: text, lists, checkboxes, files, several fields; and typing where the focus is."""

import os
import pwd
import re
import time

import pytest

import desktop
from acting import PAGE, done, failed, page, quickly, reply, site  # noqa: F401
from desktop import BROWSER_NEEDED, tester  # noqa: F401
from harness import eventually

pytestmark = BROWSER_NEEDED
TEXTS = ["plain", "", "Grüße, Łódź", "漢字 かな 한글", "👩‍👩‍👧 🇩🇪 🤷🏽‍♀️", "عربى עברית", "a'b\"c\\d<e>&f", " spaces  inside ", "x" * 50000]


@pytest.fixture(scope="module")
def server(tester, start_shared):  # noqa: F811
    server = start_shared(**desktop.browser_options(tester))
    desktop.warm_browser(server)
    return server


# --- text --------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_text(server, page, text):  # noqa: F811
    page.show("<input id=i value=old><textarea id=t>old</textarea><div id=d contenteditable>old <b>text</b></div>"
              "<script>var events = []; i.oninput = i.onchange = (e) => events.push(e.type + e.isTrusted)</script>")
    assert done(server, "fill", selector="#i", text=text) == {"element": '<input id="i">'}
    done(server, "fill", selector="#t", text=text)
    done(server, "fill", selector="#d", text=text)
    assert page.evaluate("i.value") == text
    assert page.evaluate("t.value") == text
    assert " ".join(page.evaluate("d.innerText").split()) == " ".join(text.split())
    assert "inputtrue" in page.evaluate("events")


def test_lines(server, page):  # noqa: F811
    page.show("<textarea id=t></textarea><input id=i>")
    done(server, "fill", selector="#t", text="one\ntwo\n\nfour")
    assert page.evaluate("t.value") == "one\ntwo\n\nfour"


def test_older_names(server, page):  # noqa: F811
    page.show("<input id=i>")
    done(server, "fill", selector="#i", value="by its older name")
    assert page.evaluate("i.value") == "by its older name"


@pytest.mark.parametrize("kind, value", [("date", "2026-02-28"), ("time", "13:45"), ("datetime-local", "2026-02-28T13:45"), ("month", "2026-02"),
                                         ("week", "2026-W09"), ("range", "7"), ("color", "#00FF7f"), ("number", "-1.5e3"),
                                         ("email", "a@b.example"), ("url", "http://x.example/"), ("tel", "+49 1"), ("search", "q"), ("password", "s3cret")])
def test_kinds_of_fields(server, page, kind, value):  # noqa: F811
    page.show(f"<input id=i type={kind}><script>var events = []; i.oninput = i.onchange = (e) => events.push(e.type)</script>")
    done(server, "fill", selector="#i", text=value)
    assert page.evaluate("i.value") == value.lower() if kind == "color" else value
    assert "input" in page.evaluate("events")


@pytest.mark.parametrize("html, text, words", [
    ("<input id=i type=checkbox>", "x", "is a checkbox: use check"),
    ("<input id=i type=radio>", "x", "is a radio button"),
    ("<input id=i type=file>", "x", "use upload_file"),
    ("<input id=i type=submit>", "x", "takes no text"),
    ("<select id=i><option>a</select>", "x", "use select_option"),
    ("<div id=i>x</div>", "x", "is not a field"),
    ("<input id=i type=number>", "seven", "not a number"),
    ("<input id=i type=date>", "tomorrow", "not a value"),
    ("<input id=i type=color>", "red", "not a value"),
    ("<input id=i readonly>", "x", "is read-only"),
    ("<input id=i disabled>", "x", "is disabled"),
    ("<input id=i style='display:none'>", "x", "is not visible"),
    ("", "x", "no element matches '#i'"),
])
def test_what_cannot_be_filled(server, page, html, text, words):  # noqa: F811
    page.show(html)
    with quickly():
        message = failed(server, "fill", selector="#i", text=text, timeout=0.5)
    assert words in message, message


def test_what_is_refused(server):
    for what, body in [("fill", {"selector": "i"}), ("fill", {"text": "x"}), ("fill", {"selector": "i", "text": 7}), ("select_option", {"selector": "i"}),
                       ("select_option", {"value": "i"}), ("check", {}), ("uncheck", {}), ("upload_file", {"selector": "i"}),
                       ("upload_file", {"selector": "i", "files": "x"}), ("fill_form", {}), ("fill_form", {"items": [{"value": 1}]}),
                       ("fill_form", {"items": [{"selector": "x"}]}), ("fill_form", {"items": ["x"]}), ("type", {}), ("type", {"text": "x", "delay": -1}),
                       ("press_key", {}), ("press_key", {"key": "NoSuchKey"}), ("press_key", {"key": ""}), ("press_key", {"key": "Control+"}),
                       ("hot_key", {}), ("hot_key", {"keys": []}), ("hot_key", {"keys": ["Control", "nokey"]}), ("hot_key", {"keys": ["a"] * 11})]:
        assert PAGE.refused(server, what, **body)[0] == 422, (what, body)


def test_a_field_in_a_label_and_in_a_shadow_root(server, page):  # noqa: F811
    page.show("<label id=l>Name <input id=i></label><x-a></x-a><script>document.querySelector('x-a').attachShadow({mode: 'open'})"
              ".innerHTML = '<input>'</script>")
    done(server, "fill", selector="text=Name", text="by label")
    done(server, "fill", selector="x-a input", text="in the shadow")
    assert page.evaluate("i.value") == "by label"
    assert page.evaluate("document.querySelector('x-a').shadowRoot.firstChild.value") == "in the shadow"


def test_a_field_that_becomes_editable(server, page):  # noqa: F811
    page.show("<input id=i readonly disabled>")
    page.later("i.disabled = false", 200)
    page.later("i.readOnly = false", 500)
    done(server, "fill", selector="#i", text="now")
    assert page.evaluate("i.value") == "now"


def test_a_field_that_a_framework_watches(server, page):  # noqa: F811
    """As React does it: the page replaces the setter of the value, and compares."""
    page.show("<input id=i type=date><input id=t><script>var seen = []; for (const e of [i, t]) { let last = e.value; const of ="
              " Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value'); Object.defineProperty(e, 'value', {configurable: true,"
              " get() { return of.get.call(this) }, set(v) { last = v; of.set.call(this, v) }});"
              " e.addEventListener('input', () => { if (e.value !== last) { last = e.value; seen.push(e.value) } }) }</script>")
    done(server, "fill", selector="#i", text="2026-02-28")
    done(server, "fill", selector="#t", text="typed")
    assert page.evaluate("seen") == ["2026-02-28", "typed"]


@pytest.mark.parametrize("origin", ["url", "other"])
def test_in_a_frame(server, page, site, origin):  # noqa: F811
    inner = getattr(site, origin)(site.put("<input id=in onchange='send()' oninput='send()'><input id=c type=checkbox onchange='send()'>"
                                           "<select id=s onchange='send()'><option>a<option>b</select>"
                                           "<script>const send = () => parent.postMessage([document.getElementById('in').value, c.checked, s.value].join(), '*')</script>"))
    page.show(f"<script>onmessage = (e) => document.title = e.data</script><iframe src='{inner}'></iframe><input id=out>")
    done(server, "fill", selector="#in", text="漢字 🎉")
    page.becomes("document.title", "漢字 🎉,false,a")
    done(server, "fill", selector="#out", text="out")
    done(server, "check", selector="#c")
    done(server, "select_option", selector="#s", label="b")
    page.becomes("document.title", "漢字 🎉,true,b")
    done(server, "fill", selector="#in", text="")
    page.becomes("document.title", ",true,b")
    done(server, "click", selector="#in")
    done(server, "type", text="tü")
    done(server, "press_key", key="ArrowLeft")
    done(server, "type", text="1")
    page.becomes("document.title", "t1ü,true,b")
    assert page.evaluate("out.value") == "out"


# --- keys --------------------------------------------------------------------------------------

KEYS = ("<input id=i><script>var log = []; for (const t of ['keydown', 'keypress', 'keyup']) i.addEventListener(t, (e) =>"
        " log.push([t, e.key, e.code, e.keyCode, e.location, [e.ctrlKey && 'c', e.shiftKey && 's', e.altKey && 'a', e.metaKey && 'm']"
        ".filter(Boolean).join(''), e.isTrusted].join(' '))); i.focus()</script>")


@pytest.mark.parametrize("key, expected", [
    ("a", ["keydown a KeyA 65 0  true", "keypress a KeyA 97 0  true", "keyup a KeyA 65 0  true"]),
    ("A", ["keydown A KeyA 65 0 s true", "keypress A KeyA 65 0 s true", "keyup A KeyA 65 0 s true"]),
    ("KeyA", ["keydown a KeyA 65 0  true", "keypress a KeyA 97 0  true", "keyup a KeyA 65 0  true"]),
    ("Digit1", ["keydown 1 Digit1 49 0  true", "keypress 1 Digit1 49 0  true", "keyup 1 Digit1 49 0  true"]),
    ("!", ["keydown ! Digit1 49 0 s true", "keypress ! Digit1 33 0 s true", "keyup ! Digit1 49 0 s true"]),
    ("Enter", ["keydown Enter Enter 13 0  true", "keypress Enter Enter 13 0  true", "keyup Enter Enter 13 0  true"]),
    ("Return", ["keydown Enter Enter 13 0  true", "keypress Enter Enter 13 0  true", "keyup Enter Enter 13 0  true"]),
    ("ArrowDown", ["keydown ArrowDown ArrowDown 40 0  true", "keyup ArrowDown ArrowDown 40 0  true"]),
    ("BackSpace", ["keydown Backspace Backspace 8 0  true", "keyup Backspace Backspace 8 0  true"]),
    ("Delete", ["keydown Delete Delete 46 0  true", "keyup Delete Delete 46 0  true"]),
    ("Escape", ["keydown Escape Escape 27 0  true", "keyup Escape Escape 27 0  true"]),
    ("F2", ["keydown F2 F2 113 0  true", "keyup F2 F2 113 0  true"]),
    ("space", ["keydown   Space 32 0  true", "keypress   Space 32 0  true", "keyup   Space 32 0  true"]),
    ("+", ["keydown + Equal 187 0 s true", "keypress + Equal 43 0 s true", "keyup + Equal 187 0 s true"]),
    ("ControlRight", ["keydown Control ControlRight 17 2 c true", "keyup Control ControlRight 17 2  true"]),
    ("Control+a", ["keydown Control ControlLeft 17 1 c true", "keydown a KeyA 65 0 c true", "keyup a KeyA 65 0 c true", "keyup Control ControlLeft 17 1  true"]),
    ("ctrl++", ["keydown Control ControlLeft 17 1 c true", "keydown + Equal 187 0 cs true", "keyup + Equal 187 0 cs true",
                "keyup Control ControlLeft 17 1  true"]),
    ("Numpad5", ["keydown 5 Numpad5 101 3  true", "keypress 5 Numpad5 53 3  true", "keyup 5 Numpad5 101 3  true"]),
])
def test_keys(server, page, key, expected):  # noqa: F811
    page.show(KEYS)
    done(server, "press_key", key=key)
    got = page.evaluate("log")
    if key in ("A", "!", "+", "ctrl++"):  # whether Shift is still down when the key goes up is not the point
        got = [line.replace(" cs ", " c ").replace(" s ", "  ") for line in got]
        expected = [line.replace(" cs ", " c ").replace(" s ", "  ") for line in expected]
    assert got == expected


def test_combinations(server, page):  # noqa: F811
    page.show("<input id=i value='one two'><input id=o><script>i.focus()</script>")
    done(server, "hot_key", keys=["Control", "a"])
    assert page.evaluate("getSelection().toString()") == "one two"
    done(server, "hot_key", keys=["ctrl", "c"])
    done(server, "press_key", key="Tab")
    assert page.evaluate("document.activeElement.id") == "o"
    done(server, "hot_key", keys=["Control", "V"])
    page.becomes("o.value", "one two")
    done(server, "hot_key", keys=["Shift", "Home"])
    done(server, "hot_key", keys=["Control+X"])
    page.becomes("o.value", "")
    done(server, "hot_key", keys=["Shift", "Tab"])
    assert page.evaluate("document.activeElement.id") == "i"
    done(server, "press_key", key="End")
    done(server, "hot_key", keys=["Control", "Backspace"])
    page.becomes("i.value", "one ")
    done(server, "hot_key", keys=["Shift", "1"])
    page.becomes("i.value", "one !")


@pytest.mark.parametrize("text", TEXTS[:-1] + ["tab\tand", "x" * 500], ids=range(len(TEXTS) + 1))
def test_typing(server, page, text):  # noqa: F811
    page.show("<textarea id=t></textarea><script>t.focus(); t.onkeydown = (e) => { if (e.key === 'Tab') { e.preventDefault();"
              " t.setRangeText('\\t', t.selectionStart, t.selectionEnd, 'end') } }</script>")
    done(server, "type", text=text)
    assert page.evaluate("t.value") == text


def test_typing_slowly(server, page):  # noqa: F811
    page.show("<input id=i><script>var times = []; i.focus(); i.oninput = () => times.push(performance.now())</script>")
    done(server, "type", text="slöw", delay=100)
    assert page.evaluate("i.value") == "slöw"
    times = page.evaluate("times")
    assert len(times) == 4 and times[-1] - times[0] >= 250


def test_typing_enter(server, page, site):  # noqa: F811
    page.show("<form action=/typed method=post><input name=a autofocus><input name=b><button>Go</button></form>")
    done(server, "click", selector="[name=a]")
    done(server, "type", text="one\ttwo\n")
    assert eventually(lambda: site.posts and site.posts[-1][0] == "/typed") and site.posts[-1][1] == b"a=one&b=two"


def test_a_dialog_while_typing(server, page):  # noqa: F811
    page.show("<input id=i oninput='alert(i.value)'>")
    with quickly():
        answer = reply(server, "fill", selector="#i", text="x")
        assert answer["success"] and "Dialog opened (alert): x" in answer["hint"], answer
        assert "dialog" in failed(server, "type", text="y")
        assert "dialog" in failed(server, "press_key", key="y")
    page.tools.call("Page.handleJavaScriptDialog", accept=True)


# --- lists -------------------------------------------------------------------------------------

LIST = ("<select id=s {}><option value=r>Red</option><option value=g>Green  light</option><option value=b disabled>Blue</option></select>"
        "<script>var events = []; s.oninput = s.onchange = (e) => events.push(e.type)</script>")


@pytest.mark.parametrize("by", [{"value": "g"}, {"value": "Green light"}, {"label": "Green light"}, {"index": 1}, {"label": "Green light", "index": 1},
                                {"values": ["g"]}])
def test_an_option(server, page, by):  # noqa: F811
    page.show(LIST.format(""))
    assert done(server, "select_option", selector="#s", **by)["values"] == ["g"]
    assert page.evaluate("s.value") == "g" and page.evaluate("events") == ["input", "change"]


def test_several_options(server, page):  # noqa: F811
    page.show(LIST.format("multiple").replace("disabled", ""))
    assert done(server, "select_option", selector="#s", values=["r", "Blue"])["values"] == ["r", "b"]
    assert done(server, "select_option", selector="#s", value="g")["values"] == ["g"]
    assert page.evaluate("[...s.selectedOptions].map((o) => o.value)") == ["g"]


@pytest.mark.parametrize("by, words", [({"value": "x"}, "no option"), ({"label": "r"}, "no option"), ({"index": 9}, "no option"), ({"value": "b"}, "is disabled"),
                                       ({"label": "Red", "index": 1}, "no option"), ({"values": ["r", "g"]}, "takes one option")])
def test_no_such_option(server, page, by, words):  # noqa: F811
    page.show(LIST.format(""))
    assert words in failed(server, "select_option", selector="#s", timeout=0.5, **by)
    assert page.evaluate("s.value") == "r" and page.evaluate("events") == []


def test_an_option_that_never_comes_is_not_waited_for_as_an_element_is(server, page):  # noqa: F811
    page.show(LIST.format(""))
    began = time.monotonic()
    assert "no option" in failed(server, "select_option", selector="#s", value="x")
    assert time.monotonic() - began < 15  # 3 s on a quiet machine, of the 30 s that it may take


def test_an_option_that_comes_later(server, page):  # noqa: F811
    page.show(LIST.format(""))
    page.later("s.add(new Option('Late', 'l'))")
    assert done(server, "select_option", selector="#s", value="l")["values"] == ["l"]


def test_what_is_not_a_list(server, page):  # noqa: F811
    page.show("<input id=s>")
    assert "is not a list" in failed(server, "select_option", selector="#s", value="x", timeout=0.5)


# --- what is checked ---------------------------------------------------------------------------


def test_checkboxes(server, page):  # noqa: F811
    page.show("<input type=checkbox id=c onclick='n++'><script>var n = 0</script>")
    for what, value, clicks in (("check", True, 1), ("check", True, 1), ("uncheck", False, 2), ("uncheck", False, 2)):
        assert done(server, what, selector="#c")["checked"] is value
        assert page.evaluate("c.checked") is value and page.evaluate("n") == clicks


@pytest.mark.parametrize("css", ["display:none", "position:absolute; opacity:0; width:0; height:0", "position:absolute; opacity:0", "appearance:none; width:0"])
def test_a_checkbox_that_its_label_draws(server, page, css):  # noqa: F811
    page.show(f"<label id=l style='display:inline-block; padding:10px'><input type=checkbox id=c style='{css}'><span>On or off</span></label>")
    assert done(server, "check", selector="#c")["checked"] is True
    assert page.evaluate("c.checked") is True
    done(server, "uncheck", selector="text=On or off")
    assert page.evaluate("c.checked") is False


def test_radio_buttons_and_switches(server, page):  # noqa: F811
    page.show("<input type=radio name=r id=r1 checked><input type=radio name=r id=r2>"
              "<div id=s role=switch aria-checked=false onclick='s.ariaChecked = s.ariaChecked !== \"true\"'>Switch</div>")
    done(server, "check", selector="#r2")
    assert page.evaluate("[r1.checked, r2.checked]") == [False, True]
    assert "cannot be unchecked" in failed(server, "uncheck", selector="#r2", timeout=0.5)
    done(server, "check", selector="#s")
    assert page.evaluate("s.ariaChecked") == "true"
    done(server, "uncheck", selector="#s")
    assert page.evaluate("s.ariaChecked") == "false"


def test_a_checkbox_that_does_not_change(server, page):  # noqa: F811
    page.show("<input type=checkbox id=c onclick='event.preventDefault()'><p id=p>x")
    assert "did not become checked" in failed(server, "check", selector="#c")
    assert "not a checkbox" in failed(server, "check", selector="#p", timeout=0.5)
    assert "no element matches" in failed(server, "uncheck", selector="#q", timeout=0.5)


# --- files -------------------------------------------------------------------------------------


def write(tester, name, data, mode=0o644):
    path = f"/home/{tester}/{name}"
    with open(path, "wb") as file:
        file.write(data)
    user = pwd.getpwnam(tester)
    os.chown(path, user.pw_uid, user.pw_gid)
    os.chmod(path, mode)
    return path


def posted(site):
    """The parts of the form that was sent last: name, file name, bytes."""
    found = re.findall(rb'name="([^"]*)"; filename="([^"]*)"\r\nContent-Type: [^\r]*\r\n\r\n(.*?)\r\n--', site.posts[-1][1], re.DOTALL)
    return [(name.decode(), file.decode(), data) for name, file, data in found]


def test_files_that_arrive(server, page, site, tester):  # noqa: F811
    """What the server of the form gets, byte by byte."""
    data = bytes(range(256)) * 1000
    first, second = write(tester, "one.bin", data), write(tester, "zwei ü.txt", b"two")
    page.show("<form method=post action=/upload enctype=multipart/form-data><input type=file id=f name=f multiple style='display:none'>"
              "<button>Send</button></form><script>var events = []; f.oninput = f.onchange = (e) => events.push(e.type)</script>")
    assert done(server, "upload_file", selector="#f", files=[first, "~/zwei ü.txt"]) == {"files": [first, second]}
    assert page.evaluate("events") == ["input", "change"]
    done(server, "click", selector="text=Send")
    assert posted(site) == [("f", "one.bin", data), ("f", "zwei ü.txt", b"two")]


def test_one_file(server, page, site, tester):  # noqa: F811
    write(tester, "one.txt", b"one")
    page.show("<form method=post action=/upload enctype=multipart/form-data><label id=l>File <input type=file id=f name=f></label><button>Send</button></form>")
    done(server, "upload_file", selector="#l", files=["one.txt"])
    assert "takes one file, not 2" in failed(server, "upload_file", selector="#f", files=["one.txt", "one.txt"])
    assert page.evaluate("f.files[0].name") == "one.txt"
    done(server, "click", selector="text=Send")
    assert posted(site) == [("f", "one.txt", b"one")]


def test_no_files(server, page, tester):  # noqa: F811
    write(tester, "one.txt", b"one")
    page.show("<input type=file id=f>")
    done(server, "upload_file", selector="#f", files=["one.txt"])
    done(server, "upload_file", selector="#f", files=[])
    assert page.evaluate("f.files.length") == 0


def test_a_directory(server, page, tester):  # noqa: F811
    os.makedirs(f"/home/{tester}/folder", exist_ok=True)
    os.chown(f"/home/{tester}/folder", pwd.getpwnam(tester).pw_uid, -1)
    write(tester, "folder/in.txt", b"in")
    page.show("<input type=file id=f><input type=file id=d webkitdirectory>")
    done(server, "upload_file", selector="#d", files=["folder"])
    assert page.evaluate("[...d.files].map((f) => f.webkitRelativePath)") == ["folder/in.txt"]
    assert "not a directory" in failed(server, "upload_file", selector="#f", files=["folder"], timeout=1)


def test_files_that_cannot_be_read(server, page, tester):  # noqa: F811
    write(tester, "secret.txt", b"secret", 0o600)
    os.chown(f"/home/{tester}/secret.txt", 0, 0)
    os.mkfifo(f"/home/{tester}/fifo")
    page.show("<input type=file id=f><p>x")
    for path, words in (("nothing.txt", "No such file"), ("secret.txt", "Permission denied"), ("fifo", "FIFO"), ("/etc/shadow", "Permission denied")):
        assert words in failed(server, "upload_file", selector="#f", files=[path])
    assert page.evaluate("f.files.length") == 0
    assert "not a field for files" in failed(server, "upload_file", selector="p", files=["/etc/hosts"], timeout=0.5)


def test_a_file_in_a_frame(server, page, site, tester):  # noqa: F811
    write(tester, "one.txt", b"one")
    inner = site.other(site.put("<input type=file id=f onchange='f.files[0].text().then((t) => parent.postMessage(t, \"*\"))'>"))
    page.show(f"<script>onmessage = (e) => document.title = e.data</script><iframe src='{inner}'></iframe>")
    done(server, "upload_file", selector="#f", files=["one.txt"])
    page.becomes("document.title", "one")


# --- several fields ----------------------------------------------------------------------------

FORM = ("<form method=post action=/form><input name=name><textarea name=text></textarea><select name=colour><option value=r>Red<option value=g>Green</select>"
        "<select name=many multiple><option>a<option>b<option>c</select><input type=checkbox name=agree><input type=checkbox name=spam checked>"
        "<input type=radio name=size value=s><label><input type=radio name=size value=m>Medium</label><input type=number name=age><input type=date name=day>"
        "<button>Send</button></form>")


def test_a_form(server, page, site):  # noqa: F811
    page.show(FORM)
    items = [{"selector": "[name=name]", "value": "Żółw 🐢"}, {"selector": "[name=text]", "text": "one\ntwo"}, {"selector": "[name=colour]", "value": "Green"},
             {"selector": "[name=many]", "value": ["a", "c"]}, {"selector": "[name=agree]", "value": True}, {"selector": "[name=spam]", "value": False},
             {"selector": "[name=size]", "value": "Medium"}, {"selector": "[name=age]", "value": 42}, {"selector": "[name=day]", "value": "2026-02-28"}]
    assert done(server, "fill_form", items=items) == {"filled": 9}
    assert page.evaluate("[...new FormData(document.forms[0])].map((e) => e.join('='))") == [
        "name=Żółw 🐢", "text=one\ntwo", "colour=g", "many=a", "many=c", "agree=on", "size=m", "age=42", "day=2026-02-28"]


def test_a_form_that_cannot_be_filled(server, page):  # noqa: F811
    page.show(FORM)
    items = [{"selector": "[name=name]", "value": "x"}, {"selector": "[name=nothing]", "value": "x"}, {"selector": "[name=age]", "value": 1}]
    message = failed(server, "fill_form", items=items, timeout=0.5)
    assert "item 1 ('[name=nothing]')" in message and "1 of 3 were filled" in message
    assert page.evaluate("[document.forms[0].name.value, document.forms[0].age.value]") == ["x", ""]
    for value, words in ((["x"], "text"), ({"a": 1}, "text")):
        assert words in failed(server, "fill_form", items=[{"selector": "[name=name]", "value": value}], timeout=0.5)
    assert "true or false" in failed(server, "fill_form", items=[{"selector": "[name=agree]", "value": "perhaps"}], timeout=0.5)
    assert "no radio button" in failed(server, "fill_form", items=[{"selector": "[name=size]", "value": "XXL"}], timeout=0.5)


def test_files_of_a_form(server, page, tester):  # noqa: F811
    write(tester, "one.txt", b"one")
    page.show("<input type=file id=f>")
    done(server, "fill_form", items=[{"selector": "#f", "value": "one.txt"}])
    assert page.evaluate("f.files[0].name") == "one.txt"
