"""Merges the confirmations of one query and document into a weight: by age, position, client, and the query's clicks.

Pure functions of confirmations. Sums are exactly rounded, so they do not depend on the order of confirmations.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import floor, fsum, log2
from types import MappingProxyType
from typing import NamedTuple

from index.memory.click_worth import ASSUMED_WORTH, ClickWorth
from index.memory.confirmation import Confirmation

DAY = 24 * 60 * 60 * 1000
"""Milliseconds of a day."""
LEVELS = 4
"""The best click grade of a query is rounded down to a level: there are so many levels between n and 2 n clicks."""


@dataclass(frozen=True)
class Bounds:
    """Limits on the share of one client, of anonymous clients, and of one document in the memory."""

    keys_per_document: int = 200
    """Memory keys of one document: those with a judgment, then those with the greatest absolute weight."""
    pairs_per_client: int = 1000
    """Pairs of query and document that the events of one client count for: the latest. Judgments are not limited."""
    anonymous_grade: float = 10.0
    """The largest absolute grade of all confirmations of one pair and tenant without a client together: ten clicks."""


@dataclass(frozen=True)
class DecayClock:
    """The current day, in days since 1970, and the half-life of a grade in days; None means no decay."""

    today: int
    half_life_days: int | None = None

    def aged(self, confirmation: Confirmation) -> float:
        """Return grade 0.5^(age / half-life); a confirmation from the future has age 0."""
        if self.half_life_days is None:
            return confirmation.grade
        age_days = max(0, self.today - confirmation.moment // DAY)
        return float(confirmation.grade * 0.5 ** (age_days / self.half_life_days))


@dataclass(frozen=True)
class Grader:
    """Gives each confirmation the grade that it counts with: by its age, and for a positive event by its position."""

    clock: DecayClock
    worth: ClickWorth = ASSUMED_WORTH

    def grade(self, confirmation: Confirmation) -> float:
        """Return the grade of a confirmation as of the clock's day."""
        aged = self.clock.aged(confirmation)
        if confirmation.judged or aged <= 0:
            return aged
        return aged * self.worth.at(confirmation.position)


NONE: Mapping[str, float] = MappingProxyType({})


class GradeSums(NamedTuple):
    """The grades of one query and document: the sum over judgments, and over the events of no tenant and of each."""

    judged: float
    clicked: float
    by_tenant: Mapping[str, float] = NONE
    """Tenant -> sum over its events."""

    @property
    def total(self) -> float:
        """The sum over judgments and all events."""
        return self.judged + fsum((self.clicked, *self.by_tenant.values()))


NO_GRADES = GradeSums(0.0, 0.0)


def weight_of(grade: float) -> float:
    """Return g / (1 + |g|), in (-1, 1): 1/2 for a click, 3/4 for a purchase, always less than two clicks."""
    return grade / (1 + abs(grade))


def grade_of(weight: float) -> float:
    """Return the grade that has this weight."""
    return weight / (1 - abs(weight))


def grade_sums(confirmations: Iterable[Confirmation], grader: Grader, bounds: Bounds) -> GradeSums:
    """Return the sums over one pair: sum_r o_r over raters, and sum_c o_c + clip(sum_a g_a, -A, A) over the clients of
    each tenant.

    o is the opinion of a rater or client, g_a the grade of an anonymous event, A `anonymous_grade`. Different clients
    add up; repetitions by one client do not.
    """
    by_name: dict[tuple[bool, str, str | None], list[Confirmation]] = {}
    for each in confirmations:
        by_name.setdefault((each.judged, each.tenant, each.client), []).append(each)
    bound = bounds.anonymous_grade
    judged: list[float] = []
    events: dict[str, list[float]] = {"": []}
    for (is_judged, tenant, client), of_one in by_name.items():
        if is_judged:
            judged.append(opinion(of_one, grader))
        elif client is None:
            anonymous = fsum(grader.grade(each) for each in of_one)
            events.setdefault(tenant, []).append(min(bound, max(-bound, anonymous)))
        else:
            events.setdefault(tenant, []).append(opinion(of_one, grader))
    sums = {tenant: fsum(grades) for tenant, grades in events.items()}
    return GradeSums(fsum(judged), sums.pop(""), sums or NONE)


def opinion(confirmations: list[Confirmation], grader: Grader) -> float:
    """Return the grade of one client for a document: its strongest confirmation with the sign of its latest.

    A dislike after clicks therefore counts as a dislike. At equal times the dislike is the latest.
    """
    if len(confirmations) == 1:
        return grader.grade(confirmations[0])
    is_dislike = max(confirmations, key=lambda each: (each.moment, each.grade < 0)).grade < 0
    return max((grader.grade(each) for each in confirmations if (each.grade < 0) == is_dislike), key=abs)


def best_clicked(sums: Iterable[GradeSums]) -> Mapping[str, float]:
    """Return tenant -> its best click grade among the documents of a query, rounded down to a level, if that is not 0.

    It changes about LEVELS log2(clicks) times in the life of a query, and only then other weights follow a click.
    """
    best: dict[str, float] = {}
    for one in sums:
        if one.clicked > best.get("", 0.0):
            best[""] = one.clicked
        for tenant, clicked in one.by_tenant.items():
            if clicked > best.get(tenant, 0.0):
                best[tenant] = clicked
    return {tenant: float(2 ** (floor(LEVELS * log2(clicked)) / LEVELS)) for tenant, clicked in best.items()} or NONE


def pair_weight(sums: GradeSums, best: Mapping[str, float]) -> float:
    """Return the weight of a pair whose query has these best click grades (`best_clicked`).

    Clicks count relative to the best document of their query and tenant: with click grades of one tenant alone the
    weight is c / (1 + best), and c / (1 + c) for the best document. So a stray click on a query with many clicks weighs
    little, and the clicks of a tenant do not weaken those of another. Dislikes and judgments count fully.
    """
    clicked = _relative(sums.clicked, best.get("", 0.0))
    if sums.by_tenant:
        clicked = fsum((clicked, *(_relative(grade, best.get(name, 0.0)) for name, grade in sums.by_tenant.items())))
    return weight_of(sums.judged + clicked)


def _relative(clicked: float, best: float) -> float:
    return clicked / (1 + max(0.0, best - clicked)) if clicked > 0 else clicked
