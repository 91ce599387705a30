"""Saved generations: opening returns the saved state, or fails."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.errors import DamagedFile, DamagedKeys
from index.generation.store import GenerationStore
from index.storage.files import MANIFEST, read_manifest
from tests.index.fixtures import arrays_of, passages, random_vectors, remembered, store_of

VECTORS = random_vectors(12, 3, seed=1)
DOCUMENTS = [passages(row, f"word{row} cat", *VECTORS[2 * row : 2 * row + 2]) for row in range(6)]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """The folder of a store that was saved at watermark 2, with documents removed, and closed."""
    directory = tmp_path / "saved"
    store = store_of(directory, DOCUMENTS, 3)
    store.apply(2, [], removed=[4])
    store.save("none", 2)
    store.close()
    return directory


def opened(directory: Path, watermark: int = 2, dim: int = 3, language: str = "none") -> GenerationStore:
    return GenerationStore.open(directory, dim, language, watermark)


def test_an_opened_generation_equals_the_saved_generation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("index.generation.store.TAIL_KEYS", 3)  # so that the saved index has sealed keys
    store = store_of(tmp_path, DOCUMENTS[:5], 3)
    store.apply(2, DOCUMENTS[5:], removed=[1])
    store.save("none", 2)
    before, after = store.current, opened(tmp_path).current
    assert 0 < before.sealed.count == after.sealed.count
    arrays = arrays_of(after)
    for name, array in arrays_of(before).items():
        assert np.array_equal(array, arrays[name]), name
        assert array.dtype == arrays[name].dtype
    assert (after.watermark, after.count) == (2, 5)
    for query in VECTORS:
        assert np.array_equal(
            before.nearest(query[None], 4, before.alive)[0], after.nearest(query[None], 4, after.alive)[0]
        )
    for one, other in zip(before.words.search("cat word5", 9), after.words.search("cat word5", 9), strict=True):
        assert np.array_equal(one, other)


def test_memory_is_not_saved_because_the_database_has_it(tmp_path: Path) -> None:
    store = store_of(tmp_path, DOCUMENTS, 3)
    store.remember(7, [remembered(1, 1, VECTORS[0])])
    store.save("none", 1)
    assert opened(tmp_path, watermark=1).current.memory.keys == []


def test_an_opened_store_accepts_further_writes(saved: Path) -> None:
    store = opened(saved)
    held = store.current
    before = held.keys.tobytes()
    generation = store.apply(3, [passages(6, "copper", VECTORS[0])], removed=[0])
    assert generation.rows[generation.alive].tolist() == [1, 2, 3, 5, 6]
    assert generation.words.search("copper", 5)[0].tolist() == [6]
    assert sorted(generation.words.search("cat", 9)[0].tolist()) == [1, 2, 3, 5]
    assert held.keys.tobytes() == before
    assert held.count == 5


def test_a_store_may_be_saved_opened_and_saved_again(saved: Path) -> None:
    store = opened(saved)
    store.apply(3, [passages(6, "copper", VECTORS[0])])
    store.save("none", 3)
    again = opened(saved, watermark=3).current
    assert again.rows[again.alive].tolist() == [0, 1, 2, 3, 5, 6]


def test_an_empty_store_can_be_saved(tmp_path: Path) -> None:
    store = GenerationStore(tmp_path, 3, "none")
    store.save("none", 0)
    assert opened(tmp_path, watermark=0).current.count == 0


# --- States that are not opened ---


def test_the_first_write_removes_the_manifest(saved: Path) -> None:
    store = opened(saved)
    assert (saved / MANIFEST).exists()
    store.remember(3, [])
    assert (saved / MANIFEST).exists()
    store.apply(3, [passages(6, "copper", VECTORS[0])])
    assert not (saved / MANIFEST).exists()
    store.close()
    with pytest.raises(DamagedFile, match="no readable manifest"):
        opened(saved)


@pytest.mark.parametrize("wanted", [{"watermark": 3}, {"watermark": 1}, {"dim": 4}, {"language": "english"}])
def test_a_state_of_another_watermark_width_or_language_is_not_opened(saved: Path, wanted: dict[str, object]) -> None:
    with pytest.raises(DamagedFile, match=next(iter(wanted))):
        opened(saved, **wanted)


def test_a_folder_that_is_missing_or_empty_is_not_opened(tmp_path: Path) -> None:
    with pytest.raises(DamagedFile):
        opened(tmp_path)
    with pytest.raises(DamagedFile):
        opened(tmp_path / "nowhere")


def test_every_file_of_the_state_is_in_the_manifest(saved: Path) -> None:
    there = {path.relative_to(saved).as_posix() for path in saved.rglob("*") if path.is_file()}
    unlisted = {name for name in there - set(read_manifest(saved)["files"]) if not name.endswith(".lock")}
    assert unlisted == {MANIFEST}


def test_a_flipped_bit_in_any_file_is_found(saved: Path) -> None:
    names = read_manifest(saved)["files"]
    assert len(names) > len(arrays_of(opened(saved).current)) + 2
    for name, facts in names.items():
        body = bytearray((saved / name).read_bytes())
        if not facts["bytes"] or name.startswith(("keys-", "values-")):  # vectors are compared when they are read
            continue
        body[len(body) // 2] ^= 1
        (saved / name).write_bytes(body)
        with pytest.raises(DamagedFile, match=Path(name).name):
            opened(saved)
        body[len(body) // 2] ^= 1
        (saved / name).write_bytes(body)
    assert opened(saved).current.count == 5


def test_a_missing_file_is_found(saved: Path) -> None:
    for name in read_manifest(saved)["files"]:
        body = (saved / name).read_bytes()
        (saved / name).unlink()
        with pytest.raises(DamagedFile, match=Path(name).name):
            opened(saved)
        (saved / name).write_bytes(body)
    assert opened(saved).current.count == 5


def test_an_incompletely_saved_state_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    store = store_of(tmp_path, DOCUMENTS, 3)
    monkeypatch.setattr(np, "save", full_disk)
    with pytest.raises(OSError, match="no space"):
        store.save("none", 1)
    with pytest.raises(DamagedFile):
        opened(tmp_path, watermark=1)
    monkeypatch.undo()
    store.save("none", 1)
    assert opened(tmp_path, watermark=1).current.count == 6


# --- Keys, which are read by searches ---


@pytest.fixture
def sealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a store that was saved with all of its keys sealed."""
    monkeypatch.setattr("index.generation.store.TAIL_KEYS", 1)
    monkeypatch.setattr("index.generation.compaction.LEAST_DEAD", 1)
    directory = tmp_path / "sealed"
    store = store_of(directory, DOCUMENTS, 3)
    assert store.current.sealed.count == 12
    store.save("none", 2)
    store.close()
    return directory


def damage_key(directory: Path, key: int) -> None:
    body = bytearray((directory / "keys-1.f32").read_bytes())
    body[12 * key + 5] ^= 1
    (directory / "keys-1.f32").write_bytes(body)


def test_a_damaged_key_is_detected_at_its_first_read_and_not_used(sealed: Path) -> None:
    damage_key(sealed, 7)
    generation = opened(sealed).current
    assert np.array_equal(generation.key_vectors(np.asarray([6, 8])), VECTORS[[6, 8]])
    with pytest.raises(DamagedKeys, match=r"sealed/keys-1\.f32: key 7 "):
        generation.key_vectors(np.asarray([6, 7]))


def test_a_pq4_search_detects_a_damaged_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("index.generation.store.TAIL_KEYS", 1)
    monkeypatch.setattr("index.candidates.build.PQ4_FROM", 1)
    store = store_of(tmp_path, DOCUMENTS, 3)
    store.save("none", 2)
    found = store.current.nearest(VECTORS[:1], 4, store.current.alive)[0]
    again = opened(tmp_path).current
    assert np.array_equal(again.nearest(VECTORS[:1], 4, again.alive)[0], found)
    damage_key(tmp_path, 7)
    generation = opened(tmp_path).current
    with pytest.raises(DamagedKeys):
        generation.nearest(VECTORS[:1], 12, generation.alive)


def test_new_keys_are_sealed_when_they_are_saved(tmp_path: Path) -> None:
    store = store_of(tmp_path, DOCUMENTS, 3)
    before = store.current
    assert before.sealed.count == 0
    store.save("none", 2)
    found = [one.nearest(VECTORS, 3, one.alive) for one in (before, store.current, opened(tmp_path).current)]
    assert store.current.sealed.count == opened(tmp_path).current.sealed.count == 12
    assert all(np.array_equal(one, other) for other in found[1:] for one, other in zip(found[0], other, strict=True))


def test_a_state_with_keys_that_are_not_sealed_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exact scan would read these keys without comparing their checksums."""
    store = store_of(tmp_path, DOCUMENTS, 3)
    monkeypatch.setattr(store, "seal_tail", lambda: None)
    store.save("none", 2)
    with pytest.raises(DamagedFile, match="not sealed"):
        opened(tmp_path)


def test_documents_added_after_opening_are_appended_to_the_saved_keys(sealed: Path) -> None:
    store = opened(sealed)
    before = store.current
    generation = store.apply(3, [passages(6, "copper", VECTORS[0])])
    assert np.array_equal(generation.keys, [*VECTORS, VECTORS[0]])
    assert np.array_equal(before.keys, VECTORS)
    assert sorted(generation.nearest(VECTORS[:1], 2, generation.alive)[0].tolist()) == [0, 6]
    assert [path.name for path in sealed.glob("keys-*")] == ["keys-1.f32"]


def test_damaged_keys_are_not_copied_by_compaction_or_sealing(sealed: Path) -> None:
    damage_key(sealed, 7)
    store = opened(sealed)
    with pytest.raises(DamagedKeys):
        store.apply(3, [], removed=[0, 1])
    damage_key(sealed, 7)  # flips the bit back
    assert store.apply(4, [], removed=[0, 1]).keys.tolist() == VECTORS[4:].tolist()


def test_compacted_keys_are_in_a_new_file_and_the_old_file_is_removed(sealed: Path) -> None:
    store = opened(sealed)
    before = store.current
    store.apply(3, [], removed=[0, 1])
    assert [path.name for path in sealed.glob("keys-*")] == ["keys-2.f32"]
    assert np.array_equal(before.key_vectors(np.arange(12)), VECTORS)
    store.save("none", 3)
    again = opened(sealed, watermark=3)
    assert np.array_equal(again.current.key_vectors(np.arange(8)), VECTORS[4:])
    again.apply(4, [], removed=[2, 3])
    assert [path.name for path in sealed.glob("keys-*")] == ["keys-3.f32"]


def test_files_of_a_failed_compaction_are_not_opened_as_the_keys(sealed: Path) -> None:
    damage_key(sealed, 7)
    store = opened(sealed)
    with pytest.raises(DamagedKeys):
        store.apply(3, [], removed=[0, 1])
    damage_key(sealed, 7)
    store.save("none", 3)
    assert np.array_equal(opened(sealed, watermark=3).current.key_vectors(np.arange(12)), VECTORS)


def test_opening_removes_the_file_of_a_compaction_by_a_killed_process(sealed: Path) -> None:
    (sealed / "keys-2.f32").write_bytes(b"half of them")
    assert opened(sealed).current.count == 6
    assert [path.name for path in sealed.glob("keys-*")] == ["keys-1.f32"]


# --- Values, one row per document ---


def damage_value(directory: Path, doc_index: int) -> None:
    body = bytearray((directory / "values-1.f32").read_bytes())
    body[12 * doc_index + 5] ^= 1
    (directory / "values-1.f32").write_bytes(body)


def test_a_value_is_read_as_it_was_stored(sealed: Path) -> None:
    generation = opened(sealed).current
    for doc_index, document in enumerate(DOCUMENTS):
        mean = np.mean([key.vector for key in document.keys], axis=0)
        value = generation.value_vectors(np.asarray([doc_index]))[0]
        np.testing.assert_allclose(value, mean / np.linalg.norm(mean), atol=1e-6)


def test_a_damaged_value_is_detected_at_its_first_read_and_not_used(sealed: Path) -> None:
    damage_value(sealed, 3)
    generation = opened(sealed).current
    assert len(generation.value_vectors(np.asarray([2, 4]))) == 2
    with pytest.raises(DamagedKeys, match=r"sealed/values-1\.f32"):
        generation.value_vectors(np.asarray([2, 3]))


def test_a_given_value_is_stored_instead_of_the_mean_of_the_passages(tmp_path: Path) -> None:
    document = replace(DOCUMENTS[0], value=VECTORS[9])
    generation = store_of(tmp_path, [document], 3).current
    assert np.array_equal(generation.value_vectors(np.asarray([0])), VECTORS[9:10])


def test_values_are_compacted_with_their_documents(sealed: Path) -> None:
    store = opened(sealed)
    before = store.current.value_vectors(np.arange(6))
    after = store.apply(3, [], removed=[0, 1])
    assert np.array_equal(after.value_vectors(np.arange(4)), before[2:])
    assert [path.name for path in sealed.glob("values-*")] == ["values-2.f32"]


def test_the_files_of_the_current_generation_stay_when_sealing_fails_after_a_compaction(
    sealed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_memory(*_: object) -> None:
        raise MemoryError

    store = opened(sealed)
    before = store.current
    monkeypatch.setattr("index.generation.store.seal", full_memory)
    with pytest.raises(MemoryError):
        store.apply(3, [], removed=[0, 1])
    monkeypatch.undo()
    assert store.current is before
    after = store.apply(4, [passages(6, "copper", VECTORS[0])])
    assert np.array_equal(after.keys, [*VECTORS, VECTORS[0]])
    assert (sealed / "keys-1.f32").exists()
    assert np.array_equal(after.value_vectors(np.arange(6)), before.values)
