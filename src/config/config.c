#include "config/config.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "config/home.h"
#include "config/opt_rows.h"

#define AT(member)  offsetof(struct config, member)
#define NET(member) AT(net.member)

static const struct opt options[] = {
	/* clang-format off */
	{ "listen", "AIO_LISTEN", OPT_STR, NET(listen), NULL, "HOST:PORT|unix:PATH|fd:N",
	  "Where to listen; 127.0.0.1 and PUBLIC_PORT when absent. fd:N is an inherited listening descriptor." },
	{ NULL, "PUBLIC_PORT", OPT_INT, AT(public_port), "8080", "a port",
	  "The port when --listen is not given.", 1, 65535 },
	{ "local-port", "AIO_LOCAL_PORT", OPT_INT, AT(local_port), "0", "PORT",
	  "A port of 127.0.0.1 and ::1 at which the sandbox user's and root's own programs call this server, without credentials; 0: none. In a box 8080 unless its environment says otherwise.", 0, 65535 },
	{ "local-socket", "AIO_LOCAL_SOCKET", OPT_STR, AT(local_socket), NULL, "PATH",
	  "The Unix socket for the same programs; in a directory of its own below /tmp when absent, in a box /run/aiobox.sock. What the server starts finds its path in AIO_LOCAL_SOCKET." },
	{ NULL, "AIO_SANDBOX_NETWORK", OPT_STR, AT(network), NULL, NULL,
	  "What a box can reach, set by its host: none, full, or allow with the number of names and the first of them. With none, the server answers DNS at 127.0.0.1, where no name exists." },
	ROW_INSECURE("Allow an address that is not loopback, and any Host name, without authentication."),
	ROW_API_KEY("A key that callers must send: X-AIO-API-Key, Authorization: Bearer, or ?api_key=."),
	ROW_AUTH_TOKEN,
	ROW_JWT_PUBLIC_KEY("Base64 of a PEM public key (RSA, P-256 or Ed25519): callers may send a JWT signed with it (RS256, ES256, EdDSA) as Authorization: Bearer."),
	ROW_TICKET_TTL,
	ROW_DOMAIN("A host name, beside localhost, that this server is reached by; its subdomains and PORT-NAME count too."),
	ROW_CORS_ORIGINS("Other web origins whose pages may call this server, such as https://app.example.com."),
	{ "workspace", "WORKSPACE", OPT_STR, AT(workspace), NULL, "DIR",
	  "Default directory of everything; the sandbox user's home when absent. Made when missing. As a working directory /workspace means it too, where there is no such directory." },
	{ "user", "USER", OPT_STR, AT(user), NULL, "NAME",
	  "The sandbox user. When absent, or when it only names who started the server: gem where /etc/passwd has that user, else the user who started the server." },
	{ NULL, "TZ", OPT_STR, AT(time_zone), NULL, NULL,
	  "The time zone of the server and of what it starts." },
	ROW_MAX_HEAD(1 << 24, "Largest head of a request."),
	{ "max-body", "AIO_MAX_BODY", OPT_SIZE, NET(max_body), "64M", "SIZE",
	  "Largest JSON body of a request, and largest file that is edited.", 1024, 1ll << 32 },
	{ "max-upload", "AIO_MAX_UPLOAD", OPT_SIZE, NET(max_upload), "10G", "SIZE",
	  "Largest upload; it goes straight to disk.", 1024, 1ll << 50 },
	ROW_MAX_CONNECTIONS,
	ROW_IDLE_TIMEOUT,
	ROW_HEAD_TIMEOUT,
	ROW_BODY_TIMEOUT("How long a body may take to arrive, beyond one second per KiB."),
	ROW_SEND_TIMEOUT("How long a client may take nothing of its answer."),
	{ "preview-timeout", "AIO_PREVIEW_TIMEOUT", OPT_SECONDS, NET(upstream_ms), "120", "DURATION",
	  "How long a program that listens in the sandbox may take to begin its answer.", 100, 86400000 },
	{ "max-sessions", "AIO_MAX_SESSIONS", OPT_INT, AT(max_sessions), "512", "N",
	  "Most sessions of each kind at once. The one idle for longest makes room for a new one.", 1, 100000 },
	{ "max-history", "AIO_MAX_HISTORY", OPT_INT, AT(max_history), "64", "N",
	  "Ended commands that a session remembers, with what they printed.", 1, 100000 },
	{ "session-timeout", "AIO_SESSION_TIMEOUT", OPT_SECONDS, AT(session_ms), "86400", "DURATION",
	  "How long a session in which nothing runs is kept after its last use.", 1000, 31536000000 },
	{ "max-watch-dirs", "AIO_MAX_WATCH_DIRS", OPT_INT, AT(max_watch_dirs), "65536", "N",
	  "Most directories that one file watcher watches.", 1, 10000000 },
	{ "max-document", "AIO_MAX_DOCUMENT", OPT_SIZE, AT(max_document), "100M", "SIZE",
	  "Largest document that is read as text, and largest archive of skills.", 1024, 1ll << 32 },
	{ "document-timeout", "AIO_DOCUMENT_TIMEOUT", OPT_SECONDS, AT(document_ms), "45", "DURATION",
	  "How long reading one document, and fetching it, may take.", 100, 3600000 },
	{ "document-memory", "AIO_DOCUMENT_MEMORY", OPT_SIZE, AT(document_memory), "1G", "SIZE",
	  "Memory that reading one document may take; four are read at once.", 16 << 20, 1ll << 40 },
	{ "document-idle", "AIO_DOCUMENT_IDLE", OPT_SECONDS, AT(document_idle_ms), "300", "DURATION",
	  "How long the process that reads documents is kept after the last one.", 100, 86400000 },
	{ "display", "AIO_DISPLAY", OPT_INT, AT(display), "99", "N",
	  "The number of the desktop's X display: every command has DISPLAY=:N.", 0, 65535 },
	{ NULL, "DISPLAY_WIDTH", OPT_INT, AT(display_width), "1280", "PIXELS", "The width of the desktop when it starts.", 320, 4096 },
	{ NULL, "DISPLAY_HEIGHT", OPT_INT, AT(display_height), "1024", "PIXELS", "The height of the desktop when it starts.", 200, 4096 },
	{ "service-idle", "AIO_SERVICE_IDLE", OPT_SECONDS, AT(service_idle_ms), "0", "DURATION",
	  "How long the desktop, the browser, the editor and the notebook are kept when nobody uses them; 0: for good. The desktop stays while there is a window on it, and the browser while it downloads, or a client of its DevTools is attached. The next use of the browser shows the same tabs again. Where it is shorter than their own time, it is that of the process that reads documents and of kernels that are kept ready, too.", 0, 31536000000 },
	{ "code-server-ready", "AIO_CODE_SERVER_READY", OPT_BOOL, AT(editor_ready), "false", NULL,
	  "Have the editor running from the start, and not only after its first use; not where DISABLE_CODE_SERVER is true." },
	{ "browser-ready", "AIO_BROWSER_READY", OPT_BOOL, AT(browser_ready), "false", NULL,
	  "Have the browser running from the start, and not only after its first use; not where DISABLE_BROWSER is true." },
	{ "browser-sandbox", "AIO_BROWSER_SANDBOX", OPT_BOOL, AT(browser_sandbox), "true", NULL,
	  "Run the browser in its own sandbox. Without it every page has the rights of the sandbox user: only for where it cannot be had, and never in a box." },
	{ NULL, "BROWSER_REMOTE_DEBUGGING_PORT", OPT_INT, AT(browser_port), "9222", "PORT",
	  "The port of 127.0.0.1 at which the browser's DevTools answer.", 1, 65535 },
	{ "browser-profile", "AIO_BROWSER_PROFILE", OPT_STR, AT(browser_profile), NULL, "DIR",
	  "Where the browser keeps its profile; .config/aio-browser in the sandbox user's home when absent. Two servers cannot share one." },
	{ NULL, "BROWSER_ALLOW_FILE_SELECTION_DIALOGS", OPT_STR, AT(browser_dialogs), NULL, "BOOLEAN",
	  "Whether pages may open a file picker on the desktop: false, they may not." },
	{ NULL, "HOMEPAGE", OPT_STR, AT(browser_home), NULL, "URL", "The page that the browser shows first; a blank one when absent." },
	{ NULL, "BROWSER_LANG", OPT_STR, AT(browser_lang), "en-US", "LANGUAGE", "The language that the browser asks pages for." },
	{ NULL, "CHROME_UI_LANG", OPT_STR, AT(browser_ui_lang), NULL, "LANGUAGE", "The language of the browser's own windows; BROWSER_LANG when absent." },
	{ NULL, "BROWSER_USER_AGENT", OPT_STR, AT(browser_agent), NULL, "TEXT", "The browser's User-Agent; its own when absent." },
	{ NULL, "BROWSER_EXTRA_ARGS", OPT_STR, AT(browser_args), NULL, "ARGUMENTS",
	  "Further arguments of the browser, separated by spaces. None may disable its sandbox." },
	{ NULL, "DNS_OVER_HTTPS_TEMPLATES", OPT_STR, AT(browser_dns), NULL, "URL …",
	  "Servers at which the browser resolves names by HTTPS, as URI templates; the system's way when absent, or when they do not answer." },
	{ NULL, "TINYPROXY_PORT", OPT_INT, AT(proxy_port), "8118", "PORT",
	  "The port of 127.0.0.1 at which the sandbox's own programs have a forward proxy.", 1, 65535 },
	{ NULL, "PROXY_SERVER", OPT_STR, AT(proxy_server), NULL, "HOST:PORT", "The upstream proxy: another HTTP proxy, which that passes requests on to; USER:PASSWORD@ may stand before it." },
	{ NULL, "PROXY_EXCLUDE", OPT_STR, AT(proxy_exclude), NULL, "HOST,…", "Hosts that are reached without the upstream proxy: name, .name, *.name or 10.0.0.0/8." },
	{ NULL, "PROXY_INCLUDE", OPT_STR, AT(proxy_include), NULL, "HOST,…", "The only hosts that are reached by the upstream proxy; all when absent." },
	{ NULL, "PROXY_MAP", OPT_STR, AT(proxy_map), NULL, "SOURCE=TARGET,…", "Where requests go instead, such as myapp.com=:3000 or api.myapp.com/v1/*=127.0.0.1:8081/v1/." },
	{ "skills", "AIO_SKILLS_PATH", OPT_STR, AT(skills), NULL, "DIR",
	  "Where registered skills are; .aiobox/skills in the sandbox user's home when absent. Made when the first one is registered." },
	{ "max-kernels", "AIO_MAX_KERNELS", OPT_INT, AT(max_kernels), "64", "N",
	  "Most sessions of Jupyter kernels at once. The one idle for longest makes room for a new one. Sessions without a name of their own go first.", 1, 10000 },
	{ "kernel-timeout", "AIO_KERNEL_TIMEOUT", OPT_SECONDS, AT(kernel_idle_ms), "1800", "DURATION",
	  "How long a kernel in which nothing runs is kept after its last use.", 1000, 31536000000 },
	{ "kernel-output", "AIO_KERNEL_OUTPUT", OPT_SIZE, AT(kernel_output), "1M", "SIZE",
	  "Most text of one execution's stdout and stderr together; of more, the middle is left out.", 1024, 1 << 26 },
	{ "kernel-preload", "AIO_KERNEL_PRELOAD", OPT_STR, AT(kernel_preload), NULL, "MODULE,…",
	  "Python modules that every kernel has imported when it starts, such as numpy,pandas,matplotlib.pyplot. A version installed later is not seen then." },
	{ "kernel-ready", "AIO_KERNEL_READY", OPT_BOOL, AT(kernel_ready), "false", NULL,
	  "Have a Python kernel ready from the start, and not only after the first use of one; not where DISABLE_JUPYTER is true." },
	{ NULL, "PYTHON_VERSION", OPT_STR, AT(python_version), NULL, NULL,
	  "The Python of kernels when none is named, such as 3.12, where it is installed." },
	{ "mcp-servers", "AIO_MCP_SERVERS", OPT_STR, AT(mcp_servers), NULL, "FILE",
	  "Other MCP servers whose tools are offered at /mcp too, as \"mcpServers\" in JSON; .config/aio/mcp-servers.json below the sandbox user's home when absent." },
	{ "mcp-idle-timeout", "AIO_MCP_IDLE_TIMEOUT", OPT_SECONDS, AT(mcp_idle_ms), "600", "DURATION",
	  "How long the program of such a server is kept running without use.", 100, 86400000 },
	{ NULL, "RUN_HOOK_INIT", OPT_STR, AT(hook_init), NULL, "COMMAND",
	  "A shell command that runs first of all when the server starts, as the sandbox user in the workspace." },
	{ NULL, "RUN_HOOK_PRE_SERVICES", OPT_STR, AT(hook_pre_services), NULL, "COMMAND",
	  "The same, after that and before services are started and requests are answered." },
	{ NULL, "RUN_HOOK_POST_READY", OPT_STR, AT(hook_post_ready), NULL, "COMMAND",
	  "The same, once the sandbox is ready and answers requests." },
	{ NULL, "RUN_HOOKS_STRICT", OPT_BOOL, AT(hooks_strict), "false", NULL,
	  "Do not start the server where one of the first two fails." },
	{ "hook-timeout", "AIO_HOOK_TIMEOUT", OPT_SECONDS, AT(hook_ms), "300", "DURATION",
	  "How long each of these three may take before it is killed.", 100, 86400000 },
	{ NULL, "WAIT_PORTS", OPT_STR, AT(wait_ports), NULL, "PORT,…",
	  "The sandbox is ready, and /health says so, once programs listen on these ports of 127.0.0.1. Those of AIO Sandbox's own servers, 8079 and 8091, are this server itself." },
	{ NULL, "WAIT_TIMEOUT", OPT_SECONDS, AT(wait_ms), "300", "DURATION",
	  "How long they are waited for.", 100, 86400000 },
	{ NULL, "SANDBOX_SHUTDOWN_HOOKS", OPT_STR, AT(shutdown_hooks), NULL, "COMMAND",
	  "A shell command that runs when the sandbox ends in order, before the hooks of the API." },
	{ NULL, "SANDBOX_SHUTDOWN_HOOKS_TIMEOUT", OPT_SECONDS, AT(shutdown_ms), "5", "DURATION",
	  "How long all shutdown hooks together may take. A host waits for at most 10 s.", 100, 3600000 },
	{ NULL, "CODEX_API_KEY", OPT_STR, AT(codex_key), NULL, NULL,
	  "A key for Codex. With it, or one of the next two, .codex/config.toml below the sandbox user's home is written when the server starts; it names the variable and does not have the key. A file that somebody else has written stays." },
	{ NULL, "ARK_API_KEY", OPT_STR, AT(ark_key), NULL, NULL, "The same, where that is not set." },
	{ NULL, "OPENAI_API_KEY", OPT_STR, AT(openai_key), NULL, NULL, "The same, where neither is set." },
	{ NULL, "CODEX_MODEL", OPT_STR, AT(codex_model), CODEX_MODEL, NULL, "The model that Codex uses." },
	{ NULL, "CODEX_BASE_URL", OPT_STR, AT(codex_url), ARK_URL, "URL", "Where that answers, by the Responses API." },
	{ NULL, "CODEX_CONFIG_TOML", OPT_STR, AT(codex_config), NULL, "TOML", "All of .codex/config.toml, in the place of the two before. The server does not start if it is not TOML." },
	{ NULL, "CODEX_MODEL_CATALOG_JSON", OPT_STR, AT(codex_catalog), NULL, "JSON", "The models that Codex knows, for .codex/model-catalog.json. The server does not start if it is not a JSON object." },
	{ NULL, "OPENCODE_API_KEY", OPT_STR, AT(opencode_key), NULL, NULL,
	  "A key for opencode. With it and OPENCODE_MODEL, .config/opencode/config.json below the sandbox user's home is written when the server starts; it names this variable and does not have the key." },
	{ NULL, "OPENCODE_MODEL", OPT_STR, AT(opencode_model), NULL, NULL, "The model that opencode uses." },
	{ NULL, "OPENCODE_PROVIDER", OPT_STR, AT(opencode_provider), OPENCODE_PROVIDER, "NAME", "What opencode calls the server that has it." },
	{ NULL, "OPENCODE_BASE_URL", OPT_STR, AT(opencode_url), ARK_URL, "URL", "Where that answers." },
	{ NULL, "OPENCODE_PROVIDER_NPM", OPT_STR, AT(opencode_npm), NULL, "PACKAGE",
	  "The package by which opencode speaks to it; when absent @ai-sdk/anthropic where the URL has \"anthropic\" in it, else @ai-sdk/openai-compatible." },
	{ NULL, "OPENCODE_JSON", OPT_STR, AT(opencode_json), NULL, "JSON", "All of that file, in the place of the others. The server does not start if it is not a JSON object." },
	ROW_LOG_LEVEL("Least important line that is logged; requests are info."),
	ROW_LOG_FORMAT,
	/* clang-format on */
};

const struct opt_table config_table = {
	"aio serve [--listen HOST:PORT|unix:PATH|fd:N] [options]",
	"Runs one sandbox server in the foreground, for the environment it is started in.",
	options,
	COUNT(options),
};

/* Asks this machine's own list alone: a box has its user there, and asking every name service loads
 * libraries, which costs each start time and memory. */
static bool is_local_user(const char *name)
{
	bool found = false;
	FILE *file = fopen("/etc/passwd", "re");
	for (const struct passwd *user; file && !found && (user = fgetpwent(file));)
		found = !strcmp(user->pw_name, name);
	if (file)
		(void)fclose(file);
	return found;
}

/* A login shell sets USER to whoever logged in, which says nothing about the sandbox's user. */
static void resolve_user(struct config *config)
{
	const struct passwd *user = config->user && *config->user ? getpwnam(config->user) : NULL;
	if (user && user->pw_uid != getuid())
		return;
	const struct passwd *me = getpwuid(getuid());
	auto_free char *invoker = xstrdup(me ? me->pw_name : "root");
	if (config->user && *config->user && strcmp(config->user, invoker) != 0)
		return;
	config->user = is_local_user("gem") ? "gem" : TAKE(invoker);
}

static int resolve_workspace(struct config *config, struct err *err)
{
	const struct passwd *user = getpwnam(config->user);
	if (!user)
		return err_set(err, ERR_INVALID, "--user: there is no user '%s' on this machine",
			       config->user);
	if (!config->mcp_servers || !*config->mcp_servers) {
		const char *home = user->pw_uid == getuid() ? getenv("HOME") : NULL;
		config->mcp_servers = xasprintf("%s/.config/aio/mcp-servers.json",
						home && *home == '/' ? home : user->pw_dir);
	}
	if (!config->workspace || !*config->workspace)
		config->workspace = xstrdup(user->pw_dir);
	if (*config->workspace != '/')
		return err_set(err, ERR_INVALID, "--workspace: '%s' is not an absolute path",
			       config->workspace);
	if (mkdir(config->workspace, 0755) == 0) {
		if (chown(config->workspace, user->pw_uid, user->pw_gid) < 0 && getuid() == 0)
			return err_set(err, errno, "--workspace: chown '%s'", config->workspace);
	} else if (errno != EEXIST) {
		return err_set(err, errno, "--workspace: mkdir '%s'", config->workspace);
	}
	struct stat st;
	if (stat(config->workspace, &st) < 0 || !S_ISDIR(st.st_mode))
		return err_set(err, ERR_INVALID, "--workspace: '%s' is not a directory",
			       config->workspace);
	return 0;
}

int config_load(struct config *config, int argc, char **argv, struct err *err)
{
	*config = (struct config){ 0 };
	int used = opt_parse(&config_table, argc, argv, config, err);
	if (used < 0)
		return -1;
	if (used < argc)
		return err_set(err, ERR_INVALID, "unexpected argument '%s' (see --help)",
			       argv[used]);
	if (!config->net.listen)
		config->net.listen = xasprintf("127.0.0.1:%d", (int)config->public_port);
	if (config->skills && *config->skills && *config->skills != '/')
		return err_set(err, ERR_INVALID, "--skills: '%s' is not an absolute path",
			       config->skills);
	resolve_user(config);
	if (resolve_workspace(config, err) < 0)
		return -1;
	config->net.scratch = config->workspace;
	home_find(config->home, sizeof config->home);
	config->net.home = config->home;
	return 0;
}
