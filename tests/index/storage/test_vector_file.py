"""Vectors in a growing file: what was given stays as it is, and what was saved is proven before it is used."""

from pathlib import Path

import numpy as np
import pytest

from index.errors import DamagedFile, DamagedKeys
from index.storage.vector_file import ChecksumGuard, VectorFile, checksums
from tests.index.fixtures import random_vectors

ROWS = random_vectors(600, 3, seed=1)


# --- The file ---


def test_rows_come_back_as_they_were_written(tmp_path: Path) -> None:
    file = VectorFile(tmp_path / "keys", 3)
    assert np.array_equal(file.extended(0, ROWS[:10]), ROWS[:10])
    assert np.array_equal(file.extended(10, ROWS[10:]), ROWS)
    assert len(file.extended(600, ROWS[:0])) == 600


def test_who_was_given_some_rows_sees_these_whatever_is_appended(tmp_path: Path) -> None:
    file = VectorFile(tmp_path / "keys", 3)
    first = file.extended(0, ROWS[:200])
    for start in range(200, 600, 50):
        file.extended(start, ROWS[start : start + 50])
    file.sync(600)
    (tmp_path / "keys").unlink()
    assert np.array_equal(first, ROWS[:200])


def test_rows_that_nobody_was_given_are_written_over(tmp_path: Path) -> None:
    file = VectorFile(tmp_path / "keys", 3)
    file.extended(0, ROWS[:20])
    assert np.array_equal(file.extended(10, ROWS[30:35]), np.concatenate([ROWS[:10], ROWS[30:35]]))


def test_readers_cannot_write(tmp_path: Path) -> None:
    rows = VectorFile(tmp_path / "keys", 3).extended(0, ROWS[:5])
    with pytest.raises(ValueError, match="read-only"):
        rows[0] = 0


def test_a_synced_file_has_its_rows_and_nothing_behind_and_may_grow_on(tmp_path: Path) -> None:
    file = VectorFile(tmp_path / "keys", 3)
    file.extended(0, ROWS[:300])
    file.sync(300)
    assert (tmp_path / "keys").read_bytes() == ROWS[:300].tobytes()
    assert np.array_equal(file.extended(300, ROWS[300:]), ROWS)
    file.sync(600)
    opened, rows = VectorFile.open(tmp_path / "keys", 3, 600)
    assert (tmp_path / "keys").read_bytes() == ROWS.tobytes()
    assert np.array_equal(rows, ROWS)
    assert np.array_equal(opened.extended(600, ROWS[:1])[-1], ROWS[0])


def test_a_file_that_is_missing_or_too_short_is_not_opened(tmp_path: Path) -> None:
    with pytest.raises(DamagedFile, match="missing"):
        VectorFile.open(tmp_path / "keys", 3, 1)
    VectorFile(tmp_path / "keys", 3).sync(0)
    with pytest.raises(DamagedFile, match="shorter"):
        VectorFile.open(tmp_path / "keys", 3, 1)


def test_a_file_without_rows_is_opened_like_any_other(tmp_path: Path) -> None:
    VectorFile(tmp_path / "keys", 3).sync(0)
    file, rows = VectorFile.open(tmp_path / "keys", 3, 0)
    assert rows.shape == (0, 3)
    assert np.array_equal(file.extended(0, ROWS[:2]), ROWS[:2])


# --- Checksums and doubt ---


@pytest.mark.parametrize("dim", [3, 4])
def test_every_bit_counts_in_a_checksum(dim: int) -> None:
    row = random_vectors(1, dim, seed=2)
    before = checksums(row)
    for at in range(8 * row.nbytes):
        body = bytearray(row.tobytes())
        body[at // 8] ^= 1 << at % 8
        changed = np.frombuffer(bytes(body), np.float32).reshape(1, dim)
        assert checksums(changed) != before


def test_numbers_that_changed_places_change_the_checksum() -> None:
    assert checksums(ROWS[:1, ::-1]) != checksums(ROWS[:1])


def test_a_row_that_is_not_what_it_was_is_found_when_it_is_read_and_no_sooner() -> None:
    checksum_guard, damaged = ChecksumGuard(checksums(ROWS), "keys"), ROWS.copy()
    damaged[7, 1] += 1e-6
    checksum_guard.check(np.asarray([6, 8]), damaged[[6, 8]])
    with pytest.raises(DamagedKeys, match="keys: key 7 "):
        checksum_guard.check(np.asarray([6, 7]), damaged[[6, 7]])
    with pytest.raises(DamagedKeys, match="key 7 "):
        checksum_guard.check_all(damaged)


def test_a_row_is_compared_once_and_what_came_later_never() -> None:
    checksum_guard = ChecksumGuard(checksums(ROWS[:5]))
    checksum_guard.check(np.asarray([3]), ROWS[[3]])
    checksum_guard.check(np.asarray([3, 5, 9]), np.zeros((3, 3), np.float32))
    ChecksumGuard().check(np.asarray([0]), np.zeros((1, 3), np.float32))


def test_all_rows_are_compared_however_many_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("index.storage.vector_file.ROWS_AT_ONCE", 7)
    for wrong in (0, 6, 7, 599):
        damaged = ROWS.copy()
        damaged[wrong] = 0
        with pytest.raises(DamagedKeys, match=f"key {wrong} "):
            ChecksumGuard(checksums(ROWS)).check_all(damaged)
    ChecksumGuard(checksums(ROWS)).check_all(ROWS)
