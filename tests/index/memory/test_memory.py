"""Memory as a search reads it: near past queries and their keys, in an order that does not depend on history."""

import numpy as np
import pytest

from index.memory.memory import Memory
from index.memory.query_key import anonymous_key
from index.records import Floats, MemoryKey
from tests.index.fixtures import random_vectors, unit

X, Y, Z = np.eye(3, dtype=np.float32)


def key(query_key: str, row: int, vector: Floats = X, weight: float = 0.5, count: int = 1) -> MemoryKey:
    return MemoryKey(row, vector, weight, query_key, count)


def contents(memory: Memory) -> list[tuple[str, int, float, int]]:
    return [(one.query_key, one.row, one.weight, one.count) for one in memory.keys]


def found(memory: Memory, query: Floats, excluded_query: str | None = None) -> list[tuple[str, int]]:
    near, _ = memory.near(query, 0.5, () if excluded_query is None else [excluded_query])
    return [(memory.query_key_of(at), int(memory.rows[at])) for at in near]


def test_a_past_query_is_stored_once_for_all_documents_that_it_confirms() -> None:
    memory = Memory.of([key("a", row) for row in (3, 1, 2)] + [key("b", 1, Y)], 3)
    assert memory.vectors.tolist() == [X.tolist(), Y.tolist()]
    assert [(memory.query_key_of(at), memory.rows[at]) for at in range(4)] == [("a", 1), ("a", 2), ("a", 3), ("b", 1)]


def test_the_same_keys_give_the_same_bits_in_any_order() -> None:
    vectors = random_vectors(9, 3, seed=8)
    keys = [key(f"query {n % 4}", n, vectors[n % 4], n / 10) for n in range(9)]
    one, other = Memory.of(keys, 3), Memory.of(keys[::-1], 3)
    for name in ("vectors", "rows", "weights", "counts"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
    assert one.query_keys == other.query_keys


def test_near_past_queries_are_found_with_their_keys_and_cosines() -> None:
    memory = Memory.of([key("far", 1, Y), key("near", 2, unit(1, 1, 0)), key("near", 5, unit(1, 1, 0)), key("x", 1)], 3)
    assert found(memory, X) == [("near", 2), ("near", 5), ("x", 1)]
    assert memory.near(X, 0.5)[1].tolist() == pytest.approx([0.5**0.5, 0.5**0.5, 1.0])
    assert found(memory, X, excluded_query="near") == [("x", 1)]
    assert found(memory, Z) == []
    assert found(Memory.of([], 3), X) == []


def test_past_queries_with_the_same_words_and_other_punctuation_are_found() -> None:
    memory = Memory.of([key("tea", 1), key("tea?", 2, Y), key('"tea"', 3, Z), key("tee", 4)], 3)
    for one in ("tea", "tea?", "tea!"):
        assert memory.same_words(one) == {"tea", "tea?", '"tea"'}
    assert memory.same_words("teas") == frozenset()
    assert memory.same_words("tee.", "tea") == {"tea", "tea?", '"tea"', "tee"}
    later = memory.changed({"tea?": []})
    assert later.same_words("tea") == {"tea", '"tea"'}
    assert later.changed({'"tea"': [], "tea": []}).same_words("tea!") == frozenset()
    assert memory.same_words("tea") == {"tea", "tea?", '"tea"'}
    assert found(memory, X, excluded_query="tea!") == [("tee", 4)]
    keys, _ = memory.near(unit(1, 1, 1), 0.5)
    assert [memory.query_key_of(int(one)) for one in keys[memory.of_query(keys, "tea.")]] == ['"tea"', "tea", "tea?"]


def test_a_past_query_near_one_of_two_vectors_has_the_larger_cosine() -> None:
    memory = Memory.of([key("a", 1), key("b", 2, Y), key("c", 3, unit(1, 1, 0)), key("d", 4, Z)], 3)
    keys, cosines = memory.near(X, 0.5, (), unit(1, 1, 0))
    assert [memory.query_key_of(int(one)) for one in keys] == ["a", "b", "c"]
    assert cosines.tolist() == pytest.approx([1.0, 0.5**0.5, 1.0])


def test_a_change_affects_only_the_query_keys_that_it_names() -> None:
    memory = Memory.of([key("a", 1), key("b", 1, Y), key("c", 1, Z)], 3)
    later = memory.changed({"a": [key("a", 1, weight=0.75, count=3), key("a", 9)], "c": []})
    assert contents(later) == [("a", 1, 0.75, 3), ("a", 9, 0.5, 1), ("b", 1, 0.5, 1)]
    assert contents(memory) == [("a", 1, 0.5, 1), ("b", 1, 0.5, 1), ("c", 1, 0.5, 1)]
    assert memory.changed({}) is memory


def test_a_change_copies_no_vectors_of_the_memory() -> None:
    memory = Memory.of([key(f"query {n}", 1, vector) for n, vector in enumerate(random_vectors(50, 3, 1))], 3)
    later = memory.changed({"new": [key("new", 2)]}).changed({"query 7": [key("query 7", 9, memory.vectors[0])]})
    assert np.shares_memory(memory.vectors, later.vectors)


def test_two_changes_of_one_memory_do_not_overwrite_each_other() -> None:
    memory = Memory.of([key("a", 1)], 3)
    one, other = memory.changed({"b": [key("b", 1, Y)]}), memory.changed({"c": [key("c", 1, Z)]})
    assert found(one, Y) == [("b", 1)]
    assert found(other, Z) == [("c", 1)]
    assert found(other, Y) == found(memory, Y) == []


def test_a_query_key_may_get_another_vector() -> None:
    memory = Memory.of([key("a", 1), key("b", 1)], 3)
    later = memory.changed({"a": [key("a", 1, Y)]})
    assert (found(later, X), found(later, Y)) == ([("b", 1)], [("a", 1)])
    assert found(memory, X) == [("a", 1), ("b", 1)]


def test_forgotten_queries_do_not_affect_the_order_of_found_keys() -> None:
    memory = Memory.of([key("m", 1), key("z", 1)], 3)
    later = memory.changed({"m": []}).changed({"a": [key("a", 1)], "m": [key("m", 1)]})
    fresh = Memory.of([key("m", 1), key("z", 1), key("a", 1)], 3)
    assert found(later, X) == found(fresh, X) == [("a", 1), ("m", 1), ("z", 1)]
    assert later.near(X, 0.5)[1].tobytes() == fresh.near(X, 0.5)[1].tobytes()


def test_a_forgotten_query_key_is_removed_at_once_and_its_vector_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("index.memory.memory.MOST_FORGOTTEN", 3)
    memory = Memory.of([key(f"query {n}", 1, vector) for n, vector in enumerate(random_vectors(8, 3, 2))], 3)
    before = memory.near(X, -1.0)
    for n in range(7):
        memory = memory.changed({f"query {n}": []})
        assert f"query {n}" not in memory.query_keys
    assert len(memory.vectors) < 8
    assert contents(memory) == [("query 7", 1, 0.5, 1)]
    assert memory.near(X, -1.0)[1].tolist() == before[1][-1:].tolist()


def test_cosines_have_the_same_bits_alone_and_among_other_queries() -> None:
    vectors = random_vectors(300, 24, seed=3)
    query = random_vectors(1, 24, seed=4)[0]
    alone = {n: Memory.of([key("a", 1, vectors[n])], 24).near(query, -1.0)[1][0] for n in range(300)}
    together = Memory.of([key(f"{n:03}", 1, vector) for n, vector in enumerate(vectors)], 24)
    assert together.near(query, -1.0)[1].tolist() == [alone[n] for n in range(300)]


def test_past_queries_about_another_number_are_not_near() -> None:
    texts = ("drive 5.1", "drive 5.2", "drive", "drive 5.2 on windows 11", "5,2 drive", anonymous_key("drive 5.1"))
    memory = Memory.of([key(text, row) for row, text in enumerate(texts)], 3)

    def near(*asked: str) -> set[str]:
        positions, _ = memory.near(X, 0.5, asked=asked)
        return {memory.query_key_of(at) for at in positions.tolist()}

    every = set(texts)
    assert near("drive 5.2") == every - {"drive 5.1"}
    assert near("drive 5.1") == every - {"drive 5.2", "drive 5.2 on windows 11", "5,2 drive"}
    assert near("drive") == near() == every
    assert near("drive 5.1 or 5.2") == every - {"drive 5.2 on windows 11"}
    assert near("drive 9", "drive 5.1") == near("drive 5.1"), "a corrected query is about its numbers too"
