"""A VNC client that is spoken by hand, on a WebSocket."""

import struct

from websockets.exceptions import ConnectionClosed

from harness import ANSWER_SECONDS, START_SECONDS, connect

RAW, DESKTOP_SIZE, EXTENDED_SIZE, FENCE, CONTINUOUS = 0, -223, -308, -312, -313


class Rfb:
    """One that has said hello; the server's messages are read where they are wanted."""

    def __init__(self, server, query="", encodings=(RAW, DESKTOP_SIZE, EXTENDED_SIZE), hello=True, **more):
        self.opening = connect(f"ws://{server.host}:{server.port}/websockify{query}", max_size=None, **more)
        self.socket = self.opening.__enter__()
        self.data, self.cut, self.screens = b"", [], b"\1\0\0\0" + bytes(16)
        if hello:
            self.hello(*encodings)

    def __enter__(self):
        return self

    def __exit__(self, *how):
        self.opening.__exit__(*how)

    def take(self, count, seconds=START_SECONDS):
        while len(self.data) < count:
            more = self.socket.recv(seconds)
            assert isinstance(more, bytes), more
            self.data += more
        taken, self.data = self.data[:count], self.data[count:]
        return taken

    def unpack(self, form):
        return struct.unpack(">" + form, self.take(struct.calcsize(">" + form)))

    def send(self, form, *values, then=b""):
        self.socket.send(struct.pack(">" + form, *values) + then)

    def hello(self, *encodings, shared=1):
        assert self.take(12) == b"RFB 003.008\n"
        self.socket.send(b"RFB 003.008\n")
        assert 1 in self.take(*self.unpack("B"))
        self.send("B", 1)
        assert self.unpack("I") == (0,)
        self.send("B", shared)
        width, height, _, length = self.unpack("HH16sI")
        self.sized(width, height)
        self.name = self.take(length)
        self.send("B3x16s", 0, struct.pack(">BBBBHHHBBB3x", 32, 24, 0, 1, 255, 255, 255, 16, 8, 0))  # BGRX
        self.send("BxH", 2, len(encodings), then=struct.pack(f">{len(encodings)}i", *encodings))

    # --- what a person does

    def key(self, keysym, *downs):
        for down in downs or (1, 0):
            self.send("BBxxI", 4, down, keysym)

    def pointer(self, x, y, buttons=0):
        self.send("BBHH", 5, buttons, x, y)

    def cut_text(self, text):
        self.send("BxxxI", 6, len(text), then=text)

    def resize(self, width, height):
        screen = self.screens[4:8] + struct.pack(">HHHH", 0, 0, width, height) + self.screens[16:20]
        self.send("BxHHBx", 251, width, height, 1, then=screen)

    # --- what is seen

    def sized(self, width, height):
        self.width, self.height, self.pixels = width, height, bytearray(width * height * 4)

    def ask(self, incremental=0):
        self.send("BBHHHH", 3, incremental, 0, 0, self.width, self.height)

    def message(self):
        """Reads one. True: an update with pixels, which are in .pixels then; False: one without."""
        (kind,) = self.unpack("B")
        if kind == 0:
            return self.update()
        if kind == 3:
            (length,) = self.unpack("3xI")
            self.cut.append(self.take(length))
        elif kind == 248:
            self.fence = self.unpack("3xIB")
            self.payload = self.take(self.fence[1])
            if self.fence[0] >> 31:  # it measures how far the client is behind
                self.send("BxxxIB", 248, self.fence[0] & 7, self.fence[1], then=self.payload)
        else:
            assert kind in (2, 150), f"an unexpected message {kind}"
        return None

    def update(self):
        found = False
        for _ in range(*self.unpack("xH")):
            x, y, width, height, encoding = self.unpack("HHHHi")
            if encoding == RAW:
                found = True
                data, line = self.take(width * height * 4), width * 4
                for row in range(height):
                    at = ((y + row) * self.width + x) * 4
                    self.pixels[at:at + line] = data[row * line:(row + 1) * line]
            elif encoding == EXTENDED_SIZE:
                self.screens = self.take(4)
                self.screens += self.take(self.screens[0] * 16)
            if encoding in (EXTENDED_SIZE, DESKTOP_SIZE) and (width, height) != (self.width, self.height):
                self.sized(width, height)
        return found

    def picture(self):
        """The whole screen: all that was sent before has been read by the server."""
        self.ask()
        while not (seen := self.message()):
            if seen is False:  # how large the screen is, to which the server also says nothing more
                self.ask(1)
        return self.pixels

    def pixel(self, x, y):
        at = (y * self.width + x) * 4
        blue, green, red, _ = self.picture()[at:at + 4]
        return red << 16 | green << 8 | blue

    def closed(self, seconds=ANSWER_SECONDS):
        """The code and the reason that the server gives for the end."""
        try:
            while True:
                self.socket.recv(seconds)
        except ConnectionClosed as end:
            return (end.rcvd.code, end.rcvd.reason) if end.rcvd else (None, "")
