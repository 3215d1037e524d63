"""Pictures of the page: of what is in view, of all of it, of an element."""

import struct
import threading

import pytest

from contents import blank, browsing, sdk, show, site  # noqa: F401
from desktop import BROWSER_NEEDED, devtools, pixels, tester  # noqa: F401

pytestmark = BROWSER_NEEDED
RED, GREEN, BLUE, WHITE = (200, 10, 20), (10, 180, 30), (20, 30, 220), (255, 255, 255)


def take(server, **query):
    return server.get("/v1/browser/page/screenshot", params=query, timeout=110)


def picture(server, **query):
    """Its size and a function that answers the colour at a place."""
    response = take(server, **query)
    assert response.status_code == 200, response.text[:1000]
    width, height, rgb = pixels(server, response.content)
    assert (str(width), str(height)) == (response.headers["x-image-width"], response.headers["x-image-height"])
    return width, height, lambda x, y: tuple(rgb[(y * width + x) * 3:(y * width + x) * 3 + 3])


def view(server):
    with devtools(server) as page:
        return tuple(page.evaluate("[innerWidth, innerHeight, scrollY]"))


def test_what_is_in_view(browsing, site):  # noqa: F811
    show(browsing, f"{site.url}/picture.html")
    width, height, at = picture(browsing)
    assert (width, height) == view(browsing)[:2]
    assert [at(50, 50), at(150, 50), at(50, height - 1)] == [RED, WHITE, WHITE]
    with devtools(browsing) as page:
        page.evaluate("scrollTo(0, 1400)")
    _, _, at = picture(browsing)
    assert [at(51, 101), at(49, 101), at(50, 50)] == [GREEN, WHITE, WHITE]


def test_the_whole_page(browsing, site):  # noqa: F811
    show(browsing, f"{site.url}/picture.html")
    before = view(browsing)
    width, height, at = picture(browsing, full_page=True)
    assert (width, height) == (before[0], 3000)
    assert [at(99, 99), at(100, 99), at(109, 1539), at(110, 1539), at(99, 2999)] == [RED, WHITE, GREEN, WHITE, BLUE]
    assert view(browsing) == before


def test_scrollbars_are_there_again(browsing, site):  # noqa: F811
    """A picture of more than is in view has none, and shows the page as it is laid out then; afterwards it is as it was."""
    show(browsing, site.add("/bars", "<!doctype html><body style='margin:0;height:3000px;background:rgb(200,10,20)'>"
                            "<div id=end style='position:absolute;right:0;top:2000px;width:50px;height:50px;background:rgb(20,30,220)'></div>"))
    with devtools(browsing) as page:
        before = page.evaluate("[innerWidth, innerHeight, document.documentElement.clientWidth, document.adoptedStyleSheets.length]")
        assert before[2] < before[0], "this page has a scrollbar"
        width, height, at = picture(browsing, full_page=True)
        assert (width, height) == (before[0], 3000) and at(width - 1, 2001) == BLUE and at(width - 1, 0) == RED
        assert page.evaluate("[innerWidth, innerHeight, document.documentElement.clientWidth, document.adoptedStyleSheets.length]") == before
        assert {picture(browsing, selector="#end")[2](x, 0) for x in (0, 49)} == {BLUE}
        assert page.evaluate("[innerWidth, innerHeight, document.documentElement.clientWidth, document.adoptedStyleSheets.length]") == before


def test_an_element(browsing, site):  # noqa: F811
    show(browsing, f"{site.url}/picture.html")
    width, height, at = picture(browsing, selector="#green")
    assert (width, height) == (60, 40)
    assert {at(x, y) for x in range(60) for y in range(40)} == {GREEN}


def test_a_picture_that_is_made_smaller_or_cut_off(browsing, site):  # noqa: F811
    show(browsing, f"{site.url}/picture.html")
    whole = picture(browsing, full_page=True)
    width, height, at = picture(browsing, full_page=True, max_size=1500)
    assert (width, height) == (whole[0] // 2, 1500)
    assert [at(48, 48), at(52, 52), at(48, 1498)] == [RED, WHITE, BLUE]
    assert take(browsing, full_page=True, max_size=1500).headers["x-image-scale"] == "0.5"
    with devtools(browsing) as page:
        page.evaluate("scrollTo(0, 1400)")
    width, height, at = picture(browsing, width=100, height=110)
    assert (width, height) == (100, 110) and [at(51, 101), at(49, 101)] == [GREEN, WHITE]
    width, height, at = picture(browsing, max_size=view(browsing)[0] // 2)
    assert [at(27, 52), at(22, 52)] == [GREEN, WHITE]
    assert "x-image-notice" not in take(browsing, width=100).headers
    assert take(browsing, max_size=100000).headers["x-image-scale"] == "1"
    assert [take(browsing, **{name: 0}).status_code for name in ("max_size", "width", "height")] == [422] * 3


@pytest.mark.parametrize("format, kind, magic", [("jpeg", "image/jpeg", b"\xff\xd8"), ("jpg", "image/jpeg", b"\xff\xd8"),
                                                 ("webp", "image/webp", b"RIFF"), ("png", "image/png", b"\x89PNG")])
def test_formats(browsing, site, format, kind, magic):  # noqa: F811
    show(browsing, f"{site.url}/picture.html")
    response = take(browsing, format=format)
    assert response.headers["content-type"] == kind and response.content.startswith(magic)
    _, _, at = picture(browsing, format=format, quality=95)
    assert all(abs(a - b) < 12 for a, b in zip(at(50, 50), RED))


def test_quality(browsing, site):  # noqa: F811
    show(browsing, f"{site.url}/article.html")
    sizes = [len(take(browsing, format="jpeg", quality=quality).content) for quality in (1, 100)]
    assert sizes[0] * 2 < sizes[1]


@pytest.mark.parametrize("query, words", [({"format": "gif"}, "gif"), ({"quality": 101}, "101"), ({"quality": -1}, "-1"),
                                          ({"quality": "good"}, "quality"), ({"full_page": "perhaps"}, "full_page")])
def test_what_is_refused(browsing, query, words):  # noqa: F811
    response = take(browsing, **query)
    assert response.status_code == 422 and words in response.text


def test_elements_that_are_not_there(browsing, site):  # noqa: F811
    show(browsing, f"{site.url}/picture.html")
    for selector, words in (("#none", "no element matches '#none'"), ("p[", "invalid selector")):
        response = take(browsing, selector=selector, timeout=0.3)
        assert response.status_code == 409 and words in response.json()["message"], response.text


def test_an_element_that_comes_later(browsing, site):  # noqa: F811
    show(browsing, f"{site.url}/picture.html")
    with devtools(browsing) as page:
        page.evaluate("void setTimeout(() => document.querySelector('#red').id = 'late', 300)")
    assert picture(browsing, selector="#late")[:2] == (100, 100)


def test_a_page_without_end_is_cut(browsing, site):  # noqa: F811
    show(browsing, site.add("/tall", "<title>Tall</title><body style='margin:0;height:1000000px;background:rgb(200,10,20)'>"))
    response = take(browsing, full_page=True)
    assert response.status_code == 200, response.text
    assert response.headers["x-image-height"] == "16384" and response.headers["x-page-height"] == "1000000"
    assert "cut to" in response.headers["x-image-notice"] and "1000000" in response.headers["x-image-notice"]
    assert struct.unpack(">II", response.content[16:24])[1] == 16384


def test_a_page_that_leaves_meanwhile(browsing, site):  # noqa: F811
    show(browsing, f"{site.url}/picture.html")
    with devtools(browsing) as page:
        going = threading.Thread(target=lambda: [page.call("Page.navigate", url=f"{site.url}/picture.html?{n}") for n in range(20)])
        going.start()
        while going.is_alive():
            assert take(browsing, full_page=True).status_code in (200, 409)
        going.join()
    show(browsing, f"{site.url}/picture.html")
    assert picture(browsing)[2](50, 50) == RED


MARKED = """<!doctype html><style>body { margin: 0; background: rgb(255, 255, 255) } iframe { border: 0 } button { position: absolute; left: 200px }
* { font-size: 0 }</style><button id=a style="top: 50px; width: 100px; height: 60px; background: rgb(255, 255, 255); border: 0"></button>
<iframe srcdoc="<body style='margin: 0'><button style='width: 90px; height: 60px; background: rgb(255, 255, 255); border: 0'></button>"
style="position: absolute; left: 500px; top: 200px; width: 200px; height: 100px"></iframe><div style="height: 2000px"></div>
<button id=b style="top: 1900px; width: 100px; height: 60px; background: rgb(255, 255, 255); border: 0"></button>"""


def coloured(at, x, y, width, height):
    """How many pixels of an area are not white."""
    return sum(at(x + across, y + down) != WHITE for across in range(width) for down in range(height))


@pytest.mark.parametrize("full_page", [False, True])
def test_elements_are_marked_with_their_indexes(browsing, site, full_page):  # noqa: F811
    show(browsing, site.add("/marked", MARKED))
    _, _, plain = picture(browsing, full_page=full_page)
    _, height, at = picture(browsing, full_page=full_page, marks=True)
    places = [(200, 50, 100, 60), (500, 200, 90, 60)] + [(200, 1900, 100, 60)] * full_page
    for x, y, width, down in places:
        assert coloured(plain, x, y, width, down) == 0
        assert coloured(at, x, y, width, down) > 100, "a frame and a number"
        assert at(x, y + down // 2) != WHITE and at(x + width - 1, y + down // 2) != WHITE, "a frame around it"
    assert coloured(at, 350, 0, 100, 100) == 0, "nothing where nothing is"
    with devtools(browsing) as page:
        assert page.evaluate("[document.documentElement.children.length, frames[0].document.documentElement.children.length]") == [2, 2]
    _, _, after = picture(browsing, full_page=full_page)
    assert all(coloured(after, *place) == 0 for place in places), "gone again"
    listed = browsing.get("/v1/browser/page/elements").json()["data"]
    assert [(one["index"], one["tag"]) for one in listed if one["tag"] == "button"] == [(0, "button"), (2, "button"), (3, "button")]


def test_marks_are_numbers(browsing, site):  # noqa: F811
    """Each has a picture of its own."""
    page = "<!doctype html><body style='margin:0'>" + "".join(
        f"<button style='position:absolute;left:0;top:{top}px;width:80px;height:40px;background:white;border:0'></button>" for top in (0, 100, 200))
    show(browsing, site.add("/numbers", page))
    _, _, at = picture(browsing, marks=True)
    shown = [tuple(at(x, top + y) for y in range(20) for x in range(30)) for top in (0, 100, 200)]
    assert len(set(shown)) == 3
    assert picture(browsing, marks=True, selector="button")[:2] == (80, 40)
    _, _, second = picture(browsing, marks=True, index=1)
    assert tuple(second(x, y) for y in range(20) for x in range(30)) == shown[1]
    response = take(browsing, index=3)
    assert response.status_code == 409 and "indexes go from 0 to 2" in response.json()["message"]


def test_a_page_that_was_marked_is_as_it_was(browsing, site):  # noqa: F811
    """Even where its layout is about what is in it, a modal dialog covers it, and its own rules are strict."""
    show(browsing, site.add("/strict", "<!doctype html><meta http-equiv=content-security-policy content=\"style-src 'none'; script-src 'none'\">"
                            "<dialog id=d><button>In it</button></dialog><button>Beside</button>"))
    with devtools(browsing) as page:
        page.evaluate("d.showModal()")
        before = page.evaluate("document.documentElement.outerHTML")
        _, _, plain = picture(browsing)
        width, height, at = picture(browsing, marks=True)
        x, y, wide, high = page.evaluate("(({x, y, width, height}) => [x, y, width, height].map(Math.round))(d.firstChild.getBoundingClientRect())")
        assert any(at(x + across, y + down) != plain(x + across, y + down) for across in range(wide) for down in range(high))
        assert page.evaluate("document.documentElement.outerHTML") == before
        assert page.evaluate("document.activeElement.textContent") == "In it"


def test_by_the_sdk(browsing, site):  # noqa: F811
    show(browsing, f"{site.url}/picture.html")
    with sdk(browsing) as client:
        data = b"".join(client.browser_page.screenshot(full_page=True))
    assert pixels(browsing, data)[1] == 3000
