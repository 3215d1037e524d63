"""A Jupyter kernel for bash: a shell that keeps its variables, functions and directory.

    python bash.py -f CONNECTION_FILE

The shell is an interactive one, though without a terminal: an interrupt then ends what runs, and not
the shell. Code is a file that it sources. How that went comes back through a pipe from its next line of
input, which it reads in any case. Neither has a name that could be left behind, or is inherited by what
the code leaves running: the shell opens this process's descriptors by their path.
"""

import codecs
import os
import select
import subprocess
import sys

from aio_withdraw import Withdrawable
from ipykernel.iostream import IOPubThread
from ipykernel.kernelapp import IPKernelApp
from ipykernel.kernelbase import Kernel

PIECE, REST = 65536, 64
BEGIN = "exec 2>&{errors} {errors}>&-; PS1= PS2= PROMPT_COMMAND=; set +o history; shopt -u checkwinsize\n"
# Code may change what a prompt is, as activating an environment does: nobody looks at one here.
PLAIN = "\\declare PS1= PS2= PROMPT_COMMAND= 2>/dev/null"
RUN = (f"\\unset __aio; . {{code}} </dev/null; __aio=$?; {PLAIN}\n"
       f"__aio=${{{{__aio-$?}}}}; {PLAIN}; \\builtin printf '%d\\n' $__aio >{{done}}\n")


def path(fd):
    return f"/proc/{os.getpid()}/fd/{fd}"


class Shell:
    """The process, and what comes from it."""

    def __init__(self):
        self.code = os.memfd_create("code")
        self.done, self.its_done = os.pipe()
        self.outputs, theirs = {}, []
        for name in ("stdout", "stderr"):
            ours, its = os.pipe()
            os.set_blocking(ours, False)
            self.outputs[ours] = (name, codecs.getincrementaldecoder("utf-8")("replace"))
            theirs.append(its)
        self.process = subprocess.Popen(
            ["bash", "--noprofile", "--norc", "--noediting", "-i", "+m"], stdin=subprocess.PIPE, stdout=theirs[0],
            stderr=subprocess.DEVNULL, pass_fds=theirs[1:])  # what it says of the missing terminal is no news
        self.pidfd = os.pidfd_open(self.process.pid)
        self.say(BEGIN.format(errors=theirs[1]))
        for fd in theirs:
            os.close(fd)

    def say(self, line):
        try:
            os.write(self.process.stdin.fileno(), line.encode())
        except BrokenPipeError:
            pass  # its end is seen below

    def take(self, fd, give):
        name, decoder = self.outputs[fd]
        try:
            data = os.read(fd, PIECE)
        except BlockingIOError:
            return False
        if text := decoder.decode(data):
            give(name, text)
        return bool(data)

    def take_all(self, give):
        """What is there; but something in the background may go on for ever."""
        for fd in self.outputs:
            for _ in range(REST):
                if not self.take(fd, give):
                    break

    def run(self, code, give):
        """Its exit status."""
        with open(path(self.code), "wb") as file:
            file.write(f"{code}\n".encode(errors="surrogatepass"))
        self.say(RUN.format(done=path(self.its_done), code=path(self.code)))
        poll = select.poll()
        for fd in (*self.outputs, self.done, self.pidfd):
            poll.register(fd, select.POLLIN)
        while True:
            try:
                ready = {fd for fd, _ in poll.poll()}
                for fd in ready & set(self.outputs):
                    if not self.take(fd, give):
                        poll.unregister(fd)  # the code has closed it
            except KeyboardInterrupt:
                continue  # the shell was interrupted too, and will say so
            if self.done in ready or self.pidfd in ready:
                self.take_all(give)
                return int(os.read(self.done, PIECE).split()[-1]) if self.done in ready else self.process.wait()

    def ended(self):
        return self.process.poll() is not None

    def close(self):
        for fd in (*self.outputs, self.code, self.done, self.its_done, self.pidfd):
            os.close(fd)
        self.process.stdin.close()


class BashKernel(Withdrawable, Kernel):
    implementation, implementation_version = "bash", "1"
    language_info = {"name": "bash", "mimetype": "text/x-sh", "file_extension": ".sh"}
    banner = "bash"
    _supports_kernel_subshells = False
    shell = None

    async def do_execute(self, code, silent, store_history=True, user_expressions=None, allow_stdin=False, **_):
        def give(name, text):
            if not silent:
                self.send_response(self.iopub_socket, "stream", {"name": name, "text": text})

        if not self.shell:
            self.shell = Shell()
        status = self.shell.run(code, give)
        if self.shell.ended():
            give("stderr", "bash has ended: the next command gets a new one, without its variables\n")
            self.shell.close()
            self.shell = None
        reply = {"execution_count": self.execution_count, "user_expressions": {}, "payload": []}
        if status == 0:
            return {**reply, "status": "ok"}
        return {**reply, "status": "error", "ename": "ExitStatus", "evalue": str(status % 256), "traceback": []}


if __name__ == "__main__":
    del sys.path[0]  # of this file
    IOPubThread._setup_pipe_in = lambda self: None  # for children in Python: it would listen on a port
    IPKernelApp.launch_instance(kernel_class=BashKernel)
