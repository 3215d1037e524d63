#include "hook/hook_output.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "proc/pump.h"
#include "proc/user.h"

enum { LINE_MAX_BYTES = 1000, LOGGED_MAX = 64 << 10, READS_AT_END = 64 };

struct hook_output {
	struct source source; /* first: see output_of() */
	_Atomic int refs;
	char name[80];
	pthread_mutex_t lock; /* of what follows, and of reading */
	bool ended;
	size_t logged, len;
	char line[LINE_MAX_BYTES + 1], last[LINE_MAX_BYTES + 1];
};

static struct hook_output *output_of(struct source *source)
{
	return (struct hook_output *)source;
}

void hook_output_unref(struct hook_output *output)
{
	if (!output || atomic_fetch_sub(&output->refs, 1) > 1)
		return;
	close(output->source.fd);
	pthread_mutex_destroy(&output->lock);
	free(output);
}

static void log_line(struct hook_output *output)
{
	const struct log_fact facts[] = { { "name", output->name }, { "output", output->line } };
	if (output->logged > LOGGED_MAX)
		return;
	output->logged += output->len + 1;
	if (output->logged > LOGGED_MAX)
		log_warn("hook '%s' prints more than %d KiB: no more of it is logged", output->name,
			 LOGGED_MAX >> 10);
	else
		log_event(LOG_INFO, "hook", facts, COUNT(facts));
}

static void end_line(struct hook_output *output)
{
	output->line[output->len] = 0;
	if (strspn(output->line, " \t\r") < output->len) {
		memcpy(output->last, output->line, output->len + 1);
		log_line(output);
	}
	output->len = 0;
}

/* With the lock. False: there is nothing to be read now, or ever. */
static bool take(struct hook_output *output)
{
	char data[4096];
	ssize_t n = output->ended ? 0 : read(output->source.fd, data, sizeof data);
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		output->ended = true;
	for (ssize_t i = 0; i < n; i++) {
		if (data[i] == '\n' || output->len == LINE_MAX_BYTES)
			end_line(output);
		if (data[i] != '\n' && data[i])
			output->line[output->len++] = data[i];
	}
	return n > 0;
}

static bool output_ready(struct source *source)
{
	struct hook_output *output = output_of(source);
	pthread_mutex_lock(&output->lock);
	(void)take(output);
	bool more = !output->ended;
	pthread_mutex_unlock(&output->lock);
	return more;
}

static void output_done(struct source *source)
{
	struct hook_output *output = output_of(source);
	pthread_mutex_lock(&output->lock);
	end_line(output);
	pthread_mutex_unlock(&output->lock);
	hook_output_unref(output);
}

void hook_output_words(struct hook_output *output, char *to, size_t room)
{
	pthread_mutex_lock(&output->lock);
	for (int i = 0; i < READS_AT_END && take(output); i++)
		;
	output->line[output->len] = 0;
	snprintf(to, room, "%s", output->len ? output->line : output->last);
	pthread_mutex_unlock(&output->lock);
}

struct hook_output *hook_output_open(const char *name, const struct user *user, int *ret_fd,
				     struct err *err)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0) {
		err_set(err, ERR_LIMIT, "no pipe for a hook: %s", strerror(errno));
		return NULL;
	}
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	if (user->other) /* it may open it again by the name /dev/stdout */
		(void)!fchown(ends[1], user->uid, (gid_t)-1);
	struct hook_output *output = xcalloc(1, sizeof *output);
	output->source = (struct source){
		.fd = ends[0], .keep = true, .ready = output_ready, .done = output_done
	};
	output->refs = 2; /* the pump's and the caller's */
	snprintf(output->name, sizeof output->name, "%s", name);
	pthread_mutex_init(&output->lock, NULL);
	if (pump_add(&output->source, err) == 0) {
		*ret_fd = ends[1];
		return output;
	}
	close(ends[1]);
	output->refs = 1;
	hook_output_unref(output);
	return NULL;
}
