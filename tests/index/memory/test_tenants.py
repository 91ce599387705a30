"""Tenants in memory: the events of a tenant weaken neither the clicks nor the counts of another."""

from dataclasses import replace

import numpy as np
import pytest

from index.memory.aggregation import Confirmations
from index.memory.anonymous import anonymous
from index.memory.confirmation import Confirmation
from index.memory.exact import ClickCount
from index.memory.grades import Bounds, DecayClock
from index.memory.memory import Memory
from index.memory.query_key import anonymous_key, is_anonymous
from index.records import MemoryKey

A, B = "filter:0000000a:", "filter:0000000b:"
OAK, ELM = 1, 2
EAST = np.asarray([1.0, 0.0], np.float32)


def click(id: int, row: int, tenant: str, client: str | None, grade: float = 1.0, query: str = "q") -> Confirmation:
    name = None if client is None else f"client {tenant}{client}"
    return Confirmation(id, row, query, EAST, grade, name, 1000 + id, tenant=tenant)


def weights(memory: Confirmations, query: str = "q") -> dict[int, float]:
    return {key.row: key.weight for key in memory.keys()[query]}


def crowd(tenant: str, row: int, count: int = 100) -> list[Confirmation]:
    return [click(1000 + n, row, tenant, f"crowd {n}") for n in range(count)]


@pytest.mark.parametrize("tenant", [A, ""])
def test_clicks_count_relative_to_the_best_document_of_their_tenant(tenant: str) -> None:
    memory = Confirmations(DecayClock(0))
    memory.change([click(n, OAK, A, f"{n}") for n in range(3)])
    alone = weights(memory)[OAK]
    memory.change(crowd(tenant, ELM))
    if tenant == A:
        assert weights(memory)[OAK] < alone
        return
    assert weights(memory)[OAK] == alone
    other = Confirmations(DecayClock(0))
    other.change(crowd(tenant, ELM))
    assert weights(memory)[ELM] == weights(other)[ELM]
    memory.change([], [one.id for one in crowd(tenant, ELM)])
    assert weights(memory) == {OAK: alone}


def test_a_document_has_the_clicks_of_all_tenants_that_see_it() -> None:
    def weight(*confirmations: Confirmation) -> float:
        memory = Confirmations(DecayClock(0))
        memory.change(confirmations)
        return weights(memory)[OAK]

    several = [click(1, OAK, A, "x"), click(2, OAK, B, "x"), click(3, OAK, "", "x"), click(4, OAK, B, None)]
    assert weight(*several) == weight(*reversed(several)) == pytest.approx(4 / 5)
    liked = weight(click(1, OAK, A, "x"), click(2, OAK, B, "x", -1.0), click(3, OAK, B, "y"))
    assert liked == pytest.approx(1 / 2)


def test_clicks_without_a_client_are_bounded_for_each_tenant() -> None:
    memory = Confirmations(DecayClock(0), Bounds(anonymous_grade=1.0))
    memory.change([click(n, OAK, (A, B)[n % 2], None) for n in range(10)])
    assert weights(memory)[OAK] == pytest.approx(2 / 3)


def test_a_client_of_one_tenant_does_not_crowd_out_a_client_of_the_same_name_of_another() -> None:
    memory = Confirmations(DecayClock(0), Bounds(pairs_per_client=1))
    memory.change([click(1, OAK, A, "7", query="mine")])
    before = weights(memory, "mine")
    memory.change([click(10 + n, ELM, B, "7", query=f"yours {n}") for n in range(5)])
    assert before == weights(memory, "mine") != {}
    memory.change([click(2, ELM, A, "7", query="another")])
    assert weights(memory, "mine") == {}


def test_only_the_tenant_that_acted_is_counted_anew() -> None:
    memory = Confirmations(DecayClock(0))

    def counted(*added: Confirmation, removed: tuple[int, ...] = ()) -> dict[str, dict[str, list[int]]]:
        touched = memory.change(added, removed)
        wanted = memory.clicked_by_several(touched)
        found = {
            query: {
                tenant: {row: ClickCount(frozenset(f"client {tenant}{n}" for n in range(3)), 3, 3) for row in rows}
                for tenant, rows in by_tenant.items()
            }
            for query, by_tenant in wanted.items()
        }
        memory.use_clicks(touched, found)
        return wanted

    def exact() -> dict[int, float]:
        return {key.row: key.exact for key in memory.keys()["q"]}

    assert counted(*(click(n, OAK, A, f"{n}") for n in range(3))) == {"q": {A: [OAK]}}
    assert counted(*(click(10 + n, ELM, B, f"{n}") for n in range(3))) == {"q": {B: [ELM]}}
    assert exact() == {OAK: 3.0, ELM: 3.0}
    assert counted(removed=(10,)) == {}
    assert exact() == {OAK: 3.0, ELM: 0.0}
    assert counted(click(20, ELM, A, "0")) == {"q": {A: [OAK, ELM], B: [ELM]}}  # B has no count of ELM any more
    assert exact() == {OAK: 3.0, ELM: 3.0}
    memory.discard_clicks(["q"])
    assert memory.clicked_by_several(["q"]) == {"q": {A: [OAK, ELM], B: [ELM]}}


def test_expired_clicks_of_tenants_stay_apart_without_their_clients() -> None:
    expired = [click(1, OAK, A, "x"), click(2, ELM, B, "x"), click(3, ELM, "", "x"), click(4, OAK, A, None)]
    left = anonymous(expired)
    assert [(one.name, one.row, one.grade) for one in left] == [
        (anonymous_key("q"), ELM, 1.0),
        (anonymous_key("q", A), OAK, 2.0),
        (anonymous_key("q", B), ELM, 1.0),
    ]
    assert all(is_anonymous(one.name) for one in left)
    again = [replace(click(9, one.row, "", None), query_key=one.name) for one in left]
    assert {one.name for one in anonymous(again)} == {one.name for one in left}


def test_a_query_that_leaves_its_own_memory_out_leaves_that_of_every_tenant_out() -> None:
    memory = Memory.of([MemoryKey(OAK, EAST, 0.5, anonymous_key("q", A), 1, 0.0)], 2)
    assert memory.near(EAST, 0.9, ["q"])[0].size == 0
    assert memory.near(EAST, 0.9, ["another"])[0].size == 1
