"""/workspace, which clients of AIO Sandbox name: as a working directory it is the workspace, where the machine has no
such directory."""

import os

import pytest

from kernels import close_all

if os.path.exists("/workspace"):
    pytest.skip("this machine has a /workspace of its own", allow_module_level=True)

PWD = "import os; print(os.getcwd())"
NODE = "console.log(process.cwd())"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    path = tmp_path_factory.mktemp("workspace")
    path.chmod(0o755)
    (path / "below").mkdir()
    return path


@pytest.fixture
def server(start_server, workspace):
    server = start_server(["--workspace", str(workspace)])
    server.check = lambda before=None: (server.check_health(), server.check_reports())
    yield server
    close_all(server)


def data(server, path, **body):
    answer = server.post(path, body, timeout=120)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


@pytest.mark.parametrize("below", ["", "/", "/below"])
def test_everywhere(server, workspace, below):
    """As cwd, exec_dir and working_dir, whatever runs the program."""
    given, there = f"/workspace{below}", f"{workspace}{below}".rstrip("/")
    code = {"language": "python", "code": PWD, "cwd": given}
    assert data(server, "/v1/bash/exec", command="pwd", exec_dir=given)["stdout"].strip().rstrip("/") == there
    made = data(server, "/v1/bash/sessions/create", exec_dir=given)["session_id"]
    assert data(server, "/v1/bash/exec", command="pwd", session_id=made)["stdout"].strip().rstrip("/") == there
    assert data(server, "/v1/shell/exec", command="pwd", exec_dir=given)["output"].strip() == there
    assert data(server, "/v1/shell/sessions/create", exec_dir=given)["working_dir"].rstrip("/") == there
    assert data(server, "/v1/code/execute", **code)["stdout"].strip() == there
    assert data(server, "/v1/code/execute", **code, stateful=True)["stdout"].strip() == there
    assert data(server, "/v1/jupyter/execute", code=PWD, cwd=given)["outputs"][0]["text"].strip() == there
    made = data(server, "/v1/jupyter/sessions/create")["session_id"]
    got = data(server, "/v1/jupyter/execute", code=PWD, cwd=given, session_id=made)
    assert got["outputs"][0]["text"].strip() == there
    assert data(server, "/v1/nodejs/execute", code=NODE, cwd=given)["stdout"].strip().rstrip("/") == there
    for language, code in (("python", PWD), ("javascript", NODE)):
        context = server.post("/api/v1/contexts", {"language": language, "working_dir": given}, timeout=120).json()
        ran = server.post(f"/api/v1/contexts/{context['context_id']}/execute", {"code": code}, timeout=120)
        assert there in ran.text, (context, ran.text)


def test_only_as_a_working_directory(server, workspace):
    (workspace / "file").write_text("x")
    assert data(server, "/v1/bash/exec", command="ls -d /workspace", exec_dir="/workspace")["exit_code"] == 2
    assert server.post("/v1/file/read", {"file": "/workspace/file"}).json()["success"] is False
    refused = server.post("/v1/bash/exec", {"command": "pwd", "exec_dir": "/workspace/none"})
    assert refused.status_code == 404 and "'/workspace/none'" in refused.json()["message"]
    assert server.post("/v1/bash/exec", {"command": "pwd", "exec_dir": "/workspaces"}).status_code == 404
