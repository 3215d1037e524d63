/* nodejs_manage.h - the routes that make, list, show, change and delete sessions of Node.js. */
#pragma once
#include "base/desc.h"

struct call;
struct err;

int nodejs_manage_create(struct call *call, const void *in, struct err *err);
int nodejs_manage_list(struct call *call, const void *in, struct err *err);
int nodejs_manage_get(struct call *call, const void *in, struct err *err);
int nodejs_manage_update(struct call *call, const void *in, struct err *err);
int nodejs_manage_delete(struct call *call, const void *in, struct err *err);

/* What they take and answer. */
extern const struct schema nodejs_manage_create_schema, nodejs_manage_list_schema,
	nodejs_manage_which_schema, nodejs_manage_update_schema;
extern const struct field nodejs_manage_created_data, nodejs_manage_session_list_data,
	nodejs_manage_session_answer_data, nodejs_manage_updated_data, nodejs_manage_deleted_data;
