"""/workspace, which clients of AIO Sandbox name, leads to the workspace in every box whose template has none."""

from hosts import Box


def test_a_link_to_home(box):
    assert box.run("readlink /workspace; cd /workspace; pwd -P", exec_dir="/workspace") == "/home/gem\n/home/gem\n"
    box.run("echo 1 > /workspace/file; cat ~/file")
    answer = box.request("POST", "/v1/file/read", json={"file": "/workspace/file"})
    assert answer.json()["data"]["content"].strip() == "1"


def test_what_a_box_has_there_stays(host):
    chosen = host.create(env={"WORKSPACE": "/workspace"})
    assert chosen.run("pwd; stat -c %F /workspace") == "/workspace\ndirectory\n"
    other = host.create(env={"WORKSPACE": "/data"})
    assert other.run("readlink /workspace") == "/data\n"
    assert other.run("sudo rm /workspace; sudo mkdir /workspace; sudo touch /workspace/mine; ls /workspace") == "mine\n"
    again = host.api("POST", f"/v1/sandboxes/{other.id}/fork", json={})
    assert Box(host, again).run("ls /workspace; pwd") == "mine\n/data\n"
