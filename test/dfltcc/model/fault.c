/* Copyright The Lighterage Authors. */
/* SPDX-License-Identifier: Apache-2.0 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault.h"

enum fault {
	none,
	compressed_byte,
	expanded_byte,
	check_value,
	lost_continuation,
	lost_history,
	new_task,
	wrong_end_of_block,
	overrun,
	short_count,
	no_functions,
	faults,
};

static const char *const names[faults] = {
	[none] = "",
	[compressed_byte] = "compressed-byte",
	[expanded_byte] = "expanded-byte",
	[check_value] = "check-value",
	[lost_continuation] = "lost-continuation",
	[lost_history] = "lost-history",
	[new_task] = "new-task",
	[wrong_end_of_block] = "end-of-block",
	[overrun] = "overrun",
	[short_count] = "short-count",
	[no_functions] = "no-functions",
};

enum { functions = 8 };

/* Calls take as much as a machine might when nothing else is asked for. */
static uint64_t step = 256 << 10;
static int fault = none;
static uint64_t fault_after;
static uint64_t calls[functions], partial[functions];

uint64_t dfltcc_model_calls(int function) {
	return __atomic_load_n(&calls[function % functions], __ATOMIC_RELAXED);
}

uint64_t dfltcc_model_partial(int function) {
	return __atomic_load_n(&partial[function % functions], __ATOMIC_RELAXED);
}

void dfltcc_model_set_step(uint64_t bytes) {
	__atomic_store_n(&step, bytes, __ATOMIC_RELAXED);
}

int dfltcc_model_set_fault(const char *kind, uint64_t after) {
	for (int i = 0; i < faults; i++) {
		if (strcmp(kind, names[i]) != 0)
			continue;
		__atomic_store_n(&fault, none, __ATOMIC_SEQ_CST);
		for (int f = 0; f < functions; f++)
			__atomic_store_n(&calls[f], 0, __ATOMIC_SEQ_CST);
		__atomic_store_n(&fault_after, after, __ATOMIC_SEQ_CST);
		__atomic_store_n(&fault, i, __ATOMIC_SEQ_CST);
		return 1;
	}
	return 0;
}

static void refuse(const char *name, const char *value) {
	fprintf(stderr, "dfltcc model: %s=%s is not understood; see its README\n", name, value);
	exit(2);
}

void read_environment(void) {
	const char *value = getenv("DFLTCC_MODEL_STEP");
	char *end;

	if (value != NULL && *value != '\0') {
		step = strtoull(value, &end, 10);
		if (*end != '\0')
			refuse("DFLTCC_MODEL_STEP", value);
	}
	value = getenv("DFLTCC_MODEL_FAULT");
	if (value == NULL)
		return;
	char kind[32];
	uint64_t after = 0;
	size_t length = strcspn(value, "@");
	if (value[length] == '@') {
		after = strtoull(value + length + 1, &end, 10);
		if (value[length + 1] == '\0' || *end != '\0')
			refuse("DFLTCC_MODEL_FAULT", value);
	}
	if (length >= sizeof(kind))
		refuse("DFLTCC_MODEL_FAULT", value);
	memcpy(kind, value, length);
	kind[length] = '\0';
	if (!dfltcc_model_set_fault(kind, after))
		refuse("DFLTCC_MODEL_FAULT", value);
}

uint64_t model_step(void) {
	return __atomic_load_n(&step, __ATOMIC_RELAXED);
}

void count_call(int function, enum outcome outcome) {
	__atomic_fetch_add(&calls[function], 1, __ATOMIC_RELAXED);
	if (outcome != done)
		__atomic_fetch_add(&partial[function], 1, __ATOMIC_RELAXED);
}

int without_functions(void) {
	return __atomic_load_n(&fault, __ATOMIC_SEQ_CST) == no_functions;
}

void spoil(int function, enum outcome outcome, struct block *b, const struct operands *before, struct operands *o) {
	uint64_t wrote = (uint64_t)(o->first - before->first);

	if (dfltcc_model_calls(function) <= __atomic_load_n(&fault_after, __ATOMIC_SEQ_CST))
		return;
	switch (__atomic_load_n(&fault, __ATOMIC_SEQ_CST)) {
	case compressed_byte:
		if (function == dfltcc_cmpr && wrote > 0)
			before->first[wrote / 2] ^= 0x10;
		break;
	case expanded_byte:
		if (function == dfltcc_xpnd && wrote > 0)
			before->first[wrote / 2] ^= 0x10;
		break;
	case check_value:
		b->cv ^= 1;
		break;
	case lost_continuation:
		if (outcome != done)
			memset(b->csb, 0, sizeof(b->csb));
		break;
	case lost_history:
		b->hl = 0;
		break;
	case new_task:
		b->task |= task_nt;
		break;
	case wrong_end_of_block:
		b->eobs ^= 0x8000;
		break;
	case overrun:
		before->first[before->first_length] = 0xee;
		break;
	case short_count:
		if (wrote > 0) {
			o->first--;
			o->first_length++;
		}
		break;
	}
}
