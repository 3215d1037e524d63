#include "assistant/assistants.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/own.h"
#include "base/toml.h"
#include "base/url.h"
#include "config/config.h"
#include "proc/user.h"

enum { FILE_MAX = 4 << 20 };

static bool given(const char *value)
{
	return value && *value;
}

/* Empty is as good as absent: a file of variables often has them all. */
static const char *either(const char *value, const char *otherwise)
{
	return given(value) ? value : otherwise;
}

/* ---- what may be in them ---- */

static int check_toml(const char *name, const char *text, struct err *err)
{
	struct err why;
	if (toml_check(text, strlen(text), &why) == 0)
		return 0;
	return err_set(err, ERR_INVALID, "%s is %.100s", name, why.msg);
}

static int check_json(const char *name, const char *text, struct err *err)
{
	struct err why = { 0 };
	auto_free char *copy = xstrdup(text); /* json_parse() changes it */
	json_t *value = json_parse(copy, strlen(copy), &why);
	bool is_object = json_is_object(value);
	json_decref(value);
	if (is_object)
		return 0;
	return err_set(err, ERR_INVALID, "%s is not a JSON object%s%.100s", name,
		       *why.msg ? ": " : "", why.msg);
}

static int check_url(const char *name, const char *text, struct err *err)
{
	struct url_parts parts;
	struct err why;
	if (url_split(text, &parts, &why) == 0 && !strncmp(parts.scheme, "http", 4))
		return 0;
	return err_set(err, ERR_INVALID, "%s: '%.100s' is not an http or https URL", name, text);
}

/* It becomes the beginning of "PROVIDER/MODEL". */
static int check_provider(const char *text, struct err *err)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789-_.";
	if (!text[strspn(text, allowed)])
		return 0;
	return err_set(err, ERR_INVALID,
		       "OPENCODE_PROVIDER: '%.100s' is not a name of letters, digits, '-', '_' and "
		       "'.'",
		       text);
}

/* ---- writing them ---- */

static int make_dirs(const char *home, const char *path, struct err *err)
{
	auto_free char *dir = xasprintf("%s/%s", home, path);
	for (char *at = dir + strlen(home) + 1; (at = strchr(at, '/')); at++) {
		*at = 0;
		if (mkdir(dir, 0700) < 0 && errno != EEXIST)
			return err_set(err, errno, "mkdir '%s'", dir);
		*at = '/';
	}
	return 0;
}

/* As the user: a new file takes the place of whatever has that name, so no link leads elsewhere. */
static int put(const char *home, const char *path, const char *text, struct err *err)
{
	uint32_t number = 0;
	size_t len = strlen(text);
	if (make_dirs(home, path, err) < 0)
		return -1;
	if (getrandom(&number, sizeof number, 0) != sizeof number)
		return err_set(err, errno, "no random numbers");
	auto_free char *to = xasprintf("%s/%s", home, path);
	auto_free char *fresh = xasprintf("%s.%08x", to, (unsigned)number);
	auto_close int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_set(err, errno, "write '%s'", fresh);
	if (write(fd, text, len) == (ssize_t)len && rename(fresh, to) == 0)
		return 0;
	int code = errno;
	(void)unlink(fresh);
	return err_set(err, code, "write '%s'", to);
}

static int write_as(const struct user *user, const char *path, const char *text, struct err *err)
{
	struct user_view view;
	if (user_enter(user, &view, err) < 0)
		return -1;
	int result = put(user->home, path, text, err);
	user_leave(&view);
	return result;
}

/* ---- Codex ---- */

#define CODEX_CONFIG  ".codex/config.toml"
#define CODEX_CATALOG ".codex/model-catalog.json"

/* The variable that has the key: Codex reads it from there. NULL: none has. */
static const char *codex_key(const struct config *config)
{
	return given(config->codex_key)    ? "CODEX_API_KEY"
	       : given(config->ark_key)    ? "ARK_API_KEY"
	       : given(config->openai_key) ? "OPENAI_API_KEY"
					   : NULL;
}

#define OURS "# Written by aio when it starts, as CODEX_MODEL and CODEX_BASE_URL say.\n"

/* Whether there is a file that a person has written: many have a key in their environment. */
static bool is_theirs(const struct user *user)
{
	struct user_view view;
	auto_free char *path = xasprintf("%s/" CODEX_CONFIG, user->home);
	char first[sizeof OURS - 1];
	if (user_enter(user, &view, NULL) < 0)
		return true;
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ssize_t len = fd < 0 ? 0 : read(fd, first, sizeof first);
	bool there = fd >= 0 || errno != ENOENT;
	user_leave(&view);
	return there && len != 0 &&
	       (len != (ssize_t)sizeof first || memcmp(first, OURS, sizeof first) != 0);
}

static void put_toml(struct buf *to, const char *name, const char *value)
{
	buf_printf(to, "%s = ", name);
	toml_string(to, value);
	buf_str(to, "\n");
}

static void codex_config(const struct config *config, const char *home, const char *key,
			 struct buf *to)
{
	auto_free char *catalog = xasprintf("%s/" CODEX_CATALOG, home);
	buf_str(to, OURS);
	put_toml(to, "model", either(config->codex_model, CODEX_MODEL));
	put_toml(to, "model_provider", "ark");
	if (given(config->codex_catalog))
		put_toml(to, "model_catalog_json", catalog);
	buf_str(to, "\n[model_providers.ark]\n");
	put_toml(to, "name", "Ark");
	put_toml(to, "base_url", either(config->codex_url, ARK_URL));
	put_toml(to, "env_key", key);
	put_toml(to, "wire_api", "responses");
}

static int check_codex(const struct config *config, struct err *err)
{
	if (check_url("CODEX_BASE_URL", either(config->codex_url, ARK_URL), err) < 0)
		return -1;
	if (given(config->codex_config) &&
	    check_toml("CODEX_CONFIG_TOML", config->codex_config, err) < 0)
		return -1;
	return given(config->codex_catalog)
		       ? check_json("CODEX_MODEL_CATALOG_JSON", config->codex_catalog, err)
		       : 0;
}

static int configure_codex(const struct config *config, const struct user *user, struct err *err)
{
	auto_buf struct buf text = BUF(FILE_MAX);
	const char *key = codex_key(config);
	if (!key) {
		if (given(config->codex_config) || given(config->codex_catalog))
			log_warn("Codex is not configured: of CODEX_API_KEY, ARK_API_KEY and "
				 "OPENAI_API_KEY none is set");
		return 0;
	}
	if (given(config->codex_catalog) &&
	    write_as(user, CODEX_CATALOG, config->codex_catalog, err) < 0)
		return -1;
	if (given(config->codex_config)) {
		buf_str(&text, config->codex_config);
	} else if (is_theirs(user)) {
		log_info("'%s/" CODEX_CONFIG "' is left as it is: aio has not written it",
			 user->home);
		return 0;
	} else {
		codex_config(config, user->home, key, &text);
	}
	return write_as(user, CODEX_CONFIG, text.data, err);
}

/* ---- opencode ---- */

#define OPENCODE_CONFIG ".config/opencode/config.json"

static void opencode_provider(const struct config *config, const char *name, struct jw *jw)
{
	const char *url = either(config->opencode_url, ARK_URL);
	jw_open(jw, '{');
	jw_key_str(jw, "npm",
		   either(config->opencode_npm, strstr(url, "anthropic")
							? "@ai-sdk/anthropic"
							: "@ai-sdk/openai-compatible"));
	jw_key_str(jw, "name", name);
	jw_key(jw, "options");
	jw_open(jw, '{');
	jw_key_str(jw, "baseURL", url);
	jw_key_str(jw, "apiKey", "{env:OPENCODE_API_KEY}");
	jw_close(jw, '}');
	jw_key(jw, "models");
	jw_open(jw, '{');
	jw_key(jw, config->opencode_model);
	jw_open(jw, '{');
	jw_key_str(jw, "name", config->opencode_model);
	jw_close(jw, '}');
	jw_close(jw, '}');
	jw_close(jw, '}');
}

static void opencode_config(const struct config *config, struct jw *jw)
{
	const char *provider = either(config->opencode_provider, OPENCODE_PROVIDER);
	auto_free char *model = xasprintf("%s/%s", provider, config->opencode_model);
	jw_open(jw, '{');
	jw_key_str(jw, "$schema", "https://opencode.ai/config.json");
	jw_key_str(jw, "model", model);
	jw_key(jw, "provider");
	jw_open(jw, '{');
	jw_key(jw, provider);
	opencode_provider(config, provider, jw);
	jw_close(jw, '}');
	jw_close(jw, '}');
}

static int check_opencode(const struct config *config, struct err *err)
{
	if (check_url("OPENCODE_BASE_URL", either(config->opencode_url, ARK_URL), err) < 0 ||
	    check_provider(either(config->opencode_provider, OPENCODE_PROVIDER), err) < 0)
		return -1;
	return given(config->opencode_json)
		       ? check_json("OPENCODE_JSON", config->opencode_json, err)
		       : 0;
}

static int configure_opencode(const struct config *config, const struct user *user, struct err *err)
{
	if (given(config->opencode_json))
		return write_as(user, OPENCODE_CONFIG, config->opencode_json, err);
	if (!given(config->opencode_key) || !given(config->opencode_model)) {
		if (given(config->opencode_key) || given(config->opencode_model))
			log_warn("opencode is not configured: %s is not set",
				 given(config->opencode_key) ? "OPENCODE_MODEL"
							     : "OPENCODE_API_KEY");
		return 0;
	}
	struct jw jw;
	jw_init(&jw, FILE_MAX);
	opencode_config(config, &jw);
	buf_str(&jw.out, "\n");
	int result = write_as(user, OPENCODE_CONFIG, jw.out.data, err);
	jw_done(&jw);
	return result;
}

int assistants_configure(const struct config *config, struct err *err)
{
	if (check_codex(config, err) < 0 || check_opencode(config, err) < 0)
		return -1;
	bool any = codex_key(config) || given(config->codex_config) ||
		   given(config->codex_catalog) || given(config->opencode_json) ||
		   given(config->opencode_key) || given(config->opencode_model);
	const struct user *user = any ? user_sandbox(config->user, err) : NULL;
	if (!any)
		return 0;
	if (!user || configure_codex(config, user, err) < 0)
		return -1;
	return configure_opencode(config, user, err);
}
