"""Checksums find every changed bit, and the guard compares each saved row when it is first read."""

import numpy as np
import pytest

from index.errors import DamagedKeys
from index.storage.checksum_guard import ChecksumGuard, checksums
from tests.index.fixtures import random_vectors

ROWS = random_vectors(600, 3, seed=1)


@pytest.mark.parametrize("dim", [3, 4])
def test_changing_any_bit_changes_the_checksum(dim: int) -> None:
    row = random_vectors(1, dim, seed=2)
    before = checksums(row)
    for at in range(8 * row.nbytes):
        body = bytearray(row.tobytes())
        body[at // 8] ^= 1 << at % 8
        changed = np.frombuffer(bytes(body), np.float32).reshape(1, dim)
        assert checksums(changed) != before


def test_changing_the_order_of_numbers_changes_the_checksum() -> None:
    assert checksums(ROWS[:1, ::-1]) != checksums(ROWS[:1])


def test_a_damaged_row_is_found_when_it_is_read_and_not_before() -> None:
    guard, damaged = ChecksumGuard(checksums(ROWS), "keys"), ROWS.copy()
    damaged[7, 1] += 1e-6
    guard.check(np.asarray([6, 8]), damaged[[6, 8]])
    with pytest.raises(DamagedKeys, match="keys: key 7 "):
        guard.check(np.asarray([6, 7]), damaged[[6, 7]])
    with pytest.raises(DamagedKeys, match="key 7 "):
        guard.check_all(damaged)


def test_a_saved_row_is_compared_once_and_a_later_row_never() -> None:
    guard = ChecksumGuard(checksums(ROWS[:5]))
    guard.check(np.asarray([3]), ROWS[[3]])
    guard.check(np.asarray([3, 5, 9]), np.zeros((3, 3), np.float32))
    ChecksumGuard().check(np.asarray([0]), np.zeros((1, 3), np.float32))


def test_check_all_compares_every_row_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("index.storage.checksum_guard.ROWS_AT_ONCE", 7)
    for wrong in (0, 6, 7, 599):
        damaged = ROWS.copy()
        damaged[wrong] = 0
        with pytest.raises(DamagedKeys, match=f"key {wrong} "):
            ChecksumGuard(checksums(ROWS)).check_all(damaged)
    ChecksumGuard(checksums(ROWS)).check_all(ROWS)
