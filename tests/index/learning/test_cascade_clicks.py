"""Searchers who stop at the first document that satisfies them: the click model does not hold, and the gate must.

The documents near a query satisfy it, so a head that ranks by vectors is the best one. The words of documents and
queries are random, so a head that ranks by words is worse. Each list has documents that were never examined, because a
document above them had satisfied the searcher.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.evaluation.significance import compare
from index.generation.generation import Generation
from index.learning.click_likelihood import CLICKS, clicked_pairs, compare_clicks
from index.learning.click_model import estimate_clicks
from index.learning.clicked_ranks import RANKS
from index.learning.examples import Feedback
from index.learning.held_out import ranked_rows
from index.ranking.attention import AttentionHead
from index.records import Floats
from tests.index.fixtures import generation_of, passages, random_vectors
from tests.index.learning.test_clicked_ranks import compare_ranks
from tests.index.learning_fixtures import ALL_FOLDS, CONFIG, DIM, INITIAL, QUICK, run
from tests.index.ranking.attention_by_hand import only

DOCUMENTS, QUERIES, LISTS, SHOWN = 80, 120, 4, 10
VECTORS = random_vectors(DOCUMENTS, DIM, seed=0)
WORDS = [f"word{number}" for number in range(12)]
BEST = AttentionHead(replace(INITIAL, beta=only(passage=1.0)))
WORSE = AttentionHead(replace(INITIAL, beta=only(words=1.0)))
SATISFYING = ((0.75, 0.9), (0.45, 0.4), (-1.0, 0.05))
"""Least cosine of a document, and the probability that it satisfies."""
FORCED = replace(CONFIG, cross_validation_queries=ALL_FOLDS, error_share=-1e9)
"""Always selects a trained recipe, so that the gate alone decides."""


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Generation:
    random = np.random.default_rng(1)
    texts = [" ".join(random.choice(WORDS, 4, replace=False)) for _ in range(DOCUMENTS)]
    documents = [passages(row, text, VECTORS[row]) for row, text in enumerate(texts)]
    return generation_of(Path(tmp_path_factory.mktemp("cascade")), documents, dim=DIM)


def satisfaction(vector: Floats) -> list[float]:
    """Return the probability that each document satisfies a query."""
    return [next(chance for least, chance in SATISFYING if cosine >= least) for cosine in VECTORS @ vector]


def cascade(query: Feedback, rows: Sequence[int], random: np.random.Generator) -> Feedback:
    """Return the query with the clicks of searchers who read lists downwards and stop at the first satisfying one."""
    chances = satisfaction(query.vector)
    shown: dict[int, Counter[int]] = {row: Counter() for row in rows}
    clicks: dict[int, Counter[int]] = {}
    examined: set[int] = set()
    for _ in range(LISTS):
        order = list(rows)
        if random.random() < 0.3:
            at = int(random.integers(len(order) - 1))
            order[at : at + 2] = order[at + 1], order[at]
        for position, row in enumerate(order, 1):
            shown[row][position] += 1
        for position, row in enumerate(order, 1):
            if random.random() < chances[row]:
                clicks.setdefault(row, Counter())[position] += 1
                examined.update(order[: position + 1])
                break
    gains = {row: float(by.total()) for row, by in clicks.items()}
    vector = query.vector if gains else np.empty(0, np.float32)
    return replace(query, vector=vector, gains=gains, shown=shown, clicks=clicks, examined=frozenset(examined))


def log(collection: Generation, lists: AttentionHead, seed: int) -> list[Feedback]:
    """Return a log whose lists were made by a head."""
    random = np.random.default_rng(seed)
    found = []
    for number in range(QUERIES):
        vector = VECTORS[int(random.integers(DOCUMENTS))] + 0.6 * random.normal(size=DIM) / DIM**0.5
        vector = (vector / np.linalg.norm(vector)).astype(np.float32)
        text = " ".join(random.choice(WORDS, 2, replace=False))
        query = Feedback(f"query {number}", text, vector, {})
        rows = [int(row) for row in ranked_rows(collection, lists, query)[:SHOWN]]
        found.append(cascade(query, rows, random))
    return found


def true_ndcg(collection: Generation, head: AttentionHead, queries: Sequence[Feedback]) -> dict[str, float]:
    """Return query key -> DCG@10 of the probabilities of satisfaction, divided by the DCG@10 of the best ranking."""
    discounts = 1 / np.log2(np.arange(2, SHOWN + 2))
    found = {}
    for one in queries:
        chances = np.asarray(satisfaction(one.vector))
        best = np.asarray([int(row) for row in ranked_rows(collection, head, one)[:SHOWN]])
        ideal = np.sort(chances)[::-1][:SHOWN] @ discounts
        found[one.query_key] = float(chances[best] @ discounts[: len(best)] / ideal)
    return found


@pytest.mark.parametrize("lists", [BEST, WORSE], ids=["own lists", "lists of the worse head"])
@pytest.mark.parametrize("seed", range(3))
def test_both_measures_of_cascade_clicks_prefer_the_better_head(
    collection: Generation, lists: AttentionHead, seed: int
) -> None:
    feedback = log(collection, lists, seed)
    asked = [one for one in feedback if not one.is_silent]
    curve = estimate_clicks(feedback).examination.curve
    pairs = clicked_pairs(collection, WORSE, [(one, BEST) for one in asked], curve)
    for found in (compare_clicks(*pairs), compare_ranks(*pairs)):
        assert found.queries > 100
        assert found.low > 0


@pytest.mark.parametrize("lists", [BEST, WORSE], ids=["own lists", "lists of the worse head"])
@pytest.mark.parametrize("seed", range(2))
def test_no_worse_head_is_promoted_on_cascade_clicks(collection: Generation, lists: AttentionHead, seed: int) -> None:
    """The lists change position rarely, and with lists of the worse head the best documents are seldom shown."""
    feedback = log(collection, lists, seed)
    asked = [one for one in feedback if not one.is_silent]
    fitted, _ = run(collection, feedback, FORCED, BEST, recipes=(QUICK[0], QUICK[2]))
    assert {CLICKS, RANKS} <= fitted.report["held_out"].keys()
    true = compare("nDCG", true_ndcg(collection, BEST, asked), true_ndcg(collection, fitted.head, asked))
    assert true.difference < 0
    assert not fitted.decision.promote
