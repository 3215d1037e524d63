"""A page as Markdown: pages with what they are to become (tests/pages), and hostile ones."""

import threading

import pytest

from contents import PAGES, ask, blank, browsing, reply, sdk, show, site  # noqa: F401
from desktop import BROWSER_NEEDED, devtools, tester  # noqa: F401
from harness import eventually

pytestmark = BROWSER_NEEDED
NAMES = sorted(path.stem for path in PAGES.glob("*.md"))
PROSE = "The sea fills the pond behind the mill, twice a day, and twice a day it wants to leave. "


def read(server, url=None):
    if url:
        show(server, url)
    return ask(server, "page/markdown")


@pytest.mark.parametrize("name", NAMES)
def test_a_page(browsing, site, name):  # noqa: F811
    data = read(browsing, f"{site.url}/{name}.html")
    assert data["markdown"].replace(site.url, "http://site") + "\n" == (PAGES / f"{name}.md").read_text()
    assert data["url"] == f"{site.url}/{name}.html" and not data["truncated"]


def test_what_is_known_of_an_article(browsing, site):  # noqa: F811
    data = read(browsing, f"{site.url}/article.html")
    del data["markdown"], data["url"]
    assert data == {"title": "The tide mill at Carrow – Harbour Notes", "byline": "Ines Hallam",
                    "published": "2024-03-09T08:00:00Z", "site": "Harbour Notes", "language": "en", "article": True,
                    "excerpt": "How a mill turned by the sea ground flour for three centuries.", "truncated": False}


def test_what_is_not_known_is_null(browsing, site):  # noqa: F811
    data = read(browsing, site.add("/bare", "<p>Just this."))
    assert data == {"title": "", "url": f"{site.url}/bare", "markdown": "Just this.", "byline": None, "published": None,
                    "excerpt": None, "site": None, "language": None, "article": False, "truncated": False}


def test_a_blank_page(browsing):  # noqa: F811
    assert read(browsing)["markdown"] == ""


def test_what_a_script_has_made_is_there(browsing, site):  # noqa: F811
    show(browsing, site.add("/made", "<main></main>"))
    with devtools(browsing) as page:
        page.evaluate("document.querySelector('main').innerHTML = '<h1>Late</h1><p>but there'")
    assert read(browsing)["markdown"] == "# Late\n\nbut there"


def test_a_link_list_without_prose_is_kept(browsing, site):  # noqa: F811
    links = "".join(f"<li><a href='/{n}'>Harbour {n} is open again</a></li>" for n in range(30))
    data = read(browsing, site.add("/links", f"<title>Front</title><nav><a href=/x>Nav</a></nav><div><ul>{links}</ul></div>"))
    assert not data["article"]
    assert data["markdown"].split("\n") == [f"- [Harbour {n} is open again]({site.url}/{n})" for n in range(30)]


def test_the_title_is_the_heading_where_there_is_none(browsing, site):  # noqa: F811
    data = read(browsing, site.add("/headless", f"<title>A *mill*</title><article><p>{PROSE * 9}</p></article>"))
    assert data["article"] and data["markdown"] == f"# A \\*mill\\*\n\n{(PROSE * 9).strip()}"


# --- hostile pages -----------------------------------------------------------------------------


def made(server, site, path, script):  # noqa: F811
    """A page that a script fills."""
    show(server, site.add(path, "<title>t</title><body></body>"))
    with devtools(server) as page:
        page.evaluate(f"{{ {script} }}; 0")
    return read(server)


def test_deep_nesting(browsing, site):  # noqa: F811
    data = made(browsing, site, "/deep", """let at = document.body;
        for (let i = 0; i < 300; i++) at = at.appendChild(document.createElement(i % 2 ? 'blockquote' : 'div'));
        at.textContent = 'the bottom'""")
    assert data["markdown"] == "> " * 40 + "the bottom" and not data["truncated"]


def test_ten_thousand_levels(browsing, site):  # noqa: F811
    """The browser itself may not survive to lay that out; whoever asks is told."""
    show(browsing, site.add("/deeper", "<title>t</title><body></body>"))
    with devtools(browsing) as page:
        page.evaluate("""{ let at = document.body; document.body.style.display = 'none';
            for (let i = 0; i < 10000; i++) at = at.appendChild(document.createElement('div'));
            at.textContent = 'the bottom' }; 0""")
    assert read(browsing)["markdown"] == ""
    with devtools(browsing) as page:
        page.send("Runtime.evaluate", expression="document.body.style.display = ''")

        def told():
            body = reply(browsing, "page/markdown")
            return body if not body["success"] or body["data"]["markdown"] else None  # not done yet

        body = eventually(told)
    assert body["data"]["markdown"] == "the bottom" if body["success"] else "crashed" in body["message"], body


def test_a_million_nodes(browsing, site):  # noqa: F811
    data = made(browsing, site, "/wide", """const part = document.createDocumentFragment();
        for (let i = 0; i < 500000; i++) part.appendChild(document.createElement('i')).textContent = 'w ';
        const box = document.createElement('p'); box.style.display = 'grid'; box.style.contentVisibility = 'hidden';
        box.append(part); document.body.append(box)""")
    assert data["truncated"] and len(data["markdown"]) <= 500_000


def test_endless_text(browsing, site):  # noqa: F811
    data = made(browsing, site, "/long", "document.body.append('word '.repeat(1e6))")
    assert data["truncated"] and data["markdown"] == "# t\n\n" + ("word " * 99_999).strip()


def test_a_page_that_leaves_meanwhile(browsing, site):  # noqa: F811
    """Either it was read, or the caller is told that it went; and the next call is for the next page."""
    show(browsing, f"{site.url}/article.html")
    with devtools(browsing) as page:
        going = threading.Thread(target=lambda: [page.call("Page.navigate", url=f"{site.url}/news.html?{n}") for n in range(30)])
        going.start()
        while going.is_alive():
            body = reply(browsing, "page/markdown")
            assert body["success"] or "document went away" in body["message"], body
        going.join()
    show(browsing, f"{site.url}/home.html")
    assert read(browsing)["markdown"].startswith("# Welcome back")


def test_a_page_that_loops_for_ever_is_given_up(browsing, site):  # noqa: F811
    show(browsing, site.add("/busy", "<p>busy"))
    with devtools(browsing) as page:
        page.send("Runtime.evaluate", expression="setTimeout(() => { for (;;); })")

        def given_up():
            body = reply(browsing, "page/markdown")
            return body if not body["success"] else None  # before it loops

        body = eventually(given_up)
        assert body and "did not answer" in body["message"], body
        page.send("Runtime.terminateExecution")


def test_a_dialog_is_named(browsing, site):  # noqa: F811
    show(browsing, site.add("/asks", "<p>asks"))
    with devtools(browsing) as page:
        page.call("Page.enable")
        page.send("Runtime.evaluate", expression="setTimeout(() => alert('Well?'))")
        page.event("Page.javascriptDialogOpening")
        body = reply(browsing, "page/markdown")
        assert not body["success"] and "Well?" in body["message"], body
        page.call("Page.handleJavaScriptDialog", accept=True)
    assert eventually(lambda: reply(browsing, "page/markdown")["success"])
    assert read(browsing)["markdown"] == "asks"


def test_by_the_sdk(browsing, site):  # noqa: F811
    show(browsing, f"{site.url}/home.html")
    with sdk(browsing) as client:
        assert client.browser_page.get_markdown().data["markdown"].startswith("# Welcome back")
