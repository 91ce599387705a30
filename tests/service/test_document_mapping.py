"""Records of any shape become documents: names of fields, types, nested objects, dates."""

import copy
import math
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as some

from service.documents.checking import Wrong, check_document
from service.documents.mapping import FieldMapping, Mapped, content_id, map_record
from service.documents.metadata import Unmappable, epoch_seconds, with_changes
from service.documents.schemas import DocumentIn

LENIENT = FieldMapping("lenient")


def lenient(record: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return the document of a record, which is within the limits of the API."""
    document = map_record(record, FieldMapping("lenient", **fields)).document
    assert not isinstance(check_document(document, DocumentIn), Wrong)
    return document


@pytest.mark.parametrize("name", ["id", "_id", "objectID", "asin", "sku", "ID", "Sku"])
@pytest.mark.parametrize(("value", "id"), [(7, "7"), (7.0, "7"), (7.5, "7.5"), ("7", "7"), ({"$oid": "7"}, "7")])
def test_known_names_are_ids_and_numbers_become_text(name: str, value: Any, id: str) -> None:
    assert lenient({name: value, "text": "x"}) == {"id": id, "title": None, "text": "x", "url": None, "metadata": {}}


@pytest.mark.parametrize("title", ["title", "name", "headline", "subject", "question"])
@pytest.mark.parametrize("text", ["text", "body", "content", "description", "answer"])
def test_known_names_are_title_and_text(title: str, text: str) -> None:
    document = lenient({"id": "a", title: 5, text: ["one", "two"]})
    assert (document["title"], document["text"], document["metadata"]) == ("5", "one\n\ntwo", {})


def test_the_first_known_name_with_a_value_counts_and_the_others_are_metadata() -> None:
    document = lenient({"id": None, "_id": "b", "sku": "c", "text": "", "body": "x", "description": "y"})
    assert (document["id"], document["text"]) == ("b", "x")
    assert document["metadata"] == {"sku": "c", "text": "", "description": "y"}


def test_named_fields_may_be_in_inner_objects() -> None:
    record = {"product": {"id": 1, "text": "x", "size": 2}, "metadata": {"slug": "s"}, "more": "y"}
    document = lenient(record, id_field="product.id", text_fields=("product.text", "more"), title_field="slug")
    assert (document["id"], document["text"], document["title"]) == ("1", "x\n\ny", "s")
    assert document["metadata"] == {"product.size": 2, "slug": "s"}


def test_metadata_keeps_numbers_flattens_objects_and_leaves_null_out() -> None:
    record = {
        "id": "a",
        "text": "x",
        "price": 12.5,
        "old_price": "12.99",
        "sold": False,
        "brand": None,
        "size": {"eu": 42, "us": {"women": 9}},
        "tags": ["a", 1, True, None],
        "variants": [{"colour": "red", "n": 1}, {"colour": "blue"}],
        "metadata": {"lang": "en"},
    }
    assert lenient(record)["metadata"] == {
        "price": 12.5,
        "old_price": "12.99",
        "sold": False,
        "size.eu": 42,
        "size.us.women": 9,
        "tags": ["a", 1, True],
        "variants.colour": ["red", "blue"],
        "variants.n": [1],
        "lang": "en",
    }


def test_fields_with_the_same_name_become_a_list_and_are_noted() -> None:
    mapped = map_record({"id": "a", "text": "x", "lang": "en", "metadata": {"lang": "de"}}, LENIENT)
    assert mapped.document["metadata"] == {"lang": ["en", "de"]}
    assert mapped.notes == ("several fields are named lang: their values are a list",)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-02", 86_400),
        ("1970-01-01T00:00:01Z", 1),
        ("1970-01-01 01:00:00+01:00", 0),
        ("1969-12-31T23:59:59.500", -1),
        ("2024-13-01", None),
        ("2024", None),
        ("on 2024-01-01", None),
    ],
)
def test_a_date_has_a_number_that_filters_compare(text: str, seconds: int | None) -> None:
    assert epoch_seconds(text) == seconds
    metadata = lenient({"id": "a", "text": "x", "created": text})["metadata"]
    assert metadata == {"created": text} | ({} if seconds is None else {"created_epoch": seconds})


def test_a_record_without_an_id_has_a_stable_hash_or_the_given_id() -> None:
    record = {"text": "x", "n": 1}
    assert lenient(record)["id"] == lenient({"n": 1, "text": "x"})["id"] == content_id(record)
    assert lenient(record)["id"] != lenient(record | {"n": 2})["id"]
    assert map_record(record, LENIENT, fallback_id="notes/a.md").document["id"] == "notes/a.md"


@pytest.mark.parametrize(
    ("record", "fields", "detail"),
    [
        ({"id": ["a"], "text": "x"}, {}, "id: must be a string or a number"),
        ({"id": True, "text": "x"}, {}, "id: must be a string or a number"),
        (
            {"id": 2.0**53, "text": "x"},
            {},
            "id: is a number that has lost digits, because it is a double; write it in quotes",
        ),
        ({"id": {"n": -1e20}, "text": "x"}, {}, "id: is a number that has lost digits"),
        ({"nr": math.nan, "text": "x"}, {"id_field": "nr"}, "nr: is a number that has lost digits"),
        ({"id": "a", "text": {"html": "x", "md": "y"}}, {}, "text: must be a string or a list of strings"),
        ({"id": "a", "price": 3}, {}, "text: is missing; none of text, body"),
        ({"text": "x"}, {"id_field": "key"}, "key: is missing; it is named as the id"),
        ({"id": "a", "text": "x"}, {"text_fields": ("body",)}, "body: is missing; it is named as the text"),
    ],
)
def test_a_record_that_is_no_document_says_which_field_and_what_was_wanted(
    record: dict[str, Any], fields: dict[str, Any], detail: str
) -> None:
    with pytest.raises(Unmappable) as raised:
        map_record(record, FieldMapping("lenient", **fields))
    assert str(raised.value).startswith(detail)
    assert raised.value.field == detail.split(":")[0]


def test_ids_are_exact_numbers_of_64_bits_or_refused() -> None:
    def id_of(number: int) -> Any:
        return lenient(orjson.loads(f'{{"id": {number}, "text": "x"}}'))["id"]

    for number in (2**53 + 1, 2**63 + 1, 2**64 - 1, -(2**63)):
        assert id_of(number) == str(number)
    for number in (2**64, 123456789012345678901, -(2**63) - 1):
        with pytest.raises(Unmappable, match="write it in quotes"):
            id_of(number)


def test_nesting_has_a_limit() -> None:
    deep: Any = 1
    for _ in range(200):
        deep = [{"a": deep}]
    with pytest.raises(Unmappable, match="at most 32 levels"):
        map_record({"id": "a", "text": "x", "deep": deep}, LENIENT)


def test_strict_keeps_records_as_they_are() -> None:
    record = {"id": 7, "colour": "red", "metadata": {"a": None}}
    assert map_record(record, FieldMapping()) == Mapped(record)
    assert map_record({"key": "a", "text": "x"}, FieldMapping(id_field="key")).document == {"id": "a", "text": "x"}


@pytest.mark.parametrize(
    ("record", "left"),
    [
        ({"product": {"id": "a"}}, {}),
        ({"product": {"id": "a", "more": {"name": "T"}}}, {"title": "T"}),
        ({"product": {"id": "a", "size": 2}}, {"product": {"size": 2}}),
        ({"product.id": "a", "product": 5}, {"product": 5}),
        ({"product": {"id": "a"}, "more": {"slug": "s"}}, {"more": {"slug": "s"}}),
        ({"metadata": {"product": {"id": "a"}}}, {"metadata": {"product": {"id": "a"}}}),
    ],
)
def test_strict_takes_named_fields_out_of_inner_objects(record: dict[str, Any], left: dict[str, Any]) -> None:
    fields = FieldMapping(id_field="product.id", title_field="product.more.name")
    before = copy.deepcopy(record)
    assert map_record(record | {"text": "x"}, fields).document == {"id": "a", "title": None, "text": "x"} | left
    assert record == before


def test_strict_keeps_a_named_field_of_the_metadata() -> None:
    record = {"text": "x", "metadata": {"key": "a"}}
    for field in ("key", "metadata.key"):
        assert map_record(record, FieldMapping(id_field=field)).document == record | {"id": "a"}


SCALARS = some.none() | some.booleans() | some.integers() | some.floats() | some.text()
VALUES = some.recursive(
    SCALARS, lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(), inner, max_size=3)
)


@given(some.dictionaries(some.text(max_size=100), VALUES, max_size=8))
def test_any_record_is_a_valid_document_or_says_why_not(record: dict[str, Any]) -> None:
    try:
        document = map_record(record, LENIENT).document
    except Unmappable:
        return
    checked = check_document(document, DocumentIn)
    assert not isinstance(checked, Wrong) or "must" in checked.wanted


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"added": "2024-01-02"}, {"added": "2024-01-02", "added_epoch": 1704153600}),
        ({"added": None}, {}),
        ({"added": "soon"}, {"added": "soon"}),
        ({"added": "2024-01-02", "added_epoch": 5}, {"added": "2024-01-02", "added_epoch": 5}),
        ({"price": 3}, {"added": "2024-01-01", "added_epoch": 1704067200, "price": 3}),
    ],
)
def test_the_number_of_a_date_follows_its_change(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    assert with_changes({"added": "2024-01-01", "added_epoch": 1704067200}, changes) == expected
    assert with_changes({"added": "2024-01-01", "added_epoch": 7}, changes | {"x": 1})["x"] == 1


def test_a_number_beside_a_date_that_is_not_its_time_stays() -> None:
    assert with_changes({"added": "2024-01-01", "added_epoch": 7}, {"added": "2024-01-02"})["added_epoch"] == 7


def test_number_fields_of_strict_records_are_metadata_fields() -> None:
    record = {"id": "a", "text": "x", "price": "12.99", "sizes": ["38", "39"]}
    mapped = map_record(record, FieldMapping(number_fields=("price", "sizes")), columns=True).document
    assert mapped["metadata"] == {"price": 12.99, "sizes": [38, 39]}
