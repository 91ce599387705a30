"""`collections`: lists, shows, creates, changes and deletes collections."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer

from service.cli import show
from service.cli.connection import collection_path, connect
from service.cli.failures import USAGE, Failure
from service.cli.following import follow
from service.cli.options import DataOption, JsonOption, UrlOption, comma_separated

collections = typer.Typer(help="Sets of documents with their own settings, feedback and models.", no_args_is_help=True)

KEY_KINDS = ("title", "passage", "sentence")
NONE = "none"

Language = StrEnum(
    "Language",
    "none arabic chinese danish dutch english finnish french german greek hungarian italian japanese korean norwegian "
    "portuguese romanian russian spanish swedish tamil thai turkish",
)
"""The languages of a collection. A test compares them with the service's."""
Form = StrEnum("Form", "bilinear dot scaled_dot cosine additive gaussian")
Normaliser = StrEnum("Normaliser", "softmax one_hot uniform")

NameArgument = Annotated[str, typer.Argument(help="The name of the collection.", metavar="NAME")]


@collections.command("list")
def list_collections(data: DataOption = None, url: UrlOption = None, json_out: JsonOption = False) -> None:
    """List the collections with their counts."""
    with connect(data, url) as service:
        answer = service.call("GET", "/v1/collections")
    if json_out:
        show.data(answer)
        return
    rows = [
        (one["name"], *(one["counts"].get(name) for name in ("documents", "pending", "events", "judgments", "models")))
        for one in answer["collections"]
    ]
    show.table(("name", "documents", "pending", "events", "judgments", "models"), rows)


@collections.command("show")
def show_collection(
    name: NameArgument, data: DataOption = None, url: UrlOption = None, json_out: JsonOption = False
) -> None:
    """Show the settings and the counts of a collection."""
    with connect(data, url) as service:
        write_collection(service.call("GET", collection_path(name)), json_out)


@collections.command("set")
def set_collection(
    name: NameArgument,
    filterable: Annotated[str | None, typer.Option(help="Metadata fields that filters may use: lang,year.")] = None,
    language: Annotated[
        Language | None, typer.Option(help="Language of stemming; with documents, `reindex` changes it.")
    ] = None,
    retention_days: Annotated[
        str | None,
        typer.Option(metavar="DAYS|none", help="Delete raw queries and events after this time; none keeps them."),
    ] = None,
    keys: Annotated[
        str | None, typer.Option(help="Kinds of keys: title,passage,sentence; with documents, `reindex` changes them.")
    ] = None,
    memory_half_life_days: Annotated[
        str | None, typer.Option(metavar="DAYS|none", help="Days in which feedback in memory loses half its weight.")
    ] = None,
    memory_max_mb: Annotated[
        str | None, typer.Option(metavar="MIB|none", help="The most MiB of past queries that searches use.")
    ] = None,
    memory_retention_days: Annotated[
        str | None,
        typer.Option(metavar="DAYS|none", help="Delete the memory of clicks, also anonymous, after this time."),
    ] = None,
    train_every_hours: Annotated[
        str | None, typer.Option(metavar="HOURS|none", help="Train by schedule, at most this often; none: never.")
    ] = None,
    train_min_new_queries: Annotated[
        int | None,
        typer.Option(
            min=1, help="Train by schedule, by default every 24 hours, once so many queries got new feedback."
        ),
    ] = None,
    train_from_documents: Annotated[
        bool | None,
        typer.Option(
            "--train-from-documents/--no-train-from-documents",
            help="Make a model from the documents by itself, while no labelled model serves.",
        ),
    ] = None,
    suggestions_min_clients: Annotated[
        int | None, typer.Option(min=2, max=10_000, help="Clients that sent a query that is suggested, at least.")
    ] = None,
    suggestions_off_words: Annotated[
        str | None,
        typer.Option(help="No query with one of these words or phrases is suggested; an empty text for none."),
    ] = None,
    stop_words: Annotated[
        str | None, typer.Option(help="Words that are left out of queries: the,of; an empty text for none.")
    ] = None,
    question_words: Annotated[
        bool | None,
        typer.Option("--drop-question-words/--keep-question-words", help="Leave `how do I` out of questions, or not."),
    ] = None,
    typos: Annotated[
        bool | None, typer.Option("--typos/--no-typos", help="Correct unknown words of queries, or not.")
    ] = None,
    typos_one_edit: Annotated[
        int | None, typer.Option(min=2, max=64, help="Letters of the shortest word that is corrected by one edit.")
    ] = None,
    typos_two_edits: Annotated[
        int | None, typer.Option(min=2, max=64, help="Letters of the shortest word that is corrected by two edits.")
    ] = None,
    form: Annotated[Form | None, typer.Option(help="Form of attention.")] = None,
    heads: Annotated[int | None, typer.Option(min=1, max=8, help="Number of attention heads.")] = None,
    normaliser: Annotated[Normaliser | None, typer.Option(help="Normaliser of attention.")] = None,
    value_rank: Annotated[
        int | None, typer.Option(min=0, max=64, help="Rank of the values that the second hop learns; 0 learns none.")
    ] = None,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Create a collection, or change its settings. Settings that are not given keep their values."""
    body: dict[str, Any] = {}
    if filterable is not None:
        body["filterable"] = comma_separated(filterable)
    if language is not None:
        body["language"] = language
    if keys is not None:
        body["keys"] = key_kinds(keys)
    body |= number_or_null(
        "days",
        retention_days=retention_days,
        memory_half_life_days=memory_half_life_days,
        memory_retention_days=memory_retention_days,
    )
    body |= number_or_null("MiB", memory_max_mb=memory_max_mb)
    body |= schedule(train_every_hours, train_min_new_queries)
    body |= {} if train_from_documents is None else {"train_from_documents": train_from_documents}
    if stop_words is not None:
        body["stop_words"] = comma_separated(stop_words)
    body |= {} if question_words is None else {"question_words": question_words}
    attention = {"form": form, "heads": heads, "normaliser": normaliser, "value_rank": value_rank}
    given = {field: value for field, value in attention.items() if value is not None}
    body |= {"attention": given} if given else {}
    typing = {"enabled": typos, "one_edit": typos_one_edit, "two_edits": typos_two_edits}
    given = {field: value for field, value in typing.items() if value is not None}
    body |= {"typos": given} if given else {}
    suggesting: dict[str, Any] = {} if suggestions_min_clients is None else {"min_clients": suggestions_min_clients}
    if suggestions_off_words is not None:
        suggesting["off_words"] = comma_separated(suggestions_off_words)
    body |= {"suggestions": suggesting} if suggesting else {}
    with connect(data, url, creates=True) as service:
        write_collection(service.call("PUT", collection_path(name), body), json_out)


@collections.command("delete")
def delete_collection(
    name: NameArgument, data: DataOption = None, url: UrlOption = None, json_out: JsonOption = False
) -> None:
    """Delete a collection with its documents, feedback and models."""
    with connect(data, url) as service:
        task = service.call("DELETE", collection_path(name))
        ended = follow(service, f"/v1/tasks/{task['id']}", "deleting")
    if json_out:
        show.data(ended["result"])
    else:
        show.line(f"deleted: {name}")


def key_kinds(value: str) -> list[str]:
    """Return the kinds of `title,passage`. Raises Failure USAGE for another kind."""
    kinds = comma_separated(value)
    if not kinds or not set(kinds) <= set(KEY_KINDS):
        raise Failure(USAGE, f"--keys: expected some of {','.join(KEY_KINDS)}")
    return list(dict.fromkeys(kinds))


def number_or_null(unit: str, **options: str | None) -> dict[str, int | None]:
    """Return the given options as numbers; `none` is null. Raises Failure USAGE for other text."""
    body: dict[str, int | None] = {}
    for name, value in options.items():
        if value is None:
            continue
        if value != NONE and not (value.isascii() and value.isdigit()):
            raise Failure(USAGE, f"--{name.replace('_', '-')}: expected a number of {unit} or {NONE}")
        body[name] = None if value == NONE else int(value)
    return body


def schedule(every_hours: str | None, min_new_queries: int | None) -> dict[str, Any]:
    """Return the setting `train`, if an option is given; `none` is null. Raises Failure USAGE for other text."""
    if every_hours is None and min_new_queries is None:
        return {}
    if every_hours == NONE:
        if min_new_queries is not None:
            raise Failure(USAGE, f"--train-min-new-queries: not together with --train-every-hours {NONE}")
        return {"train": None}
    given: dict[str, Any] = {} if min_new_queries is None else {"min_new_queries": min_new_queries}
    if every_hours is not None:
        try:
            given["every_hours"] = float(every_hours)
        except ValueError:
            raise Failure(USAGE, f"--train-every-hours: expected a number of hours or {NONE}") from None
    return {"train": given}


def write_collection(found: Mapping[str, Any], json_out: bool) -> None:
    """Write a collection: its counts, then its settings."""
    if json_out:
        show.data(found)
        return
    counts, encoder = found["counts"], found["encoder"]
    keys = ", ".join(f"{number} {kind}" for kind, number in counts.get("keys", {}).items())
    facts = {"name": found["name"], "created": found["created_at"], "encoder": encoder["model"]}
    facts |= {name: number for name, number in counts.items() if name != "keys"}
    if memory := found.get("memory"):  # a server of an earlier release has no such member
        facts["memory"] = f"{memory['queries']} past queries, {memory['bytes']} bytes, {memory['dropped']} dropped"
    facts |= {"keys": keys, "champion": f"model {found['champion']}", "generation": found["generation"]}
    show.table(("fact", "value"), [*facts.items(), *found["settings"].items()])
    show.line(retention(found["settings"]))


def retention(settings: Mapping[str, Any]) -> str:
    """Return how long raw queries, events and memory are kept, in words."""
    days, memory_days = settings.get("retention_days"), settings.get("memory_retention_days")
    raw = "until they are erased (--retention-days sets a limit)" if days is None else f"{days} days"
    memory = "without a limit (--memory-retention-days sets a limit)" if memory_days is None else f"{memory_days} days"
    return f"Raw queries and events are kept {raw}; memory of clicks is kept {memory}."
