"""A training run counts the decisions of the gate against the champion: each one makes the next one stricter."""

from pathlib import Path
from typing import Any

import pytest

from index.evaluation.significance import level
from service.training.child import earlier_decisions
from tests.service.client import create, opened

QUICK = {"promote": "never", "budget_seconds": 1}

pytestmark = pytest.mark.usefixtures("forked_training")

HERBS = "basil oregano thyme rosemary sage parsley dill mint chives fennel lovage sorrel".split()
FLOWERS = "tulip daisy lily rose violet iris poppy aster dahlia peony".split()


def lineage(run: str, **facts: Any) -> dict[str, Any]:
    return {"kind": "trained", "parent": 0, "training_run": run, "seed": 0, "data": {"queries": 30}} | facts


def test_a_run_that_repeats_another_one_does_not_count_again() -> None:
    own = lineage("now")
    assert earlier_decisions([], own) == 0
    assert earlier_decisions([lineage("before")], own) == 0
    assert earlier_decisions([lineage("before", seed=1), lineage("again", seed=1)], own) == 1
    assert earlier_decisions([lineage("before", seed=1), lineage("more", data={"queries": 31})], own) == 2


def test_a_comparison_under_another_encoder_does_not_count() -> None:
    """Version 0 is the parent under each encoder, and ranks by other vectors."""
    own = lineage("now", encoder_fingerprint="new", seed=2)
    before = [lineage(str(seed), encoder_fingerprint="old", encoder="old", seed=seed) for seed in (0, 1)]
    assert earlier_decisions(before, own) == 0
    assert earlier_decisions([*before, lineage("first", encoder_fingerprint="new")], own) == 1


def test_decisions_are_counted_until_the_champion_changes(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        wood = create(client, "wood")
        names = [*HERBS, *FLOWERS]
        wood.add(*({"id": name, "text": f"{name} is number {at}"} for at, name in enumerate(names)))
        wood.post("judgments", {"judgments": [{"query": n, "document_id": n, "rating": 4} for n in names]})
        seen = []
        for seed in (0, 1):
            decision = wood.train(seed=seed, **QUICK)["decision"]
            seen.append((decision["earlier_decisions"], decision["level"]))
        assert seen == [(0, 0.1), (1, round(level(1), 8))]
        client.put(f"{wood.path}/models/aliases/champion", json={"version": 1, "force": True}).raise_for_status()
        assert wood.train(seed=0, **QUICK)["decision"]["earlier_decisions"] == 0
        client.post(f"{wood.path}/models/aliases/champion/rollback").raise_for_status()
        repeated = wood.train(seed=1, **QUICK)["decision"]
        assert (repeated["earlier_decisions"], repeated["level"]) == seen[1], "a repeated run does not count again"
