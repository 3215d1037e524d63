"""Observing a box: its own processes and its own cgroup, and the rules of guardrail mode at its limits."""

from harness import eventually

PATH = "/v1/sandbox/observe"
MIB = 1 << 20


def ask(box, method, what, **body):
    answer = box.request(method, f"{PATH}/{what}", **({"json": body} if method == "POST" else {}))
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def test_a_box_is_seen_alone_and_with_its_limits(host):
    box = host.create(limits={"memory": "256M", "pids": 200, "cpus": 0.5})
    box.begin("exec -a burner python3 -c 'x = bytearray(64 << 20)\nwhile True: pass'")

    def busy():
        seen = ask(box, "GET", "live?top_rows=1000")
        cgroup = seen["cgroup"]
        return seen if cgroup["cpu_usage_pct"] > 20 and cgroup["mem_current_bytes"] > 64 * MIB and cgroup["cpu_nr_throttled"] else None

    seen = eventually(busy)
    assert seen
    cgroup, first = seen["cgroup"], seen["top_processes"][0]
    assert cgroup["mem_max_bytes"] == 256 * MIB and 25 <= cgroup["mem_usage_pct"] <= 100
    assert cgroup["cpu_usage_pct"] < 90 and cgroup["cpu_throttled_usec"] > 0 and cgroup["oom_kill"] == 0
    assert 64 * MIB <= cgroup["memory_anon_bytes"] <= cgroup["mem_current_bytes"]
    assert first["comm"] == "python3" and first["user"] == "gem" and first["rss_mib"] >= 64
    assert len(seen["top_processes"]) < 30 and {row["user"] for row in seen["top_processes"]} <= {"root", "gem"}
    box.delete()


def test_what_a_box_does_at_its_limits_is_reported_and_not_ended(host):
    box = host.create(limits={"memory": "192M", "pids": 100})
    session = ask(box, "POST", "start", mode="guardrail", interval_seconds=0.2)["session_id"]
    box.begin("for i in {1..90}; do sleep 1000 & done; wait")
    box.run("python3 -c 'x = bytearray(1 << 30)' || true; echo done")

    def tripped():
        events = box.request("GET", "/v1/sandbox/events?type=guardrail_tripped").json()["data"]
        found = {event["data"]["rule"]: event["data"] for event in events}
        return found if {"oom_kill", "tasks"} <= set(found) else None

    found = eventually(tripped)
    assert found and found["oom_kill"]["session_id"] == session and "of their limit: " in found["tasks"]["message"]
    reasons = {report["report_id"]: report["reason"] for report in ask(box, "GET", "reports")}
    assert reasons[found["oom_kill"]["report_id"]] == "guardrail:oom_kill"
    assert reasons[found["tasks"]["report_id"]] == "guardrail:tasks"
    assert box.count("^sleep 1000") == 90
    files = box.run(f"tar -tzf ~/.aiobox/observe/reports/{found['tasks']['report_id']}.tar.gz").split()
    assert {"summary.txt", "samples.jsonl", "events.jsonl"} <= set(files)
    assert box.run("stat -c '%U %a' ~/.aiobox/observe/reports") == "gem 700\n"
    box.delete()
