"""The options that many commands take, after the command's name, and what each is called in Python."""

from pathlib import Path
from typing import Annotated

import typer

DataOption = Annotated[
    Path | None,
    typer.Option("--data", help="The data directory; SOFTSEEK_DATA or ./data where not given.", show_default=False),
]
UrlOption = Annotated[
    str | None,
    typer.Option("--url", help="Talk to the server at this address instead of opening a data directory."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Write JSON to stdout, and nothing else there.")]
CollectionOption = Annotated[str, typer.Option("--collection", help="The collection.")]
FileArgument = Annotated[Path, typer.Argument(help="The file to read.", exists=True, dir_okay=False, readable=True)]
QueriesOption = Annotated[
    Path | None,
    typer.Option(
        "--queries",
        help="The texts of the queries: lines of JSON with _id and text, or id TAB text; "
        "queries.jsonl beside the folder of the judgments where not given.",
        exists=True,
        dir_okay=False,
        readable=True,
    ),
]


def comma_separated(value: str | None) -> list[str]:
    """Return the parts of `a,b`; none for None."""
    return [part.strip() for part in (value or "").split(",") if part.strip()]
