"""A data directory of an earlier release opens, and its models rank as they did."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from index.ranking.attention import EVIDENCE
from index.ranking.checkpoint import head_files, head_of_files
from index.records import FACTS
from index.storage.files import MANIFEST, read_manifest, write_manifest
from service.runtime.model_repository import insert_model_files
from tests.service.client import CollectionClient, create, opened, runtime_of

TEXTS = {"fox": "A fox hunts at night.", "owl": "An owl hunts mice at night.", "cat": "A cat sleeps all day."}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with a collection that was saved."""
    with opened(tmp_path / "data") as client:
        animals = create(client, "animals")
        animals.add(*({"id": name, "title": name, "text": text} for name, text in TEXTS.items()))
        animals.post("judgments", {"judgments": [{"query": "pet", "document_id": "cat", "rating": 3, "rater": "ada"}]})
    return tmp_path / "data"


def ranking(data: Path) -> list[tuple[str, float, float]]:
    """Return id, logit and weight of every hit, after a start."""
    with opened(data) as client:
        return CollectionClient(client, "animals").ranking("a pet that hunts at night")


@pytest.mark.parametrize(
    ("version", "missing"),
    [(4, ("values-*", "value_checksums.npy", "title_words.npy")), (6, ("title_words.npy",))],
)
def test_an_index_of_an_earlier_format_is_rebuilt_with_the_same_ranking(
    data: Path, version: int, missing: tuple[str, ...]
) -> None:
    before = ranking(data)
    for folder in (data / "indexes").iterdir():
        manifest = read_manifest(folder)
        for path in [path for pattern in missing for path in folder.glob(pattern)]:
            path.unlink()
        names = [path.name for path in folder.glob("*.npy")]
        (folder / MANIFEST).unlink()
        write_manifest(
            folder, names, {name: manifest[name] for name in ("watermark", "dim", "language")} | {"format": version}
        )
    assert ranking(data) == before


def test_a_document_without_a_stored_value_gets_the_mean_of_its_passages(data: Path) -> None:
    with opened(data) as client:
        expected = CollectionClient(client, "animals").search("night", pooled=True)["pooled"]
        with runtime_of(client).database.write() as connection:
            connection.exec_driver_sql('DELETE FROM "values"')
    shutil.rmtree(data / "indexes")
    with opened(data) as client:
        assert CollectionClient(client, "animals").search("night", pooled=True)["pooled"] == pytest.approx(
            expected, abs=1e-6
        )


def test_a_stored_model_with_gates_ranks_by_its_gates(data: Path) -> None:
    """Gates are no longer trained. A model that has them keeps them."""
    with opened(data) as client:
        animals = CollectionClient(client, "animals")
        state = runtime_of(client).collection("animals")
        untrained = animals.search("owl", explain=True)["hits"]
        gates = np.zeros((len(FACTS), len(EVIDENCE)), np.float32)
        gates[FACTS.index("length"), EVIDENCE.index("words")] = -0.5
        files = head_files(state.serving.head.changed(kind_gate=gates), {"kind": "trained"})
        lineage = json.dumps({"kind": "trained"})
        with runtime_of(client).database.write() as connection:
            insert_model_files(connection, state.id, 1, files)
            connection.exec_driver_sql(
                "INSERT INTO models (collection_id, version, lineage, report, decision, created_at)"
                f" VALUES ({state.id}, 1, '{lineage}', '{{}}', '{{}}', '2026-01-01T00:00:00Z')"
            )
        gated = animals.search("owl", explain=True, model=1)["hits"]
    assert head_of_files(files).kind_gate.tolist() == gates.tolist()
    facts = 2 * np.log1p(1) / np.log1p(64) - 1  # a query of one word
    factor = float(np.exp(np.tanh(facts * -0.5)))
    assert factor > 1.2
    for before, after in zip(sorted(untrained, key=by_id), sorted(gated, key=by_id), strict=True):
        expected = before["explain"]["parts"] | {"words": before["explain"]["parts"]["words"] * factor}
        assert after["explain"]["parts"] == pytest.approx(expected, rel=1e-5)


def by_id(hit: dict[str, str]) -> str:
    return hit["id"]
