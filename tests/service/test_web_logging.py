"""What the search page logs and sends while people type, rest and click. Skipped where there is no Chromium."""

import pytest
from playwright.sync_api import expect

from tests.service.browser import Site, Visit, logs, needs_chromium

pytestmark = needs_chromium


class TestTyping:
    """Results follow the typed text. A search is logged once, when its user has come to rest."""

    def test_results_appear_while_typing_and_a_pause_of_a_second_logs_the_query(
        self, site: Site, timed_visit: Visit
    ) -> None:
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
        assert site.logged("git t") == ["git tool 2"]
        expect(timed_visit.page).to_have_url(timed_visit.url(q="git tool 2"))

    def test_enter_logs_the_query_at_once_and_once(self, site: Site, timed_visit: Visit) -> None:
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
        assert site.logged("copy") == ["copy folders", "copy folders fast"]

    def test_the_search_of_an_address_is_shown_and_logged_at_rest(self, site: Site, visit: Visit) -> None:
        with visit.page.expect_request_finished(logs):
            visit.open(q="a tool for git")
        assert site.logged("a tool") == ["a tool for git"]

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
            visit.type("shell tool 3")
        expect(visit.titles.first).to_have_text("shell tool 3")
        expect(visit.page.locator("#q")).to_have_value("shell tool 3")

    def test_enter_pressed_twice_during_a_response_logs_once(self, site: Site, timed_visit: Visit) -> None:
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
        assert site.logged("shell c") == ["shell copy", "shell copy tool"]

    def test_typing_on_after_enter_logs_no_unfinished_query(self, site: Site, timed_visit: Visit) -> None:
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
        assert site.logged("git c") == ["git copies"]

    def test_the_back_button_logs_nothing(self, site: Site, timed_visit: Visit) -> None:
        timed_visit.open()
        for q in ("tool one", "tool two"):
            timed_visit.page.locator("#q").fill(q)
            with timed_visit.page.expect_request_finished(logs):
                timed_visit.press("Enter")
            expect(timed_visit.page).to_have_url(timed_visit.url(q=q))
        timed_visit.type(" unfinished")
        with timed_visit.answered("tool one"):
            timed_visit.page.go_back()
        timed_visit.pass_time(5000)
        timed_visit.page.get_by_label("git").check()
        timed_visit.pass_time(1)
        expect(timed_visit.titles).to_have_count(4)
        with timed_visit.page.expect_request_finished(logs):
            timed_visit.pass_time(1000)
        assert site.logged("tool ") == ["tool one", "tool two", "tool one"]


class TestPrivacy:
    def test_do_not_learn_from_me_logs_nothing_and_sends_no_click(self, site: Site, timed_visit: Visit) -> None:
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
        assert site.logged("private") == []

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
        timed_visit.open()
        timed_visit.type("python tool 3")
        timed_visit.pass_time(120)
        timed_visit.titles.get_by_role("link", name="python tool 3").click()
        expect(timed_visit.page).to_have_url("https://tools.example/3")
        assert site.logged("python") == ["python tool 3"]
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

    @pytest.mark.parametrize("q", ["topic:git", "-shell"])
    def test_a_list_without_words_sends_nothing(self, site: Site, timed_visit: Visit, q: str) -> None:
        timed_visit.open()
        timed_visit.type(q)
        timed_visit.press("Enter")
        expect(timed_visit.titles.first).to_be_visible()
        timed_visit.pass_time(5000)
        expect(timed_visit.page.locator(".thumb:enabled")).to_have_count(0)
        choice = timed_visit.page.get_by_label("Do not learn from me")
        choice.check()
        choice.uncheck()
        expect(timed_visit.page.locator(".thumb:enabled")).to_have_count(0)
        timed_visit.button("git tool 0").click()
        expect(timed_visit.page.locator(".text.whole")).to_have_text("A git tool that copies folders, number 0")
        expect(timed_visit.page.get_by_role("alert")).to_be_hidden()
        timed_visit.titles.get_by_role("link", name="git tool 1").click()
        expect(timed_visit.page).to_have_title("Another host")
        assert timed_visit.posted("events") == []
        assert q not in site.logged(q)

    def test_words_after_a_list_without_words_can_be_judged(self, site: Site, visit: Visit) -> None:
        visit.open()
        visit.search("-shell")
        expect(visit.page.locator(".thumb:enabled")).to_have_count(0)
        visit.search("-shell copies")
        visit.button("This document answers the query").first.click()
        expect(visit.page.locator(".done").first).to_contain_text("Stored.")
        ((action, text, _, position),) = site.stored(self.LAST)
        assert (action, text, position) == ("thumbs_up", "-shell copies", 1)
