"""The time to answer a random string as a filter: `python -m benchmarks.filter_strings --strings 100000`.

A filter comes from a client, so no string may keep the parser busy. A third of the strings are random characters, a
third are random words of the filter language, a third are conditions, up to the longest filter. Each string is parsed,
and a filter becomes a compiled statement of SQL, as at its first request. The last line is JSON: the numbers of strings
and filters, and the longest and mean processor time of the thread for a string, in milliseconds.
"""

import argparse
import json
import random
import time
from functools import cache

from sqlalchemy import JSON, Connection, column, create_engine, select, table
from sqlalchemy.dialects import sqlite

from index.errors import FilterSyntax
from index.filters.parser import MAX_CHARACTERS, parse_filter
from service.storage.filter_sql import to_sql

DOCUMENTS = table("documents", column("row"), column("metadata", JSON))
FIELDS = ("year", "lang")
TOKENS = (
    "year lang ( ) [ ] , = != > >= < <= AND OR NOT IN TO CONTAINS EXISTS IS NULL EMPTY and or not 1 -2 .5 1e3 1e999 "
    '"a" \'b\' "\\\\ \' " word größe'
).split()
CONDITIONS = ("year = 1", "lang IN [a, 'b', 3]", "year 1 TO 2", "(lang EXISTS OR year > .5)", 'lang CONTAINS "x"')
CHARACTERS = "yearlng ()[],=!<>\"'\\.-_0123456789eE\t\nANDORTIé字\u200b😀"


def random_string(chance: random.Random) -> str:
    """Return a string of up to the longest length of a filter."""
    length = round(MAX_CHARACTERS ** chance.random())
    kind = chance.randrange(3)
    if kind == 0:
        return "".join(chance.choices(CHARACTERS, k=length))
    if kind == 1:
        joined = f" {chance.choice(('AND', 'OR', 'AND NOT'))} ".join(chance.choices(CONDITIONS, k=1 + length // 64))
        return joined[:MAX_CHARACTERS]
    return " ".join(chance.choices(TOKENS, k=max(1, length // 4)))[:MAX_CHARACTERS]


@cache
def _connection() -> Connection:
    return create_engine("sqlite://").connect()


def answered(text: str) -> bool:
    """Answer a string, and return whether it is a filter. No other exception than FilterSyntax is possible."""
    try:
        condition = to_sql(_connection(), parse_filter(text, FIELDS), DOCUMENTS.c.metadata)
    except FilterSyntax:
        return False
    select(DOCUMENTS.c.row).where(condition).compile(dialect=sqlite.dialect())
    return True


def measured(count: int, seed: int = 0) -> dict[str, float]:
    """Return the numbers of strings and filters, and the longest and mean time of a string in milliseconds."""
    chance, filters, longest, total = random.Random(seed), 0, 0.0, 0.0
    answered("year = 1")  # builds the tables of the parser, as the start of a server does
    for _ in range(count):
        text = random_string(chance)
        started = time.thread_time()
        filters += answered(text)
        took = 1000 * (time.thread_time() - started)
        longest, total = max(longest, took), total + took
    return {
        "strings": count, "filters": filters, "longest_ms": round(longest, 2), "mean_ms": round(total / count, 4)
    }  # fmt: skip


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--strings", type=int, default=100_000)
    print(json.dumps(measured(arguments.parse_args().strings)))
