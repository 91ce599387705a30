"""The result cache is bounded, and counts all that it keeps."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from fastapi.testclient import TestClient

from tests.service.client import create, opened, runtime_of
from tests.service.test_result_cache import cached


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("size") / "data") as client:
        yield client


def test_results_that_were_used_last_are_kept_within_the_limit(tmp_path: Path) -> None:
    with opened(tmp_path / "data", result_cache_mib=1) as client:
        wood = create(client, "wood")
        wood.add(*({"id": str(n), "text": f"tree {n} " + "of the wood " * 300} for n in range(10)))
        cache = runtime_of(client).result_cache
        for n in range(60):
            wood.search("tree of the wood", log=False)
            wood.search(f"tree {n}", log=False)
            assert cache.size_bytes <= 1 << 20
        assert len(cache) < 60
        assert cached(lambda: wood.search("tree of the wood", log=False)) == 1
        assert cached(lambda: wood.search("tree 0", log=False)) == 0


@pytest.mark.parametrize(
    "more", [{"facets": ["kind"]}, {"predict": ["kind"]}, {"pooled": True}], ids=lambda more: next(iter(more))
)
def test_all_parts_of_an_answer_count(client: TestClient, more: dict[str, Any]) -> None:
    name = next(iter(more))
    wood, cache = create(client, f"large-{name}", filterable=["kind"]), runtime_of(client).result_cache
    kinds = [f"{n} {'kind ' * 40}" for n in range(60)]
    wood.add(*({"id": str(n), "text": "an oak", "metadata": {"kind": kind}} for n, kind in enumerate(kinds)))
    cache.clear()
    wood.search("oak", fields=["id"], limit=1)
    plain = cache.size_bytes
    cache.clear()
    part = wood.search("oak", fields=["id"], limit=1, **more)
    added = sum(len(orjson.dumps(part[member])) for member in ("facets", "predictions", "pooled") if member in part)
    assert cache.size_bytes - plain > added - 100 > 200


@pytest.mark.parametrize("mib", [0, 1])
def test_no_result_is_kept_with_a_limit_of_0_nor_one_that_takes_most_of_it(tmp_path: Path, mib: int) -> None:
    with opened(tmp_path / "data", result_cache_mib=mib) as client:
        wood = create(client, "wood")
        wood.add(*({"id": str(n), "text": f"tree {n} " + "of the wood " * 3000} for n in range(10)))
        assert cached(lambda: [wood.search("tree of the wood") for _ in range(3)]) == 0
        assert len(runtime_of(client).result_cache) == 0
