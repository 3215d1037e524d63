"""A box in which every service was used once, and nobody uses any of them any more: what it takes then."""
import http.client
import time

import browsers
import hosts

IDLE, MIB_MAX, WAIT = 60, 16, 180
PAGE = "data:text/html,<title>Kept</title>"


def opened(server, box, path):
    """The status of a page, as a browser would ask for it."""
    conn = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    conn.request("GET", path, headers={"Authorization": f"Bearer {box['token']}", "X-AIO-Sandbox": box["id"], "Accept": "*/*"})
    answer = conn.getresponse()
    answer.read()
    conn.close()
    return answer.status


def use(server, box):
    """Every service: browser and desktop, editor, notebook, kernel, Node.js, documents."""
    def call(path, **body):
        return server.call("POST", path, body, box)

    call("/v1/browser/page/navigate", url=PAGE)
    server.call("GET", "/v1/browser/info", box=box)
    for page in ("/code-server/", "/jupyter/lab"):
        if opened(server, box, page) != 200:
            raise RuntimeError(f"{page} does not open")
    call("/v1/file/write", file="/home/gem/page.html", content="<h1>Title</h1>")
    call("/v1/util/convert_to_markdown", uri="file:///home/gem/page.html")
    for kind in ("jupyter", "nodejs"):
        done = call(f"/v1/{kind}/execute", code="1 + 1", **({"stateful": True} if kind == "nodejs" else {}))
        server.call("DELETE", f"/v1/{kind}/sessions/{done['session_id']}", box=box)
    call("/v1/bash/exec", command="true")


def anonymous(box):
    """MiB: memory of its processes that no file has, and the kernel's for its cgroup."""
    pids = browsers.members(box)
    return len(pids), browsers.kib(pids, "Pss_Anon")[0] + hosts.kernel_memory(box["id"]) / 1024


def row(line):
    with hosts.host() as server:
        box = server.call("POST", "/v1/sandboxes", {"env": {"AIO_SERVICE_IDLE": str(IDLE)}})
        before = len(browsers.members(box))
        use(server, box)
        used, until = anonymous(box)[1], time.monotonic() + IDLE + WAIT
        while len(browsers.members(box)) > before and time.monotonic() < until:
            time.sleep(2)
        left, size = anonymous(box)
        tabs = server.call("GET", "/v1/browser/tabs", box=box)
        again = any(tab["title"] == "Kept" for tab in tabs)
        yield line("box whose services are idle, anonymous and kernel memory", f"{size:.1f} MiB ({left} processes)",
                   f"while they ran {used:.0f} MiB", None, f"≤ {MIB_MAX} MiB, and the browser's tab comes back",
                   size <= MIB_MAX and again)
