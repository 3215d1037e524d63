"""What our kernels share: an execution that nobody waits for any more can be withdrawn."""

import signal
import threading


class Withdrawable:
    """A kernel whose server may withdraw an execution that nobody waits for any more, by the message
    aio_withdraw {"msg_id"} on control: one that has not begun never does, one that runs is interrupted. What
    another client runs is not touched: the signal is sent only while that execution cannot end."""

    def __init__(self, **options):
        super().__init__(**options)
        self.turn, self.running, self.withdrawn = threading.Lock(), None, set()
        self.control_handlers["aio_withdraw"] = self.withdraw

    @property
    def kernel_info(self):
        return {**super().kernel_info, "aio_withdraw": True}

    def withdraw(self, stream, ident, parent):
        wanted = parent["content"]["msg_id"]
        with self.turn:
            begun = self.running == wanted
            if begun:
                self._send_interrupt_children()
            else:
                self.withdrawn.add(wanted)
        self.session.send(stream, "aio_withdraw_reply", {"begun": begun}, parent, ident=ident)

    def begin(self, wanted):
        with self.turn:
            withdrawn = wanted in self.withdrawn
            self.withdrawn.discard(wanted)
            self.running = None if withdrawn else wanted
        return not withdrawn

    def settle(self):
        """A signal that was sent until now comes now, and is nothing any more."""
        while self.running:
            try:
                with self.turn:
                    self.running = None
                signal.pthread_sigmask(signal.SIG_BLOCK, ())  # as a call into the system, has it come
            except KeyboardInterrupt:
                pass

    async def execute_request(self, stream, ident, parent):
        try:
            if self.begin(parent["header"]["msg_id"]):
                await super().execute_request(stream, ident, parent)
            else:
                self._send_abort_reply(stream, parent, ident)
        finally:
            self.settle()
