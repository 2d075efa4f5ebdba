/* Copyright The Lighterage Authors. */
/* SPDX-License-Identifier: Apache-2.0 */

/* Bits in the order of DEFLATE: the first is the lowest of the first byte. */

#ifndef DFLTCC_BITS_H
#define DFLTCC_BITS_H

#include <stdint.h>
#include <string.h>

/* Bits that were written and not read yet. */
struct bit_queue {
	uint8_t *bytes;
	uint32_t count;
	uint32_t capacity; /* in bits */
};

/* put appends the lowest n bits of value, n at most 16. It drops what exceeds the
   capacity, which callers keep large enough. */
static inline void put(struct bit_queue *q, uint32_t value, unsigned n) {
	if (q->count + n > q->capacity)
		return;
	value &= (1u << n) - 1;
	while (n > 0) {
		unsigned used = q->count % 8, room = 8 - used, take = n < room ? n : room;
		uint8_t *byte = &q->bytes[q->count / 8];
		if (used == 0)
			*byte = 0;
		*byte |= (uint8_t)((value & ((1u << take) - 1)) << used);
		value >>= take;
		q->count += take;
		n -= take;
	}
}

/* Bits to read: those of two pieces of memory, one after the other. */
struct bit_source {
	const uint8_t *head;
	uint64_t head_bytes;
	const uint8_t *tail;
	uint64_t tail_bytes;
	uint64_t at; /* the next bit, counted from the first of head */
};

static inline uint64_t bits_left(const struct bit_source *s) {
	return (s->head_bytes + s->tail_bytes) * 8 - s->at;
}

static inline uint8_t byte_at(const struct bit_source *s, uint64_t i) {
	if (i < s->head_bytes)
		return s->head[i];
	i -= s->head_bytes;
	return i < s->tail_bytes ? s->tail[i] : 0;
}

/* peek returns the next n bits, n at most 48; those beyond the end are 0. */
static inline uint64_t peek(const struct bit_source *s, unsigned n) {
	uint64_t first = s->at / 8, value = 0;

	if (first >= s->head_bytes && first - s->head_bytes + 8 <= s->tail_bytes) {
		memcpy(&value, s->tail + (first - s->head_bytes), 8);
		value = __builtin_bswap64(value);
	} else {
		for (unsigned i = 0; i < 7; i++)
			value |= (uint64_t)byte_at(s, first + i) << (8 * i);
	}
	return value >> (s->at % 8) & ((1ull << n) - 1);
}

#endif
