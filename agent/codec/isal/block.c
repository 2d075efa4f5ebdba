// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo && isal

#include "block.h"

#include <stdlib.h>
#include <string.h>

#include <isa-l.h>

#define CACHE_LINE 64

/* The library's assembly loads parts of these by whole cache lines. */
struct isal_block_deflater {
	struct isal_zstream stream __attribute__((aligned(CACHE_LINE)));
	/* Hash table and symbols of one DEFLATE block; igzip takes this size too. */
	uint8_t level[ISAL_DEF_LVL1_DEFAULT] __attribute__((aligned(CACHE_LINE)));
	struct isal_dict *dictionary; /* NULL: none */
};

struct isal_block_inflater {
	struct inflate_state state __attribute__((aligned(CACHE_LINE)));
};

/* A place to point at when there are no bytes, since Go's pointer may be NULL. */
static uint8_t nowhere[CACHE_LINE];

uint32_t isal_block_version(void) { return ISAL_VERSION; }

struct isal_block_deflater *isal_block_deflate_new(void) {
	struct isal_block_deflater *d = aligned_alloc(CACHE_LINE, sizeof(*d));
	if (d == NULL)
		return NULL;
	memset(d, 0, sizeof(*d));
	isal_deflate_init(&d->stream);
	d->stream.level = 1;
	d->stream.level_buf = d->level;
	d->stream.level_buf_size = sizeof(d->level);
	d->stream.gzip_flag = IGZIP_DEFLATE;
	return d;
}

void isal_block_deflate_free(struct isal_block_deflater *d) {
	if (d != NULL)
		free(d->dictionary);
	free(d);
}

int isal_block_deflate_dictionary(struct isal_block_deflater *d, const uint8_t *dictionary, uint32_t len) {
	/* The hashes are made once here: isal_deflate_set_dict would make them for each block. */
	d->dictionary = calloc(1, sizeof(*d->dictionary));
	if (d->dictionary == NULL)
		return -1;
	return isal_deflate_process_dict(&d->stream, d->dictionary, (uint8_t *)dictionary, len) == COMP_OK ? 0 : -1;
}

/* deflate_all feeds a stream with all there is. */
static int deflate_all(struct isal_zstream *s) {
#ifdef __aarch64__
	/* The assembly for the end of the input loads up to 7 bytes that follow it.
	   Until it is told that this is the end, the library keeps clear of the last
	   bytes and puts them into a buffer of its own, where reading on does no harm. */
	s->end_of_stream = 0;
	int r = isal_deflate(s);
	if (r != COMP_OK || s->avail_in != 0)
		return r;
#endif
	s->end_of_stream = 1;
	return isal_deflate(s);
}

int64_t isal_block_deflate(struct isal_block_deflater *d, uint8_t *dst, uint32_t dst_len, const uint8_t *src,
			   uint32_t src_len) {
	struct isal_zstream *s = &d->stream;

	if (dst_len == 0)
		return isal_block_does_not_fit; /* the shortest stream has two bytes */
	/* The stateful call, with all there is in one piece: isal_deflate_stateless
	   would try to store the whole block after it did not fit, and write on. */
	isal_deflate_reset(s);
	if (d->dictionary != NULL && isal_deflate_reset_dict(s, d->dictionary) != COMP_OK)
		return isal_block_broken;
	s->flush = NO_FLUSH;
	s->next_in = src_len == 0 ? nowhere : (uint8_t *)src;
	s->avail_in = src_len;
	s->next_out = dst;
	s->avail_out = dst_len;

	int r = deflate_all(s);

	/* Go's memory must not be reachable from here once the call returned. */
	s->next_in = NULL;
	s->next_out = NULL;
	if (r != COMP_OK)
		return isal_block_broken;
	if (s->internal_state.state != ZSTATE_END)
		return isal_block_does_not_fit;
	return (int64_t)dst_len - s->avail_out;
}

void isal_part_restart(struct isal_block_deflater *d) { isal_deflate_reset(&d->stream); }

int64_t isal_part_deflate(struct isal_block_deflater *d, uint8_t *dst, uint32_t dst_len, const uint8_t *src,
			  uint32_t src_len, int last) {
	struct isal_zstream *s = &d->stream;
	int r;

	if (dst_len == 0)
		return isal_block_does_not_fit;
	s->end_of_stream = 0;
	s->flush = last ? NO_FLUSH : SYNC_FLUSH;
	s->next_in = src_len == 0 ? nowhere : (uint8_t *)src;
	s->avail_in = src_len;
	s->next_out = dst;
	s->avail_out = dst_len;

	r = last ? deflate_all(s) : isal_deflate(s);

	s->next_in = NULL;
	s->next_out = NULL;
	if (r != COMP_OK)
		return isal_block_broken;
	/* Output that fills the buffer may have been cut. */
	if (last ? s->internal_state.state != ZSTATE_END : s->avail_in != 0 || s->avail_out == 0)
		return isal_block_does_not_fit;
	return (int64_t)dst_len - s->avail_out;
}

struct isal_block_inflater *isal_block_inflate_new(void) {
	struct isal_block_inflater *i = aligned_alloc(CACHE_LINE, sizeof(*i));
	if (i == NULL)
		return NULL;
	memset(i, 0, sizeof(*i));
	isal_inflate_init(&i->state);
	return i;
}

/* inflate_whole expands what s has, with no more input or space to come. */
static int inflate_whole(struct inflate_state *s, const uint8_t *dictionary, uint32_t dictionary_len) {
	if (dictionary_len == 0)
		return isal_inflate_stateless(s);
	/* The stateful call is the one that knows of dictionaries. */
	if (isal_inflate_set_dict(s, (uint8_t *)dictionary, dictionary_len) != COMP_OK)
		return isal_block_broken;
	int r = isal_inflate(s);
	if (r != ISAL_DECOMP_OK)
		return r;
	if (s->block_state == ISAL_BLOCK_FINISH) {
		s->avail_in += s->read_in_length / 8; /* whole bytes that it took ahead */
		return r;
	}
	/* The end, if it was reached, is known when all output has been fetched. */
	return s->avail_out == 0 ? ISAL_OUT_OVERFLOW : ISAL_END_INPUT;
}

int64_t isal_block_inflate(struct isal_block_inflater *i, uint8_t *dst, uint32_t dst_len, const uint8_t *src,
			   uint32_t src_len, const uint8_t *dictionary, uint32_t dictionary_len) {
	struct inflate_state *s = &i->state;

	isal_inflate_reset(s);
	s->crc_flag = ISAL_DEFLATE;
	s->next_in = src_len == 0 ? nowhere : (uint8_t *)src;
	s->avail_in = src_len;
	s->next_out = dst_len == 0 ? nowhere : dst;
	s->avail_out = dst_len;

	int r = inflate_whole(s, dictionary, dictionary_len);
	int64_t written = (int64_t)dst_len - s->avail_out;
	uint32_t unread = s->avail_in;

	s->next_in = NULL;
	s->next_out = NULL;
	switch (r) {
	case ISAL_DECOMP_OK:
		return unread == 0 ? written : isal_block_trailing;
	case ISAL_END_INPUT:
		return isal_block_truncated;
	case ISAL_OUT_OVERFLOW:
		return isal_block_too_long;
	case ISAL_INVALID_BLOCK:
	case ISAL_INVALID_SYMBOL:
	case ISAL_INVALID_LOOKBACK:
		return isal_block_corrupt;
	default:
		return isal_block_broken;
	}
}
