"""`queries` reports what people search, and what they click, from the log of a collection."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer

from service.cli import show
from service.cli.connection import DEFAULT_COLLECTION, collection_path, connect
from service.cli.options import DataOption, JsonOption, UrlOption

MEASURES = ("searches", "clients", "clicked", "mean 1/rank", "unanswered")


class Order(StrEnum):
    """What the first queries have most of."""

    SEARCHES = "searches"
    WITHOUT_CLICK = "without_click"
    UNANSWERED = "unanswered"


def queries(
    collection: Annotated[str, typer.Argument(help="The collection.", metavar="COLLECTION")] = DEFAULT_COLLECTION,
    days: Annotated[int, typer.Option(min=1, max=3650, help="Days until now whose searches count.")] = 30,
    order: Annotated[Order, typer.Option(help="What the first queries have most of.")] = Order.SEARCHES,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of queries.")] = 20,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Report what people search: how often they click, how high the highest clicked hit is, and what has no answer."""
    asked = {"days": days, "order": order.value, "limit": limit}
    with connect(data, url) as service:
        report = service.call("GET", collection_path(collection, "queries"), params=asked)
    if json_out:
        show.data(report)
    elif report["total"] is None:
        show.line(f"no logged searches since {report['since']}; imported lists are no searches of this service")
    else:
        show.line(f"{report['distinct']} queries since {report['since']}")
        models = [("all", report["total"]), *((f"model {one['version']}", one) for one in report["models"])]
        show.table(("searches by", *MEASURES), [[name, *measures(counts)] for name, counts in models])
        show.line("")
        show.table(("query", *MEASURES), [[one["q"], *measures(one)] for one in report["queries"]])


def measures(counts: Mapping[str, Any]) -> list[str]:
    """Return the cells of some searches: the clicked ones as a share, the rank as the mean of 1 / rank."""
    share = f"{counts['clicked'] / counts['searches']:.0%}"
    rank = f"{counts['reciprocal_rank']:.2f}"
    return [str(counts["searches"]), str(counts["clients"]), share, rank, str(counts["unanswered"])]
