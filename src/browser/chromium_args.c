#include "browser/chromium_args.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "browser/chromium.h"
#include "browser/proxy_pac.h"
#include "config/config.h"
#include "outbound/outbound.h"

void chromium_args_add(struct chromium_args *args, const char *arg)
{
	if (args->count < CHROMIUM_ARGS)
		args->list[args->count++] = arena_strdup(args->arena, arg);
}

static void add_value(struct chromium_args *args, const char *name, const char *value)
{
	if (value && *value && args->count < CHROMIUM_ARGS)
		args->list[args->count++] = arena_printf(args->arena, "--%s=%s", name, value);
}

/* Chromium takes one dash for two. */
static bool is_switch(const char *arg, const char *name)
{
	size_t dashes = strspn(arg, "-");
	return dashes && dashes <= 2 && strcspn(arg + dashes, "=") == strlen(name) &&
	       !strncmp(arg + dashes, name, strlen(name));
}

/* What would take away its sandbox, or our hold on it. */
static int check_extra(const char *arg, bool in_box, const struct config *config, struct err *err)
{
	static const char *const unsafe[] = {
		"no-sandbox", "disable-namespace-sandbox", "disable-seccomp-filter-sandbox",
		"disable-gpu-sandbox", "no-zygote", "no-zygote-sandbox", "no-unsandboxed-zygote",
		"single-process", "allow-sandbox-debugging",
		/* these start processes by another program, outside of it */
		"renderer-cmd-prefix", "utility-cmd-prefix", "gpu-launcher",
		"browser-subprocess-path"
	};
	static const char *const ours[] = { "user-data-dir", "remote-debugging-port",
					    "remote-debugging-pipe", "remote-debugging-address",
					    "headless" };
	for (size_t i = 0; i < COUNT(unsafe); i++)
		if (is_switch(arg, unsafe[i]) && (in_box || config->browser_sandbox))
			return err_set(
				err, ERR_UNAVAILABLE,
				"BROWSER_EXTRA_ARGS has --%s, which disables the browser's own "
				"sandbox: remove it%s",
				unsafe[i],
				in_box ? ", the sandbox works in a box"
				       : ", or set AIO_BROWSER_SANDBOX=false, too");
	for (size_t i = 0; i < COUNT(ours); i++)
		if (is_switch(arg, ours[i]))
			return err_set(err, ERR_UNAVAILABLE,
				       "BROWSER_EXTRA_ARGS has --%s, which the server sets itself: "
				       "remove it",
				       ours[i]);
	return 0;
}

static int add_extra(struct chromium_args *args, const struct config *config, bool in_box,
		     struct err *err)
{
	char *rest = config->browser_args ? arena_strdup(args->arena, config->browser_args) : NULL;
	for (char *arg; (arg = strsep(&rest, " \t\n"));) {
		if (!*arg)
			continue;
		if (check_extra(arg, in_box, config, err) < 0)
			return -1;
		if (args->count == CHROMIUM_ARGS - 1) /* the last is the page */
			return err_set(err, ERR_UNAVAILABLE,
				       "BROWSER_EXTRA_ARGS has too many arguments");
		chromium_args_add(args, arg);
	}
	return 0;
}

static const char without[] =
	"--disable-features=Translate,MediaRouter,GlobalMediaControls,Prerender2,"
	"AutofillServerCommunication,OptimizationHints";

static void add_usual(struct chromium_args *args)
{
	static const char *const usual[] = {
		"--no-first-run",
		"--no-default-browser-check",
		"--password-store=basic",
		"--disable-component-update",
		"--disable-background-networking",
		"--disable-component-extensions-with-background-pages",
		"--disable-default-apps",
		"--disable-domain-reliability",
		"--no-pings",
		"--disable-sync",
		"--disable-breakpad",
		"--disable-crash-reporter",
		"--hide-crash-restore-bubble",
		"--disable-search-engine-choice-screen",
		"--disable-prompt-on-repost", /* a question of the browser itself: nobody answers */
		"--disable-back-forward-cache", /* a page that comes back comes back whole */
		"--disable-backgrounding-occluded-windows", /* a tab in the back is a client's, too */
		"--disable-background-timer-throttling",
		"--disable-renderer-backgrounding",
		"--allow-pre-commit-input", /* else keys are lost until a new document has been painted */
		without,
		"--use-gl=angle",
		"--use-angle=swiftshader-webgl",
		"--enable-unsafe-swiftshader",
		"--log-level=2", /* errors: why it does not start, should it not */
		"--ozone-platform=x11",
		"--start-maximized",
		"--remote-debugging-pipe",
		"--enable-unsafe-extension-debugging", /* see proxy_extension.h */
	};
	for (size_t i = 0; i < COUNT(usual); i++)
		chromium_args_add(args, usual[i]);
}

static void add_proxy(struct chromium_args *args, const struct config *config)
{
	if (outbound_is_used()) {
		add_value(args, "proxy-server",
			  arena_printf(args->arena, "http://127.0.0.1:%d", outbound_port()));
		return;
	}
	/* Of another protocol, or our own proxy cannot be had. */
	const char *url = proxy_pac_url(config, args->arena);
	if (url)
		add_value(args, "proxy-pac-url", url);
}

static const char *asked_language(const struct config *config, const struct chromium_policy *policy)
{
	return policy->lang && *policy->lang ? policy->lang : config->browser_lang;
}

const char *chromium_args_language(const struct config *config,
				   const struct chromium_policy *policy)
{
	const char *ui = policy->lang && *policy->lang ? policy->lang : config->browser_ui_lang;
	return ui && *ui ? ui : asked_language(config, policy);
}

static void add_configured(struct chromium_args *args, const struct config *config,
			   const struct chromium_policy *policy)
{
	add_value(args, "remote-debugging-port",
		  arena_printf(args->arena, "%d", (int)config->browser_port));
	add_value(args, "accept-lang", asked_language(config, policy));
	add_value(args, "lang", chromium_args_language(config, policy));
	add_value(args, "user-agent", config->browser_agent);
	add_proxy(args, config);
}

int chromium_args_fill(struct chromium_args *args, const struct config *config,
		       const struct chromium_policy *policy, const char *profile, bool as_root,
		       struct err *err)
{
	const bool in_box = config->network;
	if (as_root && (in_box || config->browser_sandbox))
		return err_set(err, ERR_UNAVAILABLE,
			       "its sandbox does not work for root, and the sandbox user is root: "
			       "name another by --user%s",
			       in_box ? "" : ", or go without it: --browser-sandbox=false");
	add_value(args, "user-data-dir", profile);
	add_value(args, "disk-cache-dir", profile); /* else below ~/.cache, and kept by snapshots */
	add_usual(args);
	add_configured(args, config, policy);
	if (!in_box && !config->browser_sandbox) {
		log_warn(
			"the browser runs without its own sandbox: its pages have the rights of the "
			"sandbox user");
		chromium_args_add(args, "--no-sandbox");
	}
	if (add_extra(args, config, in_box, err) < 0)
		return -1;
	if (policy->restore)
		chromium_args_add(args, "--restore-last-session"); /* with its session cookies */
	else
		chromium_args_add(args, config->browser_home && *config->browser_home
						? config->browser_home
						: "about:blank");
	return 0;
}
