"""Training knows whose clicks are whose: by the client of a search, else its session, else the search itself."""

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from index.learning.examples import hash_of
from service.runtime.feedback_log import gather_feedback
from tests.service.client import CollectionClient, create, opened, runtime_of

QUERY = "a tall tree"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("clicks") / "data") as client:
        yield client


@pytest.fixture
def wood(client: TestClient, request: pytest.FixtureRequest) -> CollectionClient:
    wood = create(client, request.node.name.replace("_", "-")[:100])
    wood.add({"id": "oak", "text": "a tall tree"}, {"id": "elm", "text": "a tall tree too"})
    return wood


def clients_of(wood: CollectionClient) -> dict[int, int]:
    """Return client -> clicks on the document `oak` for the query."""
    runtime = runtime_of(wood.client)
    runtime.impressions.flush()
    with runtime.database.read() as connection:
        row = connection.exec_driver_sql(
            f"SELECT row FROM documents WHERE id = 'oak' AND collection_id = {wood.id}"
        ).scalar_one()
        (feedback,) = [one for one in gather_feedback(connection, wood.id) if one.query_key == QUERY]
    return dict((feedback.clients or {})[row])


def test_a_client_is_the_same_in_all_its_searches(wood: CollectionClient) -> None:
    for name in ("ada", "ada", "bob"):
        wood.act("oak", query_id=wood.search(QUERY, client_id=name)["query_id"], client_id=name)
    assert clients_of(wood) == {hash_of("ada"): 2, hash_of("bob"): 1}


def test_a_client_that_only_its_event_names_clicked_the_list(wood: CollectionClient) -> None:
    wood.act("oak", query_id=wood.search(QUERY)["query_id"], client_id="ada")
    assert clients_of(wood) == {hash_of("ada"): 1}


def test_a_session_stands_for_a_client_that_is_not_named(wood: CollectionClient) -> None:
    query_id = wood.search(QUERY, session_id="visit")["query_id"]
    wood.act("oak", query_id=query_id, session_id="visit")
    assert clients_of(wood) == {hash_of("visit"): 1}


def test_each_anonymous_search_is_a_client_of_its_own(wood: CollectionClient) -> None:
    searches = [wood.search(QUERY)["query_id"] for _ in range(2)]
    for query_id in searches:
        wood.act("oak", query_id=query_id, client_id=None)
    assert clients_of(wood) == {hash_of(query_id): 1 for query_id in searches}


def test_who_clicks_the_list_of_another_is_a_client_too(wood: CollectionClient) -> None:
    query_id = wood.search(QUERY, client_id="ada")["query_id"]
    for name in ("ada", "bob"):
        wood.act("oak", query_id=query_id, client_id=name)
    assert clients_of(wood) == {hash_of("ada"): 1, hash_of("bob"): 1}
