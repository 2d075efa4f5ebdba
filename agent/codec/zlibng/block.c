// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo && zlibng

#include "block.h"

#include <stdlib.h>

/* Raw DEFLATE with the largest window, the only one that DFLTCC takes. */
#define WINDOW_BITS (-15)
#define WINDOW (1u << -WINDOW_BITS)
#define MEMORY_LEVEL 8

zng_stream *block_deflate_new(int level, int hardware) {
	zng_stream *s = calloc(1, sizeof(*s));
	if (s == NULL)
		return NULL;
	if (zng_deflateInit2(s, level, Z_DEFLATED, WINDOW_BITS, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK) {
		free(s);
		return NULL;
	}
	if (!hardware) {
		/* The only switch at run time that keeps zlib-ng from using DFLTCC. It
		   stays set through zng_deflateReset and does nothing elsewhere. */
		int reproducible = 1;
		zng_deflate_param_value param = {
			.param = Z_DEFLATE_REPRODUCIBLE, .buf = &reproducible, .size = sizeof(reproducible)};
		if (zng_deflateSetParams(s, &param, 1) != Z_OK) {
			block_deflate_free(s);
			return NULL;
		}
	}
	return s;
}

void block_deflate_free(zng_stream *s) {
	zng_deflateEnd(s);
	free(s);
}

static struct block_result failed(int64_t n) {
	return (struct block_result){.n = n, .witness = dfltcc_other};
}

/* close_block makes a stream that did not fit ready for the next. zng_deflateReset
   forgets that level 1 has a block open, and the next stream would lack its header.
   What closes the block is the end of a stream; after a reset that is one of no bytes,
   whereas ending the one at hand would compress what the window holds. */
static int close_block(zng_stream *s) {
	uint8_t unwanted[64];

	if (zng_deflateReset(s) != Z_OK)
		return 0;
	s->next_in = unwanted;
	s->avail_in = 0;
	s->next_out = unwanted;
	s->avail_out = sizeof(unwanted);
	int r = zng_deflate(s, Z_FINISH);
	s->next_in = NULL;
	s->next_out = NULL;
	return r == Z_STREAM_END;
}

static enum dfltcc_witness witness(const zng_stream *s, uint32_t dictionary_len) {
	return dictionary_len == 0 ? dfltcc_deflate_witness(s) : dfltcc_dictionary_witness(s);
}

/* too_long is the result of a call whose output did not fit. */
static struct block_result too_long(zng_stream *s, uint32_t dictionary_len) {
	struct block_result r = {.n = block_does_not_fit, .witness = witness(s, dictionary_len)};

	return close_block(s) ? r : failed(block_broken);
}

struct block_result block_deflate(zng_stream *s, uint8_t *dst, uint32_t dst_len, const uint8_t *src, uint32_t src_len,
				  const uint8_t *dictionary, uint32_t dictionary_len) {
	uint8_t none = 0;

	if (dst_len == 0)
		return failed(block_does_not_fit); /* the shortest stream has two bytes */
	if (zng_deflateReset(s) != Z_OK)
		return failed(block_broken);
	if (dictionary_len != 0 && zng_deflateSetDictionary(s, dictionary, dictionary_len) != Z_OK)
		return failed(block_broken);
	s->next_in = src_len == 0 ? &none : src;
	s->avail_in = src_len;
	s->next_out = dst;
	s->avail_out = dst_len;

	int r = zng_deflate(s, Z_FINISH);
	int64_t written = (int64_t)dst_len - s->avail_out;

	/* Go's memory must not be reachable from here once the call returned. */
	s->next_in = NULL;
	s->next_out = NULL;
	switch (r) {
	case Z_STREAM_END:
		return (struct block_result){.n = written, .witness = witness(s, dictionary_len)};
	case Z_OK:
	case Z_BUF_ERROR:
		return too_long(s, dictionary_len);
	default:
		return failed(block_broken);
	}
}

int part_restart(zng_stream *s) { return zng_deflateReset(s) == Z_OK ? 0 : block_broken; }

struct block_result part_deflate(zng_stream *s, uint8_t *dst, uint32_t dst_len, const uint8_t *src, uint32_t src_len,
				 int last) {
	uint8_t none = 0;

	if (dst_len == 0)
		return failed(block_does_not_fit);
	s->next_in = src_len == 0 ? &none : src;
	s->avail_in = src_len;
	s->next_out = dst;
	s->avail_out = dst_len;

	int r = zng_deflate(s, last ? Z_FINISH : Z_SYNC_FLUSH);
	int64_t written = (int64_t)dst_len - s->avail_out;
	/* Output that fills the buffer may have been cut. */
	int whole = last ? r == Z_STREAM_END : s->avail_in == 0 && s->avail_out > 0;

	s->next_in = NULL;
	s->next_out = NULL;
	/* Z_BUF_ERROR: there was nothing to flush since the part before. */
	if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)
		return failed(block_broken);
	if (!whole)
		return too_long(s, 0);
	return (struct block_result){.n = written, .witness = dfltcc_deflate_witness(s)};
}

int part_stored(zng_stream *s, const uint8_t *src, uint32_t src_len) {
	/* zng_deflateSetDictionary would do, but the witness would take what it does for the work of software. */
	uint32_t n = src_len < WINDOW ? src_len : WINDOW, space = 2 * n + 1024;
	uint8_t *unwanted = malloc(space);

	if (unwanted == NULL || zng_deflateReset(s) != Z_OK) {
		free(unwanted);
		return block_broken;
	}
	s->next_in = src + (src_len - n);
	s->avail_in = n;
	s->next_out = unwanted;
	s->avail_out = space;

	int r = zng_deflate(s, Z_SYNC_FLUSH);
	int whole = r == Z_OK && s->avail_in == 0 && s->avail_out > 0;

	s->next_in = NULL;
	s->next_out = NULL;
	free(unwanted);
	return whole ? 0 : block_broken;
}

zng_stream *block_inflate_new(void) {
	zng_stream *s = calloc(1, sizeof(*s));
	if (s == NULL)
		return NULL;
	if (zng_inflateInit2(s, WINDOW_BITS) != Z_OK) {
		free(s);
		return NULL;
	}
	return s;
}

void block_inflate_free(zng_stream *s) {
	zng_inflateEnd(s);
	free(s);
}

struct block_result block_inflate(zng_stream *s, int hardware, uint8_t *dst, uint32_t dst_len, const uint8_t *src,
				  uint32_t src_len, const uint8_t *dictionary, uint32_t dictionary_len) {
	uint8_t none = 0;

	if (zng_inflateReset(s) != Z_OK)
		return failed(block_broken);
	/* inflate has no switch like Z_DEFLATE_REPRODUCIBLE. Priming is the call
	   that makes zlib-ng give up DFLTCC until the next reset, since the instruction
	   cannot start with bits from elsewhere; a negative count primes with nothing. */
	if (!hardware && zng_inflatePrime(s, -1, 0) != Z_OK)
		return failed(block_broken);
	if (dictionary_len != 0 && zng_inflateSetDictionary(s, dictionary, dictionary_len) != Z_OK)
		return failed(block_broken);
	s->next_in = src_len == 0 ? &none : src;
	s->avail_in = src_len;
	s->next_out = dst_len == 0 ? &none : dst;
	s->avail_out = dst_len;

	int r = zng_inflate(s, Z_FINISH);
	int64_t written = (int64_t)dst_len - s->avail_out;
	uint32_t unread = s->avail_in;

	s->next_in = NULL;
	s->next_out = NULL;
	switch (r) {
	case Z_STREAM_END:
		if (unread != 0)
			return failed(block_trailing);
		return (struct block_result){.n = written, .witness = dfltcc_inflate_witness(s)};
	case Z_OK:
	case Z_BUF_ERROR:
		/* When both buffers are used up the library does not say which it lacked. */
		return failed(unread == 0 ? block_truncated : block_too_long);
	case Z_DATA_ERROR:
	case Z_NEED_DICT:
		return failed(block_corrupt);
	default:
		return failed(block_broken);
	}
}
