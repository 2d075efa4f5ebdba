/* Copyright The Lighterage Authors. */
/* SPDX-License-Identifier: Apache-2.0 */

#ifndef DFLTCC_MATCH_H
#define DFLTCC_MATCH_H

#include <stddef.h>
#include <stdint.h>

#include "block.h"

enum {
	chunk_size = 1 << 15,
	hash_bits = 12,
	shortest_match = 3,
	longest_match = 258,
};

/* A stretch of history and the source that follows it, in one piece. */
struct window {
	uint8_t bytes[history_size + chunk_size];
	uint32_t at, end;
	/* The last place of each hash, plus 1. */
	uint32_t heads[1 << hash_bits];
};

/* A literal when length is 1. */
struct match {
	unsigned length, distance;
};

/* index_history makes what is before at known to next_match. */
void index_history(struct window *w);
/* next_match takes the next symbol from the window, which has bytes left. */
struct match next_match(struct window *w);

#endif
