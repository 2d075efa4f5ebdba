// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo && libzstd

#include "block.h"

#include <zstd_errors.h>

ZSTD_CCtx *block_compress_new(int level) {
	ZSTD_CCtx *c = ZSTD_createCCtx();
	if (c == NULL)
		return NULL;
	/* The library's defaults, stated because they are the format. */
	if (ZSTD_isError(ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, level)) ||
	    ZSTD_isError(ZSTD_CCtx_setParameter(c, ZSTD_c_contentSizeFlag, 1)) ||
	    ZSTD_isError(ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 0)) ||
	    ZSTD_isError(ZSTD_CCtx_setParameter(c, ZSTD_c_dictIDFlag, 0))) {
		ZSTD_freeCCtx(c);
		return NULL;
	}
	return c;
}

/* The library has block_no_memory also for some dictionaries that it cannot prepare: it keeps no other reason. */
static int taken(size_t n) {
	switch (ZSTD_getErrorCode(n)) {
	case ZSTD_error_no_error:
		return 0;
	case ZSTD_error_memory_allocation:
		return block_no_memory;
	case ZSTD_error_dictionary_corrupted:
	case ZSTD_error_dictionary_wrong:
		return block_corrupt;
	default:
		return block_broken;
	}
}

int zstd_compress_dictionary(ZSTD_CCtx *c, const uint8_t *dictionary, size_t len) {
	uint8_t dst[64];
	size_t n = ZSTD_CCtx_setParameter(c, ZSTD_c_dictIDFlag, 1);

	if (!ZSTD_isError(n))
		n = ZSTD_CCtx_loadDictionary(c, dictionary, len);
	/* The library prepares it, and finds that it is none, with the first frame. */
	if (!ZSTD_isError(n))
		n = ZSTD_compress2(c, dst, sizeof(dst), NULL, 0);
	return taken(n);
}

int zstd_decompress_dictionary(ZSTD_DCtx *d, const uint8_t *dictionary, size_t len) {
	return taken(ZSTD_DCtx_loadDictionary(d, dictionary, len));
}

int64_t block_compress(ZSTD_CCtx *c, uint8_t *dst, size_t dst_len, const uint8_t *src, size_t src_len) {
	size_t n = ZSTD_compress2(c, dst, dst_len, src, src_len);

	switch (ZSTD_getErrorCode(n)) {
	case ZSTD_error_no_error:
		return (int64_t)n;
	case ZSTD_error_dstSize_tooSmall:
		return block_does_not_fit;
	case ZSTD_error_memory_allocation:
		return block_no_memory;
	default:
		return block_broken;
	}
}

int zstd_part_restart(ZSTD_CCtx *c) {
	return ZSTD_isError(ZSTD_CCtx_reset(c, ZSTD_reset_session_only)) ? block_broken : 0;
}

int64_t zstd_part_compress(ZSTD_CCtx *c, uint8_t *dst, size_t dst_len, const uint8_t *src, size_t src_len, int last) {
	ZSTD_outBuffer out = {.dst = dst, .size = dst_len, .pos = 0};
	ZSTD_inBuffer in = {.src = src, .size = src_len, .pos = 0};
	size_t left = ZSTD_compressStream2(c, &out, &in, last ? ZSTD_e_end : ZSTD_e_flush);

	switch (ZSTD_getErrorCode(left)) {
	case ZSTD_error_no_error:
		break;
	case ZSTD_error_memory_allocation:
		return block_no_memory;
	default:
		return block_broken;
	}
	if (left != 0 || in.pos != in.size)
		return block_does_not_fit;
	return (int64_t)out.pos;
}

int64_t block_decompress(ZSTD_DCtx *d, uint8_t *dst, size_t dst_len, const uint8_t *src, size_t src_len) {
	size_t n = ZSTD_decompressDCtx(d, dst, dst_len, src, src_len);

	switch (ZSTD_getErrorCode(n)) {
	case ZSTD_error_no_error:
		return (int64_t)n;
	case ZSTD_error_dstSize_tooSmall:
		return block_too_long;
	case ZSTD_error_memory_allocation:
		return block_no_memory;
	default:
		/* The rest says how the frame is damaged. */
		return block_corrupt;
	}
}
