"""jupyter_client, measured: reads commands on standard input and answers each with milliseconds.

    start           start_new_kernel and 1+1, to its last output
    run COUNT FILE  1+1 so often in the kernel of a connection file: the median. It is attached only
                    meanwhile: every client costs the kernel time, whoever asks it for something
"""
import statistics
import sys
import time

from jupyter_client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel


def execute(client):
    """Runs 1+1 and takes all that belongs to it, as a front end does."""
    request = client.execute("1+1")
    value = None
    while True:
        message = client.get_iopub_msg(timeout=30)
        if message["parent_header"].get("msg_id") != request:
            continue
        if message["msg_type"] == "execute_result":
            value = message["content"]["data"]["text/plain"]
        if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
            break
    while client.get_shell_msg(timeout=30)["parent_header"].get("msg_id") != request:
        pass
    assert value == "2", value


def timed(what):
    begin = time.perf_counter()
    what()
    return (time.perf_counter() - begin) * 1e3


def start():
    begin = time.perf_counter()
    manager, client = start_new_kernel(kernel_name="python3")
    execute(client)
    took = (time.perf_counter() - begin) * 1e3
    client.stop_channels()
    manager.shutdown_kernel(now=True)
    return took


def run(count, file):
    client = BlockingKernelClient(connection_file=file)
    client.load_connection_file()
    client.start_channels()
    client.wait_for_ready(timeout=30)
    took = statistics.median(timed(lambda: execute(client)) for _ in range(int(count)))
    client.stop_channels()
    return took


def main():
    for line in sys.stdin:
        command, *arguments = line.strip().split(maxsplit=2)
        print({"start": start, "run": run}[command](*arguments), flush=True)


if __name__ == "__main__":
    main()
