/* Code run in a kernel: a request on shell; its outputs come on iopub, ended by the status "idle", and
 * a reply on shell. Both have to be there, in either order.
 *
 * Other clients may run code in the same kernel, which takes one request after the other. So a request whose time is
 * up may still be waiting: it is withdrawn then, and what runs is left alone. A kernel that knows no such
 * message is waited for until the request begins, to be interrupted at once. An error in another
 * client's code may have the kernel refuse all that waits ("aborted"): ours is sent again. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "base/wait.h"
#include "kernel/kernel_message.h"
#include "kernel/kernel_state.h"
#include "kernel/zsock.h"

enum {
	INTERRUPT_MS = 2000, /* until it is interrupted again, */
	INTERRUPTS = 2,      /* so often; then it is ended */
	IDLE_MS = 10000,     /* for the outputs to end after the reply */
	LAST_MS = 50,        /* for what a kernel said just before it died, */
	LAST_MOST_MS = 2000, /* and for all of it */
	QUIET_MS = 4,        /* for short code: its outputs are taken at once, with its reply */
	EXIT_MS = 1000,      /* for a kernel to end that was told to, by its code */
};

static const int64_t NEVER_MS = INT64_MAX;

struct kernel_execution {
	struct kernel *kernel;
	const struct wait *wait;
	kernel_sink *sink;
	void *arg;
	struct kernel_result *result;
	bool begun, replied, idle, failed, asked, left, timed_out, stopping, exits;
	bool aborted;   /* the kernel has refused it, for an error in other code */
	bool withdrawn; /* the kernel will not begin it */
	char withdrawal[64];
	int interrupts;
	int64_t quiet_ms; /* until then outputs wake nobody: each time would disturb the kernel */
	int64_t next_ms;  /* when to interrupt next, or to give up waiting for outputs */
};

static void give(struct kernel_execution *run, const char *type, const json_t *content)
{
	if (!run->left && run->sink(run->arg, type, content) < 0)
		run->left = true;
}

/* What a pager would show ("len?") comes with the reply, and that the kernel goes ("exit"). */
static void take_payload(struct kernel_execution *run, const json_t *payload)
{
	size_t index;
	json_t *each;
	json_array_foreach(payload, index, each) {
		const char *source = json_string_value(json_object_get(each, "source"));
		if (source && !strcmp(source, "page"))
			give(run, "display_data", each);
		else if (source && !strcmp(source, "ask_exit"))
			run->exits = !json_is_true(json_object_get(each, "keepkernel"));
	}
}

/* Commands that fail have a number to say, and a name for it, or none. */
static int64_t exit_code(const json_t *content)
{
	const char *name = json_string_value(json_object_get(content, "ename"));
	const char *text = json_string_value(json_object_get(content, "evalue"));
	bool number = name && text && (!*name || !strcmp(name, "ExitStatus")) && *text &&
		      strlen(text) < 4 && !text[strspn(text, "0123456789")];
	return number ? strtol(text, NULL, 10) : INT_ABSENT;
}

static void take_reply(struct kernel_execution *run, const struct message *message,
		       const json_t *content)
{
	const char *status = json_string_value(json_object_get(content, "status"));
	const json_t *count = json_object_get(content, "execution_count");
	if (strcmp(message->type, "execute_reply") != 0)
		return;
	run->replied = true;
	run->aborted = status && !strcmp(status, "aborted");
	run->failed = !status || strcmp(status, "ok") != 0;
	if (run->failed)
		run->result->exit_code = exit_code(content);
	if (json_is_integer(count))
		run->result->count = json_integer_value(count);
	take_payload(run, json_object_get(content, "payload"));
	run->next_ms = clock_ms() + IDLE_MS;
}

static void take_output(struct kernel_execution *run, const struct message *message,
			const json_t *content)
{
	const char *state = json_string_value(json_object_get(content, "execution_state"));
	if (strcmp(message->type, "status") != 0) {
		give(run, message->type, content);
	} else if (state && !strcmp(state, "busy")) {
		run->begun = true;
		if (run->next_ms == NEVER_MS) /* it was waited for, to be interrupted */
			run->next_ms = clock_ms();
	} else if (state && !strcmp(state, "idle")) {
		run->idle = true;
	}
}

/* Nobody can type. ipykernel says so itself, as no request of ours allows it to ask; others ask. */
static void take_question(struct kernel_execution *run, const struct message *message,
			  const json_t *content)
{
	const char *prompt = json_string_value(json_object_get(content, "prompt"));
	if (strcmp(message->type, "input_request") != 0 || run->asked)
		return;
	run->asked = true;
	auto_free char *text =
		xasprintf("the code asks for input (%.200s), which is not available here",
			  prompt && *prompt ? prompt : "without a prompt");
	json_t *error = json_object();
	json_object_set_new(error, "ename", json_string("StdinNotImplementedError"));
	json_object_set_new(error, "evalue", json_string(text));
	json_object_set_new(error, "traceback", json_array());
	give(run, "error", error);
	json_decref(error);
}

/* The code comes back on iopub, for those who did not send it. */
static bool wanted(const struct kernel_execution *run, const struct message *message)
{
	return *run->result->id && kernel_message_answers(message, run->result->id) &&
	       strcmp(message->type, "execute_input") != 0;
}

/* Takes all that is there. Messages of earlier executions, and forged ones, are dropped. */
static void take_all(struct kernel_execution *run, struct zsock *from)
{
	const struct text *frames;
	struct message message;
	struct err err;
	for (size_t n; (n = zsock_recv(from, &frames));) {
		bool right = kernel_message_read(frames, n, run->kernel->signs, &message, &err) ==
			     0;
		if (right && !wanted(run, &message))
			continue;
		json_t *content = right ? kernel_message_content(&message, &err) : NULL;
		if (!content)
			run->result->lost |= err.code != ERR_FORBIDDEN;
		else if (from == run->kernel->iopub)
			take_output(run, &message, content);
		else if (from == run->kernel->shell)
			take_reply(run, &message, content);
		else
			take_question(run, &message, content);
		json_decref(content);
	}
}

static void withdraw(struct kernel_execution *run)
{
	struct kernel *kernel = run->kernel;
	struct buf content = BUF(128);
	(void)buf_printf(&content, "{\"msg_id\":\"%s\"}", run->result->id);
	if (!kernel->control)
		kernel->control =
			kernel_open_channel(kernel, CHANNEL_CONTROL, kernel->session, NULL);
	if (kernel->control)
		(void)kernel_send(kernel, kernel->control, KERNEL_WITHDRAW, &content,
				  run->withdrawal, NULL);
	buf_done(&content);
}

/* Whether the kernel has begun with what was withdrawn. */
static void take_control(struct kernel_execution *run)
{
	struct kernel *kernel = run->kernel;
	const struct text *frames;
	struct message message;
	for (size_t n; kernel->control && (n = zsock_recv(kernel->control, &frames));) {
		bool right = kernel_message_read(frames, n, kernel->signs, &message, NULL) == 0 &&
			     *run->withdrawal && kernel_message_answers(&message, run->withdrawal);
		json_t *content = right ? kernel_message_content(&message, NULL) : NULL;
		if (json_is_false(json_object_get(content, "begun")))
			run->withdrawn = true;
		json_decref(content);
	}
}

/* Its time is up, or nobody waits any more: interrupts it; when that does not help, ends it. */
static void press(struct kernel_execution *run)
{
	struct kernel *kernel = run->kernel;
	run->next_ms = clock_ms() + INTERRUPT_MS;
	if (kernel->withdraws && !run->interrupts) {
		withdraw(run);
	} else if (!run->begun) {
		/* What does not even answer is busy with other code, and takes this to heart after it. */
		run->withdrawn = kernel->withdraws;
		run->next_ms = NEVER_MS;
		return;
	} else if (run->interrupts < INTERRUPTS) {
		(void)kernel_interrupt(kernel, NULL);
	} else {
		kernel_end(kernel);
		run->result->killed = true;
	}
	run->interrupts++;
}

/* False when there is nothing to wait for any more. */
static bool wait_more(struct kernel_execution *run)
{
	struct kernel *kernel = run->kernel;
	int64_t quiet = run->quiet_ms - clock_ms();
	bool deaf = quiet > 0 && !run->replied;
	struct pollfd fds[] = {
		{ .fd = deaf ? -1 : zsock_fd(kernel->iopub), .events = POLLIN },
		{ .fd = zsock_fd(kernel->shell), .events = POLLIN },
		{ .fd = kernel->wake_fd, .events = POLLIN },
		{ .fd = kernel->input ? zsock_fd(kernel->input) : -1, .events = POLLIN },
		{ .fd = kernel->control ? zsock_fd(kernel->control) : -1, .events = POLLIN },
	};
	struct wait next = { deaf ? run->quiet_ms : run->next_ms,
			     run->left ? -1 : run->wait->client_fd, run->wait->stop_fd };
	enum wake wake = wait_stream(&next, fds, COUNT(fds));
	eventfd_t ignored;
	if (fds[2].revents)
		(void)eventfd_read(kernel->wake_fd, &ignored);
	run->stopping = wake == WAKE_STOPPING;
	if (run->stopping)
		return false;
	run->left = run->left || wake == WAKE_LEFT;
	if (fds[3].revents)
		take_all(run, kernel->input);
	if (fds[4].revents)
		take_control(run);
	if ((run->left || run->asked) && !run->interrupts && !run->replied)
		press(run);
	if (clock_ms() < run->next_ms)
		return true;
	if (run->replied) {
		run->result->lost = true;
		return false;
	}
	if (run->interrupts && run->idle)
		return false; /* interrupted before the code had begun, it has ended without a reply */
	run->timed_out |= !run->left && !run->asked;
	press(run);
	return true;
}

/* What a kernel that has just died had said before may still be on its way. */
static void take_last(struct kernel_execution *run)
{
	int fd = zsock_fd(run->kernel->iopub);
	int64_t most_ms = clock_ms() + LAST_MOST_MS; /* what it has started may go on talking */
	take_all(run, run->kernel->shell);
	do
		take_all(run, run->kernel->iopub);
	while (zsock_fd(run->kernel->iopub) >= 0 && clock_ms() < most_ms &&
	       wait_until(fd, POLLIN, clock_ms() + LAST_MS));
}

/* Else what is asked next would run in a kernel that is about to go, or be lost. */
static void await_exit(struct kernel *kernel)
{
	const struct wait wait = { clock_ms() + EXIT_MS, -1, -1 };
	if (kernel->program)
		(void)program_wait(kernel->program, &wait, NULL);
	kernel_end(kernel);
}

static enum kernel_outcome outcome(const struct kernel_execution *run)
{
	if (run->stopping)
		return KERNEL_STOPPING;
	if (run->left)
		return KERNEL_LEFT;
	if (run->timed_out)
		return KERNEL_TIMEOUT;
	if (!run->replied)
		return KERNEL_DIED;
	return run->failed || run->asked ? KERNEL_ERROR : KERNEL_OK;
}

static int request(struct kernel_execution *run, const struct kernel_job *job, struct err *err)
{
	struct jw jw;
	jw_init(&jw, SIZE_MAX / 2);
	jw_open(&jw, '{');
	jw_key(&jw, "code");
	jw_text(&jw, job->code.data, job->code.len);
	jw_key_bool(&jw, "silent", job->silent);
	jw_key_bool(&jw, "store_history", !job->silent);
	jw_key_bool(&jw, "allow_stdin", false);
	jw_key_bool(&jw, "stop_on_error", false);
	jw_key(&jw, "user_expressions");
	jw_open(&jw, '{');
	jw_close(&jw, '}');
	jw_close(&jw, '}');
	return kernel_send(run->kernel, run->kernel->shell, "execute_request", &jw.out,
			   run->result->id, err);
}

/* The kernel has refused it, for an error in what another client ran: once more, unless its time is up. */
static int request_again(struct kernel_execution *run, const struct kernel_job *job,
			 struct err *err)
{
	run->aborted = false;
	if (run->timed_out || run->left || run->withdrawn) {
		run->withdrawn = true;
		return 0;
	}
	run->begun = run->replied = run->idle = run->failed = false;
	run->next_ms = run->wait->until_ms;
	return request(run, job, err);
}

void kernel_rest(struct kernel *kernel)
{
	if (!kernel->welcomes) /* it keeps so much and no more, and drops the rest */
		return;
	zsock_free(kernel->iopub);
	kernel->iopub = NULL;
}

/* Hears its outputs again. */
static int listen_again(struct kernel *kernel, const struct wait *wait, struct err *err)
{
	if (!kernel->iopub)
		kernel->iopub = kernel_open_channel(kernel, CHANNEL_IOPUB, "", err);
	return kernel->iopub ? kernel_await_welcome(kernel, wait, err) : -1;
}

/* It has ended, or its time was up while the kernel was too busy even to greet us. */
static int not_heard(struct kernel *kernel, const struct wait *wait, struct kernel_result *ret,
		     const struct err *err)
{
	bool gone = err->code == ESRCH || err->code == ECONNREFUSED || err->code == ENOENT;
	kernel_rest(kernel);
	if (gone)
		kernel_end(kernel);
	ret->outcome = gone ? KERNEL_DIED : KERNEL_TIMEOUT;
	ret->unbegun = !gone;
	return gone || clock_ms() >= wait->until_ms ? 0 : -1;
}

/* Without these it is of no use to anybody. */
static void end_unreachable(struct kernel *kernel)
{
	if (zsock_fd(kernel->shell) < 0 || zsock_fd(kernel->iopub) < 0)
		kernel_end(kernel);
}

static bool goes_on(struct kernel_execution *run)
{
	return !(run->replied && run->idle) && !run->withdrawn && !kernel_ended(run->kernel) &&
	       wait_more(run);
}

int kernel_run(struct kernel *kernel, const struct kernel_job *job, const struct wait *wait,
	       kernel_sink *sink, void *arg, struct kernel_result *ret, struct err *err)
{
	struct kernel_execution run = { .kernel = kernel,
					.wait = wait,
					.sink = sink,
					.arg = arg,
					.result = ret,
					.quiet_ms = job->prompt ? 0 : clock_ms() + QUIET_MS,
					.next_ms = wait->until_ms };
	*ret = (struct kernel_result){ .count = INT_ABSENT, .exit_code = INT_ABSENT };
	if (!kernel->iopub && listen_again(kernel, wait, err) < 0)
		return not_heard(kernel, wait, ret, err);
	take_all(&run, kernel->iopub); /* what came since: nobody asked for it */
	take_all(&run, kernel->shell);
	if (request(&run, job, err) < 0)
		return -1;
	uint64_t dropped = zsock_dropped(kernel->iopub);
	while (goes_on(&run)) {
		take_all(&run, kernel->iopub);
		take_all(&run, kernel->shell);
		end_unreachable(kernel);
		if (run.aborted && request_again(&run, job, err) < 0)
			return -1;
	}
	if (!run.idle && kernel_ended(kernel))
		take_last(&run);
	if (run.exits)
		await_exit(kernel);
	ret->unbegun = run.withdrawn;
	ret->lost |= zsock_dropped(kernel->iopub) != dropped;
	ret->outcome = outcome(&run);
	return 0;
}
