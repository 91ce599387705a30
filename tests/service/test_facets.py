"""Facets count values by their labels."""

from pathlib import Path

from service.search.field_columns import facet
from tests.service.client import create, opened


def test_a_number_and_a_text_with_one_label_are_counted_together(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        shop = create(client, "shop", filterable=["year"])
        years = (2020, "2020", 2021, "late", True, "true", "true")
        shop.add(*({"id": str(at), "text": "a tree", "metadata": {"year": year}} for at, year in enumerate(years)))
        counted = shop.search("tree", facets=["year"])["facets"]["year"]
        assert counted["values"] == {"true": 3, "2020": 2, "2021": 1, "late": 1}
        assert (counted["min"], counted["max"], counted["mean"]) == (2020, 2021, 2020.5)
        found = shop.search("tree", filter="year = 2020")["hits"]
        assert len(found) == counted["values"]["2020"]


def test_the_most_frequent_values_are_chosen_after_they_are_counted_together() -> None:
    counted: list[tuple[str | int, int]] = [("a", 3), ("b", 3), (7, 2), ("7", 2)]
    assert facet(counted, 2)["values"] == {"7": 4, "a": 3}
    assert facet([("Red", 2), ("red", 1)], 2)["values"] == {"Red": 2, "red": 1}
