"""Deletes the rows and folders that an earlier process left behind and that no later work uses.

A folder that the database does not know is a leftover only if this database gave its number to a collection and has
deleted the collection since. Any other folder stays: it may belong to a newer state of the database.
"""

import shutil
from pathlib import Path

import structlog

from service.runtime.collection_repository import (
    collection_rows,
    delete_marked_collections,
    greatest_collection_id,
    processing_run_ids,
)
from service.storage.database import Database

log = structlog.get_logger()


def delete_leftovers(database: Database, data: Path, staging: Path) -> None:
    """Delete collections whose deletion was interrupted, their folders, and the staging folders of ended runs."""
    with database.write() as connection:
        delete_marked_collections(connection)
        collection_ids = {int(row["id"]) for row in collection_rows(connection)}
        greatest = greatest_collection_id(connection)
        run_ids = processing_run_ids(connection)
    for folder in staging.iterdir():
        if folder.name not in run_ids:
            shutil.rmtree(folder, ignore_errors=True)
    deleted = set(range(1, greatest + 1)) - collection_ids
    for folder in (*data.glob("indexes/*"), *data.glob("models/*")):
        number = int(folder.name) if folder.name.isdecimal() else 0
        if number in deleted:
            shutil.rmtree(folder, ignore_errors=True)
        elif number not in collection_ids:
            log.warning("unknown_folder", folder=f"{folder.parent.name}/{folder.name}")
