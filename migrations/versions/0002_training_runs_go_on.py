"""Add the cost budget, the number of resumptions and the cancel request to training runs.

Revision ID: 0002
Revises: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

COLUMNS = {"budget_seconds": "60", "resumptions": "0", "cancel_requested": "0"}
"""Column -> value for existing runs."""


def upgrade() -> None:
    for name, before in COLUMNS.items():
        kind = sa.Boolean() if name == "cancel_requested" else sa.Integer()
        op.add_column("training_runs", sa.Column(name, kind, nullable=False, server_default=before))


def downgrade() -> None:
    for name in reversed(COLUMNS):
        op.drop_column("training_runs", name)
