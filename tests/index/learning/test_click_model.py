"""The counts that the click model is estimated from."""

import numpy as np

from index.learning.click_model import count_clicks
from index.learning.examples import Feedback
from index.memory.click_worth import POSITIONS

VECTOR = np.zeros(2, np.float32)


def clicked(
    query_key: str, shown: dict[int, dict[int, int]], clicks: dict[int, dict[int, int]], grade: float = 1.0
) -> Feedback:
    """Return the feedback of a query with equal gains for all clicks."""
    gains = {row: grade * sum(at.values()) for row, at in clicks.items()}
    return Feedback(query_key, query_key, VECTOR, gains, shown, clicks)


def test_impressions_and_clicks_are_counted_per_query() -> None:
    log = [
        clicked("a", {7: {1: 3, 500: 2}, 8: {2: 1}}, {7: {1: 2}}),
        clicked("b", {7: {1: 4}}, {7: {1: 9}}),
        Feedback("judged", "judged", VECTOR, {7: 1.0}),
    ]
    counts = count_clicks(log)
    assert counts.pair.tolist() == [0, 0, 1, 2]
    assert counts.rank.tolist() == [0, POSITIONS - 1, 1, 0]
    assert counts.shown.tolist() == [3.0, 2.0, 1.0, 4.0]
    assert counts.clicks.tolist() == [2.0, 0.0, 0.0, 4.0]
    assert counts.swapped().shown.tolist() == [3.0, 2.0]
