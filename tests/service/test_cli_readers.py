"""The readers of the command line: records have their line or item number, and a bad record stops no reader."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from service.cli import judgment_files, records
from service.cli.evaluation import read_qrels
from service.cli.failures import Failure
from service.cli.judgment_files import JudgmentFormat
from service.cli.records import Fault, Record
from service.cli.times import as_timestamp
from service.documents.reading import NOT_TEXT


def written(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_lines_that_are_not_objects_are_faults_and_later_lines_are_read(tmp_path: Path) -> None:
    content = b'\xef\xbb\xbf{"id":"a"}\n\n{"id":\n\xff\xfe\n[1]\n{"id":"b","x":NaN}\n{"id":"c"}'
    for path in (written(tmp_path / "a.ndjson", content), written(tmp_path / "b", gzip.compress(content))):
        assert list(records.read_objects(path)) == [
            Record(1, {"id": "a"}),
            Fault(3, "invalid_json", "not valid JSON at character 7"),
            Fault(4, "invalid_json", NOT_TEXT),
            Fault(5, "invalid_json", "not a JSON object"),
            Fault(6, "invalid_json", "not valid JSON at character 15"),
            Record(7, {"id": "c"}),
        ]


def test_an_array_is_counted_in_items(tmp_path: Path) -> None:
    path = written(tmp_path / "a.json", '\n [{"a":1},\n 2, {"a":3}]')
    assert records.unit_of(path) == "item"
    found = list(records.read_objects(path))
    assert found == [Record(1, {"a": 1}), Fault(2, "invalid_json", "not a JSON object"), Record(3, {"a": 3})]


def test_an_array_in_utf_16_is_counted_in_items(tmp_path: Path) -> None:
    path = written(tmp_path / "a.json", '[{"a":"café"}]'.encode("utf-16"))
    assert records.unit_of(path) == "item"
    assert list(records.read_objects(path)) == [Record(1, {"a": "café"})]


def test_damaged_gzip_is_an_error(tmp_path: Path) -> None:
    path = written(tmp_path / "a.ndjson.gz", gzip.compress(b'{"a":1}\n')[:-10])
    with pytest.raises(Failure, match=r"a\.ndjson\.gz"):
        list(records.read_objects(path))


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
    with pytest.raises(Failure, match="unknown format; set --format to one of qrels, beir, json, jsonl, srw"):
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


def test_gzipped_judgments_and_queries_are_read(tmp_path: Path) -> None:
    qrels = written(tmp_path / "a.qrels.gz", gzip.compress(b"q1 0 d1 2\n"))
    assert judgment_files.guess_judgment_format(qrels) is JudgmentFormat.QRELS
    texts, faults = judgment_files.read_queries(written(tmp_path / "queries.gz", gzip.compress(b"q1\ta folder\n")))
    assert (texts, faults) == ({"q1": "a folder"}, [])
    judgment = {"query": "a folder", "document_id": "d1", "rating": 2}
    assert list(judgment_files.read_judgments(qrels, JudgmentFormat.QRELS, texts)) == [Record(1, judgment)]
    damaged = written(tmp_path / "b.qrels.gz", gzip.compress(b"q1 0 d1 2\n")[:-10])
    for read in (judgment_files.guess_judgment_format, judgment_files.read_queries):
        with pytest.raises(Failure, match=r"b\.qrels\.gz"):
            read(damaged)


@pytest.mark.parametrize(
    ("value", "time"),
    [
        (0, 0),
        ("0", "0"),
        (946684799, 946684799),
        ("20261128", "2026-11-28T00:00:00+00:00"),
        (" 20261128 ", "2026-11-28T00:00:00+00:00"),
        ("20261399", "20261399"),
        ("²", "²"),
        (900_000_000_000, 900_000_000_000),
        ("1733893009", "2024-12-11T04:56:49+00:00"),
        (1733893009419, "2024-12-11T04:56:49.419000+00:00"),
        ("2024-12-11 04:56:49", "2024-12-11T04:56:49+00:00"),
        ("2024-12-11T04:56:49+01:00", "2024-12-11T04:56:49+01:00"),
        ("yesterday", "yesterday"),
        (None, None),
    ],
)
def test_times_are_read_in_the_forms_of_logs(value: Any, time: Any) -> None:
    assert as_timestamp(value) == time


def test_the_grade_of_several_raters_is_the_mean_of_their_last_ratings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ratings = [
        ("humps", "camel", 4, "a"),
        ("humps", "camel", 4, "b"),
        ("humps", "camel", 0, "c"),
        ("humps", "yak", 0, "a"),
    ]
    ratings += [
        ("striped", "zebra", 1, "a"),
        ("striped", "zebra", 0, "b"),
        ("fur", "yak", 1, "a"),
        ("fur", "yak", 0, "a"),
    ]
    names = ("query", "document_id", "rating", "rater")
    lines = "\n".join(json.dumps(dict(zip(names, one, strict=True))) for one in ratings)
    qrels, faults = read_qrels(written(tmp_path / "raters.jsonl", lines), None)
    assert (qrels, faults) == ({"humps": {"camel": 3, "yak": 0}, "striped": {"zebra": 1}, "fur": {"yak": 0}}, [])
    assert "which are not measured: 1" in capsys.readouterr().err
