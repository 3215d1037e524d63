"""The API explorer at /v1/docs, in a real Chromium against a real server.

Screenshots for human eyes land in build/screens/.
"""

import base64
import hashlib
import json
import re
import time
import urllib.error
import urllib.request
from urllib.parse import quote, urlsplit

import pytest

from chromium import NEEDED, Watch, chromium, new_context, screenshot  # noqa: F401 (a fixture)
from harness import ANSWER_SECONDS, eventually

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
sync_api.expect.set_options(timeout=ANSWER_SECONDS * 1000)
pytestmark = NEEDED

PATH = "/metrics"  # an operation to try: it needs a credential and no input
WORDS = "metrics prometheus"  # what finds it alone
ANSWER = "aio_uptime_seconds"  # what its answer holds
ROW = f'.opblock-get:has([data-path="{PATH}"])'
KEY = "docs key/+&=%"  # characters that a URL has to escape


@pytest.fixture
def visit(chromium):  # noqa: F811
    """visit(url, scheme=…, width=…) opens the explorer and returns the page once its list is there."""
    contexts = []

    def visit(url, scheme="light", width=1280):
        contexts.append(new_context(chromium, scheme, width, 900))
        page = contexts[-1].new_page()
        page.watch = Watch(page)
        assert page.goto(url).status == 200
        loaded(page)
        return page

    yield visit
    for context in contexts:
        context.close()


def loaded(page):
    """Waits until the operations are there, and the list of groups, which comes after them."""
    page.locator(ROW).first.wait_for()
    sync_api.expect(page.locator("#count")).to_contain_text("operations")


def ready(row):
    """Waits until an operation that was just opened has its schemas: only then it is complete."""
    row.locator(".responses-table").first.wait_for()
    sync_api.expect(row.locator(".opblock-loading-animation")).to_have_count(0)


def call_one(page):
    """Opens the operation, executes it and returns (status, body) as shown."""
    row = page.locator(ROW)
    row.locator(".opblock-summary-control").click()
    ready(row)
    row.locator(".btn.execute").click()
    live = row.locator(".live-responses-table tbody").first
    live.wait_for()
    body = live.locator(".highlight-code").first.text_content()
    live.locator(".highlight-code").first.scroll_into_view_if_needed()
    return live.locator(".response-col_status").first.inner_text().split()[0], body


def luminance(page, selector):
    """Of the colour that is really behind the element: the first opaque background upwards."""
    r, g, b = page.locator(selector).first.evaluate(
        """e => {
            for (; e; e = e.parentElement) {
                const c = getComputedStyle(e).backgroundColor.match(/[\\d.]+/g).map(Number);
                if (c.length < 4 || c[3] === 1) return c.slice(0, 3);
            }
            return [255, 255, 255];
        }"""
    )
    return (0.2126 * r + 0.7152 * g + 0.0722 * b) / 255


def fetch(url):
    try:
        with urllib.request.urlopen(url, timeout=ANSWER_SECONDS) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


def test_lists_every_operation_of_the_document(server, visit):
    document = json.loads(fetch(server.url + "/v1/openapi.json")[2])
    methods = {"get", "put", "post", "delete", "options", "head", "patch", "trace"}
    expected = {
        (method.upper(), path)
        for path, item in document["paths"].items()
        for method in item
        if method in methods
    }
    page = visit(server.url + "/v1/docs")
    assert page.title() == "aiobox API"
    assert page.locator(ROW).is_visible()
    shown = page.locator(".opblock").evaluate_all(
        """rows => rows.map(r => [r.querySelector('.opblock-summary-method').textContent,
                                  r.querySelector('[data-path]').dataset.path])"""
    )
    assert {tuple(row) for row in shown} == expected
    groups = page.locator("#tags a small").all_inner_texts()
    assert sum(map(int, groups)) == len(shown)


def test_asks_nobody_else_and_nothing_fails(server, visit):
    page = visit(server.url + "/v1/docs")
    page.locator(ROW).locator(".opblock-summary-control").click()
    page.wait_for_load_state("networkidle")
    assert page.watch.foreign(server.url) == []
    assert page.watch.trouble == []


def test_calls_the_server(server, visit):
    page = visit(server.url + "/v1/docs")
    status, body = call_one(page)
    assert status == "200"
    assert ANSWER in body
    assert page.watch.foreign(server.url) == []
    assert page.watch.trouble == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_follows_the_colour_scheme(server, visit, scheme):
    page = visit(server.url + "/v1/docs", scheme=scheme)
    screenshot(page, f"docs-{scheme}")
    call_one(page)
    for part in ("body", "header", "#tags", ".opblock-summary", ".highlight-code pre"):
        level = luminance(page, part)
        assert level < 0.15 if scheme == "dark" else level > 0.9, part
    screenshot(page, f"docs-{scheme}-call")
    other = {"light": "dark", "dark": "light"}[scheme]
    page.emulate_media(color_scheme=other)  # the page is told of it a little later
    assert eventually(lambda: luminance(page, "body") > 0.9 if other == "light" else luminance(page, "body") < 0.15)


def test_colour_scheme_can_be_chosen(server, visit):
    page = visit(server.url + "/v1/docs", scheme="light")
    page.locator("#theme").click()
    page.locator("#theme").click()
    assert page.locator("#theme").get_attribute("aria-label").endswith("dark")
    assert luminance(page, "body") < 0.15
    page.reload()
    loaded(page)
    assert luminance(page, "body") < 0.15


def test_works_from_the_keyboard(server, visit):
    page = visit(server.url + "/v1/docs")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.matches('a, button, input')")
    assert page.evaluate("document.activeElement.getBoundingClientRect().top >= 0"), "focus has to be visible"

    everything = page.locator(".opblock").count()
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "filter"
    page.keyboard.type(WORDS)
    sync_api.expect(page.locator(".opblock")).to_have_count(1)
    assert page.locator(ROW).is_visible()
    screenshot(page, "docs-search")

    page.keyboard.press("Enter")  # to the first result
    page.keyboard.press("Enter")  # opens it
    ready(page.locator(ROW))
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('execute')"):
            break
    page.keyboard.press("Enter")
    sync_api.expect(page.locator(".live-responses-table").first).to_contain_text(ANSWER)

    page.keyboard.press("Control+k")
    page.keyboard.type("no such operation")
    sync_api.expect(page.locator("#none")).to_be_visible()
    page.keyboard.press("Escape")
    sync_api.expect(page.locator(".opblock")).to_have_count(everything)


def test_group_list_leads_to_the_group(server, visit):
    page = visit(server.url + "/v1/docs")
    link = page.locator("#tags a").last
    tag = link.locator("span").inner_text()
    link.click()
    heading = page.locator(f'.opblock-tag[data-tag="{tag}"]')
    sync_api.expect(heading).to_be_in_viewport()
    assert eventually(lambda: urlsplit(page.evaluate("location.href")).fragment == f"/{tag}")


def test_link_to_an_operation_opens_it(server, visit):
    page = visit(server.url + "/v1/docs")
    address = page.locator(ROW).locator(".opblock-summary-path a").get_attribute("href")
    page = visit(server.url + "/v1/docs" + address)
    sync_api.expect(page.locator(ROW).locator(".btn.execute")).to_be_visible()
    assert page.watch.trouble == []


def test_fits_a_narrow_window(server, visit):
    page = visit(server.url + "/v1/docs", width=420)
    screenshot(page, "docs-narrow")
    assert page.evaluate("document.documentElement.scrollWidth") <= 420
    assert page.locator("#main").evaluate("e => e.scrollWidth <= e.clientWidth")
    assert call_one(page)[0] == "200"
    screenshot(page, "docs-narrow-call")
    assert page.locator("#main").evaluate("e => e.scrollWidth <= e.clientWidth")


def test_content_security_policy_names_the_loader(server):
    status, headers, html = fetch(server.url + "/v1/docs")
    assert status == 200
    loader = re.search(r"<script[^>]*>(.*?)</script>", html, re.S).group(1)
    digest = base64.b64encode(hashlib.sha256(loader.encode()).digest()).decode()
    policy = headers["Content-Security-Policy"]
    scripts = re.search(r"script-src ([^;]*)", policy).group(1).split()
    assert f"'sha256-{digest}'" in scripts
    assert "'unsafe-inline'" not in scripts and "'unsafe-eval'" not in scripts


def test_key_in_the_address(start_server, visit):
    guarded = start_server(env={"SANDBOX_API_KEY": KEY})
    assert fetch(guarded.url + "/v1/docs")[0] == 401
    page = visit(f"{guarded.url}/v1/docs?api_key={quote(KEY, safe='')}")
    assert luminance(page, "body") > 0.9  # the style sheets came through as well
    assert page.locator("header").bounding_box()["height"] < 80
    page.wait_for_load_state("networkidle")
    assert page.watch.trouble == []

    # The key has left the address, the page, and what it calls: a cookie that scripts cannot read is there instead.
    assert page.evaluate("location.href") == f"{guarded.url}/v1/docs"
    kept = page.evaluate("JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, document.title])")
    assert KEY not in kept and "aio_box" not in kept
    with page.expect_request(f"**{PATH}*") as request:
        status, body = call_one(page)
    assert status == "200" and ANSWER in body
    assert KEY not in str(request.value.headers) and "api_key" not in request.value.url
    assert page.watch.trouble == []
    screenshot(page, "docs-key")

    # Links of the page stay usable.
    with page.expect_response(lambda r: urlsplit(r.url).path == "/openapi.json") as answer:
        page.get_by_role("link", name="OpenAPI", exact=True).click()
    assert answer.value.status == 200


def test_ticket_in_the_address(start_server, visit):
    jwt = pytest.importorskip("jwt", reason="PyJWT is not installed")
    rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa", reason="cryptography is not installed")
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    token = jwt.encode({"exp": time.time() + 600}, private, algorithm="RS256")
    guarded = start_server(
        env={"JWT_PUBLIC_KEY": base64.b64encode(public).decode(), "TICKET_TTL_SECONDS": "600"}
    )
    assert fetch(guarded.url + "/v1/docs")[0] == 401
    request = urllib.request.Request(
        guarded.url + "/tickets", method="POST", headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
        ticket = json.load(answer)["ticket"]

    page = visit(f"{guarded.url}/v1/docs?ticket={quote(ticket, safe='')}")
    assert page.evaluate("location.href") == f"{guarded.url}/v1/docs"
    with page.expect_request(f"**{PATH}*") as request:
        status, body = call_one(page)
    assert status == "200" and ANSWER in body
    assert "ticket" not in request.value.url
    assert page.watch.trouble == []
