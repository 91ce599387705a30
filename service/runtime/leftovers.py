"""Deletes the rows and folders that an earlier process left behind and that no later work uses.

Earlier releases kept each version of a model in a folder. The upgrade of the database stores its files, and a folder
whose files are all stored is a leftover.

A folder that the database does not know is a leftover only if this database gave its number to a collection and has
deleted the collection since. Any other folder stays: it may belong to a newer state of the database.
"""

import shutil
from contextlib import suppress
from pathlib import Path

import structlog
from sqlalchemy.exc import SQLAlchemyError

from service.runtime.collection_repository import (
    collection_rows,
    delete_collection,
    greatest_collection_id,
    marked_collections,
    processing_run_ids,
)
from service.runtime.model_repository import stored_model_files
from service.storage.database import Database

MODELS = "models"
"""The folder of the models of earlier releases in the data directory."""
log = structlog.get_logger()


def delete_leftovers(database: Database, data: Path, staging: Path) -> None:
    """Delete collections whose deletion was interrupted, their folders, and the staging folders of ended runs.

    A collection whose rows the database does not delete waits for the next start.
    """
    with database.read() as connection:
        marked = marked_collections(connection)
    for collection_id in marked:
        try:
            with database.write() as connection:
                delete_collection(connection, collection_id)
        except SQLAlchemyError as error:
            log.error("leftover_not_deleted", collection_id=collection_id, reason=str(error))
    with database.read() as connection:
        collection_ids = {int(row["id"]) for row in collection_rows(connection)}
        greatest = greatest_collection_id(connection)
        run_ids = processing_run_ids(connection)
    for folder in staging.iterdir():
        if folder.name not in run_ids:
            shutil.rmtree(folder, ignore_errors=True)
    for collection_id in collection_ids:
        _delete_stored_models(database, data / MODELS / str(collection_id), collection_id)
    deleted = set(range(1, greatest + 1)) - collection_ids
    for folder in (*data.glob("indexes/*"), *data.glob(f"{MODELS}/*")):
        number = int(folder.name) if folder.name.isdecimal() else 0
        if number in deleted:
            shutil.rmtree(folder, ignore_errors=True)
        elif number not in collection_ids or folder.parent.name == MODELS:
            log.warning("unknown_folder", folder=f"{folder.parent.name}/{folder.name}")


def _delete_stored_models(database: Database, models: Path, collection_id: int) -> None:
    """Delete the folders of versions whose files are all stored; other folders stay."""
    if not models.is_dir():
        return
    with database.read() as connection:
        stored = stored_model_files(connection, collection_id)
    for folder in filter(Path.is_dir, models.iterdir()):
        version = int(folder.name) if folder.name.isdecimal() else 0
        files = list(folder.iterdir())
        if all(path.is_file() and stored.get((version, path.name)) == path.read_bytes() for path in files):
            shutil.rmtree(folder)
    for folder in (models, models.parent):
        with suppress(OSError):  # a folder with something else stays
            folder.rmdir()
