"""Generations: adding, removing, sealing, compacting, saving and opening never change what a search reads."""

import hashlib
import threading
from pathlib import Path

import numpy as np
import pytest

from index.candidates.base import MISSING
from index.generation.generation import Generation, IndexedDocument
from index.generation.store import GenerationStore
from index.records import Floats, Ints, Key, KeyKind, Mask
from index.words.query_words import number_words
from tests.index.fixtures import arrays_of, passages, random_vectors, remembered, store_of, unit

X, Y, Z = np.eye(3, dtype=np.float32)
ANIMALS = [passages(1, "cat", X), passages(2, "dog", unit(1, 1, 0)), passages(3, "cat dog", Y)]


def nearest(generation: Generation, query: Floats, count: int = 10, allowed: list[bool] | None = None) -> list[int]:
    """Return the rows of the documents with the nearest keys."""
    mask = generation.alive if allowed is None else np.asarray(allowed)
    return generation.rows[generation.nearest(query[None], count, mask)[0]].tolist()


def worded(generation: Generation, text: str) -> list[int]:
    return sorted(generation.words.search(text, 10)[0].tolist())


def fingerprint(generation: Generation) -> str:
    """Return a checksum of every array that a search reads."""
    arrays = list(arrays_of(generation).values())
    memory = generation.memory
    arrays += [memory.vectors, memory.rows, memory.weights, memory.counts, *memory.near(X, -2.0)]
    return hashlib.sha256(b"|".join(array.tobytes() for array in arrays)).hexdigest()


def words_of(generation: Generation, doc_index: int) -> list[int]:
    """Return the word numbers of a document."""
    return generation.columns.tokens[
        generation.columns.first_token[doc_index] : generation.columns.first_token[doc_index + 1]
    ].tolist()


def many(first: int, count: int, seed: int) -> list[IndexedDocument]:
    """Return documents with one to three keys each, from row `first` on."""
    vectors = iter(random_vectors(3 * count, 3, seed))
    return [
        passages(row, f"word{row}", *(next(vectors) for _ in range(1 + row % 3))) for row in range(first, first + count)
    ]


def requests_of(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the list of the numbers of keys that generations ask for from now on."""
    asked: list[int] = []
    scan = Generation._nearest_keys
    monkeypatch.setattr(Generation, "_nearest_keys", lambda *given: (asked.append(given[2]), scan(*given))[1])
    return asked


def nearest_by_hand(documents: list[IndexedDocument], query: Floats) -> list[int]:
    scored = [(-max(float(key.vector @ query) for key in document.keys), document.row) for document in documents]
    return [row for _, row in sorted(scored)]


# --- Searches ---


def test_documents_are_found_by_their_nearest_key_and_by_their_words(tmp_path: Path) -> None:
    generation = store_of(tmp_path, ANIMALS, 3).current
    assert nearest(generation, X) == [1, 2, 3]
    assert nearest(generation, unit(0.1, 1, 0)) == [3, 2, 1]
    assert nearest(generation, X, count=2) == [1, 2]
    assert worded(generation, "cat") == [1, 3]
    assert (generation.count, generation.dim, generation.watermark) == (3, 3, 1)


def test_a_new_store_is_empty_and_searchable(tmp_path: Path) -> None:
    generation = GenerationStore(tmp_path, 3, "english").current
    assert (generation.count, generation.dim, generation.watermark) == (0, 3, 0)
    assert nearest(generation, X) == []
    assert worded(generation, "cat") == []
    assert generation.doc_indices(np.asarray([0, 7])).tolist() == [MISSING, MISSING]


def test_each_head_gets_its_own_list(tmp_path: Path) -> None:
    generation = store_of(tmp_path, ANIMALS, 3).current
    lists = generation.nearest(np.stack([X, Y]), 1, generation.alive)
    assert [generation.rows[doc_indices].tolist() for doc_indices in lists] == [[1], [3]]


def test_a_document_with_many_near_keys_does_not_crowd_out_the_others(tmp_path: Path) -> None:
    crowd = passages(1, "", *[X] * 200)
    others = [passages(2, "", unit(1, 1, 0)), passages(3, "", Y), passages(4, "", unit(-1, 1, 0))]
    generation = store_of(tmp_path, [crowd, *others], 3).current
    assert nearest(generation, X, count=3) == [1, 2, 3]
    assert nearest(generation, X, count=9) == [1, 2, 3, 4]


def test_the_number_of_retrieved_keys_follows_the_keys_per_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each retrieved key costs time: if documents have one key each, `count` keys are enough."""
    store = store_of(
        tmp_path, [passages(row, "", vector) for row, vector in enumerate(random_vectors(50, 3, seed=4))], 3
    )
    generation, asked = store.current, requests_of(monkeypatch)
    assert len(nearest(generation, X, 10)) == 10
    assert len(nearest(generation, X, 10, [row % 2 == 0 for row in range(50)])) == 10
    assert asked == [10, 10]


def test_the_first_request_follows_the_mean_number_of_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents with 2.5 keys in the mean: 80 keys for 32 documents, and an eighth of a key for each."""
    vectors = iter(random_vectors(750, 16, seed=4))
    documents = [passages(row, "", *(next(vectors) for _ in range(4 if row % 2 else 1))) for row in range(300)]
    generation, asked = store_of(tmp_path, documents, 16).current, requests_of(monkeypatch)
    assert len(nearest(generation, random_vectors(1, 16, seed=5)[0], 32)) == 32
    assert asked == [84]


def test_a_tie_with_the_last_requested_key_asks_for_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty documents have an equal key, as documents with an equal title have. Which of them are scanned is chance."""
    vectors = iter(random_vectors(750, 16, seed=4))
    shared = random_vectors(1, 16, seed=5)[0]
    documents = [
        passages(row, "", *(next(vectors) for _ in range(3)), *([shared] if row % 2 else ())) for row in range(80)
    ]
    generation, asked = store_of(tmp_path, documents, 16).current, requests_of(monkeypatch)
    assert nearest(generation, shared, 8) == list(range(1, 16, 2))
    assert asked == [29, 32]


def asked_for_more(generation: Generation, queries: Floats, count: int, allowed: Mask) -> list[Ints]:
    """Return the nearest documents by requests of many keys, as releases before asked: the definition."""
    owned = allowed & (np.diff(generation.columns.first_key) > 0)
    usable = int(np.count_nonzero(allowed[generation.key_doc_index]))
    key_count = count * -(-usable // max(1, int(owned.sum())))
    while True:
        _, found = generation._nearest_keys(queries, min(key_count, usable), allowed[generation.key_doc_index])
        lists = [generation._distinct_doc_indices(keys)[0] for keys in found]
        if min(map(len, lists)) >= min(count, int(owned.sum())) or key_count >= usable:
            return [one[:count] for one in lists]
        key_count *= 4


@pytest.mark.parametrize(
    ("dim", "tail_keys", "noise"), [(3, 9000, 0.01), (24, 100, 0.01), (24, 100, 0.3), (96, 100, 0.3)]
)
@pytest.mark.parametrize("seed", range(5))
def test_fewer_requested_keys_find_the_same_documents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dim: int, tail_keys: int, noise: float, seed: int
) -> None:
    """Documents with keys that resemble each other or are equal; filters, removed documents, and a tail."""
    monkeypatch.setattr("index.generation.store.TAIL_KEYS", tail_keys)
    draw = np.random.default_rng(seed)
    centers, known, documents = random_vectors(40, dim, seed), [*random_vectors(1, dim, seed)], []
    for row in range(700):
        near = centers[draw.integers(40)] + noise * draw.normal(size=(draw.integers(5), dim))
        vectors = [known[draw.integers(len(known))] if draw.random() < 0.2 else unit(*vector) for vector in near]
        documents.append(passages(row, "", *vectors))
        known += vectors
    store = store_of(tmp_path, documents[:660], dim)
    generation = store.apply(2, documents[660:], removed=draw.choice(600, 50, replace=False).tolist())
    assert (generation.sealed.count > 0) == (tail_keys == 100)
    queries = random_vectors(12, dim, seed + 100)
    for share in (1.0, 0.5, 0.05):
        allowed = generation.alive if share == 1 else generation.alive & (draw.random(700) < share)
        for count in (1, 7, 30, 200, 800):
            for asked in (*queries[:, None], queries[:3]):
                found = generation.nearest(asked, count, allowed)
                expected = asked_for_more(generation, asked, count, allowed)
                assert [one.tolist() for one in found] == [one.tolist() for one in expected]


def test_only_allowed_documents_are_found_and_as_many_as_requested(tmp_path: Path) -> None:
    documents = many(1, 60, seed=1)
    generation = store_of(tmp_path, documents, 3).current
    allowed = [row % 4 == 0 for row in range(1, 61)]
    expected = [row for row in nearest_by_hand(documents, X) if row % 4 == 0]
    assert nearest(generation, X, 10, allowed) == expected[:10]
    assert nearest(generation, X, 100, allowed) == expected
    assert nearest(generation, X, 10, [False] * 60) == []


def test_a_document_without_keys_is_found_by_words_alone(tmp_path: Path) -> None:
    generation = store_of(tmp_path, [passages(1, "cat"), passages(2, "dog", X), passages(3, "")], 3).current
    assert nearest(generation, X) == [2]
    assert worded(generation, "cat") == [1]
    assert generation.count == 3


def test_keys_belong_to_their_own_document(tmp_path: Path) -> None:
    keys = [Key(KeyKind.TITLE, X, 0, 4), Key(KeyKind.PASSAGE, Y, 3, 9)]
    documents = [passages(5, ""), IndexedDocument(7, "", keys), passages(9, "", Z)]
    generation = store_of(tmp_path, documents, 3).current
    assert generation.key_doc_index.tolist() == [1, 1, 2]
    assert generation.columns.key_kind.tolist() == [KeyKind.TITLE, KeyKind.PASSAGE, KeyKind.PASSAGE]
    assert (generation.columns.key_start.tolist(), generation.columns.key_end.tolist()) == ([0, 3, 0], [4, 9, 9])
    assert np.array_equal(generation.keys, [X, Y, Z])


def test_the_words_of_every_document_are_kept_in_their_order(tmp_path: Path) -> None:
    store = store_of(tmp_path, [passages(1, "Cat, dog; cat!", X), passages(2, ""), passages(5, "copper")], 3)
    generation = store.apply(2, [passages(6, "dog cat")], removed=[1])
    expected = [["cat", "dog", "cat"], [], ["copper"], ["dog", "cat"]]
    assert [words_of(generation, doc_index) for doc_index in range(4)] == [
        number_words(words).tolist() for words in expected
    ]


def test_an_unknown_or_removed_row_has_no_doc_index(tmp_path: Path) -> None:
    store = store_of(tmp_path, [passages(2, "", X), passages(5, "", Y), passages(8, "", Z)], 3)
    asked: Ints = np.asarray([8, 0, 2, 5, 6, 99, -1])
    assert store.current.doc_indices(asked).tolist() == [2, MISSING, 0, 1, MISSING, MISSING, MISSING]
    store.apply(2, [], removed=[5])
    assert store.current.doc_indices(asked).tolist() == [2, MISSING, 0, MISSING, MISSING, MISSING, MISSING]


# --- Changes ---


def test_a_removed_document_is_not_found(tmp_path: Path) -> None:
    generation = store_of(tmp_path, ANIMALS, 3).apply(2, [], removed=[1, 77])
    assert nearest(generation, X) == [2, 3]
    assert worded(generation, "cat") == [3]
    assert (generation.count, generation.watermark) == (2, 2)


def test_a_replaced_document_gets_a_new_row(tmp_path: Path) -> None:
    generation = store_of(tmp_path, ANIMALS, 3).apply(2, [passages(4, "copper", Z)], removed=[1])
    assert nearest(generation, Z)[0] == 4
    assert sorted(nearest(generation, X)) == [2, 3, 4]
    assert (worded(generation, "copper"), worded(generation, "cat")) == ([4], [3])


def test_rows_only_grow(tmp_path: Path) -> None:
    store = store_of(tmp_path, ANIMALS, 3)
    with pytest.raises(AssertionError):
        store.apply(2, [passages(3, "again", X)])


def test_later_changes_do_not_affect_an_old_generation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("index.generation.store.TAIL_KEYS", 6)  # seals and compacts every few steps
    monkeypatch.setattr("index.generation.compaction.LEAST_DEAD", 6)
    store = GenerationStore(tmp_path, 3, "none")
    query, held, row = unit(1, 2, 3), [], 1
    for step in range(12):
        added = [] if step % 3 == 2 else many(row, 4, seed=step)
        generation = store.apply(step + 1, added, [] if added else [row - 1, row - 3])
        generation = store.remember(step + 1, [remembered(step, row, X)])
        row += len(added)
        held.append((generation, fingerprint(generation), nearest(generation, query), worded(generation, "word9")))
    assert len({fingerprint(generation) for generation, *_ in held}) == 12
    for generation, before, found, words in held:
        assert fingerprint(generation) == before
        assert nearest(generation, query) == found
        assert worded(generation, "word9") == words


def test_searches_may_run_while_the_next_generation_is_made(tmp_path: Path) -> None:
    store = store_of(tmp_path, many(1, 50, seed=0), 3)
    held, expected, done = store.current, nearest(store.current, X), threading.Event()
    answers: list[list[int]] = []

    def read() -> None:
        while True:  # each answers once, however late it begins
            answers.append(nearest(held, X))
            if done.is_set():
                return

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for step in range(20):
        store.apply(step + 2, many(51 + 10 * step, 10, seed=step + 1), removed=[step + 1])
    done.set()
    for reader in readers:
        reader.join()
    assert len(answers) >= len(readers)
    assert all(answer == expected for answer in answers)


# --- Tail, seal and compaction ---


@pytest.mark.parametrize("tail_keys", [1, 10, 1000])
def test_sealed_keys_and_the_tail_agree_with_brute_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tail_keys: int
) -> None:
    monkeypatch.setattr("index.generation.store.TAIL_KEYS", tail_keys)
    documents = many(1, 40, seed=3)
    store = GenerationStore(tmp_path, 3, "none")
    for step in range(8):
        store.apply(step + 1, documents[5 * step : 5 * step + 5])
    sealed = store.current.sealed.count
    assert sealed == 0 if tail_keys == 1000 else 0 < sealed <= len(store.current.keys)
    for query in random_vectors(6, 3, seed=4):
        assert nearest(store.current, query, 7) == nearest_by_hand(documents, query)[:7]


def test_a_filter_reaches_the_sealed_keys_and_the_tail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("index.generation.store.TAIL_KEYS", 30)
    documents = many(1, 40, seed=5)
    store = store_of(tmp_path, documents[:30], 3)
    store.apply(2, documents[30:], removed=[3, 35])
    assert 0 < store.current.sealed.count < len(store.current.keys)
    allowed = [row % 2 == 1 and row not in (3, 35) for row in range(1, 41)]
    expected = [row for row in nearest_by_hand(documents, X) if row % 2 == 1 and row not in (3, 35)]
    assert nearest(store.current, X, 50, allowed) == expected


def test_compaction_drops_removed_documents_and_keeps_all_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("index.generation.store.TAIL_KEYS", 4)
    monkeypatch.setattr("index.generation.compaction.LEAST_DEAD", 4)
    documents = many(1, 20, seed=6)
    store = store_of(tmp_path, documents, 3)
    gone, left = list(range(2, 14)), [document for document in documents if not 2 <= document.row < 14]
    generation = store.apply(2, [], removed=gone)
    assert generation.rows.tolist() == [document.row for document in left]
    assert len(generation.keys) == sum(len(document.keys) for document in left)
    for doc_index, document in enumerate(left):
        own = slice(generation.columns.first_key[doc_index], generation.columns.first_key[doc_index + 1])
        assert np.array_equal(generation.keys[own], [key.vector for key in document.keys])
        assert generation.columns.key_start[own].tolist() == [key.start for key in document.keys]
        assert words_of(generation, doc_index) == number_words([document.words]).tolist()
    assert nearest(generation, X) == nearest_by_hand(left, X)[:10]
    added = many(21, 3, seed=7)
    assert nearest(store.apply(3, added), X, 20) == nearest_by_hand(left + added, X)


def test_documents_can_be_added_after_all_were_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("index.generation.store.TAIL_KEYS", 1)
    monkeypatch.setattr("index.generation.compaction.LEAST_DEAD", 1)
    store = store_of(tmp_path, ANIMALS, 3)
    assert nearest(store.apply(2, [], removed=[1, 2, 3]), X) == []
    assert len(store.current.rows) == 0
    assert nearest(store.apply(3, [passages(4, "cat", X)]), X) == [4]


# --- Memory ---


def test_remember_replaces_the_memory_and_nothing_else(tmp_path: Path) -> None:
    store = store_of(tmp_path, ANIMALS, 3)
    before = store.current
    store.remember(2, [remembered(1, 1, X), remembered(2, 9, Y, weight=-0.5)])
    generation = store.remember(3, [remembered(2, 9, Y, weight=-0.5)])
    assert (generation.memory.rows.tolist(), generation.memory.weights.tolist()) == ([9], [-0.5])
    assert generation.memory.query_keys == ("source 2",)
    assert generation.watermark == 3
    assert generation.columns is before.columns
    assert (generation.keys is before.keys, generation.values is before.values) == (True, True)


def test_revise_changes_the_memory_of_the_given_query_keys_only(tmp_path: Path) -> None:
    store = store_of(tmp_path, ANIMALS, 3)
    before = store.remember(2, [remembered(1, 1, X), remembered(2, 9, Y), remembered(3, 2, Z)])
    generation = store.revise(3, {"source 1": [], "source 2": [remembered(2, 7, Y, weight=-0.5)]})
    found = [(key.query_key, key.row, key.weight) for key in generation.memory.keys]
    assert found == [("source 2", 7, -0.5), ("source 3", 2, 1.0)]
    assert (generation.watermark, before.memory.rows.tolist()) == (3, [1, 9, 2])
