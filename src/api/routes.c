#include "api/routes.h"

const struct route_group *const api_groups[] = {
	&auth_group, &document_group, &metrics_group, &page_group, NULL,
};
