/* Copyright The Lighterage Authors. */
/* SPDX-License-Identifier: Apache-2.0 */

/* One block as one zstd frame per call, so that a block costs one crossing from
   Go to C. The contexts live in C memory and are used again for every block. */

#ifndef LIGHTERAGE_ZSTD_BLOCK_H
#define LIGHTERAGE_ZSTD_BLOCK_H

#include <stdint.h>

#include <zstd.h>

/* What a call returns when it does not return a length. */
enum {
	block_does_not_fit = -1, /* compress: the frame is longer than the buffer */
	block_corrupt = -2,
	block_too_long = -3,
	block_no_memory = -4,
	block_broken = -5, /* the library refused the call: a bug, not a matter of data */
};

/* block_compress_new returns a context for one level, or NULL when memory is out. */
ZSTD_CCtx *block_compress_new(int level);

/* zstd_compress_dictionary and zstd_decompress_dictionary have a context use a dictionary, which they copy and prepare,
   for all frames from then on. They return 0, block_no_memory, block_corrupt when it is none, or block_broken. */
int zstd_compress_dictionary(ZSTD_CCtx *c, const uint8_t *dictionary, size_t len);
int zstd_decompress_dictionary(ZSTD_DCtx *d, const uint8_t *dictionary, size_t len);

/* block_compress compresses src into dst and returns the length written. */
int64_t block_compress(ZSTD_CCtx *c, uint8_t *dst, size_t dst_len, const uint8_t *src, size_t src_len);

/* zstd_part_restart begins a frame that zstd_part_compress makes in parts. It returns 0 or
   block_broken. */
int zstd_part_restart(ZSTD_CCtx *c);

/* zstd_part_compress compresses the next part of a frame, up to the end of a block or
   of the frame, and returns the length written. */
int64_t zstd_part_compress(ZSTD_CCtx *c, uint8_t *dst, size_t dst_len, const uint8_t *src, size_t src_len, int last);

/* block_decompress expands src, which the caller has checked to be one frame, into
   dst and returns the length written. */
int64_t block_decompress(ZSTD_DCtx *d, uint8_t *dst, size_t dst_len, const uint8_t *src, size_t src_len);

#endif
