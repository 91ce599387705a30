"""The trial cache: a killed run resumes with the same bits, and never uses the cache of another run."""

import itertools
import shutil
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.generation.generation import Generation
from index.learning.config import Step
from index.learning.examples import TEST_FOLDS, fold_of
from index.learning.fit import fit
from index.learning.trainer import Trial
from index.learning.trial_cache import TrialCache, fingerprint
from index.ranking.attention import AttentionHead, HeadConfig
from index.ranking.checkpoint import head_bytes
from tests.index.fixtures import remembered
from tests.index.learning_fixtures import ALL_FOLDS, CONFIG, INITIAL, QUICK, asked, collection_of, finished, run

FEEDBACK = asked(shifted=True, count=60)
ALL = replace(CONFIG, cross_validation_queries=ALL_FOLDS, folds=2, epochs=2)
"""Two folds and a final fit: all kinds of steps of a run."""
HEAD = HeadConfig(dim=3, rank=2)


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Generation:
    return collection_of(tmp_path_factory.mktemp("collection"))


@pytest.fixture(scope="module")
def uninterrupted(collection: Generation) -> tuple[bytes, dict, int]:
    """The bits of the final head, the report, and the number of steps of an uninterrupted run."""
    fitted, steps = run(collection, FEEDBACK, ALL)
    return head_bytes(fitted.head), fitted.report, len(steps)


@pytest.fixture(scope="module")
def finished_cache(collection: Generation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cache that a finished run has left, to copy."""
    cache = tmp_path_factory.mktemp("finished")
    run(collection, FEEDBACK, ALL, cache=cache)
    return cache


@pytest.fixture
def cache(finished_cache: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished_cache, tmp_path / "cache"))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("index.learning.model_selection.RECIPES", QUICK)
    monkeypatch.setattr("index.learning.model_selection.VARIANTS", ())


def killed_after(count: int, collection: Generation, cache: Path) -> None:
    """Start a run and stop it after this many steps."""
    steps = fit(collection, FEEDBACK, AttentionHead(INITIAL), ALL, cache=cache)
    for _ in range(count):
        if next(steps, None) is None:
            return
    steps.close()


def resumed(steps: list[Step]) -> int:
    return sum(step.phase == "resumed" for step in steps)


# --- Runs ---


@pytest.mark.parametrize("share", [0.1, 0.4, 0.55, 0.7, 0.85, 1.0])
def test_a_resumed_run_ends_with_the_bits_of_an_uninterrupted_run(
    collection: Generation, tmp_path: Path, uninterrupted: tuple[bytes, dict, int], share: float
) -> None:
    bits, report, steps = uninterrupted
    killed_after(round(share * steps), collection, tmp_path)
    fitted, taken = run(collection, FEEDBACK, ALL, cache=tmp_path)
    assert head_bytes(fitted.head) == bits
    assert fitted.report == report
    if share > 0.3:
        assert resumed(taken) > 0


def test_a_run_that_is_killed_several_times_ends_with_the_same_bits(
    collection: Generation, tmp_path: Path, uninterrupted: tuple[bytes, dict, int]
) -> None:
    for count in range(6, 40, 8):
        killed_after(count, collection, tmp_path)
    fitted, _ = run(collection, FEEDBACK, ALL, cache=tmp_path)
    assert head_bytes(fitted.head) == uninterrupted[0]


def test_a_finished_run_is_not_repeated(collection: Generation, cache: Path) -> None:
    _, steps = run(collection, FEEDBACK, ALL, cache=cache)
    assert resumed(steps) == 2 * len(QUICK)
    assert not [step for step in steps if step.phase == "choose"]


def test_the_cache_of_other_inputs_is_not_used(collection: Generation, cache: Path, tmp_path: Path) -> None:
    at = next(number for number, one in enumerate(FEEDBACK) if fold_of(one.query_key) >= TEST_FOLDS)
    other = [*FEEDBACK]
    other[at] = replace(other[at], gains={(next(iter(other[at].gains)) + 7) % 60: 1.0})
    near = remembered(1, 3, FEEDBACK[at].vector, query_key="of another")
    remembering = collection_of(tmp_path / "remembering", [near])
    for generation, feedback, config, champion in (
        (collection, other, ALL, None),
        (collection, FEEDBACK, replace(ALL, seed=1), None),
        (collection, FEEDBACK, ALL, AttentionHead(replace(INITIAL, inverse_temperature=11.0))),
        (remembering, FEEDBACK, ALL, None),
    ):
        _, steps = run(generation, feedback, config, champion, cache=cache)
        assert resumed(steps) == 0


@pytest.mark.parametrize("suffix", [".json", ".safetensors"])
def test_a_damaged_file_of_the_cache_is_ignored(
    collection: Generation, cache: Path, uninterrupted: tuple[bytes, dict, int], suffix: str
) -> None:
    """The trials of the run have different damages. A trial of which the damage is not seen is resumed."""
    damages = ("cut", "flip", "empty", "gone")
    paths = sorted(cache.glob(f"*{suffix}"))
    assert len(paths) >= len(damages)
    for path, damage in zip(paths, itertools.cycle(damages), strict=False):
        body = path.read_bytes()
        middle = len(body) // 2
        changed = {"cut": body[:middle], "flip": body[:middle] + bytes([body[middle] ^ 1]) + body[middle + 1 :]}
        path.unlink() if damage == "gone" else path.write_bytes(changed.get(damage, b""))
    fitted, steps = run(collection, FEEDBACK, ALL, cache=cache)
    assert resumed(steps) == 0
    assert head_bytes(fitted.head) == uninterrupted[0]


# --- Trials ---


def trial_of(seed: int) -> Trial:
    head = AttentionHead(replace(HEAD, seed=seed))
    return Trial(head.changed(null=head.null + 0.1), 3, {"one": 0.1 + 0.2, "two": 1 / 3})


def working(trial: Trial) -> Generator[Step, None, Trial]:
    yield Step("work", 1, 1)
    return trial


def test_a_trial_is_read_as_it_was_written(tmp_path: Path) -> None:
    made = trial_of(1)
    finished(TrialCache(tmp_path, "inputs").trial("first", HEAD, lambda: working(made)))
    read, steps = finished(TrialCache(tmp_path, "inputs").trial("first", HEAD, lambda: working(trial_of(2))))
    assert [step.phase for step in steps] == ["resumed"]
    assert head_bytes(read.head) == head_bytes(made.head)
    assert (read.epochs, read.measured, list(read.measured)) == (made.epochs, made.measured, list(made.measured))
    assert all(isinstance(value, np.ndarray) for value in read.head.parameters_by_name().values())


@pytest.mark.parametrize(("inputs", "name"), [("inputs", "second"), ("others", "first")])
def test_a_trial_of_another_name_or_run_is_computed(tmp_path: Path, inputs: str, name: str) -> None:
    finished(TrialCache(tmp_path, "inputs").trial("first", HEAD, lambda: working(trial_of(1))))
    worked, steps = finished(TrialCache(tmp_path, inputs).trial(name, HEAD, lambda: working(trial_of(2))))
    assert [step.phase for step in steps] == ["work"]
    assert head_bytes(worked.head) == head_bytes(trial_of(2).head)


def test_an_interrupted_trial_stores_nothing(tmp_path: Path) -> None:
    steps = TrialCache(tmp_path, "inputs").trial("first", HEAD, lambda: working(trial_of(1)))
    next(steps)
    steps.close()
    assert list(tmp_path.iterdir()) == []


def test_without_a_folder_nothing_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        _, steps = finished(TrialCache(None).trial("first", HEAD, lambda: working(trial_of(1))))
        assert [step.phase for step in steps] == ["work"]
    assert list(tmp_path.iterdir()) == []


def test_different_inputs_have_different_fingerprints() -> None:
    parts: list[tuple] = [(b"a", b"b"), (b"ab",), ("a", 1), ("a", 2), (HEAD,), (replace(HEAD, seed=1),), ()]
    assert len({fingerprint(*one) for one in parts}) == len(parts)
    assert fingerprint(*parts[4]) == fingerprint(HeadConfig(dim=3, rank=2))
