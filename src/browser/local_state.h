/* local_state.h - what Chromium reads from the file "Local State" of its profile when it starts. */
#pragma once

struct err;

/* Has it resolve names by HTTPS, at the servers of these URI templates. As the user whose profile it is. */
int local_state_set_dns(const char *profile, const char *templates, struct err *err);
