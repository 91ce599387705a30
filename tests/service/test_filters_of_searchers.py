"""The filters that a searcher keeps are those of the history that its database has."""

import time
from pathlib import Path

import pytest

from benchmarks.postgres import PostgresServer, make_database
from service.searchers.source import Source
from tests.service.client import CollectionClient, create, opened
from tests.service.test_searchers import _never_old, address, caught_up, searcher_of, searching

__all__ = ["_never_old", "address"]


def tree(id: str, tenant: str) -> dict[str, object]:
    return {"id": id, "text": "a tree", "metadata": {"tenant": tenant}}


@pytest.mark.parametrize("more", [0, 6])
def test_a_document_of_another_history_does_not_pass_the_filter_of_its_number(
    postgres_server: PostgresServer, address: str, tmp_path: Path, more: int
) -> None:
    with opened(tmp_path / "before", database=address) as writer:
        create(writer, "shop", filterable=["tenant"]).add(*(tree(f"base{n}", "a") for n in range(6)))
    place, name = address.rsplit("/", 1)
    make_database(postgres_server.address, f"{name}_back", name)
    with searching(tmp_path / "searcher", address) as searcher:
        with opened(tmp_path / "before", database=address) as writer:
            CollectionClient(writer, "shop").add(tree("lamp", "a"))
            caught_up(writer, searcher)
            assert "lamp" in CollectionClient(searcher, "shop").ids("tree", filter="tenant = a", limit=50)
            writer.delete("/v1/collections/shop/documents/lamp")
            caught_up(writer, searcher)
        with opened(tmp_path / "after", database=f"{place}/{name}_back") as writer:
            shop = CollectionClient(writer, "shop")
            shop.add(tree("secret", "b"), *(tree(f"n{n}", "b") for n in range(more)))
            searcher_of(searcher).source = Source(f"{place}/{name}_back")
            caught_up(writer, searcher)
            copy = CollectionClient(searcher, "shop")
            deadline = time.monotonic() + 30
            while "secret" not in copy.ids("tree", limit=50) and time.monotonic() < deadline:
                time.sleep(0.05)
            for tenant in ("a", "b"):
                found = [sorted(one.ids("tree", filter=f"tenant = {tenant}", limit=50)) for one in (copy, shop)]
                assert found[0] == found[1]
