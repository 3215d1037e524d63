import asyncio
import json
import logging
import os
import sys

os.environ |= {"ANONYMIZED_TELEMETRY": "false", "BROWSER_USE_CLOUD_SYNC": "false", "BROWSER_USE_LOGGING_LEVEL": "result"}
from browser_use import BrowserSession  # noqa: E402
from client import serve  # noqa: E402


class Client:
    def __init__(self, browser):
        self.browser = browser

    async def open(self, url):
        await self.browser.navigate_to(url, new_tab=True)
        self.page = await self.browser.must_get_current_page()
        while not (title := await self.page.evaluate("() => document.readyState === 'complete' ? document.title : ''")):
            await asyncio.sleep(0.05)
        return title

    async def evaluate(self, code):
        return json.loads(await self.page.evaluate(f"() => JSON.stringify({code})"))

    async def click(self, selector):
        [element] = await self.page.get_elements_by_css_selector(selector)
        await element.click()

    async def fill(self, selector, text):
        [element] = await self.page.get_elements_by_css_selector(selector)
        await element.fill(text)

    async def pages(self):
        return [tab.url for tab in await self.browser.get_tabs()]

    def leave(self):
        return self.browser.stop()

    def close(self):
        return self.browser.cdp_client.send.Browser.close()


async def main():
    browser = BrowserSession(cdp_url=sys.argv[1])
    await browser.start()
    logging.disable()
    await serve(Client(browser))


asyncio.run(main())
