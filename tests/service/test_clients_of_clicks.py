"""Training knows whose clicks are whose: by the client of a search, else its session."""

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from index.learning.examples import UNKNOWN
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
    assert clients_of(wood) == {1: 2, 2: 1}


def test_a_client_that_only_its_event_names_clicked_the_list(wood: CollectionClient) -> None:
    wood.act("oak", query_id=wood.search(QUERY)["query_id"], client_id="ada")
    assert clients_of(wood) == {1: 1}


def test_a_session_stands_for_a_client_that_is_not_named(wood: CollectionClient) -> None:
    query_id = wood.search(QUERY, session_id="visit")["query_id"]
    wood.act("oak", query_id=query_id, session_id="visit")
    assert clients_of(wood) == {1: 1}


def test_clicks_without_a_name_are_of_unknown_clients(wood: CollectionClient) -> None:
    for _ in range(2):
        wood.act("oak", query_id=wood.search(QUERY)["query_id"], client_id=None)
    assert clients_of(wood) == {UNKNOWN: 2}


def test_who_clicks_the_list_of_another_is_a_client_too(wood: CollectionClient) -> None:
    query_id = wood.search(QUERY, client_id="ada")["query_id"]
    for name in ("ada", "bob"):
        wood.act("oak", query_id=query_id, client_id=name)
    assert clients_of(wood) == {1: 1, 2: 1}


def test_clicks_on_a_document_that_a_rater_rejected_are_nobodys(wood: CollectionClient) -> None:
    for document in ("oak", "elm"):
        wood.act(document, query_id=wood.search(QUERY, client_id="ada")["query_id"], client_id="ada")
    wood.judge(QUERY, "elm", 0)
    assert clients_of(wood) == {1: 1}
    with runtime_of(wood.client).database.read() as connection:
        (feedback,) = gather_feedback(connection, wood.id)
    assert feedback.clients is not None
    assert feedback.clicks is not None
    assert feedback.clients.keys() == feedback.clicks.keys()
