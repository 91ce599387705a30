"""The web pages with a keyboard, a screen reader, a narrow window, or a service that is slow or away."""

import re

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from index.words.analyzers import LANGUAGES
from service.web.routes import HERE
from tests.service.browser import Site, Visit, is_search, logs, needs_chromium
from tests.service.client import create, good

PAGES = ("/", "/queries", "/learning")


def fail(visit: Visit, address: str, times: int = 1, status: int = 503) -> None:
    """Let the next requests to addresses of this pattern fail, as those to a service that is starting."""
    visit.page.route(address, lambda route: route.fulfill(status=status, body="{}"), times=times)


def search(timed_visit: Visit, q: str) -> None:
    """Search on the stopped clock, and wait for the hits."""
    with timed_visit.answered(q):
        timed_visit.page.locator("#q").fill(q)
        timed_visit.pass_time(200)


def top(element: Locator) -> float:
    box = element.bounding_box()
    assert box is not None
    return box["y"]


def test_every_language_of_collections_has_a_code() -> None:
    table = (HERE / "static" / "page.js").read_text().split("const LANGUAGES = {")[1].split("}")[0]
    assert re.findall(r"(\w+):", table) == LANGUAGES


@needs_chromium
class TestFocus:
    def test_hits_that_replace_the_focused_one_do_not_lose_the_focus(self, timed_visit: Visit) -> None:
        timed_visit.open()
        search(timed_visit, "git tool")
        timed_visit.type(" 2")
        timed_visit.press("ArrowDown")
        with timed_visit.answered("git tool 2"):
            timed_visit.pass_time(200)
        expect(timed_visit.page.locator("#hits h2 > :focus")).to_have_count(1)
        timed_visit.press("ArrowUp")
        expect(timed_visit.page.locator(":focus")).not_to_have_count(0)

    def test_arrow_keys_with_another_key_select_text(self, visit: Visit) -> None:
        visit.open(q="git tool")
        visit.page.locator("#q").focus()
        visit.press("Shift+ArrowDown")
        expect(visit.page.locator("#q")).to_be_focused()

    def test_a_filter_value_that_goes_away_leaves_the_focus_on_the_page(self, visit: Visit) -> None:
        visit.open(q="git tool", **{"is.topic": "nothere"})
        visit.page.get_by_label("nothere").focus()
        visit.press("Space")
        expect(visit.titles).to_have_count(10)
        expect(visit.page.locator("#summary")).to_be_focused()

    def test_arrow_keys_choose_a_collection_and_enter_opens_it(self, visit: Visit) -> None:
        visit.open(q="git tool")
        visit.page.get_by_label("Collection").focus()
        visit.press("ArrowUp")
        expect(visit.button("Open")).to_be_visible()
        assert "c=tools" in visit.page.url
        visit.press("Enter")
        expect(visit.page).to_have_url(re.compile("c=default"))

    def test_the_page_of_queries_shows_another_time_in_place(self, visit: Visit) -> None:
        visit.page.goto(visit.url("/queries"))
        visit.page.get_by_label("Searches of the last").focus()
        visit.press("ArrowDown")
        expect(visit.page).to_have_url(re.compile("c=tools&days=90"))
        expect(visit.page.locator("#days")).to_be_focused()

    def test_a_failed_rollback_leaves_the_focus_on_its_button(self, visit: Visit) -> None:
        visit.page.goto(visit.url("/learning"))
        visit.button("Roll back").press("Enter")
        expect(visit.page.get_by_role("alert")).to_be_visible()
        expect(visit.button("Roll back")).to_be_focused()

    def test_a_title_whose_text_does_not_come_can_be_opened_again(self, visit: Visit) -> None:
        visit.open(q="git tool 0")
        title = visit.button("git tool 0")
        fail(visit, "**/documents/git-0")
        title.click()
        expect(visit.page.get_by_role("alert")).to_be_visible()
        expect(title).to_have_attribute("aria-expanded", "false")
        title.click()
        expect(title).to_have_attribute("aria-expanded", "true")
        expect(visit.page.locator(".text.whole")).to_have_count(1)


@needs_chromium
class TestAnnouncements:
    def test_a_search_without_a_hit_says_so(self, visit: Visit) -> None:
        visit.open(q="git tool", **{"min.year": "2999"})
        status = visit.page.get_by_role("status").filter(
            has_text="No document matches this query and passes the filters."
        )
        expect(status).to_be_visible()

    def test_what_belongs_to_a_hit_names_it(self, visit: Visit) -> None:
        visit.open(q="git tool 1")
        thumb = visit.page.locator("#hits .thumb").first
        expect(thumb).to_have_accessible_description(re.compile("git tool 1"))

    def test_hits_have_the_language_of_their_collection(self, site: Site, visit: Visit) -> None:
        german = create(site.tools.client, "werkzeug", language="german", filterable=["art"])
        german.add({"id": "s", "text": "eine Säge"})
        visit.open(c=german.name, q="Säge")
        expect(visit.page.locator("#hits")).to_have_attribute("lang", "de")

    def test_the_figures_of_each_day_are_in_a_table(self, site: Site, visit: Visit) -> None:
        site.tools.search("git tool")
        visit.page.goto(visit.url("/queries"))
        visit.page.get_by_text("Figures of each day").click()
        rows = visit.page.get_by_role("region", name="Figures of each day").get_by_role("row")
        expect(rows.nth(1)).to_contain_text(re.compile(r"^20\d\d-\d\d-\d\d"))

    @pytest.mark.parametrize("path", PAGES)
    def test_every_page_has_one_first_heading(self, visit: Visit, path: str) -> None:
        visit.page.goto(visit.url(path))
        expect(visit.page.get_by_role("heading", level=1)).to_have_count(1)


@needs_chromium
class TestLayout:
    @pytest.fixture
    def narrow(self, visit: Visit) -> Visit:
        visit.page.set_viewport_size({"width": 320, "height": 640})
        return visit

    @pytest.mark.parametrize("path", PAGES)
    def test_a_narrow_page_does_not_move_sideways(self, narrow: Visit, path: str) -> None:
        narrow.page.goto(narrow.url(path, q="git tool"))
        narrow.page.locator("#logout").evaluate("button => button.hidden = false")
        assert narrow.page.evaluate("document.documentElement.scrollWidth") == 320

    def test_filters_are_seen_where_they_are_folded(self, narrow: Visit) -> None:
        narrow.open(q="git tool", **{"is.topic": "git"})
        expect(narrow.page.locator("#options > summary")).to_have_text("Filters and options (1 filter)")
        narrow.button("Clear all filters").click()
        expect(narrow.titles).to_have_count(10)
        expect(narrow.page.locator("#options > summary")).to_have_text("Filters and options")

    def test_the_closest_sentence_moves_no_hit(self, timed_visit: Visit) -> None:
        timed_visit.open()
        search(timed_visit, "which git tool copies")
        before = top(timed_visit.titles.first)
        timed_visit.pass_time(2000)
        expect(timed_visit.page.locator("#closest q")).to_be_visible()
        assert top(timed_visit.titles.first) == before

    def test_a_long_closest_sentence_is_scrolled_in_its_place(self, site: Site, timed_visit: Visit) -> None:
        long = create(site.tools.client, "long", filterable=["topic"])
        long.add({"id": "l", "title": "Copies", "text": f"A git tool copies {'very ' * 100}fast."})
        timed_visit.open(c="long")
        search(timed_visit, "which git tool copies")
        before = top(timed_visit.titles.first)
        timed_visit.pass_time(2000)
        expect(timed_visit.page.locator("#closest q")).to_be_visible()
        assert top(timed_visit.titles.first) == before
        expect(timed_visit.page.locator("#closest")).to_have_attribute("tabindex", "0")

    def test_what_opens_is_high_enough_for_a_finger(self, visit: Visit) -> None:
        visit.open(q="git tool")
        boxes = [one.bounding_box() for one in visit.page.locator("#hits .hit:first-child summary").all()]
        assert [box["height"] >= 24 for box in boxes if box] == [True, True]

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_fields_have_a_visible_edge(self, visit: Visit, scheme: str) -> None:
        visit.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        visit.open()
        assert contrast(visit.page, "#q", "borderTopColor") >= 3
        assert contrast(visit.page, "#q", "color", "::placeholder") >= 4.5

    def test_code_keeps_its_indentation(self, site: Site, visit: Visit) -> None:
        code = create(site.tools.client, "code", filterable=["topic"])
        code.add({"id": "f", "text": "def half(x):\n    return x / 2"})
        visit.open(c=code.name, q="half")
        visit.button("f").click()
        expect(visit.page.locator(".whole")).to_have_css("white-space-collapse", "preserve")


def contrast(page: Page, selector: str, name: str, pseudo: str | None = None) -> float:
    """Return the contrast (WCAG 2.2, 1.4.3) of a colour of an element with the paper of the page."""
    read = "([at, of, name]) => getComputedStyle(document.querySelector(at), of)[name]"
    colours = (page.evaluate(read, [selector, pseudo, name]), page.evaluate(read, ["body", None, "backgroundColor"]))
    light, dark = sorted(map(luminance, colours), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(share * part for share, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@needs_chromium
class TestFailures:
    def test_a_search_without_an_answer_keeps_the_hits_and_is_sent_again(self, timed_visit: Visit) -> None:
        timed_visit.open()
        search(timed_visit, "git tool")
        fail(timed_visit, "**/search")
        timed_visit.type(" 2")
        timed_visit.pass_time(200)
        expect(timed_visit.page.get_by_role("alert")).to_be_visible()
        expect(timed_visit.titles).to_have_count(10)
        timed_visit.pass_time(1100)
        expect(timed_visit.page).to_have_url(re.compile("q=git.tool.2"))
        with timed_visit.answered("git tool 2"):
            timed_visit.pass_time(3000)
        expect(timed_visit.page.get_by_role("alert")).to_be_hidden()
        expect(timed_visit.titles.first).to_have_text("git tool 2")

    def test_more_results_wait_for_the_answer_to_a_search_that_is_sent_again(self, timed_visit: Visit) -> None:
        timed_visit.open()
        search(timed_visit, "copies folders")
        expect(timed_visit.button("More results")).to_be_visible()
        fail(timed_visit, "**/search", 2)  # the search and the counts of its filters, of which there are none here
        timed_visit.page.locator("#q").fill("git tool")
        timed_visit.pass_time(200)
        expect(timed_visit.page.get_by_role("alert")).to_be_visible()
        expect(timed_visit.button("More results")).to_be_hidden()

    def test_a_search_is_logged_once_although_a_count_fails(self, timed_visit: Visit) -> None:
        timed_visit.open()
        search(timed_visit, "tool counted once")
        timed_visit.page.get_by_label("git").check()
        timed_visit.page.route(
            "**/search",
            lambda route: (
                route.fulfill(status=503, body="{}")
                if route.request.post_data_json.get("limit") == 1
                else route.fallback()
            ),
        )
        timed_visit.pass_time(1200)
        expect(timed_visit.titles).to_have_count(4)
        timed_visit.press("Enter")
        timed_visit.pass_time(5000)
        expect(timed_visit.page.get_by_role("alert")).to_be_hidden()
        assert timed_visit.logged_searches().count("tool counted once") == 1

    def test_more_results_that_do_not_come_leave_the_summary(self, timed_visit: Visit) -> None:
        timed_visit.open()
        search(timed_visit, "copies folders")
        before = timed_visit.page.locator("#summary").inner_text()
        waiting: list[Route] = []

        def hold(route: Route) -> None:
            if route.request.post_data_json["offset"]:
                waiting.append(route)
            else:
                route.fallback()  # the first page is logged meanwhile

        timed_visit.page.route("**/search", hold)
        with timed_visit.page.expect_request(lambda one: is_search(one) and one.post_data_json["offset"] == 10):
            timed_visit.button("More results").click()
        timed_visit.pass_time(1000)
        expect(timed_visit.page.locator("#summary")).to_have_text("Searching…")
        waiting[0].fulfill(status=503, body="{}")
        expect(timed_visit.page.get_by_role("alert")).to_be_visible()
        expect(timed_visit.page.locator("#summary")).to_have_text(before)

    def test_an_error_that_stays_is_not_tried_again(self, timed_visit: Visit) -> None:
        timed_visit.open()
        fail(timed_visit, "**/search", 9, 500)
        timed_visit.page.locator("#q").fill("git tool")
        timed_visit.pass_time(200)
        expect(timed_visit.page.get_by_role("alert")).to_contain_text("status 500")
        sent = len(timed_visit.posted("search"))
        timed_visit.pass_time(9000)
        assert len(timed_visit.posted("search")) == sent

    def test_filters_come_when_the_service_answers(self, timed_visit: Visit) -> None:
        fail(timed_visit, "**/collections/tools")
        timed_visit.page.goto(timed_visit.url())
        expect(timed_visit.page.get_by_role("alert")).to_be_visible()
        timed_visit.pass_time(3100)
        expect(timed_visit.page.locator("#sort option")).to_have_count(5)

    def test_a_slow_search_says_that_it_searches(self, timed_visit: Visit) -> None:
        timed_visit.open()
        with timed_visit.held("**/search"):
            timed_visit.page.locator("#q").fill("git tool")
            timed_visit.pass_time(1000)
            expect(timed_visit.page.get_by_role("status").filter(has_text="Searching…")).to_be_visible()

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"q": "a" * 2049}, "A query has at most 2,048 characters."),
            ({"q": "git", "is.no": "x"}, "filterable field"),
        ],
    )
    def test_a_wrong_address_says_what_is_wrong_once(
        self, visit: Visit, parameters: dict[str, str], message: str
    ) -> None:
        visit.open(**parameters)
        alert = visit.page.get_by_role("alert")
        expect(alert).to_contain_text(message)
        assert alert.inner_text().count(message) == 1

    def test_an_unknown_mode_of_the_address_is_the_usual_one(self, visit: Visit) -> None:
        visit.open(q="git tool", mode="foo")
        expect(visit.titles).to_have_count(10)
        expect(visit.page.get_by_label("Search by")).to_have_value("hybrid")

    def test_a_link_that_waits_is_not_followed_when_the_user_types(self, timed_visit: Visit) -> None:
        timed_visit.open()
        search(timed_visit, "shell tool 3")
        with timed_visit.held("**/events"):
            with timed_visit.page.expect_request("**/events"):
                timed_visit.titles.first.get_by_role("link").click()
            timed_visit.page.locator("#q").fill("shell tool 3 b")
            timed_visit.pass_time(4000)
        expect(timed_visit.titles).not_to_have_count(0)
        assert "tools.example" not in timed_visit.page.url
        assert timed_visit.page.locator("#q").input_value() == "shell tool 3 b"


@needs_chromium
class TestReturns:
    def leave(self, visit: Visit) -> float:
        """Show twelve hits and follow the link of the last one; return how far the page was scrolled."""
        visit.open(q="copies folders")
        visit.button("More results").click()
        expect(visit.titles).to_have_count(12)
        visit.titles.last.scroll_into_view_if_needed()
        scrolled: float = visit.page.evaluate("window.scrollY")
        visit.titles.last.get_by_role("link").click()
        visit.page.wait_for_url("https://tools.example/*")
        return scrolled

    def rate(self, visit: Visit, q: str) -> Locator:
        """Rate the first hit of a query and search again; return the button that deletes the feedback."""
        visit.open(q=q)
        visit.page.locator("#hits .thumb").first.click()
        visit.button("Search again").click()
        expect(visit.page.locator("#hits .done button")).to_have_count(0)
        return visit.button("Delete all feedback on this search")

    def test_the_back_button_shows_all_hits_at_the_same_place(self, visit: Visit) -> None:
        scrolled = self.leave(visit)
        visit.page.go_back()
        expect(visit.titles).to_have_count(12)
        assert scrolled > 0
        visit.page.wait_for_function("scrolled => window.scrollY === scrolled", arg=scrolled)

    def test_feedback_can_be_deleted_after_another_search(self, site: Site, visit: Visit) -> None:
        undo = self.rate(visit, "python tool undone")
        undo.click()
        expect(
            visit.page.get_by_role("status").filter(has_text="The feedback on this search is deleted.")
        ).to_be_visible()
        expect(undo).to_be_hidden()
        assert not site.stored("SELECT 1 FROM queries JOIN events USING (query_id) WHERE text = 'python tool undone'")

    def test_a_return_that_is_searched_again_is_not_logged(self, visit: Visit) -> None:
        with visit.page.expect_request_finished(logs):
            visit.open(q="git tool returned")
        expect(visit.page.get_by_role("region", name="Estimates")).to_be_visible()  # the last request of the page
        fail(visit, "**/search")
        with visit.page.expect_response(lambda response: response.status == 503):
            visit.page.reload()
        expect(visit.titles).to_have_count(10)
        visit.search("git tool")  # later than a log of the return
        assert visit.logged_searches().count("git tool returned") == 1

    def test_the_deletion_is_offered_for_the_query_with_feedback_alone(self, visit: Visit) -> None:
        undo = self.rate(visit, "python tool offered")
        expect(undo).to_be_visible()
        visit.page.get_by_label("Sort by").select_option("year, ascending")
        expect(undo).to_be_visible()
        visit.search("another query")
        expect(undo).to_be_hidden()

    def test_typing_during_a_return_shows_the_first_hits_of_the_new_query(self, visit: Visit) -> None:
        self.leave(visit)
        with visit.held("**/search"):
            visit.page.go_back()
            visit.page.locator("#q").fill("git tool 2")
        expect(visit.titles.first).to_have_text("git tool 2")
        expect(visit.titles).to_have_count(10)

    def test_an_alias_stays_in_the_address(self, site: Site, visit: Visit) -> None:
        good(site.tools.client.put("/v1/aliases/shop", json={"collection": "tools"}))
        for path in PAGES:
            visit.page.goto(visit.url(path, c="shop"))
            expect(visit.page.get_by_label("Collection")).to_have_value("shop")
        visit.page.goto(visit.url("/queries", c="shop"))
        visit.page.get_by_label("Searches of the last").select_option("7")
        expect(visit.page).to_have_url(re.compile("c=shop&days=7"))
