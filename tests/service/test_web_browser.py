"""The search page as people use it: typing, clicks and keys in a browser. Skipped where there is no Chromium."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from tests.service.browser import Visit, chromium, logs, needs_chromium, served, session, stop_clock
from tests.service.client import CollectionClient, create, opened, runtime_of

pytestmark = needs_chromium
TOPICS = ("shell", "python", "git")


@dataclass(frozen=True)
class Site:
    """A server of a collection of tools, and a client in the same process."""

    address: str
    tools: CollectionClient

    def stored(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows that a statement selects. Impressions are written before."""
        runtime = runtime_of(self.tools.client)
        runtime.impressions.flush()
        with runtime.database.read() as connection:
            return [tuple(row) for row in connection.exec_driver_sql(statement)]

    def logged(self) -> list[str]:
        """Return the texts of the logged searches, oldest first."""
        return [text for (text,) in self.stored("SELECT text FROM queries ORDER BY query_id")]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with opened(tmp_path_factory.mktemp("data")) as client, served(client) as address:
        tools = create(client, "tools", filterable=["topic", "year"])
        tools.add(*(tool(topic, number) for topic in TOPICS for number in range(4)))
        yield Site(address, tools)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def flowing(browser: Browser) -> Iterator[BrowserContext]:
    with session(browser) as context:
        yield context


@pytest.fixture(scope="module")
def stopped(browser: Browser) -> Iterator[BrowserContext]:
    with session(browser) as context:
        stop_clock(context)
        yield context


@pytest.fixture
def visit(flowing: BrowserContext, site: Site) -> Iterator[Visit]:
    """A visit to the collection."""
    yield from blameless(flowing, site)


@pytest.fixture
def timed_visit(stopped: BrowserContext, site: Site) -> Iterator[Visit]:
    """A visit to the collection in which time passes by `pass_time` alone."""
    yield from blameless(stopped, site)


def blameless(context: BrowserContext, site: Site) -> Iterator[Visit]:
    """Yield a visit. At its end, no script has failed and no other host was asked for anything."""
    with Visit.begin(context, site.address, site.tools.name) as visit:
        yield visit
        assert visit.errors == []
        assert visit.foreign == []


def tool(topic: str, number: int) -> dict[str, Any]:
    return {
        "id": f"{topic}-{number}",
        "title": f"{topic} tool {number}",
        "text": f"A {topic} tool that copies folders, number {number}",
        "url": f"https://tools.example/{number}" if number else None,
        "metadata": {"topic": topic, "year": 2020 + number},
    }


def every(topic: str, numbers: tuple[int, ...] = (0, 1, 2, 3)) -> list[str]:
    return [f"{topic} tool {number}" for number in numbers]


class TestTyping:
    """Results follow the typed text. A search is logged once, when its user has come to rest."""

    def test_results_appear_while_typing_and_a_pause_of_a_second_logs_the_query(
        self, site: Site, timed_visit: Visit
    ) -> None:
        before = site.logged()
        timed_visit.open()
        timed_visit.type("git to")
        timed_visit.pass_time(120)
        expect(timed_visit.titles.first).to_contain_text("git tool")
        timed_visit.type("ol 2")
        timed_visit.pass_time(120)
        expect(timed_visit.titles.first).to_have_text("git tool 2")
        timed_visit.pass_time(999)
        assert timed_visit.logged_searches() == []
        with timed_visit.page.expect_request_finished(logs):
            timed_visit.pass_time(1)
        assert site.logged() == [*before, "git tool 2"]
        expect(timed_visit.page).to_have_url(timed_visit.url(q="git tool 2"))

    def test_enter_logs_the_query_at_once_and_once(self, site: Site, timed_visit: Visit) -> None:
        before = site.logged()
        timed_visit.open()
        timed_visit.type("copy folders")
        with timed_visit.page.expect_request_finished(logs):
            timed_visit.press("Enter")
        expect(timed_visit.titles).to_have_count(10)
        timed_visit.press("Enter")
        timed_visit.pass_time(5000)
        timed_visit.type(" fast")
        with timed_visit.page.expect_request_finished(logs):
            timed_visit.press("Enter")
        assert site.logged() == [*before, "copy folders", "copy folders fast"]

    def test_the_search_of_an_address_is_shown_and_logged_at_rest(self, site: Site, visit: Visit) -> None:
        before = site.logged()
        with visit.page.expect_request_finished(logs):
            visit.open(q="a tool for git")
        assert site.logged() == [*before, "a tool for git"]

    def test_an_emptied_search_box_clears_the_page(self, visit: Visit) -> None:
        visit.open()
        visit.search("tool")
        visit.page.get_by_label("git").check()
        expect(visit.button("Clear all filters")).to_be_visible()
        visit.page.locator("#q").fill("")
        expect(visit.titles).to_have_count(0)
        expect(visit.page.locator("#facets fieldset")).to_have_count(0)
        expect(visit.page).to_have_title("Softseek")
        expect(visit.button("Clear all filters")).to_be_hidden()

    def test_text_typed_before_the_scripts_are_loaded_is_searched(self, visit: Visit) -> None:
        with visit.held("**/static/search.js"):
            visit.page.goto(visit.url(), wait_until="commit")
            visit.type("git tool 3")
        expect(visit.titles.first).to_have_text("git tool 3")
        expect(visit.page.locator("#q")).to_have_value("git tool 3")

    def test_enter_pressed_twice_during_a_response_logs_once(self, site: Site, timed_visit: Visit) -> None:
        before = site.logged()
        timed_visit.open()
        with timed_visit.held("**/search"):
            timed_visit.type("shell co")
            with timed_visit.page.expect_request("**/search"):
                timed_visit.pass_time(120)
            timed_visit.type("py")
            timed_visit.press("Enter")
            timed_visit.press("Enter")
        expect(timed_visit.page).to_have_url(timed_visit.url(q="shell copy"))
        timed_visit.type(" tool")
        with timed_visit.page.expect_request_finished(logs):
            timed_visit.press("Enter")
        assert site.logged() == [*before, "shell copy", "shell copy tool"]

    def test_typing_on_after_enter_logs_no_unfinished_query(self, site: Site, timed_visit: Visit) -> None:
        before = site.logged()
        timed_visit.open()
        with timed_visit.held("**/search"):
            timed_visit.type("git co")
            with timed_visit.page.expect_request("**/search"):
                timed_visit.pass_time(120)
            timed_visit.press("Enter")
            timed_visit.type("pi")
        expect(timed_visit.titles).to_have_count(10)
        timed_visit.type("es")
        with timed_visit.page.expect_request_finished(logs):
            timed_visit.pass_time(2000)
        assert site.logged() == [*before, "git copies"]

    def test_the_back_button_logs_nothing(self, site: Site, timed_visit: Visit) -> None:
        before = site.logged()
        timed_visit.open()
        for q in ("first tool", "second tool"):
            timed_visit.page.locator("#q").fill(q)
            with timed_visit.page.expect_request_finished(logs):
                timed_visit.press("Enter")
            expect(timed_visit.page).to_have_url(timed_visit.url(q=q))
        timed_visit.type(" unfinished")
        with timed_visit.answered("first tool"):
            timed_visit.page.go_back()
        timed_visit.pass_time(5000)
        timed_visit.page.get_by_label("git").check()
        timed_visit.pass_time(1)
        expect(timed_visit.titles).to_have_count(4)
        with timed_visit.page.expect_request_finished(logs):
            timed_visit.pass_time(1000)
        assert site.logged() == [*before, "first tool", "second tool", "first tool"]


class TestPrivacy:
    def test_do_not_learn_from_me_logs_nothing_and_sends_no_click(self, site: Site, timed_visit: Visit) -> None:
        before, events = site.logged(), site.stored("SELECT id FROM events")
        timed_visit.open()
        timed_visit.page.get_by_label("Do not learn from me").check()
        timed_visit.type("private shell tool")
        timed_visit.pass_time(5000)
        timed_visit.press("Enter")
        expect(timed_visit.page).to_have_url(timed_visit.url(q="private shell tool"))
        expect(timed_visit.page.locator(".thumb:enabled")).to_have_count(0)
        timed_visit.titles.get_by_role("link").first.click()
        expect(timed_visit.page).to_have_title("Another host")
        assert timed_visit.logged_searches() == []
        assert timed_visit.posted("events") == []
        assert (site.logged(), site.stored("SELECT id FROM events")) == (before, events)

    def test_the_choice_not_to_learn_is_kept(self, visit: Visit) -> None:
        visit.open()
        visit.page.get_by_label("Do not learn from me").check()
        visit.open(q="shell")
        expect(visit.page.get_by_label("Do not learn from me")).to_be_checked()


class TestFeedback:
    LAST = "SELECT action_name, query_text, document_id, position FROM events ORDER BY id DESC LIMIT 1"

    def test_a_click_on_a_hit_logs_the_query_and_is_sent_before_its_link_is_followed(
        self, site: Site, timed_visit: Visit
    ) -> None:
        before = site.logged()
        timed_visit.open()
        timed_visit.type("python tool 3")
        timed_visit.pass_time(120)
        timed_visit.titles.get_by_role("link", name="python tool 3").click()
        expect(timed_visit.page).to_have_url("https://tools.example/3")
        assert site.logged() == [*before, "python tool 3"]
        assert site.stored(self.LAST) == [("click", "python tool 3", "python-3", 1)]

    def test_a_click_on_a_hit_without_an_address_shows_its_text(self, site: Site, visit: Visit) -> None:
        visit.open()
        visit.search("shell tool 0")
        visit.button("shell tool 0").click()
        expect(visit.page.locator(".text.whole")).to_have_text("A shell tool that copies folders, number 0")
        expect(visit.page.locator(".done").first).to_contain_text("Stored.")
        assert site.stored(self.LAST) == [("click", "shell tool 0", "shell-0", 1)]

    def test_a_thumb_is_stored_and_can_be_taken_back(self, site: Site, visit: Visit) -> None:
        visit.open()
        visit.search("which git tool")
        visit.button("This document answers the query").nth(1).click()
        shown = visit.page.locator(".hit").nth(1)
        expect(shown.locator(".thumb").first).to_have_attribute("aria-pressed", "true")
        expect(shown.locator(".done")).to_contain_text("Stored.")
        ((action, text, _, position),) = site.stored(self.LAST)
        assert (action, text, position) == ("thumbs_up", "which git tool", 2)
        shown.get_by_role("button", name="delete all feedback").click()
        expect(visit.page.locator(".done").filter(has_text="Stored.")).to_have_count(0)
        assert site.stored("SELECT id FROM events WHERE query_text = 'which git tool'") == []


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
        expect(visit.page).to_have_url(re.compile("q=git"))
        visit.page.go_back()
        expect(visit.titles).to_have_text(every("shell", (3, 2, 1, 0)))
        expect(visit.page.locator("#q")).to_have_value("shell tool")

    def test_a_search_by_words_finds_no_documents_without_them(self, visit: Visit) -> None:
        visit.open(q="zzyzx", typos="off")
        expect(visit.titles).to_have_count(10)
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

    def test_more_results_follow_the_first_ten(self, visit: Visit) -> None:
        visit.open()
        visit.search("tool")
        visit.button("More results").click()
        expect(visit.titles).to_have_count(12)
        expect(visit.titles.nth(10).locator("a, button")).to_be_focused()
        expect(visit.button("More results")).to_be_hidden()

    def test_a_second_click_on_more_results_logs_no_second_page(self, site: Site, visit: Visit) -> None:
        before = site.logged()
        visit.open()
        visit.search("any tool")
        with visit.page.expect_request_finished(logs):
            visit.press("Enter")
        with visit.held("**/search"):
            visit.button("More results").dblclick()
        expect(visit.titles).to_have_count(12)
        assert site.logged() == [*before, "any tool", "any tool"]


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
