/* Copyright The Lighterage Authors. */
/* SPDX-License-Identifier: Apache-2.0 */

#ifndef DFLTCC_HUFFMAN_H
#define DFLTCC_HUFFMAN_H

#include "bits.h"

enum {
	max_literals = 288, /* literals, end of block and lengths; the last 2 are never used */
	max_distances = 32, /* the last 2 are never used */
	end_of_block = 256,
	max_code = 15, /* bits of the longest code */
};

/* The lengths of the codes of one block; 0 is a symbol without a code. */
struct lengths {
	uint8_t literal[max_literals];
	uint8_t distance[max_distances];
};

/* Codes for writing, first bit lowest. */
struct codes {
	struct lengths lengths;
	uint16_t literal[max_literals];
	uint16_t distance[max_distances];
};

/* A table for reading: symbol << 4 | length of its code, by the next 15 bits; 0
   where no code begins so. */
struct decoder {
	uint16_t literal[1 << max_code];
	uint16_t distance[1 << max_code];
};

/* What reading a table may end with. */
enum table_status {
	table_ok,
	table_more, /* the source ends before the table does */
	table_counts,
	table_code_lengths,
	table_repeat,
	table_end_of_block,
	table_literals,
	table_distances,
};

/* The lengths and distances that symbols stand for: base and extra bits. */
extern const uint16_t length_base[29], distance_base[30];
extern const uint8_t length_extra[29], distance_extra[30];

/* length_symbol returns the literal symbol of a match's length, 3 to 258. */
unsigned length_symbol(unsigned length);
/* distance_symbol returns the symbol of a distance, 1 to 32768. */
unsigned distance_symbol(unsigned distance);

/* fixed_lengths gives the lengths of blocks without a table. */
void fixed_lengths(struct lengths *l);
/* read_table reads the tables at the source's place and moves it past them when
   they are good. */
enum table_status read_table(struct bit_source *s, struct lengths *l);
/* write_table appends the tables, with all symbols that have meaning. */
void write_table(struct bit_queue *q, const struct lengths *l);

/* build_lengths makes lengths of at most limit bits for counts, all above 0. */
void build_lengths(const uint32_t *counts, unsigned n, unsigned limit, uint8_t *lengths);

void make_codes(struct codes *c);
void make_decoder(struct decoder *d, const struct lengths *l);

#endif
