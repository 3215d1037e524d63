/* ground.h - what all boxes are made from, prepared once in a process: a mount namespace of its own,
 * with trees in it that each box gets a copy of. */
#pragma once

struct err;

/* Where the product's own files are in a box. */
#define GROUND_HOME "/usr/lib/aiobox"

/* Of a box's sudoers: gem may do everything, and programs that root starts know as well as gem's that
 * there is no network to try again with. */
#define GROUND_SUDOERS                                                               \
	"Defaults env_keep += \"APT_CONFIG PIP_RETRIES npm_config_fetch_retries\"\n" \
	"gem ALL=(ALL:ALL) NOPASSWD: ALL\n"

struct ground {
	int dev, product; /* with all that is mounted in them; read-only */
	char *python;     /* the product's Python environment on the machine; NULL: none */
};

/* Leaves the machine's mount namespace for good, for a directory where there are two to mount at:
 * layers and root. It has to be the working directory, because a box's own root could not reach it
 * below `state`. NULL when that fails. */
const struct ground *ground_get(const char *state, struct err *err);
