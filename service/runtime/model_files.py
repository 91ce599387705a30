"""The head of a version, from the files that its rows hold."""

from sqlalchemy import Connection

from index.errors import DamagedFile
from index.ranking.attention import AttentionHead, HeadConfig
from index.ranking.checkpoint import head_of_files
from service.runtime.model_repository import model_files


def load_version(connection: Connection, collection_id: int, initial: HeadConfig, version: int) -> AttentionHead:
    """Return the head of a version. Raises DamagedFile.

    Version 0 is the untrained head of the configuration `initial`: exactly the zero-shot hybrid search. A trained
    version keeps the configuration that it was trained with.
    """
    if version == 0:
        return AttentionHead(initial)
    try:
        return head_of_files(model_files(connection, collection_id, version))
    except DamagedFile as damage:
        raise DamagedFile(f"model {version}: {damage}") from damage
