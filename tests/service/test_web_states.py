"""The web pages where two things meet: tabs, returns by the back button, double clicks, failures and slow answers."""

import pytest
from playwright.sync_api import Route, expect

from tests.service.browser import Site, Visit, logs, needs_chromium
from tests.service.client import create

pytestmark = needs_chromium


def show(timed_visit: Visit, q: str) -> None:
    """Search, and wait for the hits."""
    timed_visit.open()
    with timed_visit.answered(q):
        timed_visit.page.locator("#q").fill(q)
        timed_visit.pass_time(200)


def fail_once(visit: Visit, address: str) -> None:
    """Let the next request to addresses of this pattern fail."""
    visit.page.route(address, lambda route: route.fulfill(status=503, body="{}"), times=1)


def test_a_return_by_the_back_button_shows_the_collection_of_the_page(site: Site, visit: Visit) -> None:
    create(site.tools.client, "other", filterable=["topic", "year"])
    visit.open(q="git tool")
    visit.page.get_by_label("Collection").select_option("other")
    expect(visit.page.get_by_text("This collection has no documents.")).to_be_visible()
    visit.page.go_back()
    expect(visit.titles).to_have_count(10)
    expect(visit.page.get_by_label("Collection")).to_have_value("tools")


def test_documents_that_come_after_the_page_end_its_hint(site: Site, visit: Visit) -> None:
    new = create(site.tools.client, "new", filterable=["topic", "year"])
    visit.page.goto(visit.url(c="new"))
    hint = visit.page.get_by_text("This collection has no documents.")
    expect(hint).to_be_visible()
    new.add({"id": "lamp", "text": "a lamp for the desk"})
    visit.search("desk lamp")
    expect(visit.titles).to_have_count(1)
    expect(hint).to_have_count(0)


def test_a_choice_not_to_learn_holds_in_all_tabs(visit: Visit) -> None:
    visit.open(q="git tool")
    other = visit.page.context.new_page()
    other.goto(visit.url(q="git tool"))
    expect(other.locator("#hits h2")).to_have_count(10)
    visit.page.get_by_label("Do not learn from me").check()
    expect(other.get_by_label("Do not learn from me")).to_be_checked()
    expect(other.locator(".thumb").first).to_be_disabled()
    other.get_by_label("Do not learn from me").uncheck()
    expect(visit.page.get_by_label("Do not learn from me")).not_to_be_checked()
    expect(visit.page.locator(".thumb").first).to_be_enabled()
    other.close()


def test_a_double_click_on_a_title_is_one_click_and_follows_the_link_after_it(timed_visit: Visit) -> None:
    show(timed_visit, "shell tool 3")
    with timed_visit.held("**/events"):
        with timed_visit.page.expect_request("**/events"):
            timed_visit.titles.first.get_by_role("link").dblclick()
        assert "tools.example" not in timed_visit.page.url
    timed_visit.page.wait_for_url("https://tools.example/*")
    assert len(timed_visit.posted("events")) == 1


def test_a_link_waits_for_its_click_for_three_seconds(timed_visit: Visit) -> None:
    show(timed_visit, "shell tool 3")
    with timed_visit.held("**/events"):
        with timed_visit.page.expect_request("**/events"):
            timed_visit.titles.first.get_by_role("link").click()
        timed_visit.pass_time(2900)
        assert "tools.example" not in timed_visit.page.url
        timed_visit.pass_time(200)
        timed_visit.page.wait_for_url("https://tools.example/*")


def test_a_click_on_another_title_is_sent_too_and_its_link_is_followed(timed_visit: Visit) -> None:
    show(timed_visit, "shell tool")
    links = timed_visit.page.locator("#hits h2 a")
    target = links.nth(1).get_attribute("href")
    with timed_visit.held("**/events"):
        for link in (links.first, links.nth(1)):
            with timed_visit.page.expect_request("**/events"):
                link.click()
    timed_visit.page.wait_for_url(f"{target}*")
    assert len(timed_visit.posted("events")) == 2


def test_a_link_is_followed_although_its_click_fails(visit: Visit) -> None:
    visit.open(q="shell tool 3")
    visit.page.route("**/events", lambda route: route.fulfill(json={}))
    visit.titles.first.get_by_role("link").click()
    visit.page.wait_for_url("https://tools.example/*")
    visit.errors.clear()  # the answer is not as documented


def test_a_choice_not_to_learn_holds_without_storage(visit: Visit) -> None:
    visit.page.add_init_script("Storage.prototype.setItem = Storage.prototype.getItem = () => { throw new Error() }")
    visit.open(q="git tool")
    visit.page.get_by_label("Do not learn from me").check()
    expect(visit.page.locator(".thumb").first).to_be_disabled()
    expect(visit.page.get_by_label("Do not learn from me")).to_be_checked()


def test_enter_while_more_results_come_repeats_no_search(visit: Visit) -> None:
    visit.open(q="copies folders")
    with visit.held("**/search"):
        with visit.page.expect_request("**/search"):
            visit.button("More results").click()
        visit.page.locator("#q").press("Enter")
    expect(visit.titles).to_have_count(12)
    assert sorted(body["offset"] for body in visit.posted("search") if body["log"]) == [0, 10]


def test_enter_does_not_wait_for_another_search(timed_visit: Visit) -> None:
    timed_visit.open()
    with timed_visit.held("**/search"):
        with timed_visit.page.expect_request("**/search"):
            timed_visit.page.locator("#q").fill("shell")
            timed_visit.pass_time(200)
        timed_visit.page.locator("#q").fill("python tool")
        with timed_visit.page.expect_request(logs):
            timed_visit.press("Enter")
    expect(timed_visit.titles.first).to_contain_text("python tool")
    assert timed_visit.logged_searches() == ["python tool"]


@pytest.mark.parametrize(("name", "path"), [("Explain", "search"), ("More like this", "recommend")])
def test_what_could_not_be_shown_is_asked_for_at_the_next_opening(visit: Visit, name: str, path: str) -> None:
    visit.open(q="git tool")
    hit = visit.page.locator(".hit").nth(5)
    opened = hit.get_by_text(name, exact=True)
    opened.scroll_into_view_if_needed()
    fail_once(visit, f"**/{path}")
    opened.click()
    expect(visit.page.get_by_role("alert")).to_be_in_viewport()
    opened.click()
    opened.click()
    expect(hit.locator("details[open] :is(table, ol)").first).to_be_visible()
    expect(visit.page.get_by_role("alert")).to_be_hidden()


def test_feedback_on_all_pages_of_a_search_is_deleted(site: Site, visit: Visit) -> None:
    visit.open(q="copies folders")
    visit.page.locator(".hit").first.get_by_role("button", name="This document answers").click()
    expect(visit.page.locator(".done").first).to_contain_text("Stored.")
    visit.button("More results").click()
    expect(visit.titles).to_have_count(12)
    visit.page.locator(".hit").last.get_by_role("button", name="This document answers").click()
    expect(visit.page.locator(".done").last).to_contain_text("Stored.")
    assert len(site.stored("SELECT 1 FROM events WHERE action_name = 'thumbs_up'")) == 2
    visit.page.locator(".hit").last.get_by_role("button", name="delete all feedback").click()
    expect(visit.titles).to_have_count(10)
    assert site.stored("SELECT 1 FROM events WHERE action_name = 'thumbs_up'") == []


def test_values_are_ordered_by_their_counts_and_a_value_that_is_not_counted_has_no_number(
    site: Site, visit: Visit
) -> None:
    codes = create(site.tools.client, "codes", filterable=["code", "year"])
    counted = {"107": 3, "23": 1, "red": 2}
    texts = [code for code, count in counted.items() for _ in range(count)]
    codes.add(*({"id": f"{at}", "text": "a tool", "metadata": {"code": code}} for at, code in enumerate(texts)))
    visit.page.goto(visit.url(c="codes", q="tool", **{"is.code": "blue"}))
    values = visit.page.locator("#facets label.value")
    expect(values).to_have_text(["blue", "1073", "red2", "231"])
    codes.add(*({"id": f"more-{at}", "text": "a tool", "metadata": {"code": f"one-{at}"}} for at in range(9)))
    visit.page.reload()
    visit.page.locator("#facets").get_by_role("button", name="more").click()
    expect(values).to_have_count(13)
    expect(values.nth(8).get_by_role("checkbox")).to_be_focused()


def test_a_title_without_a_visible_character_is_the_id(site: Site, visit: Visit) -> None:
    blank = create(site.tools.client, "blank", filterable=["topic", "year"])
    titles = {"space": "   ", "zero": "\u200b", "none": None}
    blank.add(*({"id": name, "title": title, "text": "a lamp"} for name, title in titles.items()))
    visit.page.goto(visit.url(c="blank", q="lamp"))
    expect(visit.titles).to_have_count(3)
    assert set(visit.titles.all_inner_texts()) == set(titles)


def test_the_choice_of_a_model_names_the_version_that_ranked(visit: Visit) -> None:
    visit.open(q="git tool")
    visit.page.route("**/search", answered_by_model_7)
    visit.search("git")
    expect(visit.page.locator("#summary")).to_contain_text("model 7, champion")
    expect(visit.page.locator("#model option").first).to_have_text("champion (7)")


def answered_by_model_7(route: Route) -> None:
    """Answer a search as if another page had promoted model 7."""
    response = route.fetch()
    route.fulfill(response=response, json=response.json() | {"model": {"version": 7, "alias": "champion"}})


def test_an_emptied_query_leaves_the_address(visit: Visit) -> None:
    visit.open(q="git tool")
    visit.page.locator("#q").fill("")
    expect(visit.titles).to_have_count(0)
    expect(visit.page).to_have_url(visit.url(q=""))


def test_a_double_click_rolls_back_once(visit: Visit) -> None:
    asked: list[str] = []

    def rolled_back(route: Route) -> None:
        asked.append(route.request.url)
        route.fulfill(json={"version": 0})

    visit.page.route("**/rollback", rolled_back)
    visit.page.goto(visit.url("/learning"))
    expect(visit.page.locator("#champion")).to_contain_text("model 0")
    visit.button("Roll back").dblclick()
    expect(visit.page.locator("#promoted")).to_contain_text("Model 0 ranks the next search.")
    assert len(asked) == 1
