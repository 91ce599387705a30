"""`search` shows hits, and draws the heatmaps of an answer."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from service.cli import drawing, heatmaps, show
from service.cli.connection import DEFAULT_COLLECTION, collection_path, connect
from service.cli.drawing import HeatmapOption
from service.cli.failures import ERROR, USAGE, Failure
from service.cli.options import (
    CollectionOption,
    DataOption,
    ExplainOption,
    FilterOption,
    JsonOption,
    LimitOption,
    OffsetOption,
    UrlOption,
    comma_separated,
)


class SearchMode(StrEnum):
    """What finds the candidates of a search."""

    HYBRID = "hybrid"
    DENSE = "dense"
    WORDS = "words"


def version_or_alias(model: str | None) -> int | str | None:
    """Return the version or the alias of a model. Raises Failure USAGE for other text."""
    if model is None or model in ("champion", "challenger"):
        return model
    if not (model.isascii() and model.isdigit()):
        raise Failure(USAGE, "--model: expected champion, challenger or a version number")
    return int(model)


def search(
    query: Annotated[str, typer.Argument(help="The query.")],
    collection: CollectionOption = DEFAULT_COLLECTION,
    limit: LimitOption = 10,
    offset: OffsetOption = 0,
    condition: FilterOption = None,
    mode: Annotated[SearchMode | None, typer.Option(help="What finds candidates.")] = None,
    answer: Annotated[bool, typer.Option("--answer", help="Show the sentence that is closest to the query.")] = False,
    explain: ExplainOption = False,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="champion|challenger|VERSION", help="The version or alias of the model; by default the champion."
        ),
    ] = None,
    predict: Annotated[
        list[str] | None, typer.Option(help="Predict the value of this metadata field; repeatable.")
    ] = None,
    facets: Annotated[str | None, typer.Option(help="Count the values of these fields: lang,year.")] = None,
    count: Annotated[
        bool, typer.Option("--count", help="Count the documents that pass the filter and have a word of the query.")
    ] = False,
    sort: Annotated[str | None, typer.Option(help="Sort by metadata: price:asc,year:desc.")] = None,
    prefix: Annotated[bool, typer.Option("--prefix", help="The last word may be unfinished.")] = False,
    operators: Annotated[
        bool, typer.Option("--operators", help='Read "exact phrase", -word and field:value in the query.')
    ] = False,
    all_words: Annotated[bool, typer.Option("--all-words", help="Only documents with all words of the query.")] = False,
    typos: Annotated[bool | None, typer.Option(help="Correct unknown words, or not.")] = None,
    heatmap: HeatmapOption = None,
    explore: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Probability that the order of the hits is sampled from the attention."),
    ] = None,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Search a collection."""
    drawing.require_image_name(heatmap)
    given: dict[str, Any] = {"q": query, "limit": limit, "offset": offset, "filter": condition, "mode": mode}
    given["model"] = version_or_alias(model)
    given["predict"] = predict or None
    given |= {"facets": comma_separated(facets) or None, "sort": comma_separated(sort) or None, "typos": typos}
    given |= {"prefix": "last" if prefix else None, "operators": operators or None, "explore": explore}
    given |= {"count": count or None, "all_words": all_words or None}
    body = {name: value for name, value in given.items() if value is not None}
    body |= {"explain": "matrix" if heatmap else explain} | ({"answer": True} if answer else {})
    with connect(data, url) as service:
        found = service.call("POST", collection_path(collection, "search"), body)
    if json_out:
        show.data(found)
    else:
        show.hits(found)
    if heatmap:
        if not (matrices := heatmaps.of_search(found)):
            raise Failure(ERROR, "no hits: there is no heatmap to draw")
        drawing.write(heatmap, matrices)
