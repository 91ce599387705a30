"""The choice of g of the context: above 0 only where contexts tell what users want."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from index.evaluation.significance import Check, Decision
from index.generation.generation import Generation
from index.learning import context_selection
from index.learning.context_selection import measured, not_worse_in_context, reranked
from index.learning.examples import Feedback, InContext, split
from index.learning.fit import Fitted
from index.learning.model_selection import RECIPES
from index.ranking.attention import AttentionHead
from index.records import Floats
from tests.index.fixtures import generation_of, passages, random_vectors, unit
from tests.index.learning_fixtures import ALL_FOLDS, CONFIG, INITIAL, run
from tests.index.ranking.attention_by_hand import only

WIDTH, TOPICS = 48, 20
CHAMPION = AttentionHead(replace(INITIAL, dim=WIDTH, inverse_temperature=20.0, beta=only(passage=1.0)))


EVEN = np.ones(10, np.float32)
"""An examination curve of users that look at every position."""


@pytest.fixture
def senses(tmp_path: Path) -> tuple[Generation, Floats]:
    """Return the documents and the queries of topics with two senses.

    The documents 2 t and 2 t + 1 answer query t in its first and second sense. The documents 2 TOPICS + 2 t and the
    next are of the same senses and far from the query: sessions begin with them.
    """
    queries = random_vectors(TOPICS, WIDTH, seed=1)
    sides = random_vectors(2 * TOPICS, WIDTH, seed=2)
    answers = [unit(*(queries[at // 2] + 0.8 * side)) for at, side in enumerate(sides)]
    documents = [passages(row, "", vector) for row, vector in enumerate([*answers, *sides])]
    return generation_of(tmp_path, documents, dim=WIDTH), queries


def log_of(queries: Floats, telling: bool, seed: int = 3) -> list[Feedback]:
    """Return queries with a click on the answer of a sense, after an action on a document of that or of any sense."""
    random = np.random.default_rng(seed)
    feedback = []
    for number in range(120):
        topic, sense, other = number % TOPICS, int(random.integers(2)), int(random.integers(2))
        vector = unit(*(queries[topic] + 0.05 * random.normal(size=WIDTH)))
        answers = [2 * topic, 2 * topic + 1]
        begun = 2 * TOPICS + 2 * topic + (sense if telling else other)
        each = InContext((begun,), {row: at for at, row in enumerate(random.permutation(answers).tolist(), 1)},
                         frozenset({answers[sense]}))  # fmt: skip
        feedback.append(Feedback(f"query {number}", "", vector, dict.fromkeys(answers, 1.0), contexts=(each,)))
    return feedback


def fitted(generation: Generation, feedback: list[Feedback], champion: AttentionHead = CHAMPION) -> Fitted:
    config = replace(CONFIG, cross_validation_queries=ALL_FOLDS, candidates=20, trees=(), hops=())
    return run(generation, feedback, config, champion, recipes=RECIPES[:1])[0]


def test_a_fit_learns_a_context_that_tells_what_users_want(senses: tuple[Generation, Floats]) -> None:
    generation, queries = senses
    one = fitted(generation, log_of(queries, telling=True))
    report = one.report["context"]
    assert report["chosen"] == report["selected"] > 0
    assert report["tried"][f"{report['chosen']:g}"] > report["tried"]["0"] + 0.05
    assert report["held_out"]["difference"] > 0.05
    assert float(one.head.context) == pytest.approx(report["chosen"])
    assert one.report["head"]["context"] == pytest.approx(report["chosen"])
    again = fitted(generation, log_of(queries, telling=True))
    assert again.report["context"] == report


def test_a_fit_learns_no_context_that_tells_nothing(senses: tuple[Generation, Floats]) -> None:
    generation, queries = senses
    one = fitted(generation, log_of(queries, telling=False))
    assert one.report["context"]["chosen"] == 0
    assert one.report["context"]["queries"] > 50
    assert float(one.head.context) == 0


def test_a_selected_context_that_held_out_queries_do_not_confirm_is_not_kept(senses: tuple[Generation, Floats]) -> None:
    generation, queries = senses
    telling, misleading = log_of(queries, telling=True), log_of(queries, telling=False, seed=8)
    held_out = {one.query_key for one in split(telling)[1]}
    mixed = [other if one.query_key in held_out else one for one, other in zip(telling, misleading, strict=True)]
    report = fitted(generation, mixed).report["context"]
    assert report["selected"] > 0
    assert report["chosen"] == 0
    assert report["held_out"]["queries"] == len(held_out)


def test_a_log_without_contexts_costs_no_search(
    senses: tuple[Generation, Floats], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise AssertionError("a search in context")

    monkeypatch.setattr(context_selection, "search", refused)
    generation, queries = senses
    report = fitted(generation, [replace(one, contexts=()) for one in log_of(queries, True)]).report["context"]
    assert report == {"chosen": 0.0, "selected": 0.0, "queries": 0, "tried": {}, "held_out": None}


def test_a_list_is_measured_in_the_order_of_the_search_in_its_context(senses: tuple[Generation, Floats]) -> None:
    generation, queries = senses
    one = log_of(queries, telling=True)[0]
    (each,) = one.contexts
    (wanted,) = each.clicked
    order = reranked(generation, CHAMPION.changed(context=1.0), one, each)
    assert sorted(order) == sorted(each.shown)
    assert order[0] == wanted
    assert measured(generation, [one], lambda _: CHAMPION, EVEN, 1.0) == {one.query_key: 1.0}


def test_a_click_weighs_by_the_inverse_of_its_propensity(senses: tuple[Generation, Floats]) -> None:
    generation, queries = senses
    (each,) = log_of(queries, telling=True)[0].contexts
    (wanted,) = each.clicked
    (other,) = each.shown.keys() - {wanted}
    both = (InContext(each.context, {wanted: 2, other: 1}, frozenset({wanted})),
            InContext(each.context, {wanted: 2, other: 1}, frozenset({other})))  # fmt: skip
    one = replace(log_of(queries, telling=True)[0], contexts=both)
    curve = np.asarray([1.0, 0.25], np.float32)
    expected = (4 * 1 + 1 / np.log2(3)) / 5
    assert measured(generation, [one], lambda _: CHAMPION, curve, 1.0)[one.query_key] == pytest.approx(expected)


def test_a_list_of_deleted_documents_counts_as_zero(senses: tuple[Generation, Floats]) -> None:
    generation, queries = senses
    gone = InContext((9999,), {9998: 1}, frozenset({9998}))
    one = replace(log_of(queries, telling=True)[0], contexts=(gone,))
    assert measured(generation, [one], lambda _: CHAMPION, EVEN, 1.0) == {one.query_key: 0.0}


def test_a_challenger_must_not_be_worse_in_context_than_a_champion_that_uses_it(
    senses: tuple[Generation, Floats],
) -> None:
    generation, queries = senses
    feedback = log_of(queries, telling=True)
    drawing = CHAMPION.changed(context=1.0)
    assert not_worse_in_context(generation, CHAMPION, drawing, feedback, EVEN, CONFIG) is None
    assert not_worse_in_context(generation, drawing, CHAMPION, [], EVEN, CONFIG) is None
    worse = not_worse_in_context(generation, drawing, CHAMPION, feedback, EVEN, CONFIG)
    same = not_worse_in_context(generation, drawing, drawing, feedback, EVEN, CONFIG)
    assert worse is not None
    assert not worse.passed
    assert same is not None
    assert same.passed


def test_a_further_check_can_only_refuse() -> None:
    passed, failed = Check("a", True, "a"), Check("b", False, "b")
    decision = Decision(True, (passed,))
    assert decision.with_check(None) == decision
    assert decision.with_check(passed).promote
    assert decision.with_check(failed) == Decision(False, (passed, failed))
    assert not Decision(False, ()).with_check(passed).promote
