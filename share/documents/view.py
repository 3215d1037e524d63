"""A part of a document as text: pages of a PDF, rows of a sheet, slides, or all of it."""

import os
import re

import openpyxl
import pdfplumber
import pptx
import xlrd
from markitdown import StreamInfo
from openpyxl.utils import get_column_letter

from convert import as_markdown, check_file
from kinds import kind_of
from refused import Refused

CELLS_MAX = 4_000_000


def limits(job, name, total, what):
    """The first and last number that a range names, from 1."""
    first, last = job.get(name) or (1, -1)
    if first < 1 or (last != -1 and last < first):
        raise Refused("invalid", f"{name} must be [first, last] with 1 <= first <= last, or -1 for the last")
    if first > max(total, 1):
        raise Refused("invalid", f"{name} begins at {first}, but there are only {total} {what}")
    return first, total if last == -1 else min(last, total)


def view_pdf(file, job):
    with pdfplumber.open(file) as pdf:
        total = len(pdf.pages)
        first, last = limits(job, "page_range", total, "pages")
        texts = []
        for page in pdf.pages[first - 1 : last]:
            texts.append(f"## Page {page.page_number}\n\n{(page.extract_text() or '').strip()}".strip())
            page.close()
    return "\n\n".join(texts), {"format": "pdf", "total_pages": total}


# --- spreadsheets ------------------------------------------------------------------------------


def cell(value):
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    return str(value).replace("|", "\\|").replace("\r\n", "<br>").replace("\n", "<br>")


def table(name, rows, first, last):
    """Rows as a table with the names of columns above and the number of each row before it. `rows`
    gives all from the first one on, and is only taken from as far as wanted."""
    kept, width, count, cells = [], 0, 0, 0
    for number, row in rows:
        cells += len(row) + 1
        if cells > CELLS_MAX:
            raise Refused("too_large", f"sheet '{name}' has too many cells; use row_range to read a part of it")
        while row and row[-1] is None:
            row = row[:-1]
        if not row:
            continue
        count = number
        if last != -1 and number > last:
            break
        if number >= first:
            kept.append((number, row))
            width = max(width, len(row))
    if first > max(count, 1):
        raise Refused("invalid", f"row_range begins at {first}, but sheet '{name}' has only {count} rows")
    lines = ["| row | " + " | ".join(get_column_letter(i + 1) for i in range(width)) + " |", "|---" * (width + 1) + "|"]
    for number, row in kept:
        values = [cell(value) for value in row] + [""] * (width - len(row))
        lines.append(f"| {number} | " + " | ".join(values) + " |")
    return f"## {name}\n\n" + ("\n".join(lines) if kept else "(empty)")


def modern_book(file):
    book = openpyxl.load_workbook(file, read_only=True, data_only=True)

    def rows(sheet, last):
        sheet.reset_dimensions()  # what it declares may be a lie
        limit = last if last != -1 else None
        yield from enumerate(sheet.iter_rows(values_only=True, max_row=limit), 1)

    def size(sheet):
        if not sheet.max_row or not sheet.max_column:
            sheet.calculate_dimension(force=True)
        return sheet.max_row or 0, sheet.max_column or 0

    return [(sheet.title, sheet) for sheet in book.worksheets], rows, size


def old_book(file):
    book = xlrd.open_workbook(file_contents=file.read(), logfile=open(os.devnull, "w"))

    def rows(sheet, _last):
        for i in range(sheet.nrows):
            yield i + 1, tuple(None if value == "" else value for value in sheet.row_values(i))

    return [(sheet.name, sheet) for sheet in book.sheets()], rows, lambda sheet: (sheet.nrows, sheet.ncols)


def view_sheets(file, job):
    sheets, rows, size = (old_book if job["kind"] == ".xls" else modern_book)(file)
    wanted = job.get("sheet_name")
    chosen = [(name, sheet) for name, sheet in sheets if wanted is None or name == wanted]
    if not chosen:
        names = ", ".join(f"'{name}'" for name, _ in sheets[:20])
        raise Refused("invalid", f"there is no sheet '{wanted}'; the sheets are {names}"[:400])
    first, last = limits(job, "row_range", 1 << 30, "rows")
    last = -1 if last == 1 << 30 else last
    facts = {"format": job["kind"][1:], "total_sheets": len(sheets), "sheets": []}
    for name, sheet in sheets:
        height, width = size(sheet)
        facts["sheets"].append({"name": name, "rows": height, "columns": width})
    return "\n\n".join(table(name, rows(sheet, last), first, last) for name, sheet in chosen), facts


# --- the others --------------------------------------------------------------------------------


def view_slides(file, job):
    total = len(pptx.Presentation(file).slides)
    first, last = limits(job, "slide_range", total, "slides")
    file.seek(0)
    text = as_markdown(file, StreamInfo(filename="x.pptx"))
    starts, at = [], 0
    for number in range(1, total + 1):  # in order, because a slide's own text may hold such a mark
        found = re.compile(rf"^<!-- Slide number: {number} -->$", re.M).search(text, at)
        if not found:
            break
        starts.append(found.start())
        at = found.end()
    starts.append(len(text))
    part = text[starts[min(first - 1, len(starts) - 1)] : starts[min(last, len(starts) - 1)]]
    return part.strip(), {"format": "pptx", "total_slides": total}


def view_text(file, job):
    return as_markdown(file, StreamInfo(filename="x" + job["kind"])), {"format": job["kind"][1:]}


VIEWS = {
    ".pdf": (view_pdf, {"page_range"}),
    ".xlsx": (view_sheets, {"sheet_name", "row_range"}),
    ".xls": (view_sheets, {"sheet_name", "row_range"}),
    ".pptx": (view_slides, {"slide_range"}),
    ".docx": (view_text, set()),
}
FOR = {"page_range": "PDF files", "sheet_name": "spreadsheets", "row_range": "spreadsheets", "slide_range": "slides"}


def view(job, document):
    check_file(document, job)
    os.lseek(document, 0, os.SEEK_SET)
    with os.fdopen(document, "rb") as file:
        job["kind"] = kind_of(file, job["name"])
        if job["kind"] not in VIEWS:
            raise Refused("invalid", "the file is not the kind of document that its name says")
        see, ranges = VIEWS[job["kind"]]
        for name, kinds in FOR.items():
            if job.get(name) is not None and name not in ranges:
                raise Refused("invalid", f"{name} is for {kinds}, and this is a {job['kind'][1:]} file")
        return see(file, job)
