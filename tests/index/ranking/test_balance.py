"""The balance of words and meaning: a factor on the weights of the word parts that depends on the query."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load, save
from torch import Tensor

from index.ranking.attention import DENSE, EVIDENCE, PASSAGE, AttentionHead, Candidates, HeadConfig
from index.ranking.checkpoint import WEIGHTS, load_head, save_head
from index.ranking.retrieval import Mode, Query
from index.ranking.search import search
from index.records import LEXICAL
from index.storage.files import MANIFEST, read_manifest, write_manifest
from tests.index.fixtures import generation_of, vector_of, written
from tests.index.numpy_torch import By, each_library, trainable
from tests.index.ranking.attention_by_hand import flatten, random_documents, random_unit

DIM = 4
PLAIN = HeadConfig(dim=DIM, rank=2)
BALANCED = replace(PLAIN, balance=(0.4, -1.5, 1.0, 0.7))
QUERIES = [random_documents(seed, 4, DIM) for seed in (1, 2)]
E = np.asarray([random_unit(np.random.default_rng(seed), DIM) for seed in (4, 5)], np.float32)
FACTS = [[0.9, 0.2, 0.7], [0.1, 1.0, 0.0]]
WORDS = slice(DENSE, DENSE + len(LEXICAL))


def candidates() -> Candidates:
    return flatten(QUERIES, DIM, facts=FACTS)


@each_library
def test_the_word_parts_of_a_query_are_multiplied_by_its_factor(by: By) -> None:
    plain, balanced = (by(AttentionHead(config))(E, candidates()) for config in (PLAIN, BALANCED))
    temperature, beta = PLAIN.inverse_temperature, PLAIN.beta
    for b, documents in enumerate(QUERIES):
        parts = np.asarray(plain.parts)[b]
        passage = max(parts[:, PASSAGE]) / (temperature * beta[PASSAGE])
        at = EVIDENCE.index("coverage")
        coverage = max(parts[:, at]) / (temperature * beta[at])
        factor = math.exp(math.tanh(0.4 - 1.5 * passage + coverage + 0.7 * FACTS[b][0]))
        assert len(documents) == len(parts)
        after = np.asarray(balanced.parts)[b]
        assert after[:, WORDS] == pytest.approx(parts[:, WORDS] * factor, rel=1e-4)
        assert np.array_equal(np.delete(after, range(*WORDS.indices(99)), 1), np.delete(parts, range(3, 9), 1))


@each_library
def test_the_factor_does_not_depend_on_the_trust_in_an_unfinished_query(by: By) -> None:
    head, found = by(AttentionHead(BALANCED)), candidates()
    unfinished = replace(found, trust=np.full(2, 0.3, np.float32))
    whole, half = (np.asarray(head(E, one).parts) for one in (found, unfinished))
    assert np.array_equal(whole[..., WORDS], half[..., WORDS])
    assert not np.array_equal(whole[..., :DENSE], half[..., :DENSE])


@each_library
def test_a_near_passage_speaks_for_meaning_and_covered_words_speak_for_words(by: By) -> None:
    head = by(AttentionHead(replace(PLAIN, balance=(0.0, -1.0, 1.0, 0.0))))
    found = candidates()
    near, far = (np.full((2, 4, DENSE), value, np.float32) for value in (0.9, 0.3))
    wordy = replace(found, words=np.full_like(found.words, 0.6))
    assert np.all(np.asarray(head.word_factor(near, wordy)) < 1)
    assert np.all(np.asarray(head.word_factor(far, wordy)) > 1)


def test_the_factor_is_bounded_however_large_the_coefficients_are() -> None:
    for constant in (-1e6, 1e6):
        head = AttentionHead(replace(PLAIN, balance=(constant, 0.0, 0.0, 0.0)))
        factor = head.word_factor(head.dense(E, candidates()), candidates())
        assert np.all((factor >= 1 / math.e - 1e-6) & (factor <= math.e + 1e-6))


def test_without_coefficients_every_bit_of_the_ranking_is_as_before() -> None:
    found = candidates()
    head = AttentionHead(PLAIN)
    assert not head.balances
    factor = head.word_factor(head.dense(E, found), found)
    assert factor.tolist() == [1.0, 1.0]


def test_a_search_by_words_alone_has_no_factor(tmp_path: Path) -> None:
    generation = generation_of(tmp_path, [written(1, "an oak in a wood"), written(2, "a wood of pines")])
    plain = HeadConfig(generation.dim)
    query = Query("oak wood", vector_of("oak wood"), mode=Mode.WORDS)
    heads = (AttentionHead(plain), AttentionHead(replace(plain, balance=(1.0, 0.0, 0.0, 0.0))))
    before, after = (search(generation, head, query) for head in heads)
    assert np.array_equal(before.logits, after.logits)
    assert len(before.logits) == 2


def test_a_query_without_candidates_has_no_factor(tmp_path: Path) -> None:
    generation = generation_of(tmp_path, [])
    head = AttentionHead(replace(HeadConfig(generation.dim), balance=(1.0, -2.0, 1.0, 0.5)))
    ranking = search(generation, head, Query("oak", vector_of("oak")))
    assert (len(ranking.logits), ranking.null_weight) == (0, 1.0)


def test_the_gradient_of_the_factor_is_right() -> None:
    found = candidates()
    head = trainable(AttentionHead(BALANCED), torch.float64)
    words = torch.from_numpy(found.words).double()
    known = replace(found, words=words, facts=torch.tensor(FACTS).double(), mask=torch.from_numpy(found.mask))

    def factor(dense: Tensor, balance: Tensor) -> Tensor:
        values = head.parameters_by_name() | {"balance": balance}
        result: Tensor = AttentionHead(head.config, values).word_factor(dense, known)
        return result

    dense = torch.rand(2, 4, DENSE, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    balance = head.parameters_by_name()["balance"].detach().clone()
    assert torch.autograd.gradcheck(factor, (dense.requires_grad_(), balance.requires_grad_()))


def test_a_model_file_keeps_the_balance_and_older_files_have_none(tmp_path: Path) -> None:
    save_head(tmp_path / "new", AttentionHead(BALANCED), {})
    assert load_head(tmp_path / "new").balance.tolist() == pytest.approx(BALANCED.balance)
    assert load_head(tmp_path / "new").config == BALANCED
    save_head(tmp_path / "old", AttentionHead(PLAIN), {})
    as_format_3(tmp_path / "old")
    old = load_head(tmp_path / "old")
    assert (old.balance.tolist(), old.config) == ([0.0] * 4, PLAIN)


def as_format_3(folder: Path) -> None:
    """Rewrite a model file as the release before this wrote it: without a balance."""
    manifest = read_manifest(folder)
    tensors = load((folder / WEIGHTS).read_bytes())
    del tensors["balance"]
    (folder / WEIGHTS).write_bytes(save(tensors))
    config = {name: value for name, value in manifest["config"].items() if name != "balance"}
    (folder / MANIFEST).unlink()
    write_manifest(folder, [WEIGHTS], {"format": 3, "config": config, "lineage": {}})
