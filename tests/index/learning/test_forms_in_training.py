"""A trial with every form of attention: it improves on the initial head and gives the same bits twice."""

import numpy as np
import pytest

from index.generation.generation import Generation
from index.learning.config import FitConfig, Recipe
from index.learning.examples import Example, Feedback, make_examples
from index.learning.trainer import TrainingSplit, Trial, run_trial
from index.ranking import attention
from index.ranking.attention import EVIDENCE, HeadConfig
from index.ranking.score_functions import FORMS
from tests.index.fixtures import generation_of, passages, random_vectors

DIM, COUNT = 8, 40
VECTORS = random_vectors(COUNT, DIM, seed=0)
TURN = Recipe("projection", query_projection=True, learning_rate=2e-2, rank=DIM)
EPOCHS = 30
"""The additive form needs them: a rotation of the query is one matrix in other forms and many hidden units in it."""


def initial(form: str) -> HeadConfig:
    """Return a head that uses passages only."""
    beta = tuple(float(name == "passage") for name in EVIDENCE)
    return HeadConfig(DIM, heads=2, form=form, beta=beta, inverse_temperature=10.0)


@pytest.fixture(scope="module")
def generation(tmp_path_factory: pytest.TempPathFactory) -> Generation:
    """Documents of one passage each, without words."""
    documents = [passages(row, "", VECTORS[row]) for row in range(COUNT)]
    return generation_of(tmp_path_factory.mktemp("training") / "index", documents, (), DIM)


def shifted(generation: Generation, count: int, seed: int) -> list[Example]:
    """Return queries near their relevant document, with their axes shifted by one.

    An untrained form finds nothing relevant; a query projection that shifts the axes back finds all.
    """
    random, feedback = np.random.default_rng(seed), []
    for number in range(count):
        row = int(random.integers(COUNT))
        vector = np.roll(VECTORS[row], 1) + 0.3 * random.normal(size=DIM) / DIM**0.5
        vector = (vector / np.linalg.norm(vector)).astype(np.float32)
        feedback.append(Feedback(f"query {seed} {number}", "", vector, {row: 1.0}))
    return make_examples(generation, feedback, lambda vector: vector[None], COUNT)


def tried(generation: Generation, form: str, recipe: Recipe, epochs: int) -> Trial:
    """Return the trial of a recipe, measured on queries that it was not trained on."""
    config = FitConfig(batch_queries=16, candidates=COUNT, epochs=epochs, patience=epochs)
    validation = shifted(generation, 25, seed=2)
    qrels = {one.feedback.query_key: {str(row): 1 for row in one.feedback.gains} for one in validation}
    split = TrainingSplit(shifted(generation, 120, seed=1), validation, qrels)
    steps = run_trial(generation, split, initial(form), recipe, epochs, config)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            trial: Trial = end.value
            return trial


@pytest.mark.parametrize("form", FORMS)
def test_a_trial_learns_the_query_projection_to_the_answers(generation: Generation, form: str) -> None:
    before = tried(generation, form, Recipe("initial", weights=False), 0)
    after = tried(generation, form, TURN, EPOCHS)
    assert after.head.config.form == form
    assert np.mean(list(after.measured.values())) > np.mean(list(before.measured.values())) + 0.5


@pytest.mark.parametrize("form", FORMS)
def test_a_trial_gives_the_same_bits_twice(generation: Generation, form: str) -> None:
    one, same = (tried(generation, form, TURN, 2).head.parameters_by_name() for _ in range(2))
    assert one.keys() == same.keys()
    assert all(np.array_equal(one[name], same[name]) for name in one)


@pytest.mark.parametrize("recipe", [Recipe("weights"), TURN])
def test_a_trial_computes_no_null_slot(generation: Generation, monkeypatch: pytest.MonkeyPatch, recipe: Recipe) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a trial reads the logits of the candidates alone")

    monkeypatch.setattr(attention, "null_logit", refuse)
    assert tried(generation, "bilinear", recipe, 1).epochs == 1
