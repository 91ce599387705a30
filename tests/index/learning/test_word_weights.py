"""The weights of corrected and completed words are multiples of the weight of exact words, and are learned too."""

from dataclasses import replace

import numpy as np
import pytest

from index.generation.generation import Generation
from index.learning.config import Recipe
from index.learning.examples import Example, make_examples
from index.learning.trainer import TrainingSplit, run_trial
from index.ranking.attention import EVIDENCE, AttentionHead, HeadConfig
from index.records import LEXICAL
from tests.index.learning_fixtures import CONFIG, COUNT, INITIAL, asked, collection_of, finished, only


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Generation:
    return collection_of(tmp_path_factory.mktemp("collection"))


def examples(collection: Generation, helpful: str) -> list[Example]:
    """Return examples whose relevant documents have this part of the evidence by words, and the others have not."""
    made = make_examples(collection, asked(shifted=True), lambda vector: vector[None], COUNT)
    found = []
    for one in made:
        words = np.zeros((len(one.gains), len(LEXICAL)), np.float32)
        words[:, LEXICAL.index(helpful)] = one.gains > 0
        found.append(replace(one, candidates=replace(one.candidates, words=words)))
    return found


def weights(head: AttentionHead) -> dict[str, float]:
    return dict(zip(EVIDENCE, head.beta.tolist(), strict=True))


def trained(collection: Generation, initial: HeadConfig, helpful: str) -> dict[str, float]:
    data = TrainingSplit(examples(collection, helpful), (), {})
    return weights(finished(run_trial(collection, data, initial, Recipe("weights"), 3, CONFIG))[0].head)


@pytest.mark.parametrize("others", [{"corrected": 0.4, "completed": 0.4}, {"corrected": 0.1, "completed": 0.6}])
def test_without_such_words_their_weights_are_the_same_multiples(
    collection: Generation, others: dict[str, float]
) -> None:
    initial = replace(INITIAL, beta=only(passage=1.0, words=0.4, **others))
    learned = trained(collection, initial, "words")
    assert learned["words"] > 0.5
    for name, before in others.items():
        assert learned[name] / learned["words"] == pytest.approx(before / 0.4, rel=1e-4)


def test_corrected_words_learn_beside_exact_words(collection: Generation) -> None:
    initial = replace(INITIAL, beta=only(passage=1.0, words=0.4, corrected=0.4, completed=0.4))
    learned = trained(collection, initial, "corrected")
    assert learned["corrected"] / learned["words"] > 1.2
    assert learned["completed"] / learned["words"] == pytest.approx(1, rel=1e-4)


def test_weights_of_their_own_where_exact_words_have_none(collection: Generation) -> None:
    initial = replace(INITIAL, beta=only(passage=1.0, words=0.0, completed=0.4))
    learned = trained(collection, initial, "corrected")
    assert learned["completed"] == pytest.approx(0.4, rel=1e-4)
    assert learned["corrected"] > 0.05
