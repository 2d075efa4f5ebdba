/* Copyright The Lighterage Authors. */
/* SPDX-License-Identifier: Apache-2.0 */

/* What the loops over C libraries share. A program compresses a file block by
   block, or inflates the blocks of a pack, once for every line that it reads, and
   answers with the CPU time and the wall time in nanoseconds and the bytes that
   came out. Contexts and buffers are used again for every block.

   A pack is a sequence of blocks, each two numbers of 32 bits in the order of the
   machine (length when inflated, length here) and its bytes. */

#ifndef LIGHTERAGE_LOOP_H
#define LIGHTERAGE_LOOP_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A codec_fn returns the length of what it made of one block. */
typedef size_t codec_fn(uint8_t *dst, size_t dst_len, const uint8_t *src, size_t src_len);

static void die(const char *what) {
	perror(what);
	exit(1);
}

static void refuse(const char *what) {
	fprintf(stderr, "%s\n", what);
	exit(1);
}

static uint8_t *read_all(const char *path, size_t *len) {
	FILE *f = fopen(path, "rb");
	if (f == NULL || fseek(f, 0, SEEK_END) != 0)
		die(path);
	*len = (size_t)ftell(f);
	rewind(f);
	uint8_t *data = malloc(*len + 1);
	if (data == NULL || fread(data, 1, *len, f) != *len)
		die(path);
	fclose(f);
	return data;
}

static int64_t now(clockid_t clock) {
	struct timespec t;
	clock_gettime(clock, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static size_t compress_all(codec_fn *f, uint8_t *out, size_t out_len, const uint8_t *data, size_t len, size_t block) {
	size_t total = 0;
	for (size_t at = 0; at < len; at += block)
		total += f(out, out_len, data + at, len - at < block ? len - at : block);
	return total;
}

static size_t inflate_all(codec_fn *f, uint8_t *out, size_t out_len, const uint8_t *data, size_t len) {
	size_t total = 0;
	for (size_t at = 0; at + 8 <= len;) {
		uint32_t plain, packed;
		memcpy(&plain, data + at, 4);
		memcpy(&packed, data + at + 4, 4);
		if (plain > out_len || packed > len - at - 8)
			refuse("the pack is damaged");
		if (f(out, plain, data + at + 8, packed) != plain)
			refuse("a block inflates to another length");
		total += plain;
		at += 8 + (size_t)packed;
	}
	return total;
}

static int serve(codec_fn *f, int inflating, size_t block, const char *path) {
	size_t len, out_len = 2 * block + 1024;
	uint8_t *data = read_all(path, &len), *out = malloc(out_len);
	char line[8];
	if (out == NULL)
		die("malloc");
	while (fgets(line, sizeof(line), stdin) != NULL) {
		int64_t wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_THREAD_CPUTIME_ID);
		size_t total = inflating ? inflate_all(f, out, out_len, data, len) : compress_all(f, out, out_len, data, len, block);
		cpu = now(CLOCK_THREAD_CPUTIME_ID) - cpu;
		wall = now(CLOCK_MONOTONIC) - wall;
		printf("%lld %lld %zu\n", (long long)cpu, (long long)wall, total);
		fflush(stdout);
	}
	free(data);
	free(out);
	return 0;
}

#endif
