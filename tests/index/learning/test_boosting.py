"""Boosted trees learn what linear weights cannot, and their conversion predicts what LightGBM predicts."""

import numpy as np

from index.learning.boosting import PARAMETERS, Scored, boost

QUERIES, DOCUMENTS = 120, 12


def scored(seed: int = 0, teachable: bool = True) -> Scored:
    """Return queries whose right documents have exactly one of two features, which no linear weights express."""
    random = np.random.default_rng(seed)
    features = random.integers(0, 2, (QUERIES * DOCUMENTS, 3)).astype(np.float32)
    grades = (features[:, 0] != features[:, 1]).astype(np.int64)
    if not teachable:
        random.shuffle(grades)
    counts = np.full(QUERIES, DOCUMENTS)
    return Scored(features, np.zeros(len(grades), np.float32), grades, counts, np.ones(QUERIES, np.float32))


def test_trees_learn_that_exactly_one_of_two_features_is_right() -> None:
    data, fresh = scored(seed=0), scored(seed=1)
    values = boost(data, 60, 0)(fresh.features)
    right, wrong = values[fresh.grades == 1], values[fresh.grades == 0]
    assert right.min() > wrong.max()


def test_converted_trees_predict_what_lightgbm_predicts() -> None:
    random = np.random.default_rng(3)
    features = random.normal(size=(QUERIES * DOCUMENTS, 6)).astype(np.float32)
    grades = (features[:, 0] * features[:, 1] + 0.3 * features[:, 2] > 0.4).astype(np.int64)
    counts = np.full(QUERIES, DOCUMENTS)
    data = Scored(features, np.zeros(len(grades), np.float32), grades, counts, np.ones(QUERIES, np.float32))
    trees = boost(data, 30, 5)
    import lightgbm  # after torch, which `boost` has loaded: they share an OpenMP library

    model = lightgbm.train(
        PARAMETERS | {"seed": 5, "label_gain": [0, 1]},
        lightgbm.Dataset(features, grades, group=counts, init_score=np.zeros(len(grades)), weight=np.ones(len(grades))),
        30,
    )
    fresh = random.normal(size=(500, 6)).astype(np.float32)
    assert len(trees) == 30
    assert np.allclose(trees(fresh), model.predict(fresh), atol=1e-6)


def test_the_same_queries_and_seed_give_the_same_bits() -> None:
    one, other = boost(scored(), 20, 7), boost(scored(), 20, 7)
    for name, values in one.parameters().items():
        assert values.tobytes() == other.parameters()[name].tobytes()


def test_without_a_right_document_there_are_no_trees() -> None:
    data = scored()
    nothing = Scored(data.features, data.logits, np.zeros_like(data.grades), data.counts, data.confidence)
    assert len(boost(nothing, 20, 0)) == 0
