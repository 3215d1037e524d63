#include "base/own.h"
#include "host/host.h"

#define AT(member) offsetof(struct host_config, member)

static const struct opt options[] = {
	/* clang-format off */
	{ "listen", "AIO_LISTEN", OPT_STR, AT(listen), "127.0.0.1:8080", "HOST:PORT|unix:PATH",
	  "Where to listen." },
	{ "state", "AIO_STATE", OPT_STR, AT(state), "/var/lib/aiobox", "DIR",
	  "Where boxes, templates, logs, the store and the host's token are kept." },
	{ "domain", "AIO_DOMAIN", OPT_STR, AT(domain), NULL, "NAME",
	  "A host name, beside localhost, below which boxes have names: ID.NAME, and PORT-ID.NAME for what listens in one." },
	{ "insecure", "AIO_INSECURE", OPT_BOOL, AT(insecure), "false", NULL,
	  "Allow an address that is not loopback, and any Host name, though the default box needs no credentials." },
	{ NULL, "SANDBOX_API_KEY", OPT_STR, AT(api_key), NULL, NULL,
	  "A key that callers of the default box must send: X-AIO-API-Key, Authorization: Bearer, or ?api_key=." },
	{ NULL, "AUTH_TOKEN", OPT_STR, AT(auth_token), NULL, NULL,
	  "A second key, accepted in the same three ways." },
	{ NULL, "JWT_PUBLIC_KEY", OPT_STR, AT(jwt_public_key), NULL, NULL,
	  "Base64 of a PEM public key: callers of any box may send a JWT signed with it whose `aud` names that box." },
	{ "ticket-ttl", "TICKET_TTL_SECONDS", OPT_SECONDS, AT(ticket_ttl_ms), "30", "SECONDS",
	  "How long a ticket from POST /tickets is good for.", 1000, 86400000 },
	{ "cors-origins", "AIO_CORS_ORIGINS", OPT_STR, AT(cors_origins), NULL, "ORIGIN,…",
	  "Other web origins whose pages may call boxes." },
	{ "template", "AIO_TEMPLATE", OPT_STR, AT(template), NULL, "NAME",
	  "Template of the default box; this machine's own programs when absent." },
	{ "memory", "AIO_MEMORY", OPT_SIZE, AT(memory), "0", "SIZE",
	  "Memory of the default box; 0 for no limit.", 0, 1ll << 50 },
	{ "cpus", "AIO_CPU_PERCENT", OPT_INT, AT(cpu_percent), "0", "PERCENT",
	  "CPU time of the default box, 100 for one core; 0 for no limit.", 0, 1000000 },
	{ "pids", "AIO_PIDS", OPT_INT, AT(pids), "0", "N",
	  "Processes and threads of the default box; 0: a quarter of what the machine can have.", 0, 4194304 },
	{ "disk", "AIO_DISK", OPT_SIZE, AT(disk), "0", "SIZE",
	  "Disk of the default box; 0 for no limit.", 0, 1ll << 50 },
	{ "io-weight", "AIO_IO_WEIGHT", OPT_INT, AT(io_weight), "0", "N",
	  "Share of the disk's time of the default box, 1 to 10000, where all that have none have 100; 0 for none.", 0, 10000 },
	{ "network", "AIO_NETWORK", OPT_ENUM, AT(network), "none", "none|allow|full",
	  "Network of the default box." },
	{ "allow", "AIO_ALLOW", OPT_STR, AT(allow), NULL, "NAMES",
	  "Names that the default box may reach with --network allow: example.com,*.example.org,example.net:443." },
	{ "open-nets", "AIO_OPEN_NETS", OPT_STR, AT(open_nets), NULL, "NETS",
	  "Networks that boxes may reach though they are not public, such as 10.1.0.0/16." },
	{ "mount-roots", "AIO_MOUNT_ROOTS", OPT_STR, AT(mount_roots), NULL, "DIR:…",
	  "Directories from below which boxes may have mounts; none when absent." },
	{ "max-boxes", "AIO_MAX_BOXES", OPT_INT, AT(max_boxes), "1000", "N",
	  "Most boxes at once.", 1, 10000 },
	{ "max-connections", "AIO_MAX_CONNECTIONS", OPT_INT, AT(max_connections), "10000", "N",
	  "Most connections at once; more are answered 503.", 1, 1000000 },
	{ "max-streams", "AIO_MAX_STREAMS", OPT_INT, AT(max_streams), "1000", "N",
	  "Most connections to one box.", 1, 1000000 },
	{ "loops", "AIO_LOOPS", OPT_INT, AT(loops), "0", "N",
	  "Threads that relay; 0 for one per core.", 0, 64 },
	{ "max-head", "AIO_MAX_HEAD", OPT_SIZE, AT(max_head), "64K", "SIZE",
	  "Largest head of a request or an answer.", 1024, 262144 },
	{ "idle-timeout", "AIO_IDLE_TIMEOUT", OPT_SECONDS, AT(idle_ms), "300", "SECONDS",
	  "How long a connection may wait for its next request.", 100, 86400000 },
	{ "head-timeout", "AIO_HEAD_TIMEOUT", OPT_SECONDS, AT(head_ms), "10", "SECONDS",
	  "How long the head of a request may take to arrive.", 100, 86400000 },
	{ "body-timeout", "AIO_BODY_TIMEOUT", OPT_SECONDS, AT(body_ms), "30", "SECONDS",
	  "How long a body may stand still.", 100, 86400000 },
	{ "send-timeout", "AIO_SEND_TIMEOUT", OPT_SECONDS, AT(send_ms), "60", "SECONDS",
	  "How long a client or a box may take nothing of what it is sent.", 100, 86400000 },
	{ "log-level", "AIO_LOG_LEVEL", OPT_ENUM, AT(log_level), "info", "error|warn|info|debug",
	  "Least important line that is logged." },
	{ "log-format", "AIO_LOG_FORMAT", OPT_ENUM, AT(log_format), "text", "text|json",
	  "Shape of a log line." },
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
