/* Copyright The Lighterage Authors. */
/* SPDX-License-Identifier: Apache-2.0 */

/* One block of raw DEFLATE per call, so that a block costs one crossing from Go
   to C. The streams live in C memory and are used again for every block. */

#ifndef LIGHTERAGE_ISAL_BLOCK_H
#define LIGHTERAGE_ISAL_BLOCK_H

#include <stdint.h>

/* What a call returns when it does not return a length. */
enum {
	isal_block_does_not_fit = -1, /* deflate: the stream is longer than the buffer */
	isal_block_corrupt = -2,
	isal_block_truncated = -3,
	isal_block_trailing = -4,
	isal_block_too_long = -5,
	isal_block_broken = -6, /* the library refused the call: a bug, not a matter of data */
};

struct isal_block_deflater;
struct isal_block_inflater;

/* isal_block_version returns the version as major * 0x10000 + minor * 0x100 + patch. */
uint32_t isal_block_version(void);

/* isal_block_deflate_new returns a stream of igzip's level 1, or NULL when memory
   is out. */
struct isal_block_deflater *isal_block_deflate_new(void);

/* isal_block_deflate_dictionary has all blocks that follow refer back to a dictionary. It returns 0, or -1 when memory is
   out. */
int isal_block_deflate_dictionary(struct isal_block_deflater *d, const uint8_t *dictionary, uint32_t len);

/* isal_block_deflate_free frees a stream. */
void isal_block_deflate_free(struct isal_block_deflater *d);

/* isal_block_deflate compresses src into dst and returns the length written. */
int64_t isal_block_deflate(struct isal_block_deflater *d, uint8_t *dst, uint32_t dst_len, const uint8_t *src,
			   uint32_t src_len);

/* isal_part_restart begins a stream that isal_part_deflate makes in parts. */
void isal_part_restart(struct isal_block_deflater *d);

/* isal_part_deflate compresses the next part of a stream, up to a boundary of bytes
   or the stream's end, and returns the length written. */
int64_t isal_part_deflate(struct isal_block_deflater *d, uint8_t *dst, uint32_t dst_len, const uint8_t *src,
			  uint32_t src_len, int last);

/* isal_block_inflate_new returns a stream, or NULL when memory is out. free()
   frees it. */
struct isal_block_inflater *isal_block_inflate_new(void);

/* isal_block_inflate expands the one stream in src into dst and returns the
   length written. It may refer back to a dictionary, of dictionary_len bytes, none if
   that is 0. */
int64_t isal_block_inflate(struct isal_block_inflater *i, uint8_t *dst, uint32_t dst_len, const uint8_t *src,
			   uint32_t src_len, const uint8_t *dictionary, uint32_t dictionary_len);

#endif
