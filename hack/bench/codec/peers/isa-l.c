/* Copyright The Lighterage Authors. */
/* SPDX-License-Identifier: Apache-2.0 */

/* ISA-L's own loop: isa-l deflate|inflate LEVEL BLOCK FILE. See loop.h. */

#if __has_include(<isa-l/igzip_lib.h>)
#include <isa-l/igzip_lib.h>
#else
#include <igzip_lib.h>
#endif

#include "loop.h"

static struct isal_zstream stream;
static struct inflate_state state;
static uint8_t *level_buf;
static uint32_t level_buf_size;
static int level;

static size_t deflate_block(uint8_t *dst, size_t dst_len, const uint8_t *src, size_t src_len) {
	isal_deflate_reset(&stream);
	stream.level = (uint32_t)level;
	stream.level_buf = level_buf;
	stream.level_buf_size = level_buf_size;
	stream.end_of_stream = 1;
	stream.flush = NO_FLUSH;
	stream.gzip_flag = IGZIP_DEFLATE;
	stream.next_in = (uint8_t *)src;
	stream.avail_in = (uint32_t)src_len;
	stream.next_out = dst;
	stream.avail_out = (uint32_t)dst_len;
	if (isal_deflate(&stream) != COMP_OK || stream.internal_state.state != ZSTATE_END)
		refuse("isal_deflate");
	return stream.total_out;
}

static size_t inflate_block(uint8_t *dst, size_t dst_len, const uint8_t *src, size_t src_len) {
	isal_inflate_reset(&state);
	state.crc_flag = ISAL_DEFLATE;
	state.next_in = (uint8_t *)src;
	state.avail_in = (uint32_t)src_len;
	state.next_out = dst;
	state.avail_out = (uint32_t)dst_len;
	if (isal_inflate_stateless(&state) != ISAL_DECOMP_OK)
		refuse("isal_inflate_stateless");
	return state.total_out;
}

int main(int argc, char **argv) {
	static const uint32_t sizes[] = {ISAL_DEF_LVL0_DEFAULT, ISAL_DEF_LVL1_DEFAULT, ISAL_DEF_LVL2_DEFAULT, ISAL_DEF_LVL3_DEFAULT};
	if (argc != 5)
		refuse("usage: isa-l deflate|inflate LEVEL BLOCK FILE");
	int inflating = strcmp(argv[1], "inflate") == 0;
	level = atoi(argv[2]);
	if (level < 0 || level > 3)
		refuse("ISA-L has the levels 0 to 3");
	level_buf_size = sizes[level];
	level_buf = malloc(level_buf_size + 1);
	if (level_buf == NULL)
		die("malloc");
	isal_deflate_init(&stream);
	isal_inflate_init(&state);
	return serve(inflating ? inflate_block : deflate_block, inflating, strtoul(argv[3], NULL, 10), argv[4]);
}
