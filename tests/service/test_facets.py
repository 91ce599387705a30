"""Facets count values by their labels, and documents with equal values have an order."""

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


def test_a_whole_number_with_and_without_a_point_is_one_value(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        shop = create(client, "shop", filterable=["price", "year"])
        prices = (10, 10.0, 10, 9.5, -0.0, 0, True, 2.0**63, 1e300)
        shop.add(
            *(
                {"id": str(at), "text": "a kettle", "metadata": {"price": price, "year": year}}
                for at, (price, year) in enumerate(zip(prices, (1, 3, 2, 2, 1, 2, 0, 0, 0), strict=True))
            )
        )
        answer = shop.search("kettle", sort=["price:asc", "year:desc"], facets=["price"])
        assert [hit["id"] for hit in answer["hits"]] == ["6", "5", "4", "3", "1", "2", "0", "7", "8"]
        counts = answer["facets"]["price"]["values"]
        assert counts == {"10": 3, "0": 2, "9.5": 1, "true": 1, "9.223372036854776e+18": 1, "1e+300": 1}
        for value, count in counts.items():
            assert len(shop.search("kettle", filter=f"price = {value}")["hits"]) == count
        once = [hit["metadata"]["price"] for hit in shop.search("kettle", distinct="price")["hits"]]
        assert sorted(once) == [0, 1, 9.5, 10, 2.0**63, 1e300]
        falling = shop.search("*", sort=["price:desc"], distinct="price")["hits"]
        assert [hit["id"] for hit in falling] == ["8", "7", "0", "3", "4", "6"]


def test_texts_that_differ_in_case_are_neighbours_and_different_values(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        shop = create(client, "shop", filterable=["brand"])
        brands = ("acme", "Bolt", "ACME", "bolt", "Acme")
        shop.add(*({"id": brand, "text": "a kettle", "metadata": {"brand": brand}} for brand in brands))
        answer = shop.search("kettle", sort=["brand:asc"], distinct="brand")
        assert [hit["id"] for hit in answer["hits"]] == ["ACME", "Acme", "acme", "Bolt", "bolt"]


def test_documents_with_equal_values_are_in_the_order_of_their_ids(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        shop = create(client, "shop", filterable=["price"])
        prices = {"b": 5, "c": 5, "a": 5, "d": 4, "e": 6}
        shop.add(*({"id": id, "text": f"cup {id}", "metadata": {"price": price}} for id, price in prices.items()))
        assert shop.ids("cup", sort=["price:asc"]) == ["d", "a", "b", "c", "e"]
        assert shop.ids("cup", sort=["price:desc"]) == ["e", "a", "b", "c", "d"]
        shop.client.patch(f"{shop.path}/documents/a", json={"metadata": {"price": 5, "sold": 1}})
        assert shop.ids("cup", sort=["price:asc"]) == ["d", "a", "b", "c", "e"], "a change moves no document"
