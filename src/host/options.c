#include "base/own.h"
#include "config/opt_rows.h"
#include "host/box_limits.h"
#include "host/host.h"

#define AT(member) offsetof(struct host_config, member)
#define NET        AT

#define LIMIT(member, type, flags, sample, most, means, least, text, why, kind, option, variable, \
	      value, field, field_end, before, after)                                             \
	{ option, variable, kind, AT(limits.member), "0", value, before text after, 0, most },

static const struct opt options[] = {
	/* clang-format off */
	{ "listen", "AIO_LISTEN", OPT_STR, AT(listen), "127.0.0.1:8080", "HOST:PORT|unix:PATH",
	  "Where to listen." },
	{ "state", "AIO_STATE", OPT_STR, AT(state), "/var/lib/aiobox", "DIR",
	  "Where boxes, templates, logs, the store and the host's token are kept." },
	ROW_DOMAIN("A host name, beside localhost, below which boxes have names: ID.NAME, and PORT-ID.NAME for what listens in one."),
	{ "plain-origin", "AIO_PLAIN_ORIGIN", OPT_ENUM, AT(plain_origin), "host", "host|default",
	  "Whose pages are at the plain address, which names no box: the host's, and pages of the box 'default' are at default.localhost; or the default box's own, for browsers and proxies that know no other name, and the host's are at host.localhost and host.NAME." },
	ROW_INSECURE("Allow an address that is not loopback, and any Host name, though the default box needs no credentials."),
	ROW_API_KEY("A key that callers of the default box must send: X-AIO-API-Key, Authorization: Bearer, or ?api_key=."),
	ROW_AUTH_TOKEN,
	ROW_JWT_PUBLIC_KEY("Base64 of a PEM public key: callers of any box may send a JWT signed with it whose `aud` names that box."),
	ROW_TICKET_TTL,
	ROW_CORS_ORIGINS("Other web origins whose pages may call boxes."),
	{ "template", "AIO_TEMPLATE", OPT_STR, AT(template), NULL, "NAME",
	  "Template of the default box; this machine's own programs when absent." },
	BOX_LIMITS(LIMIT)
	{ "box-memory", "AIO_BOX_MEMORY", OPT_SIZE, AT(box_memory), "0", "SIZE",
	  "Memory of each box that was given no limit; 0: three quarters of the machine's. All boxes together have seven eighths.", 0, BOX_LIMITS_SIZE_MAX },
	{ NULL, "AIO_CPU_PERCENT", OPT_INT, AT(cpu_percent), "0", NULL,
	  "CPU of the default box in percent, 100 for one core, as earlier versions had it; AIO_CPUS and --cpus win.", 0, 1000000 },
	{ "box-disk", "AIO_BOX_DISK", OPT_SIZE, AT(box_disk), "0", "SIZE",
	  "Disk of each box that is made without a limit, at least 16M; 0 for none: such a box can fill the disk of --state.", 0, BOX_LIMITS_SIZE_MAX },
	{ "network", "AIO_NETWORK", OPT_ENUM, AT(network), "none", "none|allow|full|auto",
	  "Network of the default box when it is made. auto: full where this machine has it, else none, and the host says why." },
	{ "allow", "AIO_ALLOW", OPT_STR, AT(allow), NULL, "NAMES",
	  "Names that the default box may reach with --network allow: example.com,*.example.org,example.net:443." },
	{ "open-nets", "AIO_OPEN_NETS", OPT_STR, AT(open_nets), NULL, "NETS",
	  "Networks that boxes may reach though they are not public, such as 10.1.0.0/16." },
	{ "mount-roots", "AIO_MOUNT_ROOTS", OPT_STR, AT(mount_roots), NULL, "DIR:…",
	  "Directories from below which boxes may have mounts; none when absent." },
	{ "import-roots", "AIO_IMPORT_ROOTS", OPT_STR, AT(import_roots), NULL, "DIR:…",
	  "Directories from below which POST /v1/templates may import; none when absent. 'aio template import' sends the file itself." },
	{ "import-size", "AIO_IMPORT_SIZE", OPT_SIZE, AT(import_size), "32G", "SIZE",
	  "Most that an import may be sent, and that it may unpack, an image's archive and its layers together.", 1 << 20, BOX_LIMITS_SIZE_MAX },
	{ "import-timeout", "AIO_IMPORT_TIMEOUT", OPT_SECONDS, AT(import_ms), "3600", "DURATION",
	  "How long unpacking an import may take.", 1000, 86400000 },
	{ "max-boxes", "AIO_MAX_BOXES", OPT_INT, AT(max_boxes), "1000", "N",
	  "Most boxes at once.", 1, 10000 },
	ROW_MAX_CONNECTIONS,
	{ "max-streams", "AIO_MAX_STREAMS", OPT_INT, AT(max_streams), "1000", "N",
	  "Most connections to one box.", 1, 1000000 },
	{ "loops", "AIO_LOOPS", OPT_INT, AT(loops), "0", "N",
	  "Threads that relay; 0 for one per core.", 0, 64 },
	ROW_MAX_HEAD(262144, "Largest head of a request or an answer."),
	ROW_IDLE_TIMEOUT,
	ROW_HEAD_TIMEOUT,
	ROW_BODY_TIMEOUT("How long a body may stand still."),
	ROW_SEND_TIMEOUT("How long a client or a box may take nothing of what it is sent; of a tunnel, a day."),
	ROW_LOG_LEVEL("Least important line that is logged."),
	ROW_LOG_FORMAT,
	/* clang-format on */
};

const struct opt_table host_options = {
	"aio up [--listen HOST:PORT] [--state DIR] [options]",
	"Runs the host of this machine in the foreground: many boxes behind one address, and one named "
	"'default' that every request without another address goes to. As root, or as an "
	"ordinary user, with less that can be done. SIGTERM ends the host and leaves its boxes running, for the next 'aio up' to take back; Ctrl+C and 'aio down' end them "
	"too, and keep their files.",
	options,
	COUNT(options),
};
