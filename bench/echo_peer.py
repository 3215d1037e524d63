"""A WebSocket server as programs have one: Python's websockets. What it gets comes back."""
import asyncio
import sys

import websockets


async def echo(socket):
    async for message in socket:
        await socket.send(message)


async def main():
    async with websockets.serve(echo, "127.0.0.1", int(sys.argv[1]), compression=None):
        await asyncio.Future()


asyncio.run(main())
