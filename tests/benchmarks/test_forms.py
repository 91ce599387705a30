"""Every form of attention and every normaliser is fitted and searched by one command."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from benchmarks import ablations
from benchmarks.ablations import UNTRAINED, Variant, measure
from benchmarks.forms import DEFAULT, HEADS, VALUE_RANK, VARIANTS
from benchmarks.workbench import Bench, loaded
from index.encoding.encoder import HashingEncoder
from index.generation.generation import Generation
from index.learning.config import FitConfig
from index.learning.fit import Steps, fit
from index.ranking.attention import AttentionHead
from index.ranking.normalisers import NORMALISERS
from index.ranking.score_functions import FORMS
from tests.benchmarks.sets import animals


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with loaded(animals(), HashingEncoder(), ["q-cat-sleeps", "q-owl-sleeps"]) as bench:
        yield bench


def test_every_form_number_of_heads_normaliser_and_learned_values_have_a_variant_and_the_default_is_first() -> None:
    names = [variant.name for variant in VARIANTS]
    assert names[0] == DEFAULT == "bilinear, softmax"
    assert {f"bilinear, {heads} heads" for heads in HEADS} <= set(names)
    assert {f"{form}, softmax" for form in FORMS} | {f"bilinear, {one}" for one in NORMALISERS} <= set(names)
    assert f"bilinear, values of rank {VALUE_RANK}" in names
    assert len(names) == len(set(names)) == len(FORMS) + len(NORMALISERS) + len(HEADS) + 1


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_an_untrained_variant_ranks_as_the_default(bench: Bench, variant: Variant) -> None:
    (_, default, *_), _ = measure(bench, replace(VARIANTS[0], config=UNTRAINED), 0)
    (_, found, *_), _ = measure(bench, replace(variant, config=UNTRAINED), 0)
    assert found == default


@pytest.mark.parametrize("name", ["additive, softmax", "bilinear, one_hot"])
def test_a_variant_is_fitted_from_a_head_of_its_own_form(
    bench: Bench, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted = []

    def recorded(generation: Generation, learn: Any, champion: AttentionHead, config: FitConfig) -> Steps:
        fitted.append(f"{champion.config.form}, {champion.config.normaliser}")
        return fit(generation, learn, champion, config)

    monkeypatch.setattr(ablations, "fit", recorded)
    (variant,) = [one for one in VARIANTS if one.name == name]
    assert [state for state, *_ in measure(bench, variant, 0)] == ["trained", "served"]
    assert fitted == [name]
