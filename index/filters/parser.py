"""Parses the text of a filter into a tree of conditions.

The filter language is the language of Meilisearch, so filters written for Meilisearch work here. `grammar.lark` holds
the grammar. The caller names the fields that may be filtered on; this module knows no SQL and no collection.
"""

import math
import re
from collections.abc import Collection
from functools import cache
from typing import Any, Final, cast

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedInput

from index.errors import FilterSyntax
from index.filters.conditions import (
    INT64,
    And,
    Compare,
    Contains,
    Exists,
    FilterNode,
    In,
    IsEmpty,
    IsNull,
    Not,
    Number,
    Operator,
    Or,
    Range,
    Value,
)

MAX_CHARACTERS: Final = 4096
MAX_CONDITIONS: Final = 64
MAX_DEPTH: Final = 8
MAX_LIST_ELEMENTS: Final = 1000

_TERMINAL_NAMES = {
    "_LPAR": "a condition (a field, NOT or an opening parenthesis)",
    "COMPARISON": (
        "an operator (=, !=, >, >=, <, <=, IN, NOT IN, CONTAINS, EXISTS, IS NULL, IS EMPTY or a range with TO)"
    ),
    "NUMBER": "a value (in quotes if it is a reserved word, or has characters other than letters, digits, _, - and .)",
    "_LSQB": "[",
    "_COMMA": "a comma",
    "_RSQB": "]",
    "NOT": "NOT",
    **{f"_{keyword}": keyword for keyword in ("IN", "CONTAINS", "EXISTS", "NULL", "EMPTY", "TO", "AND", "OR")},
    "_RPAR": "a closing parenthesis",
    "$END": "the end of the filter",
}


@cache
def _parser() -> Lark:
    """Return the parser. Its tables are built at the first use, so that importing the module stays cheap."""
    return Lark.open("grammar.lark", rel_to=__file__, parser="lalr", lexer="contextual")


def build_parser() -> None:
    """Build the tables of the parser now, which takes longer than the longest filter. The first filter needs them."""
    _parser()


def parse_filter(text: str, filterable: Collection[str]) -> FilterNode:
    """Return the filter as a tree.

    `filterable` holds the names of the fields that a condition may name. Raises FilterSyntax with the position of the
    fault, and no other exception; the message never contains the filter text. An empty filter is a fault: the caller
    decides its meaning.
    """
    if len(text) > MAX_CHARACTERS:
        raise FilterSyntax(f"expected at most {MAX_CHARACTERS} characters", MAX_CHARACTERS)
    # The database accepts neither: SQLite ends a JSON string at a NUL and refuses half of a surrogate pair.
    if unusable := re.search("[\0\ud800-\udfff]", text):
        raise FilterSyntax("expected no NUL characters and no halves of surrogate pairs", unusable.start())
    return cast(FilterNode, _Builder(filterable).build(_tree(text)))


def _tree(text: str) -> Tree[Token]:
    """Return the syntax tree. Depth is checked at each token, so that no tree is deep enough to exhaust the stack."""
    parser: Any = _parser().parse_interactive(text)
    negations, previous = [0], ""
    try:
        for token in parser.iter_parse():
            if _depth(token.type, previous, negations) > MAX_DEPTH:
                raise FilterSyntax(f"expected at most {MAX_DEPTH} levels of parentheses and NOT", _position(token))
            previous = token.type
        return cast(Tree[Token], parser.feed_token(Token("$END", "", start_pos=len(text))))
    except UnexpectedInput as fault:
        at = cast(int, fault.pos_in_stream)
        unclosed = isinstance(fault, UnexpectedCharacters) and text[at] in "\"'"
        raise FilterSyntax("expected a closing quote" if unclosed else _expected(parser.accepts()), at) from None


def _position(token: Token) -> int:
    return cast(int, token.start_pos)


def _depth(kind: str, previous: str, negations: list[int]) -> int:
    """Return the number of parentheses and NOTs that are open after a token of this kind.

    negations[i] is the number of NOTs before the current condition inside the i-th open parenthesis; this function
    updates it. A NOT after a field (`lang NOT IN [en]`) belongs to the operator and opens no level.
    """
    if kind == "_LPAR":
        negations.append(0)
    elif kind == "_RPAR" and len(negations) > 1:
        negations.pop()
    elif kind in ("_AND", "_OR"):
        negations[-1] = 0
    elif kind == "NOT" and previous in ("", "_AND", "_OR", "NOT", "_LPAR"):
        negations[-1] += 1
    return len(negations) - 1 + sum(negations)


def _expected(terminals: set[str]) -> str:
    named = {"_LPAR", "COMPARISON"} & terminals or terminals  # their names include the alternatives to them
    return "expected " + " or ".join(name for terminal, name in _TERMINAL_NAMES.items() if terminal in named)


class _Builder:
    """Makes a node from each rule of the grammar. It counts conditions, so each filter needs its own builder.

    Lark's transformer does the same in twice the time.
    """

    def __init__(self, filterable: Collection[str]) -> None:
        self.filterable = filterable
        self.condition_count = 0

    def build(self, tree: Tree[Token]) -> Any:
        """Return what the method with the name of the rule makes of the children, which are built first."""
        children = [self.build(child) if isinstance(child, Tree) else child for child in tree.children]
        return getattr(self, tree.data)(*children)

    def field(self, token: Token) -> str:
        self.condition_count += 1
        if self.condition_count > MAX_CONDITIONS:
            raise FilterSyntax(f"expected at most {MAX_CONDITIONS} conditions", _position(token))
        name = _unquoted(token) if token.type == "STRING" else str(token)
        if '"' in name:
            # The paths of SQLite's JSON functions cannot express such a name: a quote always ends a name.
            raise FilterSyntax("expected a field name without a double quote in it", _position(token))
        if name not in self.filterable:
            known = ", ".join(sorted(self.filterable)) or "this collection has none"
            raise FilterSyntax(f"expected a filterable field ({known})", _position(token))
        return name

    def values(self, *tokens: Token) -> tuple[Value, ...]:
        values = tuple(map(_value, tokens))
        if len(tokens) > MAX_LIST_ELEMENTS:
            at = _position(tokens[MAX_LIST_ELEMENTS])
            raise FilterSyntax(f"expected at most {MAX_LIST_ELEMENTS} values in a list", at)
        return values

    def compare(self, field: str, op: Token, token: Token) -> Compare:
        value = _value(token)
        if op not in ("=", "!="):
            _number(value, token)
        return Compare(field, cast(Operator, str(op)), value)

    def within(self, field: str, low: Token, high: Token) -> Range:
        smallest, largest = _value(low), _value(high)
        return Range(field, _number(smallest, low), _number(largest, high))

    def is_in(self, field: str, negation: Token | None, values: tuple[Value, ...]) -> FilterNode:
        return self._unless(negation, In(field, values))

    def contains(self, field: str, negation: Token | None, token: Token) -> FilterNode:
        return self._unless(negation, Contains(field, _value(token).text))

    def exists(self, field: str, negation: Token | None) -> FilterNode:
        return self._unless(negation, Exists(field))

    def is_null(self, field: str, negation: Token | None) -> FilterNode:
        return self._unless(negation, IsNull(field))

    def is_empty(self, field: str, negation: Token | None) -> FilterNode:
        return self._unless(negation, IsEmpty(field))

    def negated(self, _: Token, node: FilterNode) -> Not:
        return Not(node)

    @staticmethod
    def _unless(negation: Token | None, node: FilterNode) -> FilterNode:
        return node if negation is None else Not(node)

    def conjunction(self, *nodes: FilterNode) -> And:
        return And(nodes)

    def disjunction(self, *nodes: FilterNode) -> Or:
        return Or(nodes)


def _value(token: Token) -> Value:
    """Return the value. A quoted value may be a number; a bare value with the form of a number must be a number."""
    if token.type == "STRING":
        text = _unquoted(token)
        return value_of(text)
    number = _parsed_number(token)
    if number is None and (token.type == "NUMBER" or re.fullmatch("-?(nan|inf|infinity)", token, re.IGNORECASE)):
        message = "expected a finite number, an integer of at most 64 bits, or text in quotes"
        raise FilterSyntax(message, _position(token))
    return Value(str(token), number)


def _unquoted(token: Token) -> str:
    r"""Return the text between the quotes, with \" \' and \\ read as the second character."""
    for escape in re.finditer(r"\\(.)", token, re.DOTALL):
        if escape[1] not in "\"'\\":
            raise FilterSyntax("expected a quote or a backslash after a backslash", _position(token) + escape.start(1))
    return re.sub(r"\\(.)", r"\1", token[1:-1], flags=re.DOTALL)


def value_of(text: str) -> Value:
    """Return the value that a text spells."""
    return Value(text, _parsed_number(text))


def _parsed_number(text: str) -> Number | None:
    """Return the number if the grammar reads the text as a number and it can be compared exactly, else None."""
    if not re.fullmatch(_parser().get_terminal("NUMBER").pattern.value, text):
        return None
    if set(text) <= set("-0123456789"):
        whole = int(text)
        return whole if whole in INT64 else None
    number = float(text)
    return number if math.isfinite(number) else None


def _number(value: Value, token: Token) -> Number:
    """Return the number that the value of a token spells."""
    if value.number is None:
        raise FilterSyntax("expected a number: only numbers can be compared by size", _position(token))
    return value.number
