"""Add a `query` key of weight 0, without a vector, for each judgment of rating 0: it counts in the mean rating.

Revision ID: 0006
Revises: 0005
"""

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        "INSERT INTO keys"
        " (collection_id, document_row, kind, vector, weight, span_start, span_end, source, judgment_id)"
        " SELECT judgments.collection_id, documents.row, 3, x'', 0, 0, 0, judgments.source, judgments.id FROM judgments"
        " JOIN documents ON documents.collection_id = judgments.collection_id AND documents.id = judgments.document_id"
        " WHERE judgments.rating = 0"
    )


def downgrade() -> None:
    op.execute("DELETE FROM keys WHERE kind = 3 AND weight = 0")
