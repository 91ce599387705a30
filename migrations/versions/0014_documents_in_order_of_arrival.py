"""List documents in the order of arrival, which a change of a document does not change.

Revision ID: 0014
Revises: 0013
"""

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

INDEX = "ix_documents_collection_id_created_at_id"


def upgrade() -> None:
    op.create_index(INDEX, "documents", ["collection_id", "created_at", "id"])


def downgrade() -> None:
    op.drop_index(INDEX, table_name="documents")
