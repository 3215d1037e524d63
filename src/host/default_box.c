#include "host/default_box.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "host/allow.h"
#include "host/box_limits.h"
#include "host/host.h"
#include "host/run.h"

static const char *const modes[] = { "none", "allow", "full" }; /* by enum box_network */

static json_t *describe(const struct host_config *config, enum box_network network)
{
	struct box_limits limits = config->limits;
	if (limits.cpus <= 0)
		limits.cpus = (double)config->cpu_percent / 100;
	json_t *spec = json_pack("{sssos{ss}}", "name", "default", "limits",
				 box_limits_json(&limits), "network", "mode", modes[network]);
	if (config->template && *config->template)
		json_object_set_new(spec, "template", json_string(config->template));
	json_t *allow = json_array();
	auto_free char *names = xstrdup(config->allow ? config->allow : "");
	for (char *state, *name = strtok_r(names, ", ", &state); name;
	     name = strtok_r(NULL, ", ", &state))
		json_array_append_new(allow, json_string(name));
	json_object_set_new(json_object_get(spec, "network"), "allow", allow);
	return spec;
}

/* The network that is asked for, or the most of it that may be had. */
static enum box_network wanted(const struct host *host)
{
	if (host->config->network != HOST_NETWORK_AUTO)
		return (enum box_network)host->config->network;
	return host->full ? BOX_NETWORK_FULL : BOX_NETWORK_NONE;
}

static void note_reason(struct host *host, const char *why)
{
	log_warn("the box 'default' is made without a network: %s", why);
	if (!host->gateway) /* it starts, and nobody else looks yet */
		snprintf(host->no_full, sizeof host->no_full, "%.255s", why);
}

/* That the means are there does not say that they work: nftables may be missing, or a module of the
 * kernel. */
static struct box *create(struct host *host, struct err *err)
{
	bool automatic = host->config->network == HOST_NETWORK_AUTO;
	enum box_network network = wanted(host);
	struct box *box = life_create(host, describe(host->config, network), err);
	if (!automatic)
		return box;
	if (network == BOX_NETWORK_NONE)
		note_reason(host, "full takes root, or pasta (package passt) and /dev/net/tun");
	if (box || network == BOX_NETWORK_NONE)
		return box;
	struct err why = *err;
	box = life_create(host, describe(host->config, BOX_NETWORK_NONE), err);
	if (box) /* so it was the network */
		note_reason(host, why.msg);
	return box;
}

int default_box_ensure(struct host *host, struct err *err)
{
	struct box *box = boxes_get(&host->boxes, "default");
	boxes_put(&host->boxes, box);
	if (box)
		return life_resume(host, "default", err);
	if (!host->means.can_machine && !(host->config->template && *host->config->template)) {
		log_warn("there is no box 'default': 'aio template import NAME FILE', then "
			 "'aio create --name default --template NAME', or start with --template");
		return 0;
	}
	box = create(host, err);
	boxes_put(&host->boxes, box);
	return box ? 0 : -1;
}

int default_box_check(const struct host *host, struct err *err)
{
	const char *allow = host->config->allow;
	if (allow && *allow && host->config->network != BOX_NETWORK_ALLOW)
		return err_set(
			err, ERR_INVALID,
			"--allow: names are listed for '--network allow', which was not given");
	json_t *spec = describe(host->config, wanted(host));
	json_t *each = box_limits_json(&(struct box_limits){ .memory = host->config->box_memory,
							     .disk = host->config->box_disk });
	const json_t *names = json_object_get(json_object_get(spec, "network"), "allow");
	int result = allow_check(names, "--allow", err);
	if (result == 0)
		result = box_limits_check(host, json_object_get(spec, "limits"), "--", err);
	if (result == 0)
		result = box_limits_check(host, each, "--box-", err);
	/* That it was less before, or the disk larger, keeps no host from its boxes. */
	struct err why;
	if (result == 0 && (box_limits_fit(host, json_object_get(spec, "limits"), "--", &why) < 0 ||
			    box_limits_fit(host, each, "--box-", &why) < 0))
		log_warn("%s", why.msg);
	json_decref(each);
	json_decref(spec);
	return result;
}

const char *default_box_mode(struct host *host)
{
	struct box *box = boxes_get(&host->boxes, "default");
	const char *mode = box ? modes[run_network(box->spec)] : NULL;
	boxes_put(&host->boxes, box);
	return mode;
}
