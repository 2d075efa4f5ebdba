/* Copyright The Lighterage Authors. */
/* SPDX-License-Identifier: Apache-2.0 */

/* One block of raw DEFLATE per call, so that a block costs one crossing from Go
   to C. The streams live in C memory and are used again for every block. */

#ifndef LIGHTERAGE_BLOCK_H
#define LIGHTERAGE_BLOCK_H

#include <stdint.h>

#include <zlib-ng.h>

#if __has_include(<dfltcc_witness.h>)
#include <dfltcc_witness.h>
#else
/* A library that is not ours. Where such a library is used there is no DFLTCC. */
enum dfltcc_witness {
	dfltcc_did_all,
	dfltcc_not_built,
	dfltcc_no_instruction,
	dfltcc_level,
	dfltcc_window,
	dfltcc_other,
};
#define dfltcc_deflate_witness(stream) dfltcc_not_built
#define dfltcc_dictionary_witness(stream) dfltcc_not_built
#define dfltcc_inflate_witness(stream) dfltcc_not_built
#endif

/* What a call returns when it does not return a length. */
enum {
	block_does_not_fit = -1, /* deflate: the stream is longer than the buffer */
	block_corrupt = -2,
	block_truncated = -3,
	block_trailing = -4,
	block_too_long = -5,
	block_broken = -6, /* the library refused the call: a bug, not a matter of data */
};

struct block_result {
	int64_t n;                   /* a length, or a value of the enum above */
	enum dfltcc_witness witness; /* of what did the work, when n is a length, or block_does_not_fit of deflate */
};

/* block_deflate_new returns a stream for one level, or NULL when memory is out.
   A stream that is not hardware never uses DFLTCC. */
zng_stream *block_deflate_new(int level, int hardware);

void block_deflate_free(zng_stream *s);

/* block_deflate compresses src into dst and returns the length written. It may refer back to a dictionary, of
   dictionary_len bytes, none if that is 0. */
struct block_result block_deflate(zng_stream *s, uint8_t *dst, uint32_t dst_len, const uint8_t *src, uint32_t src_len,
				  const uint8_t *dictionary, uint32_t dictionary_len);

/* part_restart begins a stream that part_deflate makes in parts. It returns 0 or
   block_broken. */
int part_restart(zng_stream *s);

/* part_deflate compresses the next part of a stream, up to a boundary of bytes or
   the stream's end, and returns the length written. */
struct block_result part_deflate(zng_stream *s, uint8_t *dst, uint32_t dst_len, const uint8_t *src, uint32_t src_len,
				 int last);

/* part_stored follows part_deflate that returned block_does_not_fit: somebody else wrote the part, and the next one
   may refer back to its bytes, but not to those before. It returns 0 or block_broken. */
int part_stored(zng_stream *s, const uint8_t *src, uint32_t src_len);

/* block_inflate_new returns a stream, or NULL when memory is out. */
zng_stream *block_inflate_new(void);

void block_inflate_free(zng_stream *s);

/* block_inflate expands the one stream in src into dst and returns the length
   written. Unless hardware is set it never uses DFLTCC. The dictionary is as in block_deflate. */
struct block_result block_inflate(zng_stream *s, int hardware, uint8_t *dst, uint32_t dst_len, const uint8_t *src,
				  uint32_t src_len, const uint8_t *dictionary, uint32_t dictionary_len);

#endif
