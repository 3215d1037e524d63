"""Documents for tests: small ones that say something, and hostile ones. Made with nothing but the
standard library, or with the product's own Python where a real writer is wanted."""

import io
import json
import struct
import subprocess
import zipfile
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

OFFICE = """
import json, sys
import openpyxl, pptx
folder = sys.argv[1]

book = openpyxl.Workbook()
fruit = book.active
fruit.title = "Fruit"
fruit.append(["name", "price", "note"])
for i in range(1, 31):
    fruit.append([f"apple{i}", i * 1.5, "a|b" if i == 1 else None])
tools = book.create_sheet("Tools & more")
tools.append(["hammer", 42])
book.create_sheet("Nothing")
book.save(folder + "/book.xlsx")

show = pptx.Presentation()
for i in range(1, 6):
    slide = show.slides.add_slide(show.slide_layouts[1])
    slide.shapes.title.text = f"Title {i}"
    slide.placeholders[1].text = f"Body of slide {i}"
show.slides[2].placeholders[1].text = "<!-- Slide number: 4 -->"
show.slides[0].notes_slide.notes_text_frame.text = "Remember the milk"
show.save(folder + "/show.pptx")

odd = pptx.Presentation()
slide = odd.slides.add_slide(odd.slide_layouts[1])
slide.shapes.title.text, slide.placeholders[1].text = "Known", "A body"
head = "<p:%s " + " ".join(f'xmlns:{name}="http://schemas.openxmlformats.org/{where}/2006/main"' for name, where in
                           (("p", "presentationml"), ("a", "drawingml")))
names = '><p:nvSpPr><p:cNvPr id="%d" name="odd"/><p:cNvSpPr/><p:nvPr/></p:nvSpPr>'
words = '<p:spPr/><p:txBody><a:bodyPr/><a:p><a:r><a:t>%s</a:t></a:r></a:p></p:txBody></p:sp>'
group = slide.shapes.add_group_shape()
group.shapes.add_textbox(0, 0, 9, 9).text = "In a group"
for tree, id, text in ((slide.shapes._spTree, 90, "No geometry"), (group._element, 91, "Nor in the group")):
    tree.append(pptx.oxml.parse_xml(head % "sp" + names % id + words % text))
    tree.append(pptx.oxml.parse_xml(head % "contentPart" + "/>"))
odd.save(folder + "/odd.pptx")

from PIL import Image
image = Image.new("RGB", (321, 123), "red")
exif = image.getexif()
exif[0x010E] = "A red rectangle"
exif[0x013B] = "Somebody"
image.save(folder + "/red.jpg", exif=exif)
image.save(folder + "/red.png")
"""


def product_python(script, *arguments):
    subprocess.run([ROOT / ".venv/bin/python", "-I", "-c", script, *map(str, arguments)], check=True, timeout=100)


def office(folder):
    """book.xlsx, show.pptx, odd.pptx, red.jpg, red.png."""
    product_python(OFFICE, folder)


def pdf(pages, kids=None):
    """A PDF with a line of text per page; kids replaces the list of pages, to make it lie."""
    parts = [b"<</Type/Catalog/Pages 2 0 R>>", None, b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"]
    names = []
    for text in pages:
        stream = b"BT /F1 24 Tf 72 700 Td (%s) Tj ET" % text.encode("latin-1")
        parts.append(b"<</Length %d>>stream\n%s\nendstream" % (len(stream), stream))
        parts.append(b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents %d 0 R"
                     b"/Resources<</Font<</F1 3 0 R>>>>>>" % len(parts))
        names.append(b"%d 0 R" % len(parts))
    parts[1] = b"<</Type/Pages/Count %d/Kids[%s]>>" % (len(pages), kids or b" ".join(names))
    out, places = io.BytesIO(), []
    out.write(b"%PDF-1.4\n")
    for number, part in enumerate(parts, 1):
        places.append(out.tell())
        out.write(b"%d 0 obj\n%s\nendobj\n" % (number, part))
    start = out.tell()
    out.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(parts) + 1))
    out.write(b"".join(b"%010d 00000 n \n" % place for place in places))
    out.write(b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (len(parts) + 1, start))
    return out.getvalue()


def pdf_with_bomb(size):
    """A PDF whose one page is a compressed stream of `size` bytes of operators."""
    stream = zlib.compress(b"(x) Tj " * (size // 7), 1)
    plain = pdf(["x"])
    at = plain.index(b"<</Length")
    end = plain.index(b"endstream")
    return plain[:at] + b"<</Filter/FlateDecode/Length %d>>stream\n%s\n" % (len(stream), stream) + plain[end:]


def archive(members, **more):
    """A zip from {name: bytes, or (ZipInfo, bytes)}."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, **more) as file:
        for name, data in members.items():
            info, data = data if isinstance(data, tuple) else (name, data)
            file.writestr(info, data, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def write_bomb(path, name, size):
    """A zip whose one member unpacks to `size` bytes, made without holding them."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file, file.open(name, "w") as member:
        for _ in range(size >> 20):
            member.write(b"a" * (1 << 20))


RELATIONS = (
    '<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    '<Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"'
    ' Target="{}"/></Relationships>'
)
TYPES = (
    '<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="xml" ContentType="application/xml"/>{}</Types>'
)
PART = '<Override PartName="/{}" ContentType="application/vnd.openxmlformats-officedocument.{}+xml"/>'


def docx(body, before=""):
    """A Word document; before stands in front of its root element."""
    w = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    return archive({
        "[Content_Types].xml": TYPES.format(PART.format("word/document.xml", "wordprocessingml.document.main")),
        "_rels/.rels": RELATIONS.format("word/document.xml"),
        "word/document.xml": f'<?xml version="1.0"?>{before}<w:document xmlns:w="{w}"><w:body>{body}</w:body></w:document>',
    })


def paragraph(text):
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


LAUGHS = "<!DOCTYPE x [<!ENTITY a0 'ha'>{}]>".format(
    "".join(f"<!ENTITY a{i} '{f'&a{i - 1};' * 10}'>" for i in range(1, 12))
)


def xlsx(rows, dimension="A1", before=""):
    """A workbook with one sheet, whose rows are given as XML."""
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    relation = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    return archive({
        "[Content_Types].xml": TYPES.format(
            PART.format("xl/workbook.xml", "spreadsheetml.sheet.main")
            + PART.format("xl/worksheets/sheet1.xml", "spreadsheetml.worksheet")
        ),
        "_rels/.rels": RELATIONS.format("xl/workbook.xml"),
        "xl/_rels/workbook.xml.rels": RELATIONS.format("worksheets/sheet1.xml").replace(
            "relationships/officeDocument", "relationships/worksheet"),
        "xl/workbook.xml": f'<?xml version="1.0"?><workbook xmlns="{main}" xmlns:r="{relation}"><sheets>'
                           '<sheet name="One" sheetId="1" r:id="r1"/></sheets></workbook>',
        "xl/worksheets/sheet1.xml": f'<?xml version="1.0"?>{before}<worksheet xmlns="{main}">'
                                    f'<dimension ref="{dimension}"/><sheetData>{rows}</sheetData></worksheet>',
    })


def zip_that_lies(real, claimed):
    """An archive whose one member claims another size than it has."""
    data = bytearray(archive({"SKILL.md": b"x" * real}))
    at = data.index(b"PK\x01\x02")
    struct.pack_into("<I", data, at + 24, claimed)
    struct.pack_into("<I", data, 22, claimed)
    return bytes(data)


def notebook(text):
    cell = {"cell_type": "markdown", "metadata": {}, "source": [text]}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
