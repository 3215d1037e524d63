/* routes.h - every group of routes a box server has. */
#pragma once
#include "net/route.h"

struct jw;

extern const struct route_group sandbox_group, auth_group, document_group, metrics_group, page_group;

/* All of them; ends with NULL. */
extern const struct route_group *const api_groups[];

/* The OpenAPI document of some groups. */
void openapi_write(const struct route_group *const *groups, struct jw *jw);

/* A manual for agents of some groups, as plain text. */
void manual_write(const struct route_group *const *groups, struct buf *to);
