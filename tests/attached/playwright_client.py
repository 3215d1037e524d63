import asyncio
import sys

from client import serve
from playwright.async_api import async_playwright


class Client:
    async def open(self, url):
        self.page = await self.browser.contexts[0].new_page()
        await self.page.goto(url)
        return await self.page.title()

    def evaluate(self, code):
        return self.page.evaluate(code)

    def click(self, selector):
        return self.page.click(selector)

    def fill(self, selector, text):
        return self.page.fill(selector, text)

    def pages(self):
        return [page.url for page in self.browser.contexts[0].pages]

    async def close_browser(self):
        session = await self.browser.new_browser_cdp_session()
        await session.send("Browser.close")

    def leave(self):
        return self.browser.close()

    close = close_browser


async def main():
    client = Client()
    async with async_playwright() as playwright:
        client.browser = await playwright.chromium.connect_over_cdp(sys.argv[1])
        await serve(client)


asyncio.run(main())
