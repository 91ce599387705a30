"""`ingest --delete-missing`: deletes the documents of a collection that the source does not have."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from service.cli import show
from service.cli.connection import collection_path
from service.cli.following import follow
from service.cli.ingestion import Ingestion

if TYPE_CHECKING:
    from service.cli.client import Service

PAGE = 1_000
BATCH_IDS = 1_000


def delete_missing_documents(service: "Service", collection: str, ingestion: Ingestion) -> int | None:
    """Delete the documents that the source does not have; return their number.

    Returns None, and deletes nothing, if a part of the source was refused, or if the source has no document.
    """
    if ingestion.fault_count:
        show.notice("nothing is deleted: a part of the source could not be read, and may have any document")
        return None
    if not ingestion.ids:
        show.notice("nothing is deleted: the source has no document")
        return None
    missing = [id for id in stored_ids(service, collection) if id not in ingestion.ids]
    for start in range(0, len(missing), BATCH_IDS):
        path = collection_path(collection, "documents", "delete")
        task = service.call("POST", path, {"ids": missing[start : start + BATCH_IDS]})
        follow(service, f"/v1/tasks/{task['id']}", "deleting")
    return len(missing)


def stored_ids(service: "Service", collection: str) -> Iterator[str]:
    """Yield the ids of all documents of a collection, also of those that cannot be read."""
    cursor: str | None = ""
    while cursor is not None:
        page = service.call("GET", collection_path(collection, "documents"), params={"limit": PAGE, "cursor": cursor})
        yield from (document["id"] for document in page["documents"])
        yield from page.get("unreadable", ())  # a server of an earlier release has no such member
        cursor = page["cursor"]
