"""Records are read from lines, arrays and tables in bounded memory; a bad record stops no reader."""

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from service.documents import reading
from service.documents.reading import NOT_TEXT, Fault, Record, RecordFormat
from service.documents.tables import UnusableTable, delimiter_of, read_records, read_table


def array(content: bytes | str) -> list[Record | Fault]:
    return list(reading.read_array(io.BytesIO(content if isinstance(content, bytes) else content.encode())))


def table(content: bytes | str, strict: bool = False) -> list[Record | Fault]:
    return list(read_table(io.BytesIO(content if isinstance(content, bytes) else content.encode()), strict))


def test_an_array_is_read_item_by_item() -> None:
    assert array(b'\xef\xbb\xbf [{"a": "]},\\"{["}, 2,\n {"b": [{"c": {}}, []]}, {"d": NaN}] \n') == [
        Record(1, {"a": ']},"{['}),
        Fault(2, "invalid_json", "not a JSON object"),
        Record(3, {"b": [{"c": {}}, []]}),
        Fault(4, "invalid_json", "not valid JSON at character 7"),
    ]
    assert array("[]") == array("[ ]") == array("") == []


@pytest.mark.parametrize(
    ("text", "count", "detail"),
    [
        ('[{"a": 1}, {"b"', 1, "the array has no end"),
        ('[{"a": 1}, {"b', 1, "a string has no end"),
        ('[{"a": 1},, {"b": 1}]', 1, "not valid JSON"),
        ('[{"a": 1},]', 1, "not valid JSON"),
        ('[{"a": 1}] x', 1, "not valid JSON after the end of the array"),
    ],
)
def test_a_broken_array_gives_the_items_before_the_break(text: str, count: int, detail: str) -> None:
    found = array(text)
    assert found[:count] == [Record(1, {"a": 1})]
    assert found[count:] == [Fault(2, "invalid_json", f"{detail}; the rest of the array is not read")]


def test_an_item_over_the_limit_ends_an_array(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_RECORD_BYTES", 50)
    found = array(json.dumps([{"a": 1}, {"b": "x" * 20, "c": "y" * 40}, {"d": 1}]))
    assert [one.code if isinstance(one, Fault) else one.value for one in found] == [{"a": 1}, "document_too_large"]


ITEMS = some.lists(some.dictionaries(some.text(), some.text() | some.lists(some.text())), max_size=6)


@given(ITEMS, some.integers(1, 9))
def test_an_array_is_the_same_in_blocks_of_any_size(items: list[dict[str, Any]], size: int) -> None:
    content = json.dumps(items, ensure_ascii=False, indent=1).encode()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(reading, "READ_CHARACTERS", size)
        assert [one.value for one in array(content) if isinstance(one, Record)] == items


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_header_gives_the_delimiter(delimiter: str) -> None:
    rows = [["id", "text", "note"], ["a", "x, y; z|w", ""], ["b", 'say "hi"\n', "n"]]
    content = "".join(
        delimiter.join(f'"{cell.replace(chr(34), chr(34) * 2)}"' for cell in row) + "\r\n" for row in rows
    )
    assert delimiter_of(content) == delimiter
    assert table(content) == [
        Record(2, {"id": "a", "text": "x, y; z|w"}),
        Record(3, {"id": "b", "text": 'say "hi"\n', "note": "n"}),
    ]


def test_cells_have_the_type_of_their_column() -> None:
    content = "\ufeffid,text,price:number,sold:boolean\na,x,2.5,TRUE\nb,y,soon,\nc\nd,caf\udce9,,\n"
    found = table(content.encode(errors="surrogateescape"))
    assert found == [
        Record(2, {"id": "a", "text": "x", "price": 2.5, "sold": True}),
        Fault(3, "invalid_csv", "column price: not a number", "price"),
        Fault(4, "invalid_csv", "1 cells; the header has 4"),
        Fault(5, "invalid_csv", NOT_TEXT),
    ]
    assert [one.content for one in found[1:3] if isinstance(one, Fault)] == [
        {"id": "b", "text": "y", "price": "soon", "sold": ""},
        ["c"],
    ]


def test_columns_without_a_name_or_with_the_same_name_are_kept() -> None:
    assert table("id,tag,tag,\na,x,y,z\n") == [Record(2, {"id": "a", "tag": ["x", "y"], "column 4": "z"})]


def test_a_table_of_a_spreadsheet_in_utf_16_is_read() -> None:
    assert table("id\ttext\na\tcafé\n".encode("utf-16")) == [Record(2, {"id": "a", "text": "café"})]


LONE_SURROGATE = b"\x00\xd8"


def test_a_damaged_row_of_a_table_in_utf_16_is_a_fault() -> None:
    rows = ("id,text\na,red ".encode("utf-16"), LONE_SURROGATE, "shoe\nb,hat\nc,scarf".encode("utf-16-le")[:-1])
    assert table(b"".join(rows)) == [
        Fault(2, "invalid_csv", NOT_TEXT),
        Record(3, {"id": "b", "text": "hat"}),
        Fault(4, "invalid_csv", NOT_TEXT),
    ]
    with pytest.raises(UnusableTable, match=NOT_TEXT):
        table("id,te".encode("utf-16") + LONE_SURROGATE + "xt\na,b\n".encode("utf-16-le"))


@pytest.mark.parametrize("block", [1, 2, 3, 65_536])
def test_json_in_utf_16_with_a_byte_order_mark_is_read(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(reading, "READ_CHARACTERS", block)
    lines = '{"id": "café"}\n\n{"id": "𝄞"}\n'.encode("utf-16") + b'"\x00' + LONE_SURROGATE + b'"\x00'
    assert list(read_records(io.BytesIO(lines), RecordFormat.NDJSON)) == [
        Record(1, {"id": "café"}),
        Record(3, {"id": "𝄞"}),
        Fault(4, "invalid_json", NOT_TEXT),
    ]
    assert array('[{"id": "café"}, {"id": "𝄞"}]'.encode("utf-16")) == [
        Record(1, {"id": "café"}),
        Record(2, {"id": "𝄞"}),
    ]


@pytest.mark.parametrize("header", ["id,title", "text", "id,text,text", "id,text,"])
def test_a_strict_header_has_id_and_text_and_each_column_once(header: str) -> None:
    with pytest.raises(UnusableTable):
        table(f"{header}\n1,2\n", strict=True)


def test_a_cell_over_the_limit_is_a_fault_of_its_own_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.documents.tables.MAX_RECORD_BYTES", 100)
    found = table(f"id,text\na,{'x' * 200}\nb,y\n")
    assert [one.code if isinstance(one, Fault) else one.number for one in found] == ["document_too_large", 3]


@pytest.mark.parametrize("rest", ["q2,b\nq3,c\n", "", "q2,b", '""', '\n"" \n\n'])
def test_a_quote_that_is_not_closed_is_a_fault_where_its_row_begins(rest: str) -> None:
    unclosed = Fault(4, "invalid_csv", "a quote is not closed")
    assert table(f'id,text\nq0,"a\nb"\nq1,"{rest}') == [Record(2, {"id": "q0", "text": "a\nb"}), unclosed]


def test_a_quote_that_another_rows_quote_closes_is_a_fault() -> None:
    unclosed = Fault(3, "invalid_csv", "a quote is not closed")
    assert table('id,text\nq1,a\nq2,"b\nq3,c\nq4,"d\nq5,e\n') == [
        Record(2, {"id": "q1", "text": "a"}),
        unclosed,
        Record(6, {"id": "q5", "text": "e"}),
    ]


def test_blank_lines_between_rows_count_as_lines_and_those_of_a_cell_are_kept() -> None:
    assert table('\n\nid,text\n\r\nq1,"a\n\nb"\n\n\nq2\n') == [
        Record(5, {"id": "q1", "text": "a\n\nb"}),
        Fault(10, "invalid_csv", "1 cells; the header has 2"),
    ]


def test_white_space_between_items_is_read_once_and_is_no_part_of_an_item(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "READ_CHARACTERS", 64)
    monkeypatch.setattr(reading, "MAX_RECORD_BYTES", 100)
    spaces = " \n" * 100_000  # the time grew with the square of the length: this would take minutes
    assert array(f'[{spaces}{{"a": [1, 2]}}{spaces},{spaces}{{"a": 3}}{spaces}]{spaces}') == [
        Record(1, {"a": [1, 2]}),
        Record(2, {"a": 3}),
    ]


def test_a_header_with_a_quote_that_is_not_closed_is_not_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnusableTable, match="a quote is not closed"):
        table('id,"text\nq1,a\n')
    monkeypatch.setattr("service.documents.tables.MAX_RECORD_BYTES", 100)
    with pytest.raises(UnusableTable, match="a cell has more than"):
        table(f'id,"text\nq1,{"a" * 200}\n')


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\n"])
def test_other_quotes_are_read_as_before(end: str) -> None:
    assert table(f'id,text\nq1,"a"b\nq2,a"b\nq3,"a ""b""\nc"{end}') == [
        Record(2, {"id": "q1", "text": "ab"}),
        Record(3, {"id": "q2", "text": 'a"b'}),
        Record(4, {"id": "q3", "text": 'a "b"\nc'}),
    ]


def test_every_format_is_read_from_a_stream() -> None:
    for kind, content in zip(RecordFormat, ['{"a":"1"}', '[{"a":"1"}]', "a\n1\n", "a\n1\n"], strict=True):
        (found,) = read_records(io.BytesIO(content.encode()), kind)
        assert isinstance(found, Record)
        assert found.value == {"a": "1"}


class CountedLines(io.BufferedReader):
    """A stream that counts the lines that are read one by one."""

    count = 0

    def readline(self, size: int | None = -1) -> bytes:
        self.count += 1
        return super().readline(size)


@pytest.mark.parametrize("blank", [b"\n", b"\r\n", b" \t\n"])
def test_blank_lines_are_counted_and_not_read_one_by_one(blank: bytes) -> None:
    content = blank * 100_000 + b'{"id": 1}\n' + blank * 3 + b"   " + b'{"id": 2}' + blank * 100_000 + b"[]"
    stream = CountedLines(io.BytesIO(content))
    found = [(one.number, type(one)) for one in reading.read_lines(stream)]
    assert found == [(100_001, Record), (100_005, Record), (200_005, Fault)]
    assert stream.count < 1000


class Ended(Exception):
    """The end of reading."""


@pytest.mark.parametrize("kind", list(RecordFormat))
def test_reading_ends_where_its_check_fails(kind: RecordFormat) -> None:
    asked = 0

    def check() -> None:
        nonlocal asked
        asked += 1
        if asked > 20:
            raise Ended

    watched = io.BufferedReader(reading.Watched(io.BytesIO(b"[\n" + b" \n" * 1_000_000), check))
    with pytest.raises(Ended):
        list(read_records(watched, kind))
