"""cdp-use is what browser-use speaks to browsers with."""

import asyncio
import json
import sys
import urllib.request

from cdp_use.client import CDPClient
from client import serve


class Client:
    def __init__(self, cdp):
        self.cdp = cdp

    async def call(self, code):
        found = await self.cdp.send.Runtime.evaluate({"expression": code, "returnByValue": True, "awaitPromise": True}, session_id=self.session)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    async def open(self, url):
        target = (await self.cdp.send.Target.createTarget({"url": "about:blank"}))["targetId"]
        self.session = (await self.cdp.send.Target.attachToTarget({"targetId": target, "flatten": True}))["sessionId"]
        loaded = asyncio.Event()
        self.cdp.register.Page.loadEventFired(lambda event, session: session == self.session and loaded.set())
        await self.cdp.send.Page.enable(session_id=self.session)
        await self.cdp.send.Page.navigate({"url": url}, session_id=self.session)
        await loaded.wait()
        return await self.call("document.title")

    def evaluate(self, code):
        return self.call(code)

    async def click(self, selector):
        x, y = await self.call(f"(() => {{ const r = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
                               " return [r.x + r.width / 2, r.y + r.height / 2] })()")
        for kind in ("mousePressed", "mouseReleased"):
            await self.cdp.send.Input.dispatchMouseEvent({"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1},
                                                         session_id=self.session)

    async def fill(self, selector, text):
        await self.call(f"document.querySelector({json.dumps(selector)}).focus()")
        await self.cdp.send.Input.insertText({"text": text}, session_id=self.session)

    async def pages(self):
        targets = (await self.cdp.send.Target.getTargets())["targetInfos"]
        return [target["url"] for target in targets if target["type"] == "page"]

    async def leave(self):
        pass

    def close(self):
        return self.cdp.send.Browser.close()


async def main():
    with urllib.request.urlopen(sys.argv[1] + "/json/version") as answer:
        url = json.load(answer)["webSocketDebuggerUrl"]
    async with CDPClient(url) as cdp:
        await serve(Client(cdp))


asyncio.run(main())
