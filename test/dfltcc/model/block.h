/* Copyright The Lighterage Authors. */
/* SPDX-License-Identifier: Apache-2.0 */

/* The parameter block of the functions, format 0. Numbers are big-endian, which
   is what the one architecture that has the instruction is. */

#ifndef DFLTCC_BLOCK_H
#define DFLTCC_BLOCK_H

#include <stddef.h>
#include <stdint.h>

enum {
	history_size = 1 << 15,
	cdht_capacity = 288, /* bytes */
	csb_capacity = 1152, /* bytes */
};

/* Bits of fields that hold several. */
enum {
	flag_cf = 1u << 0,      /* continuation */
	task_nt = 1u << 7,      /* new task */
	task_cvt = 1u << 5,     /* check value: 0 CRC-32, 1 Adler-32 */
	task_htt = 1u << 3,     /* Huffman table: 0 fixed, 1 dynamic */
	task_bcf = 1u << 2,     /* block continuation */
	task_bcc = 1u << 1,     /* block closing control */
	task_bhf = 1u << 0,     /* block header final */
	control_dhtgc = 1u << 5 /* Huffman tables with the symbols of the sample alone */
};

struct block {
	uint16_t pbvn;
	uint8_t mvn;
	uint8_t ribm;
	uint32_t flags;
	uint8_t reserved8[8];
	uint8_t task;
	uint8_t control;
	uint8_t sbb;  /* sub-byte boundary, 3 bits */
	uint8_t oesc; /* operation-ending supplemental code */
	uint16_t ifs;
	uint16_t ifl;
	uint8_t reserved24[20];
	uint16_t hl; /* history length */
	uint16_t ho; /* history offset, 15 bits */
	uint32_t cv; /* check value */
	uint16_t eobs; /* end-of-block symbol, left-justified */
	uint8_t eobl;  /* its length, in the upper 4 bits */
	uint8_t reserved55;
	uint16_t cdhtl; /* bits in cdht, 12 bits */
	uint8_t reserved58[6];
	uint8_t cdht[cdht_capacity]; /* the Huffman tables, as in a stream */
	uint8_t reserved352[24];
	uint8_t ribm2[8];
	uint8_t csb[csb_capacity]; /* what a function keeps for its continuation */
} __attribute__((aligned(8)));

_Static_assert(offsetof(struct block, task) == 16, "task");
_Static_assert(offsetof(struct block, hl) == 44, "hl");
_Static_assert(offsetof(struct block, cv) == 48, "cv");
_Static_assert(offsetof(struct block, eobs) == 52, "eobs");
_Static_assert(offsetof(struct block, cdhtl) == 56, "cdhtl");
_Static_assert(offsetof(struct block, cdht) == 64, "cdht");
_Static_assert(offsetof(struct block, csb) == 384, "csb");
_Static_assert(sizeof(struct block) == 1536, "block");

/* What Query Available Functions stores. */
struct available {
	uint8_t functions[16];
	uint8_t reserved16[8];
	uint8_t formats[2];
	uint8_t reserved26[6];
} __attribute__((aligned(8)));

_Static_assert(sizeof(struct available) == 32, "available");

#endif
