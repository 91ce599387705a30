"""Feedback of tenants that share a collection: the feedback of one changes nothing for another."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from sqlalchemy import Engine, delete, insert, select, update
from sqlalchemy.event import listen, remove

from index.memory.query_key import anonymous_key
from service.erasures.repository import subject_rows
from service.feedback.repository import delete_events
from service.operations.retention_repository import expiring_keys
from service.runtime import click_repository
from service.runtime.click_repository import COUNTED, SCANNED, click_counts
from service.runtime.collection_repository import collection_row
from service.runtime.feedback_log import gather_feedback
from service.runtime.feedback_repository import graded_events, shown_lists
from service.runtime.loader import load_collection
from service.searchers.spool import store_delivered
from service.storage.tables import EVENTS, KEYS, QUERIES
from service.storage.tables_of_administration import ERASURES
from service.storage.tenants import ESCAPE, split, tenant_of_filter
from tests.service.authorised import Keys, bearer
from tests.service.client import CollectionClient, create, event, good, opened, runtime_of

QUERY = "which tree is tall"
FILTERS = {name: f'tenant = "{name}"' for name in "ab"}
TENANTS = {name: tenant_of_filter(filter) for name, filter in FILTERS.items()}


class Wood:
    """A collection with ten documents of each of two tenants, of decreasing similarity to the query."""

    def __init__(self, keys: Keys, shop: CollectionClient) -> None:
        self.keys, self.shop = keys, shop
        self.headers = {name: keys.headers("search", "events", filter=filter) for name, filter in FILTERS.items()} | {
            "owner": bearer(keys.admin)
        }

    def post(self, tenant: str, path: str, body: Any) -> Any:
        return good(self.shop.client.post(f"{self.shop.path}/{path}", json=body, headers=self.headers[tenant]))

    def ranking(self, tenant: str, q: str = QUERY) -> list[tuple[str, float]]:
        hits = self.post(tenant, "search", {"q": q, "log": False, "limit": 100})["hits"]
        return [(hit["id"], hit["logit"]) for hit in hits]

    def search(self, tenant: str, q: str = QUERY, **more: Any) -> str:
        return str(self.post(tenant, "search", {"q": q, "limit": 20, **more})["query_id"])

    def click(self, tenant: str, document: str, *clients: str | None, **more: Any) -> None:
        """Click a document of a logged search as each client."""
        for client in clients:
            logged = more or {"query_id": self.search(tenant, client_id=client)}
            assert self.post(tenant, "events", event(document, client_id=client, **logged))["accepted"] == 1

    def repeat_search(self, query_id: str, times: int) -> None:
        """Log a search as often again."""
        runtime = runtime_of(self.shop.client)
        runtime.impressions.flush()
        with runtime.database.write() as connection:
            row = connection.execute(select(QUERIES).where(QUERIES.c.query_id == query_id)).mappings().one()
            query = {column.key: row[column] for column in QUERIES.c}
            connection.execute(insert(QUERIES), [query | {"query_id": f"{query_id}-{n}"} for n in range(times)])

    def repeat_event(self, times: int) -> None:
        """Store the last event as often again, each of another client of its tenant."""
        with runtime_of(self.shop.client).database.write() as connection:
            last = connection.execute(select(EVENTS).order_by(EVENTS.c.id.desc())).mappings().first()
            assert last is not None
            event = {column.key: last[column] for column in EVENTS.c if column is not EVENTS.c.id}
            names = [f"{split(last[EVENTS.c.client_id])[0]}c{n}" for n in range(times)]
            connection.execute(insert(EVENTS), [event | {"client_id": name} for name in names])

    def counts(self, tenants: str) -> dict[str, tuple[int, int]]:
        """Return tenant -> logged searches of QUERY that clicked and that showed its document 9."""
        row_of = dict(self.rows("SELECT id, row FROM documents"))
        wanted = {QUERY: {TENANTS[tenant]: [row_of[f"{tenant}9"]] for tenant in tenants}}
        counts = click_counts(runtime_of(self.shop.client).database, self.shop.id, wanted)[QUERY]
        found = {tenant: counts[TENANTS[tenant]][row_of[f"{tenant}9"]] for tenant in tenants}
        return {tenant: (one.clicked, one.shown) for tenant, one in found.items()}

    def rows(self, wanted: str) -> list[Any]:
        runtime = runtime_of(self.shop.client)
        runtime.impressions.flush()
        with runtime.database.read() as connection:
            return [tuple(row) for row in connection.exec_driver_sql(wanted)]

    def memory_after_a_start(self) -> tuple[Mapping[Any, Any], Mapping[Any, Any]]:
        """Return the keys of memory, and those of the collection loaded again."""
        runtime = runtime_of(self.shop.client)
        state = runtime.collection(self.shop.name)
        with runtime.database.read() as connection:
            row = collection_row(connection, state.id)
        loaded = load_collection(runtime.database, row, runtime.settings.data)
        memories = (state.generation.memory.keys, loaded.generation.memory.keys)
        loaded.store.close()
        now, again = ({(one.query_key, one.row): (one.weight, one.exact) for one in keys} for keys in memories)
        return now, again


@pytest.fixture
def wood(tmp_path: Any) -> Iterator[Wood]:
    with opened(tmp_path / "data") as client:
        shop = create(client, "shop", filterable=["tenant"])
        shop.add(
            *(
                {"id": f"{of}{n}", "text": "which tree is tall " + f"word{n} " * n, "metadata": {"tenant": of}}
                for of in "ab"
                for n in range(10)
            )
        )
        yield Wood(Keys.first(client), shop)


@pytest.mark.parametrize("client", ["c", None])
def test_clicks_of_a_tenant_do_not_weaken_those_of_another(wood: Wood, client: str | None) -> None:
    wood.click("a", "a5", "x", user_query=QUERY)
    before = wood.ranking("a")
    names = [client and f"{client}{n}" for n in range(30)]
    wood.post("b", "events", [event("b0", user_query=QUERY, client_id=name) for name in names])
    assert wood.ranking("a") == before
    assert wood.ranking("b")[0][0] == "b0"
    now, again = wood.memory_after_a_start()
    assert now == again


def test_searches_of_a_tenant_do_not_end_that_feedback_of_another_is_obeyed(wood: Wood) -> None:
    wood.click("a", "a9", "x", "y", "z")
    first = wood.ranking("a")
    assert first[0][0] == "a9"
    wood.repeat_search(wood.search("b", client_id="bee"), COUNTED + 5)
    wood.click("b", "b0", "bee")
    assert wood.ranking("a") == first
    wood.click("a", "a9", "w")  # after the searches of the other
    assert wood.ranking("a")[0][0] == "a9"
    now, again = wood.memory_after_a_start()
    assert now == again


def test_the_latest_searches_of_a_tenant_are_counted_among_a_limited_number(wood: Wood) -> None:
    wood.click("a", "a9", "x", "y", "z")
    assert wood.counts("a") == {"a": (3, 3)}
    wood.repeat_search(wood.search("b", client_id="bee"), SCANNED)
    wood.click("a", "a9", "w")
    assert wood.counts("a") == {"a": (1, 1)}


def test_a_search_and_feedback_without_a_client_are_of_the_tenant_and_of_no_client(wood: Wood) -> None:
    wood.click("a", "a5", None)
    stored = {*wood.rows("SELECT client_id FROM queries"), *wood.rows("SELECT client_id FROM events")}
    assert stored == {(TENANTS["a"],)}
    (query_id,) = wood.rows("SELECT query_id FROM queries")[0]
    assert good(wood.keys.act("GET", f"{wood.shop.path}/queries/{query_id}"))["client_id"] is None
    runtime = runtime_of(wood.shop.client)
    with runtime.database.read() as connection:
        (one,) = gather_feedback(connection, wood.shop.id)
    assert one.clicks


def test_clients_of_one_name_are_apart_and_an_owner_deletes_those_of_all_tenants(wood: Wood) -> None:
    for tenant in "ab":
        wood.click(tenant, f"{tenant}5", "7", "8")
    wood.post("owner", "events", event("a5", client_id="7", user_query=QUERY))
    query_ids = [id for (id,) in wood.rows("SELECT query_id FROM queries ORDER BY query_id")]
    shown = [good(wood.keys.act("GET", f"{wood.shop.path}/queries/{id}"))["client_id"] for id in query_ids]
    assert shown == [TENANTS[tenant] + client for tenant in "ab" for client in "78"]
    runtime = runtime_of(wood.shop.client)

    def erased(subject: str) -> tuple[int, int]:
        with runtime.database.read() as connection:
            rows = subject_rows(connection, wood.shop.id, "client", subject)
        return len(rows.events), len(rows.impressions)

    assert erased("7") == (3, 2)
    assert erased(f"{TENANTS['a']}7") == (1, 1)
    assert wood.post("owner", "events/delete", {"client_id": f"{TENANTS['b']}8"}) == {"deleted": 1}
    assert wood.post("owner", "events/delete", {"client_id": "7"}) == {"deleted": 3}
    assert wood.rows("SELECT client_id FROM events") == [(f"{TENANTS['a']}8",)]


def test_what_has_no_client_in_the_session_of_an_erased_client_is_erased_in_its_tenant_only(wood: Wood) -> None:
    for tenant in "ab":
        wood.search(tenant, client_id="7" if tenant == "a" else "9", session_id="s")
        more = {"session_id": "s", "user_query": QUERY}
        assert wood.post(tenant, "events", event(f"{tenant}5", **more))["accepted"] == 1
    runtime = runtime_of(wood.shop.client)
    runtime.impressions.flush()
    with runtime.database.read() as connection:
        rows = subject_rows(connection, wood.shop.id, "client", "7")
    assert (len(rows.events), len(rows.impressions)) == (1, 1)


def test_feedback_of_the_owner_on_a_search_of_a_tenant_is_of_that_tenant(wood: Wood) -> None:
    for client in "xyz":
        query_id = wood.search("a", client_id=client)
        assert wood.post("owner", "events", event("a9", client_id=client, query_id=query_id))["accepted"] == 1
    assert {split(name)[0] for (name,) in wood.rows("SELECT client_id FROM events")} == {TENANTS["a"]}
    assert wood.ranking("a")[0][0] == "a9"


def test_feedback_on_a_search_of_a_tenant_has_its_client_and_session_once(wood: Wood) -> None:
    of_tenant = {"client_id": f"{TENANTS['a']}x", "session_id": f"{TENANTS['a']}s"}
    query_id = wood.search("a", client_id="x", session_id="s")
    for names in (of_tenant, {"client_id": "x", "session_id": "s"}):
        assert wood.post("owner", "events", event("a9", query_id=query_id, **names))["accepted"] == 1
    for table in ("events", "queries"):
        assert set(wood.rows(f"SELECT client_id, session_id FROM {table}")) == {tuple(of_tenant.values())}
    assert wood.post("owner", "events/delete", {"client_id": "x"}) == {"deleted": 2}


def test_a_key_without_a_filter_cannot_write_in_the_name_of_a_tenant(wood: Wood) -> None:
    wood.click("a", "a5", "x", "y", user_query=QUERY)
    before, of = wood.ranking("a"), TENANTS["a"]
    forged = [
        event("b0", user_query=QUERY, client_id=f"{of}{n}", session_id=f"{of}s", query_id=f"{of}ext") for n in range(9)
    ]
    verdict = event("b0", "thumbs_up", user_query=QUERY, client_id=f"{of}v", query_id=f"{of}ext")
    assert wood.post("owner", "events", [*forged, verdict])["accepted"] == 10
    query_id = wood.search("owner", client_id=f"{of}x", session_id=f"{of}s")
    assert wood.ranking("a") == before
    tenants = [
        {split(name)[0] for name in row}
        for table in ("events WHERE document_id = 'b0'", "queries")
        for row in wood.rows(f"SELECT client_id, session_id, query_id FROM {table}")
    ]
    assert tenants == [{""}] * 11
    assert good(wood.keys.act("GET", f"{wood.shop.path}/queries/{query_id}"))["client_id"] == f"{of}x"
    for subject in ("1", f"{of}2"):
        assert wood.post("owner", "events/delete", {"client_id": subject}) == {"deleted": 1}


def test_a_client_of_no_tenant_may_look_like_one_of_a_tenant(wood: Wood) -> None:
    name = "filter:my-shoes:7"
    wood.click("owner", "a9", name, "filter:7")
    query_id = wood.rows("SELECT query_id FROM queries ORDER BY created_at")[0][0]
    assert good(wood.keys.act("GET", f"{wood.shop.path}/queries/{query_id}"))["client_id"] == name
    with runtime_of(wood.shop.client).database.read() as connection:
        written = [one.client_id for one in graded_events(connection, wood.shop.id)]
        rows = subject_rows(connection, wood.shop.id, "client", name)
    assert written == [f"{ESCAPE}{name}", "filter:7"]
    assert (len(rows.events), len(rows.impressions)) == (1, 1)
    for subject in (name, "filter:7"):
        assert wood.post("owner", "events/delete", {"client_id": subject}) == {"deleted": 1}


@pytest.mark.sqlite
def test_a_deletion_does_not_read_every_client_of_a_tenant(wood: Wood) -> None:
    wood.click("a", "a5", "x", user_query=QUERY)
    wood.click("owner", "a5", "filter:z", user_query=QUERY)
    wood.click("b", "b5", "x", user_query=QUERY)

    def steps() -> int:
        """Return the hundreds of instructions of SQLite that a deletion takes."""
        counted: list[None] = []
        with runtime_of(wood.shop.client).database.write() as connection:
            driver: Any = connection.connection.driver_connection
            driver.set_progress_handler(lambda: counted.append(None), 100)
            assert delete_events(connection, wood.shop.id, client_id="nobody") == (0, [])
            driver.set_progress_handler(None, 100)
        return len(counted)

    before = steps()
    wood.repeat_event(1_000)
    assert steps() <= before + 2
    assert wood.post("owner", "events/delete", {"client_id": "x"}) == {"deleted": 2}


def test_the_searches_of_a_text_are_read_once_for_all_tenants(wood: Wood) -> None:
    for tenant in "ab":
        wood.click(tenant, f"{tenant}9", "x", "y")
    read: list[str] = []

    def note(_: Any, __: Any, statement: str, *more: Any) -> None:
        read.append(statement)

    def statements(tenants: str) -> int:
        read.clear()
        assert wood.counts(tenants) == dict.fromkeys(tenants, (2, 2))
        return len([one for one in read if "FROM queries" in one])

    listen(Engine, "before_cursor_execute", note)
    try:
        assert statements("ab") == statements("b")
    finally:
        remove(Engine, "before_cursor_execute", note)


def test_the_last_event_of_a_tenant_is_looked_for_among_a_limited_number(
    wood: Wood, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(click_repository, "SCANNED", 5)
    wood.click("a", "a9", "x")
    wood.click("b", "b9", *"1234", user_query=QUERY)
    assert wood.counts("a") == {"a": (1, 1)}
    wood.click("b", "b9", "5", user_query=QUERY)
    assert wood.counts("a") == {"a": (0, 0)}


def test_a_client_of_a_tenant_before_and_after_the_upgrade_is_two_clients(wood: Wood) -> None:
    wood.click("a", "a5", "x", user_query=QUERY)
    with runtime_of(wood.shop.client).database.write() as connection:
        connection.exec_driver_sql("UPDATE events SET client_id = substr(client_id, 17)")
    wood.click("a", "a5", "x", user_query=QUERY)
    assert wood.rows("SELECT client_id FROM events ORDER BY id") == [("x",), (f"{TENANTS['a']}x",)]
    once, (twice,) = 0.5, wood.memory_after_a_start()[1].values()
    assert twice[0] > once
    assert wood.post("owner", "events/delete", {"client_id": "x"}) == {"deleted": 2}
    assert not wood.memory_after_a_start()[1]


def test_feedback_that_the_release_before_stored_counts_as_before(wood: Wood) -> None:
    wood.click("a", "a9", "x", "y", "z")
    wood.click("a", "a5", "w", user_query=QUERY)
    with_tenants = wood.ranking("a")
    runtime = runtime_of(wood.shop.client)
    with runtime.database.write() as connection:
        for table in ("events", "queries"):
            connection.exec_driver_sql(f"UPDATE {table} SET client_id = substr(client_id, 17)")
    now, again = wood.memory_after_a_start()
    assert now == again
    assert with_tenants[0][0] == "a9"
    assert wood.post("owner", "events/delete", {"client_id": "w"}) == {"deleted": 1}
    assert wood.rows("SELECT client_id FROM events ORDER BY id") == [("x",), ("y",), ("z",)]


def test_shown_lists_of_another_engine_are_of_their_tenant(wood: Wood) -> None:
    for tenant in "ab":
        more = {"user_query": QUERY, "query_id": "ext-1", "client_id": "z"}
        shown = [event(f"{tenant}{n}", "impression", **more) for n in (3, 4)]
        assert wood.post(tenant, "events", [*shown, event(f"{tenant}4", **more)])["accepted"] == 3
    with runtime_of(wood.shop.client).database.read() as connection:
        lists = list(shown_lists(connection, wood.shop.id))
        (feedback,) = gather_feedback(connection, wood.shop.id)
    assert [one.query_id for one in lists] == sorted(f"{tenant}ext-1" for tenant in TENANTS.values())
    assert [one.client_id for one in lists] == sorted(f"{tenant}z" for tenant in TENANTS.values())
    assert feedback.shown is not None
    assert len(feedback.shown) == 4
    assert wood.post("owner", "events/delete", {"query_id": "ext-1"}) == {"deleted": 6}


def test_a_deletion_by_text_deletes_the_anonymous_memory_of_all_tenants(wood: Wood) -> None:
    runtime, state = runtime_of(wood.shop.client), runtime_of(wood.shop.client).collection("shop")
    wood.click("a", "a5", "x", user_query=QUERY)
    wood.click("owner", "a5", "x", user_query=QUERY)
    with runtime.database.write() as connection:
        for name, own in ((anonymous_key(QUERY), True), (anonymous_key(QUERY, TENANTS["a"]), False)):
            clicks = select(EVENTS.c.id).where((EVENTS.c.client_id == "x") == own)
            anonymous = {"query_key": name, "event_id": None, "confirmed_on": "2026-01-01"}
            connection.execute(update(KEYS).where(KEYS.c.event_id.in_(clicks)).values(anonymous))
        connection.exec_driver_sql("DELETE FROM events")
    assert len(state.generation.memory.keys) == 1
    assert wood.post("owner", "events/delete", {"query": QUERY}) == {"deleted": 2}


def test_events_without_a_client_do_not_stand_for_each_other_when_they_expire(wood: Wood) -> None:
    wood.click("a", "a5", None, "x", None, "x", user_query=QUERY)
    with runtime_of(wood.shop.client).database.write() as connection:
        connection.exec_driver_sql("UPDATE events SET timestamp = '2026-01-01T00:00:00.000Z' WHERE id <= 2")
        old = expiring_keys(connection, wood.shop.id, "2026-01-02T00:00:00.000Z", [QUERY])
    assert len(old) == 1  # the later event of the client x stands for its first


def test_a_search_that_a_searcher_delivers_after_an_erasure_keeps_its_tenant_alone(wood: Wood) -> None:
    query_ids = [wood.search(tenant, client_id="7", session_id="s") for tenant in ("a", "owner")]
    runtime = runtime_of(wood.shop.client)
    runtime.impressions.flush()
    wanted = select(QUERIES).where(QUERIES.c.query_id.in_(query_ids))
    with runtime.database.write() as connection:
        found = connection.execute(wanted).mappings().all()
        rows = [{column.key: row[column] for column in QUERIES.c} for row in found]
        connection.execute(delete(QUERIES))
        later = {"id": "e", "status": "done", "receipt": {}, "created_at": "9999-01-01T00:00:00.000Z"}
        connection.execute(insert(ERASURES).values(later))
        store_delivered(connection, rows)
    assert set(wood.rows("SELECT client_id, session_id FROM queries")) == {(TENANTS["a"], None), (None, None)}


def test_the_log_of_a_collection_without_tenants_is_as_it_was_written(tmp_path: Any) -> None:
    with opened(tmp_path / "data") as client:
        plain = create(client, "plain")
        plain.add({"id": "a", "text": "a tall tree"})
        found = plain.search("tree", client_id="7", session_id="s")["query_id"]
        plain.act("a", query_id=found, client_id="7", session_id="s")
        plain.act("a", query_id="ext-1", user_query="tree")
        runtime: Any = runtime_of(client)
        with runtime.database.read() as connection:
            sent = connection.exec_driver_sql("SELECT query_id, client_id, session_id FROM events ORDER BY id").all()
            searched = connection.exec_driver_sql("SELECT query_id, client_id, session_id FROM queries").all()
    assert sent == [(found, "7", "s"), ("ext-1", None, None)]
    assert searched == [(found, "7", "s")]
