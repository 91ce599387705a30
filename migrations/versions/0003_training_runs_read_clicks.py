"""Add the requested click interpretation to training runs.

Revision ID: 0003
Revises: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Existing runs get `auto`: they tried every click interpretation."""
    op.add_column("training_runs", sa.Column("click_reading", sa.Text(), nullable=False, server_default="auto"))


def downgrade() -> None:
    op.drop_column("training_runs", "click_reading")
