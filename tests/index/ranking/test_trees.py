"""Trees correct a logit by a part of its own, which is stored in the model file and explained with the others."""

from pathlib import Path

import numpy as np
import pytest

from index.ranking.attention import EVIDENCE, PARTS, AttentionHead, HeadConfig
from index.ranking.checkpoint import load_head, save_head
from index.ranking.explanation import explain_parts
from index.ranking.retrieval import Mode, Query
from index.ranking.search import Ranking, search
from index.ranking.trees import Trees, no_trees, tree_features
from index.records import FACTS, SIGNALS
from tests.index.fixtures import ENCODER, generation_of, vector_of, written

DOCUMENTS = [written(row, text) for row, text in enumerate(["red shoe", "red", "blue hat", "red shoe in blue"])]
HEAD = AttentionHead(HeadConfig(dim=ENCODER.dim))
WORDS = EVIDENCE.index("words")
NEVER = -np.inf


def tree(feature: int, threshold: float, above: float) -> Trees:
    """Return one tree with one split: `above` where the feature exceeds the threshold, else 0."""
    value = [above if outcome % 2 == 0 else 0.0 for outcome in range(8)]
    return Trees(
        np.asarray([[feature, 0, 0]], np.float32),
        np.asarray([[threshold, NEVER, NEVER]], np.float32),
        np.asarray([value], np.float32),
    )


def ranked(directory: Path, head: AttentionHead, mode: Mode = Mode.HYBRID) -> Ranking:
    text = "red shoe"
    return search(generation_of(directory, DOCUMENTS), head, Query(text, vector_of(text), mode=mode, count=10))


def test_a_tree_is_the_table_of_its_comparisons() -> None:
    table = np.arange(8, dtype=np.float32)[None]
    trees = Trees(np.asarray([[0, 1, 0]], np.float32), np.asarray([[0.5, 0.5, 2.0]], np.float32), table)
    features = np.asarray([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [3.0, 1.0], [0.5, 0.5]], np.float32)
    assert trees(features).tolist() == [7, 6, 4, 0, 7]


def test_trees_add_up() -> None:
    one, other = tree(0, 0.0, 1.0), tree(1, 0.0, 10.0)
    both = Trees(
        *(np.concatenate(pair) for pair in zip(one.parameters().values(), other.parameters().values(), strict=True))
    )
    features = np.asarray([[-1, -1], [1, -1], [1, 1]], np.float32)
    assert both(features).tolist() == [0, 1, 11]
    assert both.first(1)(features).tolist() == [0, 1, 1]
    assert no_trees()(features).tolist() == [0, 0, 0]


def test_features_are_evidence_distances_facts_and_signals() -> None:
    random = np.random.default_rng(0)
    evidence, logits = random.random((1, 3, 2)).astype(np.float32), np.asarray([[1.0, 3.0, 0.0]], np.float32)
    facts, signals = random.random((1, len(FACTS))), random.random((1, 3, len(SIGNALS)))
    features = tree_features(evidence, logits, facts, signals, np.asarray([[True, True, False]]))
    assert features.shape == (1, 3, 2 + 3 + len(FACTS) + len(SIGNALS))
    assert np.allclose(features[0, :, :2], evidence[0])
    assert np.allclose(features[0, :2, 2:4], evidence[0, :2] - evidence[0, :2].max(axis=0))
    assert features[0, :, 4].tolist() == [-2, 0, 0]


def test_the_part_of_the_trees_adds_up_with_the_others_to_the_logit(tmp_path: Path) -> None:
    plain, grown = ranked(tmp_path / "a", HEAD), ranked(tmp_path / "b", HEAD.grown(tree(WORDS, 0.9, 2.5)))
    assert list(explain_parts(plain, 0)) == list(EVIDENCE)
    parts = [explain_parts(grown, rank) for rank in range(len(grown.logits))]
    assert {tuple(one) for one in parts} == {(*EVIDENCE, "trees")}
    assert {one["trees"] for one in parts} == {0.0, 2.5}
    for rank, one in enumerate(parts):
        assert sum(one.values()) == pytest.approx(grown.logits[rank], abs=1e-4)
        assert (one["trees"] > 0) == (grown.candidates.words[:, 0] > 0.9)[
            grown.candidates.doc_indices.tolist().index(grown.doc_indices[rank])
        ]
    assert grown.weights.sum() + grown.null_weight == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("mode", list(Mode))
def test_trees_count_where_all_evidence_is_there(tmp_path: Path, mode: Mode) -> None:
    signal = PARTS.index("trees") + len(EVIDENCE) + 1 + len(FACTS) + SIGNALS.index("length")
    ranking = ranked(tmp_path, HEAD.grown(tree(signal, 0.0, 1.0)), mode)
    assert (ranking.parts.shape[1] == PARTS.index("trees") + 1) == (mode is Mode.HYBRID)


def test_a_head_with_trees_is_saved_and_loaded(tmp_path: Path) -> None:
    head = HEAD.grown(tree(WORDS, 0.5, 1.5))
    save_head(tmp_path / "model", head, {})
    loaded = load_head(tmp_path / "model")
    assert loaded.config.trees == 1
    before, after = ranked(tmp_path / "a", head), ranked(tmp_path / "b", loaded)
    assert before.logits.tobytes() == after.logits.tobytes()


def test_trees_can_be_taken_off_again(tmp_path: Path) -> None:
    bare = HEAD.grown(tree(WORDS, 0.5, 1.5)).grown(no_trees())
    assert bare.config == HEAD.config
    assert ranked(tmp_path / "a", bare).logits.tobytes() == ranked(tmp_path / "b", HEAD).logits.tobytes()
