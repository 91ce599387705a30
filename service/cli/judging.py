"""`judge` shows the queries and documents whose judgment decides most, one by one, and takes a grade for each."""

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli import show
from service.cli.connection import DEFAULT_COLLECTION, collection_path, connect
from service.cli.failures import PARTLY
from service.cli.options import DataOption, JsonOption, UrlOption

if TYPE_CHECKING:
    from service.cli.client import Service

GRADES = ("0", "1", "2", "3", "4")
SKIP, QUIT = "s", "q"
PROMPT = "grade 0 (useless) to 4 (perfect), s = skip, q = quit: "

Say = Callable[[str], None]
"""Writes a line."""


def judge(
    collection: Annotated[str, typer.Argument(help="The collection.", metavar="COLLECTION")] = DEFAULT_COLLECTION,
    limit: Annotated[int, typer.Option(min=1, max=50, help="Maximum number of queries.")] = 20,
    rater: Annotated[str, typer.Option(help="The rater of the grades.")] = "terminal",
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Grade the documents whose judgment decides most. Grades are stored one by one, as they are typed."""
    counts = {"judged": 0, "skipped": 0, "refused": 0}
    with connect(data, url) as service:
        queries = service.call("GET", collection_path(collection, "judging"), params={"limit": limit})["queries"]
        judgments = collection_path(collection, "judgments")
        for query, document, grade in graded(queries, show.notice if json_out else show.line):
            if grade is None:
                counts["skipped"] += 1
                continue
            judgment = {"query": query["q"], "document_id": document["id"], "rating": grade, "rater": rater}
            counts["judged" if stored(service, judgments, judgment) else "refused"] += 1
    if json_out:
        show.data(counts)
    else:
        show.line(f"{counts['judged']} judged, {counts['skipped']} skipped" if queries else "there is nothing to judge")
    if counts["refused"]:
        raise typer.Exit(PARTLY)


def graded(
    queries: list[dict[str, Any]], say: Say
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any], int | None]]:
    """Show each document and yield its query, itself and its grade, None if it is skipped; end at `q` or the end."""
    for number, query in enumerate(queries, 1):
        say(f"query {number} of {len(queries)}: {query['q']}")
        say(f"  {query['reason']}")
        for place, document in enumerate(query["documents"], 1):
            say("")
            say(f"  {place} of {len(query['documents'])}: {document['title'] or document['id']} ({document['id']})")
            say(f"  {document['snippet']['text']}")
            taken = typed()
            if taken == QUIT:
                return
            yield query, document, None if taken == SKIP else int(taken)
        say("")


def typed() -> str:
    """Return a grade, `s` or `q` from stdin; the end of stdin is `q`. Other text is asked for again."""
    while True:
        print(PROMPT, end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        text = line.strip().lower()
        if not line:
            return QUIT
        if text in (*GRADES, SKIP, QUIT):
            return text
        show.notice("expected 0, 1, 2, 3, 4, s or q")


def stored(service: "Service", path: str, judgment: Mapping[str, Any]) -> bool:
    """Post a judgment; return whether it was accepted. A refusal is written to stderr."""
    answer = service.call("POST", path, {"judgments": [judgment]})
    for rejection in answer["rejected"]:
        show.notice(f"{judgment['document_id']}: {rejection['code']}: {rejection['detail']}")
    return not answer["rejected"]
