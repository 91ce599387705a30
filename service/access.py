"""The access of every operation, by the name of its route. A route without an entry here is refused to all keys.

docs/api.md has the same table, and a test compares it. `tests/service/test_authorisation.py` tests every cell.
"""

from service.http.access import Access, Scope

OPEN = Access(None)
"""Open to all: the operation shows no data. The readiness shows its status alone to callers without `admin`."""


def needs(*scopes: Scope, filtered: bool = False, act: str | None = None) -> Access:
    """Return the access of an operation for which each of these scopes suffices; `admin` always does."""
    return Access(frozenset(scopes), filtered, act)


ADMIN = needs("admin")
ACCESS: dict[str, Access] = {
    # searches
    "search": needs("search", filtered=True),
    "get_search": needs("search", filtered=True),
    "multi_search": needs("search", filtered=True),
    "recommend": needs("search", filtered=True),
    "get_suggestions": needs("search"),
    "get_query": needs("train"),
    # documents
    "list_documents": needs("search", "write"),
    "get_document": needs("search", "write"),
    "import_documents": needs("write"),
    "post_documents": needs("write"),
    "put_document": needs("write"),
    "patch_document": needs("write"),
    "patch_documents": needs("write"),
    "delete_document": needs("write"),
    "delete_documents": needs("write"),
    # collections
    "list_collections": needs("search", "write", "train"),
    "get_collection": needs("search", "write", "train"),
    "put_collection": needs("write", act="set_collection"),
    "delete_collection": needs("admin", act="delete_collection"),
    "swap_collections": needs("admin", act="swap_collections"),
    "put_alias": needs("admin", act="set_alias"),
    "list_aliases": ADMIN,
    "get_alias": ADMIN,
    "delete_alias": needs("admin", act="delete_alias"),
    **dict.fromkeys(
        ("list_synonyms", "get_synonyms", "put_synonyms", "post_synonyms", "delete_synonyms"), needs("write")
    ),
    **dict.fromkeys(("list_rules", "get_rule", "put_rule", "delete_rule"), needs("write")),
    # feedback
    "post_events": needs("events", filtered=True),
    "delete_events": needs("write"),
    "post_judgments": needs("write"),
    "get_judging": needs("train"),
    "list_queries": needs("train"),
    # learning
    "post_training_run": needs("train"),
    "list_training_runs": needs("train"),
    "get_training_run": needs("train"),
    "stream_training_run": needs("train"),
    "get_attention": needs("train"),
    "cancel_training_run": needs("train"),
    "list_models": needs("train"),
    "compare_models": needs("train"),
    "get_model": needs("train"),
    "put_champion": needs("train", act="promote"),
    "roll_back": needs("train", act="roll_back"),
    "post_evaluation": needs("train"),
    # the service
    "get_task": needs("write", "train"),
    "cancel_task": needs("write", "train"),
    "create_key": needs("admin", act="create_key"),
    "list_keys": ADMIN,
    "delete_key": needs("admin", act="delete_key"),
    "rotate_key": needs("admin", act="rotate_key"),
    "list_acts": ADMIN,
    "create_snapshot": needs("admin", act="create_snapshot"),
    "list_snapshots": ADMIN,
    "delete_snapshot": needs("admin", act="delete_snapshot"),
    "export_everything": needs("admin", act="export"),
    "import_everything": needs("admin", act="import"),
    "post_erasure": needs("admin", act="erase"),
    "list_erasures": ADMIN,
    "metrics": ADMIN,
    # open to all
    **dict.fromkeys(("livez", "readyz", "openapi"), OPEN),
    **dict.fromkeys(("search_page", "queries_page", "learning_page", "reference_page", "reference_file"), OPEN),
    **dict.fromkeys(("static", "favicon"), OPEN),
}
"""Name of a route -> its access."""
