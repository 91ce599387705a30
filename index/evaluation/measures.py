"""Measures of ranked lists against judgments, with ir-measures. A judged query without results has the value zero."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from numbers import Real

import ir_measures
from ir_measures.providers import FallbackProvider

from index.errors import InvalidArgument
from index.evaluation.significance import Comparison, compare

Qrels = Mapping[str, Mapping[str, int]]
"""Query -> document -> grade. A grade above zero means relevant."""
Run = Mapping[str, Sequence[str]]
"""Query -> documents, best first."""

DEFAULT_MEASURES = ("nDCG@10", "R@100")
PROVIDER = FallbackProvider(  # type: ignore[no-untyped-call]
    [one for one in ir_measures.DefaultPipeline.providers if one is not ir_measures.gdeval]
)
"""The installed providers of ir-measures but gdeval, which starts a Perl program that the package lacks."""

MOST = 2**31 - 1
"""The greatest cut-off and the greatest grade that pytrec-eval takes."""


def parse_measure(name: str) -> ir_measures.Measure:
    """Return the measure that prints as `name`, such as nDCG@10 or R@100.

    Raises InvalidArgument for a name that ir-measures does not know, and for a measure that no installed provider
    computes, such as R without a cut-off.
    """
    try:
        measure = ir_measures.parse_measure(name)
        str(measure)  # ir-measures finds an unknown parameter only when the measure prints
        is_supported = PROVIDER.supports(measure)  # type: ignore[no-untyped-call]
    except (NameError, ValueError, TypeError, SyntaxError, KeyError, AttributeError, AssertionError) as error:
        raise InvalidArgument(f"unknown measure {name!r}") from error
    numbers = (measure.params.get(of, 1) for of in ("cutoff", "rel"))
    if not is_supported or not all(type(one) is int and 1 <= one <= MOST for one in numbers):
        raise InvalidArgument(f"the measure {name!r} cannot be computed")  # pytrec-eval aborts at a cut-off of 0
    return measure


def measure_run(run: Run, qrels: Qrels, names: Sequence[str] = DEFAULT_MEASURES) -> dict[str, dict[str, float]]:
    """Return measure -> query -> value, for every query of qrels that has a relevant document.

    Only the order of the run counts: scores are made from the ranks, so there are no ties. Raises InvalidArgument for a
    grade that is not a whole number of at most 31 bits.
    """
    whole = {query: {document: _whole(grade) for document, grade in of.items()} for query, of in qrels.items()}
    judged = {query: grades for query, grades in whole.items() if any(grade > 0 for grade in grades.values())}
    measures = {name: parse_measure(name) for name in names}
    values = {name: dict.fromkeys(judged, 0.0) for name in names}
    if not judged:
        return values
    scored = {
        query: {document: float(-rank) for rank, document in enumerate(run[query])}
        for query in judged
        if run.get(query)
    }
    for metric in PROVIDER.iter_calc(list(set(measures.values())), judged, scored):
        for name in (name for name, measure in measures.items() if measure == metric.measure):
            values[name][metric.query_id] = float(metric.value)
    return values


def _whole(grade: object) -> int:
    """Return a grade as the integer that pytrec-eval takes. Raises InvalidArgument."""
    with suppress(OverflowError):  # of an integer that no float can hold
        if isinstance(grade, Real) and (number := float(grade)).is_integer() and abs(number) <= MOST:
            return int(number)
    raise InvalidArgument(f"a grade is {grade!r}; a measure takes whole numbers up to {MOST}")


def compare_runs(a: Run, b: Run, qrels: Qrels, names: Sequence[str] = DEFAULT_MEASURES) -> dict[str, Comparison]:
    """Return the paired comparison of two runs on every measure."""
    left, right = measure_run(a, qrels, names), measure_run(b, qrels, names)
    return {name: compare(name, left[name], right[name]) for name in names}
