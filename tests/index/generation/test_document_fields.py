"""Metadata become pairs of a key and a number, the same in every order of the fields."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.generation.document_fields import (
    LONGEST,
    MOST_PAIRS,
    NO_PAIRS,
    FieldPairs,
    category_key,
    joined,
    number_key,
    pairs_of,
)
from index.records import MetadataValue
from tests.index.fixtures import store_of, written


def as_dict(metadata: Mapping[str, MetadataValue]) -> dict[int, float | None]:
    keys, numbers = pairs_of(metadata)
    return {int(key): None if math.isnan(number) else float(number) for key, number in zip(keys, numbers, strict=True)}


def test_numbers_have_the_key_of_their_field_and_others_that_of_their_value() -> None:
    metadata: dict[str, MetadataValue] = {"year": 1999, "price": 2.5, "brand": "oak", "sale": True, "tags": ["a", "b"]}
    assert as_dict(metadata) == {
        number_key("year"): 1999.0,
        number_key("price"): 2.5,
        category_key("brand", "oak"): None,
        category_key("sale", True): None,
        category_key("tags", "a"): None,
        category_key("tags", "b"): None,
    }


def test_the_order_of_fields_and_repeated_values_do_not_matter() -> None:
    one: dict[str, MetadataValue] = {"a": 1, "b": ["x", "y", "x"], "c": "z"}
    other: dict[str, MetadataValue] = {"c": "z", "b": ["y", "x"], "a": 1.0}
    assert [each.tobytes() for each in pairs_of(one)] == [each.tobytes() for each in pairs_of(other)]


def test_keys_differ_by_field_type_and_value() -> None:
    keys = [
        number_key("a"), category_key("a", "1"), category_key("b", "1"), category_key("a", True),
        category_key("a", "True"), category_key("a", ""), number_key("a\0"), category_key("a\0b", "c"),
    ]  # fmt: skip
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("value", ["x" * (LONGEST + 1), math.nan, math.inf, 10**400, -1e301, [], ["x" * 65]])
def test_long_texts_and_numbers_without_bounds_are_left_out(value: MetadataValue) -> None:
    assert as_dict({"field": value}) == {}


def test_a_document_has_a_bounded_number_of_pairs() -> None:
    assert len(as_dict({"tags": [f"tag {at}" for at in range(MOST_PAIRS)]})) == MOST_PAIRS
    many: dict[str, MetadataValue] = {"tags": [f"tag {at}" for at in range(MOST_PAIRS + 9)]}
    assert len(as_dict(many)) == MOST_PAIRS
    kept = as_dict(many | {"brand": "oak", "sold": 7, "sale": False})
    assert len(kept) == MOST_PAIRS
    assert {number_key("sold"), category_key("sale", False), category_key("brand", "oak")} <= kept.keys()


def test_a_generation_has_the_pairs_of_its_documents_after_changes(tmp_path: Path) -> None:
    documents = [replace(written(row, "thing"), metadata={"year": row, "brand": "oak"}) for row in range(4)]
    store = store_of(tmp_path, [documents[0], replace(documents[1], metadata={}), *documents[2:]])
    generation = store.apply(2, [replace(written(9, "thing"), metadata={"year": 90})], removed=[2])
    store.close()
    found = generation.fields_of(generation.doc_indices(np.asarray([9, 1, 3])), np.asarray([7, 8, 5]))
    years = found.of(found.keys == number_key("year"))
    assert dict(zip(years.owners.tolist(), years.numbers.tolist(), strict=True)) == {7: 90.0, 5: 3.0}
    brands = found.of(found.keys == category_key("brand", "oak"))
    assert brands.owners.tolist() == [5]
    assert len(found.keys) == 3


def test_pairs_are_joined_unless_some_are_missing() -> None:
    pairs = FieldPairs(np.asarray([4, 2]), np.asarray([1, 2], np.uint64), np.asarray([0.5, 1.5]))
    both = joined([pairs, NO_PAIRS, pairs])
    assert both is not None
    assert both.owners.tolist() == [4, 2, 4, 2]
    assert both.owned_by(np.asarray([2, 4])).owners.tolist() == [1, 0, 1, 0]
    assert joined([pairs, None]) is None
    assert joined([]) is None
