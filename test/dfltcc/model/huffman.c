/* Copyright The Lighterage Authors. */
/* SPDX-License-Identifier: Apache-2.0 */

#include "huffman.h"

const uint16_t length_base[29] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
				  31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
const uint8_t length_extra[29] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
const uint16_t distance_base[30] = {1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
				    193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
const uint8_t distance_extra[30] = {0, 0, 0, 0, 1, 1, 2, 2,  3,  3,  4,  4,  5,  5,  6,
				    6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13};

unsigned length_symbol(unsigned length) {
	unsigned i = 28;
	while (length < length_base[i])
		i--;
	return 257 + i;
}

unsigned distance_symbol(unsigned distance) {
	unsigned i = 29;
	while (distance < distance_base[i])
		i--;
	return i;
}

void fixed_lengths(struct lengths *l) {
	memset(l->literal, 8, 144);
	memset(l->literal + 144, 9, 112);
	memset(l->literal + 256, 7, 24);
	memset(l->literal + 280, 8, 8);
	memset(l->distance, 5, sizeof(l->distance));
}

/* canonical gives each symbol the code that its length implies, first bit
   lowest. */
static void canonical(const uint8_t *lengths, unsigned n, uint16_t *codes) {
	unsigned count[max_code + 1] = {0}, next[max_code + 1], code = 0;

	for (unsigned i = 0; i < n; i++)
		count[lengths[i]]++;
	count[0] = 0;
	for (unsigned l = 1; l <= max_code; l++)
		next[l] = code = (code + count[l - 1]) << 1;
	for (unsigned i = 0; i < n; i++) {
		unsigned length = lengths[i], reversed = 0;
		if (length == 0) {
			codes[i] = 0;
			continue;
		}
		code = next[length]++;
		for (unsigned b = 0; b < length; b++)
			reversed |= (code >> b & 1) << (length - 1 - b);
		codes[i] = (uint16_t)reversed;
	}
}

void make_codes(struct codes *c) {
	canonical(c->lengths.literal, max_literals, c->literal);
	canonical(c->lengths.distance, max_distances, c->distance);
}

/* fill makes the table of a set of codes that is_set accepted. */
static void fill(uint16_t *table, unsigned width, const uint8_t *lengths, unsigned n, unsigned usable) {
	uint16_t codes[max_literals];

	canonical(lengths, n, codes);
	memset(table, 0, sizeof(*table) << width);
	for (unsigned i = 0; i < usable; i++)
		if (lengths[i] > 0)
			for (unsigned at = codes[i]; at < 1u << width; at += 1u << lengths[i])
				table[at] = (uint16_t)(i << 4 | lengths[i]);
}

void make_decoder(struct decoder *d, const struct lengths *l) {
	fill(d->literal, max_code, l->literal, max_literals, 286);
	fill(d->distance, max_code, l->distance, max_distances, 30);
}

/* is_set reports whether lengths make a prefix code: complete, or when it may be
   sparse without symbols or with one of one bit. */
static int is_set(const uint8_t *lengths, unsigned n, int sparse) {
	unsigned count[max_code + 1] = {0};
	int room = 1;
	unsigned longest = 0;

	for (unsigned i = 0; i < n; i++) {
		count[lengths[i]]++;
		if (lengths[i] > longest)
			longest = lengths[i];
	}
	for (unsigned l = 1; l <= max_code; l++) {
		room = room * 2 - (int)count[l];
		if (room < 0)
			return 0;
	}
	return room == 0 || (sparse && longest <= 1);
}

/* The order in which the lengths of the code of lengths are written. */
static const uint8_t order[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};

enum table_status read_table(struct bit_source *source, struct lengths *l) {
	struct bit_source s = *source;
	uint8_t small[19] = {0}, all[286 + 30];
	uint16_t table[1 << 7];

	if (bits_left(&s) < 14)
		return table_more;
	uint64_t counts = peek(&s, 14);
	unsigned literals = 257 + (counts & 31), distances = 1 + (counts >> 5 & 31), smalls = 4 + (unsigned)(counts >> 10);
	if (literals > 286 || distances > 30)
		return table_counts;
	s.at += 14;
	if (bits_left(&s) < 3 * smalls)
		return table_more;
	for (unsigned i = 0; i < smalls; i++, s.at += 3)
		small[order[i]] = (uint8_t)peek(&s, 3);
	if (!is_set(small, 19, 0))
		return table_code_lengths;
	fill(table, 7, small, 19, 19);

	for (unsigned i = 0; i < literals + distances;) {
		unsigned entry = table[peek(&s, 7)], symbol = entry >> 4, length = entry & 15;
		unsigned extra = symbol == 16 ? 2 : symbol == 17 ? 3 : symbol == 18 ? 7 : 0;
		if (length + extra > bits_left(&s))
			return table_more;
		s.at += length;
		unsigned more = (unsigned)peek(&s, extra);
		s.at += extra;
		if (symbol < 16) {
			all[i++] = (uint8_t)symbol;
			continue;
		}
		unsigned times = more + (symbol == 18 ? 11 : 3);
		if ((symbol == 16 && i == 0) || i + times > literals + distances)
			return table_repeat;
		memset(all + i, symbol == 16 ? all[i - 1] : 0, times);
		i += times;
	}
	memset(l, 0, sizeof(*l));
	memcpy(l->literal, all, literals);
	memcpy(l->distance, all + literals, distances);
	if (l->literal[end_of_block] == 0)
		return table_end_of_block;
	if (!is_set(l->literal, max_literals, 1))
		return table_literals;
	if (!is_set(l->distance, max_distances, 1))
		return table_distances;
	source->at = s.at;
	return table_ok;
}

/* A run of equal lengths as one symbol of the code of lengths. */
struct run {
	uint8_t symbol, extra;
};

void write_table(struct bit_queue *q, const struct lengths *l) {
	uint8_t all[286 + 30], small[19];
	struct run runs[286 + 30];
	uint32_t counts[19];
	uint16_t codes[19];
	unsigned n = 0;

	memcpy(all, l->literal, 286);
	memcpy(all + 286, l->distance, 30);
	for (unsigned i = 0; i < 19; i++)
		counts[i] = 1;
	for (unsigned i = 0; i < sizeof(all); n++) {
		unsigned times = 0;
		if (i > 0)
			while (times < 6 && i + times < sizeof(all) && all[i + times] == all[i - 1])
				times++;
		runs[n] = times >= 3 ? (struct run){16, (uint8_t)(times - 3)} : (struct run){all[i], 0};
		i += times >= 3 ? times : 1;
		counts[runs[n].symbol]++;
	}
	build_lengths(counts, 19, 7, small);
	canonical(small, 19, codes);
	put(q, 286 - 257, 5);
	put(q, 30 - 1, 5);
	put(q, 19 - 4, 4);
	for (unsigned i = 0; i < 19; i++)
		put(q, small[order[i]], 3);
	for (unsigned i = 0; i < n; i++) {
		put(q, codes[runs[i].symbol], small[runs[i].symbol]);
		if (runs[i].symbol == 16)
			put(q, runs[i].extra, 2);
	}
}

/* tree makes the lengths of an optimal code and returns the longest. */
static unsigned tree(const uint32_t *counts, unsigned n, uint8_t *lengths) {
	uint16_t sorted[max_literals], parent[2 * max_literals];
	uint32_t weight[2 * max_literals];
	unsigned longest = 0;

	for (unsigned i = 0; i < n; i++) {
		unsigned at = i;
		for (; at > 0 && counts[sorted[at - 1]] > counts[i]; at--)
			sorted[at] = sorted[at - 1];
		sorted[at] = (uint16_t)i;
	}
	for (unsigned i = 0; i < n; i++)
		weight[i] = counts[sorted[i]];

	/* The leaves come in order, and so do the nodes that join two. */
	unsigned leaf = 0, joined = n;
	for (unsigned next = n; next < 2 * n - 1; next++) {
		weight[next] = 0;
		for (unsigned k = 0; k < 2; k++) {
			unsigned least = leaf < n && (joined == next || weight[leaf] <= weight[joined]) ? leaf++ : joined++;
			parent[least] = (uint16_t)next;
			weight[next] += weight[least];
		}
	}
	for (unsigned i = 0; i < n; i++) {
		unsigned length = 0;
		for (unsigned at = i; at != 2 * n - 2; at = parent[at])
			length++;
		lengths[sorted[i]] = (uint8_t)length;
		if (length > longest)
			longest = length;
	}
	return longest;
}

void build_lengths(const uint32_t *counts, unsigned n, unsigned limit, uint8_t *lengths) {
	uint32_t flat[max_literals];

	/* Flattening the counts until the longest code is short enough costs little
	   compression, and the model promises none. */
	memcpy(flat, counts, n * sizeof(*flat));
	while (tree(flat, n, lengths) > limit)
		for (unsigned i = 0; i < n; i++)
			flat[i] = flat[i] / 2 + 1;
}
