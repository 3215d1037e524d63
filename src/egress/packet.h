/* packet.h - where a packet that was refused was to go. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct packet {
	uint32_t to;   /* in host order */
	unsigned port; /* 0: its protocol has none */
	bool answered; /* refused by somebody on the way, whose answer this packet is */
};

/* Takes an IPv4 packet apart, or, of an ICMP error, the one that it is about. -1: neither. */
int packet_parse(const uint8_t *data, size_t len, struct packet *ret);
