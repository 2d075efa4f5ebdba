/* Copyright The Lighterage Authors. */
/* SPDX-License-Identifier: Apache-2.0 */

/* What is deliberately wrong, and what is counted. */

#ifndef DFLTCC_FAULT_H
#define DFLTCC_FAULT_H

#include "dfltcc_model.h"
#include "function.h"

/* read_environment takes DFLTCC_MODEL_STEP and DFLTCC_MODEL_FAULT. */
void read_environment(void);

/* step returns what dfltcc_model_set_step was told. */
uint64_t model_step(void);

/* count_call notes a call and how it ended. */
void count_call(int function, enum outcome outcome);

/* without_functions reports whether the model pretends to have none. */
int without_functions(void);

/* spoil does what the fault says to a call that began with the operands before. */
void spoil(int function, enum outcome outcome, struct block *b, const struct operands *before, struct operands *o);

#endif
