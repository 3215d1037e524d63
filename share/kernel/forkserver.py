"""The fork server: a Python that has imported what a kernel needs, and forks kernels that are ready.

    python forkserver.py [MODULE...]        (the modules are imported as well, where they are there)

Standard input is a SOCK_SEQPACKET socket; each message is one JSON object. The server asks
    {"id", "key", "ip", "connection_file", "later"}
for a kernel, which "later" is only forked when nothing has been asked for a while, so that it takes no
time from the one that was just handed out; {"hurry"} ends that while. The server is told {"id", "pid"},
with a pidfd and a socket to that kernel, or {"id", "error", "errno"}; later its end, {"exit": pid,
"code", "signal"}. The first message it gets is {"version"}, or {"error"} and the end.

A kernel opens its sockets, makes its shell, and says so on the socket it has to the server: {"welcomes"},
whether it greets those who subscribe to its outputs (ipykernel 7 does), or {"error", "errno"}. Then it
waits there for the one order {"cwd", "env", "tag"} that hands it out, answers {} or {"error"}, and begins
to work. Without an order, when the socket is closed, it ends.

Nothing that does not survive a fork is made before it: no thread, no ZeroMQ context, no event loop.
"""

import ctypes
import errno
import gc
import importlib
import json
import os
import random
import resource
import select
import signal
import site
import socket
import sys
import threading
import time
from functools import partial
from itertools import repeat

MESSAGE_MAX = 1 << 20
LATER_MS = 100
SWITCH_SECONDS = 0.0001  # the thread that sends outputs does not wait 5 ms for a busy main thread
FLUSH_TRIES = 100
PIPE_SIZE = 65536
CHANNELS = ("shell", "iopub", "stdin", "control", "hb")  # the sockets are IP-1 to IP-5
# What a kernel imports while it starts: each saves every kernel from doing it again.
MODULES = (
    "ipykernel.kernelapp", "ipykernel.ipkernel", "ipykernel.zmqshell", "IPython.core.completerlib",
    "IPython.core.debugger", "IPython.core.oinspect", "IPython.extensions.storemagic",
    "IPython.utils.wildcard", "comm", "faulthandler", "tornado.platform.asyncio", "unicodedata",
    "psutil",
)


def import_all(wanted):
    # The debugger alone would be two thirds of a kernel's start; a program may still import debugpy.
    sys.modules["debugpy"] = None
    try:
        import ipykernel.debugger  # noqa: F401
    finally:
        del sys.modules["debugpy"]
    import ipykernel.kernelapp  # noqa: F401

    quicken_flush()
    if send_frames := frames_sender():
        quicken_iopub(send_frames)
    hide_pipe()
    quicken_signatures()
    open_user_site()
    for name in (*MODULES, *wanted):
        try:
            importlib.import_module(name)
        except ImportError:
            pass


def open_user_site():
    """What pip installs for a user who may not write to this Python is found at once, in kernels that
    run already, too: the directory has to be there when they start."""
    try:
        folder = site.getusersitepackages()
        if site.ENABLE_USER_SITE and os.getuid() != os.stat(sys.prefix).st_uid:
            os.makedirs(folder, exist_ok=True)
            if folder not in sys.path:
                site.addsitedir(folder)
    except OSError:
        pass  # such a user has nowhere to install to


def quicken_flush():
    """A kernel flushes four times in every execution, and each changes threads twice: only if there is
    something. What a program wrote to the descriptor itself is waited for, too. A thread that takes either
    says so before it does, and until it is done."""
    from ipykernel.iostream import OutStream

    plain, plain_send = OutStream.flush, OutStream._flush
    OutStream._sends = OutStream._reads = False

    def flush(self):
        pipe = getattr(self, "_fid", None)
        for _ in range(FLUSH_TRIES if pipe is not None else 0):
            if not select.select([pipe], [], [], 0)[0] and not self._reads:
                break
            time.sleep(0.001)  # lets the thread that reads it go on
        if getattr(self, "_buffers", True) or self._sends:
            plain(self)

    def send(self):
        self._sends = True
        try:
            plain_send(self)
        finally:
            self._sends = False

    def watch(self):
        pipe = getattr(self, "_fid", None)
        try:
            while pipe is not None and self._should_watch:
                select.select([pipe], [], [])
                self._reads = True
                data = os.read(pipe, PIPE_SIZE)
                if not data or not self._should_watch:
                    break
                self.write(data.decode(errors="replace"))
                self._reads = False
                os.write(self._original_stdstream_copy, data)
        except Exception:
            self._exc = sys.exc_info()
        self._reads = False

    OutStream.flush, OutStream._flush = flush, send
    if hasattr(OutStream, "_watch_pipe_fd"):
        OutStream._watch_pipe_fd = watch


def frames_sender():
    """A function that sends all frames of a message; None where there is none. No signal's handler, and
    nothing that one raises, can come between them: it is one call into C, and not by pyzmq, which looks
    for signals. Nor is a frame refused because a signal came: meanwhile others take them."""
    import zmq

    try:
        from zmq.backend.cython import _zmq

        send = ctypes.PyDLL(_zmq.__file__).zmq_send  # of the library that pyzmq has loaded
        mask = ctypes.PyDLL(None).pthread_sigmask
    except (AttributeError, ImportError, OSError):  # it is older than 26, say
        return None
    send.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int)
    mask.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p)
    more, size = int(zmq.SNDMORE), 128  # of a set of signals
    everything, set_mask, call = b"\xff" * size, int(signal.SIG_SETMASK), partial.__call__

    def send_frames(socket, message):
        frames = [bytes(frame) for frame in message]
        flags = [more] * (len(frames) - 1) + [0]
        before = ctypes.create_string_buffer(size)
        steps = [partial(mask, set_mask, everything, before),
                 *map(partial, repeat(send), repeat(socket.underlying), frames, map(len, frames), flags),
                 partial(mask, set_mask, before, None)]
        if min(map(call, steps)) < 0:
            raise zmq.ZMQError()

    return send_frames


def quicken_iopub(send_frames):
    """Every message on iopub would be handed to a thread that sends it, which then competes for the
    interpreter with what follows: half of the time of a short execution. Whoever has a message sends it
    itself, one at a time."""
    import zmq
    from ipykernel.iostream import IOPubThread

    plain_init, plain_send = IOPubThread.__init__, IOPubThread._really_send
    EVENTS, POLLIN = int(zmq.EVENTS), int(zmq.POLLIN)  # enumerations are slow

    def init(self, *args, **kwargs):
        self._turn = threading.RLock()
        plain_init(self, *args, **kwargs)
        stream = getattr(self, "_xpub_stream", None)
        if stream:  # its thread reads from the same socket who subscribes
            plain_handle = stream._handle_events

            def handle(fd, events):
                with self._turn:
                    plain_handle(fd, events)

            self.io_loop.remove_handler(stream.socket)
            stream._handle_events = handle
            stream._init_io_state()

    def send_multipart(self, msg, *args, **kwargs):
        if self._master_pid != os.getpid():  # a child that the program has forked
            plain_send(self, msg, *args, **kwargs)
            return
        with self._turn:
            if self.closed:
                return
            send_frames(self.socket, msg)
            if hasattr(self, "_xpub_stream") and self.socket.get(EVENTS) & POLLIN:
                # Sending may have taken the notice that its thread would have woken for.
                self.io_loop.add_callback(self._xpub_stream._handle_events, self.socket, 0)

    IOPubThread.__init__, IOPubThread.send_multipart = init, send_multipart


def hide_pipe():
    """What children print comes to iopub through a TCP port. It would be among those that the sandbox's own
    programs listen on: a socket without a port does the same."""
    import zmq
    from ipykernel.iostream import IOPubThread

    plain_setup = getattr(IOPubThread, "_setup_pipe_in", None)
    if not plain_setup or not hasattr(IOPubThread, "_setup_pipe_out"):
        return

    def bind(socket, address):
        name = f"ipc://@aio-iopub-{os.urandom(16).hex()}"
        socket.bind(name)
        return name

    def setup_in(self):
        plain_bind, zmq.Socket.bind_to_random_port = zmq.Socket.bind_to_random_port, bind
        try:
            plain_setup(self)
        finally:
            zmq.Socket.bind_to_random_port = plain_bind

    def setup_out(self):
        context = zmq.Context()
        pipe = context.socket(zmq.PUSH)
        pipe.linger = 3000  # as there
        pipe.connect(self._pipe_port)
        return context, pipe

    IOPubThread._setup_pipe_in, IOPubThread._setup_pipe_out = setup_in, setup_out


def quicken_reply(stream, send_frames):
    """A reply is flushed after the status that comes before it; without the ceremony of a stream."""
    from zmq import POLLIN, POLLOUT

    plain = stream.flush

    def flush(flag=POLLIN | POLLOUT, limit=None):
        if flag != POLLOUT:
            return plain(flag, limit)
        while stream.sending():
            send_frames(stream.socket, stream._send_queue.get()[0])
        return 0

    stream.flush = flush


def quicken_session(session):
    """Each part of each message would be written by an encoder of its own; and the header of a request
    again with everything that answers it."""
    from jupyter_client.jsonutil import json_default

    plain = session.pack
    encode = json.JSONEncoder(default=json_default, ensure_ascii=False, allow_nan=False).encode

    last, packed = {}, b"{}"

    def pack(value):
        nonlocal last, packed
        if value == last:
            return packed
        try:
            data = encode(value).encode(errors="replace")  # half a character is no UTF-8
        except (TypeError, ValueError):
            return plain(value)  # which knows what to do with what is no JSON
        if "msg_id" in value and value.get("session") != session.session:
            last, packed = dict(value), data
        return data

    if getattr(session, "packer", "json") == "json":
        session.pack = pack


def quicken_transform(shell):
    """Every execution would transform its code twice: to see whether it is asynchronous, and to run it."""
    plain = shell.transform_cell
    known = {}

    def transform(code):
        key = (code, shell.execution_count)
        if key in known:
            return known.pop(key)
        known.clear()
        known[key] = plain(code)
        return known[key]

    shell.transform_cell = transform


def quicken_signatures():
    """Every execution would ask anew which parameters a function has."""
    from ipykernel import ipkernel

    plain = getattr(ipkernel, "_accepts_parameters", None)
    known = {}

    def accepts(method, names):
        key = (getattr(method, "__func__", method), *names)
        if key not in known:
            known[key] = plain(method, names)
        return known[key]

    if plain:
        ipkernel._accepts_parameters = accepts


def number_of(error):
    """The errno of what went wrong: of the system, or that there was no memory or no thread; else 0."""
    if isinstance(error, MemoryError):
        return errno.ENOMEM
    if isinstance(error, RuntimeError) and "new thread" in str(error):
        return errno.EAGAIN
    return getattr(error, "errno", None) or 0


class Kernel:
    """What a forked child needs to become a kernel."""

    def __init__(self, request, server):
        self.request, self.server = request, server

    def fresh(self):
        """What a child must not share with its parent and its siblings."""
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.setswitchinterval(SWITCH_SECONDS)
        random.seed()
        if "numpy.random" in sys.modules:
            sys.modules["numpy.random"].seed()
        if "multiprocessing.process" in sys.modules:
            sys.modules["multiprocessing.process"].current_process().authkey = os.urandom(32)

    def make(self):
        import zmq
        from aio_withdraw import Withdrawable
        from ipykernel.ipkernel import IPythonKernel
        from ipykernel.kernelapp import IPKernelApp
        from traitlets.config import Config

        class NoThread:
            """Stands where there may be a thread that reads requests for the main thread: it is for
            subshells, and would cost each request two more changes of threads."""

            parent_thread = threading.main_thread()

            def __bool__(self):
                return False

        class App(IPKernelApp):
            def parse_command_line(self, argv=None):
                """There is none; to find that out is a quarter of the start."""

            def init_iopub(self, context):
                context.SNDHWM = 0  # else what a program prints is dropped when nobody takes it at once
                super().init_iopub(context)
                if self.iopub_socket.type == zmq.XPUB:
                    self.iopub_socket.setsockopt(zmq.XPUB_VERBOSE, 1)  # each subscriber is welcomed

            def init_control(self, context):
                super().init_control(context)
                self.shell_channel_thread = NoThread()

        class Kernel(Withdrawable, IPythonKernel):
            _supports_kernel_subshells = False

        config = Config()
        config.Kernel._execute_sleep = 0  # for clients that do not wait for "idle"
        config.HistoryManager.enabled = False  # a file that all sessions would share, and a thread
        config.Session.key = self.request["key"].encode()
        config.IPKernelApp.log_level = "CRITICAL"
        sys.argv = ["ipykernel_launcher", "-f", self.request["connection_file"]]
        app = App.instance(
            config=config, kernel_class=Kernel, connection_file=self.request["connection_file"],
            transport="ipc", ip=self.request["ip"], **{f"{name}_port": 1 + i for i, name in enumerate(CHANNELS)})
        app.initialize([])
        quicken_session(app.session)
        quicken_transform(app.shell)
        if send_frames := frames_sender():
            quicken_reply(app.kernel.shell_stream, send_frames)
        app.log.setLevel("CRITICAL")  # else each message is logged, and only then dropped
        # What the first execution would do for the first time, and wait for.
        app.shell.run_cell("0;", store_history=False, silent=True)
        app.shell.display_formatter.format(0)
        return app

    def await_order(self, app):
        welcomes = hasattr(app.iopub_thread, "_xpub_stream")
        self.server.send(json.dumps({"welcomes": welcomes}).encode())
        data = self.server.recv(MESSAGE_MAX)
        if not data:
            os._exit(0)
        order = json.loads(data)
        try:
            if order.get("tag"):
                resource.setrlimit(resource.RLIMIT_RTTIME, (order["tag"], order["tag"]))
            os.environ.update(order["env"])
            os.chdir(order["cwd"])
        except (OSError, ValueError) as error:
            self.server.send(json.dumps({"error": str(error)}).encode())
            os._exit(1)
        self.server.send(b"{}")
        self.server.close()

    def wake_by_signals(self):
        """An interrupt cancels a cell that awaits something in a callback of the event loop, which would
        not see that callback before its next event."""
        from tornado.ioloop import IOLoop

        self.woken, self.waker = socket.socketpair()
        for sock in (self.woken, self.waker):
            sock.setblocking(False)
        IOLoop.current().asyncio_loop.add_reader(self.woken, self.woken.recv, 4096)
        signal.set_wakeup_fd(self.waker.fileno(), warn_on_full_buffer=False)

    def run(self):
        self.fresh()
        try:
            app = self.make()
        except Exception as error:
            if code := number_of(error):
                self.server.send(json.dumps({"error": str(error), "errno": code}).encode())
            raise
        self.wake_by_signals()
        self.await_order(app)
        app.start()


class ForkServer:
    def __init__(self, control):
        self.control, self.kernels = control, {}  # by pidfd, their pid
        self.later = []
        self.poll = select.poll()
        self.poll.register(control, select.POLLIN)

    def say(self, message, fds=()):
        socket.send_fds(self.control, [json.dumps(message).encode()], fds)

    def fork(self, request):
        """In the child, its Kernel; else None."""
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            pid = os.fork()
        except OSError as error:
            ours.close()
            its.close()
            self.say({"id": request["id"], "error": str(error), "errno": error.errno})
            return None
        if pid == 0:
            for fd in (self.control.fileno(), ours.fileno(), *self.kernels):
                os.close(fd)
            self.control.detach()
            ours.detach()
            return Kernel(request, its)
        its.close()
        pidfd = os.pidfd_open(pid)
        self.kernels[pidfd] = pid
        self.poll.register(pidfd, select.POLLIN)
        self.say({"id": request["id"], "pid": pid}, [pidfd, ours.fileno()])
        ours.close()
        return None

    def bury(self, pidfd):
        pid = self.kernels.pop(pidfd)
        self.poll.unregister(pidfd)
        os.close(pidfd)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        self.say({"exit": pid, "code": code if code >= 0 else 128 - code, "signal": max(-code, 0)})

    def take(self):
        """The requests that are due; None when the server is gone."""
        data = self.control.recv(MESSAGE_MAX)
        if not data:
            return None
        request = json.loads(data)
        if request.get("later"):
            self.later.append(request)
            return []
        return self.hurry() if "hurry" in request else [request]

    def hurry(self):
        due, self.later = self.later, []
        return due

    def serve(self):
        """Serves until the server is gone: None. In each child: its Kernel."""
        while True:
            events = self.poll.poll(LATER_MS if self.later else None)
            due = [] if events else self.hurry()
            for fd, _ in events:
                if fd != self.control.fileno():
                    self.bury(fd)
                elif (due := self.take()) is None:
                    return None
            for request in due:
                kernel = self.fork(request)
                if kernel:
                    return kernel


def main():
    control = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    import aio_withdraw  # noqa: F401: it is beside this file

    del sys.path[0]  # of this file
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # As the kernel would set it; but matplotlib, when it is preloaded, looks at it only once.
    os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    server = ForkServer(control)
    try:
        import_all(sys.argv[1:])
    except Exception as error:
        server.say({"error": f"{type(error).__name__}: {error}"})
        return
    server.say({"version": "%d.%d.%d" % sys.version_info[:3]})
    gc.collect()
    gc.freeze()  # pages that no collection touches stay shared
    try:
        kernel = server.serve()
    except OSError:  # the server is gone
        return
    del server
    if kernel:
        kernel.run()


if __name__ == "__main__":
    main()
