"""Observing a sandbox: what it uses now, captures, guardrail mode, reports."""

import io
import json
import os
import signal
import tarfile
import threading
from datetime import datetime
from pathlib import Path

import commands
import httpx
import pytest

from harness import LEAN, Calls, children_of, eventually, request, serving

pytestmark = pytest.mark.server(env=LEAN, warm=commands.warm)

OBSERVE = Calls("/v1/sandbox/observe")
PATH = "/v1/sandbox/observe"
BASH = Calls("/v1/bash")
FILES = ["report.json", "summary.txt", "live.json", "services.json"]
KEPT = ["samples.jsonl", "processes.jsonl", "events.jsonl", "session.json"]


def ask(server, what):
    answer = server.get(f"{PATH}/{what}")
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def live(server, rows=10):
    return ask(server, f"live?top_rows={rows}")


def reports(server):
    return ask(server, "reports")


def download(server, report):
    answer = server.get(f"{PATH}/reports/{report['report_id']}")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/gzip"
    assert len(answer.content) == report["size_bytes"]
    return answer.content


def unpack(data):
    """The files of a report by name. Each is text."""
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        return {member.name: archive.extractfile(member).read().decode() for member in archive.getmembers()}


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def moment(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def samples_of(server):
    """How many the observation of now has written."""
    path = Path(ask(server, "status")["runtime_dir"]) / "samples.jsonl"
    return path.read_text().count("\n") if path.exists() else 0


@pytest.fixture(autouse=True)
def clean(server):
    yield
    if ask(server, "status")["running"]:
        OBSERVE.ask(server, "stop")
    for report in reports(server):
        server.request("DELETE", f"{PATH}/reports/{report['report_id']}")
    commands.close_all(server)


# --- now ----------------------------------------------------------------------------------------


def test_a_busy_process_is_first_and_everything_is_told_of_it(server):
    BASH.ask(server, "exec", command="exec -a busy python3 -c 'while True: pass'", async_mode=True)
    own = []

    def found():
        own[:] = [row for row in live(server, 1000)["top_processes"] if row["comm"] == "python3" and row["cpu_pct"] > 20]
        return own

    assert eventually(found)
    row = own[0]
    assert set(row) == {"pid", "user", "comm", "rss_bytes", "rss_mib", "cpu_pct", "threads", "fds", "state", "uptime_sec", "ppid"}
    proc = Path(f"/proc/{row['pid']}")
    status = dict(line.split(":\t", 1) for line in (proc / "status").read_text().splitlines())
    assert row["ppid"] == int(status["PPid"]) and row["threads"] == 1 and row["state"] in "RSD"
    assert row["fds"] == len(os.listdir(proc / "fd")) and row["user"] == proc.owner()
    assert abs(row["rss_bytes"] - int(status["VmRSS"].split()[0]) * 1024) < 8 << 20
    assert row["rss_mib"] == pytest.approx(row["rss_bytes"] / (1 << 20), abs=0.01)
    assert 0 <= row["uptime_sec"] < 3600


def test_rows_are_as_many_as_were_asked_for(server):
    assert live(server, 0)["top_processes"] == [] and len(live(server, 3)["top_processes"]) == 3
    assert 3 < len(ask(server, "live")["top_processes"]) <= 10
    for wrong in (-1, 1001, "x"):
        assert server.get(f"{PATH}/live?top_rows={wrong}").status_code == 422


def test_the_disk_is_what_the_system_says(server):
    disk = live(server)["disk"][0]
    seen = os.statvfs("/")
    assert disk["path"] == "/" and disk["total_bytes"] == seen.f_blocks * seen.f_frsize
    assert abs(disk["used_bytes"] - (seen.f_blocks - seen.f_bfree) * seen.f_frsize) < 1 << 30
    assert 0 < disk["usage_pct"] <= 100 and disk["inode_total"] == (seen.f_files or None)


def test_recent_events_are_those_of_the_journal(server):
    BASH.ask(server, "exec", command="exit 9")
    snapshot = live(server)
    assert snapshot["mode"] == "off" and moment(snapshot["captured_at"])
    last = snapshot["recent_events"][-1]
    assert last["type"] == "command_ended" and last["message"] == "A command ended."
    assert last["data"]["exit_code"] == 9 and moment(last["ts"]) and len(snapshot["recent_events"]) <= 20


# --- a capture ----------------------------------------------------------------------------------


def test_a_capture_from_its_start_to_the_report(server):
    assert ask(server, "status")["mode"] == "off"
    started = OBSERVE.ask(server, "start", interval_seconds=0.1)
    assert started["mode"] == "capture" and started["interval_seconds"] == 0.1
    assert (moment(started["ends_at"]) - moment(started["started_at"])).total_seconds() == 900
    status = ask(server, "status")
    assert status["running"] and status["mode"] == "capture" and live(server)["mode"] == "capture"
    assert {key: status[key] for key in started} == started
    BASH.ask(server, "exec", command="echo observed; exit 5")
    assert eventually(lambda: samples_of(server) >= 4)
    assert eventually(lambda: "exit_code\":5" in (Path(started["runtime_dir"]) / "events.jsonl").read_text())
    assert OBSERVE.ask(server, "stop", session_id=started["session_id"]) == {
        "session_id": started["session_id"], "stopped": True, "report_ready": True}
    report = OBSERVE.ask(server, "export")
    assert report["session_id"] == started["session_id"] and report["reason"] == "manual"
    assert reports(server) == [report] and ask(server, "status")["report_count"] == 1
    data = download(server, report)
    assert Path(report["path"]).read_bytes() == data
    files = unpack(data)
    assert list(files) == FILES + KEPT
    samples = lines(files["samples.jsonl"])
    assert len(samples) >= 4 and samples[0]["sample"]["started"] is None and samples[1]["sample"]["started"] >= 0
    times = [moment(sample["sample"]["ts"]) for sample in samples]
    assert times == sorted(times) and all(sample["sample"]["processes"] > 1 for sample in samples)
    assert samples[0]["sample"]["disk"][0]["path"] == "/" and "cpu_usage_usec" in samples[0]["cgroup"]
    assert all(row["top"][0]["comm"] for row in lines(files["processes.jsonl"]))
    assert [event["data"]["exit_code"] for event in lines(files["events.jsonl"]) if event["type"] == "command_ended"] == [5]
    assert json.loads(files["report.json"])["report_id"] == report["report_id"]
    assert json.loads(files["live.json"])["top_processes"] and "browser" in files["services.json"]
    assert "most memory" in files["summary.txt"] and started["session_id"] in files["summary.txt"]


def test_what_is_not_wanted_is_left_out(server):
    OBSERVE.ask(server, "start", interval_seconds=0.1, include_processes=False, include_disk=False, duration_seconds=600)
    assert eventually(lambda: samples_of(server) >= 2)
    files = unpack(download(server, OBSERVE.ask(server, "export", reason="why not")))
    assert "processes.jsonl" not in files and "disk" not in lines(files["samples.jsonl"])[0]["sample"]
    assert reports(server)[0]["reason"] == "why not"


def test_a_capture_ends_by_itself(server):
    started = OBSERVE.ask(server, "start", interval_seconds=0.5, duration_seconds=1)
    assert eventually(lambda: not ask(server, "status")["running"])
    status = ask(server, "status")
    assert status["mode"] == "off" and status["session_id"] == started["session_id"] and status["last_sample_at"]
    assert OBSERVE.ask(server, "stop") == {"session_id": started["session_id"], "stopped": False, "report_ready": True}
    assert OBSERVE.ask(server, "start")["session_id"] != started["session_id"]


def test_one_observation_at_a_time(server):
    started = OBSERVE.ask(server, "start")
    status, text = OBSERVE.refused(server, "start", mode="guardrail")
    assert status == 409 and started["session_id"] in text
    assert OBSERVE.refused(server, "stop", session_id="obs-other")[0] == 404
    assert ask(server, "status")["running"]


def test_a_key_starts_and_exports_once(server):
    first = OBSERVE.ask(server, "start", idempotency_key="one")
    assert OBSERVE.ask(server, "start", idempotency_key="one", mode="guardrail") == first
    OBSERVE.ask(server, "stop")
    assert OBSERVE.ask(server, "start", idempotency_key="one") == first and not ask(server, "status")["running"]
    report = OBSERVE.ask(server, "export", idempotency_key="two")
    assert OBSERVE.ask(server, "export", idempotency_key="two", reason="other") == report
    assert reports(server) == [report]
    assert OBSERVE.ask(server, "export")["report_id"] != report["report_id"]


def test_many_at_once_with_one_key_start_and_export_once(server):
    found = {"start": set(), "export": set()}

    def many():
        for _ in range(5):
            found["start"].add(OBSERVE.ask(server, "start", idempotency_key="crowd")["session_id"])
            found["export"].add(OBSERVE.ask(server, "export", idempotency_key="crowd")["report_id"])

    threads = [threading.Thread(target=many) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(ids) for ids in found.values()] == [1, 1] and len(reports(server)) == 1


def test_starting_and_stopping_at_once_leaves_one_or_none(server):
    wrong = []

    def churn():
        for _ in range(4):
            for what in ("start", "export", "stop"):
                answer = OBSERVE.send(server, what)
                if answer.status_code not in (200, 404, 409):
                    wrong.append(answer.text)

    threads = [threading.Thread(target=churn) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [] and len(reports(server)) == 16
    assert len(os.listdir(server.home / ".aiobox/observe/sessions")) <= 4


@pytest.mark.parametrize("body", [
    {"mode": "off"}, {"mode": "x"}, {"idempotency_key": "k" * 129}, {"duration_seconds": 0}, {"duration_seconds": 1 << 40},
    {"interval_seconds": 0}, {"interval_seconds": 1e9}, {"include_processes": "perhaps"},
])
def test_what_is_wrong_is_refused(server, body):
    assert OBSERVE.refused(server, "start", **body)[0] == 422
    assert not ask(server, "status")["running"]


def test_exports_are_refused_for_what_there_is_not(server):
    for name in ("obs-20200101T000000000000Z-000000", "../../etc", "obs-/../x", "x" * 5000):
        assert OBSERVE.refused(server, "export", session_id=name)[0] == 404
    assert OBSERVE.refused(server, "export", reason="r" * 201)[0] == 422
    assert OBSERVE.refused(server, "export", idempotency_key="k" * 129)[0] == 422
    assert reports(server) == []


# --- reports ------------------------------------------------------------------------------------


def test_deleting_returns_the_report_and_does_not_cut_a_download(server):
    report = OBSERVE.ask(server, "export")
    whole = download(server, report)
    with server.connect() as peer:
        peer.send(request(f"{PATH}/reports/{report['report_id']}"))
        head = peer.head()
        gone = server.request("DELETE", f"{PATH}/reports/{report['report_id']}").json()["data"]
        assert gone == report and peer.body_of(head).body == whole
    for method in ("GET", "DELETE"):
        assert server.request(method, f"{PATH}/reports/{report['report_id']}").status_code == 404
    assert reports(server) == [] and not Path(report["path"]).exists()


@pytest.mark.parametrize("name", ["x", "report-", "..%2f..%2fetc%2fpasswd", "report-..%2f..", "report-%00", "r" * 3000])
def test_no_other_file_is_reached_by_a_report_s_name(server, name):
    for method in ("GET", "DELETE"):
        assert server.request(method, f"{PATH}/reports/{name}").status_code in (400, 404)


def test_the_oldest_reports_go(server):
    made = [OBSERVE.ask(server, "export", reason=str(i)) for i in range(22)]
    assert reports(server) == made[:1:-1]
    assert len(os.listdir(server.home / ".aiobox/observe/reports")) == 40  # two files each


def test_what_programs_put_among_the_reports_is_neither_followed_nor_waited_for(server, tmp_path):
    report = OBSERVE.ask(server, "export")
    folder, secret = Path(report["path"]).parent, tmp_path / "secret"
    secret.write_text("secret")
    stem = "report-20990101T000000000000Z-00000"
    os.symlink(secret, folder / f"{stem}1.tar.gz")
    os.mkfifo(folder / f"{stem}2.tar.gz")
    os.mkdir(folder / f"{stem}3.tar.gz")
    (folder / f"{stem}4.tar.gz").write_bytes(b"not an archive")
    os.mkfifo(folder / f"{stem}4.json")
    try:
        assert [row["report_id"] for row in reports(server)] == [f"{stem}4", report["report_id"]]
        for i in (1, 2, 3):
            assert server.get(f"{PATH}/reports/{stem}{i}").status_code == 404
            assert server.request("DELETE", f"{PATH}/reports/{stem}{i}").status_code == 404
        assert server.get(f"{PATH}/reports/{stem}4").content == b"not an archive"
    finally:
        for i in (1, 2):
            os.unlink(folder / f"{stem}{i}.tar.gz")
        os.rmdir(folder / f"{stem}3.tar.gz")
    assert secret.read_text() == "secret"


def test_links_in_the_place_of_an_observation_s_files_are_not_followed(server, tmp_path):
    started = OBSERVE.ask(server, "start", interval_seconds=0.1)
    assert eventually(lambda: samples_of(server) >= 1)
    OBSERVE.ask(server, "stop")
    folder, secret = Path(started["runtime_dir"]), tmp_path / "secret"
    secret.write_text("secret words")
    for name in ("samples.jsonl", "session.json"):
        os.unlink(folder / name)
    os.symlink(secret, folder / "samples.jsonl")
    os.mkfifo(folder / "session.json")
    files = unpack(download(server, OBSERVE.ask(server, "export")))
    assert "samples.jsonl" not in files and "session.json" not in files
    assert not any("secret words" in text for text in files.values())


def test_a_directory_that_is_a_link_is_refused(start_server, tmp_path):
    server = start_server()
    (server.home / ".aiobox").mkdir()
    os.symlink(tmp_path, server.home / ".aiobox/observe")
    assert OBSERVE.send(server, "start").status_code >= 400 and OBSERVE.send(server, "export").status_code >= 400
    assert os.listdir(tmp_path) == []


def test_only_its_user_can_read_an_observation(server):
    report, started = OBSERVE.ask(server, "export"), OBSERVE.ask(server, "start", interval_seconds=0.1)
    assert eventually(lambda: samples_of(server) >= 1)
    folder = Path(started["runtime_dir"])
    assert {path.stat().st_mode & 0o777 for path in (Path(report["path"]), *folder.iterdir())} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in (folder, *list(folder.parents)[:3])} == {0o700}


def test_an_observation_outlives_a_server_that_is_killed(start_server, tmp_path):
    with serving(tmp_path, {}) as proc:
        assert eventually(lambda: b"ready" in (tmp_path / "out").read_bytes())
        url = (tmp_path / "out").read_text().split()[4]
        started = httpx.post(f"{url}{PATH}/start", json={"mode": "guardrail", "interval_seconds": 0.1}, trust_env=False,
                             timeout=60).json()["data"]
        samples = Path(started["runtime_dir"]) / "samples.jsonl"
        assert started["ends_at"] is None and eventually(lambda: samples.exists() and samples.read_text().count("\n") >= 3)
        os.kill(children_of(proc.pid)[0], signal.SIGKILL)
        proc.wait(60)
    server = start_server(env={"HOME": str(tmp_path)})
    assert not ask(server, "status")["running"]
    files = unpack(download(server, OBSERVE.ask(server, "export", session_id=started["session_id"])))
    assert len(lines(files["samples.jsonl"])) >= 3 and "has ended" in files["summary.txt"]


# --- guardrails ---------------------------------------------------------------------------------


def test_a_rule_that_is_met_is_an_event_and_a_report_and_ends_nothing(server):
    """A storm of processes: no box is needed for it."""
    started = OBSERVE.ask(server, "start", mode="guardrail", interval_seconds=0.2)
    BASH.ask(server, "exec", command="while :; do for i in {1..400}; do (:) & done; wait; done", async_mode=True)

    def tripped():
        events = server.get("/v1/sandbox/events?type=guardrail_tripped").json()["data"]
        return [event["data"] for event in events if event["data"]["rule"] == "fork_storm"]

    assert eventually(tripped)
    (event,) = tripped()
    assert event["session_id"] == started["session_id"] and "per second (rule: 300 per second)" in event["message"]
    (report,) = [report for report in reports(server) if report["reason"] == "guardrail:fork_storm"]
    assert report["report_id"] == event["report_id"]
    files = unpack(download(server, report))
    assert "fork_storm" in files["summary.txt"] and lines(files["samples.jsonl"])
    (session,) = server.get("/v1/bash/sessions").json()["data"]
    assert session["current_command"]  # it goes on
    assert ask(server, "status")["mode"] == "guardrail" and live(server)["recent_events"]


def test_nothing_runs_while_nothing_is_observed(server):
    threads = server.threads()
    OBSERVE.ask(server, "start")
    assert server.threads() >= threads + 1
    OBSERVE.ask(server, "stop")
    assert eventually(lambda: server.threads() <= threads)
