"""Peers get the signals of our search through files. A later run may add the measurements that are missing."""

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from benchmarks import quality_tables, report
from benchmarks.baselines import BASELINES, gather
from benchmarks.collections import ingest
from benchmarks.learning import Measuring, Plan, measure_set
from benchmarks.markdown import share
from benchmarks.measurements import Measurements
from benchmarks.peers import Task
from benchmarks.peers.material import SPLIT_ARRAYS, Material, Split
from benchmarks.peers.ranking import best, fused
from index.encoding.encoder import HashingEncoder
from index.records import Floats
from service.runtime.collection_settings import CollectionSettings
from service.runtime.runtime import Runtime
from service.settings import Settings
from tests.benchmarks.sets import animals

KEYS = ["title", "passage", "sentence"]


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Material]:
    encoder, one = HashingEncoder(), animals()
    runtime = Runtime.open(Settings(data=tmp_path_factory.mktemp("data")), encoder)
    try:
        state = runtime.create_collection("set", CollectionSettings(keys=KEYS))
        ingest(runtime, state, one.documents)
        yield gather(runtime, state, one, whole=True)
    finally:
        runtime.close()


def test_a_peer_reads_the_material_that_was_saved(material: Material, tmp_path: Path) -> None:
    material.save(tmp_path)
    read = Material.load(tmp_path)
    assert {field.name for field in fields(Split)} == {"queries", "texts", *SPLIT_ARRAYS}
    for mine, theirs in ((material.train, read.train), (material.test, read.test)):
        assert (mine.queries, mine.texts) == (theirs.queries, theirs.texts)
        assert all(np.array_equal(getattr(mine, array), getattr(theirs, array)) for array in SPLIT_ARRAYS)
    assert read.ids == material.ids
    assert np.array_equal(read.tokens, material.tokens)
    assert np.array_equal(read.first_token, material.first_token)
    assert not [path for path in tmp_path.iterdir() if path.suffix not in {".npy", ".json"}]


def test_sequence_features_come_last_and_are_highest_for_adjacent_words(
    material: Material,
) -> None:
    pytest.importorskip("Stemmer", reason="of the extra `peers`")
    from benchmarks.peers.features import FEATURES, IN_SEQUENCE, Features

    block = np.array([1, 3])
    plain = Features(material).of(material.test, block, 5, training=False)
    pairs = Features(material, in_sequence=True).of(material.test, block, 5, training=False)
    assert np.array_equal(pairs.values[:, : len(FEATURES)], plain.values)
    assert pairs.values.shape[1] == len(FEATURES) + len(IN_SEQUENCE)
    for row, query in enumerate(block):
        (answer,) = animals().test[material.test.queries[query]]  # the only document with animal and doing side by side
        mine = pairs.rows == row
        answers = pairs.doc_indices[mine] == material.ids.index(answer)
        coverage, proximity, phrase = pairs.values[mine, len(FEATURES) :].T
        assert answers.sum() == 1
        for measure in (coverage, proximity, phrase):
            assert measure[answers] > measure[~answers].max()
        assert np.all((coverage >= proximity) & (proximity >= 0) & (coverage <= 1))


class AllAlike:
    """Trees that give every document the same score."""

    def predict(self, values: Floats, num_threads: int) -> Floats:
        return np.zeros(len(values), np.float32)


def test_equal_scores_of_trees_keep_the_order_of_the_fixed_fusion(material: Material) -> None:
    pytest.importorskip("Stemmer", reason="of the extra `peers`")
    from benchmarks.peers.lambdamart import LambdaMart

    peer = LambdaMart(material, Task())
    peer._model = AllAlike()
    test = material.test
    wanted = best(fused(material.fusion, np.asarray(test.dense), np.asarray(test.words)), len(material.ids))
    assert np.array_equal(peer.rank()["lambdamart"], wanted)
    assert not np.array_equal(wanted, np.sort(wanted, axis=1))


def test_ours_can_be_left_out_and_measured_by_a_later_run(tmp_path: Path) -> None:
    one, task = animals(), Task(encoder="hashing")
    console = Console(quiet=True)
    first = Measuring(
        one, Plan(KEYS, [0, 1], ["kernel"], task, ours=False), Measurements(tmp_path / "out.json"), console
    )
    measure_set(first, HashingEncoder())
    kept = Measurements(tmp_path / "out.json")
    assert set(kept.sets["animals"]["systems"]) == {*BASELINES, "kernel"}
    systems = [*BASELINES, "kernel"]
    figures = {"sets": report.summary(kept, ["animals"], systems), "mean": report.over_sets(kept, ["animals"], systems)}
    shown = quality_tables.learning_peers(figures)
    assert all(f"| {name} | {share(figures['mean'][name]['nDCG@10'])}" in shown for name in systems)
    later = Measuring(one, Plan(KEYS, [0, 1], ["kernel"], task), kept, console)
    assert later.missing_ours() == [0, 1]
    assert not later.missing_peers()
    assert not later.missing_baselines()
