"""Schemas of answers about documents."""

from service.http.answers import Answer, example, sometimes

MetadataValue = str | float | bool | list[str | float | bool]


class Document(Answer):
    """A stored document."""

    model_config = example(
        id="doc-7",
        title="Copying folders",
        text="Use cp -r to copy a folder.",
        url=None,
        metadata={"lang": "en", "year": 2020, "tags": ["shell"]},
    )

    id: str
    """The id."""
    title: str | None
    """The title."""
    text: str
    """The text."""
    url: str | None
    """The address."""
    metadata: dict[str, MetadataValue]
    """The metadata by field."""


class DocumentPage(Answer):
    """A page of documents in the order of their arrival. A document keeps its place when it is replaced."""

    model_config = example(documents=[], unreadable=[], cursor=None)

    documents: list[Document]
    """The documents of this page."""
    unreadable: list[str]
    """The ids of documents whose place is on this page, and whose stored rows are damaged and cannot be read."""
    cursor: str | None
    """The parameter `cursor` of the next page; null on the last page."""


class ItemOutcome(Answer):
    """What happened to an item of a batch."""

    index: int
    """The index in the request, from 0."""
    id: str | None
    """The id of the document, if it has a valid id."""
    status: int
    """201 for a new document, 200 for a replaced document, 422 for a refused item; of patches also 404 and 409."""
    code: str | None
    """The reason of a refusal."""
    detail: str = sometimes()
    """The reason of a refusal, in words."""
    field: str | None = sometimes()
    """The field that is not as documented."""


class PatchOutcome(Answer):
    """What happened to the patches of a batch. All changes are searchable."""

    model_config = example(items_total=1, succeeded=1, failed=0, unchanged=0, errors=[])

    items_total: int
    """The number of items."""
    succeeded: int
    """The number of patches that were applied."""
    failed: int
    """The number of refused items."""
    unchanged: int
    """The number of applied patches that changed nothing."""
    errors: list[ItemOutcome]
    """The refused items, in the order posted."""


class BatchOutcome(Answer):
    """What happened to the items of a batch. All stored documents are searchable."""

    model_config = example(
        task_id="0199c7a0-0000-7000-8000-000000000000",
        items_total=1,
        succeeded=1,
        failed=0,
        unchanged=0,
        passages=1,
        passages_kept=0,
        errors=[],
        items=[{"index": 0, "id": "doc-7", "status": 201, "code": None}],
    )

    task_id: str
    """The task that made the documents searchable."""
    items_total: int
    """The number of items."""
    succeeded: int
    """The number of stored documents."""
    failed: int
    """The number of refused items."""
    unchanged: int
    """The number of documents with the content that was stored before; they were not encoded again."""
    passages: int
    """The number of passages that were encoded."""
    passages_kept: int
    """The number of passages whose texts did not change; they kept their vectors and were not encoded."""
    errors: list[ItemOutcome]
    """The first 1,000 refused items."""
    items: list[ItemOutcome]
    """Every item, in the order posted."""
