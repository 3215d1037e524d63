#include "cli/meter.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "cli/ask.h"
#include "cli/size_text.h"

enum { RENEW_MS = 200, BAR = 24, RATE_AFTER_MS = 500 };

void meter_start(struct meter *meter, const char *what, int64_t total)
{
	*meter = (struct meter){ .total = total, .start_ms = clock_ms() };
	snprintf(meter->what, sizeof meter->what, "%.*s", (int)utf8_fit(what, 40), what);
	ask_make_plain(meter->what, strlen(meter->what), false);
}

static void say(const struct meter *meter, int64_t now)
{
	char moved[16], rate[16], bar[BAR + 1] = "", left[32] = "";
	double seconds = (double)(now - meter->start_ms) / 1000;
	double speed = seconds > 0 ? (double)meter->moved / seconds : 0;
	double part = meter->total > 0 ? (double)meter->moved / (double)meter->total : 0;
	int filled = part < 1 ? (int)(part * BAR) : BAR;
	for (int i = 0; i < BAR; i++)
		bar[i] = i < filled ? '#' : '.';
	if (part > 0 && part < 1 && now - meter->start_ms > RATE_AFTER_MS) {
		long eta = (long)((double)(meter->total - meter->moved) / speed) + 1;
		snprintf(left, sizeof left, "  %ld:%02ld left", eta / 60, eta % 60);
	}
	size_text((double)meter->moved, moved, sizeof moved);
	size_text(speed, rate, sizeof rate);
	if (meter->total > 0)
		fprintf(stderr, "\r\033[K%s  [%s] %3.0f%%  %s  %s/s%s", meter->what, bar,
			part < 1 ? part * 100 : 100, moved, rate, left);
	else
		fprintf(stderr, "\r\033[K%s  %s  %s/s", meter->what, moved, rate);
}

void meter_moved(void *arg, size_t bytes)
{
	struct meter *meter = arg;
	int64_t now = clock_ms();
	meter->moved += (int64_t)bytes;
	if (now - meter->said_ms < RENEW_MS || !isatty(STDERR_FILENO))
		return;
	meter->said_ms = now;
	say(meter, now);
}

void meter_end(struct meter *meter)
{
	if (meter->said_ms)
		fputs("\r\033[K", stderr);
	meter->said_ms = 0;
}
