#include "egress/names.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"

enum { SLOTS = NAMES_MAX * 2, FIRST = NAMES_NET + 256 };

struct names {
	pthread_mutex_t lock;
	size_t count;
	char *texts[NAMES_MAX];
	uint16_t slots[SLOTS]; /* index + 1 of a text, by its hash; 0: free */
};

struct names *names_new(void)
{
	struct names *names = xcalloc(1, sizeof *names);
	pthread_mutex_init(&names->lock, NULL);
	return names;
}

void names_free(struct names *names)
{
	if (!names)
		return;
	for (size_t i = 0; i < names->count; i++)
		free(names->texts[i]);
	pthread_mutex_destroy(&names->lock);
	free(names);
}

static size_t slot_of(const char *name)
{
	uint32_t hash = 2166136261;
	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619;
	return hash % SLOTS;
}

uint32_t names_address(struct names *names, const char *name)
{
	uint32_t address = 0;
	pthread_mutex_lock(&names->lock);
	size_t slot = slot_of(name);
	while (names->slots[slot] && strcmp(names->texts[names->slots[slot] - 1], name) != 0)
		slot = (slot + 1) % SLOTS;
	if (!names->slots[slot] && names->count < NAMES_MAX) {
		names->texts[names->count++] = xstrdup(name);
		names->slots[slot] = (uint16_t)names->count;
	}
	if (names->slots[slot])
		address = (uint32_t)FIRST + names->slots[slot] - 1U;
	pthread_mutex_unlock(&names->lock);
	return address;
}

int names_find(struct names *names, uint32_t address, char *to, size_t room)
{
	int result = -1;
	pthread_mutex_lock(&names->lock);
	if (address >= (uint32_t)FIRST && address - (uint32_t)FIRST < names->count) {
		snprintf(to, room, "%s", names->texts[address - (uint32_t)FIRST]);
		result = 0;
	}
	pthread_mutex_unlock(&names->lock);
	return result;
}
