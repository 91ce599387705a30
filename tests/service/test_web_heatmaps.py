"""The heatmaps of the search page: tables that a screen reader reads, with readable colours in both themes."""

import re
from typing import Any, Literal

import pytest
from playwright.sync_api import Locator, expect

from tests.service.browser import Site, Visit, needs_chromium

pytestmark = needs_chromium
QUERY = "git tool that duplicates folders"
READABLE = 4.5
"""The least contrast of text (WCAG 2.2, 1.4.3)."""


def opened(visit: Visit, number: int = 0, **parameters: Any) -> Locator:
    """Open the explanation and the heatmaps of a hit; return its tables."""
    visit.open(q=QUERY, **parameters)
    hit = visit.page.locator("#hits > li").nth(number)
    hit.get_by_text("Explain").click()
    hit.get_by_role("button", name="Heatmaps of this page").click()
    tables = hit.locator(".heat")
    expect(tables.first).to_be_visible()
    return tables


def asked_for(visit: Visit) -> list[dict[str, Any]]:
    """Return the requests for heatmaps. The page sends other searches when the query has rested for a second."""
    return [one for one in visit.posted("search") if one.get("explain") == "matrix"]


def matrix(site: Site, **more: Any) -> Any:
    request = {"prefix": "last", "operators": True, "log": False, "explain": "matrix"}
    return site.tools.search(QUERY, **request | more)["matrix"]


def cells(table: Locator) -> list[list[float]]:
    """Return the numbers of the body of a table."""
    rows = table.locator("tbody tr").all()
    return [[float(text.replace("−", "-")) for text in row.locator("td").all_inner_texts()] for row in rows]


def rounded(cells: list[list[float]]) -> list[list[float]]:
    return [pytest.approx(row, abs=0.006) for row in cells]


def test_the_tables_have_the_numbers_of_the_answer(site: Site, visit: Visit) -> None:
    words, parts = opened(visit).all()
    answer = matrix(site)
    assert cells(words) == rounded(answer["words_by_keys"]["cells"])
    assert words.locator("tbody th").all_inner_texts() == QUERY.split()
    used = [row for row in answer["parts_by_documents"]["cells"] if any(row)]
    assert cells(parts) == rounded(used)
    assert parts.locator("tbody th").all_inner_texts()[:4] == ["title", "passage", "sentence", "words (BM25)"]
    logits = [float(text) for text in parts.locator("tfoot td").all_inner_texts()]
    assert logits == pytest.approx([one["logit"] for one in answer["parts_by_documents"]["documents"]], abs=0.006)
    cosines = [float(text.replace("−", "-")) for text in words.locator("tfoot td").all_inner_texts()]
    assert cosines == pytest.approx([one["cosine"] for one in answer["words_by_keys"]["keys"]], abs=0.006)


def test_a_screen_reader_finds_captions_and_heads(visit: Visit) -> None:
    opened(visit)
    words = visit.page.get_by_role("table", name="Words by keys: the cosine of the whole query")
    parts = visit.page.get_by_role("table", name="Parts by documents: the parts that sum to each logit")
    expect(words.get_by_role("rowheader")).to_have_text([*QUERY.split(), "cosine of the whole query"])
    expect(words.get_by_role("columnheader")).to_have_count(1 + 10 + 20)
    expect(parts.get_by_role("columnheader")).to_have_count(1 + 10)
    expect(words.get_by_role("columnheader", name="(this document)")).to_have_count(1)
    assert {head.get_attribute("scope") for head in words.get_by_role("columnheader").all()} == {"col", "colgroup"}
    assert {head.get_attribute("scope") for head in words.get_by_role("rowheader").all()} == {"row"}
    expect(visit.page.get_by_role("region", name="Words by keys")).to_have_attribute("tabindex", "0")
    passage = words.get_by_role("columnheader", name="passage “A git tool that copies folders, number 1”")
    expect(passage).to_have_count(1)


def test_every_number_has_a_sign_so_that_no_colour_is_needed(visit: Visit) -> None:
    words, _ = opened(visit).all()
    for shown in words.locator("tbody td").all_inner_texts():
        assert re.fullmatch(r"[+−]\d\.\d\d|0\.00", shown)
    assert {text[0] for text in words.locator("tbody td").all_inner_texts()} >= {"+", "−"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_numbers_are_readable_on_every_colour(visit: Visit, scheme: Literal["light", "dark"]) -> None:
    tables = opened(visit)
    visit.page.emulate_media(color_scheme=scheme)
    colours = tables.locator("tbody td").evaluate_all(
        "cells => cells.map(cell => [getComputedStyle(cell).color, getComputedStyle(cell).backgroundColor])"
    )
    visit.page.emulate_media(color_scheme=None)
    assert len({background for _, background in colours}) > 10
    ratios = [contrast(luminance(text), luminance(background)) for text, background in colours]
    assert min(ratios) > READABLE


def luminance(colour: str) -> float:
    """Return the relative luminance of a computed colour: `rgb(0-255 …)` or `color(srgb 0-1 …)`."""
    numbers = [float(one) for one in re.findall(r"[\d.]+(?:e-?\d+)?", colour.replace("srgb", ""))[:3]]
    channels = [one / 255 for one in numbers] if colour.startswith("rgb") else numbers
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: float, other: float) -> float:
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


def test_a_colour_follows_its_number(visit: Visit) -> None:
    words, _ = opened(visit).all()
    numbers = [number for row in cells(words) for number in row]
    found = words.locator("tbody td").evaluate_all(
        "cells => cells.map(cell => [cell.className, Number(cell.style.getPropertyValue('--share'))])"
    )
    most = max(map(abs, numbers))
    for number, (name, share) in zip(numbers, found, strict=True):
        assert share == pytest.approx(abs(number) / most, abs=0.05)
        assert not number or name == ("rise" if number > 0 else "fall")


def test_the_heatmaps_belong_to_the_page_of_the_hit_and_mark_it(site: Site, visit: Visit) -> None:
    visit.open(q=QUERY)
    visit.button("More results").click()
    expect(visit.titles).to_have_count(12)
    hit = visit.page.locator("#hits > li").nth(11)
    hit.get_by_text("Explain").click()
    hit.get_by_role("button", name="Heatmaps of this page").click()
    parts = hit.locator(".heat").nth(1)
    names = [f"{place}. {visit.titles.nth(place - 1).inner_text()}" for place in (11, 12)]
    expect(parts.locator("thead th")).to_have_text(["Part", names[0], f"{names[1]} (this document)"])
    documents = matrix(site, offset=10)["parts_by_documents"]["documents"]
    assert [float(text) for text in parts.locator("tfoot td").all_inner_texts()] == pytest.approx(
        [one["logit"] for one in documents], abs=0.006
    )


def test_the_button_hides_and_shows_without_another_request(visit: Visit) -> None:
    tables = opened(visit)
    button = visit.button("Heatmaps of this page")
    expect(button).to_have_attribute("aria-expanded", "true")
    button.click()
    expect(tables.first).to_be_hidden()
    expect(button).to_have_attribute("aria-expanded", "false")
    button.focus()
    visit.press("Enter")
    expect(tables.first).to_be_visible()
    assert len(asked_for(visit)) == 1


def test_the_request_is_not_logged_and_has_no_snippets(visit: Visit) -> None:
    opened(visit, **{"is.topic": "git"})
    (request,) = asked_for(visit)
    assert (request["log"], request["snippet"]) == (False, False)
    assert {"facets", "count"}.isdisjoint(request), "the tables need no counts"
    assert "git" in request["filter"]


def test_a_search_by_words_has_one_table(visit: Visit) -> None:
    tables = opened(visit, mode="words")
    expect(tables).to_have_count(1)
    expect(tables.locator("caption")).to_contain_text("Parts by documents")


def test_a_failed_request_shows_its_problem_and_can_be_repeated(visit: Visit) -> None:
    visit.open(q=QUERY)
    visit.page.get_by_text("Explain").first.click()
    button = visit.button("Heatmaps of this page")
    expect(button).to_be_visible()
    visit.page.route("**/search", lambda route: route.abort())
    button.click()
    expect(visit.page.get_by_role("alert")).to_contain_text("cannot be reached")
    expect(button).to_have_attribute("aria-expanded", "false")
    visit.page.unroute("**/search")
    button.click()
    expect(visit.page.locator(".heat")).to_have_count(2)
