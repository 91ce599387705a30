"""Have a place for the identity of a PostgreSQL database and the number of services that wrote to it.

Revision ID: 0013
Revises: 0012
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "identity",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("checksum", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_identity")),
    )


def downgrade() -> None:
    op.drop_table("identity")
