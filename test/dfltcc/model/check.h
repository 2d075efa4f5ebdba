/* Copyright The Lighterage Authors. */
/* SPDX-License-Identifier: Apache-2.0 */

#ifndef DFLTCC_CHECK_H
#define DFLTCC_CHECK_H

#include "block.h"

/* begin_check sets the check value of no bytes; add_check takes n more in. */
void begin_check(struct block *b);
void add_check(struct block *b, const uint8_t *bytes, uint64_t n);

#endif
