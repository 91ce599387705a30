"""The rank of a past query: which past queries memory drops first when it has a limit on its bytes (decision 0029).

Sees the confirmations of one query. The rank depends on nothing else: not on other queries, the day or the model. All
grades halve in a half-life, so the order of two ranks stays the same from day to day.
"""

from collections.abc import Iterable, Sequence
from math import inf, log2

from index.memory.click_worth import ClickWorth
from index.memory.confirmation import Confirmation
from index.memory.exact import exact_rating
from index.memory.grades import DAY, Bounds, DecayClock, Grader, grade_sums

Rank = tuple[bool, float, float, str]
"""Ascending: the past query with the greatest rank is dropped first. See `rank_of`."""
ANY_POSITION = ClickWorth((1.0,))
"""Every click has the same worth, so a new champion changes no rank."""
PAST_QUERY_BYTES = 2000
"""Bytes of a past query without its vectors and confirmations: names, entries of tables, its place in the order.
Rounded up from a measurement."""
CONFIRMATION_BYTES = 1500
"""Bytes of a confirmation of a client and a pair of its own; rounded up from the same measurement."""


def rank_of(query_key: str, confirmations: Iterable[Confirmation], half_life_days: int | None, bounds: Bounds) -> Rank:
    """Return (no judgment gives an exact rating, -strength, -latest moment, query key).

    strength: log2 of the greatest absolute grade of a document, plus the time of the latest confirmation in
    half-lives. A grade of twice the size therefore counts as much as a confirmation one half-life later.
    """
    by_row: dict[int, list[Confirmation]] = {}
    for each in confirmations:
        by_row.setdefault(each.row, []).append(each)
    latest = max(each.moment for of_row in by_row.values() for each in of_row)
    grader = Grader(DecayClock(latest // DAY, half_life_days), ANY_POSITION)
    grade = max(_grade(of_row, grader, bounds) for of_row in by_row.values())
    half_lives = latest // DAY / half_life_days if half_life_days else 0.0
    strength = log2(grade) + half_lives if grade > 0 else -inf
    exact = any(exact_rating(of_row) > 0 for of_row in by_row.values() if any(each.judged for each in of_row))
    return not exact, -strength, -latest, query_key


def _grade(of_row: Sequence[Confirmation], grader: Grader, bounds: Bounds) -> float:
    """Return the absolute grade of one document."""
    if len(of_row) == 1:
        return abs(grader.grade(of_row[0]))
    return abs(grade_sums(of_row, grader, bounds).total)


def bytes_of(dim: int, confirmations: int) -> int:
    """Return the bytes of a past query with a vector (dim,) and so many confirmations, at most in the long run.

    Three vectors: one of the confirmations, and two in the arrays that searches read, because a forgotten vector stays
    there until half of the vectors are forgotten. Two codes of 4 bits for every two numbers (three, if D is a multiple
    of 3) for the same reason.
    """
    return 3 * 4 * dim + dim // 2 + PAST_QUERY_BYTES + CONFIRMATION_BYTES * confirmations
