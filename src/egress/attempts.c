#include "egress/attempts.h"

#include <errno.h>
#include <linux/bpf.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"

enum {
	WATCHED_MAX = 65536,
	EACH = 48,   /* one of a cgroup in so many units of 2^20 ns, about 20 a second, */
	BURST = 100, /* and so many in a row */
	PROGRAM_MAX = 64,
};

struct attempts {
	int watched; /* map: from a cgroup to when it may report the next, less a burst */
	int queue;   /* of struct attempt */
	int hooks[4];
};

/* All of it is zero, which an initializer of one member does not promise. */
static const union bpf_attr none;

static int bpf(int command, union bpf_attr *attr)
{
	return (int)syscall(SYS_bpf, command, attr, sizeof *attr);
}

/* ---- the program ---- */

/* clang-format off */
enum { R0, R1, R2, R3, CONTEXT = 6, ROW, FRAME = 10 };

/* Jumps to the end of the piece, or of the program; maps, which are known when it is loaded. */
enum { NEXT = INT16_MAX - 1, OUT };
enum { WATCHED, QUEUE };
enum { LOAD_WIDE = BPF_LD | BPF_DW }; /* | BPF_IMM, which is 0 */

#define OP(op, dst, src, to, value) \
	{ .code = (op), .dst_reg = (dst), .src_reg = (src), .off = (to), .imm = (value) }
#define SET(dst, value)            OP(BPF_ALU64 | BPF_MOV | BPF_K, dst, 0, 0, value)
#define COPY(dst, src)             OP(BPF_ALU64 | BPF_MOV | BPF_X, dst, src, 0, 0)
#define ADD(dst, value)            OP(BPF_ALU64 | BPF_ADD | BPF_K, dst, 0, 0, value)
#define SHIFT(dst, bits)           OP(BPF_ALU64 | BPF_RSH | BPF_K, dst, 0, 0, bits)
#define SWAP(dst, bits)            OP(BPF_ALU | BPF_END | BPF_TO_BE, dst, 0, 0, bits)
#define LOAD(size, dst, src, from) OP(BPF_LDX | BPF_MEM | (size), dst, src, from, 0)
#define STORE(size, dst, to, src)  OP(BPF_STX | BPF_MEM | (size), dst, src, to, 0)
#define IF(reg, test, value, to)   OP(BPF_JMP | (test) | BPF_K, reg, 0, to, value)
#define IF_REG(reg, test, src, to) OP(BPF_JMP | (test) | BPF_X, reg, src, to, 0)
#define CALL(function)             OP(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_##function)
#define MAP(dst, map)              OP(LOAD_WIDE, dst, BPF_PSEUDO_MAP_FD, 0, map), \
				   OP(0, 0, 0, 0, 0)

#define SEEN(field) offsetof(struct bpf_sock_addr, field)
/* The attempt is made at the end of the program's stack. */
#define MADE(field) ((int)offsetof(struct attempt, field) - (int)sizeof(struct attempt))

static const struct bpf_insn take_v4[] = {
	COPY(CONTEXT, R1),
	SET(R1, 0),
	STORE(BPF_DW, FRAME, MADE(to), R1),
	SET(R1, 0xffff),
	SWAP(R1, 32),
	STORE(BPF_W, FRAME, MADE(to) + 8, R1),
	LOAD(BPF_W, R1, CONTEXT, SEEN(user_ip4)),
	STORE(BPF_W, FRAME, MADE(to) + 12, R1),
};

static const struct bpf_insn take_v6[] = {
	COPY(CONTEXT, R1),
	LOAD(BPF_W, R1, CONTEXT, SEEN(user_ip6[0])),
	STORE(BPF_W, FRAME, MADE(to), R1),
	LOAD(BPF_W, R1, CONTEXT, SEEN(user_ip6[1])),
	STORE(BPF_W, FRAME, MADE(to) + 4, R1),
	LOAD(BPF_W, R1, CONTEXT, SEEN(user_ip6[2])),
	STORE(BPF_W, FRAME, MADE(to) + 8, R1),
	LOAD(BPF_W, R1, CONTEXT, SEEN(user_ip6[3])),
	STORE(BPF_W, FRAME, MADE(to) + 12, R1),
};

/* ::, ::1, 0.0.0.0 and 127.0.0.0/8 are inside. */
static const struct bpf_insn leave_inside[] = {
	LOAD(BPF_W, R1, FRAME, MADE(to)),
	IF(R1, BPF_JNE, 0, NEXT),
	LOAD(BPF_W, R1, FRAME, MADE(to) + 4),
	IF(R1, BPF_JNE, 0, NEXT),
	LOAD(BPF_W, R1, FRAME, MADE(to) + 8),
	IF(R1, BPF_JEQ, 0, OUT),
	SWAP(R1, 32),
	IF(R1, BPF_JNE, 0xffff, NEXT),
	LOAD(BPF_W, R1, FRAME, MADE(to) + 12),
	IF(R1, BPF_JEQ, 0, OUT),
	SWAP(R1, 32),
	SHIFT(R1, 24),
	IF(R1, BPF_JEQ, 127, OUT),
};

static const struct bpf_insn find_row[] = {
	CALL(get_current_cgroup_id),
	STORE(BPF_DW, FRAME, MADE(group), R0),
	MAP(R1, WATCHED),
	COPY(R2, FRAME),
	ADD(R2, MADE(group)),
	CALL(map_lookup_elem),
	IF(R0, BPF_JEQ, 0, OUT),
	COPY(ROW, R0),
};

/* Two processors may both take the last: that is one more. */
static const struct bpf_insn take_turn[] = {
	CALL(ktime_get_ns),
	SHIFT(R0, 20),
	LOAD(BPF_DW, R1, ROW, 0),
	IF_REG(R1, BPF_JSGT, R0, OUT),
	ADD(R0, -BURST * EACH),
	IF_REG(R1, BPF_JSGT, R0, 1),
	COPY(R1, R0),
	ADD(R1, EACH),
	STORE(BPF_DW, ROW, 0, R1),
};

static const struct bpf_insn report[] = {
	LOAD(BPF_W, R1, CONTEXT, SEEN(user_port)),
	SWAP(R1, 16),
	STORE(BPF_W, FRAME, MADE(port), R1),
	SET(R1, 0),
	STORE(BPF_W, FRAME, MADE(unused), R1),
	MAP(R1, QUEUE),
	COPY(R2, FRAME),
	ADD(R2, MADE(to)),
	SET(R3, 0),
	CALL(map_push_elem),
};

/* The call goes on as it would. */
static const struct bpf_insn let_be[] = {
	SET(R0, 1),
	OP(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
};

static const struct piece { const struct bpf_insn *list; size_t count; } pieces[][6] = {
#define PIECE(list) { list, COUNT(list) }
#define REST PIECE(leave_inside), PIECE(find_row), PIECE(take_turn), PIECE(report), PIECE(let_be)
	{ PIECE(take_v4), REST }, { PIECE(take_v6), REST },
};

static const struct { enum bpf_attach_type at; int pieces; } hooks[] = {
	{ BPF_CGROUP_INET4_CONNECT, 0 }, { BPF_CGROUP_UDP4_SENDMSG, 0 },
	{ BPF_CGROUP_INET6_CONNECT, 1 }, { BPF_CGROUP_UDP6_SENDMSG, 1 },
};
/* clang-format on */

static size_t join(const struct piece *piece, size_t count, struct bpf_insn to[PROGRAM_MAX])
{
	size_t len = 0;
	for (size_t p = 0; p < count; p++)
		for (size_t i = 0; i < piece[p].count; i++, len++) {
			to[len] = piece[p].list[i];
			if (to[len].off == NEXT)
				to[len].off = (int16_t)(piece[p].count - i - 1);
		}
	size_t last = len - piece[count - 1].count;
	for (size_t i = 0; i < last; i++)
		if (to[i].off == OUT)
			to[i].off = (int16_t)(last - i - 1);
	return len;
}

static int load(const struct attempts *attempts, int hook)
{
	struct bpf_insn program[PROGRAM_MAX];
	size_t len = join(pieces[hooks[hook].pieces], COUNT(pieces[0]), program);
	for (size_t i = 0; i < len; i++)
		if (program[i].src_reg == BPF_PSEUDO_MAP_FD && program[i].code == LOAD_WIDE)
			program[i].imm = program[i].imm == QUEUE ? attempts->queue
								 : attempts->watched;
	union bpf_attr attr = none;
	attr.prog_type = BPF_PROG_TYPE_CGROUP_SOCK_ADDR;
	attr.expected_attach_type = hooks[hook].at;
	attr.insns = (uintptr_t)program;
	attr.insn_cnt = (uint32_t)len;
	attr.license = (uintptr_t) "";
	snprintf(attr.prog_name, sizeof attr.prog_name, "aio_attempts");
	return bpf(BPF_PROG_LOAD, &attr);
}

/* It ends with the descriptor of the link. */
static int attach(const struct attempts *attempts, int hook, int groups)
{
	auto_close int program = load(attempts, hook);
	union bpf_attr attr = none;
	attr.link_create.prog_fd = (uint32_t)program;
	attr.link_create.target_fd = (uint32_t)groups;
	attr.link_create.attach_type = hooks[hook].at;
	return program < 0 ? -1 : bpf(BPF_LINK_CREATE, &attr);
}

/* ---- what the host does with it ---- */

static int make_map(enum bpf_map_type type, uint32_t key, uint32_t value, uint32_t count,
		    uint32_t flags)
{
	union bpf_attr attr = none;
	attr.map_type = type;
	attr.key_size = key;
	attr.value_size = value;
	attr.max_entries = count;
	attr.map_flags = flags;
	return bpf(BPF_MAP_CREATE, &attr);
}

static int set_up(struct attempts *attempts, int groups)
{
	attempts->watched = make_map(BPF_MAP_TYPE_HASH, sizeof(uint64_t), sizeof(uint64_t),
				     WATCHED_MAX, BPF_F_NO_PREALLOC);
	attempts->queue = make_map(BPF_MAP_TYPE_QUEUE, 0, sizeof(struct attempt), ATTEMPTS_MAX, 0);
	if (attempts->watched < 0 || attempts->queue < 0)
		return -1;
	for (int i = 0; i < (int)COUNT(hooks); i++)
		if ((attempts->hooks[i] = attach(attempts, i, groups)) < 0)
			return -1;
	return 0;
}

struct attempts *attempts_open(int groups, struct err *err)
{
	struct attempts *attempts = xmalloc(sizeof *attempts);
	*attempts = (struct attempts){ -1, -1, { -1, -1, -1, -1 } };
	if (set_up(attempts, groups) == 0)
		return attempts;
	err_set(err, errno, "a BPF program for the cgroup of the boxes");
	attempts_close(attempts);
	return NULL;
}

void attempts_close(struct attempts *attempts)
{
	if (!attempts)
		return;
	for (size_t i = 0; i < COUNT(attempts->hooks); i++)
		own_close(&attempts->hooks[i]);
	own_close(&attempts->queue);
	own_close(&attempts->watched);
	free(attempts);
}

void attempts_watch(struct attempts *attempts, uint64_t group)
{
	const uint64_t never = 0;
	union bpf_attr attr = none;
	attr.map_fd = (uint32_t)attempts->watched;
	attr.key = (uintptr_t)&group;
	attr.value = (uintptr_t)&never;
	(void)bpf(BPF_MAP_UPDATE_ELEM, &attr);
}

void attempts_forget(struct attempts *attempts, uint64_t group)
{
	union bpf_attr attr = none;
	attr.map_fd = (uint32_t)attempts->watched;
	attr.key = (uintptr_t)&group;
	(void)bpf(BPF_MAP_DELETE_ELEM, &attr);
}

bool attempts_next(struct attempts *attempts, struct attempt *ret)
{
	union bpf_attr attr = none;
	attr.map_fd = (uint32_t)attempts->queue;
	attr.value = (uintptr_t)ret;
	return bpf(BPF_MAP_LOOKUP_AND_DELETE_ELEM, &attr) == 0;
}
