"""`recommend` shows documents like the documents that a user liked."""

from typing import Annotated, Any

import typer

from service.cli import show
from service.cli.connection import DEFAULT_COLLECTION, collection_path, connect
from service.cli.options import (
    CollectionOption,
    DataOption,
    ExplainOption,
    FilterOption,
    JsonOption,
    LimitOption,
    OffsetOption,
    UrlOption,
)


def recommend(
    ids: Annotated[list[str], typer.Argument(help="The ids of liked documents.", metavar="ID...")],
    dislike: Annotated[list[str] | None, typer.Option(help="The id of a disliked document; repeatable.")] = None,
    collection: CollectionOption = DEFAULT_COLLECTION,
    limit: LimitOption = 10,
    offset: OffsetOption = 0,
    condition: FilterOption = None,
    explain: ExplainOption = False,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Recommend documents like the documents that a user liked."""
    body: dict[str, Any] = {"like": ids, "dislike": dislike or [], "limit": limit, "offset": offset, "explain": explain}
    body |= {} if condition is None else {"filter": condition}
    with connect(data, url) as service:
        answer = service.call("POST", collection_path(collection, "recommend"), body)
    if json_out:
        show.data(answer)
    else:
        show.hits(answer)
