#include "api/routes.h"

const struct route_group *const api_groups[] = {
	&sandbox_group,     &sandbox_events_group,
	&shell_group,       &shell_sessions_group,
	&terminal_group,    &bash_group,
	&auth_group,        &file_read_group,
	&file_write_group,  &file_transfer_group,
	&file_list_group,   &file_editor_group,
	&file_search_group, &file_grep_group,
	&watch_group,       &util_group,
	&skills_group,      &jupyter_group,
	&code_group,        &contexts_group,
	&nodejs_group,      &mcp_group,
	&watch_wait_group,  &mcp_view_group,
	&document_group,    &metrics_group,
	&page_group,        &attach_group,
	&preview_group,     NULL,
};
