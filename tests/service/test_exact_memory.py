"""Exact memory over HTTP: documents that people rated highly for the very words of a query come first for them."""

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from service.runtime.collection_repository import collection_row
from service.runtime.loader import load_collection
from tests.service.client import CollectionClient, create, opened, runtime_of

QUERY = "which tree is tall"
PARAPHRASE = "which tree is very tall"
COUNT = 30


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("exact") / "data") as client:
        yield client


@pytest.fixture
def wood(client: TestClient, request: pytest.FixtureRequest) -> CollectionClient:
    """A new collection with documents of decreasing similarity to the query."""
    wood = create(client, request.node.name.replace("_", "-").replace("[", "-").rstrip("]")[:100])
    wood.add(*({"id": f"tree{n}", "text": "which tree is tall " + f"word{n} " * n} for n in range(1, COUNT + 1)))
    return wood


def clicked(wood: CollectionClient, document: str, *clients: str | None, searches: int = 1) -> None:
    """Log `searches` searches for each client, who clicks the document in the first."""
    for client_id in clients:
        query_ids = [wood.search(QUERY, limit=COUNT)["query_id"] for _ in range(searches)]
        wood.act(document, query_id=query_ids[0], client_id=client_id)


def test_a_rating_of_four_brings_the_last_document_to_the_top(wood: CollectionClient) -> None:
    before, near = wood.ids(QUERY, limit=COUNT), wood.ids(PARAPHRASE, limit=COUNT)
    wood.judge(f" {QUERY.upper()} ", before[-1], 4)
    assert wood.ids(QUERY, limit=COUNT) == [before[-1], *before[:-1]]
    (hit, *_) = wood.search(QUERY, explain=True, log=False)["hits"]
    assert sum(hit["explain"]["parts"].values()) == pytest.approx(hit["logit"], abs=1e-3)
    assert wood.ids(PARAPHRASE, limit=COUNT)[0] == near[0]


def test_ratings_of_zero_and_dislikes_undo_a_rating_and_their_removal_restores_it(wood: CollectionClient) -> None:
    last = wood.ids(QUERY, limit=COUNT)[-1]
    wood.judge(QUERY, last, 4, rater="ada")
    first = wood.ranking(QUERY)
    assert first[0][0] == last
    wood.judge(QUERY, last, 0, rater="bob")
    assert wood.ids(QUERY)[0] != last
    wood.judge(QUERY, last, None, rater="bob")
    assert wood.ranking(QUERY) == first
    wood.act(last, "thumbs_down", user_query=QUERY, client_id="carl")
    assert wood.ids(QUERY)[0] != last
    wood.post("events/delete", {"client_id": "carl"})
    assert wood.ranking(QUERY) == first


def test_a_rating_of_zero_is_no_key_of_memory(wood: CollectionClient) -> None:
    before = wood.ranking(QUERY)
    wood.judge(QUERY, "tree3", 0)
    assert wood.ranking(QUERY) == before
    assert wood.get()["counts"]["keys"]["query"] == 0


def test_three_clients_bring_a_document_to_the_top_and_two_only_nudge(wood: CollectionClient) -> None:
    last = wood.ids(QUERY, limit=COUNT)[-1]
    clicked(wood, last, "ada", "bob", None, None, None)
    assert wood.ids(QUERY, limit=COUNT)[0] != last
    clicked(wood, last, "carl")
    assert wood.ids(QUERY, limit=COUNT)[0] == last
    wood.post("events/delete", {"client_id": "carl"})
    assert wood.ids(QUERY, limit=COUNT)[0] != last


def test_clicks_that_clients_came_back_from_at_once_do_not_qualify(wood: CollectionClient) -> None:
    last = wood.ids(QUERY, limit=COUNT)[-1]
    for client_id in ("ada", "bob", "carl"):
        query_id = wood.search(QUERY, limit=COUNT)["query_id"]
        attributes = {"object": {"object_id": last}, "dwell_time_seconds": 2}
        wood.act(last, query_id=query_id, client_id=client_id, event_attributes=attributes)
    assert wood.ids(QUERY, limit=COUNT)[0] != last


def test_rare_clicks_are_noise(wood: CollectionClient) -> None:
    last = wood.ids(QUERY, limit=COUNT)[-1]
    clicked(wood, last, "ada", "bob", "carl", searches=12)
    assert wood.ids(QUERY, limit=COUNT)[0] != last


def test_a_client_that_searches_again_and_again_counts_once(wood: CollectionClient) -> None:
    last = wood.ids(QUERY, limit=COUNT)[-1]
    clicked(wood, last, "ada", "bob")
    for client_id in ["carl"] * 12 + ["dora"] * 30:
        query_id = wood.search(QUERY, limit=COUNT, client_id=client_id)["query_id"]
    wood.act("tree20", query_id=query_id, client_id="dora")
    wood.act(last, query_id=wood.search(QUERY, limit=COUNT, client_id="carl")["query_id"], client_id="carl")
    assert wood.ids(QUERY, limit=COUNT)[0] == last


def test_impressions_without_an_event_change_nothing_and_a_deleted_event_leaves_no_trace(
    wood: CollectionClient,
) -> None:
    last = wood.ids(QUERY, limit=COUNT)[-1]
    clicked(wood, last, "ada", "bob", "carl")
    first = wood.ranking(QUERY)
    assert first[0][0] == last
    for _ in range(30):
        wood.search(QUERY, limit=COUNT)
    runtime_of(wood.client).impressions.flush()
    assert wood.ranking(QUERY) == first
    wood.act("tree20", user_query=QUERY, client_id="dora")  # the impressions before it count now: three clicks in 33
    assert wood.ids(QUERY)[0] != last
    wood.post("events/delete", {"client_id": "dora"})
    assert wood.ranking(QUERY) == first


def test_clicks_without_a_logged_impression_do_not_qualify(wood: CollectionClient) -> None:
    last = wood.ids(QUERY, limit=COUNT)[-1]
    for client_id in ("ada", "bob", "carl"):
        wood.act(last, user_query=QUERY, client_id=client_id)
    assert wood.ids(QUERY, limit=COUNT)[0] != last


def test_a_collection_loaded_again_has_the_same_ranking(wood: CollectionClient) -> None:
    ids = wood.ids(QUERY, limit=COUNT)
    wood.judge(QUERY, ids[-1], 4)
    wood.judge(QUERY, ids[-2], 4, rater="ada")
    wood.judge(QUERY, ids[-2], 0, rater="bob")
    clicked(wood, ids[-3], "ada", "bob", "carl")
    runtime = runtime_of(wood.client)
    state = runtime.collection(wood.name)
    with runtime.database.read() as connection:
        row = collection_row(connection, state.id)
    loaded = load_collection(runtime.database, row, runtime.settings.data)
    assert loaded.generation.memory.keys[0].exact in (0.0, 3.0, 4.0)
    assert [(one.row, one.exact) for one in loaded.generation.memory.keys] == [
        (one.row, one.exact) for one in state.generation.memory.keys
    ]
    assert sorted(one.exact for one in loaded.generation.memory.keys) == [0.0, 3.0, 4.0]
    loaded.store.close()


def test_an_updated_document_keeps_its_place(wood: CollectionClient) -> None:
    ids = wood.ids(QUERY, limit=COUNT)
    wood.judge(QUERY, ids[-1], 4)
    clicked(wood, ids[-2], "ada", "bob", "carl")
    wood.add(*({"id": one, "text": "another text about a tree"} for one in ids[-2:]))
    assert wood.ids(QUERY, limit=COUNT)[:2] == [ids[-1], ids[-2]]


@pytest.mark.parametrize("judged", [QUERY, f"{QUERY}?"], ids=["plain", "question"])
def test_punctuation_around_words_changes_nothing(wood: CollectionClient, judged: str) -> None:
    others = (QUERY, f"{QUERY}?", f'"{QUERY}"', f"{QUERY}.", f"{QUERY} ?")
    last = wood.ids(QUERY, limit=COUNT)[-1]
    before = [wood.ranking(one) for one in others]
    wood.judge(judged, last, 4)
    assert [wood.ids(one)[0] for one in others] == [last] * len(others)
    wood.judge(f"{QUERY}!", last, 0, rater="bob")
    assert all(wood.ids(one)[0] != last for one in others), "the mean of all spellings"
    wood.judge(f"{QUERY}!", last, None, rater="bob")
    wood.act(last, "thumbs_down", user_query=f"{QUERY}!", client_id="carl")
    assert all(wood.ids(one)[0] != last for one in others), "a dislike undoes it"
    wood.post("events/delete", {"client_id": "carl"})
    wood.judge(judged, last, None)
    assert [wood.ranking(one) for one in others] == before


def test_feedback_on_the_corrected_words_is_obeyed(wood: CollectionClient) -> None:
    typed = "which treee is tall"
    answer = wood.search(typed, limit=COUNT)
    assert answer["corrections"] == [{"from": "treee", "to": "tree"}]
    last = answer["hits"][-1]["id"]
    before = wood.ranking(typed)
    wood.judge(QUERY, last, 4)
    assert wood.ids(typed)[0] == last
    assert wood.search(typed, typos=False)["hits"][0]["id"] != last
    wood.judge(QUERY, last, None)
    wood.judge(typed, last, 4)
    assert wood.ids(typed)[0] == last
    wood.judge(typed, last, None)
    assert wood.ranking(typed) == before
    wood.judge(QUERY, last, 4)
    assert wood.ids(f"{typed} -word2", operators=True)[0] != last, "the words that it excludes are other words"


def test_feedback_on_the_corrected_words_is_obeyed_with_their_accents(client: TestClient) -> None:
    hilfe = create(client, "hilfe", language="german")
    hilfe.add(*({"id": f"{n}", "text": "Konto löschen" + " und mehr" * n} for n in range(5)))
    answer = hilfe.search("konto löshcen")
    assert answer["corrections"] == [{"from": "löshcen", "to": "löschen"}]
    last = answer["hits"][-1]["id"]
    hilfe.judge("Konto löschen", last, 4)
    assert hilfe.ids("konto löshcen")[0] == last


def test_a_corrected_query_is_near_the_past_queries_of_both_texts(wood: CollectionClient) -> None:
    answer = wood.search("which treee is tall", limit=COUNT)
    last = answer["hits"][-1]["id"]
    wood.judge(PARAPHRASE, last, 4)
    (typed,) = (hit for hit in wood.search("which treee is tall", limit=COUNT)["hits"] if hit["id"] == last)
    (right,) = (hit for hit in wood.search(QUERY, limit=COUNT)["hits"] if hit["id"] == last)
    (before,) = (hit for hit in answer["hits"] if hit["id"] == last)
    assert typed["logit"] - before["logit"] > 1
    assert typed["position"] == right["position"] < before["position"]


def test_clicks_under_one_spelling_change_what_is_known_of_another(wood: CollectionClient) -> None:
    last = wood.ids(QUERY, limit=COUNT)[-1]
    wood.act(last, user_query=f"{QUERY}?", client_id="dora")
    clicked(wood, last, "ada", "bob", "carl")
    assert [wood.ids(one)[0] for one in (QUERY, f"{QUERY}?", f"{QUERY}!")] == [last] * 3
    wood.post("events/delete", {"client_id": "carl"})
    assert all(wood.ids(one)[0] != last for one in (QUERY, f"{QUERY}?", f"{QUERY}!"))


def test_a_kept_result_of_a_mistyped_query_ends_with_feedback_on_the_corrected_words(wood: CollectionClient) -> None:
    typed = "which treee is tall"
    last = wood.ids(typed, limit=COUNT)[-1]
    assert wood.ids(typed, limit=COUNT)[-1] == last, "from memory"
    wood.judge(f"{QUERY}?", last, 4)
    assert wood.ids(typed, limit=COUNT)[0] == last


def test_feedback_on_one_version_does_not_concern_another(wood: CollectionClient) -> None:
    wood.add(*({"id": f"v{n}", "text": f"install drive 5.{n} on a computer"} for n in range(3)))
    before = wood.ranking("install drive 5.0")
    for client_id in ("ada", "bob", "carl", "dora"):
        wood.act("v2", user_query="install drive 5.2", client_id=client_id)
    assert wood.ranking("install drive 5.0") == before
    assert wood.ids("install drive")[0] == "v2"
