/* Copyright The Lighterage Authors. */
/* SPDX-License-Identifier: Apache-2.0 */

/* The functions Compress and Generate Dynamic-Huffman Table. */

#include "bits.h"
#include "check.h"
#include "function.h"
#include "huffman.h"
#include "match.h"

enum {
	queue_bytes = 512, /* a header with its tables, and hold_bits */
	/* Bits are kept back until there are so many, so that a call that ends early
	   has something to continue with. */
	hold_bits = 256,
};

/* What Compress keeps in the continuation-state buffer. */
struct kept {
	uint32_t bits;
	uint8_t queue[queue_bytes];
};
_Static_assert(sizeof(struct kept) <= csb_capacity, "kept");

/* Beyond what a signal's stack holds. */
static __thread struct window window;
static __thread struct codes codes;

/* The tables that codes was made from: 0 none yet, 1 fixed, 2 those in last_cdht. */
static __thread int codes_from;
static __thread uint8_t last_cdht[cdht_capacity];
static __thread uint16_t last_cdhtl;

static uint64_t smaller(uint64_t a, uint64_t b) {
	return a < b ? a : b;
}

void append_history(struct block *b, uint8_t *history, const uint8_t *bytes, uint64_t n) {
	if (n > history_size) {
		bytes += n - history_size;
		n = history_size;
	}
	uint64_t at = (b->ho + b->hl) % history_size, first = smaller(n, history_size - at);
	memcpy(history + at, bytes, first);
	memcpy(history, bytes + first, n - first);
	uint64_t length = b->hl + n;
	if (length > history_size) {
		b->ho = (uint16_t)((b->ho + length - history_size) % history_size);
		length = history_size;
	}
	b->hl = (uint16_t)length;
}

void copy_history(const struct block *b, const uint8_t *history, uint8_t *to, uint64_t n) {
	uint64_t at = (b->ho + b->hl - n) % history_size, first = smaller(n, history_size - at);
	memcpy(to, history + at, first);
	memcpy(to + first, history, n - first);
}

/* choose_codes makes the codes that the block's table says. */
static int choose_codes(const struct block *b) {
	if (!(b->task & task_htt)) {
		if (codes_from != 1) {
			fixed_lengths(&codes.lengths);
			make_codes(&codes);
			codes_from = 1;
		}
		return 1;
	}
	uint16_t bits = b->cdhtl & 0xfff;
	if (codes_from == 2 && bits == last_cdhtl && memcmp(b->cdht, last_cdht, cdht_capacity) == 0)
		return 1;
	struct bit_source s = {.tail = b->cdht, .tail_bytes = cdht_capacity};
	codes_from = 0;
	if (bits > cdht_capacity * 8 || read_table(&s, &codes.lengths) != table_ok || s.at != bits)
		return 0;
	make_codes(&codes);
	memcpy(last_cdht, b->cdht, cdht_capacity);
	last_cdhtl = bits;
	codes_from = 2;
	return 1;
}

static void put_match(struct bit_queue *q, struct match m, uint8_t literal) {
	if (m.length == 1) {
		put(q, codes.literal[literal], codes.lengths.literal[literal]);
		return;
	}
	unsigned s = length_symbol(m.length);
	put(q, codes.literal[s], codes.lengths.literal[s]);
	put(q, m.length - length_base[s - 257], length_extra[s - 257]);
	s = distance_symbol(m.distance);
	put(q, codes.distance[s], codes.lengths.distance[s]);
	put(q, m.distance - distance_base[s], distance_extra[s]);
}

/* put_header begins a block. */
static void put_header(struct bit_queue *q, const struct block *b) {
	put(q, b->task & task_bhf ? 1 : 0, 1);
	put(q, b->task & task_htt ? 2 : 1, 2);
	if (!(b->task & task_htt))
		return;
	for (unsigned i = 0, left = b->cdhtl & 0xfff; left > 0; i++) {
		unsigned n = left < 8 ? left : 8;
		put(q, b->cdht[i], n);
		left -= n;
	}
}

/* drain moves bits to the first operand until one of the two is used up. */
static void drain(struct bit_queue *q, struct block *b, struct operands *o) {
	struct bit_source s = {.tail = q->bytes, .tail_bytes = (q->count + 7) / 8};
	unsigned used = b->sbb & 7;

	while (s.at < q->count && o->first_length > 0) {
		unsigned n = 8 - used;
		if (n > q->count - s.at)
			n = (unsigned)(q->count - s.at);
		uint8_t keep = used == 0 ? 0 : (uint8_t)(*o->first & ((1u << used) - 1));
		*o->first = (uint8_t)(keep | peek(&s, n) << used);
		s.at += n;
		used += n;
		if (used == 8) {
			o->first++;
			o->first_length--;
			used = 0;
		}
	}
	b->sbb = (uint8_t)used;

	uint32_t left = q->count - (uint32_t)s.at;
	uint8_t rest[queue_bytes];
	struct bit_queue moved = {rest, 0, q->capacity};
	while (left > 0) {
		unsigned n = left < 16 ? left : 16;
		put(&moved, (uint32_t)peek(&s, n), n);
		s.at += n;
		left -= n;
	}
	memcpy(q->bytes, rest, (moved.count + 7) / 8);
	q->count = moved.count;
}

/* fill_window has the window hold history and the next bytes of the source. The
   history is cut when the source is short, so that small steps stay affordable. */
static void fill_window(const struct block *b, const struct operands *o) {
	uint64_t next = smaller(o->second_length, chunk_size);
	if (o->step > 0)
		next = smaller(next, o->step + longest_match);
	uint64_t reach = smaller(b->hl, next * 4 > 1024 ? next * 4 : 1024);

	copy_history(b, o->history, window.bytes, reach);
	memcpy(window.bytes + reach, o->second, next);
	window.at = (uint32_t)reach;
	window.end = (uint32_t)(reach + next);
	index_history(&window);
}

/* take makes n bytes of the source history. */
static void take(struct block *b, struct operands *o, uint64_t n) {
	add_check(b, o->second, n);
	append_history(b, o->history, o->second, n);
	o->second += n;
	o->second_length -= n;
}

static enum outcome compress_bytes(struct bit_queue *q, struct block *b, struct operands *o) {
	uint64_t processed = 0;
	uint32_t begin = window.at = window.end = 0;
	enum outcome outcome;

	for (;;) {
		if (q->count >= hold_bits) {
			drain(q, b, o);
			if (q->count >= hold_bits) {
				outcome = first_short;
				break;
			}
		}
		if (window.at == window.end) {
			take(b, o, window.at - begin);
			if (o->second_length == 0) {
				drain(q, b, o);
				outcome = q->count > 0 ? first_short : done;
				begin = window.at;
				break;
			}
			fill_window(b, o);
			begin = window.at;
		}
		if (o->step > 0 && processed >= o->step) {
			outcome = again;
			break;
		}
		uint8_t literal = window.bytes[window.at];
		struct match m = next_match(&window);
		put_match(q, m, literal);
		processed += m.length;
	}
	take(b, o, window.at - begin);
	return outcome;
}

enum outcome compress(struct block *b, struct operands *o) {
	struct kept *kept = (struct kept *)b->csb;
	int continued = b->flags & flag_cf;

	if (b->task & task_bcc || b->control & control_dhtgc || b->hl > history_size)
		return misuse;
	if (b->task & task_nt) {
		b->task &= (uint8_t)~task_nt;
		b->hl = 0;
		begin_check(b);
		continued = 0;
	}
	if (!continued) {
		if (o->second_length == 0)
			return misuse; /* there is nothing that it could do */
		if (o->first_length == 0)
			return first_short;
		kept->bits = 0;
	} else if (kept->bits > queue_bytes * 8) {
		return misuse;
	}
	b->oesc = 0;
	if (!choose_codes(b)) {
		b->oesc = 0x20;
		return second_short;
	}
	unsigned eobl = codes.lengths.literal[end_of_block], reversed = 0;
	for (unsigned i = 0; i < eobl; i++)
		reversed |= (codes.literal[end_of_block] >> i & 1u) << (15 - i);
	b->eobs = (uint16_t)reversed;
	b->eobl = (uint8_t)(eobl << 4);

	struct bit_queue q = {kept->queue, kept->bits, queue_bytes * 8};
	if (!continued && !(b->task & task_bcf))
		put_header(&q, b);
	enum outcome outcome = compress_bytes(&q, b, o);
	kept->bits = q.count;
	b->flags = outcome == done ? b->flags & ~(uint32_t)flag_cf : b->flags | flag_cf;
	return outcome;
}

enum outcome generate(struct block *b, const struct operands *o) {
	uint32_t literals[286], distances[30];
	struct lengths l;

	if (o->second_length == 0 || b->control & control_dhtgc)
		return misuse;
	/* Every symbol counts once more than it occurs, so that the table serves
	   whatever follows the sample. */
	for (unsigned i = 0; i < 286; i++)
		literals[i] = 1;
	for (unsigned i = 0; i < 30; i++)
		distances[i] = 1;
	window.at = 0;
	window.end = (uint32_t)smaller(o->second_length, chunk_size);
	memcpy(window.bytes, o->second, window.end);
	index_history(&window);
	while (window.at < window.end) {
		uint8_t literal = window.bytes[window.at];
		struct match m = next_match(&window);
		if (m.length == 1) {
			literals[literal]++;
		} else {
			literals[length_symbol(m.length)]++;
			distances[distance_symbol(m.distance)]++;
		}
	}
	memset(&l, 0, sizeof(l));
	build_lengths(literals, 286, max_code, l.literal);
	build_lengths(distances, 30, max_code, l.distance);

	struct bit_queue q = {b->cdht, 0, cdht_capacity * 8};
	memset(b->cdht, 0, cdht_capacity);
	write_table(&q, &l);
	b->cdhtl = (uint16_t)q.count;
	b->oesc = 0;
	return done;
}
