"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from service.cli.failures import USAGE, Failure


def directory(text: str) -> Path:
    """Return the path of --data. Raises BadParameter for an empty text, which would be the current folder."""
    if not text.strip():
        raise typer.BadParameter("must not be empty")
    return Path(text)


DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        help="The data directory; by default SOFTSEEK_DATA, else ./data.",
        parser=directory,
        metavar="DIR",
        show_default=False,
    ),
]
UrlOption = Annotated[
    str | None,
    typer.Option("--url", help="The address of a server; by default the server that runs on the data directory."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Write only JSON to stdout.")]
CollectionOption = Annotated[str, typer.Option("--collection", help="The collection.")]
LimitOption = Annotated[int, typer.Option("--limit", min=1, max=1000, help="Maximum number of hits.")]
OffsetOption = Annotated[int, typer.Option("--offset", min=0, help="Number of hits to skip.")]
FilterOption = Annotated[str | None, typer.Option("--filter", help='A filter, such as: lang = "en" AND year >= 2020.')]
ExplainOption = Annotated[bool, typer.Option("--explain", help="Show the parts of the logit of each hit.")]
FileArgument = Annotated[Path, typer.Argument(help="The file to read.", exists=True, dir_okay=False, readable=True)]
QueriesOption = Annotated[
    Path | None,
    typer.Option(
        "--queries",
        help="The texts of the queries: lines of JSON with _id and text, or id TAB text; "
        "by default queries.jsonl next to the folder of the judgments.",
        exists=True,
        dir_okay=False,
        readable=True,
    ),
]


def comma_separated(value: str | None) -> list[str]:
    """Return the parts of `a,b`; [] for None."""
    return [part.strip() for part in (value or "").split(",") if part.strip()]


def names_of(given: list[str] | None) -> list[str] | None:
    """Return the names of an option like `values_of`; None without the option, which stands for all.

    Raises Failure USAGE for an option without a name, such as an empty variable of a shell.
    """
    names = values_of(given)
    if given and not names:
        raise Failure(USAGE, "--collections: expected the names of collections")
    return names or None


def values_of(given: list[str] | None) -> list[str]:
    """Return the values of an option that is repeated, or has several values by comma."""
    return [part for one in given or [] for part in comma_separated(one)]
