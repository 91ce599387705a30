"""The filter language: text to a tree of conditions, and what each condition means for one document.

The language is that of Meilisearch, so that its users can bring their filters along; grammar.lark holds its grammar.
`matches` is the plain, slow statement of the meaning; `service.storage.filter_sql` says the same in SQL and is tested against it.
This file knows no SQL and no collection: it is told which fields may be filtered on.

Three rules carry most of the meaning:

1. A value has no type of its own, as in Meilisearch: `2020` and `"2020"` both equal the number 2020 and the string
   "2020", and `true` equals the boolean and the string "true". What a document holds does have a type: the boolean
   true never equals 1.
2. Strings compare without regard to the case of the letters A to Z, and of those only. That is all that SQLite's
   `lower` folds, and one rule in two places is worth more than a better rule in one.
3. A list passes where any of its elements does. A negation is true wherever what it negates is not, so also for
   documents that lack the field.
"""

import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from string import ascii_lowercase, ascii_uppercase
from typing import Any, Final, Literal, cast

from lark import Lark, Token, Transformer, Tree, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, VisitError

from index.errors import FilterSyntax
from index.records import MetadataValue

MAX_CHARACTERS: Final = 4096
MAX_CONDITIONS: Final = 64
MAX_DEPTH: Final = 8
MAX_LIST_ELEMENTS: Final = 1000

Number = int | float
Operator = Literal["=", "!=", ">", ">=", "<", "<="]


@dataclass(frozen=True)
class Value:
    """What a filter compares with: a text, and the number that it spells, if any (64-bit integer or finite float)."""

    text: str
    number: Number | None = None


@dataclass(frozen=True)
class Compare:
    """`field = value` and its kin. The four orderings compare numbers, and nothing else."""

    field: str
    op: Operator
    value: Value


@dataclass(frozen=True)
class In:
    """`field IN [a, b]`: equal to at least one of the values."""

    field: str
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Range:
    """`field low TO high`: a number with low <= number <= high."""

    field: str
    low: Number
    high: Number


@dataclass(frozen=True)
class Contains:
    """`field CONTAINS text`: a string with the text somewhere in it."""

    field: str
    text: str


@dataclass(frozen=True)
class Exists:
    """`field EXISTS`: the document has the field, whatever it holds, null included."""

    field: str


@dataclass(frozen=True)
class IsNull:
    """`field IS NULL`: the field is there and holds null. A missing field is not null."""

    field: str


@dataclass(frozen=True)
class IsEmpty:
    """`field IS EMPTY`: the field is there and holds "" or []."""

    field: str


@dataclass(frozen=True)
class Not:
    """True for exactly the documents for which `node` is not."""

    node: "FilterNode"


@dataclass(frozen=True)
class And:
    """True where every one of `nodes` is."""

    nodes: tuple["FilterNode", ...]


@dataclass(frozen=True)
class Or:
    """True where at least one of `nodes` is."""

    nodes: tuple["FilterNode", ...]


ElementTest = Compare | In | Range | Contains
"""Conditions on a single value; on a list they ask whether any element passes."""

FilterNode = ElementTest | Exists | IsNull | IsEmpty | Not | And | Or


# --- The meaning ---

_64_BIT = range(-(2**63), 2**63)
_FOLDING = str.maketrans(ascii_uppercase, ascii_lowercase)


def fold(text: str) -> str:
    """The text with A to Z in lower case and all else untouched: what SQLite's `lower` gives."""
    return text.translate(_FOLDING)


def matches(node: FilterNode, metadata: Mapping[str, MetadataValue | None]) -> bool:
    """Whether a document with this metadata passes the filter."""
    match node:
        case And(nodes):
            return all(matches(each, metadata) for each in nodes)
        case Or(nodes):
            return any(matches(each, metadata) for each in nodes)
        case Not(inner):
            return not matches(inner, metadata)
        case Exists(field):
            return field in metadata
        case IsNull(field):
            return field in metadata and metadata[field] is None
        case IsEmpty(field):
            return metadata.get(field) in ("", [])
        case Compare(field, "=" | "!=" as op, value):
            return matches(In(field, (value,)), metadata) == (op == "=")
        case _:
            return any(_passes(node, element) for element in _elements(metadata.get(node.field)))


def _elements(value: MetadataValue | None) -> Iterator[str | Number]:
    """A list's elements, or the one value itself. Null, like a missing field, has none."""
    if isinstance(value, list):
        yield from value
    elif value is not None:
        yield value


def _passes(test: ElementTest, element: str | Number) -> bool:
    match test:
        case Contains(_, text):
            return isinstance(element, str) and fold(text) in fold(element)
        case In(_, values):
            return any(_equal(value, element) for value in values)
        case Range(_, low, high):
            number = _number_held(element)
            return number is not None and low <= number <= high
        case Compare(_, op, value):
            return _ordered(_number_held(element), op, value.number)


def _equal(value: Value, element: str | Number) -> bool:
    if isinstance(element, str):
        return fold(element) == fold(value.text)
    if isinstance(element, bool):
        return fold(value.text) == ("true" if element else "false")
    return value.number is not None and _number_held(element) == value.number


def _ordered(left: Number | None, op: Operator, right: Number | None) -> bool:
    if left is None or right is None:
        return False
    return {">": left > right, ">=": left >= right, "<": left < right, "<=": left <= right}[op]


def _number_held(element: str | Number) -> Number | None:
    """The number that a document holds, if it is one; an integer beyond 64 bit as a float, which SQLite makes of it."""
    if isinstance(element, (str, bool)):
        return None
    if isinstance(element, float) or element in _64_BIT:
        return element
    try:
        return float(element)
    except OverflowError:
        return math.inf if element > 0 else -math.inf


# --- From text to nodes ---

_PLAIN_WORDS = {
    "_LPAR": "a condition (a field, NOT or an opening parenthesis)",
    "COMPARISON": (
        "an operator (=, !=, >, >=, <, <=, IN, NOT IN, CONTAINS, EXISTS, IS NULL, IS EMPTY or a range with TO)"
    ),
    "NUMBER": "a value (in quotes if it is a reserved word, or has other signs than letters, digits, _, - and .)",
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
    """The parser's tables: made at the first filter, because importing a module should cost nothing."""
    return Lark.open("grammar.lark", rel_to=__file__, parser="lalr", lexer="contextual")


def parse_filter(text: str, filterable: Collection[str]) -> FilterNode:
    """The filter as a tree.

    `filterable` holds the names of the fields that may be asked about. Raises FilterSyntax with the position of the
    fault, and nothing else, whatever the text; its message never repeats the text. An empty filter is a fault too:
    what it should mean (everything, or nothing to do) is for the caller to say.
    """
    if len(text) > MAX_CHARACTERS:
        raise FilterSyntax(f"expected at most {MAX_CHARACTERS} characters", MAX_CHARACTERS)
    # Neither survives the way to the database: SQLite ends a JSON string at the one, and refuses the other.
    if unusable := re.search("[\0\ud800-\udfff]", text):
        raise FilterSyntax("expected no NUL characters and no halves of surrogate pairs", unusable.start())
    try:
        return cast(FilterNode, _Builder(filterable).transform(_tree(text)))
    except VisitError as fault:
        raise fault.orig_exc from None


def _tree(text: str) -> Tree[Token]:
    """The syntax tree. Depth is checked token by token, so that no tree is ever deep enough to exhaust the stack."""
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
    """How many parentheses and NOTs are open after a token of this kind.

    negations[i] is the number of NOTs that wait for their condition inside the i-th open parenthesis; it is brought up
    to date here. A NOT after a field (`lang NOT IN [en]`) belongs to the operator and opens nothing.
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
    telling = {"_LPAR", "COMPARISON"} & terminals or terminals  # the words for these two cover all that goes with them
    return "expected " + " or ".join(words for terminal, words in _PLAIN_WORDS.items() if terminal in telling)


Placed = tuple[Value, int]  # a value and its position in the filter


@v_args(inline=True)
class _Builder(Transformer[Token, Any]):
    """Turns each rule of the grammar into its node. One builder reads one filter: it counts the conditions."""

    def __init__(self, filterable: Collection[str]) -> None:
        super().__init__()
        self.filterable = filterable
        self.condition_count = 0

    def field(self, token: Token) -> str:
        self.condition_count += 1
        if self.condition_count > MAX_CONDITIONS:
            raise FilterSyntax(f"expected at most {MAX_CONDITIONS} conditions", _position(token))
        name = _unquoted(token) if token.type == "STRING" else str(token)
        if '"' in name:
            # The paths of SQLite's JSON functions cannot spell such a name: a quote in one always ends it.
            raise FilterSyntax("expected a field name without a double quote in it", _position(token))
        if name not in self.filterable:
            known = ", ".join(sorted(self.filterable)) or "this collection has none"
            raise FilterSyntax(f"expected a filterable field ({known})", _position(token))
        return name

    def value(self, token: Token) -> Placed:
        return _value(token), _position(token)

    def values(self, *placed: Placed) -> tuple[Value, ...]:
        if len(placed) > MAX_LIST_ELEMENTS:
            raise FilterSyntax(f"expected at most {MAX_LIST_ELEMENTS} values in a list", placed[MAX_LIST_ELEMENTS][1])
        return tuple(value for value, _ in placed)

    def compare(self, field: str, op: Token, placed: Placed) -> Compare:
        if op not in ("=", "!="):
            _number_wanted(placed)
        return Compare(field, cast(Operator, str(op)), placed[0])

    def within(self, field: str, low: Placed, high: Placed) -> Range:
        return Range(field, _number_wanted(low), _number_wanted(high))

    def is_in(self, field: str, negation: Token | None, values: tuple[Value, ...]) -> FilterNode:
        return self._unless(negation, In(field, values))

    def contains(self, field: str, negation: Token | None, placed: Placed) -> FilterNode:
        return self._unless(negation, Contains(field, placed[0].text))

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
    """A quoted value spells a number if it can; a bare one that looks like a number must be one."""
    if token.type == "STRING":
        text = _unquoted(token)
        return Value(text, _number_spelled(text))
    number = _number_spelled(token)
    if number is None and (token.type == "NUMBER" or re.fullmatch("-?(nan|inf|infinity)", token, re.IGNORECASE)):
        message = "expected a finite number, of at most 64 bit if it is an integer (or quotes, if it is text)"
        raise FilterSyntax(message, _position(token))
    return Value(str(token), number)


def _unquoted(token: Token) -> str:
    r"""The text between the quotes, with \" \' and \\ read as the second character."""
    for escape in re.finditer(r"\\(.)", token, re.DOTALL):
        if escape[1] not in "\"'\\":
            raise FilterSyntax("expected a quote or a backslash after a backslash", _position(token) + escape.start(1))
    return re.sub(r"\\(.)", r"\1", token[1:-1], flags=re.DOTALL)


def _number_spelled(text: str) -> Number | None:
    """The number, if the grammar would take the text for one and it can be compared exactly."""
    if not re.fullmatch(_parser().get_terminal("NUMBER").pattern.value, text):
        return None
    if set(text) <= set("-0123456789"):
        whole = int(text)
        return whole if whole in _64_BIT else None
    number = float(text)
    return number if math.isfinite(number) else None


def _number_wanted(placed: Placed) -> Number:
    value, at = placed
    if value.number is None:
        raise FilterSyntax("expected a number: only numbers can be compared by size", at)
    return value.number
