"""Modules of the search page in the Node.js of Playwright, without a browser."""

import json
import shutil
import subprocess
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from playwright._impl._driver import compute_driver_executable

from index.filters.parser import parse_filter
from index.words.analyzers import analyzer_for
from index.words.tokens import spaced, tokens
from service.search.highlights import Highlighter
from service.search.schemas import SearchIn
from service.web import routes

NODE = compute_driver_executable()[0]
PAGE = """
globalThis.document = {body: {dataset: {collection: 'zoo'}}, getElementById: () => null};
globalThis.window = {addEventListener: () => null};
"""
FILTERABLE = ["lang", 'odd " name', "year"]


def evaluated(tmp_path: Path, expression: str, module: str = "wish.js") -> Any:
    """Return the value of an expression with the functions of a module, which is `w`."""
    shutil.copytree(Path(routes.__file__).parent / "static", tmp_path / "static")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    code = f"{PAGE} const w = await import('./static/{module}'); console.log(JSON.stringify({expression}));"
    (tmp_path / "run.js").write_text(code)
    done = subprocess.run([NODE, "run.js"], cwd=tmp_path, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "address",
    [
        "?c=zoo&q=a+cat",
        "?c=zoo&q=a+cat&sort=year%3Aasc&mode=words&model=3&operators=off&typos=off",
        "?c=zoo&q=a&is.lang=en&is.lang=a%22b&is.x.y=1&min.year=2&max.year=3",
        "?c=zoo&q=a&is.__proto__=b",
    ],
)
def test_a_wish_is_written_as_it_was_read(tmp_path: Path, address: str) -> None:
    assert evaluated(tmp_path, f"w.addressOf(w.wishFrom({json.dumps(address)}))") == address


def test_the_request_is_as_documented(tmp_path: Path) -> None:
    address = (
        "?q=a cat&mode=dense&model=3&sort=year:asc&is.lang=e%22n&is.lang=de&min.year=2&max.year=x&is.odd%20%22%20name=1"
    )
    request = evaluated(tmp_path, f"w.searchOf(w.wishFrom({json.dumps(address)}), {json.dumps(FILTERABLE)}, 10)")
    made = SearchIn(**request)
    assert (made.prefix, made.operators, made.typos, made.snippet, made.log) == ("last", True, None, True, False)
    assert (made.mode, made.model, made.sort, made.offset) == ("dense", 3, ["year:asc"], 10)
    assert "text" not in (made.fields or ["text"])
    assert made.filter == '"lang" IN ["e\\"n", "de"] AND "odd \\" name" IN ["1"] AND "year" >= 2'
    parse_filter(made.filter.replace('odd \\" name', "year"), FILTERABLE)


def test_a_field_is_counted_without_its_own_filter(tmp_path: Path) -> None:
    wish = "w.wishFrom('?q=cat&is.lang=en&min.year=2')"
    request = evaluated(tmp_path, f"w.countOf({wish}, 'lang')")
    assert SearchIn(**request).filter == '"year" >= 2'
    assert (request["facets"], request["log"], request["limit"]) == (["lang"], False, 1)
    assert evaluated(tmp_path / "again", f"w.filteredFields({wish})") == ["lang", "year"]


def test_literal_words_and_spelling_are_requested(tmp_path: Path) -> None:
    request = evaluated(tmp_path, "w.searchOf(w.wishFrom('?q=cat&operators=off&typos=off'), [])")
    assert (request["operators"], request["typos"]) == (False, False)
    assert "facets" not in request


TEXTS = [
    ("हिन्दी", "यह हिन्दी में लिखा है: हिन्दी, हिन्दीया।"),
    ("กาแฟ", "ร้านกาแฟสดคั่วใหม่ กาแฟ แฟ"),
    ("แม่น้ำ", "แม่น้ำเจ้าพระยา น้ำ แม่\u200bน้ำ"),
    ("耳机", "这是一款无线蓝牙耳机,耳机"),
    ("东京大学", "其中东京大学成立于,大学,北京 𠀀东京"),
    ("猫", "犬と猫。猫を飼う人"),
    ("이어폰", "블루투스 무선이어폰 이어폰"),
    ("이어폰", unicodedata.normalize("NFD", "블루투스 무선이어폰")),
    ("コピー", "ｺﾋﾟｰ機とコピー"),
    ("ガイド", "ka カ\u3099イト\u3099"),
    ("5年", "保証は5年です。iPhone用"),
    ("crème", unicodedata.normalize("NFD", "Une crème très légère: CRÈME, cremes")),
    ("كتاب", "هذا كتاب جديد، كتابها"),
    ("סֵפֶר", "זה סֵפֶר חדש סֵפֶרים"),
    ("donaudampfschiff", "Ein Donau\u00addampf\u00adschiff fährt, das Dampfschiff"),
    ("istanbul", "İSTANBUL otelleri ve İstanbul"),
    ("größe", "GRÖSSE, Größe 🎉 Größen"),
    ("phở", "Phở bò, phơ"),
    ("ខ្មែរ", "ភាសា\u200bខ្មែរ\u200bខ្មែរ"),
    ("क्\u200dष", "यह क्\u200dष और क्ष है, ष क्या, क्\u200cष"),
    ("auflage", "Die Auf\u200clage und Auflage und auf lage"),
    ("کتاب\u200cخانه", "این کتاب\u200cخانه کتاب خانه"),
    ("ﻢ\u200cݐ", "ﻢ\u200cݐ\u200cا مݐ"),
    ("ශ්\u200dරී", "ශ්\u200dරී ලංකා ශ්රී රී"),
    ("cœur", "cœur coeur CŒUR"),
    ("søren", "Søren Soren SOREN"),
    ("łódź", "Łódź Lodz đên Đên"),
    ("þæð", "Þæð THAED thaed"),
    ("copy", "A copy, COPY; copies <b>copy</b>"),
]
"""Words, and texts that have them."""


def test_the_whole_text_has_the_marks_of_the_service(tmp_path: Path) -> None:
    """The marked parts are those of a snippet, which is the whole text here."""
    analyze = analyzer_for("none").analyze
    wanted, cases = [], []
    for query, text in TEXTS:
        terms = frozenset(term for word in spaced(query).split() for term in analyze(word))
        found = Highlighter("none").for_terms({"text": terms})({"text": text})
        wanted.append([text[one["start"] : one["end"]] for one in found])
        cases.append([wanted[-1], text])
    assert min(map(len, wanted)) > 0
    marked = "w.spansOf(text, w.wordsOf(parts)).map(([start, end]) => text.slice(start, end))"
    assert evaluated(tmp_path, f"{json.dumps(cases)}.map(([parts, text]) => {marked})", "words.js") == wanted


def test_words_of_a_snippet_are_found_in_any_case_and_with_any_accents(tmp_path: Path) -> None:
    cases = [
        ("Αθήνα", "ΑΘΗΝΑ αθηνα ΑΘΉΝΑ Αθήναι"),
        ("ΣΕΙΣΜΟΣ", "σεισμός Σεισμος σεισμοί"),
        ("ёлка", "Елка ЁЛКА е\u0308лка елки"),
        ("йод", "Йод ИОД иод"),
        ("Crème", "creme CRÈME cre\u0300me cremes"),
        ("Straße", "STRASSE straße Strassen"),
        ("ﬁnd", "FIND find ﬁnds"),
        ("١٢٣", "123 ۱۲۳ १२३ 124"),
        ("كتاب", "کتاب كتاب كتب"),
        ("أسعار", "اسعار أسعار إسعار سعر"),
        ("चाँद", "चांद चाँद चाद"),
    ]
    found = evaluated(
        tmp_path,
        f"{json.dumps(cases)}.map(([part, text]) => "
        "w.spansOf(text, w.wordsOf([part])).map(([start, end]) => text.slice(start, end)))",
        "words.js",
    )
    marked = {
        "Αθήνα": 3,
        "ΣΕΙΣΜΟΣ": 2,
        "ёлка": 3,
        "йод": 1,
        "Crème": 3,
        "Straße": 2,
        "ﬁnd": 2,
        "١٢٣": 3,
        "كتاب": 2,
        "أسعار": 3,
        "चाँद": 2,
    }
    assert found == [text.split()[: marked[part]] for part, text in cases]


def test_latin_letters_that_the_service_takes_for_ascii_letters_are_found_as_these(tmp_path: Path) -> None:
    letters = "œæøłđðþħŧŋəɓɗɖɛɔƙƴßıéớ"
    cases = [[f"q{letter}", f"q{analyzer_for('none').analyze(letter)[0]}"] for letter in letters]
    found = evaluated(
        tmp_path, f"{json.dumps(cases)}.filter(([a, b]) => !w.spansOf(a, w.wordsOf([b])).length)", "words.js"
    )
    assert found == []


def test_texts_are_cut_into_as_many_words_as_by_the_service(tmp_path: Path) -> None:
    codes = [*range(0x100, 0x3400), *range(0x3400, 0xD7FC, 101)]  # a few of the ideographs and of the syllables
    letters = [chr(code) for code in codes if unicodedata.category(chr(code))[0] in "LM"]
    texts = [f"q{letter}z" for letter in letters if unicodedata.normalize("NFKC", letter)[0] == letter]
    joiners = "\u200b\u200c\u200d"
    texts += [f"{letter}{joiner}z" for letter in ("q", "क", "ม", "ក", "م", "ݐ", "ࢠ", "ﻢ") for joiner in joiners]
    cut = evaluated(tmp_path, f"{json.dumps(texts)}.map((text) => w.wordsOf([text]).size)", "words.js")
    other = [text for text, count in zip(texts, cut, strict=True) if count != len({one.text for one in tokens(text)})]
    assert [text for text in other if unicodedata.category(text[1]) != "Me"] == []
