/* Copyright The Lighterage Authors. */
/* SPDX-License-Identifier: Apache-2.0 */

/* What tests may ask of the model. All of it may be called from any thread. */

#ifndef DFLTCC_MODEL_H
#define DFLTCC_MODEL_H

#include <stdint.h>

enum {
	dfltcc_qaf = 0,
	dfltcc_gdht = 1,
	dfltcc_cmpr = 2,
	dfltcc_xpnd = 4,
};

/* dfltcc_model_calls returns how often a function was executed. */
uint64_t dfltcc_model_calls(int function);

/* dfltcc_model_partial returns how often a function ended with a condition code
   other than 0. */
uint64_t dfltcc_model_partial(int function);

/* dfltcc_model_set_step has CMPR and XPND end with condition code 3 after that
   many plain bytes; 0 is never. */
void dfltcc_model_set_step(uint64_t bytes);

/* dfltcc_model_set_fault makes the model faulty, see README.md for the kinds, from
   the call of a function on that follows so many good ones. An empty kind mends
   it. It returns 0 when it does not know the kind. */
int dfltcc_model_set_fault(const char *kind, uint64_t after);

#endif
