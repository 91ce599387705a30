"""Add API keys and the audit log.

Revision ID: 0007
Revises: 0006
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("collections", sa.JSON(), nullable=True),
        sa.Column("filter", sa.Text(), nullable=True),
        sa.Column("origins", sa.JSON(), nullable=False),
        sa.Column("rate_per_minute", sa.Integer(), nullable=True),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("old_digest", sa.LargeBinary(), nullable=True),
        sa.Column("old_until", sa.Text(), nullable=True),
        sa.Column("from_environment", sa.Boolean(), server_default="0", nullable=False),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.Text(), nullable=True),
        sa.Column("rotated_at", sa.Text(), nullable=True),
        sa.Column("last_used_at", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("at", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Text(), nullable=True),
        sa.Column("act", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
        sqlite_autoincrement=True,
    )


def downgrade() -> None:
    op.drop_table("audit")
    op.drop_table("api_keys")
