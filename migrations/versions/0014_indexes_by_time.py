"""Find documents, events and judgments of a collection by the time at which they were first stored.

Documents are listed in this order, which a change of a document does not change.

Revision ID: 0014
Revises: 0013
"""

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

INDEXES = {
    "documents": ["collection_id", "created_at", "id"],
    "events": ["collection_id", "created_at"],
    "judgments": ["collection_id", "created_at"],
}
"""Table -> columns of its index."""


def upgrade() -> None:
    for table, columns in INDEXES.items():
        op.create_index(_name(table), table, columns)


def downgrade() -> None:
    for table in INDEXES:
        op.drop_index(_name(table), table_name=table)


def _name(table: str) -> str:
    return "_".join(["ix", table, *INDEXES[table]])
