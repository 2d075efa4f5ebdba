/* Copyright The Lighterage Authors. */
/* SPDX-License-Identifier: Apache-2.0 */

#include "check.h"

static uint32_t crc32_table[256];

__attribute__((constructor)) static void make_crc32_table(void) {
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t c = i;
		for (int k = 0; k < 8; k++)
			c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
		crc32_table[i] = c;
	}
}

void begin_check(struct block *b) {
	b->cv = b->task & task_cvt ? 1 : 0;
}

void add_check(struct block *b, const uint8_t *bytes, uint64_t n) {
	if (b->task & task_cvt) {
		uint32_t low = b->cv & 0xffff, high = b->cv >> 16;
		while (n > 0) {
			/* So many additions do not overflow. */
			uint64_t part = n < 5552 ? n : 5552;
			n -= part;
			while (part-- > 0) {
				low += *bytes++;
				high += low;
			}
			low %= 65521;
			high %= 65521;
		}
		b->cv = high << 16 | low;
		return;
	}
	/* A CRC-32 is in the field with its lowest byte first. */
	uint32_t c = ~__builtin_bswap32(b->cv);
	while (n-- > 0)
		c = c >> 8 ^ crc32_table[(c ^ *bytes++) & 255];
	b->cv = __builtin_bswap32(~c);
}
