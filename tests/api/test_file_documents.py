"""Documents in the editor: a part of each kind, and what is none."""

import pytest

from files import bad, good

papers = pytest.importorskip("papers", reason="NOT TESTED: this tree has no documents")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("papers")
    papers.office(folder)
    (folder / "pages.pdf").write_bytes(papers.pdf(["first page", "second page", "third page"]))
    (folder / "none.pdf").write_bytes(b"not a PDF")
    return folder


def view(server, path, **more):
    return good(server, "str_replace_editor", command="view", path=str(path), enable_metadata=True, **more)


def test_pages(server, folder):
    data = view(server, folder / "pages.pdf", page_range=[2, 3])
    assert "second page" in data["output"] and "third page" in data["output"] and "first" not in data["output"]
    assert data["metadata"]["total_pages"] == 3 and data["prev_exist"] is True and data["new_content"] is None
    assert good(server, "str_replace_editor", command="view", path=str(folder / "pages.pdf"))["metadata"] is None


def test_rows_of_a_sheet(server, folder):
    data = view(server, folder / "book.xlsx", sheet_name="Fruit", row_range=[2, 3])
    assert "apple1" in data["output"] and "apple2" in data["output"] and "apple3" not in data["output"]
    assert "hammer" not in data["output"] and data["metadata"]["total_sheets"] == 3
    assert "hammer" in view(server, folder / "book.xlsx")["output"]


def test_slides(server, folder):
    data = view(server, folder / "show.pptx", slide_range=[2, 2])
    assert "Title 2" in data["output"] and "Title 1" not in data["output"] and data["metadata"]["total_slides"] == 5


@pytest.mark.parametrize("name, more", [
    ("none.pdf", {}), ("pages.pdf", {"page_range": [9, 12]}), ("pages.pdf", {"page_range": [1]}),
    ("pages.pdf", {"slide_range": [1, 2]}), ("book.xlsx", {"sheet_name": "no"}),
])
def test_what_cannot_be_viewed(server, folder, name, more):
    data = bad(server, "str_replace_editor", command="view", path=str(folder / name), **more)
    assert data["error_type"] == "invalid_argument" and data["message"]
