"""The clicks per search of models that were never live, estimated from explored searches over HTTP."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import update

from index.evaluation import off_policy
from index.memory.query_key import as_query_key
from index.ranking.checkpoint import head_files
from service.models import actions, explored_lists
from service.models.explored_lists import ExploredList, read_explored
from service.models.off_policy import Models, rankings
from service.runtime.feedback_log import gather_feedback
from service.runtime.feedback_repository import document_rows
from service.runtime.model_registry import register
from service.search.serving import model_of_version
from service.storage.database import now
from service.storage.tables import QUERIES as QUERIES_TABLE
from tests.service.client import CollectionClient, event, good, know_no_emoji, opened, runtime_of
from tests.service.test_cli import Fake, Run, fake, run

__all__ = ["fake", "run"]

TREES = ("oak", "ash", "elm", "fir", "yew")
QUERIES = ("tree in the wood", "wood with a tree")
LEAST = 20
SHARE = 0.5
"""The share of the searches that are explored."""


@pytest.fixture
def wood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CollectionClient]:
    """A collection with five trees, and with model 1: another temperature, trained without feedback."""
    monkeypatch.setattr(actions, "MIN_LISTS", LEAST)
    monkeypatch.setattr(off_policy, "LEAST_SIZE", 0)
    monkeypatch.setattr(
        off_policy, "WEIGHT_ROUNDING", np.inf
    )  # few searches in a random order: any mean weight is good
    with opened(tmp_path / "data") as client:
        wood = CollectionClient(client)
        wood.add(
            *({"id": name, "text": f"the {name} is a tree in the wood " + "x " * n} for n, name in enumerate(TREES))
        )
        add_model(client, wood, tmp_path / "staged", "documents")
        yield wood


def add_model(client: TestClient, wood: CollectionClient, staged: Path, kind: str) -> None:
    """Register a model with half of the inverse temperature as version 1."""
    runtime = runtime_of(client)
    state = runtime.collection(wood.name)
    head = state.serving.head
    colder = head.changed(log_inverse_temperature=head.log_inverse_temperature - np.float32(np.log(2)))
    lineage = {"kind": kind, "parent": 0}
    files = head_files(colder, lineage)
    with runtime.database.write() as connection:
        register(state, connection, files, 1, {"lineage": lineage, "report": {}, "decision": {}})


def explored(wood: CollectionClient, count: int = LEAST, **more: Any) -> list[dict[str, Any]]:
    """Return the answers to explored searches, half of them for each query."""
    return [wood.search(**{"q": QUERIES[at % 2], "explore": SHARE} | more) for at in range(count)]


def click(wood: CollectionClient, answers: list[dict[str, Any]]) -> None:
    """Click the fir where it is among the first two, and the first document of every third list."""
    for at, answer in enumerate(answers):
        for hit in answer["hits"]:
            if (hit["id"] == "fir" and hit["position"] <= 2) or (at % 3 == 0 and hit["position"] == 1):
                wood.post("events", event(hit["id"], position=hit["position"], query_id=answer["query_id"]))


def test_the_estimates_agree_with_a_slow_loop(wood: CollectionClient) -> None:
    logits = {hit["id"]: hit["logit"] for hit in wood.search(QUERIES[0], model=1, log=False)["hits"]}
    answers = explored(wood, q=QUERIES[0])  # a single query: the clicks on a similar query would change its memory
    click(wood, answers)
    found = wood.get("models/compare", a=0, b=1)["off_policy"]
    assert (found["impressions"], found["reason"], found["left_out"]) == (LEAST, None, {})
    total, clicks = 0.0, 0
    for at, answer in enumerate(answers):
        logged = wood.get(f"queries/{answer['query_id']}")["shown"]
        left, ratio = dict(logits), 1.0
        for hit in logged:
            own = np.exp(left[hit["id"]]) / sum(np.exp(logit) for logit in left.values())
            ratio *= own / hit["selection_probability"]
            del left[hit["id"]]
            clicked = (hit["id"] == "fir" and hit["position"] <= 2) or (at % 3 == 0 and hit["position"] == 1)
            total, clicks = total + ratio * clicked, clicks + clicked
    assert found["b"]["ips"]["mean"] == pytest.approx(total / LEAST, rel=1e-3)
    assert found["logged"] == pytest.approx(clicks / LEAST, abs=1e-4)
    for side in ("a", "b", "difference"):
        for one in found[side].values():
            assert one["impressions"] == LEAST
            size, least = one["effective_sample_size"], SHARE * LEAST / 3
            assert 0 < size <= LEAST
            assert one["reliable"] == (size >= least) or abs(size - least) <= 0.05, "the answer has a rounded size"
            assert one["reliable"] == (one["reason"] is None) == (one["low"] is not None) == (one["high"] is not None)
            assert not one["reliable"] or one["low"] <= one["mean"] <= one["high"]


def test_a_click_that_its_client_takes_back_does_not_count(wood: CollectionClient) -> None:
    answers = explored(wood, client_id="ada")
    for answer in answers:
        wood.act("fir", query_id=answer["query_id"])
    assert wood.get("models/compare", a=0, b=1)["off_policy"]["logged"] == 1.0
    first, second, third, *_ = (answer["query_id"] for answer in answers)
    wood.act("oak", query_id=first, client_id="ada", timestamp="2999-01-01T00:00:00Z")
    wood.act("oak", "thumbs_down", query_id=first, client_id="ada", timestamp=now())
    wood.act("fir", "thumbs_down", query_id=second, client_id="ada")  # an event without a client is by the searcher
    wood.act("fir", "thumbs_down", query_id=third, client_id="bob")
    wood.act("oak", "thumbs_down", query_id=third, client_id="ada")
    wood.act("oak", query_id=third, client_id="ada")
    assert wood.get("models/compare", a=0, b=1)["off_policy"]["logged"] == 1.0
    wood.act("fir", "thumbs_down", query_id=first)
    assert wood.get("models/compare", a=0, b=1)["off_policy"]["logged"] == 1 - 1 / LEAST


def test_training_and_the_estimates_count_the_same_clicks(wood: CollectionClient) -> None:
    rule = {"query": {"exact": QUERIES[1]}, "pin": [{"id": "yew", "position": 1}]}
    good(wood.client.put(f"{wood.path}/rules/yew", json=rule))
    of_ada = wood.search(QUERIES[0], explore=SHARE, client_id="ada")["query_id"]
    of_bob = wood.search(QUERIES[1], explore=SHARE)["query_id"]
    wood.add({"id": "gone", "text": "a tree of another wood"})
    for document in ("yew", "gone"):  # neither a pinned document nor a missing one tells whose list it is
        wood.act(document, query_id=of_bob, client_id="eve")
    for query_id, client_id in ((of_ada, "ada"), (of_bob, "bob")):
        wood.act("oak", query_id=query_id, client_id=client_id)
        wood.act("fir", query_id=query_id, client_id=client_id)
        wood.act("oak", "thumbs_down", query_id=query_id)  # an event without a client is by the searcher
    wood.client.delete(f"{wood.path}/documents/gone")
    runtime = runtime_of(wood.client)
    state = runtime.collection(wood.name)
    runtime.impressions.flush()
    with runtime.database.read() as connection:
        rows = document_rows(connection, state.id)
        feedback = gather_feedback(connection, state.id, runtime.encoder.encode_queries, explored=True)
        estimated = read_explored(connection, state.id, state.generation, rows, None).lists
    learned = {one.text: slate for one in feedback for slate in one.explored}
    assert {one.text for one in estimated} == learned.keys() == set(QUERIES)
    for one in estimated:
        slate = learned[one.text]
        assert [row for row, clicked in zip(slate.rows, slate.clicked, strict=True) if clicked] == [rows["fir"]]
        free = ~one.kept
        assert (one.clicks[free] == np.asarray(slate.clicked)[free]).all()
    assert {one.text: one.clicks.sum() for one in estimated} == {QUERIES[0]: 1, QUERIES[1]: 2}, "a pinned click counts"


def test_an_estimate_whose_weight_few_searches_carry_has_no_interval_and_the_reason(
    wood: CollectionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    click(wood, explored(wood))
    given = wood.get("models/compare", a=0, b=1)["off_policy"]
    monkeypatch.setattr(off_policy, "RELIABLE_SHARE", 100.0)
    found = wood.get("models/compare", a=0, b=1)["off_policy"]
    for side in ("a", "b", "difference"):
        for name, one in found[side].items():
            assert (one["low"], one["high"], one["reliable"]) == (None, None, False)
            assert one["reason"].startswith("few searches carry the weight")
            kept = ("mean", "impressions", "effective_sample_size")
            assert [one[field] for field in kept] == [given[side][name][field] for field in kept]


def test_a_model_compared_with_itself_differs_in_nothing(
    wood: CollectionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(off_policy, "RELIABLE_SHARE", 0.0)  # few explored searches: their number is left to chance
    click(wood, explored(wood, limit=3))
    found = wood.get("models/compare", a=1, b=1)["off_policy"]
    assert {(one["mean"], one["low"], one["high"]) for one in found["difference"].values()} == {(0.0, 0.0, 0.0)}


def test_too_few_explored_searches_give_no_estimate_and_the_reason(wood: CollectionClient) -> None:
    explored(wood, LEAST - 1)
    wood.search(QUERIES[0])
    found = wood.get("models/compare", a=0, b=1)["off_policy"]
    assert (found["impressions"], found["need"]) == (LEAST - 1, LEAST)
    assert found["reason"].startswith(f"{LEAST - 1} explored searches")
    assert (found["a"], found["b"], found["difference"], found["logged"]) == (None, None, None, None)


def test_searches_that_cannot_be_repeated_or_were_not_explored_are_left_out(wood: CollectionClient) -> None:
    explored(wood, 2, prefix="last")
    explored(wood, 3, offset=1)
    found = wood.get("models/compare", a=0, b=1)["off_policy"]
    assert found["left_out"] == {"not_repeatable": 2, "not_explored": 3}


def test_lists_with_deleted_documents_are_left_out(wood: CollectionClient) -> None:
    explored(wood, 2)
    assert wood.client.delete(f"{wood.path}/documents/oak").status_code == 204
    explored(wood, 1)
    found = wood.get("models/compare", a=0, b=1)["off_policy"]
    assert (found["impressions"], found["left_out"]) == (1, {"document_deleted": 2})


def test_queries_that_a_model_may_have_learned_from_are_left_out(
    wood: CollectionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explored_lists, "TEST_FOLDS", 0)  # no query is a test query
    explored(wood, 2)
    runtime = runtime_of(wood.client)
    runtime.impressions.flush()
    with runtime.database.read() as connection:
        state = runtime.collection(wood.name)
        rows = document_rows(connection, state.id)
        later = explored_lists.read_explored(connection, state.id, state.generation, rows, "2000-01-01T00:00:00.000Z")
        earlier = explored_lists.read_explored(connection, state.id, state.generation, rows, "2999-01-01T00:00:00.000Z")
    assert (len(later.lists), len(earlier.lists), earlier.left_out) == (2, 0, {"learned_from": 2})


def test_a_model_of_another_encoder_has_no_estimate(wood: CollectionClient) -> None:
    with runtime_of(wood.client).database.write() as connection:
        connection.exec_driver_sql("""UPDATE models SET lineage = '{"encoder": "another"}' WHERE version = 1""")
    explored(wood)
    found = wood.get("models/compare", a=0, b=1)["off_policy"]
    assert "another encoder" in found["reason"]
    assert found["a"] is None


def test_pinned_documents_and_hidden_documents_are_as_their_rules_say(wood: CollectionClient) -> None:
    rule = {"query": {"contains": "wood"}, "pin": [{"id": "yew", "position": 1}], "hide": ["oak"]}
    good(wood.client.put(f"{wood.path}/rules/yew", json=rule))
    explored_all = [wood.search(QUERIES[0], explore=1.0) for _ in range(LEAST)]
    click(wood, explored_all)
    found = wood.get("models/compare", a=0, b=0)["off_policy"]
    assert found["a"]["ips"]["mean"] == pytest.approx(found["logged"], rel=1e-3)  # the policy that was logged
    assert found["a"]["ips"]["effective_sample_size"] == pytest.approx(LEAST, rel=1e-3)


@pytest.mark.parametrize("mode", ["hybrid", "dense", "words"])
@pytest.mark.parametrize("text", ["tree 💥 💥", "💥", "an elmm in the wood 💥"])
def test_both_models_rank_as_their_searches_do(
    wood: CollectionClient, monkeypatch: pytest.MonkeyPatch, text: str, mode: str
) -> None:
    runtime = runtime_of(wood.client)
    know_no_emoji(monkeypatch, runtime)
    wood.judge("a tree in the woods", "ash", 3)
    hide = {"query": {"exact": "an elm in the wood 💥"}, "hide": ["yew"]}
    good(wood.client.put(f"{wood.path}/rules/elm", json=hide))
    state = runtime.collection(wood.name)
    heads = model_of_version(runtime, state, 0).head, model_of_version(runtime, state, 1).head
    with runtime.database.read() as connection:
        rows = document_rows(connection, state.id)
    none = np.empty(0)
    one = ExploredList((as_query_key(text), mode, 200, ()), text, SHARE, none.astype(np.int64), none > 0, none, none)
    found = rankings(Models(runtime, state, state.generation, rows, heads), one)
    id_of = {row: name for name, row in rows.items()}
    for version, ranking in enumerate(found):
        ids = [id_of[row] for row in state.generation.rows[ranking.doc_indices].tolist()]
        assert list(zip(ids, ranking.logits.tolist(), ranking.weights.tolist(), strict=True)) == wood.ranking(
            text, mode=mode, model=version
        )


def test_the_searches_that_are_repeated_are_bounded(wood: CollectionClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explored_lists, "MAX_SEARCHES", 1)
    explored(wood, 4)
    assert wood.get("models/compare", a=0, b=1)["off_policy"]["left_out"] == {"too_many_searches": 2}
    monkeypatch.setattr(explored_lists, "MAX_LISTS", 1)
    assert wood.get("models/compare", a=0, b=1)["off_policy"]["impressions"] == 1


def test_the_command_line_shows_the_estimates_or_the_reason(fake: Fake, run: Run) -> None:
    model = {"report": {}, "lineage": {}, "created_at": "t"}
    one = {"mean": 1.5, "low": 1.25, "high": 1.75, "impressions": 300, "effective_sample_size": 120.0}
    one |= {"reliable": True, "reason": None}
    side = {"ips": one, "self_normalised": one, "doubly_robust": one}
    estimates = {"impressions": 300, "reason": None, "a": side, "b": side, "difference": side}
    path = "/v1/collections/default/models/compare"
    fake.on("GET", path, {"a": model, "b": model, "off_policy": estimates})
    shown = run("models", "compare", 0, 1, "--url", fake.url).out
    assert "300 explored searches" in shown
    assert "doubly robust" in shown
    assert "1.500 [1.250, 1.750]" in shown
    assert "no interval" not in shown
    few = one | {"low": None, "high": None, "reliable": False, "reason": "few searches carry the weight"}
    estimates["b"] = dict.fromkeys(side, few)
    fake.on("GET", path, {"a": model, "b": model, "off_policy": estimates})
    shown = run("models", "compare", 0, 1, "--url", fake.url).out
    assert "1.500 (no interval)" in shown
    assert "no interval for model 1: few searches carry the weight" in shown
    assert "no interval for model 0" not in shown
    fake.on("GET", path, {"a": model, "b": model, "off_policy": {"reason": "12 count, and 100 are needed", "a": None}})
    assert "12 count, and 100 are needed" in run("models", "compare", 0, 1, "--url", fake.url).out


def test_the_lists_of_a_client_count_as_one_cluster(wood: CollectionClient) -> None:
    """All lists of one client have no interval; lists without a client, and of a client each, have one."""
    runtime = runtime_of(wood.client)

    def lows() -> list[float | None]:
        found = wood.get("models/compare", a=0, b=1)["off_policy"]
        return [found["a"][name]["low"] for name in ("ips", "self_normalised", "doubly_robust")]

    answers = explored(wood, q=QUERIES[0])
    click(wood, answers)
    assert None not in lows()
    runtime.impressions.flush()
    for names, is_given in ((["ann"] * LEAST, False), ([f"client {n}" for n in range(LEAST)], True)):
        with runtime.database.write() as connection:
            for name, answer in zip(names, answers, strict=True):
                changed = update(QUERIES_TABLE).where(QUERIES_TABLE.c.query_id == answer["query_id"])
                connection.execute(changed.values(client_id=name))
        assert [low is not None for low in lows()] == [is_given] * 3
