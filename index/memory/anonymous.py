"""What confirmations leave when their events expire: grades by past query, document and day, without any person.

Sees the confirmations that expire. The texts of queries become hashes; clients and positions are dropped.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import fsum

from index.memory.confirmation import Confirmation
from index.memory.grades import DAY, DecayClock, Grader, opinion
from index.memory.query_key import anonymous_key, is_anonymous
from index.records import Floats

UNAGED = Grader(DecayClock(0))
"""Gives a confirmation without a position its own grade."""


@dataclass(frozen=True, eq=False)
class AnonymousConfirmation:
    """The sum of the grades that a document got for a past query on one day.

    name: the anonymous key of the query. vector: the vector (D,) of the query. day: days since 1970, UTC.
    """

    name: str
    row: int
    day: int
    grade: float
    vector: Floats


def anonymous(expired: Iterable[Confirmation]) -> list[AnonymousConfirmation]:
    """Return the anonymous confirmations of these confirmations by events, ordered by name, row and day.

    A client counts once for each query and document, as in memory: its strongest grade with the sign of its latest, on
    the day of its latest. Events without a client count one by one. Sums of 0 are left out.
    """
    by_client: dict[tuple[str, int, str | int], list[Confirmation]] = {}
    for each in expired:
        client = each.id if each.client is None else each.client
        name = each.query_key if is_anonymous(each.query_key) else anonymous_key(each.query_key, each.tenant)
        by_client.setdefault((name, each.row, client), []).append(replace(each, position=None))
    grades: dict[tuple[str, int, int], list[float]] = {}
    vectors: dict[str, Floats] = {}
    for (name, row, _), confirmations in by_client.items():
        latest = max(confirmations, key=lambda each: (each.moment, each.vector.tobytes()))
        vectors[name] = min(vectors.get(name, latest.vector), latest.vector, key=lambda vector: vector.tobytes())
        grades.setdefault((name, row, latest.moment // DAY), []).append(opinion(confirmations, UNAGED))
    summed = {place: fsum(grades[place]) for place in sorted(grades)}
    return [AnonymousConfirmation(*place, grade, vectors[place[0]]) for place, grade in summed.items() if grade]
