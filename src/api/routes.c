#include "api/routes.h"

const struct route_group *const api_groups[] = {
	&sandbox_group,  &shell_group,   &terminal_group, &bash_group, &auth_group,
	&document_group, &metrics_group, &page_group,     NULL,
};
