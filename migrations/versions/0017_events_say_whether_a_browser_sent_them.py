"""Say of each event whether a key made for browsers sent it. Those of before count as sent by another key.

The checksum of an event without the flag is the one of before (`service.storage.checksums`).

Revision ID: 0017
Revises: 0016
"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("events", sa.Column("from_browser", sa.Boolean(), nullable=False, server_default="0"))


def downgrade() -> None:
    op.drop_column("events", "from_browser")
