"""A page as a tree of roles, names, states and texts."""

import json
import re

import pytest
import yaml

from contents import ask, blank, browsing, reply, show, site  # noqa: F401
from desktop import BROWSER_NEEDED, devtools, pixels, tester  # noqa: F401

pytestmark = BROWSER_NEEDED
FORM = """\
- navigation "Main" [ref=e1]:
  - list [ref=e2]:
    - listitem [ref=e3]:
      - link "Home" [ref=e4] [cursor=pointer]:
        - /url: /
    - listitem [ref=e5]:
      - 'link "Help: first steps" [ref=e6] [cursor=pointer]':
        - /url: /help
- main [ref=e7]:
  - heading "Book a berth" [level=1] [ref=e8]
  - paragraph [ref=e9]: For one night or more.
  - form "Booking" [ref=e10]:
    - text: Name
    - textbox "Name" [ref=e11]: Ines
    - text: Password
    - textbox "Password" [ref=e12]: ••••••
    - textbox "Boat" [ref=e13]
    - checkbox "Electricity" [checked] [ref=e14]
    - text: Electricity
    - radio "Small" [ref=e15]
    - text: Small
    - combobox "Nights" [ref=e16]:
      - option "One" [ref=e17]
      - option "Two" [selected] [ref=e18]
    - textbox "Remarks" [ref=e19]: "no: thanks"
    - button "Book" [disabled] [ref=e20]
    - button "More" [pressed] [ref=e21]
    - generic [ref=e22] [cursor=pointer]: Click me
  - img "The quay" [ref=e23]
  - text: but this
  - table [ref=e24]:
    - rowgroup [ref=e25]:
      - row "Day Price" [ref=e26]:
        - columnheader "Day" [ref=e27]
        - columnheader "Price" [ref=e28]
      - row "Mon 12 €" [ref=e29]:
        - cell "Mon" [ref=e30]
        - cell "12 €" [ref=e31]
  - button "In the shadow" [ref=e32]
  - iframe "Weather" [ref=e33]:
    - heading "Rain" [level=2] [ref=f1e1]
    - link "More" [ref=f1e2] [cursor=pointer]:
      - /url: /more
"""


def snapshot(server, **query):
    return ask(server, "page/snapshot", **query)["snapshot"]


def as_yaml(text):
    return yaml.safe_load(text)


@pytest.fixture
def form(browsing, site):  # noqa: F811
    site.add("/weather.html", "<h2>Rain</h2><a href=/more>More</a>")
    show(browsing, f"{site.url}/form.html")


def test_a_form(browsing, site, form):  # noqa: F811
    data = ask(browsing, "page/snapshot")
    assert data == {"url": f"{site.url}/form.html", "title": "Berth booking", "snapshot": FORM, "truncated": False}
    assert [list(entry)[0] for entry in as_yaml(FORM)] == ['navigation "Main" [ref=e1]', "main [ref=e7]"]


def test_a_ref_stays_its_elements_own(browsing, form):  # noqa: F811
    assert snapshot(browsing) == FORM
    with devtools(browsing) as page:
        page.evaluate("document.querySelector('h1').insertAdjacentHTML('beforebegin', '<h2>New</h2>'); document.querySelector('nav').remove()")
    text = snapshot(browsing)
    assert '- heading "New" [level=2] [ref=e34]' in text and "[ref=e1]" not in text
    assert '- heading "Book a berth" [level=1] [ref=e8]' in text


def test_a_ref_is_a_selector(browsing, site):  # noqa: F811
    show(browsing, f"{site.url}/picture.html")
    with devtools(browsing) as page:
        page.evaluate("document.querySelector('#green').role = 'button'")
    ref = re.search(r"button \[ref=(e\d+)\]", snapshot(browsing))[1]
    response = browsing.get("/v1/browser/page/screenshot", params={"selector": f"aria-ref={ref}"}, timeout=110)
    assert pixels(browsing, response.content)[:2] == (60, 40)


def test_a_part_of_the_page(browsing, form):  # noqa: F811
    assert snapshot(browsing, selector="nav li:last-child") == (
        "- listitem [ref=e1]:\n  - 'link \"Help: first steps\" [ref=e2] [cursor=pointer]':\n    - /url: /help\n")
    body = reply(browsing, "page/snapshot", selector="#none")
    assert not body["success"] and "no element matches '#none'" in body["message"]


def test_frames_of_other_sites(browsing, site):  # noqa: F811
    other = site.url.replace("127.0.0.1", "localhost")
    site.add("/inner", f"<button>Inner</button><iframe src='{site.url}/innermost'></iframe>")
    site.add("/innermost", "<button>Innermost</button>")
    show(browsing, site.add("/outer", f"<button>Outer</button><iframe src='{other}/inner'></iframe><iframe srcdoc='<button>Here</button>'></iframe>"))
    assert snapshot(browsing) == ('- button "Outer" [ref=e1]\n- iframe [ref=e2]:\n  - button "Inner" [ref=f1e1]\n  - iframe [ref=f1e2]:\n'
                                  '    - button "Innermost" [ref=f2e1]\n- iframe [ref=e3]:\n  - button "Here" [ref=f3e1]\n')


def test_a_frame_that_hangs(browsing, site):  # noqa: F811
    other = site.url.replace("127.0.0.1", "localhost")
    site.add("/busy", "<script>setTimeout(() => { for (const end = Date.now() + 20000; Date.now() < end;); }, 100)</script>")
    show(browsing, site.add("/around", f"<button>Outer</button><iframe src='{other}/busy'></iframe>"))
    with devtools(browsing) as page:
        page.evaluate("new Promise((done) => setTimeout(done, 500))")
    text = snapshot(browsing)
    assert text.startswith('- button "Outer" [ref=e1]\n- iframe [ref=e2]:\n  - text: "(not readable: ')
    as_yaml(text)


@pytest.mark.parametrize("text", ["- a: b", "# x", "null", "1e3", "'", '"', "a: b", "[x]", "{", "a #b", "x:", "@", "`", "\\", "é\u2028ü", "yes", "%", "!x", "*y", "&z"])
def test_odd_texts_are_yaml(browsing, site, text):  # noqa: F811
    show(browsing, site.add("/odd", "<p></p><button></button>"))
    with devtools(browsing) as page:
        page.evaluate(f"for (const e of document.querySelectorAll('p, button')) e.textContent = {json.dumps(text)}")
    wanted = " ".join(text.split())
    assert as_yaml(snapshot(browsing)) == [{"paragraph [ref=e1]": wanted}, f"button {json.dumps(wanted, ensure_ascii=False)} [ref=e2]"]


def test_an_empty_page(browsing):  # noqa: F811
    assert snapshot(browsing) == ""


def test_a_million_nodes(browsing, site):  # noqa: F811
    show(browsing, site.add("/wide", "<body style='content-visibility:hidden'>"))
    with devtools(browsing) as page:
        page.evaluate("""{ const part = document.createDocumentFragment();
            for (let i = 0; i < 500000; i++) part.appendChild(document.createElement('button')).textContent = i; document.body.append(part) }; 0""")
    data = ask(browsing, "page/snapshot")
    assert data["truncated"] and 1000 < len(data["snapshot"]) < 300_000
    assert data["snapshot"].startswith('- button "0" [ref=e1]\n- button "1" [ref=e2]\n')


def test_deep_nesting(browsing, site):  # noqa: F811
    show(browsing, site.add("/deep", "<body></body>"))
    with devtools(browsing) as page:
        page.evaluate("""{ let at = document.body;
            for (let i = 0; i < 400; i++) at = at.appendChild(document.createElement(i % 4 ? 'div' : 'section')), at.ariaLabel = i;
            at.textContent = 'bottom' }; 0""")
    data = ask(browsing, "page/snapshot")
    assert "bottom" in data["snapshot"] and len(data["snapshot"]) < 200_000


def test_endless_names(browsing, site):  # noqa: F811
    show(browsing, site.add("/names", "<button></button><p></p>"))
    with devtools(browsing) as page:
        page.evaluate("document.querySelector('button').ariaLabel = 'x'.repeat(1e7); document.querySelector('p').textContent = 'y'.repeat(1e7)")
    assert len(snapshot(browsing)) < 10_000
