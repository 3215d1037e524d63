"""System calls that could lead out of a box, tried by tests/escape/probe.c as gem and as root."""

import re

import pytest

DENIED = {
    "mounting": "mount_tmpfs mount_bind remount_proc_sys umount_mask open_tree_root fsopen_tmpfs "
    "move_mount_root mount_setattr_root pivot by_handle",
    "namespaces": "setns_init setns_self clone3_newns clone_ns unshare_ns unshare_uts unshare_ipc "
    "unshare_cgroup unshare_time",
    "nested user namespace": "nested_ns nested_mount",
    "the machine": "load_module load_module_fd kexec reboot_machine swap_on set_time read_syslog port_io",
    "large parts of the kernel": "keyctl_call add_key_call bpf_call perf userfaultfd_call io_uring aio_setup",
    "sockets": "af_packet af_vsock af_alg netfilter mptcp udplite sctp",
    "iptables": "closed_options nested_iptables nested_ip6tables nested_iptables_by_ipv6 nested_arptables nested_ebtables",
    "socket filters": "socket_filter reuseport_filter",
    "other call tables": "call_i386 call_x32 future_call",
    "CVE-2017-5226 TIOCSTI": "tiocsti",
    "CVE-2019-5736 replacing the program": "write_exe_init write_exe_server write_program "
    "replace_program remove_program",
    "CVE-2024-21626 leaked descriptors": "leaked_descriptor leaked_cwd",
    "the box's own processes": "ptrace_init ptrace_server ptrace_cradle read_server take_descriptor",
    "devices": "make_disk make_mem",
    "chroot": "chroot_out",
}
# What glibc, Chromium or Node.js fall back on, only when they get exactly this answer.
EXACT = {
    "clone3_newns": "ENOSYS",
    "io_uring": "ENOSYS",
    "aio_setup": "ENOSYS",
    "future_call": "ENOSYS",
    "af_vsock": "EAFNOSUPPORT",
    "netfilter": "EAFNOSUPPORT",
    **dict.fromkeys("mptcp udplite sctp".split(), "EPROTONOSUPPORT"),
    **dict.fromkeys("closed_options nested_iptables nested_ip6tables socket_filter reuseport_filter".split(), "ENOPROTOOPT"),
}
NEEDED = "unshare_user nested_net_pid netlink_route af_inet raw_socket open_options"


def probe(box, root, names):
    said = dict(line.split() for line in box.out(f"/probe {names}", root).splitlines())
    assert sorted(said) == sorted(names.split())
    return said


@pytest.mark.parametrize("kind", DENIED)
def test_denied(box, root, kind):
    said = probe(box, root, DENIED[kind])
    assert not [name for name, answer in said.items() if not re.fullmatch("E[A-Z]+", answer)], said
    for name in set(said) & set(EXACT):
        assert said[name] == EXACT[name]


def test_what_programs_need_is_allowed(box, root):
    assert set(probe(box, root, NEEDED).values()) == {"OK"}


def test_root_has_no_dangerous_capability(box):
    status = box.out("cat /proc/self/status", root=True)
    bounding = int(re.search(r"CapBnd:\s*(\w+)", status)[1], 16)
    for number, name in {21: "SYS_ADMIN", 24: "SYS_RESOURCE", 16: "SYS_MODULE", 19: "SYS_PTRACE",
                         12: "NET_ADMIN", 2: "DAC_READ_SEARCH", 17: "SYS_RAWIO", 25: "SYS_TIME"}.items():
        assert not bounding >> number & 1, name
    assert bounding == 0xA80425FB  # what a container gets
    assert re.search(r"Seccomp:\s*2", status)
    assert re.search(r"NoNewPrivs:\s*0", status)


def test_cve_2022_0492_release_agent(box, root):
    command = (
        "for f in $(find / -name release_agent -not -path '/proc/[0-9]*' 2>/dev/null); do echo $f; done; "
        "unshare -UrmC true 2>/dev/null && echo unshared; "
        "mkdir -p /tmp/cg && mount -t cgroup -o memory cgroup /tmp/cg 2>/dev/null && echo mounted; rmdir /tmp/cg"
    )
    assert box.out(command, root) == ""


@pytest.mark.parametrize(
    "path",
    [
        "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/vm/overcommit_memory",
        "/proc/sys/user/max_user_namespaces", "/proc/sys/user/max_mnt_namespaces",
        "/proc/sys/kernel/hostname", "/proc/sys/fs/binfmt_misc/register", "/proc/sysrq-trigger",
        "/proc/irq/default_smp_affinity", "/sys/kernel/uevent_helper", "/sys/power/state",
        "/sys/class/net/lo/mtu", "/proc/1/oom_score_adj", "/proc/2/oom_score_adj",
    ],
)
def test_kernel_files_cannot_be_written(box, root, path):
    data = box.run(f"echo x > {path}", root)
    # What is masked is /dev/null: it takes everything, and nothing comes of it.
    masked = box.run(f"test -c {path}", root)["exit_code"] == 0
    assert data["exit_code"] != 0 or masked


@pytest.mark.parametrize("path", ["/proc/cmdline", "/proc/kcore", "/proc/keys", "/proc/kallsyms", "/proc/timer_list", "/sys/firmware", "/sys/kernel"])
def test_kernel_files_tell_nothing(box, root, path):
    assert box.run(f"test -d {path} && ls -A {path} || head -c 100 {path}", root)["stdout"] == ""
