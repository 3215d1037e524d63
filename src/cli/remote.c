#include "cli/remote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "net/client.h"
#include "net/dial.h"

enum { ANSWER_MAX = 64 << 20 };

static int read_line(const struct remote *remote, const char *name, char *to, size_t room,
		     struct err *err)
{
	auto_free char *path = xasprintf("%s/%s", remote->state, name);
	FILE *file = fopen(path, "re");
	if (!file)
		return errno == EACCES
			       ? err_set(err, ERR_FORBIDDEN,
					 "'%s' is root's: use sudo, or set AIO_URL and AIO_HOST_TOKEN",
					 path)
			       : err_set(err, ERR_UNAVAILABLE,
					 "no host has run on '%s' (see 'aio up')", remote->state);
	if (!fgets(to, (int)room, file))
		*to = 0;
	to[strcspn(to, "\n")] = 0;
	fclose(file);
	return 0;
}

const char *remote_state(void)
{
	const char *state = getenv("AIO_STATE");
	return state && *state ? state : "/var/lib/aiobox";
}

int remote_find(struct remote *remote, struct err *err)
{
	const char *url = getenv("AIO_URL"), *token = getenv("AIO_HOST_TOKEN");
	if (url && *url)
		snprintf(remote->url, sizeof remote->url, "%s", url);
	else if (read_line(remote, "url", remote->url, sizeof remote->url, err) < 0)
		return -1;
	if (token && *token)
		snprintf(remote->token, sizeof remote->token, "%s", token);
	else if (read_line(remote, "token", remote->token, sizeof remote->token, err) < 0)
		return -1;
	return 0;
}

/* The API's word for a box, where it says which. */
static void say_box(char *msg)
{
	static const char word[] = "sandbox '";
	for (char *at = msg; (at = strstr(at, word)); at++)
		if (at == msg || at[-1] == ' ')
			memmove(at, at + 4, strlen(at + 4) + 1);
}

void remote_error(int status, const json_t *answer, struct err *err)
{
	const char *text = json_string_value(json_object_get(answer, "message"));
	json_t *detail = json_object_get(answer, "detail");
	if (!text)
		text = json_string_value(detail);
	json_t *first = json_array_get(detail, 0), *loc = json_object_get(first, "loc");
	const char *field = json_string_value(json_array_get(loc, json_array_size(loc) - 1));
	const char *msg = json_string_value(json_object_get(first, "msg"));
	if (field && !strcmp(field, "body") && msg) /* which says what of it */
		err_set(err, ERR_INVALID, "%s", msg);
	else if (first)
		err_set(err, ERR_INVALID, "%s: %s", field ? field : "request",
			msg ? msg : "it was refused, and no reason is given");
	else
		err_set(err, status == 404 ? ERR_NOT_FOUND : ERR_BAD_REQUEST, "%s",
			text ? text : "the host gives no reason");
	if (!text && !first)
		err_set(err, ERR_BAD_REQUEST, "the host answers %d", status);
	/* A box may have chosen it: it does nothing to a terminal. */
	for (char *c = err->msg; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	say_box(err->msg);
}

/* Where the host is known from its state, a place where nobody answers means that it has ended. */
static int open_host(const struct remote *remote, struct client *client,
		     const struct dial_wait *wait, struct err *err)
{
	const char *url = getenv("AIO_URL");
	if (client_open(client, remote->url, wait, err) == 0)
		return 0;
	if (url && *url)
		return -1;
	return err_set(err, ERR_UNAVAILABLE, "no host runs on '%s' (start it with 'aio up')",
		       remote->state);
}

static void put_headers(const struct remote *remote, const char *bearer, const char *to[3])
{
	bool inside = remote->box[0];
	to[0] = inside ? remote->box[0] : bearer;
	to[1] = inside ? remote->box[1] : NULL;
	to[2] = NULL;
}

int remote_stream(const struct remote *remote, const char *path, remote_sink *sink, void *arg,
		  struct err *err)
{
	struct client client;
	char piece[16384];
	ssize_t n = 0;
	auto_free char *bearer = xasprintf("Authorization: Bearer %s", remote->token);
	const char *headers[3];
	struct client_request request = { "GET", path, headers, NULL, NULL, 0 };
	put_headers(remote, bearer, headers);
	if (open_host(remote, &client, NULL, err) < 0)
		return -1;
	int status = client_ask(&client, &request, err);
	while (status == 200 && (n = client_read(&client, piece, sizeof piece, err)) > 0)
		sink(arg, piece, (size_t)n);
	size_t len;
	auto_free char *answer = status > 200 ? client_body(&client, ANSWER_MAX, &len, err) : NULL;
	if (answer) {
		json_t *parsed = json_parse(answer, len, NULL);
		remote_error(status, parsed, err);
		json_decref(parsed);
	}
	client_close(&client);
	return status == 200 && n == 0 ? 0 : -1;
}

json_t *remote_send(const struct remote *remote, const struct client_request *given,
		    struct err *err)
{
	struct client client;
	auto_free char *bearer = xasprintf("Authorization: Bearer %s", remote->token);
	const char *headers[3];
	int64_t until_ms = remote->within_ms ? clock_ms() + remote->within_ms : INT64_MAX;
	const struct dial_wait wait = { .all = { until_ms, -1, -1 } };
	put_headers(remote, bearer, headers);
	if (open_host(remote, &client, &wait, err) < 0)
		return NULL;
	struct client_request request = *given;
	request.headers = headers;
	int status = client_ask(&client, &request, err);
	size_t len = 0;
	auto_free char *answer = status < 0 ? NULL : client_body(&client, ANSWER_MAX, &len, err);
	client_close(&client);
	if (!answer)
		return NULL;
	struct err wrong;
	json_t *parsed = *answer == '{' ? json_parse(answer, len, &wrong) : NULL, *data = NULL;
	if (status >= 300)
		remote_error(status, parsed, err);
	else if (parsed)
		data = json_incref(json_object_get(parsed, "data"));
	else if (*answer == '{')
		err_set(err, ERR_INTERNAL, "the response cannot be read: %s", wrong.msg);
	else
		data = json_stringn(answer, len); /* text, as it is */
	if (parsed && status < 300 && !data)
		data = json_null();
	json_decref(parsed);
	return data;
}

json_t *remote_call(const struct remote *remote, const char *method, const char *path, json_t *body,
		    struct err *err)
{
	auto_free char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	json_decref(body);
	struct client_request request = { method, path, NULL, NULL, text, text ? strlen(text) : 0 };
	return remote_send(remote, &request, err);
}

int remote_box(const struct remote *remote, const char *id, char *ret[3], struct err *err)
{
	auto_free char *path = xasprintf("/v1/sandboxes/%s", id);
	json_t *box = remote_call(remote, "GET", path, NULL, err);
	if (!box)
		return -1;
	const char *token = json_string_value(json_object_get(box, "token"));
	const char *state = json_string_value(json_object_get(box, "state"));
	bool sleeps = state && (!strcmp(state, "paused") || !strcmp(state, "stopped"));
	if (sleeps && !json_is_true(json_object_get(box, "auto_resume"))) {
		err_set(err, ERR_CONFLICT, "box '%s' is %s; 'aio resume %s' %s", id, state, id,
			!strcmp(state, "paused") ? "wakes it" : "starts it again on its files");
		json_decref(box);
		return -1;
	}
	const char *key = getenv("SANDBOX_API_KEY"); /* of the default box */
	const char *auth = json_string_value(json_object_get(box, "auth"));
	if (!token && !key && auth && !strcmp(auth, "token")) {
		err_set(err, ERR_UNAUTHORIZED,
			"only a JWT that the host's JWT_PUBLIC_KEY verifies opens box '%s': give one in "
			"the variable SANDBOX_API_KEY",
			id);
		json_decref(box);
		return -1;
	}
	ret[0] = xasprintf("x-aio-sandbox: %s", id);
	ret[1] = token || key ? xasprintf("Authorization: Bearer %s", token ? token : key) : NULL;
	ret[2] = NULL;
	json_decref(box);
	return 0;
}
