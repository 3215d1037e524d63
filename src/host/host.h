/* host.h - the daemon of a machine: its boxes, what it remembers of them, and what can be done with
 * them. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "host/boxes.h"
#include "net/listen.h"
#include "net/server.h"

struct gateway;
struct store;

/* The options of `aio up`. */
struct host_config {
	const char *listen, *state, *domain, *cors_origins, *template, *mount_roots, *import_roots,
		*allow, *open_nets;
	const char *api_key, *auth_token, *jwt_public_key;
	bool insecure;
	struct box_limits limits;     /* of the default box */
	int64_t cpu_percent;          /* of it, unless limits.cpus */
	int64_t box_memory, box_disk; /* of each without a limit; 0: by the machine's; none */
	int64_t import_size, import_ms;
	int64_t network;      /* of the default box: enum box_network, or HOST_NETWORK_AUTO */
	int64_t plain_origin; /* enum host_plain */
	int64_t max_boxes, max_connections, max_streams, loops;
	int64_t max_head, idle_ms, head_ms, body_ms, send_ms, ticket_ttl_ms;
	int64_t log_level, log_format;
};
/* Whose pages the plain address has. */
enum host_plain { HOST_PLAIN_HOST, HOST_PLAIN_DEFAULT };

/* The mode `full` for a default box that is made, where this machine has it. */
enum { HOST_NETWORK_AUTO = 3 };

extern const struct opt_table host_options;

struct host {
	struct server server; /* first: handlers find the host by it. The lifecycle API. */
	struct config api;    /* its options */
	const struct host_config *config;
	char *state;                       /* an absolute path */
	struct listener listener;          /* its url is where the host is reached */
	char token[48];                    /* of the lifecycle API */
	char token_hint[300];              /* where it is, for those who lack it */
	struct auth *auth, *keys, *nobody; /* see gateway.h */
	uint32_t seed; /* differs between hosts of a machine: of cgroup names and uids */
	int state_fd, lock_fd;
	int netns;              /* of the sockets between the host and its boxes: see netns.h */
	struct box_means means; /* what this machine offers */
	char no_full[256]; /* why a default box that was made has none of it: see default_box.h */
	const char *full;  /* by which means boxes have network 'full'; NULL: it is refused */
	struct boxes boxes;
	struct store *store;
	struct gateway *gateway;
	struct attempts *attempts; /* see denials.h */
	int keeper_fd;             /* wakes the keeper */
	pthread_t keeper;
	_Atomic int64_t part_by_ms;    /* of clock_ms(): no shutdown hooks after that; 0: no end */
	_Atomic bool stopping, ending; /* the keeper is to end; the boxes are being ended */
};

/* Runs the host until a signal: 0, or -1 with err. `ready` is called once it answers. SIGTERM leaves
 * the boxes running, SIGINT (what `aio down` and Ctrl+C send) ends them: `ending` is called before that,
 * with how many there are. */
int host_run(const struct host_config *config, void (*ready)(struct host *host),
	     void (*ending)(bool with_boxes, size_t boxes), struct err *err);

/* Ends the boxes that a host which no longer runs has left running; their files stay. Counts them. */
int host_end_left(const char *state, size_t *ret_count, struct err *err);

static inline struct host *host_of(struct server *server)
{
	return (struct host *)server;
}

/* Paths below the state directory; free() them. */
char *host_path(const struct host *host, const char *folder, const char *name, const char *end);

int64_t host_now_ms(void);               /* of the wall clock */
void host_secret(char *to, size_t room); /* letters and digits */

/* Of a state directory's path. */
uint32_t host_seed(const char *text);

/* Runs fn in a thread of its own. -1: there is none. */
int host_job(struct host *host, void (*fn)(struct host *host, const char *id), const char *id);

/* ---- life.c: each waits for the box's turn, and is durable when it returns ---- */

/* Makes a box as `spec` says (given up). With a reference. */
struct box *life_create(struct host *host, json_t *spec, struct err *err);
int life_delete(struct host *host, const char *id, struct err *err);
/* Deletes a box whose time is over; one that has got more meanwhile stays. */
int life_expire(struct host *host, const char *id, struct err *err);
int life_pause(struct host *host, const char *id, const char *why, struct err *err);
int life_resume(struct host *host, const char *id,
		struct err *err);                                  /* of a stopped one: starts it */
int life_stop(struct host *host, const char *id, struct err *err); /* its files stay */
int life_timeout(struct host *host, const char *id, double seconds, double idle, struct err *err);
/* The machine's addresses have changed. */
int life_readdress(struct host *host, const char *id, struct err *err);
/* Its way out has ended, by a crash or for want of memory. */
int life_reconnect(struct host *host, const char *id, struct err *err);
/* Its processes have ended by themselves. */
int life_ended(struct host *host, const char *id, struct err *err);
/* Makes a template, in a directory that is not there yet, of a box, which stands still for moments; with
 * or without the profile of its browser. */
int life_snapshot(struct host *host, const char *id, bool browser, const char *to, struct err *err);

/* A new box as `spec` (given up) says, with the files of another, which stands still for moments. */
struct box *life_fork(struct host *host, const char *id, json_t *spec, struct err *err);

/* Takes back what the store knows, and removes what it does not. */
int life_recover(struct host *host, struct err *err);
/* Loads what the store knows, and ends all that still runs. Counts those. */
int life_end_left(struct host *host, size_t *ret_count, struct err *err);

/* The name of a box's cgroup. */
void life_cgroup(const struct host *host, const char *id, char *to, size_t room);

/* ---- keeper.c: a thread that watches boxes, timers and logs ---- */

int keeper_start(struct host *host, struct err *err);
void keeper_stop(struct host *host);
void keeper_notice(struct host *host);
void keeper_drain(struct host *host, struct box *box); /* its log, up to now, to its file */

/* ---- templates.c ---- */

/* The directory of a template; *ret is NULL for the machine's own. */
int templates_find(const struct host *host, const char *name, char **ret, struct err *err);

/* What the image of a template says about running it (image.h), new; NULL: nothing. */
json_t *templates_settings(const struct host *host, const char *name);

/* Removes what a crash left half made. */
void templates_clean(const struct host *host);

/* Makes a template of a box's files, with or without the profile of its browser. */
int templates_snapshot(struct host *host, const char *id, const char *name, bool browser,
		       struct err *err);

/* For the command line, whose flags are the requests' fields. */
extern const struct schema sandboxes_create_schema, sandboxes_fork_schema,
	sandboxes_snapshot_schema;

extern const struct route_group sandboxes_group, sandboxes_metrics_group, sandboxes_logs_group,
	events_group, templates_group, host_tickets_group, host_openapi_group;
/* All groups of the host's own server; ends with NULL. */
extern const struct route_group *const host_groups[];

/* Those that are documented, the boxes' own included; ends with NULL. */
enum { HOST_OPENAPI_GROUPS = 64 };
void host_openapi_groups(const struct route_group *to[HOST_OPENAPI_GROUPS]);
