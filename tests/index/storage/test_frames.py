"""Frames: what is written is read, one after another."""

import numpy as np

from index.storage.frames import frame, frames


def test_frames_are_read_as_they_were_written() -> None:
    numbers = np.arange(6, dtype=np.int64).reshape(2, 3)
    names = np.asarray([b"a\0", b"bc"], "S24")
    data = frame({"kind": "first", "texts": ["é", ""]}, {"numbers": numbers, "names": names}) + frame(
        {"kind": "second"}
    )
    (first, arrays), (second, none) = frames(data)
    assert first == {"kind": "first", "texts": ["é", ""]}
    assert arrays["numbers"].dtype == np.int64
    np.testing.assert_array_equal(arrays["numbers"], numbers)
    np.testing.assert_array_equal(arrays["names"], names)
    assert second == {"kind": "second"}
    assert none == {}


def test_empty_arrays_keep_their_type_and_shape() -> None:
    ((_, arrays),) = frames(frame({}, {"none": np.empty((0, 4), np.float32)}))
    assert arrays["none"].shape == (0, 4)
    assert arrays["none"].dtype == np.float32


def test_no_data_has_no_frames() -> None:
    assert list(frames(b"")) == []
