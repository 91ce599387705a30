"""Where documents are in partitions, a tenant learns neither what others type nor that their vectors are being made."""

from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from fastapi.testclient import TestClient

from benchmarks.postgres import PostgresServer
from service.documents import words_first
from tests.service.authorised import Keys
from tests.service.client import create, good, opened
from tests.service.held_encoding import HeldEncoding
from tests.service.partitioned import partitioned
from tests.service.test_partitions import caught_up

OF_WORDS = ("words", "frequencies", "seen_documents", "with_prefix")
"""The requests that ask partitions for counts of words."""


def test_a_tenant_learns_nothing_of_others_from_partitions(
    postgres_server: PostgresServer, tmp_path: Path, encoding: HeldEncoding
) -> None:
    address = postgres_server.database(f"tenants-{uuid4().hex[:8]}")
    documents = [{"id": tenant, "text": "an old oak", "metadata": {"tenant": tenant}} for tenant in ("mine", "yours")]
    waiting = [documents[1] | {"id": f"late-{n}"} for n in range(words_first.MANY + 1)]
    with opened(tmp_path / "writer", database=address) as writer:
        encoding.open()
        create(writer, "wood", filterable=["tenant"]).add(*documents)
        encoding.hold()
        good(writer.post("/v1/collections/wood/documents", json={"documents": waiting}))
        encoding.wait_for_words()
        keys = Keys.first(writer)
        mine, yours, owner = (
            keys.headers("search", filter="tenant = mine"),
            keys.headers("search", filter="tenant = yours"),
            keys.headers("search"),
        )
        with partitioned(tmp_path, address, 2) as (client, partitions):
            caught_up(writer, client, partitions)

            def search(headers: dict[str, str], **more: Any) -> tuple[list[str], int]:
                """Return `degraded`, and how often a partition was asked for counts of words."""
                partitions[0].asked.clear()
                body = {"q": "a very old oak", "typos": False, **more}
                answer = good(client.post("/v1/collections/wood/search", json=body, headers=headers))
                return answer["degraded"], sum(partitions[0].asked.count(one) for one in OF_WORDS)

            pending = ["vectors_pending"]
            assert [search(mine), search(mine)] == [([], 2), ([], 0)]
            assert [search(yours), search(yours)] == [(pending, 2), (pending, 0)]
            assert [search(owner), search(owner)] == [(pending, 1), (pending, 0)]
            assert [search(one, q="*")[0] for one in (mine, yours, owner)] == [[], pending, pending]
            for partition in partitions:
                state = partition.runtime.collection("wood")
                state.serving = replace(state.serving, head=state.serving.head.changed(context=0.5))
            nothing = {"filter": "tenant = mine"}
            assert search(yours, **nothing)[0] == []
            assert [search(one, **nothing, context=["late-1"])[0] for one in (mine, yours)] == [[], pending]
        encoding.open()


def test_a_compound_of_another_tenant_hides_no_document_of_partitions(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    address = postgres_server.database(f"tenants-{uuid4().hex[:8]}")
    texts = {"mine": ["Der Vertrag", "Ein Mietvertrag", "Kuchen"], "yours": ["Ein Kaufvertrag", "Kaufvertrag"]}
    documents = [
        {"id": f"{tenant}-{n}", "text": one, "metadata": {"tenant": tenant}}
        for tenant, of_tenant in texts.items()
        for n, one in enumerate(of_tenant)
    ]
    with opened(tmp_path / "writer", database=address) as writer:
        create(writer, "contracts", language="german").add(*documents)
        headers = Keys.first(writer).headers("search", filter="tenant = mine")
        with partitioned(tmp_path, address, 2) as (client, partitions):
            caught_up(writer, client, partitions)
            body = {"q": "Kaufvertrag", "mode": "words"}
            answer = good(client.post("/v1/collections/contracts/search", json=body, headers=headers))
            assert {hit["id"] for hit in answer["hits"]} == {"mine-0", "mine-1"}


def test_a_tenants_own_words_correct_and_complete_as_in_a_single_service(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    address = postgres_server.database(f"tenants-{uuid4().hex[:8]}")
    texts = {
        "mine": ["A kettle of steel", "A tea pot of iron", "Kettles and cups"],
        "yours": ["The kettel brand", "Kettel crisps", "A teapot"],
    }
    documents = [
        {"id": f"{tenant}-{n}", "text": one, "metadata": {"tenant": tenant}}
        for tenant, of_tenant in texts.items()
        for n, one in enumerate(of_tenant)
    ]
    with opened(tmp_path / "writer", database=address) as writer:
        create(writer, "shop").add(*documents)
        keys = Keys.first(writer)
        headers_of = {tenant: keys.headers("search", filter=f"tenant = {tenant}") for tenant in texts}
        with partitioned(tmp_path, address, 2) as (client, partitions):
            caught_up(writer, client, partitions)

            def found(service: TestClient, tenant: str, search: dict[str, Any]) -> Any:
                headers = headers_of[tenant]
                answer = good(
                    service.post("/v1/collections/shop/search", json=search | {"log": False}, headers=headers)
                )
                return [(hit["id"], hit["logit"]) for hit in answer["hits"]], answer["corrections"]

            searches: list[dict[str, Any]] = [
                {"q": "kettel"},
                {"q": "teapot"},
                {"q": "ke", "prefix": "last"},
                {"q": "steal cup", "mode": "words"},
            ]
            for tenant in texts:
                for search in searches:
                    assert found(client, tenant, search) == found(writer, tenant, search), (tenant, search)
            assert found(client, "mine", {"q": "kettel"})[1] == [{"from": "kettel", "to": "kettle"}]
            assert found(client, "yours", {"q": "kettel"})[1] == []
