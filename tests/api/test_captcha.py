"""CAPTCHAs: what is reported of them, and waiting until they are gone."""

import threading
import time

import pytest

from contents import BROWSER, ask, blank, browsing, sdk, show, site  # noqa: F401
from desktop import BROWSER_NEEDED, devtools, tester  # noqa: F401

pytestmark = BROWSER_NEEDED
BOX = "style='width:300px;height:80px;display:block'"
RULES = {
    "recaptcha": f"<div class='g-recaptcha' data-sitekey=x {BOX}>robot?</div>",
    "hcaptcha": f"<div class='h-captcha' {BOX}>robot?</div>",
    "turnstile": f"<div class='cf-turnstile' {BOX}>robot?</div>",
    "cloudflare": f"<form id='challenge-form' {BOX}>Checking your browser</form>",
    "arkose": f"<div id='FunCaptcha' {BOX}>turn it</div>",
    "geetest": f"<div class='geetest_holder' {BOX}>slide</div>",
    "aws_waf": f"<awswaf-captcha {BOX}>choose</awswaf-captcha>",
    "perimeterx": f"<div id='px-captcha' {BOX}>press and hold</div>",
    "mtcaptcha": f"<div class='mtcaptcha' {BOX}>text</div>",
    "friendly": f"<div class='frc-captcha' {BOX}>wait</div>",
    "altcha": f"<altcha-widget {BOX}>check</altcha-widget>",
    "yandex": f"<div class='smart-captcha' {BOX}>robot?</div>",
    "tencent": f"<div id='tcaptcha_transform_dy' {BOX}>slide</div>",
    "netease": f"<div class='yidun' {BOX}>slide</div>",
    "aliyun": f"<div id='nc_1_wrapper' {BOX}>slide</div>",
    "slider": f"<div class='slider-captcha' {BOX}>slide</div>",
    "image": f"<img src='/captcha.png?1' alt=code {BOX}>",
    "generic": f"<div class='captcha' {BOX}>seven plus two?</div>",
}


def body(server, site, html):  # noqa: F811
    show(server, site.add("/robot", f"<title>Robot</title><h1>Sign in</h1>{html}"))


def detect(server):
    return ask(server, "captcha/detect")


@pytest.mark.parametrize("kind", RULES)
def test_each_rule(browsing, site, kind):  # noqa: F811
    body(browsing, site, RULES[kind])
    data = detect(browsing)
    assert data["detected"] and [one["type"] for one in data["captchas"]] == [kind], data
    found = data["captchas"][0]
    assert (found["visible"], found["blocking"], found["solved"]) == (True, True, False)
    assert (found["width"], found["height"]) == (300, 80) and found["x"] >= 0 and found["name"] and found["element"]


def test_a_frame_by_its_address(browsing, site):  # noqa: F811
    site.add("/recaptcha/api2/anchor", "robot?")
    body(browsing, site, "<iframe src='/recaptcha/api2/anchor?k=1' width=304 height=78></iframe>")
    assert [one["type"] for one in detect(browsing)["captchas"]] == ["recaptcha"]


@pytest.mark.parametrize("html", ["", "<p>How to defeat a captcha: do not.</p>", "<form><input name=q></form>", "<input type=hidden name=captcha_id>"])
def test_none(browsing, site, html):  # noqa: F811
    body(browsing, site, html)
    assert detect(browsing) == {"detected": False, "captchas": []}


@pytest.mark.parametrize("html, visible, solved", [
    ("<div class='g-recaptcha' style='display:none'>x</div>", False, False),
    (f"<div class='g-recaptcha' data-size=invisible {BOX}>x</div>", True, False),
    (f"<div class='h-captcha' {BOX}>x</div><textarea name='h-captcha-response'>P1_eyJ0eXAiOiJKV1Q</textarea>", True, True),
    ("<script src='/none?challenges.cloudflare.com/turnstile/v0/api.js'></script>", False, False)])
def test_what_stops_nobody(browsing, site, html, visible, solved):  # noqa: F811
    body(browsing, site, html)
    data = detect(browsing)
    assert not data["detected"] and [(one["visible"], one["solved"], one["blocking"]) for one in data["captchas"]] == [(visible, solved, False)]


# --- waiting -----------------------------------------------------------------------------------


def wait(server, **more):
    return BROWSER.ask(server, "captcha/wait", **more)


def test_there_is_none_to_wait_for(browsing, site):  # noqa: F811
    body(browsing, site, "")
    assert wait(browsing) == {"resolved": True}


def test_nobody_solves_it(browsing, site):  # noqa: F811
    body(browsing, site, RULES["hcaptcha"])
    began = time.monotonic()
    assert wait(browsing, timeout=1, poll_interval=0.2) == {"resolved": False}
    assert 1 <= time.monotonic() - began < 20
    assert wait(browsing, timeout=0) == {"resolved": False}


@pytest.mark.parametrize("solve", ["document.querySelector('.h-captcha').remove()", "location = '/home.html'",
                                   "document.body.insertAdjacentHTML('beforeend', `<textarea name=h-captcha-response>${'x'.repeat(40)}`)"])
def test_somebody_does(browsing, site, solve):  # noqa: F811
    body(browsing, site, RULES["hcaptcha"])
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(wait(browsing, timeout=60, poll_interval=0.1)))
    with devtools(browsing) as page:
        waiting.start()
        waiting.join(1)
        assert waiting.is_alive()
        page.evaluate(f"void ({solve})")
        waiting.join(60)
    assert answers == [{"resolved": True}]


def test_a_page_that_makes_odd_things_of_it(browsing, site):  # noqa: F811
    body(browsing, site, "<img name=getElementsByName><form class='g-recaptcha' style='width:9px;height:9px'><input name=getBoundingClientRect></form>")
    assert detect(browsing)["captchas"][0]["width"] == 9


def test_by_the_sdk(browsing, site):  # noqa: F811
    body(browsing, site, RULES["turnstile"])
    with sdk(browsing) as client:
        assert client.browser_captcha.detect().data["detected"]
        assert client.browser_captcha.wait(timeout=0.2).data.resolved is False
