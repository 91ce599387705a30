"""The web pages as people use them: clicks, choices and keys in a browser. Skipped where there is no Chromium."""

from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Route, expect

from tests.service.browser import TOPICS, Site, Visit, logs, needs_chromium
from tests.service.client import create

pytestmark = [needs_chromium, pytest.mark.usefixtures("forked_training")]


def every(topic: str, numbers: tuple[int, ...] = (0, 1, 2, 3)) -> list[str]:
    return [f"{topic} tool {number}" for number in numbers]


class TestFilters:
    def test_a_click_on_a_value_filters_and_a_second_click_restores_the_hits(self, visit: Visit) -> None:
        visit.open()
        visit.search("tool 2")
        expect(visit.titles).to_have_count(10)
        unfiltered = visit.titles.all_inner_texts()
        visit.page.get_by_label("git").check()
        expect(visit.titles).to_have_count(4)
        assert sorted(visit.titles.all_inner_texts()) == every("git")
        visit.page.get_by_label("git").uncheck()
        expect(visit.titles).to_have_text(unfiltered)

    def test_two_values_clicked_during_a_response_are_both_chosen(self, visit: Visit) -> None:
        visit.open(q="copy tools")
        with visit.held("**/search"):
            visit.page.get_by_label("git").check()
            visit.page.get_by_label("shell").check()
        expect(visit.titles).to_have_count(8)
        expect(visit.page.get_by_label("git")).to_be_checked()

    def test_all_filters_are_cleared_by_one_click(self, visit: Visit) -> None:
        visit.open(q="tool 2", **{"is.topic": "git", "max.year": "2021"})
        expect(visit.titles).to_have_count(2)
        visit.button("Clear all filters").click()
        expect(visit.titles).to_have_count(10)
        expect(visit.page.get_by_label("git")).not_to_be_checked()
        expect(visit.page.get_by_label("year at most")).to_have_value("")

    def test_a_typed_number_filters(self, visit: Visit) -> None:
        visit.open(q="shell tool")
        visit.page.get_by_label("year at least").press_sequentially("2023")
        expect(visit.titles).to_have_count(3)
        expect(visit.page.get_by_label("year at least")).to_be_focused()

    def test_filters_of_the_address_apply_and_the_other_values_can_still_be_chosen(self, visit: Visit) -> None:
        visit.open(q="copy folders", **{"is.topic": "git", "min.year": "2022"})
        expect(visit.titles).to_have_count(2)
        assert sorted(visit.titles.all_inner_texts()) == every("git", (2, 3))
        values = visit.page.locator("#facets label.value")
        assert sorted(values.all_inner_texts()) == sorted(f"{topic}\n2" for topic in TOPICS)
        expect(visit.page.get_by_label("year at least")).to_have_attribute("placeholder", "2020")


class TestOptions:
    def test_a_chosen_order_sorts_the_hits(self, visit: Visit) -> None:
        visit.open(q="shell tool", **{"is.topic": "shell"})
        visit.page.get_by_label("Sort by").select_option("year, descending")
        expect(visit.titles).to_have_text(every("shell", (3, 2, 1, 0)))
        visit.page.get_by_label("Sort by").select_option("year, ascending")
        expect(visit.titles).to_have_text(every("shell"))

    def test_the_back_button_restores_the_search_before(self, visit: Visit) -> None:
        visit.open(q="shell tool", sort="year:desc", **{"is.topic": "shell"})
        expect(visit.titles).to_have_text(every("shell", (3, 2, 1, 0)))
        visit.page.locator("#q").fill("git tool 1")
        visit.press("Enter")
        expect(visit.page).to_have_url(visit.url(q="git tool 1", sort="year:desc", **{"is.topic": "shell"}))
        visit.page.go_back()
        expect(visit.titles).to_have_text(every("shell", (3, 2, 1, 0)))
        expect(visit.page.locator("#q")).to_have_value("shell tool")

    def test_a_search_by_words_finds_no_documents_without_them(self, visit: Visit) -> None:
        visit.open(q="zzyzx", typos="off")
        expect(visit.titles).to_have_count(10)
        expect(visit.page.locator("#summary")).to_contain_text(" · 0 documents with a word of the query · ")
        visit.page.get_by_label("Search by").select_option("words")
        expect(visit.page.get_by_text("No document matches this query.")).to_be_visible()
        visit.page.get_by_label("Search by").select_option("meaning and words")
        expect(visit.titles).to_have_count(10)

    def test_a_chosen_model_scores_the_hits(self, visit: Visit) -> None:
        visit.open(q="git")
        expect(visit.page.locator("#summary")).to_contain_text("champion")
        visit.page.get_by_label("Model").select_option("untrained (0)")
        expect(visit.page.locator("#summary")).not_to_contain_text("champion")

    def test_a_failed_search_shows_its_problem(self, visit: Visit) -> None:
        visit.open(q="tool", model="7")
        expect(visit.page.get_by_role("alert")).to_contain_text("there is no such model")


class TestReading:
    """How a query is read, and the buttons that read it as it is written."""

    def test_hits_have_snippets_and_a_misspelled_word_is_corrected(self, visit: Visit) -> None:
        visit.open()
        visit.search("pyhton copy")
        expect(visit.page.locator("#reading")).to_contain_text("Results for python;")
        expect(visit.titles.first).to_contain_text("python tool")
        expect(visit.page.locator(".text").first.locator("mark")).to_have_text(["python", "copies"])
        visit.button("search only for pyhton").click()
        expect(visit.page.locator("#reading")).to_have_text("Spelling is not corrected; correct it")
        visit.button("correct it").click()
        expect(visit.page.locator("#reading")).to_contain_text("Results for python;")

    def test_operators_are_named_and_can_be_read_as_words_and_back(self, visit: Visit) -> None:
        visit.open()
        visit.search('"python tool" -git')
        reading = visit.page.locator("#reading")
        expect(reading).to_contain_text("Only documents with “python tool”, without “git”")
        expect(visit.titles).to_have_count(4)
        assert sorted(visit.titles.all_inner_texts()) == every("python")
        visit.button("search for these words literally").click()
        expect(reading).to_contain_text("Operators are read as words")
        expect(visit.titles.filter(has_text="git")).not_to_have_count(0)
        visit.button("use them as operators").click()
        expect(reading).to_contain_text("Only documents with “python tool”, without “git”")

    def test_the_closest_sentence_of_a_question_stands_above_the_hits(self, site: Site, visit: Visit) -> None:
        question = "which git tool copies"
        closest = site.tools.search(question, answer=True)["answer"]
        visit.open()
        visit.search(question)
        shown = visit.page.get_by_role("note", name="Closest sentence")
        expect(shown.locator("q")).to_have_text(closest["text"].strip())
        expect(shown).to_contain_text("of the attention")
        visit.search("git tool")
        expect(shown).to_be_hidden()

    def test_words_of_a_script_without_spaces_make_a_question(self, visit: Visit) -> None:
        visit.open()
        visit.search("git でファイルをコピーするツール")
        shown = visit.page.get_by_role("note", name="Closest sentence")
        expect(shown.locator("q")).not_to_be_empty()

    def test_fields_are_estimated_from_the_attention(self, site: Site, visit: Visit) -> None:
        found = site.tools.search("git tool", predict=["topic", "year"])["predictions"]
        visit.open()
        visit.search("git tool")
        estimates = visit.page.get_by_role("region", name="Estimates")
        expect(estimates).to_contain_text(f"{found['topic']['distribution'][0]['value']} ")
        expect(estimates).to_contain_text(f"about {found['year']['mean']:.0f}")
        expect(estimates).to_contain_text(f"from {found['topic']['documents']} documents that count as")
        visit.search("nothing-at-all-here")
        expect(estimates).to_be_hidden()

    def test_an_estimate_from_a_single_document_says_so(self, site: Site, visit: Visit) -> None:
        alone = create(site.tools.client, "alone", filterable=["topic", "colour"])
        alone.add({"id": "a", "text": "one oak", "metadata": {"colour": "red"}}, {"id": "b", "text": "another oak"})
        visit.open(c=alone.name, q="oak")
        expect(visit.page.get_by_role("region", name="Estimates")).to_contain_text("from 1 document; ")

    def test_a_pinned_hit_is_marked(self, site: Site, visit: Visit) -> None:
        rule = {"query": {"exact": "best tool"}, "pin": [{"id": "git-2", "position": 2}]}
        site.tools.client.put(f"{site.tools.path}/rules/best", json=rule)
        visit.open()
        visit.search("best tool")
        expect(visit.titles.nth(1)).to_have_text("git tool 2 pinned")

    def test_an_explanation_opens(self, visit: Visit) -> None:
        visit.open()
        visit.search("git tool 2")
        expect(visit.titles.first).to_have_text("git tool 2")
        visit.page.get_by_text("Explain").first.click()
        expect(visit.page.locator(".explain").first).to_contain_text("words (BM25)")

    def test_documents_like_a_hit_are_shown_and_pass_the_filter(self, site: Site, visit: Visit) -> None:
        visit.open(q="git tool 2", **{"is.topic": "git"})
        expect(visit.titles.first).to_have_text("git tool 2")
        visit.page.get_by_text("More like this").first.click()
        similar = visit.page.locator(".similar").first.locator("li")
        expect(similar).to_have_count(3)
        assert sorted(similar.locator("a, button").all_inner_texts()) == every("git", (0, 1, 3))
        similar.get_by_role("button", name="git tool 0").click()
        expect(similar.filter(has_text="git tool 0")).to_contain_text("A git tool that copies folders, number 0")
        (request,) = visit.posted("recommend")
        assert request == {"like": ["git-2"], "limit": 5, "fields": ["title", "url"], "filter": '"topic" IN ["git"]'}
        assert visit.posted("events") == []

    def test_more_results_follow_the_first_ten(self, visit: Visit) -> None:
        visit.open()
        visit.search("tool")
        visit.button("More results").click()
        expect(visit.titles).to_have_count(12)
        expect(visit.titles.nth(10).locator("a, button")).to_be_focused()
        expect(visit.button("More results")).to_be_hidden()

    def test_a_second_click_on_more_results_logs_no_second_page(self, site: Site, visit: Visit) -> None:
        visit.open()
        with visit.page.expect_request_finished(logs):  # by Enter, or by a second without a key before it
            visit.search("any tool")
            visit.press("Enter")
        with visit.held("**/search"):
            visit.button("More results").dblclick()
        expect(visit.titles).to_have_count(12)
        assert site.logged("any") == ["any tool", "any tool"]


@pytest.mark.parametrize(
    ("id", "q", "words"),
    [
        ("hindi", "हिन्दी", ["हिन्दी", "हिन्दी"]),
        ("chinese", "耳机", ["耳机", "耳机"]),
        ("greek", "αθήνα", ["Αθήνα", "ΑΘΗΝΑ"]),
        ("hyphenated", "donaudampfschiff", ["Donau\u00addampf\u00adschiff"]),
    ],
)
def test_a_whole_text_has_the_marks_of_its_snippet(
    visit: Visit, foreign: str, id: str, q: str, words: list[str]
) -> None:
    visit.open(c=foreign, q=q, mode="words")
    visit.button(id).click()
    expect(visit.page.locator(".text.whole mark")).to_have_text(words)


@pytest.fixture(scope="module")
def foreign(site: Site) -> str:
    """The name of a collection with texts in several scripts."""
    foreign = create(site.tools.client, "foreign", filterable=["topic", "year"])
    texts = {
        "hindi": "यह हिन्दी में लिखा है: हिन्दी।",
        "chinese": "这是一款无线蓝牙耳机,耳机",
        "greek": "Η Αθήνα. ΑΘΗΝΑ",
        "hyphenated": "Ein Donau\u00addampf\u00adschiff",
    }
    foreign.add(*({"id": id, "text": text} for id, text in texts.items()))
    return foreign.name


@pytest.fixture(scope="module")
def odd(site: Site) -> str:
    """The name of a collection with odd names of fields and ids."""
    odd = create(site.tools.client, "odd", filterable=["constructor", "__proto__", "topic"])
    ids = ("../../tools", "..", ".", "a/..")
    documents = ({"id": id, "text": f"odd text {at}", "metadata": {"topic": "odd"}} for at, id in enumerate(ids))
    own = {"constructor": "made", "__proto__": "by hand"}
    another = {"id": "another", "text": "odd text", "metadata": {"__proto__": "by machine"}}
    odd.add(*documents, {"id": "own", "text": "odd text", "metadata": own}, another)
    return odd.name


class TestNames:
    """Ids and names of fields that have a meaning elsewhere."""

    @pytest.mark.parametrize(("id", "at"), [("../../tools", 0), ("a/..", 3)])
    def test_an_id_like_a_path_opens_its_own_document(self, visit: Visit, odd: str, id: str, at: int) -> None:
        visit.open(c=odd, q="odd text")
        with visit.page.expect_response(lambda one: one.request.method == "GET" and "/v1/" in one.url) as answered:
            visit.page.get_by_role("button", name=id, exact=True).click()
        assert answered.value.url.endswith(f"/v1/collections/odd/documents/{quote(id, safe='')}")
        assert answered.value.json()["text"] == f"odd text {at}"

    @pytest.mark.parametrize("id", [".", ".."])
    def test_an_id_that_no_browser_can_request_is_named(self, visit: Visit, odd: str, id: str) -> None:
        visit.open(c=odd, q="odd text")
        visit.page.get_by_role("button", name=id, exact=True).click()
        told = f"A browser cannot request a document with the id “{id}”."
        expect(visit.page.locator("#hits .text").get_by_text(told, exact=True)).to_be_visible()
        assert not [one for one in visit.requests if one.method == "GET" and "/documents" in one.url]

    def test_only_own_fields_of_a_document_are_its_facts(self, visit: Visit, odd: str) -> None:
        visit.open(c=odd, q="odd text")
        expect(visit.titles).to_have_count(6)
        facts = [" ".join(one.split()) for one in visit.page.locator("#hits .facts").all_inner_texts()]
        assert sorted(facts) == ["__proto__ by machine", "constructor made __proto__ by hand", *["topic odd"] * 4]

    def test_a_filter_of_any_value_and_field_is_shown(self, visit: Visit, odd: str) -> None:
        visit.open(c=odd, q="odd text", **{"is.topic": "toString", "is.__proto__": "by hand"})
        for field, value in (("topic", "toString"), ("__proto__", "by hand")):
            section = visit.page.locator("#facets fieldset").filter(has_text=field)
            expect(section.get_by_label(value)).to_be_checked()

    def test_other_values_of_a_filtered_field_of_any_name_can_be_chosen(self, visit: Visit, odd: str) -> None:
        visit.open(c=odd, q="odd text", **{"is.__proto__": "by hand"})
        visit.page.locator("#facets").get_by_label("by machine").check()
        expect(visit.titles).to_have_count(2)


class TestKeyboard:
    def test_tab_reaches_the_results_and_enter_opens_one(self, visit: Visit) -> None:
        visit.open()
        visit.search("shell tool 0")
        title = visit.button("shell tool 0")
        expect(title).to_be_visible()
        for _ in range(30):
            visit.press("Tab")
            if title.evaluate("title => title === document.activeElement"):
                break
        expect(title).to_be_focused()
        visit.press("Enter")
        expect(visit.page.locator(".text.whole")).to_be_visible()

    def test_arrow_keys_move_between_the_search_box_and_the_titles(self, visit: Visit) -> None:
        visit.open()
        visit.search("git tool")
        expect(visit.titles).to_have_count(10)
        visit.press("ArrowDown")
        visit.press("ArrowDown")
        expect(visit.titles.nth(1).locator("a, button")).to_be_focused()
        visit.press("ArrowUp")
        visit.press("ArrowUp")
        expect(visit.page.locator("#q")).to_be_focused()


@pytest.mark.parametrize(("path", "heading"), [("/learning", "Models"), ("/docs", "Softseek")])
def test_the_other_pages_load_without_an_error(visit: Visit, path: str, heading: str) -> None:
    visit.open(path)
    expect(visit.page.get_by_role("heading", name=heading).first).to_be_visible()


def test_the_learning_page_shows_the_schedule_and_what_is_missing(site: Site, visit: Visit) -> None:
    visit.open("/learning")
    expect(visit.page.locator("#versions li")).to_have_count(1)
    expect(visit.page.locator("#schedule")).to_be_hidden()
    tools = site.tools
    tools.client.put(tools.path, json={"train": {"every_hours": 12, "min_new_queries": 1000}})
    visit.open("/learning")
    expect(visit.page.locator("#schedule")).to_contain_text("at most every 12 hours, when 1000 queries")
    expect(visit.page.locator("#schedule")).to_contain_text("a scheduled run needs 1000")
    tools.client.put(tools.path, json={"train": None})


def test_the_learning_page_says_how_long_raw_queries_are_kept(site: Site, visit: Visit) -> None:
    tools = site.tools
    visit.open("/learning")
    expect(visit.page.locator("#retention")).to_contain_text("are kept until they are erased")
    tools.client.put(tools.path, json={"retention_days": 90})
    visit.open("/learning")
    expect(visit.page.locator("#retention")).to_contain_text(
        "are kept 90 days; memory of clicks is kept without a limit."
    )
    tools.client.put(tools.path, json={"retention_days": None})


@pytest.mark.parametrize(
    ("report", "shown"),
    [
        ({"context": {"chosen": 0.5, "queries": 120}}, ["Context: 0.5"]),
        ({"context": {"chosen": 0, "queries": 120}}, ["Context: none, because held-out queries did not improve"]),
        ({"recipe": {"recipe": "initial"}, "trees": {"chosen": 40}}, ["initial weights, ", "Trees: 40"]),
    ],
)
def test_the_learning_page_shows_the_fit_of_a_model(visit: Visit, report: dict[str, Any], shown: list[str]) -> None:
    def answer(route: Route) -> None:
        body = route.fetch().json()
        body["models"][0]["report"] = report
        route.fulfill(json=body)

    visit.page.route("**/models", answer)
    visit.open("/learning")
    model = visit.page.locator("#versions > li").last
    model.get_by_text("Fit").click()
    for text in shown:
        expect(model).to_contain_text(text)


def test_the_learning_page_shows_a_model_of_the_documents_and_its_guard(site: Site, visit: Visit) -> None:
    run = site.tools.train(learn_from="documents", promote="never")
    assert run["status"] == "succeeded", run["error"]
    visit.open("/learning")
    expect(visit.page.locator("#status")).to_contain_text("succeeded, model 1, a model of the documents.")
    model = visit.page.locator("#versions > li").first
    expect(model).to_contain_text("documents, ")
    expect(model.get_by_text("Guard: ")).to_be_visible()
    model.get_by_text("Fit").click()
    expect(model).to_contain_text("documents without feedback")
