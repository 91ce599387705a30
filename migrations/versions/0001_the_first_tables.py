"""Create the first tables.

Revision ID: 0001
Revises:
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "collections",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("settings", sa.JSON(), nullable=False),
        sa.Column("encoder", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("dim", sa.Integer(), nullable=False),
        sa.Column("watermark", sa.Integer(), nullable=False),
        sa.Column("documents_watermark", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_collections")),
        sa.UniqueConstraint("name", name=op.f("uq_collections_name")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "idempotent_answers",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("request_sha256", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("headers", sa.JSON(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_idempotent_answers")),
    )
    op.create_table(
        "tasks",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("collection", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("progress_done", sa.Integer(), nullable=False),
        sa.Column("progress_total", sa.Integer(), nullable=False),
        sa.Column("result", sa.JSON(), nullable=True),
        sa.Column("error", sa.JSON(), nullable=True),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.Column("finished_at", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tasks")),
    )
    op.create_table(
        "alias_changes",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("collection_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("from_version", sa.Integer(), nullable=False),
        sa.Column("to_version", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("rollback", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["collection_id"], ["collections.id"], name=op.f("fk_alias_changes_collection_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alias_changes")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("alias_changes", schema=None) as batch_op:
        batch_op.create_index("ix_alias_changes_collection_id", ["collection_id"], unique=False)

    op.create_table(
        "aliases",
        sa.Column("collection_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["collection_id"], ["collections.id"], name=op.f("fk_aliases_collection_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("collection_id", "name", name=op.f("pk_aliases")),
    )
    op.create_table(
        "documents",
        sa.Column("row", sa.Integer(), nullable=False),
        sa.Column("collection_id", sa.Integer(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=True),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=True),
        sa.Column("metadata", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["collection_id"], ["collections.id"], name=op.f("fk_documents_collection_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("row", name=op.f("pk_documents")),
        sa.UniqueConstraint("collection_id", "id", name=op.f("uq_documents_collection_id_id")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "events",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("collection_id", sa.Integer(), nullable=False),
        sa.Column("action_name", sa.Text(), nullable=False),
        sa.Column("grade", sa.Double(), nullable=True),
        sa.Column("query_id", sa.Text(), nullable=True),
        sa.Column("query_text", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("document_id", sa.Text(), nullable=True),
        sa.Column("position", sa.Integer(), nullable=True),
        sa.Column("client_id", sa.Text(), nullable=True),
        sa.Column("session_id", sa.Text(), nullable=True),
        sa.Column("timestamp", sa.Text(), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["collection_id"], ["collections.id"], name=op.f("fk_events_collection_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_events")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("events", schema=None) as batch_op:
        batch_op.create_index("ix_events_client_id", ["collection_id", "client_id"], unique=False)
        batch_op.create_index("ix_events_collection_id_source", ["collection_id", "source"], unique=False)
        batch_op.create_index("ix_events_query_id", ["collection_id", "query_id"], unique=False)

    op.create_table(
        "judgments",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("collection_id", sa.Integer(), nullable=False),
        sa.Column("query_text", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("document_id", sa.Text(), nullable=False),
        sa.Column("rating", sa.Integer(), nullable=False),
        sa.Column("rater", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["collection_id"], ["collections.id"], name=op.f("fk_judgments_collection_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_judgments")),
        sa.UniqueConstraint(
            "collection_id",
            "source",
            "document_id",
            "rater",
            name=op.f("uq_judgments_collection_id_source_document_id_rater"),
        ),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "models",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("collection_id", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("lineage", sa.JSON(), nullable=False),
        sa.Column("report", sa.JSON(), nullable=False),
        sa.Column("decision", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["collection_id"], ["collections.id"], name=op.f("fk_models_collection_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_models")),
        sa.UniqueConstraint("collection_id", "version", name=op.f("uq_models_collection_id_version")),
    )
    op.create_table(
        "pending_documents",
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("collection_id", sa.Integer(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["collection_id"], ["collections.id"], name=op.f("fk_pending_documents_collection_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("sequence", name=op.f("pk_pending_documents")),
        sa.UniqueConstraint("collection_id", "id", name=op.f("uq_pending_documents_collection_id_id")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "queries",
        sa.Column("query_id", sa.Text(), nullable=False),
        sa.Column("collection_id", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("client_id", sa.Text(), nullable=True),
        sa.Column("session_id", sa.Text(), nullable=True),
        sa.Column("request", sa.JSON(), nullable=False),
        sa.Column("shown", sa.JSON(), nullable=False),
        sa.Column("null_weight", sa.Double(), nullable=False),
        sa.Column("model_version", sa.Integer(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["collection_id"], ["collections.id"], name=op.f("fk_queries_collection_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("query_id", name=op.f("pk_queries")),
    )
    with op.batch_alter_table("queries", schema=None) as batch_op:
        batch_op.create_index("ix_queries_client_id", ["collection_id", "client_id"], unique=False)
        batch_op.create_index("ix_queries_collection_id_source", ["collection_id", "source"], unique=False)

    op.create_table(
        "training_runs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("collection_id", sa.Integer(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("seed", sa.Integer(), nullable=False),
        sa.Column("promote", sa.Text(), nullable=False),
        sa.Column("progress_done", sa.Integer(), nullable=False),
        sa.Column("progress_total", sa.Integer(), nullable=False),
        sa.Column("steps", sa.JSON(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("report", sa.JSON(), nullable=False),
        sa.Column("decision", sa.JSON(), nullable=False),
        sa.Column("model_version", sa.Integer(), nullable=True),
        sa.Column("error", sa.JSON(), nullable=True),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.Column("finished_at", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["collection_id"], ["collections.id"], name=op.f("fk_training_runs_collection_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_training_runs")),
    )
    with op.batch_alter_table("training_runs", schema=None) as batch_op:
        batch_op.create_index("ix_training_runs_collection_id", ["collection_id"], unique=False)

    op.create_table(
        "keys",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("collection_id", sa.Integer(), nullable=False),
        sa.Column("document_row", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Integer(), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.Column("weight", sa.Double(), nullable=False),
        sa.Column("span_start", sa.Integer(), nullable=False),
        sa.Column("span_end", sa.Integer(), nullable=False),
        sa.Column("source", sa.Text(), nullable=True),
        sa.Column("event_id", sa.Integer(), nullable=True),
        sa.Column("judgment_id", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(
            ["collection_id"], ["collections.id"], name=op.f("fk_keys_collection_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["document_row"],
            ["documents.row"],
            name=op.f("fk_keys_document_row"),
            ondelete="NO ACTION",
            initially="DEFERRED",
            deferrable=True,
        ),
        sa.ForeignKeyConstraint(["event_id"], ["events.id"], name=op.f("fk_keys_event_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["judgment_id"], ["judgments.id"], name=op.f("fk_keys_judgment_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_keys")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("keys", schema=None) as batch_op:
        batch_op.create_index("ix_keys_document_row", ["document_row"], unique=False)
        batch_op.create_index("ix_keys_event_id", ["event_id"], unique=False)
        batch_op.create_index("ix_keys_judgment_id", ["judgment_id"], unique=False)
        batch_op.create_index("ix_keys_collection_id_kind", ["collection_id", "kind"], unique=False)
        batch_op.create_index(
            "ix_keys_memory", ["collection_id", "source"], unique=False, sqlite_where=sa.text("kind = 3")
        )

    op.create_table(
        "values",
        sa.Column("document_row", sa.Integer(), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["document_row"], ["documents.row"], name=op.f("fk_values_document_row"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("document_row", name=op.f("pk_values")),
    )


def downgrade() -> None:
    op.drop_table("values")
    with op.batch_alter_table("keys", schema=None) as batch_op:
        batch_op.drop_index("ix_keys_memory", sqlite_where=sa.text("kind = 3"))
        batch_op.drop_index("ix_keys_collection_id_kind")
        batch_op.drop_index("ix_keys_judgment_id")
        batch_op.drop_index("ix_keys_event_id")
        batch_op.drop_index("ix_keys_document_row")

    op.drop_table("keys")
    with op.batch_alter_table("training_runs", schema=None) as batch_op:
        batch_op.drop_index("ix_training_runs_collection_id")

    op.drop_table("training_runs")
    with op.batch_alter_table("queries", schema=None) as batch_op:
        batch_op.drop_index("ix_queries_collection_id_source")
        batch_op.drop_index("ix_queries_client_id")

    op.drop_table("queries")
    op.drop_table("pending_documents")
    op.drop_table("models")
    op.drop_table("judgments")
    with op.batch_alter_table("events", schema=None) as batch_op:
        batch_op.drop_index("ix_events_query_id")
        batch_op.drop_index("ix_events_collection_id_source")
        batch_op.drop_index("ix_events_client_id")

    op.drop_table("events")
    op.drop_table("documents")
    op.drop_table("aliases")
    with op.batch_alter_table("alias_changes", schema=None) as batch_op:
        batch_op.drop_index("ix_alias_changes_collection_id")

    op.drop_table("alias_changes")
    op.drop_table("tasks")
    op.drop_table("idempotent_answers")
    op.drop_table("collections")
