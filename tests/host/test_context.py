"""What a box says about itself is true of what runs in it."""

import json

from harness import eventually


def test_no_port_of_the_product_is_listed(box):
    box.begin("exec python3 -m http.server 8917")
    box.run("until ss -ltn | grep -q :8917; do sleep 0.1; done")
    box.run("ss -ltn | grep -q :8080")  # the server's own
    for kernel in ("python3", "bash"):
        assert "made" in box.request("POST", "/v1/jupyter/execute", json={"code": "echo made" if kernel == "bash" else "print('made')", "kernel_name": kernel}).text

    def ports():
        return box.request("GET", "/v1/sandbox").json()["detail"]["system"]["occupied_ports"]

    assert eventually(lambda: ports() == ["8917"], pause=0.1), ports()
    assert "8080" not in box.request("GET", "/llms.txt").text.split("Occupied ports:")[1].splitlines()[0]
    box.run("pkill -f 'http.server 8917'")


def test_no_port_of_a_kernel_of_the_user_s_own_is_listed(box):
    spec = {"argv": ["python3", "-m", "ipykernel_launcher", "--HistoryManager.enabled=False", "-f", "{connection_file}"],
            "display_name": "own", "language": "own"}
    box.run(f"mkdir -p ~/.local/share/jupyter/kernels/own && echo '{json.dumps(spec)}' >~/.local/share/jupyter/kernels/own/kernel.json")
    code = "import socket\nlistening = socket.create_server(('127.0.0.1', 8918))"

    def ports():
        return box.request("GET", "/v1/sandbox").json()["detail"]["system"]["occupied_ports"]

    body = {"code": code, "kernel_name": "own", "session_id": "own", "timeout": 60}
    assert box.request("POST", "/v1/jupyter/execute", json=body, timeout=100).json()["success"]
    assert len(box.run("ss -Hltn 'src 127.0.0.1'").splitlines()) >= 7  # this one, a kernel's five, one more of ipykernel's
    assert eventually(lambda: ports() == ["8918"], pause=0.1), ports()
    assert box.request("DELETE", "/v1/jupyter/sessions").status_code == 200


def test_every_tool_that_is_listed_starts(box):
    detail = box.request("GET", "/v1/sandbox").json()["detail"]
    names = [tool["name"] for group in detail["utils"] for tool in group["tools"]]
    assert "bash" in names and "sudo" in names and "podman" not in names
    # 126 and 127 are the shell's: it is there, but cannot be executed.
    bad = box.run("for name in " + " ".join(names) + "; do timeout 20 $name --version </dev/null >/dev/null 2>&1; "
                  "code=$?; [ $code = 126 ] || [ $code = 127 ] && echo $name; done; true")
    assert bad == ""
