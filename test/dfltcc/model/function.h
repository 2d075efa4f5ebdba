/* Copyright The Lighterage Authors. */
/* SPDX-License-Identifier: Apache-2.0 */

#ifndef DFLTCC_FUNCTION_H
#define DFLTCC_FUNCTION_H

#include <stdint.h>

#include "block.h"

/* The operands of one call; the functions move them. */
struct operands {
	uint8_t *first;
	uint64_t first_length;
	const uint8_t *second;
	uint64_t second_length;
	uint8_t *history;
	/* The call ends with again after that many plain bytes; 0 is never. */
	uint64_t step;
};

/* How a call ends: the condition code, or the program misused the instruction. */
enum outcome {
	done = 0,
	first_short = 1,
	second_short = 2, /* or, with a code in oesc, bad data */
	again = 3,
	misuse = 4,
};

enum outcome generate(struct block *b, const struct operands *o);
enum outcome compress(struct block *b, struct operands *o);
enum outcome expand(struct block *b, struct operands *o);

/* append_history has the circular history hold n bytes more. */
void append_history(struct block *b, uint8_t *history, const uint8_t *bytes, uint64_t n);
/* copy_history copies the last n bytes of the history. */
void copy_history(const struct block *b, const uint8_t *history, uint8_t *to, uint64_t n);

#endif
