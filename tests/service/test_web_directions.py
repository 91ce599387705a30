"""Texts run in their own direction on the search page, and its sentences from left to right."""

import pytest
from playwright.sync_api import expect

from tests.service.browser import Site, Visit, needs_chromium
from tests.service.client import create

pytestmark = needs_chromium

ARABIC = "نسخ المجلدات (cp)."
RIGHT_TO_LEFT = "element => getComputedStyle(element).direction === 'rtl'"


@pytest.fixture(scope="module")
def texts(site: Site) -> str:
    """The name of a collection with Arabic, English and mixed texts."""
    texts = create(site.tools.client, "texts", filterable=["kind", "نوع"])
    kinds = {"kind": "كتاب (جديد)", "نوع": "book"}
    texts.add(
        {"id": "arabic", "title": ARABIC, "text": "يمكنك نسخ المجلدات مع cp!\nThe end.", "metadata": kinds},
        {"id": "english", "title": "Copying", "text": "How to copy: المجلدات.", "url": "https://tools.example/e"},
    )
    return texts.name


def test_queries_titles_and_texts_run_in_their_own_direction(visit: Visit, texts: str) -> None:
    visit.open(c=texts, q="نسخ المجلدات cp")
    page = visit.page
    expect(visit.titles).to_have_text([ARABIC, "Copying"])
    assert page.locator("#q").evaluate(RIGHT_TO_LEFT)
    for selector in ("h2", ".text"):
        found = [one.evaluate(RIGHT_TO_LEFT) for one in page.locator(f"#hits .hit > {selector}").all()]
        assert found == [True, False]
    for selector in ("#facets .value bdi", "#hits .facts bdi"):
        assert page.locator(selector, has_text="كتاب").evaluate(RIGHT_TO_LEFT)
    assert not page.locator("#summary").evaluate(RIGHT_TO_LEFT)


def test_the_lines_of_a_whole_text_have_directions_of_their_own(visit: Visit, texts: str) -> None:
    visit.open(c=texts, q="نسخ المجلدات cp")
    visit.button(ARABIC).click()
    whole = visit.page.locator(".text.whole")
    expect(whole).to_have_css("unicode-bidi", "plaintext")
    assert whole.inner_text().splitlines()[-1] == "The end."


def test_the_title_of_the_closest_sentence_is_outside_the_quotation(visit: Visit, texts: str) -> None:
    visit.open(c=texts, q="كيف نسخ المجلدات cp")
    shown = visit.page.get_by_role("note", name="Closest sentence")
    expect(shown.locator("bdi")).to_have_text(ARABIC)
    assert shown.evaluate(RIGHT_TO_LEFT)
    assert not shown.locator("span").evaluate(RIGHT_TO_LEFT)
    quotation, source = shown.locator("q").bounding_box(), shown.locator("span").bounding_box()
    assert quotation
    assert source
    assert source["x"] + source["width"] <= quotation["x"] or source["y"] > quotation["y"]


def test_a_word_in_a_sentence_of_the_page_is_isolated(visit: Visit, texts: str) -> None:
    visit.open(c=texts, q='"نسخ المجلدات" cp')
    expect(visit.page.locator("#reading")).to_contain_text("Only documents with “نسخ المجلدات”; ")
    assert visit.page.locator("#reading bdi").evaluate(RIGHT_TO_LEFT)
    assert not visit.page.locator("#reading").evaluate(RIGHT_TO_LEFT)
