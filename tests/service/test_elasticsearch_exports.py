"""`softseek ingest` reads what Elasticsearch, OpenSearch, Typesense and Algolia export, with ids, types and fields."""

import json
from pathlib import Path
from typing import Any

import pytest

from service.documents.bulk_actions import with_actions
from service.documents.reading import Fault, Record
from tests.service.files import written
from tests.service.test_ingest import Softseek, ids, softseek

__all__ = ["softseek"]

SOURCES: list[dict[str, Any]] = [
    {
        "name": f"tree {n}",
        "description": "a tree of the forest",
        "price": str(n) + ".50",
        "brand": f"b{n}",
        "sizes": [n, 38],
        "id": 7,
    }
    for n in range(4)
]
HITS = [{"_index": "shop", "_id": f"es-{n}", "_score": 1.0, "_source": source} for n, source in enumerate(SOURCES)]


def lines(*records: Any) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


BULK = lines(
    *(part for hit in HITS for part in ({"index": {"_index": "shop", "_id": hit["_id"]}}, hit["_source"])),
)
FORMS = {
    "bulk.ndjson": BULK,
    "scroll.ndjson": lines(*HITS),
    "search.json": json.dumps({"took": 3, "hits": {"total": {"value": 4}, "hits": HITS}}, indent=1),
    "typesense.json": json.dumps({"documents": [{**hit["_source"], "id": hit["_id"]} for hit in HITS], "total": 4}),
    "algolia.json": json.dumps(
        {
            "hits": [{"objectID": hit["_id"], **(hit["_source"] | {"id": None})} for hit in HITS],
            "nbHits": 4,
            "query": "",
        },
        indent=1,
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_exports_keep_ids_and_fields(softseek: Softseek, tmp_path: Path, name: str) -> None:
    path = written(tmp_path / name, FORMS[name])
    code, outcome, _ = softseek("ingest", path, "--filterable", "price,brand,sizes", "--number-field", "price")
    assert (code, outcome["succeeded"], outcome["failed"], outcome.get("notes") or {}) == (0, 4, 0, {})
    assert ids(softseek, "tree") == {"es-0", "es-1", "es-2", "es-3"}
    assert ids(softseek, "tree", "--filter", "price > 1.5") == {"es-2", "es-3"}
    assert ids(softseek, "tree", "--filter", "sizes 3 TO 37") == {"es-3"}
    code, shown, _ = softseek("search", "tree", "--filter", "brand = b2")
    (hit,) = shown["hits"]
    assert hit["metadata"].pop("id", 7) == 7, "the id of the source is a field like others"
    assert hit["metadata"] == {"price": 2.5, "brand": "b2", "sizes": [2, 38]}


def test_actions_without_a_document_are_named(softseek: Softseek, tmp_path: Path) -> None:
    content = lines(
        {"index": {}},
        SOURCES[0],
        {"delete": {"_id": "es-9"}},
        {"update": {"_id": "es-1"}},
        {"doc": {"price": 3}},
        {"create": {"_id": "es-2"}},
        SOURCES[2],
        {"index": {"_id": "es-3"}},
    )
    path = written(tmp_path / "bulk.ndjson", content)
    code, outcome, _ = softseek("ingest", path, "--rejects", tmp_path / "rejects.ndjson")
    assert (code, outcome["succeeded"], outcome["failed"]) == (3, 2, 3)
    assert [error["line"] for error in outcome["errors"]] == [3, 4, 8]
    written_out = [json.loads(line) for line in (tmp_path / "rejects.ndjson").read_text().splitlines()]
    assert written_out[1]["record"] == {"update": {"_id": "es-1"}, "doc": {"price": 3}}
    details = [error["detail"] for error in outcome["errors"]]
    assert all(part in detail for part, detail in zip(("documents/delete", "PATCH", "follows"), details, strict=True))
    assert ids(softseek, "tree") == {"7", "es-2"}, "where the action has no id, the document has the id of its source"


def test_a_damaged_document_after_an_action_is_its_own_fault() -> None:
    fault = Fault(2, "invalid_json", "not valid JSON")
    found = list(with_actions(iter([Record(1, {"index": {"_id": "a"}}), fault, Record(3, {"index": 5, "text": "x"})])))
    assert found == [fault, Record(3, {"index": 5, "text": "x"})]


def test_an_action_without_a_document_does_not_take_the_next_action() -> None:
    lines_of_actions = [{"index": {"_id": "1"}}, {"update": {}}, {"index": {"_id": "2"}}, {"title": "z"}]
    found = list(with_actions(Record(number, one) for number, one in enumerate(lines_of_actions, 1)))
    assert [one.number for one in found] == [1, 2, 4]
    assert found[-1] == Record(4, {"_id": "2", "_index": None, "_source": {"title": "z"}})


@pytest.mark.parametrize(
    "record",
    [
        {"id": "x", "title": "T", "text": "hello", "_source": {"site": "example.org"}},
        {"id": "x", "Name": "Order 7", "items": [{"title": "a"}]},
        {"id": "x", "produkt": "Drill", "data": [{"k": 1}]},
        {"id": "x", "Body": "a long text", "articles": [{"k": 1}]},
    ],
)
def test_a_record_with_such_fields_stays_a_record(softseek: Softseek, tmp_path: Path, record: dict[str, Any]) -> None:
    path = written(tmp_path / "one.json", json.dumps(record, indent=1))
    more = ("--title-field", "produkt") if "produkt" in record else ()
    code, outcome, _ = softseek("ingest", path, *more)
    assert (code, outcome["succeeded"]) == (0, 1)
    code, shown, _ = softseek("search", "*")
    assert [hit["id"] for hit in shown["hits"]] == ["x"]


def test_a_long_text_is_no_field_of_filters(softseek: Softseek, tmp_path: Path) -> None:
    path = written(tmp_path / "one.ndjson", lines({"id": 1, "title": "oak", "description": "tall " * 3000}))
    fields = ("--text-field", "description", "--filterable", "description")
    code, outcome, _ = softseek("ingest", path, *fields)
    assert (code, outcome["succeeded"]) == (0, 1)
    (note,) = outcome["notes"]
    assert "description is too long" in note
    again = softseek("ingest", path, *fields[:2])[1]
    assert again["unchanged"] == 1, "the settings of the collection say which fields are filterable"


def test_blank_numbers_are_left_out(softseek: Softseek, tmp_path: Path) -> None:
    record = {"id": 1, "title": "oak", "metadata": {"price": " "}, "sizes": ["3", ""]}
    path = written(tmp_path / "one.ndjson", lines(record))
    code, outcome, _ = softseek("ingest", path, "--number-field", "metadata.price,sizes")
    assert (code, outcome["succeeded"]) == (0, 1)
    (hit,) = softseek("search", "oak")[1]["hits"]
    assert hit["metadata"] == {"sizes": [3]}


def test_a_text_that_filters_use_is_metadata_too(softseek: Softseek, tmp_path: Path) -> None:
    path = written(tmp_path / "shop.ndjson", lines(*({"sku": f"S-{n}", **SOURCES[n]} for n in range(4))))
    fields = ("--id-field", "sku", "--text-field", "description,brand,sku")
    code, outcome, _ = softseek("ingest", path, *fields, "--filterable", "brand,sku,price")
    assert code == 0
    (note,) = outcome["notes"]
    assert "price is a text that spells a number" in note
    assert ids(softseek, "tree", "--filter", "brand = b1") == ids(softseek, "b1") == {"S-1"}
    assert ids(softseek, "tree", "--filter", "sku = S-2") == {"S-2"}
    code, outcome, _ = softseek("ingest", path, *fields, "--number-field", "brand")
    assert (code, outcome["failed"]) == (3, 4)
    assert "brand: must be a number such as 12.99, and is 'b0'" in outcome["errors"][0]["detail"]


def test_a_record_with_a_title_needs_none_of_the_named_texts(softseek: Softseek, tmp_path: Path) -> None:
    path = written(tmp_path / "shop.ndjson", lines({"id": 1, "title": "oak", "description": None}, {"id": 2}))
    code, outcome, _ = softseek("ingest", path, "--text-field", "description")
    assert (code, outcome["succeeded"], outcome["failed"]) == (3, 1, 1)


def test_questions_are_titles(softseek: Softseek, tmp_path: Path) -> None:
    softseek(
        "ingest", written(tmp_path / "faq.ndjson", lines({"id": 1, "question": "a password", "answer": "reset it"}))
    )
    assert ids(softseek, "password") == {"1"}
