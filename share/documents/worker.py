"""Reads documents for the server: one warm process, and one short-lived fork of it per document.

Standard input is a SEQPACKET socket. Each message is a job as JSON, with the descriptor of a stream
socket for the answer and, for most jobs, that of the document. On the stream go one byte "S" when the
job is taken, then b"AIOD", the lengths of two parts (little-endian, 32 bits), and the parts: JSON, text.

The fork has limits of memory and time and dies with this process. It is killed when the server closes
the stream. A line on standard input says that jobs can come. This process ends when the server closes its end.
"""

import ctypes
import gc
import json
import os
import resource
import select
import signal
import socket
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from refused import Refused

PR_SET_PDEATHSIG = 1
JOB_MAX = 65536


# --- the fork ----------------------------------------------------------------------------------


def limit(job):
    """Memory is counted from what the libraries have already taken."""
    with open("/proc/self/statm") as statm:
        taken = int(statm.read().split()[0]) * resource.getpagesize()
    memory, seconds = taken + job["memory"], job["seconds"]
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 5, int(seconds) + 5))
    signal.setitimer(signal.ITIMER_REAL, seconds + 5)  # should nobody else end it


def answer(stream, text, **meta):
    body = text.encode("utf-8", "replace")
    head = json.dumps(meta, default=str).encode()
    stream.sendall(b"AIOD" + struct.pack("<II", len(head), len(body)) + head + body)


def causes(problem):
    """The problem and what it came from, converters' failed attempts included."""
    seen = []
    while problem is not None and problem not in seen:
        seen.append(problem)
        for attempt in getattr(problem, "attempts", None) or []:
            if attempt.exc_info:
                yield from causes(attempt.exc_info[1])
        yield problem
        problem = problem.__cause__ or problem.__context__


def explain(problem):
    found = list(causes(problem))
    for cause in found:
        if isinstance(cause, Refused):
            return cause.kind, str(cause)
    if any(isinstance(cause, (MemoryError, RecursionError)) for cause in found):
        return "too_large", "the document needs more memory than a document may use"
    said = " ".join(str(found[0]).split())[:200]
    return "invalid", f"the document cannot be read: {type(found[0]).__name__}: {said}"


def work(job, stream, document, tasks):
    """The whole life of a fork, which ends without any of Python's clean-up."""
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        gc.enable()
        limit(job)
        try:
            text, meta = tasks[job["task"]](job, document)
            if len(text) > job["text_max"] or len(text.encode("utf-8", "replace")) > job["text_max"]:
                raise Refused("too_large", f"the text is longer than {job['text_max'] >> 20} MiB")
            answer(stream, text, metadata=meta)
        except Exception as problem:
            kind, message = explain(problem)
            text = None
            answer(stream, "", error=kind, message=message)
    finally:
        os._exit(0)


# --- the warm process --------------------------------------------------------------------------


class Worker:
    def __init__(self, tasks):
        self.control = socket.socket(fileno=0)
        self.tasks = tasks
        self.poll = select.poll()
        self.poll.register(self.control, select.POLLIN)
        self.jobs = {}  # by descriptor of pidfd and of stream: (pid, pidfd, stream)

    def start(self, data, fds):
        stream = socket.socket(fileno=fds[0])
        document = fds[1] if len(fds) > 1 else -1
        job = json.loads(data)
        try:
            stream.send(b"S", socket.MSG_NOSIGNAL)  # before the fork can say anything
            pid = os.fork()
        except OSError as problem:  # the caller has gone, or there are too many processes
            self.refuse(stream, problem)
            pid = -1
        if pid == 0:
            os.dup2(os.open("/dev/null", os.O_RDWR), self.control.fileno())
            work(job, stream, document, self.tasks)
        if document >= 0:
            os.close(document)
        if pid > 0:
            entry = pid, os.pidfd_open(pid), stream
            self.jobs[entry[1]] = self.jobs[stream.fileno()] = entry
            self.poll.register(entry[1], select.POLLIN)
            self.poll.register(stream, select.POLLRDHUP)

    def refuse(self, stream, problem):
        try:
            answer(stream, "", error="unavailable", message=f"cannot read a document now: {problem}")
        except OSError:
            pass
        stream.close()

    def end(self, entry):
        pid, pidfd, stream = entry
        os.kill(pid, signal.SIGKILL)  # not reaped yet: the number is still its own
        os.waitpid(pid, 0)
        for fd in (pidfd, stream.fileno()):
            self.poll.unregister(fd)
            del self.jobs[fd]
        os.close(pidfd)
        stream.close()

    def turn(self):
        """Waits for something to do. False when there is nothing more to do at all."""
        for fd, what in self.poll.poll():
            if fd in self.jobs:
                self.end(self.jobs[fd])
            elif fd == self.control.fileno():
                data, fds, _, _ = socket.recv_fds(self.control, JOB_MAX, 2)
                if not data:
                    return False
                self.start(data, fds)
        return True


def main():
    # A signal of the terminal or of a curious user must not leave a caller without an answer.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    import tasks

    gc.collect()
    gc.disable()
    gc.freeze()  # so that forks share the memory of what is loaded
    worker = Worker(tasks.TASKS)
    worker.control.send(b"\n", socket.MSG_NOSIGNAL)
    while worker.turn():
        pass


if __name__ == "__main__":
    main()
