#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""usage: page_browser.py JOBS_WEB JOBS

Test how Chromium shows the pages of jobs_web. The database is one of page.py. Prints TAP.
"""
import contextlib
import functools
import re
import time

from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.keys import Keys

import page


def emulate(browser, what, settings):
    browser.execute_cdp_cmd(f"Emulation.{what}", settings)
    # Once the second frame begins, the first one has been laid out with these.
    browser.execute_async_script(
        "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")


def colours(browser, scheme):
    """The page's background, as one number, in the light or dark scheme."""
    emulate(browser, "setEmulatedMedia", {
        "features": [{"name": "prefers-color-scheme", "value": scheme}]})
    colour = browser.find_element("tag name", "body").value_of_css_property("background-color")
    return sum(map(int, re.findall(r"\d+", colour)[:3]))


def width(browser, pixels):
    emulate(browser, "setDeviceMetricsOverride", {
        "width": pixels, "height": 900, "deviceScaleFactor": 1, "mobile": pixels < 600})


def fits(browser, web, _):
    """Names without any place to break, and errors, fit even a narrow page."""
    STORE.add(page.LONG, "--every", "2h")
    for path in ("/?after=tick", "/runs?job=" + page.LONG, "/runs?job=" + page.LONG * 2,
                 "/runs?state=" + page.LONG, "/none"):
        browser.get(web.url.rstrip("/") + path)
        for pixels in 390, 800, 1070, 1280:
            width(browser, pixels)
            all_of_it, seen = browser.execute_script(
                "const e = document.documentElement; return [e.scrollWidth, e.clientWidth]")
            assert all_of_it <= seen == pixels, (path, pixels, all_of_it, seen)
            clipped = browser.execute_script(
                "return [...document.querySelectorAll('body *')].filter(e => "
                "!e.closest('thead, input') && e.scrollWidth > e.clientWidth + 1 && "
                "getComputedStyle(e).overflow != 'visible').map(e => e.outerHTML)")
            assert not clipped, (path, clipped)


def dark_is_dark(browser, web, _):
    browser.get(web.url)
    assert colours(browser, "light") > 700 and colours(browser, "dark") < 120


def needs_no_script(browser, web, _):
    """The keyboard reaches the filter; a name and Enter filter. The browser refuses no part."""
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    browser.get(web.url + "runs")
    for _ in range(20):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        if browser.switch_to.active_element.get_attribute("name") == "job":
            break
    browser.switch_to.active_element.send_keys(page.EVIL + Keys.ENTER)
    wait(lambda: "job=" in browser.current_url)
    rows = browser.find_elements("css selector", "tbody tr")
    assert len(rows) == 7 and all(page.EVIL in row.text for row in rows), [row.text for row in rows]
    browser.find_element("css selector", "summary").send_keys(Keys.ENTER)
    wait(browser.find_element("css selector", "details dl").is_displayed)
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    log = [entry for entry in browser.get_log("browser") if "Content Security" in entry["message"]]
    assert not log, log


def focus_is_seen(browser, web, _):
    browser.get(web.url)
    browser.switch_to.active_element.send_keys(Keys.TAB + Keys.TAB)
    outline = browser.switch_to.active_element.value_of_css_property("outline-style")
    assert outline not in ("none", ""), outline


def is_a_table(browser, web, _):
    """Screen readers see a table, with headers, at any width."""
    browser.get(web.url + "runs?job=tick")
    for pixels in 390, 1280:
        width(browser, pixels)
        nodes = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        roles = [node["role"]["value"] for node in nodes if "role" in node and not node["ignored"]]
        names = {node["role"]["value"]: node.get("name", {}).get("value") for node in nodes
                 if "role" in node}
        assert roles.count("table") == 1 and roles.count("columnheader") == 8, (pixels, roles)
        assert roles.count("rowheader") == 50 and roles.count("cell") >= 200, pixels
        assert names["table"] == "Runs, the latest due time first", names
        assert {"banner", "main", "navigation", "form", "heading"} <= set(roles), set(roles)
        assert names["textbox"] == "Job", names


def reloads(browser, web, _):
    """Every second if asked to; and after an error, until the database is back."""
    def as_of():
        return browser.find_element("css selector", "header + p time").text

    browser.get(web.url + "runs?job=tick&reload=1")
    first = as_of()
    wait(lambda: as_of() != first)
    browser.find_element("link text", "Stop reloading").click()
    wait(lambda: browser.current_url.endswith("/runs?job=tick"))
    with STORE.gone():
        browser.get(web.url + "?reload=1")
        assert "The database is not there." in browser.find_element("tag name", "main").text
    wait(lambda: "All jobs" in browser.find_element("tag name", "main").text)


def wait(condition):
    """Wait until it is true. A page that is being replaced has no elements."""
    for _ in range(600):
        with contextlib.suppress(WebDriverException):
            if condition():
                return
        time.sleep(0.1)
    raise AssertionError("it did not come true")


# The long name comes last: only "fits" looks at it.
TESTS = [dark_is_dark, needs_no_script, focus_is_seen, is_a_table, reloads, fits]


def main():
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    # Chromium's sandbox does not work for root, and /dev/shm may be small.
    for option in "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage":
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
    try:
        with page.Web(STORE.name) as web:
            page.run([(f"browser.{test.__name__}", functools.partial(test, browser, web), None)
                      for test in TESTS])
    finally:
        browser.quit()


STORE = page.Sqlite("db", {name: job for name, job in page.JOBS.items() if name != page.LONG})
main()
