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


def test_by_the_sdk(browsing, site):  # noqa: F811
    show(browsing, f"{site.url}/picture.html")
    with sdk(browsing) as client:
        data = b"".join(client.browser_page.screenshot(full_page=True))
    assert pixels(browsing, data)[1] == 3000
