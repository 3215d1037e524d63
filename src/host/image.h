/* image.h - what an image says about how its programs are run, as far as a box heeds it: variables and
 * the directory to start in. User, entry point, command, ports and volumes are the box's own matter. */
#pragma once
#include <jansson.h>

struct err;

/* {"env": {…}, "workdir": "/…"} out of an image's configuration, which is hostile; each only where it
 * can be heeded. `root` is the unpacked root file system. Never NULL. */
json_t *image_settings(const json_t *config, const char *root);

/* Adds to a list of "NAME=VALUE" those of the settings that `own`, an object of variables, has not. */
void image_environment(const json_t *settings, const json_t *own, json_t *to);
