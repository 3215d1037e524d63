/* assistants.h - the configuration files of coding assistants that run in a terminal of the sandbox: Codex and
 * opencode. They are written when the server starts, as its environment says. */
#pragma once

struct config;
struct err;

/* Writes them, as the sandbox user. -1 with err: what the environment says cannot be a configuration, or a
 * file could not be written. Nothing is written then, or the file as it was is there. */
int assistants_configure(const struct config *config, struct err *err);
