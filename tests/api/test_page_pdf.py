"""A page as a PDF, read again with pdfium."""

import json
import subprocess
from pathlib import Path

import pytest

from contents import blank, browsing, show, site  # noqa: F401
from desktop import BROWSER_NEEDED, devtools, tester  # noqa: F401

pytestmark = BROWSER_NEEDED
PYTHON = Path(__file__).resolve().parents[2] / ".venv/bin/python"
READ = """
import io, json, sys
import pypdfium2
pdf = pypdfium2.PdfDocument(sys.stdin.buffer.read())
print(json.dumps([{"size": page.get_size(), "text": page.get_textpage().get_text_bounded(),
                   "corner": page.render(scale=1).to_pil().convert("RGB").getpixel((60, 60))} for page in pdf]))
"""


def take(server, **query):
    return server.get("/v1/browser/page/pdf", params=query, timeout=110)


def sheets(server, **query):
    """Size in points, text and the colour near a corner of each sheet."""
    response = take(server, **query)
    assert response.status_code == 200, response.text[:1000]
    assert response.headers["content-type"] == "application/pdf" and response.content.startswith(b"%PDF-")
    done = subprocess.run([PYTHON, "-c", READ], input=response.content, capture_output=True, timeout=110)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def rounded(sheet):
    return tuple(round(side) for side in sheet["size"])


def test_a_page_on_paper(browsing, site):  # noqa: F811
    show(browsing, f"{site.url}/article.html")
    found = sheets(browsing)
    assert found[0]["size"] == pytest.approx((595, 842), abs=1.5)
    assert "The tide mill at Carrow" in found[0]["text"] and "This paragraph is not shown" not in found[0]["text"]


def test_how_it_is_laid_out(browsing, site):  # noqa: F811
    rest = "".join(f"<p style='break-before: page'>Sheet {n}" for n in (2, 3, 4))
    style = "<style>html { background: rgb(10, 180, 30) } @media screen { b { display: none } }</style>"
    show(browsing, site.add("/sheets", f"<title>S</title>{style}<p>Sheet 1 <b>on paper</b>{rest}"))
    found = sheets(browsing, paper="Letter", landscape=True, margin=0.5)
    assert [rounded(sheet) for sheet in found] == [(792, 612)] * 4
    assert [sheet["text"].split(" on")[0] for sheet in found] == ["Sheet 1", "Sheet 2", "Sheet 3", "Sheet 4"]
    assert "on paper" in found[0]["text"] and found[0]["corner"] == [10, 180, 30]
    few = sheets(browsing, pages="2-3", background=False)
    assert [sheet["text"] for sheet in few] == ["Sheet 2", "Sheet 3"] and few[0]["corner"] == [255, 255, 255]


@pytest.mark.parametrize("query, status", [({"paper": "B7"}, 422), ({"scale": 3}, 422), ({"margin": -1}, 422), ({"pages": "x"}, 409),
                                           ({"pages": "7"}, 409)])
def test_what_is_refused(browsing, site, query, status):  # noqa: F811
    show(browsing, f"{site.url}/home.html")
    response = take(browsing, **query)
    assert response.status_code == status, response.text
    assert len(sheets(browsing)) == 1


def test_a_long_page_comes_in_pieces(browsing, site):  # noqa: F811
    show(browsing, site.add("/book", "<title>Book</title>" + "".join(
        f"<h1>Chapter {n}</h1>" + f"<p>Word {n} and others, " * 200 for n in range(60))))
    response = take(browsing)
    assert response.status_code == 200 and len(response.content) > 512 * 1024
    assert response.content.rstrip().endswith(b"%%EOF")
