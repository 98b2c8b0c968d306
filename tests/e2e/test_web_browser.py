"""The page in a real Chromium, against the simulated board; writes the pictures of the docs.

Needs `chromium` and `chromedriver` (Debian: chromium, chromium-driver); skipped without them.
UPYCLAW_SCREENSHOTS=FOLDER keeps pictures there.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from e2e.rig import say
from e2e.web_rig import WebBoard, make_flash, web_board

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER),
    reason="chromium and chromedriver are not installed (Debian: chromium chromium-driver)",
)

ANSWERS = [
    "Watering is due **tomorrow at 07:00**. The tomatoes get 400 ml each:\n"
    "```\nbed 1   400 ml\nbed 2   400 ml\n```\nShall I remember that?",
    "Noted: the gate code is `4417`.",
    "大门密码是 4417。😀",
]
SHOTS = os.environ.get("UPYCLAW_SCREENSHOTS")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_flash(tmp_path_factory.mktemp("web") / "template.img")


@pytest.fixture
def web(tmp_path: Path, template: Path) -> Iterator[WebBoard]:
    lines = [say(text) for text in ANSWERS] + [say("Yes.", repeat=True)]
    with web_board(tmp_path, template, lines) as board:
        yield board


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path / 'chromium'}")
    options.add_argument("--lang=en")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        yield Browser(driver)
    finally:
        driver.quit()


class Browser:
    """A browser and the questions these tests ask it."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver
        self.size(900, 700)

    def size(self, width: int, height: int, dark: bool = False) -> None:
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def find(self, css: str) -> Any:
        return self.driver.find_element(By.CSS_SELECTOR, css)

    def texts(self, css: str) -> list[str]:
        try:
            return [e.text for e in self.driver.find_elements(By.CSS_SELECTOR, css)]
        except StaleElementReferenceException:
            return []  # just being replaced; whoever waits asks again

    def wait(self, what: Callable[[], Any], seconds: float = 15) -> Any:
        wait = WebDriverWait(
            self.driver, seconds, 0.1, ignored_exceptions=[StaleElementReferenceException]
        )
        return wait.until(lambda _: what())

    def connected(self) -> None:
        self.wait(lambda: "up" in self.find("#dot").get_attribute("class"))

    def say(self, text: str) -> None:
        self.find("#line").send_keys(text, Keys.ENTER)

    def said(self, *texts: str) -> None:
        """Wait until these are the last bubbles and nothing is in work."""

        def there() -> bool:
            if self.driver.find_elements(By.CSS_SELECTOR, ".m.live"):
                return False
            return self.texts(".m")[-len(texts) :] == list(texts)

        try:
            self.wait(there)
        except Exception:
            raise AssertionError(f"{self.texts('.m')} does not end with {texts}") from None

    def view(self, name: str) -> None:
        self.find(f"nav button[data-view={name}]").click()

    def picture(self, name: str) -> None:
        if SHOTS:
            time.sleep(0.3)
            Path(SHOTS).mkdir(parents=True, exist_ok=True)
            self.driver.save_screenshot(str(Path(SHOTS) / name))

    def complaints(self) -> list[str]:
        """What the page printed to the console, our own disconnects aside."""
        return [
            entry["message"]
            for entry in self.driver.get_log("browser")
            if "WebSocket" not in entry["message"]
        ]


FIRST = "Watering is due tomorrow at 07:00. The tomatoes get 400 ml each:\n"
FIRST += "bed 1   400 ml\nbed 2   400 ml\nShall I remember that?"


def test_log_in_chat_reload(web: WebBoard, browser: Browser) -> None:
    driver = browser.driver
    driver.get(web.home)
    browser.wait(lambda: browser.find("#login").is_displayed())
    # a wrong token is refused in words, and nothing else is shown
    browser.find("#token").send_keys("00000000000000000000", Keys.ENTER)
    browser.wait(lambda: "Wrong token" in browser.find("#refused").text)
    assert not browser.find("#nav").is_displayed()
    browser.find("#token").send_keys(web.owner, Keys.ENTER)
    browser.connected()
    assert driver.title == "desk"
    browser.wait(lambda: "Nothing said yet" in browser.find("#empty").text)
    browser.say("When do the tomatoes get water?")
    browser.wait(lambda: browser.texts(".m pre") == ["bed 1   400 ml\nbed 2   400 ml"])
    assert browser.texts(".m b") == ["tomorrow at 07:00"]
    browser.say("The gate code is 4417.")
    browser.said("The gate code is 4417.", "Noted: the gate code is 4417.")
    browser.say("大门密码是多少？ <b>&amp;</b>")
    browser.said("大门密码是多少？ <b>&amp;</b>", "大门密码是 4417。😀")
    driver.refresh()
    browser.connected()
    browser.said("大门密码是多少？ <b>&amp;</b>", "大门密码是 4417。😀")
    assert len(browser.texts(".m")) == 6
    browser.picture("page-light.png")
    browser.size(900, 700, dark=True)
    browser.picture("page-dark.png")
    browser.size(390, 780)
    browser.picture("page-phone.png")
    # nothing sticks out sideways on a phone
    width = driver.execute_script("return document.documentElement.scrollWidth")
    assert width <= 390
    assert browser.complaints() == []


def test_link_sessions_language(web: WebBoard, browser: Browser) -> None:
    driver = browser.driver
    driver.get(web.link)
    browser.connected()
    # the token does not stay in the address
    assert web.owner not in driver.current_url
    browser.say("one")
    browser.wait(lambda: browser.texts(".m pre"))
    browser.view("sessions")
    browser.wait(lambda: len(browser.texts("#sessionlist li")) == 1)
    browser.find("#newname").send_keys("trip", Keys.ENTER)
    browser.wait(lambda: len(browser.texts("#sessionlist li")) == 2)
    assert browser.find("#session").text == "trip"
    browser.view("chat")
    browser.wait(lambda: browser.texts(".m") == [])
    browser.view("sessions")
    browser.wait(lambda: browser.texts("#sessionlist li button"))
    driver.find_elements(By.CSS_SELECTOR, "#sessionlist li:first-child button")[0].click()
    browser.wait(lambda: browser.find("#session").text == "default_01")
    browser.view("chat")
    browser.wait(lambda: browser.texts(".m")[:1] == ["one"])
    browser.view("status")
    browser.wait(lambda: "script.jsonl" in browser.find("#facts").text)
    browser.find("#lang option[value=zh]").click()
    browser.wait(lambda: browser.find("nav button[data-view=chat]").text == "聊天")
    browser.find("#theme option[value=dark]").click()
    assert driver.execute_script("return getComputedStyle(document.body).backgroundColor") == (
        "rgb(22, 24, 22)"
    )
    driver.refresh()
    browser.connected()
    assert browser.find("nav button[data-view=chat]").text == "聊天"
    browser.view("status")
    browser.find("#logout").click()
    browser.wait(lambda: browser.find("#login").is_displayed())
    driver.refresh()
    browser.wait(lambda: browser.find("#login").is_displayed())
    assert browser.complaints() == []


def test_two_tabs_and_a_guest(web: WebBoard, browser: Browser) -> None:
    driver = browser.driver
    driver.get(web.link)
    browser.connected()
    one = driver.current_window_handle
    driver.switch_to.new_window("tab")
    driver.get(web.home)
    browser.connected()
    browser.say("from the second tab")
    browser.wait(lambda: browser.texts(".m pre"))
    driver.switch_to.window(one)
    # it shows up in the first one by itself
    browser.wait(lambda: browser.texts(".m")[:1] == ["from the second tab"])
    browser.said("from the second tab", FIRST)
    # a guest gets a chat of its own, and no memory
    driver.execute_script("localStorage.clear()")
    driver.get(web.guest_link)
    driver.refresh()
    browser.connected()
    browser.wait(lambda: browser.texts(".m") == [])
    assert not browser.find("nav button[data-view=memory]").is_displayed()
    browser.say("hello")
    browser.said("hello", "Noted: the gate code is 4417.")
    driver.refresh()
    browser.connected()
    browser.said("hello", "Noted: the gate code is 4417.")


def test_connection_lost_and_back(web: WebBoard, browser: Browser) -> None:
    driver = browser.driver
    driver.get(web.link)
    browser.connected()
    browser.say("before the cut")
    browser.said("before the cut", FIRST)
    web._do(web.client.close())
    web.board.kill()
    browser.wait(lambda: "up" not in browser.find("#dot").get_attribute("class"))
    assert not browser.find("#send").is_enabled()
    assert browser.find("#dot").text == "not connected"
    web.start()
    browser.connected()
    browser.said("before the cut", FIRST)
    browser.say("after it")
    browser.said("after it", FIRST)  # a script starts over with each relay


def test_stop(tmp_path: Path, template: Path, browser: Browser) -> None:
    with web_board(tmp_path, template, [say("too late", delay_ms=20_000, repeat=True)]) as web:
        browser.driver.get(web.link)
        browser.connected()
        browser.say("think long")
        browser.wait(lambda: browser.find("#stop").is_displayed())
        browser.find("#stop").click()
        browser.said("think long", "Stopped.")
        assert not browser.find("#stop").is_displayed()


def test_edit_a_memory(tmp_path: Path, template: Path, browser: Browser) -> None:
    facts = (
        ("The gate code is with the neighbour", "home"),
        ("User waters the tomatoes at 07:00", "garden; tomatoes"),
        ("用户喜欢喝绿茶", "饮食"),
    )
    with web_board(tmp_path, template, [say("Yes.", repeat=True)], facts=facts) as web:
        browser.driver.get(web.link)
        browser.connected()
        browser.view("memory")

        def cards() -> list[str]:
            return [text.split("\n")[0] for text in browser.texts("#memorylist > li")]

        browser.wait(lambda: sorted(cards()) == sorted(content for content, _ in facts))
        browser.picture("page-memory.png")
        browser.find("#query").send_keys("tomatoes", Keys.ENTER)
        browser.wait(lambda: cards() == ["User waters the tomatoes at 07:00"])
        browser.find("#memorylist button:nth-of-type(2)").click()
        text = browser.find("#memorylist textarea")
        text.clear()
        text.send_keys("User waters the tomatoes at 08:00")
        browser.find("#memorylist form button.main").click()
        browser.wait(lambda: cards() == ["User waters the tomatoes at 08:00"])
        browser.find("#memorylist button:nth-of-type(1)").click()
        browser.wait(lambda: "pinned" in browser.find("#memorylist").text)
        browser.find("#memorylist button:nth-of-type(3)").click()
        browser.wait(lambda: "manual" in browser.find("#memorylist .note").text)
        browser.find("#query").clear()
        browser.find("#query").send_keys("绿茶", Keys.ENTER)
        browser.wait(lambda: cards() == ["用户喜欢喝绿茶"])
        forget = browser.find("#memorylist button:nth-of-type(4)")
        forget.click()
        assert forget.text == "Really delete?"
        forget.click()
        browser.wait(lambda: "Nothing found." in browser.find("#memorylist").text)
        # the board itself says the same
        listed = web.serial("/memory list").text
        assert "08:00" in listed
        assert "绿茶" not in listed
        browser.view("profile")
        browser.wait(lambda: len(browser.texts("#profilelist textarea")) == 3)
        user = browser.find("#profilelist textarea[aria-label=user]")
        user.send_keys("Name: Ada")
        user.find_element(By.XPATH, "./following-sibling::*//button[1]").click()
        browser.wait(lambda: "Ada" in web.serial("/profile show user").text)
        assert browser.complaints() == []
