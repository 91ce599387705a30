"""A prior is a part of the logit of a document for every query; it stays with the id of the document."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.errors import DamagedFile
from index.generation.columns import id_order
from index.generation.generation import Generation
from index.ranking.attention import PARTS, AttentionHead, HeadConfig
from index.ranking.checkpoint import WEIGHTS, head_files, head_of_files, load_head, save_head
from index.ranking.explanation import explain_parts
from index.ranking.priors import Priors, document_hashes, no_priors
from index.ranking.retrieval import Mode, Query
from index.ranking.search import Ranking, search
from index.storage.files import MANIFEST, manifest_of
from tests.index.fixtures import ENCODER, generation_of, store_of, vector_of, written

IDS = ("anorak", "beret", "clog", "duffel-coat-of-wool-in-navy", "duffel-coat-of-wool-in-olive")
DOCUMENTS = [replace(written(row, f"warm thing {row}"), id=id) for row, id in enumerate(IDS)]
HEAD = AttentionHead(HeadConfig(dim=ENCODER.dim))


def priors_of(**values: float) -> Priors:
    """Return the priors of these ids, in which _ stands for -."""
    hashes = document_hashes(id_order(name.replace("_", "-") for name in values))
    order = np.argsort(hashes)
    return Priors(hashes[order], np.asarray(list(values.values()), np.float32)[order])


def asked(text: str = "warm thing", mode: Mode = Mode.HYBRID) -> Query:
    return Query(text, vector_of(text), mode=mode, count=10)


def by_id(generation: Generation, ranking: Ranking, ids: Sequence[str] = IDS) -> dict[str, dict[str, float]]:
    """Return id -> the parts of its logit, with the logit."""
    found = {}
    for rank, row in enumerate(generation.rows[ranking.doc_indices].tolist()):
        found[ids[row]] = explain_parts(ranking, rank) | {"logit": float(ranking.logits[rank])}
    return found


def test_priors_are_looked_up_by_id() -> None:
    priors = priors_of(anorak=0.5, clog=-1.0, duffel_coat_of_wool_in_olive=2.0)
    assert priors(id_order(IDS)).tolist() == [0.5, 0.0, -1.0, 0.0, 2.0]
    assert priors(id_order(IDS)[:4].reshape(2, 2)).tolist() == [[0.5, 0.0], [-1.0, 0.0]]
    assert no_priors()(id_order(IDS)).tolist() == [0.0] * 5
    assert priors(np.zeros((2, 0), id_order(IDS).dtype)).shape == (2, 0)


def test_a_prior_raises_a_document_for_every_query_by_its_value(tmp_path: Path) -> None:
    generation = generation_of(tmp_path, DOCUMENTS)
    for text in ("warm thing", "warm thing 3", "thing"):
        plain = by_id(generation, search(generation, HEAD, asked(text)))
        raised = by_id(generation, search(generation, HEAD.preferring(priors_of(beret=1.5, clog=-0.5)), asked(text)))
        assert {id: parts["prior"] for id, parts in raised.items()} == dict.fromkeys(IDS, 0.0) | {
            "beret": 1.5,
            "clog": -0.5,
        }
        for id, parts in raised.items():
            assert parts["logit"] == pytest.approx(plain[id]["logit"] + parts["prior"], abs=1e-4)
            assert sum(parts[name] for name in PARTS) == pytest.approx(parts["logit"], abs=1e-4)


@pytest.mark.parametrize("mode", list(Mode))
def test_priors_count_in_the_mode_hybrid_alone(tmp_path: Path, mode: Mode) -> None:
    generation = generation_of(tmp_path, DOCUMENTS)
    ranking = search(generation, HEAD.preferring(priors_of(beret=2.0)), asked(mode=mode))
    assert (ranking.parts.shape[1] == len(PARTS)) == (mode is Mode.HYBRID)
    assert any(parts.get("prior") for parts in by_id(generation, ranking).values()) == (mode is Mode.HYBRID)


def test_a_prior_stays_with_a_document_that_is_replaced(tmp_path: Path) -> None:
    store = store_of(tmp_path, DOCUMENTS)
    generation = store.apply(2, [replace(written(9, "warm thing, now better"), id="beret")], removed=[1])
    store.close()
    ranking = search(generation, HEAD.preferring(priors_of(beret=2.0)), asked())
    assert by_id(generation, ranking, (*IDS, "", "", "", "", "beret"))["beret"]["prior"] == 2.0


def test_the_head_of_training_and_the_search_agree(tmp_path: Path) -> None:
    from index.ranking.retrieval import assemble, retrieve

    generation = generation_of(tmp_path, DOCUMENTS)
    head = HEAD.preferring(priors_of(beret=1.5, anorak=0.3))
    query = asked("warm coat")
    found = retrieve(generation, query, head.search_vectors(query.vector[None])[0])
    attention = head(query.vector[None], assemble(generation, [found]))
    ranking = search(generation, head, query)
    order = np.argsort(ranking.doc_indices)
    assert attention.logits[0, :-1].tobytes() == ranking.logits[order].tobytes()


def test_a_head_with_priors_is_saved_and_loaded(tmp_path: Path) -> None:
    generation = generation_of(tmp_path / "data", DOCUMENTS)
    head = HEAD.preferring(priors_of(beret=1.5, clog=-0.25))
    save_head(tmp_path / "model", head, {})
    loaded = load_head(tmp_path / "model")
    assert loaded.config.priors == 2
    before, after = (search(generation, one, asked()) for one in (head, loaded))
    assert before.logits.tobytes() == after.logits.tobytes()
    assert loaded.preferring(no_priors()).config == HEAD.config


def test_hashes_of_another_type_are_a_damaged_file() -> None:
    from safetensors.numpy import load, save

    files = dict(head_files(HEAD.preferring(priors_of(beret=1.5)), {}))
    tensors = load(files[WEIGHTS])
    weights = {WEIGHTS: save(tensors | {"priors.documents": tensors["priors.documents"].astype(np.float32)})}
    facts = {"format": 7, "config": HEAD.config.__dict__ | {"priors": 1}, "lineage": {}}
    with pytest.raises(DamagedFile):
        head_of_files(weights | {MANIFEST: manifest_of(weights, facts)})
    assert head_of_files(files).config.priors == 1
