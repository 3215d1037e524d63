/* opt_rows.h - rows that the tables of `aio serve` and `aio up` both have. AT(member) and NET(member) are
 * the table's own; the help is a parameter where it says something else of a host than of a server. */
#pragma once

/* clang-format off */
#define ROW_INSECURE(help) { "insecure", "AIO_INSECURE", OPT_BOOL, NET(insecure), "false", NULL, help, 0, 0 }
#define ROW_API_KEY(help) { NULL, "SANDBOX_API_KEY", OPT_STR, NET(api_key), NULL, NULL, help, 0, 0 }
#define ROW_AUTH_TOKEN { NULL, "AUTH_TOKEN", OPT_STR, NET(auth_token), NULL, NULL, \
	"A second key, accepted in the same three ways.", 0, 0 }
#define ROW_JWT_PUBLIC_KEY(help) { NULL, "JWT_PUBLIC_KEY", OPT_STR, NET(jwt_public_key), NULL, NULL, help, 0, 0 }
#define ROW_TICKET_TTL { "ticket-ttl", "TICKET_TTL_SECONDS", OPT_SECONDS, NET(ticket_ttl_ms), "30", "DURATION", \
	"How long a ticket from POST /tickets is good for.", 1000, 86400000 }
#define ROW_DOMAIN(help) { "domain", "AIO_DOMAIN", OPT_STR, NET(domain), NULL, "NAME", help, 0, 0 }
#define ROW_CORS_ORIGINS(help) { "cors-origins", "AIO_CORS_ORIGINS", OPT_STR, NET(cors_origins), NULL, "ORIGIN,…", help, 0, 0 }
#define ROW_MAX_HEAD(most, help) { "max-head", "AIO_MAX_HEAD", OPT_SIZE, NET(max_head), "64K", "SIZE", help, 1024, most }
#define ROW_MAX_CONNECTIONS { "max-connections", "AIO_MAX_CONNECTIONS", OPT_INT, NET(max_connections), "10000", "N", \
	"Most connections at once; more are answered 503.", 1, 1000000 }
#define ROW_TIMEOUT(name, env, at, def, help) { name "-timeout", env, OPT_SECONDS, at, def, "DURATION", help, 100, 86400000 }
#define ROW_IDLE_TIMEOUT ROW_TIMEOUT("idle", "AIO_IDLE_TIMEOUT", NET(idle_ms), "300", \
	"How long a connection may wait for its next request.")
#define ROW_HEAD_TIMEOUT ROW_TIMEOUT("head", "AIO_HEAD_TIMEOUT", NET(head_ms), "10", \
	"How long the head of a request may take to arrive.")
#define ROW_BODY_TIMEOUT(help) ROW_TIMEOUT("body", "AIO_BODY_TIMEOUT", NET(body_ms), "30", help)
#define ROW_SEND_TIMEOUT(help) ROW_TIMEOUT("send", "AIO_SEND_TIMEOUT", NET(send_ms), "60", help)
#define ROW_LOG_LEVEL(help) { "log-level", "AIO_LOG_LEVEL", OPT_ENUM, AT(log_level), "info", "error|warn|info|debug", help, 0, 0 }
#define ROW_LOG_FORMAT { "log-format", "AIO_LOG_FORMAT", OPT_ENUM, AT(log_format), "text", "text|json", \
	"Shape of a log line.", 0, 0 }
/* clang-format on */
