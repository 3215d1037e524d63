"""Text on the page."""

import pytest

from contents import BROWSER, blank, browsing, sdk, show, site  # noqa: F401
from desktop import BROWSER_NEEDED, devtools, tester  # noqa: F401

pytestmark = BROWSER_NEEDED


def find(server, keyword):
    return BROWSER.ask(server, "page/find_text", keyword=keyword)


def page_of(server, site, body):  # noqa: F811
    show(server, site.add("/find", f"<title>Find</title><style>body {{ margin: 0; font: 20px/30px monospace }}</style>{body}"))


def test_every_place(browsing, site):  # noqa: F811
    page_of(browsing, site, "<p style='margin:0'>One tide, <b>two</b> Tides.<div style='margin-top:3000px'>The TIDE<br>mill</div>")
    found = find(browsing, "tide")
    assert [(match["text"], match["element"], match["in_viewport"]) for match in found] == [
        ("tide", "p", True), ("Tide", "p", True), ("TIDE", "div", False)]
    assert found[0]["context"] == "One tide, two Tides."
    first = found[0]
    assert first["y"] < 30 and first["height"] > 10 and first["width"] == pytest.approx(first["x"], rel=0.05)
    assert found[2]["y"] > 3000


def test_over_borders_of_elements(browsing, site):  # noqa: F811
    page_of(browsing, site, "<p>The wh<b>eel</b>\n  <i>turns</i></p><p>round</p>and<br>round")
    assert [match["text"] for match in find(browsing, "wheel  TURNS")] == ["wheel turns"]
    assert find(browsing, "turns round") == [] and find(browsing, "and round") == []


def test_what_is_not_shown_is_not_found(browsing, site):  # noqa: F811
    page_of(browsing, site, "<p style='display:none'>secret</p><script>'secret'</script><style>secret{}</style><template>secret</template>"
                            "<!-- secret --><input value=secret><p>open")
    assert find(browsing, "secret") == [] and len(find(browsing, "open")) == 1


def test_in_a_shadow_tree(browsing, site):  # noqa: F811
    show(browsing, f"{site.url}/shadow.html")
    assert [match["context"] for match in find(browsing, "by the component")] == ["Above, by the component.", "Below, by the component."]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_in_a_frame(browsing, site, host):  # noqa: F811
    """Of this site or of another one; one that hangs is passed over."""
    inner = site.add("/inner-find", "<body style='margin:0'><p>A tide in a frame").replace("127.0.0.1", host)
    page_of(browsing, site, f"<p>The tide<iframe src={inner}></iframe>")
    assert [(match["context"], match["frame"]) for match in find(browsing, "tide")] == [("The tide", None), ("A tide in a frame", inner)]


@pytest.mark.parametrize("keyword, count", [("磨坊", 2), ("[a](b) $1.50*", 1), ("👩‍👩‍👧", 1), ("straße", 1), ("\\d+", 0), (".", 1), ("^", 0)])
def test_any_text(browsing, site, keyword, count):  # noqa: F811
    page_of(browsing, site, "<p>港口的磨坊和磨坊主</p><p>[a](b) $1.50*</p><p>👩‍👩‍👧 STRAßE")
    assert len(find(browsing, keyword)) == count


def test_nothing_to_look_for(browsing):  # noqa: F811
    for keyword in ("", " \n"):
        assert BROWSER.refused(browsing, "page/find_text", keyword=keyword)[0] == 422
    assert BROWSER.refused(browsing, "page/find_text")[0] == 422


def test_at_most_a_thousand(browsing, site):  # noqa: F811
    page_of(browsing, site, "<p>" + "word " * 5000)
    reply = BROWSER.reply(browsing, "page/find_text", keyword="word")
    assert len(reply["data"]) == 1000 and "may be more" in reply["hint"]


def test_ten_megabytes(browsing, site):  # noqa: F811
    show(browsing, site.add("/large", "<body style='content-visibility:hidden'>"))
    with devtools(browsing) as page:
        page.evaluate("document.body.append('a'.repeat(1e7), 'needle')")
    found = find(browsing, "aneedle")
    assert len(found) == 1 and len(found[0]["context"]) < 300


def test_by_the_sdk(browsing, site):  # noqa: F811
    page_of(browsing, site, "<p>One tide")
    with sdk(browsing) as client:
        assert [match["text"] for match in client.browser_page.find_text(keyword="TIDE").data] == ["tide"]
