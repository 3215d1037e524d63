"""A small X client of its own, which speaks the protocol by hand: a window that sees the mouse and pastes, and an owner
of the clipboard."""

import contextlib
import select
import socket
import struct
import time
from pathlib import Path

KEY_PRESS, BUTTON_PRESS, BUTTON_RELEASE, MOTION, FOCUS_IN = 2, 4, 5, 6, 9
PROPERTY, CLEAR, REQUEST, NOTIFY = 28, 29, 30, 31
CONTROL = 4
SECONDS = 20


class Client:
    def __init__(self, access):
        """access: DISPLAY and XAUTHORITY."""
        cookie = Path(access["XAUTHORITY"]).read_bytes()[-16:]
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(SECONDS)
        self.sock.connect(f"/tmp/.X11-unix/X{access['DISPLAY'].lstrip(':')}")
        self.data, self.kept, self.sequence, self.atoms, self.made = b"", [], 0, {}, 0
        name = b"MIT-MAGIC-COOKIE-1"
        self.sock.sendall(struct.pack("<cxHHHHxx", b"l", 11, 0, len(name), 16) + name + b"\0\0" + cookie)
        head = self.take(8)
        body = self.take(struct.unpack("<H", head[6:])[0] * 4)
        assert head[0] == 1, body
        self.base, vendor, formats = struct.unpack("<I", body[4:8])[0], struct.unpack("<H", body[16:18])[0], body[21]
        self.root = struct.unpack_from("<I", body, 32 + (vendor + 3 & ~3) + formats * 8)[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    # --- the wire

    def take(self, count):
        while len(self.data) < count:
            more = self.sock.recv(1 << 16)
            if not more:
                raise EOFError("the X server has closed the connection")
            self.data += more
        taken, self.data = self.data[:count], self.data[count:]
        return taken

    def packet(self):
        data = self.take(32)
        if data[0] == 1:
            data += self.take(struct.unpack_from("<I", data, 4)[0] * 4)
        return data

    def send(self, opcode, detail, body=b""):
        body += b"\0" * (-len(body) % 4)
        self.sock.sendall(struct.pack("<BBH", opcode, detail, 1 + len(body) // 4) + body)
        self.sequence = self.sequence + 1 & 0xffff

    def ask(self, opcode, detail, body=b""):
        self.send(opcode, detail, body)
        while (data := self.packet())[0] != 1:
            assert data[0] != 0, f"error {data[1]} of request {data[10]}"
            self.kept.append(data)
        return data

    def event(self, *kinds, seconds=SECONDS):
        """The next one of these kinds (any, without), or None."""
        end = time.monotonic() + seconds
        while True:
            if self.kept:
                data = self.kept.pop(0)
            elif len(self.data) >= 32 or select.select([self.sock], [], [], max(0, end - time.monotonic()))[0]:
                data = self.packet()
            else:
                return None
            if not kinds or data[0] & 127 in kinds:
                return data

    def atom(self, name):
        if name not in self.atoms:
            data = self.ask(16, 0, struct.pack("<Hxx", len(name)) + name.encode())
            self.atoms[name] = struct.unpack_from("<I", data, 8)[0]
        return self.atoms[name]

    def property(self, window, atom, delete=True):
        data = self.ask(20, delete, struct.pack("<IIIII", window, atom, 0, 0, 1 << 24))
        kind, _, count = struct.unpack_from("<III", data, 8)
        return kind, data[32:32 + count * max(data[1], 8) // 8]

    def change(self, window, atom, kind, form, data):
        self.send(18, 0, struct.pack("<IIIBxxxI", window, atom, kind, form, len(data) * 8 // form) + data)

    # --- a window

    def window(self, x=100, y=100, width=400, height=300, name="peer", shown=True):
        """One that has the focus, if it is shown. The window manager puts a frame around it."""
        mask = 1 | 2 | 4 | 8 | 64 | 1 << 21 | 1 << 22  # keys, buttons, motion, focus, properties
        self.made += 1
        window = self.base + self.made
        self.send(1, 0, struct.pack("<IIhhHHHHIIII", window, self.root, x, y, width, height, 0, 1, 0, 1 << 1 | 1 << 11,
                                    0x336699, mask))
        self.change(window, 67, 31, 8, f"{name}\0{name}\0".encode())
        if shown:
            self.send(8, 0, struct.pack("<I", window))  # map
            assert self.event(FOCUS_IN), "the window did not get the focus"
        return window

    def paint(self, colour):
        """The background of the screen, as 0xRRGGBB."""
        self.send(2, 0, struct.pack("<III", self.root, 2, colour))
        self.send(61, 0, struct.pack("<IHHHH", self.root, 0, 0, 0, 0))
        self.ask(43, 0)

    def place(self, window):
        """Where it is on the screen."""
        data = self.ask(40, 0, struct.pack("<IIhh", window, self.root, 0, 0))
        return struct.unpack_from("<hh", data, 12)

    def seen(self, *kinds, until, seconds=SECONDS):
        """What came of the mouse, as (kind, button, x, y) on the screen, until that."""
        found = []
        while not found or not until(found):
            data = self.event(*kinds, seconds=seconds)
            assert data, f"only saw {found}"
            found.append((data[0] & 127, data[1], *struct.unpack_from("<hh", data, 20)))
        return found

    # --- the clipboard

    def fetch(self, window, selection="CLIPBOARD", target="UTF8_STRING"):
        """What is in a selection, as a program pastes it; None: nothing."""
        names = self.atom(selection), self.atom(target), self.atom("PEER")
        self.send(24, 0, struct.pack("<IIIII", window, *names, 0))
        data = self.event(NOTIFY)
        assert data, "nobody answered"
        if not struct.unpack_from("<I", data, 20)[0]:
            return None
        kind, text = self.property(window, names[2])
        if kind != self.atom("INCR"):
            return text
        text = b""
        while True:
            data = self.event(PROPERTY)
            assert data, f"a piece is missing after {len(text)}"
            if data[16] == 0 and struct.unpack_from("<I", data, 8)[0] == names[2]:
                piece = self.property(window, names[2])[1]
                if not piece:
                    return text
                text += piece

    def pasted(self, window, seconds=SECONDS):
        """What is pasted with Ctrl+V."""
        while data := self.event(KEY_PRESS, seconds=seconds):
            if data[28] & CONTROL:
                return self.fetch(window)
        return None

    def own(self, window, text, selection="CLIPBOARD"):
        self.send(22, 0, struct.pack("<III", window, self.atom(selection), 0))
        owner = self.ask(23, 0, struct.pack("<I", self.atom(selection)))
        assert struct.unpack_from("<I", owner, 8)[0] == window
        self.text = text

    def serve(self, seconds=SECONDS, offers=False):
        """Answers those who ask, until one has asked for the text: the X server asks what there is, for VNC, and if it is
        told (offers) then for the text."""
        data = self.event(REQUEST, seconds=seconds)
        assert data, "nobody asked"
        when, _, requestor, selection, target, where = struct.unpack_from("<IIIIII", data, 4)
        if target == self.atom("UTF8_STRING"):
            self.change(requestor, where, target, 8, self.text)
        elif offers and target == self.atom("TARGETS"):
            self.change(requestor, where, 4, 32, struct.pack("<I", self.atom("UTF8_STRING")))
        else:
            where = 0
        self.send(25, 0, struct.pack("<II", requestor, 0) + struct.pack("<BxHIIIIIII", NOTIFY, 0, when, requestor, selection,
                                                                        target, where, 0, 0)[:32])
        return target == self.atom("UTF8_STRING") or self.serve(seconds, offers)


class Hostile:
    """An X server that is none: each connection is handed to `say`, which gets the socket."""

    def __init__(self, number, say):
        self.path = Path(f"/tmp/.X11-unix/X{number}")
        self.path.unlink(missing_ok=True)
        if not self.path.parent.exists():
            self.path.parent.mkdir()
            self.path.parent.chmod(0o1777)
        self.listener, self.say = socket.socket(socket.AF_UNIX), say
        self.listener.bind(str(self.path))
        self.path.chmod(0o777)
        self.listener.listen()

    def __enter__(self):
        import threading

        threading.Thread(target=self.run, daemon=True).start()
        return self

    def run(self):
        while True:
            try:
                sock = self.listener.accept()[0]
            except OSError:
                return
            with contextlib.suppress(OSError), sock:
                sock.settimeout(SECONDS)
                self.say(sock)

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.path.unlink(missing_ok=True)
