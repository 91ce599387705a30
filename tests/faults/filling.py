"""Fills the disk of a data directory, in a process of its own: `python -m tests.faults.filling DIRECTORY`.

The last line is JSON: the documents that were acknowledged, those that are lost, and the first refusal.
"""

import json
import sys
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from tests.service.client import CollectionClient, opened

BATCHES = 2000
WORDS = " ".join(f"word{number}" for number in range(2000))


def fill(client: TestClient, acknowledged: set[str]) -> tuple[int, str]:
    """Post documents until one request is refused; return its status and code."""
    for batch in range(BATCHES):
        documents = [{"id": f"d{batch}-{n}", "text": f"document{batch}x{n} {WORDS}"} for n in range(20)]
        answer = client.post("/v1/collections/default/documents?wait=60", json={"documents": documents})
        if not answer.is_success:
            return answer.status_code, answer.json()["code"]
        acknowledged.update(document["id"] for document in documents)
    return 0, "the disk was never full"


def served(collection: CollectionClient) -> set[str]:
    """Return the ids of all documents of the collection, read page by page."""
    found: set[str] = set()
    cursor: dict[str, Any] = {}
    while True:
        page = collection.get("documents", limit=1000, **cursor)
        found |= {document["id"] for document in page["documents"]}
        if page["cursor"] is None:
            return found
        cursor = {"cursor": page["cursor"]}


def main(data: Path) -> dict[str, Any]:
    """Fill the disk, and start the service again on the full disk; return what was seen."""
    acknowledged: set[str] = set()
    with opened(data) as client:
        refused = fill(client, acknowledged)
        lost = acknowledged - served(CollectionClient(client))
        words = CollectionClient(client).ids("document0x0", mode="words")
        print(json.dumps({"acknowledged": len(acknowledged), "lost before the stop": len(lost), "refused": refused}))
    with opened(data) as client:
        lost |= acknowledged - served(CollectionClient(client))
    return {
        "acknowledged": len(acknowledged),
        "lost": len(lost),
        "refused": refused,
        "searchable": "d0-0" in words,
    }


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]) / "data")))
