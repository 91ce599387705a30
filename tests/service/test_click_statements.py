"""The statements that count clicks are the same for any number of impressions: SQLite keeps those that it has seen."""

from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.event import listen, remove

from service.runtime.click_repository import click_counts
from tests.service.client import create, event, good, opened, runtime_of

QUERY = "which tree is tall"


def test_clicks_are_counted_by_the_same_statements_for_any_number_of_impressions(tmp_path: Path) -> None:
    read: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        read.append(statement)

    with opened(tmp_path) as client:
        shop = create(client, "shop")
        good(client.post(f"{shop.path}/documents?wait=60", json={"documents": [{"id": "a", "text": "a tall tree"}]}))

        def statements() -> set[str]:
            client_id = f"client{len(clicked)}"
            searched = good(client.post(f"{shop.path}/search", json={"q": QUERY, "client_id": client_id}))
            click = event("a", query_id=searched["query_id"], client_id=client_id)
            good(client.post(f"{shop.path}/events", json=click))
            read.clear()
            counts = click_counts(runtime_of(client).database, shop.id, {QUERY: {"": [row]}})
            clicked.append(counts[QUERY][""][row].clicked)
            return set(read)

        with runtime_of(client).database.read() as connection:
            row = connection.exec_driver_sql("SELECT row FROM documents").scalar_one()
        clicked: list[int] = []
        listen(Engine, "before_cursor_execute", note)
        try:
            first = statements()
            assert statements() == statements() == first
        finally:
            remove(Engine, "before_cursor_execute", note)
        assert clicked == [1, 2, 3]
