#include "cli/inspect.h"

#include <stdio.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/ask.h"

static const char *url(const json_t *box, const char *kind)
{
	return ask_text(json_object_get(box, "urls"), kind);
}

static void put_page(const json_t *box)
{
	const char *token = ask_text(box, "token");
	printf("%s/terminal%s%s\n", url(box, "api"), token ? "?api_key=" : "", token ? token : "");
}

/* Names below localhost are known to browsers and curl, but to few other programs: those have the address
 * of the host, with a path. */
void inspect_made(const struct ask *ask, const json_t *box)
{
	const char *token = ask_text(box, "token");
	if (ask->remote.json) {
		ask_print(box);
		return;
	}
	printf("%s  %s  %s\n", ask_text(box, "id"), ask_text(box, "state"), url(box, "api"));
	if (token)
		printf("token %s\n", token);
	printf("sdk %s\nopen ", url(box, "path"));
	put_page(box);
}

static void put(const char *name, const char *value)
{
	printf("%-14s %s\n", name, value ? value : "-");
}

/* Each of its values on a line of its own; strings as they are, lists with commas. */
static void put_group(const json_t *box, const char *name, const char *none)
{
	json_t *group = json_object_get(box, name), *value;
	const char *key;
	put(name, json_object_size(group) ? "" : none);
	json_object_foreach(group, key, value) {
		auto_free char *dump = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
		if (!json_is_null(value) && !(json_is_array(value) && !json_array_size(value)))
			printf("  %-12s %s\n", key,
			       json_is_string(value) ? json_string_value(value) : dump);
	}
}

static void show(const json_t *box)
{
	const json_t *idle = json_object_get(box, "idle_timeout");
	auto_free char *seconds =
		xasprintf("after %g s without a request", json_number_value(idle));
	const char *template = ask_text(box, "template"), *expires = ask_text(box, "expires_at");
	put("id", ask_text(box, "id"));
	put("state", ask_text(box, "state"));
	put("template", template ? template : "machine");
	put("sdk", url(box, "path"));
	put("browser", url(box, "api"));
	put("preview", url(box, "preview"));
	put("token", ask_text(box, "token"));
	put("auth", ask_text(box, "auth"));
	put("created", ask_text(box, "created_at"));
	put("deleted at", expires ? expires : "never");
	put("paused", json_is_number(idle) ? seconds : "never");
	put("auto resume", json_is_true(json_object_get(box, "auto_resume")) ? "yes" : "no");
	put_group(box, "limits", "none of its own, but the host's defaults");
	put_group(box, "network", "mode none");
	put_group(box, "metadata", "none");
	printf("%-14s ", "terminal");
	put_page(box);
}

int inspect_box(struct ask *ask)
{
	json_t *box = ask_box(ask, "GET", "", NULL);
	if (!box)
		return -1;
	if (ask->remote.json || !isatty(STDOUT_FILENO))
		ask_print(box);
	else
		show(box);
	json_decref(box);
	return 0;
}
