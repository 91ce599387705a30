"""Contrasts of the lists of a query, from which the examination of positions is estimated though lists follow clicks.

A document n at position p is clicked with probability examination_p x attraction_n (the position-based model, Craswell
et al. 2008). A document that a query shows at two positions has the same attraction at both, so its clicks tell the
examinations apart (Agarwal et al. 2019). But a click raises its document in the later lists of its query: the clicks
that were made at a low position are the reason why the document left it, and a rate of clicks at each position is
biased towards a flat curve. Divided by the examination of its own position, each click has the expectation attraction_n
given everything that came before it. So the difference of two such clicks has the mean zero, whatever decided the later
position, if it is weighed by what was known at the earlier one: its position. This is the moment condition of
Chamberlain (1992) and Wooldridge (1997) for multiplicative panel models with predetermined regressors.
"""

from collections.abc import Mapping, MutableMapping

from index.memory.click_worth import POSITIONS

Contrasts = tuple[tuple[int, int, float], ...]
"""The contrasts of one query. An entry has the rank of an earlier showing, the rank of a click, and the coefficient of
1 / examination at the rank of the click. Ranks are 0-based.

For each earlier rank, the sum of coefficient / examination has the mean zero at the true curve.
"""


def add_showing(
    sums: MutableMapping[int, float], earlier: Mapping[int, tuple[int, int]], position: int, clicked: bool
) -> None:
    """Add to `sums` a showing of a document beside the earlier ones for the same query.

    sums: earlier rank * POSITIONS + rank -> coefficient. earlier: 1-based position -> number of the earlier showings
    there, and of those that were clicked. The click of this showing is subtracted from their mean.
    """
    total, rank = sum(shown for shown, _ in earlier.values()), _rank(position)
    for before, (shown, clicks) in earlier.items():
        instrument = _rank(before)
        for of_click, coefficient in ((instrument, clicks / total), (rank, -shown / total if clicked else 0.0)):
            if coefficient:
                key = instrument * POSITIONS + of_click
                sums[key] = sums.get(key, 0.0) + coefficient


def _rank(position: int) -> int:
    return min(position, POSITIONS) - 1


def contrasts_of(sums: Mapping[int, float]) -> Contrasts:
    """Return the sums of `add_showing` as contrasts, in the order of their ranks."""
    return tuple((*divmod(key, POSITIONS), value) for key, value in sorted(sums.items()))
