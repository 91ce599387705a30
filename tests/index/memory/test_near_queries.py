"""A large memory is scanned by a compressed index and finds the same past queries, with the same bits, as without."""

import random
from dataclasses import replace

import numpy as np
import pytest

from index.memory import near_queries
from index.memory.memory import Memory
from index.memory.near_queries import SealedQueries, sealed_queries
from index.records import Floats, MemoryKey
from tests.index.fixtures import random_vectors

DIM = 24


def clustered(count: int, seed: int, dim: int = DIM) -> Floats:
    """Return unit vectors (count, dim) around eight centres, so that some are near each other."""
    chance = np.random.default_rng(seed)
    centres = np.random.default_rng(7).normal(size=(8, dim))
    vectors = centres[chance.integers(8, size=count)] + 0.7 * chance.normal(size=(count, dim))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def exactly(vectors: Floats, query: Floats, radius: float) -> tuple[list[int], bytes]:
    positions, cosines = near_queries.near_queries(vectors, None, query, radius)
    return positions.tolist(), cosines.tobytes()


@pytest.mark.parametrize("radius", [0.3, 0.5, 0.9, -2.0])
@pytest.mark.parametrize("scanned", [1.0, 1.5])
def test_the_scan_finds_all_within_the_radius_with_the_same_bits(
    radius: float, scanned: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(near_queries, "SCANNED_REACH", scanned)
    vectors = clustered(1500, seed=1)
    sealed = SealedQueries.of(vectors[:1200])
    for query in [*clustered(20, seed=2), *random_vectors(5, DIM, seed=3), vectors[5]]:
        positions, cosines = near_queries.near_queries(vectors, sealed, query, radius)
        assert (positions.tolist(), cosines.tobytes()) == exactly(vectors, query, radius)


@pytest.mark.parametrize("dim", [3, 64, 384])
def test_the_width_of_vectors_does_not_matter(dim: int) -> None:
    vectors = clustered(900, seed=4, dim=dim)
    sealed = SealedQueries.of(vectors)
    for query in clustered(10, seed=5, dim=dim):
        positions, cosines = near_queries.near_queries(vectors, sealed, query, 0.5)
        assert (positions.tolist(), cosines.tobytes()) == exactly(vectors, query, 0.5)


def test_many_equal_vectors_are_all_found() -> None:
    vectors = np.repeat(random_vectors(3, DIM, seed=6), 3000, axis=0)
    positions, _ = near_queries.near_queries(vectors, SealedQueries.of(vectors), vectors[0], 0.99)
    assert positions.tolist() == list(range(3000))


def grown(vectors: Floats) -> SealedQueries:
    """Return the index of a memory that grew to these vectors in small steps."""
    sealed = None
    for count in range(100, len(vectors) + 1, 100):
        sealed = sealed_queries(vectors[:count], sealed)
    assert sealed is not None
    return sealed


def narrow(count: int, seed: int, dim: int = DIM) -> Floats:
    """Return unit vectors (count, dim) about one topic, so that centroids trained on them suit no others."""
    chance = np.random.default_rng(seed)
    vectors = np.ones(dim) + 0.1 * chance.normal(size=(count, dim))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def test_a_memory_that_began_with_one_topic_finds_the_same_as_others() -> None:
    vectors = np.concatenate([narrow(2500, seed=11), clustered(3500, seed=12)])
    sealed = grown(vectors)
    for query in clustered(50, seed=13):
        positions, cosines = near_queries.near_queries(vectors, sealed, query, 0.5)
        assert (positions.tolist(), cosines.tobytes()) == exactly(vectors, query, 0.5)


def test_a_rare_topic_is_found_among_many_of_one_topic() -> None:
    vectors = np.concatenate([narrow(6000, 11, 384), clustered(24, 12, 384)])
    sealed = SealedQueries.of(vectors)
    for query in clustered(20, 13, 384):
        positions, cosines = near_queries.near_queries(vectors, sealed, query, 0.5)
        assert (positions.tolist(), cosines.tobytes()) == exactly(vectors, query, 0.5)


def test_an_index_is_trained_anew_when_its_centroids_suit_few() -> None:
    vectors = np.concatenate([narrow(2500, seed=11), clustered(7500, seed=12)])
    assert len(grown(vectors).misfits) < len(vectors) / 32
    assert len(grown(narrow(6000, seed=11)).misfits) < 10


def test_a_reach_that_proves_too_small_is_scanned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = clustered(3000, 16, 384)
    sealed = replace(SealedQueries.of(vectors), scale=0.95)  # as if centroids were hardly shorter than vectors
    scans = []
    monkeypatch.setattr(
        SealedQueries, "_scanned", lambda *given, scan=SealedQueries._scanned: scans.append(given[2]) or scan(*given)
    )
    for query in clustered(20, 17, 384):
        positions, cosines = near_queries.near_queries(vectors, sealed, query, 0.5)
        assert (positions.tolist(), cosines.tobytes()) == exactly(vectors, query, 0.5)
    assert len(scans) > 20


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small sets get lists, of which a scan reads an eighth."""
    for name, value in {"LISTED": 4000, "LISTS": 64, "PROBED": 8}.items():
        monkeypatch.setattr(near_queries, name, value)


def share_found(vectors: Floats, sealed: SealedQueries, queries: Floats) -> float:
    """Return the share of the near vectors that are found; the cosines of the found ones are exact, in order."""
    found = near = 0
    for query in queries:
        positions, cosines = near_queries.near_queries(vectors, sealed, query, 0.5)
        wanted, exact = near_queries.near_queries(vectors, None, query, 0.5)
        mine = np.isin(wanted, positions)
        assert (positions.tolist(), cosines.tobytes()) == (wanted[mine].tolist(), exact[mine].tobytes())
        found, near = found + len(positions), near + len(wanted)
    assert near
    return found / near


@pytest.mark.usefixtures("listed")
def test_many_vectors_have_lists_of_which_few_are_read_and_nearly_all_near_ones_are_found() -> None:
    vectors = clustered(8000, seed=21, dim=384)
    sealed = SealedQueries.of(vectors)
    assert share_found(vectors, sealed, clustered(50, seed=22, dim=384)) > 0.97
    for vector in vectors[:20]:
        read = sealed._scanned(vector, -0.2)
        assert read is not None
        assert len(read[0]) < len(vectors) / 3


@pytest.mark.usefixtures("listed")
def test_a_past_query_is_found_by_its_own_words() -> None:
    vectors = np.concatenate([random_vectors(6000, 384, seed=23), clustered(2000, seed=24, dim=384)])
    sealed = SealedQueries.of(vectors)
    for at in range(0, len(vectors), 80):
        assert at in near_queries.near_queries(vectors, sealed, vectors[at], 0.5)[0]


@pytest.mark.usefixtures("listed")
def test_past_queries_on_a_new_subject_are_found_before_and_after_the_lists_are_made_anew() -> None:
    subject = clustered(3000, seed=25, dim=384)
    vectors = np.concatenate([narrow(4000, 26, 384), subject])
    sealed = SealedQueries.of(vectors[:4000])
    before = sealed.extended(vectors[:4100])
    assert before.index.nlist == 64
    assert (before.misfit_lists == near_queries.UNLISTED).sum() >= 100
    assert share_found(vectors[:4100], before, subject[:20]) == 1.0
    after = before.extended(vectors)
    assert len(after.misfits) < 100
    assert share_found(vectors, after, subject[:20]) > 0.97


@pytest.mark.usefixtures("listed")
def test_a_set_gets_lists_when_it_has_grown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near_queries, "TAIL", 300)
    sealed = [grown(clustered(count, seed=27)) for count in (3900, 4300)]
    assert [one.index.nlist for one in sealed] == [1, 64]


def test_few_vectors_are_refined(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, refined = clustered(20_000, seed=14, dim=384), []
    sealed = SealedQueries.of(vectors)
    products = near_queries.inner_products
    monkeypatch.setattr(
        near_queries, "inner_products", lambda *given: refined.append(len(given[0])) or products(*given)
    )
    (query,) = random_vectors(1, 384, seed=15)
    assert len(near_queries.near_queries(vectors, sealed, query, 0.5)[0]) == 0
    assert sum(refined) < 200


def test_a_small_memory_has_no_index_and_a_long_tail_is_sealed() -> None:
    vectors = random_vectors(3 * near_queries.TAIL, 8, seed=8)
    assert sealed_queries(vectors[: near_queries.TAIL], None) is None
    sealed = sealed_queries(vectors[: near_queries.TAIL + 1], None)
    assert sealed is not None
    assert sealed.count == near_queries.TAIL + 1
    assert sealed_queries(vectors[: sealed.count + near_queries.TAIL], sealed) is sealed
    later = sealed_queries(vectors[: sealed.count + near_queries.TAIL + 1], sealed)
    assert later is not None
    assert (later.count, sealed.count) == (2 * near_queries.TAIL + 2, near_queries.TAIL + 1)


def found(memory: Memory, query: Floats) -> list[tuple[str, int, float, float]]:
    near, cosine = memory.near(query, 0.5, excluded=["query 3"])
    keys = [(memory.query_key_of(at), int(memory.rows[at]), float(memory.weights[at])) for at in near]
    return [(*key, one) for key, one in zip(keys, cosine.tolist(), strict=True)]


def test_a_changed_memory_finds_the_same_as_a_new_memory_of_its_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near_queries, "TAIL", 20)
    monkeypatch.setattr("index.memory.memory.MOST_FORGOTTEN", 40)
    monkeypatch.setattr("index.memory.memory.MOST_REPLACED", 60)
    vectors, chance = clustered(400, seed=9), random.Random(5)
    memory, present, held = Memory.of([], DIM), dict[str, list[MemoryKey]](), []
    for step in range(300):
        change = {}
        for number in chance.sample(range(150), 4):
            query_key = f"query {number}"
            vector = vectors[number + (200 if chance.random() < 0.1 else 0)]
            rows = sorted(chance.sample(range(50), chance.randrange(4)))
            change[query_key] = [MemoryKey(row, vector, chance.randrange(1, 9) / 8, query_key, step) for row in rows]
        memory = memory.changed(change)
        present |= change
        if step % 29 == 0:
            keys = [key for group in present.values() for key in group]
            held.append((memory, Memory.of(keys, DIM)))
    for changed, fresh in held:  # later changes did not affect earlier memories
        assert changed.count == fresh.count
        assert [(one.query_key, one.row, one.count) for one in changed.keys] == [
            (one.query_key, one.row, one.count) for one in fresh.keys
        ]
        for query in clustered(10, seed=10):
            assert found(changed, query) == found(fresh, query)
    assert len(memory.vectors) < 300
    assert len(memory.rows) < 3 * len(memory.keys) + 200


def test_replaced_memory_keys_are_repacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("index.memory.memory.MOST_REPLACED", 10)
    (vector,) = random_vectors(1, DIM, seed=1)
    memory = Memory.of([MemoryKey(row, vector, 0.5, "a") for row in range(4)], DIM)
    for count in range(2, 30):
        memory = memory.changed({"a": [MemoryKey(row, vector, 0.5, "a", count) for row in range(4)]})
    assert len(memory.rows) < 20
    assert [(key.row, key.count) for key in memory.keys] == [(row, 29) for row in range(4)]
