"""What a head learns about queries: which evidence counts for which, which head, how sharply keys are pooled."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from index.attention import DENSE, EVIDENCE, PASSAGE, AttentionHead, HeadConfig, without_keys
from index.examples import Feedback
from index.normalise import NORMALISERS
from index.records import FACTS
from index.retrieval import PEAK_DEPTH, query_facts
from index.scoring import FORMS
from tests.index.attention_by_hand import (
    ToyDocument,
    flatten,
    logit_by_hand,
    only,
    random_documents,
    random_unit,
    soft_maximum_by_hand,
)
from tests.index.toys import generation_of, passages, random_vectors
from tests.index.toys_to_learn import BIRTH, CONFIG, QUICK, run

DIM = 4
HEAD = HeadConfig(dim=DIM, rank=2, beta=(0.3, 0.6, 0.2, 0.5, 0.15, 0.25, 0.35, 0.4), inverse_temperature=3.0)
QUERIES = [random_documents(seed, 4, DIM) for seed in (1, 2)]
E = torch.tensor([random_unit(np.random.default_rng(seed), DIM) for seed in (4, 5)])
SHARE = st.floats(0, 1, width=32)
FACT = st.tuples(*[SHARE] * len(FACTS))


def gated(scale: float, config: HeadConfig = HEAD) -> AttentionHead:
    """Return a head whose gates were set at random."""
    head = AttentionHead(config)
    with torch.no_grad():
        head.kind_gate += scale * torch.randn(head.kind_gate.shape, generator=torch.Generator().manual_seed(0))
    return head


# --- Gates of kinds ---


@given(facts=FACT)
def test_at_birth_every_query_has_the_weights_of_birth_to_the_bit(facts: tuple[float, ...]) -> None:
    head = AttentionHead(HEAD)
    assert torch.equal(head.kind_weights(torch.tensor([facts]))[0], head.beta)


@given(facts=FACT, scale=st.floats(0, 1000))
def test_a_gate_multiplies_by_no_less_than_one_over_e_and_no_more_than_e(
    facts: tuple[float, ...], scale: float
) -> None:
    head = gated(scale)
    gates = (head.kind_weights(torch.tensor([facts]))[0] / head.beta).tolist()
    assert all(1 / math.e - 1e-5 <= gate <= math.e + 1e-5 for gate in gates)


def test_a_query_of_which_nothing_is_known_opens_and_shuts_no_gate() -> None:
    head = gated(1.0)
    assert torch.equal(head.kind_weights(torch.full((1, len(FACTS)), 0.5))[0], head.beta)


def test_gated_logits_are_those_written_by_hand() -> None:
    facts = [[0.9, 0.2, 0.7], [0.1, 1.0, 0.0]]
    head = gated(0.5)
    attention = head(E, flatten(QUERIES, DIM, facts=facts))
    for b, documents in enumerate(QUERIES):
        gates = []
        for part in range(len(EVIDENCE)):
            learned = head.kind_gate[:, part].tolist()
            known = [(2 * fact - 1) * gate for fact, gate in zip(facts[b], learned, strict=True)]
            gates.append(math.exp(math.tanh(sum(known))))
        expected = [logit_by_hand(HEAD, E[b].tolist(), document, gates) for document in documents]
        assert attention.logits[b, :-1].tolist() == pytest.approx(expected, abs=1e-4)


def test_the_gradient_of_the_gates_is_right() -> None:
    facts = torch.rand(3, len(FACTS), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    head = gated(0.5).double()

    def weights(gate: Tensor, known: Tensor) -> Tensor:
        found: Tensor = torch.func.functional_call(_Weights(head), {"head.kind_gate": gate}, (known,))
        return found

    gate = head.kind_gate.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(weights, (gate, facts.requires_grad_()))


class _Weights(torch.nn.Module):
    """The weights of a head as the forward pass of a module, so that its parameters can be varied."""

    def __init__(self, head: AttentionHead) -> None:
        super().__init__()
        self.head = head

    def forward(self, facts: Tensor) -> Tensor:
        return self.head.kind_weights(facts)


def test_short_queries_that_need_words_and_long_ones_that_need_vectors_are_told_apart_by_gates_alone(
    tmp_path: Path,
) -> None:
    """One weight for all must fail one half: what words find is wrong for long queries, what vectors find for short."""
    count, dim = 40, 8
    vectors, random = random_vectors(count, dim, seed=0), np.random.default_rng(1)
    generation = generation_of(tmp_path, [passages(row, f"word{row}", vectors[row]) for row in range(count)], dim=dim)
    feedback = []
    for number in range(160):
        right, wrong = random.choice(count, 2, replace=False).tolist()
        by_words = number % 2 == 0
        word, near = (right, wrong) if by_words else (wrong, right)
        text = " ".join([f"word{word}"] * (1 if by_words else 20))
        feedback.append(Feedback(f"query {number}", text, vectors[near], {right: 1.0}))
    champion = AttentionHead(replace(BIRTH, beta=only(passage=0.5, words=0.5)))
    fitted, _ = run(generation, feedback, CONFIG, champion, ladder=QUICK[:3])
    validated = fitted.report["recipe"]["validation_ndcg"]
    assert fitted.report["recipe"]["recipe"] == "gates"
    assert validated["weights"] < 0.85
    assert validated["gates"] > 0.95
    assert fitted.decision.promote
    of_length = fitted.head.kind_gate[FACTS.index("length")].tolist()
    assert of_length[PASSAGE] > 0 > of_length[EVIDENCE.index("words")]


# --- What is known of a query ---


def test_the_facts_of_a_query_are_its_length_its_rarest_word_and_how_far_the_best_stands_out() -> None:
    part_number = query_facts(np.asarray([11.0], np.float32), np.asarray([9.0, 1.0], np.float32))
    question = query_facts(np.full(12, 2.0, np.float32), np.full(PEAK_DEPTH, 7.0, np.float32))
    assert part_number.tolist() == pytest.approx([math.log(2) / math.log(65), 11 / 12, 1 - 10 / 90])
    assert question.tolist() == pytest.approx([math.log(13) / math.log(65), 2 / 12, 0.0], abs=1e-6)


@given(weights=st.lists(st.floats(0, 30, width=32), max_size=200), scores=st.lists(st.floats(0, 90, width=32)))
def test_facts_are_shares_whatever_the_query(weights: list[float], scores: list[float]) -> None:
    best_first = np.asarray(sorted(scores, reverse=True), np.float32)
    facts = query_facts(np.asarray(weights, np.float32), best_first)
    assert facts.shape == (len(FACTS),)
    assert all(0 <= fact <= 1 for fact in facts.tolist())


# --- Gates of heads, sharpness of pooling ---


def test_every_query_asks_the_head_that_its_gate_names() -> None:
    head = AttentionHead(replace(HEAD, heads=2)).requires_grad_(False)
    documents = [ToyDocument([(PASSAGE, [0, 1, 0, 0])])]
    head.score.up[1, :, 0] = torch.tensor([0.0, 1.0, 0.0, 0.0])  # the second head adds 1 to the second axis
    head.score.down[1, :, 0] = 1.0
    first, second = torch.tensor([[1.0, 0, 0, 0]]), torch.tensor([[0, 0, 1.0, 0]])
    assert float(head.dense(first, flatten([documents], DIM))[0, 0, PASSAGE]) == pytest.approx(0.5)
    head.head_gate[0] = torch.tensor([50.0, 0.0])
    head.head_gate[2] = torch.tensor([0.0, 50.0])
    asked = [float(head.dense(query, flatten([documents], DIM))[0, 0, PASSAGE]) for query in (first, second)]
    assert asked == pytest.approx([0.0, 1.0])


def test_each_kind_is_pooled_as_sharply_as_it_learned() -> None:
    head, keys = AttentionHead(HEAD), [random_unit(np.random.default_rng(seed), DIM) for seed in range(4)]
    sharpness = [0.5, 5.0, 50.0]
    with torch.no_grad():
        head.log_sharpness.copy_(torch.tensor(sharpness).log())
    document = ToyDocument([(kind, key) for kind in range(DENSE) for key in keys])
    scores = [float(E[0] @ torch.tensor(key)) for key in keys]
    dense = head.dense(E[:1], flatten([[document]], DIM))[0, 0].tolist()
    assert dense == pytest.approx([soft_maximum_by_hand(scores, one) for one in sharpness], abs=1e-5)
    assert dense == sorted(dense)
    assert dense[2] <= max(scores) + 1e-6


def test_where_the_best_key_tells_more_than_the_mean_the_loss_makes_pooling_sharper() -> None:
    head, (best, *others) = AttentionHead(replace(HEAD, sharpness=1.0)), [[0, -1, 0, 0], [-1.0, 0, 0, 0]]
    right = ToyDocument([(PASSAGE, [1.0, 0, 0, 0]), *((PASSAGE, other) for other in [best, *others])])
    wrong = ToyDocument([(PASSAGE, [0.2, 0, 0, 0.98])])
    logits = head(torch.tensor([[1.0, 0, 0, 0]]), flatten([[right, wrong]], DIM)).logits[0, :2]
    (-torch.log_softmax(logits, 0)[0]).backward()
    assert head.log_sharpness.grad is not None
    assert float(head.log_sharpness.grad[PASSAGE]) < 0


# --- Keys, forms, normalisers ---


@given(seed=st.integers(0, 50), times=st.integers(1, 6), hop=st.sampled_from([0.0, 0.4]))
def test_repeating_the_keys_of_any_document_changes_no_logit(seed: int, times: int, hop: float) -> None:
    head, documents = AttentionHead(replace(HEAD, heads=2)), random_documents(seed, 4, DIM)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed))
        head.hop.fill_(hop)
        repeated = [replace(document, keys=list(document.keys) * times) for document in documents]
        once, often = (head(E[:1], flatten([each], DIM)).logits for each in (documents, repeated))
    assert torch.allclose(once, often, atol=1e-4)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("heads", [1, 3])
def test_at_birth_every_form_ranks_as_the_hybrid_search(form: str, heads: int) -> None:
    candidates = flatten(QUERIES, DIM)
    plain = AttentionHead(HEAD)(E, candidates)
    attention = AttentionHead(replace(HEAD, form=form, heads=heads))(E, candidates)
    assert torch.allclose(attention.logits, plain.logits, atol=1e-4)
    assert torch.equal(attention.logits.argsort(descending=True), plain.logits.argsort(descending=True))


@pytest.mark.parametrize("normaliser", NORMALISERS)
def test_a_normaliser_changes_the_weights_and_no_logit(normaliser: str) -> None:
    candidates = flatten([QUERIES[0], QUERIES[1][:2]], DIM)
    plain = AttentionHead(HEAD)(E, candidates)
    attention = AttentionHead(replace(HEAD, normaliser=normaliser))(E, candidates)
    assert torch.equal(attention.logits, plain.logits)
    mask = torch.cat([candidates.mask, torch.ones(2, 1, dtype=torch.bool)], 1)
    assert torch.equal(attention.weights, NORMALISERS[normaliser](plain.logits, mask))
    assert attention.weights.sum(1).tolist() == pytest.approx([1.0, 1.0])
    assert attention.weights[1, 2:4].tolist() == [0.0, 0.0]


def test_candidates_without_keys_hold_no_memory_of_them() -> None:
    candidates = flatten([random_documents(1, 9, DIM)], DIM)
    assert candidates.keys.untyped_storage().nbytes() > 0
    assert without_keys(candidates).keys.untyped_storage().nbytes() == 0
