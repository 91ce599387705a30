"""Store the files of models in the database.

Each version had a folder in the data directory, `models/COLLECTION/VERSION`. Its files become rows as they are, also
damaged files, so that nothing is lost and a damaged model is reported as before. The folders stay: the next start
deletes those whose files are all stored. A database without a data directory, such as one in memory, has no folders.

Revision ID: 0012
Revises: 0011
"""

from pathlib import Path
from zlib import crc32

import sqlalchemy as sa
from alembic import context, op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

MASK = 2**32 - 1
GOLDEN = 0x9E3779B1


def upgrade() -> None:
    op.create_table(
        "model_files",
        sa.Column("collection_id", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("checksum", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(
            ["collection_id"],
            ["collections.id"],
            name=op.f("fk_model_files_collection_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("collection_id", "version", "name", name=op.f("pk_model_files")),
    )
    data: Path | None = context.config.attributes.get("data")
    if data is None:
        return
    connection = op.get_bind()
    wanted = "SELECT collection_id, version FROM models WHERE version > 0"
    for collection_id, version in connection.exec_driver_sql(wanted).all():
        folder = data / "models" / str(collection_id) / f"{version:06d}"
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if path.is_file():
                body = path.read_bytes()
                row = (collection_id, version, path.name, body, _checksum(collection_id, version, path.name, body))
                connection.exec_driver_sql("INSERT INTO model_files VALUES (?, ?, ?, ?, ?)", row)


def downgrade() -> None:
    """Drop the table. The files of models are lost, as no folder has them."""
    op.drop_table("model_files")


def _checksum(collection_id: int, version: int, name: str, body: bytes) -> int:
    """Return the checksum as `service.storage.checksums` computes it at this revision."""
    encoded = name.encode()
    lower = crc32(b"i%d;" % version)
    for part in (b"t%d:" % len(encoded), encoded, b"b%d:" % len(body), body):
        lower = crc32(part, lower)
    both = (collection_id * GOLDEN & MASK) << 32 | lower
    return both - 2**64 if both >= 2**63 else both
