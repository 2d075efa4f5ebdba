/* Copyright The Lighterage Authors. */
/* SPDX-License-Identifier: Apache-2.0 */

/* zlib-ng's own loop: zlib-ng deflate|inflate LEVEL BLOCK FILE. See loop.h. */

#include <zlib-ng.h>

#include "loop.h"

static zng_stream stream;

static size_t deflate_block(uint8_t *dst, size_t dst_len, const uint8_t *src, size_t src_len) {
	if (zng_deflateReset(&stream) != Z_OK)
		refuse("deflateReset");
	stream.next_in = src;
	stream.avail_in = (uint32_t)src_len;
	stream.next_out = dst;
	stream.avail_out = (uint32_t)dst_len;
	if (zng_deflate(&stream, Z_FINISH) != Z_STREAM_END)
		refuse("deflate");
	return dst_len - stream.avail_out;
}

static size_t inflate_block(uint8_t *dst, size_t dst_len, const uint8_t *src, size_t src_len) {
	if (zng_inflateReset(&stream) != Z_OK)
		refuse("inflateReset");
	stream.next_in = src;
	stream.avail_in = (uint32_t)src_len;
	stream.next_out = dst;
	stream.avail_out = (uint32_t)dst_len;
	if (zng_inflate(&stream, Z_FINISH) != Z_STREAM_END)
		refuse("inflate");
	return dst_len - stream.avail_out;
}

int main(int argc, char **argv) {
	if (argc != 5)
		refuse("usage: zlib-ng deflate|inflate LEVEL BLOCK FILE");
	int inflating = strcmp(argv[1], "inflate") == 0;
	int r = inflating ? zng_inflateInit2(&stream, -15)
			  : zng_deflateInit2(&stream, atoi(argv[2]), Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY);
	if (r != Z_OK)
		refuse("zlib-ng does not start");
	return serve(inflating ? inflate_block : deflate_block, inflating, strtoul(argv[3], NULL, 10), argv[4]);
}
