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

SOURCES = [
    {
        "name": f"tree {n}",
        "description": "a tree of the forest",
        "price": str(n) + ".50",
        "brand": f"b{n}",
        "sizes": [n, 38],
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
    "typesense.json": json.dumps({"documents": [{"id": hit["_id"], **hit["_source"]} for hit in HITS], "total": 4}),
    "algolia.json": json.dumps(
        {"hits": [{"objectID": hit["_id"], **hit["_source"]} for hit in HITS], "nbHits": 4, "query": ""}, indent=1
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
    assert shown["hits"][0]["metadata"] == {"price": 2.5, "brand": "b2", "sizes": [2, 38]}


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
    code, outcome, _ = softseek("ingest", written(tmp_path / "bulk.ndjson", content))
    assert (code, outcome["succeeded"], outcome["failed"]) == (3, 2, 3)
    assert [error["line"] for error in outcome["errors"]] == [3, 4, 8]
    details = [error["detail"] for error in outcome["errors"]]
    assert all(part in detail for part, detail in zip(("documents/delete", "PATCH", "follows"), details, strict=True))
    assert outcome["notes"] == {"without an id: the id is a hash of the content": 1}
    assert "es-2" in ids(softseek, "tree")


def test_a_damaged_document_after_an_action_is_its_own_fault() -> None:
    fault = Fault(2, "invalid_json", "not valid JSON")
    found = list(with_actions(iter([Record(1, {"index": {"_id": "a"}}), fault, Record(3, {"index": 5, "text": "x"})])))
    assert found == [fault, Record(3, {"index": 5, "text": "x"})]


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
