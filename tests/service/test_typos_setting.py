"""The setting `typos` is changed field by field, and its lengths are in order. Stop words are single words."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.service.client import create, good, opened, problem, runtime_of
from tests.service.test_search_parameters import DOCUMENTS, FILTERABLE, ids


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("typos") / "data") as client:
        yield client


def test_a_field_of_typos_that_is_left_out_keeps_its_value(client: TestClient) -> None:
    created = create(client, "kept", typos={"off_words": ["ketle"]})

    def put(typos: Any) -> Any:
        return good(client.put(created.path, json={"typos": typos}))["settings"]["typos"]

    assert created.get()["settings"]["typos"] == {"enabled": True, "off_words": ["ketle"]}
    assert put({"one_edit": 5}) == {"enabled": True, "off_words": ["ketle"], "one_edit": 5}
    assert put({"enabled": False}) == {"enabled": False, "off_words": ["ketle"], "one_edit": 5}
    assert put({"off_words": []}) == {"enabled": False, "off_words": [], "one_edit": 5}
    assert put(False) is False
    assert put({"two_edits": 9}) == {"enabled": False, "two_edits": 9}


def test_words_of_one_edit_are_not_longer_than_words_of_two(client: TestClient) -> None:
    def refused(name: str, typos: dict[str, int]) -> bool:
        answer = client.put(f"/v1/collections/{name}", json={"typos": typos})
        return problem(answer, 422, "invalid_request")["errors"][0]["pointer"] == "/typos"

    assert refused("lengths", {"one_edit": 9})  # two_edits is 8 by default
    assert client.get("/v1/collections/lengths").status_code == 404
    created = create(client, "lengths", typos={"one_edit": 9, "two_edits": 9})
    assert refused("lengths", {"two_edits": 8})
    assert created.get()["settings"]["typos"] == {"enabled": True, "one_edit": 9, "two_edits": 9}


def test_lengths_that_were_stored_out_of_order_stay_until_they_are_changed(client: TestClient) -> None:
    created = create(client, "stored")
    state = runtime_of(client).collection("stored")
    state.configure(replace(state.settings, typos={"one_edit": 12}))
    assert good(client.put(created.path, json={"stop_words": ["the"]}))["settings"]["typos"] == {"one_edit": 12}
    assert client.put(created.path, json={"typos": {"two_edits": 11}}).status_code == 422


@pytest.mark.parametrize("fields", [["url"], "title", ["title", "text", "title"], [None]])
def test_an_unknown_field_without_corrections_is_refused(client: TestClient, fields: Any) -> None:
    answer = client.put("/v1/collections/refused", json={"typos": {"off_fields": fields}})
    assert problem(answer, 422, "invalid_request")["errors"][0]["pointer"].startswith("/typos")


def test_typos_can_be_switched_off_for_a_field(client: TestClient) -> None:
    created = create(client, "codes", filterable=FILTERABLE, typos={"off_fields": ["title"]})
    created.add(*DOCUMENTS, {"id": "code", "title": "Zalto", "text": "A kettle."})
    assert created.get()["settings"]["typos"]["off_fields"] == ["title"]
    answer = created.search("ketle", mode="words", explain=True, facets=["brand"])
    assert set(ids(answer)) == {"kettle", "kettle-2", "cup", "code"}
    assert answer["facets"]["brand"]["values"] == {"Ada": 2}
    assert {mark["field"] for hit in answer["hits"] for mark in hit["highlights"]} == {"text"}

    good(client.put(created.path, json={"typos": {"off_fields": ["text"]}}))
    answer = created.search("ketle", mode="words")
    assert set(ids(answer)) == {"kettle", "kettle-2"}
    assert {mark["field"] for hit in answer["hits"] for mark in hit["highlights"]} == {"title"}
    assert ids(created.search("salto", mode="words")) == ["code"]
    good(client.put(created.path, json={"typos": True}))
    assert set(ids(created.search("ketle", mode="words"))) == {"kettle", "kettle-2", "cup", "code"}


def test_a_stop_word_of_several_words_is_refused_unless_it_is_stored(client: TestClient) -> None:
    shop = create(client, "stopped-twice", stop_words=["for", "don't"])
    refused = problem(client.put(shop.path, json={"stop_words": ["of", "des mines"]}), 422, "invalid_request")
    assert refused["errors"] == [{"pointer": "/stop_words", "detail": "a stop word is a single word"}]
    assert shop.get()["settings"]["stop_words"] == ["for", "don't"]
    runtime_of(client).collections["stopped-twice"].settings.stop_words.append("des mines")  # as an earlier release did
    assert client.put(shop.path, json={"stop_words": ["of", "des mines"]}).status_code == 200
