/* commands.h - the commands of the program, one file each. */
#pragma once
#include <jansson.h>
#include <stdio.h>

struct err;
struct remote;
struct route_group;
struct schema;

/* Each takes its own name as argv[0] and returns the exit status: 2 for wrong usage. */
int cmd_serve(int argc, char **argv);
int cmd_openapi(int argc, char **argv);
int cmd_egress(int argc, char **argv);
int cmd_up(int argc, char **argv);
int cmd_down(int argc, char **argv);
int cmd_box(int argc, char **argv); /* all that speak to the host: argv[0] tells which */
int cmd_mcp(int argc, char **argv);
int cmd_api(int argc, char **argv); /* all that call the API of a sandbox: argv[0] is the group */
int cmd_completion(int argc, char **argv);
int cmd_copy(int argc, char **argv); /* aio file cp */
int cmd_help(int argc, char **argv);

/* The verbs of a group, a line each. */
void api_help(FILE *to, const char *group);

/* The help of every verb. */
void api_help_all(void);

/* Of a group of the API, what is more than one operation; ends with a NULL name. */
extern const struct own_verb {
	const char *group, *name, *usage, *about;
	int (*run)(int argc, char **argv);
} own_verbs[];

/* Those that are not groups of the API; ends with a NULL name. */
extern const struct command_row {
	const char *name, *about;
	int (*run)(int argc, char **argv);
} command_rows[];

/* Runs the command that argv[0] names. */
int commands_run(int argc, char **argv);

/* What cmd_serve() does, with other routes. */
int serve_groups(int argc, char **argv, const struct route_group *const *groups);

/* Runs a command in a box: its exit status, or -1. `flags` has the fields of exec_schema. */
extern const struct schema exec_schema;
int exec_in_box(const struct remote *remote, const json_t *flags, const char *id, int argc,
		char **argv, struct err *err);

/* Sends the host an image or an archive, a directory as one, to make a template of: what it says about
 * it, new, or NULL. `origin` is what is told as its source. */
json_t *upload_template(const struct remote *remote, const char *name, const char *path,
			const char *origin, struct err *err);

/* Builds the Dockerfile of a directory: *ret_archive is an image in a directory of its own;
 * both are to be removed, and the name freed, after a failure too unless it is NULL. The builder's
 * progress goes to standard error. `flags` has the fields of build_schema. */
extern const struct schema build_schema;
int build_image(const char *dir, const json_t *flags, char **ret_archive, struct err *err);
