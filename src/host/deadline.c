#include "host/deadline.h"

#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "box/identity.h"

static int64_t read_clock(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

struct deadline_now deadline_now(void)
{
	return (struct deadline_now){ read_clock(CLOCK_REALTIME), read_clock(CLOCK_BOOTTIME),
				      identity_boot() };
}

int64_t deadline_after(int64_t ms)
{
	return ms > 0 ? deadline_now().boot_ms + ms : 0;
}

int64_t deadline_wall(int64_t deadline)
{
	struct deadline_now now = deadline_now();
	return deadline ? (now.wall_ms + deadline - now.boot_ms + 500) / 1000 * 1000 : 0;
}

json_t *deadline_note(int64_t deadline, const struct deadline_now *now)
{
	json_int_t left = deadline - now->boot_ms, wall = now->wall_ms + left;
	return deadline ? json_pack("{sIsIsIss}", "wall_ms", wall, "boot_ms", (json_int_t)deadline,
				    "left_ms", left, "boot_id", now->boot_id)
			: json_null();
}

static int64_t number(const json_t *note, const char *name)
{
	return json_integer_value(json_object_get(note, name));
}

int64_t deadline_read(const json_t *note, const struct deadline_now *now)
{
	if (!json_is_object(note))
		return 0;
	const char *boot_id = json_string_value(json_object_get(note, "boot_id"));
	bool same = boot_id && *boot_id && !strcmp(boot_id, now->boot_id);
	int64_t left = same ? number(note, "boot_ms") - now->boot_ms
			    : number(note, "wall_ms") - now->wall_ms;
	if (left > number(note, "left_ms"))
		left = number(note, "left_ms");
	int64_t deadline = now->boot_ms + left;
	return deadline > 0 ? deadline : 1; /* long ago, but not never */
}
