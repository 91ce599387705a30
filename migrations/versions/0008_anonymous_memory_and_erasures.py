"""Add the day of anonymous memory, and the erasures with their receipts.

Revision ID: 0008
Revises: 0007
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("keys", sa.Column("confirmed_on", sa.Text(), nullable=True))
    op.create_table(
        "erasures",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=True),
        sa.Column("receipt", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.Column("finished_at", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_erasures")),
    )


def downgrade() -> None:
    op.drop_table("erasures")
    op.execute("DELETE FROM keys WHERE confirmed_on IS NOT NULL")
    op.drop_column("keys", "confirmed_on")
