"""Views of documents, through the fixture's route; and the worker that reads them: how it starts, what
hostile documents do to it, how it dies."""

import os
import signal
import threading
import time

import pytest

import papers
from harness import Calls, eventually
from processes import ROOT_ONLY, alive, below, gone, tester, together  # noqa: F401
from refusals import problem

SMALL = ["--document-memory", "256M"]
VIEW = Calls("/document/view")
pytestmark = pytest.mark.server(program="fixture")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("papers")
    papers.office(folder)
    (folder / "three.pdf").write_bytes(papers.pdf(["First page", "Second page", "Third page"]))
    (folder / "letter.docx").write_bytes(papers.docx(papers.paragraph("Dear reader")))
    return folder


@pytest.fixture(scope="module")
def strict(start_shared):
    """A server with little patience and memory, but enough for a small document on a busy machine."""
    return start_shared(["--document-timeout", "8", *SMALL], program="fixture")


def ask(server, path, **more):
    return VIEW.send(server, path=str(path), **more)


def view(server, path, **more):
    answer = ask(server, path, **more)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]["text"], answer.json()["data"]["metadata"]


def refused(server, path, status, *words, **more):
    answer = ask(server, path, **more)
    assert answer.status_code == status, answer.text
    message = problem(answer)
    for word in words:
        assert word in message, message
    return message


# --- what a view shows -------------------------------------------------------------------------


def test_all_pages_of_a_pdf(server, folder):
    text, metadata = view(server, folder / "three.pdf")
    assert text == "## Page 1\n\nFirst page\n\n## Page 2\n\nSecond page\n\n## Page 3\n\nThird page"
    assert metadata == {"format": "pdf", "total_pages": 3}


@pytest.mark.parametrize("range_, pages", [([2, 2], [2]), ([2, 3], [2, 3]), ([2, -1], [2, 3]), ([1, 99], [1, 2, 3])])
def test_page_range(server, folder, range_, pages):
    text, metadata = view(server, folder / "three.pdf", page_range=range_)
    assert [line for line in text.splitlines() if line.startswith("##")] == [f"## Page {n}" for n in pages]
    assert metadata["total_pages"] == 3


@pytest.mark.parametrize("range_", [[0, 2], [-1, 2], [3, 2], [1, -2]])
def test_page_range_that_is_none(server, folder, range_):
    refused(server, folder / "three.pdf", 422, "page_range", "first", page_range=range_)


def test_page_range_beyond_the_end(server, folder):
    refused(server, folder / "three.pdf", 422, "page_range begins at 4", "only 3 pages", page_range=[4, 5])


def test_all_sheets(server, folder):
    text, metadata = view(server, folder / "book.xlsx")
    assert text.startswith("## Fruit\n\n| row | A | B | C |\n|---|---|---|---|\n| 1 | name | price | note |\n")
    assert "| 2 | apple1 | 1.5 | a\\|b |" in text and "| 31 | apple30 | 45 |  |" in text
    assert "## Tools & more\n\n| row | A | B |\n|---|---|---|\n| 1 | hammer | 42 |" in text
    assert text.endswith("## Nothing\n\n(empty)")
    assert metadata["format"] == "xlsx" and metadata["total_sheets"] == 3
    assert metadata["sheets"][0] == {"name": "Fruit", "rows": 31, "columns": 3}
    assert [sheet["name"] for sheet in metadata["sheets"]] == ["Fruit", "Tools & more", "Nothing"]


def test_one_sheet_and_some_rows(server, folder):
    text, metadata = view(server, folder / "book.xlsx", sheet_name="Fruit", row_range=[3, 4])
    assert text == "## Fruit\n\n| row | A | B |\n|---|---|---|\n| 3 | apple2 | 3 |\n| 4 | apple3 | 4.5 |"
    assert metadata["total_sheets"] == 3
    text, _ = view(server, folder / "book.xlsx", sheet_name="Fruit", row_range=[30, -1])
    assert [line[:5] for line in text.splitlines()[4:]] == ["| 30 ", "| 31 "]


def test_sheet_and_rows_that_are_not_there(server, folder):
    refused(server, folder / "book.xlsx", 422, "no sheet 'Fish'", "'Fruit'", sheet_name="Fish")
    refused(server, folder / "book.xlsx", 422, "begins at 50", "only 31 rows", sheet_name="Fruit", row_range=[50, 60])


def test_slides(server, folder):
    text, metadata = view(server, folder / "show.pptx")
    assert metadata == {"format": "pptx", "total_slides": 5}
    assert "Title 1" in text and "Body of slide 5" in text and "Remember the milk" in text


@pytest.mark.parametrize("range_, titles", [([2, 2], [2]), ([4, -1], [4, 5]), ([3, 4], [3, 4]), ([1, 50], [1, 2, 3, 4, 5])])
def test_slide_range(server, folder, range_, titles):
    text, _ = view(server, folder / "show.pptx", slide_range=range_)
    assert [line for line in text.splitlines() if line.startswith("# ")] == [f"# Title {n}" for n in titles]


def test_slides_with_shapes_of_no_known_kind(server, folder):
    """They are left out only where they have no text."""
    text, metadata = view(server, folder / "odd.pptx")
    assert metadata == {"format": "pptx", "total_slides": 1}
    assert {"# Known", "A body", "In a group", "No geometry", "Nor in the group"} <= set(text.splitlines()), text


def test_word(server, folder):
    assert view(server, folder / "letter.docx") == ("Dear reader", {"format": "docx"})


def test_ranges_are_for_their_kind_of_document(server, folder):
    refused(server, folder / "book.xlsx", 422, "page_range is for PDF", page_range=[1, 1])
    refused(server, folder / "three.pdf", 422, "sheet_name is for spreadsheets", sheet_name="x")
    refused(server, folder / "letter.docx", 422, "slide_range is for slides", slide_range=[1, 1])


def test_the_content_tells_the_kind(server, tmp_path):
    (tmp_path / "really.xlsx").write_bytes(papers.pdf(["A page"]))
    assert view(server, tmp_path / "really.xlsx")[1]["format"] == "pdf"
    (tmp_path / "text.pdf").write_text("no PDF at all")
    refused(server, tmp_path / "text.pdf", 422, "not the kind")
    (tmp_path / "empty.pdf").write_bytes(b"")
    refused(server, tmp_path / "empty.pdf", 422, "not the kind")


def test_what_is_no_file_is_refused(server, tmp_path):
    os.mkfifo(tmp_path / "pipe.pdf")
    refused(server, tmp_path / "pipe.pdf", 422, "not a regular file")


# --- hostile documents -------------------------------------------------------------------------

def bombs():
    rows = "".join(f'<row r="{n}"><c r="XFD{n}" t="inlineStr"><is><t>x</t></is></c></row>' for n in range(1, 2000))
    far = '<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>2</v></c></row>'
    deep = "<w:p>" * 100000 + "</w:p>" * 100000
    return {
        "garbage.pdf": b"%PDF-1.7\n" + bytes(range(256)) * 100,
        "cut.pdf": papers.pdf(["x"] * 50)[:2000],
        "loop.pdf": papers.pdf(["x"], kids=b"2 0 R 2 0 R 2 0 R"),
        "pages.pdf": papers.pdf(["x"], kids=b"5 0 R " * 300000),
        "stream.pdf": papers.pdf_with_bomb(300 << 20),
        "garbage.xlsx": b"PK\x03\x04" + b"x" * 5000,
        "wide.xlsx": papers.xlsx(rows),
        "far.xlsx": papers.xlsx(far, "A1:XFD1048576"),
        "laughs.xlsx": papers.xlsx('<row r="1"><c r="A1" t="inlineStr"><is><t>&a11;</t></is></c></row>', before=papers.LAUGHS),
        "laughs.docx": papers.docx(papers.paragraph("&a11;"), before=papers.LAUGHS),
        "deep.docx": papers.docx(deep),
        "bomb.docx": papers.docx(papers.paragraph("A" * (200 << 20))),
        "parts.docx": papers.archive({"[Content_Types].xml": b"", **{f"word/{i}.xml": b"" for i in range(20001)}}),
        "nothing.pptx": papers.archive({"[Content_Types].xml": b"<x/>", "ppt/presentation.xml": b"<x/>"}),
    }


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    for name, data in bombs().items():
        (folder / name).write_bytes(data)
    return folder


@pytest.mark.parametrize("name", ["garbage.pdf", "cut.pdf", "loop.pdf", "pages.pdf", "stream.pdf", "garbage.xlsx",
                                  "wide.xlsx", "far.xlsx", "laughs.xlsx", "laughs.docx", "deep.docx", "bomb.docx",
                                  "parts.docx", "nothing.pptx"])
def test_a_hostile_document_hurts_nobody(strict, hostile, folder, name):
    """It is refused with a reason, or shown as far as it makes sense; the next one is read as ever."""
    started = time.monotonic()
    answer = ask(strict, hostile / name)
    assert time.monotonic() - started < 60
    if answer.status_code == 200:
        assert len(answer.json()["data"]["text"]) < 33 << 20
    else:
        assert answer.status_code in (408, 413, 422), answer.text
        assert len(problem(answer)) > 20
    assert view(strict, folder / "three.pdf", page_range=[3, 3])[0] == "## Page 3\n\nThird page"
    assert eventually(lambda: below(strict) == {strict.document_worker()})


def test_what_it_takes_is_told(start_server, hostile):
    server = start_server(["--document-timeout", "100", *SMALL], program="fixture")  # not for lack of time
    refused(server, hostile / "garbage.xlsx", 422, "not a readable archive")
    refused(server, hostile / "parts.docx", 413, "20002 parts")
    refused(server, hostile / "bomb.docx", 413, "memory")
    refused(server, hostile / "wide.xlsx", 413, "too many cells")


def test_a_document_that_declares_too_much_is_not_unpacked(start_server, tmp_path):
    data = bytearray(papers.docx(papers.paragraph("x")))
    at = data.rindex(b"PK\x01\x02")
    data[at + 24:at + 28] = (600 << 20).to_bytes(4, "little")
    (tmp_path / "claim.docx").write_bytes(data)
    refused(start_server(program="fixture"), tmp_path / "claim.docx", 413, "unpacks to more than 512 MiB")


def test_a_document_larger_than_allowed(start_server, tmp_path):
    server = start_server(["--max-document", "1M"], program="fixture")
    (tmp_path / "big.pdf").write_bytes(papers.pdf(["x"]) + b" " * (1 << 20))
    refused(server, tmp_path / "big.pdf", 413, "larger than 1 MiB")
    (tmp_path / "small.pdf").write_bytes(papers.pdf(["small"]))
    assert view(server, tmp_path / "small.pdf")[0] == "## Page 1\n\nsmall"


# --- the worker --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """A document that takes longer than any test waits for."""
    path = tmp_path_factory.mktemp("slow") / "slow.pdf"
    path.write_bytes(papers.pdf(["Of many words there is no end. " * 10] * 30000))
    return path


def forks(server):
    worker = server.document_worker()
    return below(server) - {worker} if worker else set()


def idle_worker(server, folder):
    """The worker, which runs and has nothing to do."""
    view(server, folder / "letter.docx")
    assert eventually(lambda: not forks(server))
    return server.document_worker()


class Asking(threading.Thread):
    """A view in the background."""

    def __init__(self, server, path):
        super().__init__()
        self.server, self.path, self.answer = server, path, None
        self.start()

    def run(self):
        self.answer = ask(self.server, self.path)

    def result(self):
        self.join(110)
        return self.answer


@pytest.mark.parametrize("flag", ["--document-idle", "--service-idle"])
def test_it_starts_on_first_use_and_leaves_when_idle(start_server, folder, flag):
    server = start_server([flag, "4"], program="fixture")
    assert server.document_worker() is None and below(server) == set()
    for _ in range(2):
        asking = Asking(server, folder / "letter.docx")
        worker = eventually(server.document_worker)  # afterwards it may be gone before we look
        assert worker and asking.result().json()["data"]["text"] == "Dear reader"
        assert gone(worker) and eventually(lambda: below(server) == set())


def test_it_is_kept_between_documents(server, folder):
    view(server, folder / "letter.docx")
    worker = server.document_worker()
    for _ in range(5):
        view(server, folder / "letter.docx")
    assert server.document_worker() == worker


def test_it_does_not_leave_while_it_reads(start_server, slow):
    server = start_server(["--document-idle", "0.2", "--document-timeout", "2"], program="fixture")
    refused(server, slow, 408, "too long")
    assert eventually(lambda: below(server) == set())


def test_killed_in_the_middle_it_is_started_again(server, folder, slow):
    asking = Asking(server, slow)
    assert eventually(lambda: forks(server))
    worker, children = server.document_worker(), forks(server)
    os.kill(worker, signal.SIGKILL)
    answer = asking.result()
    assert answer.status_code == 503 and "try again" in answer.json()["message"]
    assert gone(worker, *children)
    assert view(server, folder / "letter.docx")[0] == "Dear reader"
    assert server.document_worker() not in (None, worker)


def test_a_fork_that_is_killed_is_told(server, folder, slow):
    worker = idle_worker(server, folder)
    asking = Asking(server, slow)
    children = eventually(lambda: forks(server))
    assert children
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    assert asking.result().status_code == 422
    assert server.document_worker() == worker


def test_a_worker_that_hangs_is_replaced(server, folder):
    view(server, folder / "letter.docx")
    worker = server.document_worker()
    os.kill(worker, signal.SIGSTOP)
    assert view(server, folder / "letter.docx")[0] == "Dear reader"
    assert gone(worker) and server.document_worker() not in (None, worker)


def test_a_caller_who_leaves_ends_the_reading(server, folder, slow):
    worker = idle_worker(server, folder)
    with server.begin("/document/view", path=str(slow)) as peer:
        children = eventually(lambda: forks(server))
        assert children
        peer.reset()
    assert gone(*children) and alive(worker)


def test_a_reading_that_takes_too_long_is_ended(strict, slow):
    refused(strict, slow, 408, "too long")
    assert eventually(lambda: not forks(strict))


@pytest.mark.concurrency
def test_twenty_at_once(server, folder):
    names = ["three.pdf", "book.xlsx", "show.pptx", "letter.docx"]
    words = ["Third page", "hammer", "Title 5", "Dear reader"]
    texts = together(20, lambda i: view(server, folder / names[i % 4])[0])
    assert all(words[i % 4] in text for i, text in enumerate(texts))
    assert eventually(lambda: below(server) == {server.document_worker()})


def test_a_hostile_one_holds_up_nobody_else(strict, folder, slow):
    asking = [Asking(strict, slow) for _ in range(2)]
    assert eventually(lambda: len(forks(strict)) == 2)
    assert view(strict, folder / "letter.docx")[0] == "Dear reader"
    assert all(one.result().status_code == 408 for one in asking)


def test_nothing_is_left_when_the_server_stops(start_server, slow):
    server = start_server(program="fixture")
    asking = Asking(server, slow)
    assert eventually(lambda: forks(server))
    everything = below(server)
    server.signal()
    assert asking.result().status_code == 503
    assert server.wait() == 0 and gone(*everything)


def test_nothing_is_left_when_the_server_is_killed(start_server, slow):
    server = start_server(program="fixture")
    thread = threading.Thread(target=lambda: pytest.raises(Exception, ask, server, slow))
    thread.start()
    assert eventually(lambda: forks(server))
    everything = below(server)
    os.kill(server.pid, signal.SIGKILL)
    assert server.wait() == 128 + signal.SIGKILL and gone(*everything)
    thread.join(100)
    server.stop = lambda: None  # it did not end well, as it had to


def test_without_python_the_error_says_what_is_missing(start_server, folder, tmp_path):
    server = start_server(env={"AIO_HOME": str(tmp_path)}, program="fixture")
    message = refused(server, folder / "three.pdf", 503, "markitdown", ".venv/bin/python", "make deps")
    assert str(tmp_path) in message


def test_without_markitdown_the_error_says_so(start_server, folder, tmp_path):
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").symlink_to("/usr/bin/python3")
    (tmp_path / "share").symlink_to(papers.ROOT / "share")
    server = start_server(env={"AIO_HOME": str(tmp_path)}, program="fixture")
    refused(server, folder / "three.pdf", 503, "markitdown", "not installed")


@ROOT_ONLY
def test_it_runs_as_the_sandbox_user(start_server, folder, tester):  # noqa: F811
    server = start_server(["--user", tester], program="fixture")
    view(server, folder / "letter.docx")
    status = open(f"/proc/{server.document_worker()}/status").read()
    uids = status.split("Uid:")[1].split("\n")[0].split()
    assert len(set(uids)) == 1 and uids[0] != "0"
    environment = open(f"/proc/{server.document_worker()}/environ", "rb").read()
    assert b"AIO_HOME" not in environment
