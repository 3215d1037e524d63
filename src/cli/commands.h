/* commands.h - the commands of the program, one file each. */
#pragma once

struct route_group;

/* Each takes its own name as argv[0] and returns the exit status: 2 for wrong usage. */
int cmd_serve(int argc, char **argv);
int cmd_openapi(int argc, char **argv);
int cmd_egress(int argc, char **argv);

/* What cmd_serve() does, with other routes. */
int serve_groups(int argc, char **argv, const struct route_group *const *groups);
