"""The readers of the command line: records have their line or item number, and a bad record stops no reader."""

from pathlib import Path

import pytest

from service.cli import document_files, judgment_files, records
from service.cli.document_files import DocumentFormat
from service.cli.failures import USAGE, Failure
from service.cli.judgment_files import JudgmentFormat
from service.cli.records import Fault, Record


def written(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_lines_that_are_not_objects_are_faults_and_later_lines_are_read(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.ndjson", b'\xef\xbb\xbf{"id":"a"}\n\n{"id":\n\xff\xfe\n[1]\n{"id":"b","x":NaN}\n{"id":"c"}'
    )
    assert list(records.read_lines(path)) == [
        Record(1, {"id": "a"}),
        Fault(3, "invalid_json", "not valid JSON: unexpected end of data"),
        Fault(4, "invalid_json", "not UTF-8"),
        Fault(5, "invalid_json", "not a JSON object"),
        Fault(6, "invalid_json", "not valid JSON: unexpected character, expected a JSON value"),
        Record(7, {"id": "c"}),
    ]


def test_an_array_is_counted_in_items(tmp_path: Path) -> None:
    path = written(tmp_path / "a.json", '\n [{"a":1},\n 2, {"a":3}]')
    assert records.unit_of(path) == "item"
    found = list(records.read_objects(path))
    assert found == [Record(1, {"a": 1}), Fault(2, "invalid_json", "not a JSON object"), Record(3, {"a": 3})]


def test_a_truncated_array_is_an_error_that_names_the_line(tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"a\.json: not valid JSON at line 2"):
        list(records.read_objects(written(tmp_path / "a.json", '[{"a":1},\n{"a"')))


def test_csv_columns_become_fields_and_typed_metadata(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.csv",
        "\ufeffid,title,text,url,brand,year:number,sold:boolean\n"
        'a,,"two\nlines",,Acme,2020,TRUE\n'
        "b,B,text,http://b,,2.5,\n"
        "c,C,text,,,soon,\n"
        "d,D\n",
    )
    assert list(document_files.read_csv(path)) == [
        Record(2, {"id": "a", "text": "two\nlines", "metadata": {"brand": "Acme", "year": 2020, "sold": True}}),
        Record(4, {"id": "b", "title": "B", "text": "text", "url": "http://b", "metadata": {"year": 2.5}}),
        Fault(5, "invalid_csv", "column year: not a number"),
        Fault(6, "invalid_csv", "2 cells; the header has 7"),
    ]


def test_a_csv_row_that_is_not_utf8_is_a_fault(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", b"id,text\na,caf\xe9\nb,caf\xc3\xa9\n")
    assert list(document_files.read_csv(path)) == [
        Fault(2, "invalid_csv", "not UTF-8"),
        Record(3, {"id": "b", "text": "café", "metadata": {}}),
    ]


@pytest.mark.parametrize("header", ["id,title", "text", "id,text,text", "id,text,"])
def test_a_csv_header_without_id_and_text_or_with_a_duplicate_column_is_refused(tmp_path: Path, header: str) -> None:
    with pytest.raises(Failure) as raised:
        list(document_files.read_csv(written(tmp_path / "a.csv", f"{header}\n1,2\n")))
    assert raised.value.exit_code == USAGE


def test_a_beir_folder_gives_the_documents_of_its_corpus(tmp_path: Path) -> None:
    written(tmp_path / "corpus.jsonl", '{"_id":7,"title":"","text":"x","metadata":{}}\n{"text":"y"}\n')
    assert document_files.guess_document_format(tmp_path) is DocumentFormat.BEIR
    assert list(document_files.read_documents(tmp_path, DocumentFormat.BEIR)) == [
        Record(1, {"id": "7", "title": None, "text": "x", "metadata": {}}),
        Fault(2, "invalid_document", "no _id"),
    ]


def test_a_folder_without_a_corpus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"no corpus\.jsonl"):
        document_files.read_documents(tmp_path, DocumentFormat.BEIR)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ("query-id\tcorpus-id\tscore\nq\td\t1\n", JudgmentFormat.BEIR),
        ("q1 0 d1 2\n", JudgmentFormat.QRELS),
        ('\n{"query":"a"}\n', JudgmentFormat.JSON),
        ("[]", JudgmentFormat.JSON),
    ],
)
def test_the_first_line_gives_the_format_of_judgments(tmp_path: Path, content: str, kind: JudgmentFormat) -> None:
    assert judgment_files.guess_judgment_format(written(tmp_path / "a", content)) is kind


def test_judgments_of_an_unknown_format_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="unknown format"):
        judgment_files.guess_judgment_format(written(tmp_path / "a", "one two\n"))


def test_qrels_and_beir_lines_give_the_same_judgments(tmp_path: Path) -> None:
    qrels = written(tmp_path / "a.qrels", "q1 0 d1 2\nq2 0 d1 1\nq1 0 d2 high\nq1 d1 2\n")
    beir = written(tmp_path / "a.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t2.0\n")
    judgment = {"query": "copy a folder", "document_id": "d1", "rating": 2}
    texts = {"q1": "copy a folder"}
    assert list(judgment_files.read_judgments(qrels, JudgmentFormat.QRELS, texts)) == [
        Record(1, judgment),
        Fault(2, "unknown_query", "the file of queries has no text for this query"),
        Fault(3, "invalid_judgment", "the grade is not a whole number"),
        Fault(4, "invalid_judgment", "expected a query, a document and a grade"),
    ]
    assert list(judgment_files.read_judgments(beir, JudgmentFormat.BEIR, texts)) == [Record(2, judgment)]


def test_queries_are_lines_of_json_or_of_id_tab_text(tmp_path: Path) -> None:
    path = written(tmp_path / "queries.jsonl", b'{"_id":1,"text":" a "}\n2\tb c\nneither\n\xff\t\xff\n')
    texts, faults = judgment_files.read_queries(path)
    assert texts == {"1": "a", "2": "b c"}
    assert [one.number for one in faults] == [3, 4]


def test_the_default_file_of_queries_is_next_to_the_folder_of_the_judgments(tmp_path: Path) -> None:
    (tmp_path / "qrels").mkdir()
    judgments = written(tmp_path / "qrels" / "test.tsv", "")
    with pytest.raises(Failure, match="--queries FILE"):
        judgment_files.find_queries(judgments, None)
    queries = written(tmp_path / "queries.jsonl", "")
    assert judgment_files.find_queries(judgments, None) == queries
    assert judgment_files.find_queries(judgments, judgments) == judgments
