"""Deletes the rows and folders that an earlier process left behind and that no later work uses."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from service.runtime.collection_repository import collection_rows, delete_marked_collections, processing_run_ids
from service.storage.database import Database


def delete_leftovers(database: Database, data: Path, staging: Path) -> None:
    """Delete collections whose deletion was interrupted, and folders without a collection or a training run."""
    with database.write() as connection:
        delete_marked_collections(connection)
        collection_ids = {str(row["id"]) for row in collection_rows(connection)}
        run_ids = processing_run_ids(connection)
    _delete_unknown(staging.iterdir(), run_ids)
    _delete_unknown([*data.glob("indexes/*"), *data.glob("models/*")], collection_ids)


def _delete_unknown(folders: Iterable[Path], known: set[str]) -> None:
    for folder in folders:
        if folder.name not in known:
            shutil.rmtree(folder, ignore_errors=True)
