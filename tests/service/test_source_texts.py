"""Text, title and metadata of files that are one document."""

import io
import zipfile
from datetime import date, datetime

import pytest

from service.cli.sources.formats import SourceFormat, UnknownFormat, format_of_content, format_of_name
from service.cli.sources.texts import TextFile, Unreadable, extract
from tests.service.files import docx, encrypted_pdf, pdf

PAGE = """<!doctype html><html><head><title>Copying &amp; moving
 files</title><style>p {color: red}</style></head><body>
<header>Site name</header><nav><a href="/">Home</a></nav>
<main><h1>Copy</h1><p>Use <b>cp</b>
 -r.<br>Then check.</p><ul><li>one</li><li>two</li></ul><pre>cp -r a b
ls b</pre><script>track()</script></main><footer>Imprint</footer></body></html>"""


def test_markdown_loses_its_marks_and_keeps_its_words() -> None:
    text = "# Copy *folders*\n\nUse `cp -r` or\n[rsync](http://x).\n\n- one\n- 2\n\n```sh\ncp -r a b\n```\n\n<b>now</b>"
    assert extract(SourceFormat.MD, text.encode()) == TextFile(
        "Use cp -r or\nrsync.\n\none\n\n2\n\ncp -r a b\n\nnow", "Copy folders"
    )


@pytest.mark.parametrize(
    "matter",
    ["---\ntitle: From the front\ntags: [a, b]\n---\n", '+++\ntitle = "From the front"\ntags = ["a", "b"]\n+++\n'],
)
def test_front_matter_gives_title_and_metadata(matter: str) -> None:
    found = extract(SourceFormat.MD, f"{matter}# Heading\n\ntext\n".encode())
    assert (found.title, found.text, found.metadata) == ("From the front", "Heading\n\ntext", {"tags": ["a", "b"]})


def of_yaml(*lines: str) -> TextFile:
    return extract(SourceFormat.MD, "\n".join(["---", *lines, "---", "# Heading"]).encode())


@pytest.mark.parametrize(
    "title", ["No", "on", "12:30", "True", "1.10", "0012", "1_000", "2024-05-01", "2024-02-30", "=", "+49 30", "0x1F"]
)
def test_a_title_is_what_is_written(title: str) -> None:
    found = of_yaml(f"title: {title}", "lang: en")
    assert (found.title, found.metadata) == (title, {"lang": "en"})


@pytest.mark.parametrize("title", ["title:", "title: ~", "title: null", "lang: en"])
def test_a_text_without_a_title_has_its_heading_as_title(title: str) -> None:
    assert of_yaml(title).title == "Heading"
    assert "title" not in of_yaml(title).metadata


@pytest.mark.parametrize("line", ["title: [a, b]", "title: {a: b}"])
def test_a_list_or_an_object_is_no_title(line: str) -> None:
    found = of_yaml("title: first", line)
    assert found.title == "Heading"
    assert found.metadata == {"title": ["a", "b"] if "[" in line else {"a": "b"}}


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("01234", "01234"),
        ("+4930123456", "+4930123456"),
        ("NO", "NO"),
        ("off", "off"),
        ("12:30", "12:30"),
        ("1_000", "1_000"),
        ("0x1F", "0x1F"),
        ("0o17", "0o17"),
        ("2024-02-30", "2024-02-30"),
        ("=", "="),
        ("'5'", "5"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("", None),
        ("0", 0),
        ("-12", -12),
        ("1.5", 1.5),
        ("-.5", -0.5),
        ("1.5e3", 1500.0),
        ("12e4", "12e4"),
        ("4e51926", "4e51926"),
        ("1.5e999", "1.5e999"),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", "9223372036854775808"),
        ("-9223372036854775809", "-9223372036854775809"),
        ("123456789012345678901", "123456789012345678901"),
        ("2024-05-01", date(2024, 5, 1)),
        ("2024-05-01 10:00:00", datetime(2024, 5, 1, 10)),
    ],
)
def test_a_field_of_front_matter_has_the_type_that_it_looks_like(written: str, value: object) -> None:
    found = of_yaml(f"field: {written}", f"inner: {{field: {written or '~'}}}").metadata
    assert found == {"field": value, "inner": {"field": value}}
    assert type(found["field"]) is type(value)


def test_an_integer_of_toml_that_json_would_round_is_text() -> None:
    matter = f"+++\nn = {2**63 - 1}\nlong = [{2**63}]\ninner = {{n = {-(2**63) - 1}}}\n+++\n# Heading"
    found = extract(SourceFormat.MD, matter.encode())
    assert found.metadata == {"n": 2**63 - 1, "long": [str(2**63)], "inner": {"n": str(-(2**63) - 1)}}


@pytest.mark.parametrize("value", ["!!bool foo", "!!timestamp foo", '!!int ""', "!!float x", "!!unknown x"])
def test_a_value_that_its_tag_does_not_fit_is_reported(value: str) -> None:
    with pytest.raises(Unreadable, match="not valid YAML"):
        of_yaml(f"field: {value}")


def test_a_name_that_is_an_alias_is_text_and_its_value_keeps_its_type() -> None:
    assert of_yaml("a: &x 5", "*x : 6", "inner: {*x : 7}").metadata == {"a": 5, "5": 6, "inner": {"5": 7}}


def test_the_names_of_fields_are_what_is_written() -> None:
    lines = ["null: a", "true: b", "NO: c", "2024: d", "01: e", "2024-05-01: f", "inner: {on: g}"]
    assert of_yaml(*lines).metadata == {
        "null": "a",
        "true": "b",
        "NO": "c",
        "2024": "d",
        "01": "e",
        "2024-05-01": "f",
        "inner": {"on": "g"},
    }


def test_an_anchor_is_merged() -> None:
    found = of_yaml("base: &base {lang: en, title: Merged}", "<<: *base", "lang: de")
    assert (found.title, found.metadata) == ("Merged", {"base": {"lang": "en", "title": "Merged"}, "lang": "de"})


def test_a_text_between_rules_is_no_front_matter() -> None:
    assert extract(SourceFormat.MD, b"---\nonly text\n---\nmore\n").metadata == {}
    with pytest.raises(Unreadable, match=r"front matter is not valid YAML: line \d"):
        extract(SourceFormat.MD, b"---\na: [\n---\nmore\n")


def test_the_main_text_of_a_page_is_read() -> None:
    found = extract(SourceFormat.HTML, PAGE.encode())
    assert found == TextFile(
        "Copy\n\nUse cp -r.\nThen check.\n\none\n\ntwo\n\ncp -r a b\nls b", "Copying & moving files"
    )


def test_a_page_without_main_is_read_without_its_frame() -> None:
    page = b"<body><header>Site</header><h1>Copy</h1><p>Text</p><footer>Imprint</footer></body>"
    assert extract(SourceFormat.HTML, page) == TextFile("Text", "Copy")


def test_a_page_in_a_declared_encoding_is_read() -> None:
    page = '<meta charset="iso-8859-1"><p>caf\u00e9</p>'
    assert extract(SourceFormat.HTML, page.encode("latin-1")).text == "café"
    with pytest.raises(Unreadable, match="not UTF-8 at byte 6"):
        extract(SourceFormat.HTML, "<p>caf\u00e9</p>".encode("latin-1"))


def test_lists_of_front_matter_have_their_texts_as_they_are_written() -> None:
    matter = "versions: [4.8, 5.0, 007]\ndays: [2026-11-29, null]\nflags:\n  - true\n  - 'no'\nnested: [[1.0], 2.0]"
    found = extract(SourceFormat.MD, f"---\n{matter}\n---\ntext\n".encode()).metadata
    assert found == {
        "versions": ["4.8", "5.0", "007"],
        "days": ["2026-11-29", None],
        "flags": [True, "no"],
        "nested": [[1.0], 2.0],
    }


PORTS = "server\tport\tencryption\n\nIMAP\t993\tSSL\n\nSMTP\t587\tSTARTTLS"


def test_a_row_of_a_table_is_a_line() -> None:
    table = "| server | port | encryption |\n|---|---|---|\n| IMAP | 993 | SSL |\n| *SMTP* | 587 | STARTTLS |"
    assert extract(SourceFormat.MD, f"# Ports\n\n{table}\n\nend".encode()) == TextFile(f"{PORTS}\n\nend", "Ports")
    rows = "".join(f"<tr>{''.join(f'<td> {cell} </td>' for cell in row.split())}</tr>" for row in PORTS.split("\n\n"))
    page = f"<h1>Ports</h1><table><thead></thead><tbody>{rows}</tbody></table><p>end</p>"
    assert extract(SourceFormat.HTML, page.encode()) == TextFile(f"{PORTS}\n\nend", "Ports")


def test_cells_keep_their_columns_and_are_single_lines() -> None:
    cells = "<tr><td><p>1</p><p>one</p></td><td></td><td>3<br>three</td></tr>"
    long = f"<tr><td><p>{'a ' * 300}</p><p>b</p></td></tr>"
    found = extract(SourceFormat.HTML, f"<table>{cells}{long}</table>".encode()).text.split("\n\n")
    assert found == ["1 one\t\t3 three", " ".join(["a"] * 300), "b"]
    assert extract(SourceFormat.MD, b"|a|b|c|\n|-|-|-|\n|1||3|").text == "a\tb\tc\n\n1\t\t3"


def test_preformatted_text_keeps_its_white_space() -> None:
    page = "<h1>Code</h1><p>a  b</p><pre>def f(x):\n    if x:\n\treturn  1\n</pre><p>end</p>"
    assert extract(SourceFormat.HTML, page.encode()).text == "a b\n\ndef f(x):\n    if x:\n\treturn  1\n\nend"


@pytest.mark.parametrize("text", ["# Same\n", "---\ntitle: Same\n---\nSame\n", "# Same\n\n"])
def test_a_text_that_is_only_its_title_keeps_it(text: str) -> None:
    assert extract(SourceFormat.MD, text.encode()) == TextFile("Same", "Same")


def test_the_pages_of_a_pdf_are_read() -> None:
    assert extract(SourceFormat.PDF, pdf("first page", "second page", title="Manual")) == TextFile(
        "first page\n\nsecond page", "Manual"
    )


def test_paragraphs_and_tables_of_a_docx_are_read() -> None:
    found = extract(SourceFormat.DOCX, docx("Manual", "Use cp.", ("a", "b")))
    assert found == TextFile("Use cp.\n\na\tb", "Manual")


@pytest.mark.parametrize(
    ("kind", "content", "reason"),
    [
        (SourceFormat.MD, b" \n", "the file is empty"),
        (SourceFormat.TXT, b"caf\xe9", "not UTF-8 at byte 3"),
        (SourceFormat.HTML, b"<p></p>", "the file has no text"),
        (SourceFormat.PDF, b"%PDF-1.4 cut", "not a readable PDF"),
        (SourceFormat.PDF, pdf(""), "no text; scanned pages need OCR"),
        (SourceFormat.PDF, encrypted_pdf("secret", "word"), "the PDF is encrypted"),
        (SourceFormat.DOCX, b"PK\x03\x04", "not a readable DOCX"),
    ],
)
def test_a_file_without_text_says_why(kind: SourceFormat, content: bytes, reason: str) -> None:
    with pytest.raises(Unreadable, match=reason):
        extract(kind, content)


def test_a_pdf_without_a_password_is_read() -> None:
    assert extract(SourceFormat.PDF, encrypted_pdf("open", "")).text == "open"


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b'{"a": 1}\n{"a": 2}', SourceFormat.JSON),
        (b' [{"a": 1}]', SourceFormat.JSON),
        (b"id;text\n1;x\n2;y\n", SourceFormat.CSV),
        (b"just words, and more\nwithout any commas\n", SourceFormat.TXT),
        (b"# Heading\n", SourceFormat.MD),
        (b"<!DOCTYPE html><p>x", SourceFormat.HTML),
        (pdf("x"), SourceFormat.PDF),
        (docx("x", "y"), SourceFormat.DOCX),
        ('[{"a": 1}]'.encode("utf-16"), SourceFormat.JSON),
        ("id;text\n1;x\n2;y\n".encode("utf-16"), SourceFormat.CSV),
    ],
)
def test_the_first_bytes_give_the_format(content: bytes, kind: SourceFormat) -> None:
    assert format_of_content(content) is kind


@pytest.mark.parametrize(
    ("member", "advice"), [("xl/workbook.xml", "save each sheet as CSV"), ("ppt/presentation.xml", "save it as PDF")]
)
def test_a_workbook_and_a_presentation_are_named_with_advice(member: str, advice: str) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr(member, "<x/>")
    with pytest.raises(UnknownFormat, match=f"^unknown format: .*: {advice}$"):
        format_of_content(content.getvalue())


def test_the_name_gives_the_format_also_of_a_gzipped_file() -> None:
    assert format_of_name("A.JSONL.gz") is SourceFormat.NDJSON
    assert format_of_name("a.htm") is SourceFormat.HTML
    assert format_of_name("a.gz") is None
