/* Copyright The Lighterage Authors. */
/* SPDX-License-Identifier: Apache-2.0 */

/* The plainest search for repetitions: the last place with the same hash of three
   bytes. */

#include <string.h>

#include "match.h"

static unsigned hash(const uint8_t *b) {
	return ((unsigned)b[0] << 16 | (unsigned)b[1] << 8 | b[2]) * 2654435761u >> (32 - hash_bits);
}

/* insert makes n places from at on known. */
static void insert(struct window *w, uint32_t at, uint32_t n) {
	for (uint32_t i = at; i < at + n && i + shortest_match <= w->end; i++)
		w->heads[hash(w->bytes + i)] = i + 1;
}

void index_history(struct window *w) {
	memset(w->heads, 0, sizeof(w->heads));
	insert(w, 0, w->at);
}

struct match next_match(struct window *w) {
	struct match m = {1, 0};
	const uint8_t *here = w->bytes + w->at;
	uint32_t room = w->end - w->at, place;

	if (room >= shortest_match && (place = w->heads[hash(here)]) > 0 && w->at - (place - 1) <= history_size) {
		const uint8_t *there = w->bytes + place - 1;
		unsigned length = 0, limit = room < longest_match ? room : longest_match;
		while (length < limit && there[length] == here[length])
			length++;
		if (length >= shortest_match)
			m = (struct match){length, w->at - (place - 1)};
	}
	insert(w, w->at, m.length);
	w->at += m.length;
	return m;
}
