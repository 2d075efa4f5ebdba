/* Copyright The Lighterage Authors. */
/* SPDX-License-Identifier: Apache-2.0 */

/* The function Expand. */

#include "bits.h"
#include "check.h"
#include "function.h"
#include "huffman.h"

/* Where in a stream a call begins. */
enum stage {
	at_header,
	at_table,  /* of a dynamic block */
	at_length, /* of a stored block */
	in_stored,
	in_symbols,
	in_match,
};

enum {
	/* What can be there and not suffice for the next step is less than the longest
	   table: 14 bits, 19 lengths of 3 bits, 316 codes of 14 bits. */
	saved_bytes = 600,
};

/* What Expand keeps in the continuation-state buffer. */
struct kept {
	uint8_t stage;
	uint8_t saved_at; /* the next bit in the first byte of saved */
	uint16_t saved_count; /* bytes */
	uint32_t left;        /* of a stored block or a match */
	uint32_t distance;
	uint8_t saved[saved_bytes]; /* bits that did not suffice */
};
_Static_assert(sizeof(struct kept) <= csb_capacity, "kept");

/* The operation-ending supplemental codes are the model's own: programs are told
   no more than that they are not 0. */
enum { bad_type = 0x01, bad_stored_length = 0x02, bad_table = 0x10, bad_code = 0x30, bad_distance = 0x31 };

static __thread struct decoder decoder;

/* The tables that decoder was made from: 0 none yet, 1 fixed, 2 those in
   last_cdht. */
static __thread int decoder_from;
static __thread uint8_t last_cdht[cdht_capacity];

static void use_fixed(void) {
	struct lengths l;

	if (decoder_from == 1)
		return;
	fixed_lengths(&l);
	make_decoder(&decoder, &l);
	decoder_from = 1;
}

/* is_last reports whether the decoder is that of the block's tables, which are
   followed by zeros. */
static int is_last(const struct block *b) {
	return decoder_from == 2 && memcmp(b->cdht, last_cdht, cdht_capacity) == 0;
}

static void use(const struct block *b, const struct lengths *l) {
	make_decoder(&decoder, l);
	memcpy(last_cdht, b->cdht, cdht_capacity);
	decoder_from = 2;
}

/* One call at work. */
struct work {
	struct block *block;
	struct operands *operands;
	struct kept *kept;
	struct bit_source source;
	uint8_t *begin; /* of what it wrote */
};

static uint64_t written(const struct work *w) {
	return (uint64_t)(w->operands->first - w->begin);
}

static void write_byte(struct work *w, uint8_t byte) {
	struct block *b = w->block;

	*w->operands->first++ = byte;
	w->operands->first_length--;
	w->operands->history[(b->ho + b->hl) % history_size] = byte;
	if (b->hl < history_size)
		b->hl++;
	else
		b->ho = (b->ho + 1) % history_size;
}

static enum outcome bad(struct work *w, unsigned code) {
	w->block->oesc = (uint8_t)code;
	return second_short;
}

/* The steps return again when there is more to do. */

static enum outcome header(struct work *w) {
	if (bits_left(&w->source) < 3)
		return second_short;
	unsigned bits = (unsigned)peek(&w->source, 3);
	w->source.at += 3;
	w->block->task = (uint8_t)((w->block->task & ~(task_bhf | task_htt)) | (bits & 1 ? task_bhf : 0));
	switch (bits >> 1) {
	case 0:
		w->kept->stage = at_length;
		return again;
	case 1:
		use_fixed();
		w->kept->stage = in_symbols;
		return again;
	case 2:
		w->block->task |= task_htt;
		w->kept->stage = at_table;
		return again;
	default:
		return bad(w, bad_type);
	}
}

static enum outcome table(struct work *w) {
	struct lengths l;
	uint64_t start = w->source.at;
	enum table_status status = read_table(&w->source, &l);

	if (status == table_more)
		return second_short;
	if (status != table_ok)
		return bad(w, bad_table + status);
	/* The parameter block holds the tables, for calls that continue. */
	struct bit_source s = w->source;
	struct bit_queue q = {w->block->cdht, 0, cdht_capacity * 8};
	memset(w->block->cdht, 0, cdht_capacity);
	for (s.at = start; s.at < w->source.at;) {
		unsigned n = w->source.at - s.at < 16 ? (unsigned)(w->source.at - s.at) : 16;
		put(&q, (uint32_t)peek(&s, n), n);
		s.at += n;
	}
	w->block->cdhtl = (uint16_t)q.count;
	if (!is_last(w->block))
		use(w->block, &l);
	w->kept->stage = in_symbols;
	return again;
}

static enum outcome stored_length(struct work *w) {
	unsigned skip = (unsigned)(-w->source.at & 7);
	if (bits_left(&w->source) < skip + 32)
		return second_short;
	w->source.at += skip;
	uint32_t length = (uint32_t)peek(&w->source, 16), inverse;
	w->source.at += 16;
	inverse = (uint32_t)peek(&w->source, 16);
	w->source.at += 16;
	if ((length ^ inverse) != 0xffff)
		return bad(w, bad_stored_length);
	w->kept->left = length;
	w->kept->stage = in_stored;
	return again;
}

/* end_block goes on behind a block. */
static enum outcome end_block(struct work *w) {
	if (w->block->task & task_bhf)
		return done;
	w->kept->stage = at_header;
	return again;
}

static enum outcome stored(struct work *w) {
	if (w->kept->left == 0)
		return end_block(w);
	if (w->operands->first_length == 0)
		return first_short;
	if (bits_left(&w->source) < 8)
		return second_short;
	write_byte(w, (uint8_t)peek(&w->source, 8));
	w->source.at += 8;
	w->kept->left--;
	return again;
}

static enum outcome match(struct work *w) {
	const struct block *b = w->block;

	while (w->kept->left > 0) {
		if (w->operands->first_length == 0)
			return first_short;
		write_byte(w, w->operands->history[(b->ho + b->hl - w->kept->distance) % history_size]);
		w->kept->left--;
	}
	w->kept->stage = in_symbols;
	return again;
}

static enum outcome symbol(struct work *w) {
	uint64_t bits = peek(&w->source, 48), left = bits_left(&w->source);
	unsigned entry = decoder.literal[bits & ((1 << max_code) - 1)], used = entry & 15, s = entry >> 4;

	if (used == 0)
		return left < max_code ? second_short : bad(w, bad_code);
	if (used > left)
		return second_short;
	if (s < end_of_block) {
		if (w->operands->first_length == 0)
			return first_short;
		write_byte(w, (uint8_t)s);
		w->source.at += used;
		return again;
	}
	if (s == end_of_block) {
		w->source.at += used;
		return end_block(w);
	}
	s -= 257;
	unsigned length = length_base[s] + (unsigned)(bits >> used & ((1u << length_extra[s]) - 1));
	used += length_extra[s];
	entry = decoder.distance[bits >> used & ((1 << max_code) - 1)];
	s = entry >> 4;
	if ((entry & 15) == 0)
		return left < used + max_code ? second_short : bad(w, bad_code);
	used += entry & 15;
	unsigned distance = distance_base[s] + (unsigned)(bits >> used & ((1u << distance_extra[s]) - 1));
	used += distance_extra[s];
	if (used > left)
		return second_short;
	if (distance > w->block->hl)
		return bad(w, bad_distance);
	w->source.at += used;
	w->kept->left = length;
	w->kept->distance = distance;
	w->kept->stage = in_match;
	return again;
}

static enum outcome expand_bits(struct work *w) {
	static enum outcome (*const steps[])(struct work *) = {header, table, stored_length, stored, symbol, match};

	for (;;) {
		if (w->operands->step > 0 && written(w) >= w->operands->step)
			return again;
		enum outcome outcome = steps[w->kept->stage](w);
		if (outcome != again)
			return outcome;
	}
}

/* resume finds the tables that a call before this one read. */
static int resume(struct work *w) {
	struct lengths l;
	struct bit_source s = {.tail = w->block->cdht, .tail_bytes = cdht_capacity};

	if (w->kept->stage > in_match || w->kept->saved_count > saved_bytes || w->kept->saved_at > 7)
		return 0;
	if (w->kept->stage != in_symbols && w->kept->stage != in_match)
		return 1;
	if (!(w->block->task & task_htt)) {
		use_fixed();
		return 1;
	}
	if (is_last(w->block))
		return 1;
	if (read_table(&s, &l) != table_ok || s.at != (w->block->cdhtl & 0xfff))
		return 0;
	use(w->block, &l);
	return 1;
}

/* save keeps the bits that did not suffice, all that there are. */
static void save(struct work *w) {
	uint8_t rest[saved_bytes];
	uint64_t first = w->source.at / 8, n = w->source.head_bytes + w->source.tail_bytes - first;

	for (uint64_t i = 0; i < n; i++)
		rest[i] = byte_at(&w->source, first + i);
	memcpy(w->kept->saved, rest, n);
	w->kept->saved_count = (uint16_t)n;
	w->kept->saved_at = n == 0 ? 0 : w->source.at % 8;
	w->block->sbb = 0;
	w->operands->second += w->operands->second_length;
	w->operands->second_length = 0;
}

enum outcome expand(struct block *b, struct operands *o) {
	struct kept *kept = (struct kept *)b->csb;
	struct work w = {b, o, kept, {0}, o->first};

	if (b->hl > history_size)
		return misuse;
	if (b->task & task_nt) {
		b->task &= (uint8_t)~task_nt;
		b->flags &= ~(uint32_t)flag_cf;
		b->hl = 0;
		begin_check(b);
	}
	if (!(b->flags & flag_cf)) {
		if (o->second_length == 0)
			return misuse; /* there is nothing that it could do */
		memset(kept, 0, sizeof(*kept));
	} else if (!resume(&w)) {
		return misuse;
	}
	b->oesc = 0;
	w.source = (struct bit_source){.head = kept->saved,
				       .head_bytes = kept->saved_count,
				       .tail = o->second,
				       .tail_bytes = o->second_length,
				       .at = kept->saved_count > 0 ? kept->saved_at : (unsigned)(b->sbb & 7)};

	enum outcome outcome = expand_bits(&w);
	add_check(b, w.begin, written(&w));
	if (outcome == second_short && b->oesc == 0) {
		save(&w);
	} else if (outcome != second_short && w.source.at / 8 >= w.source.head_bytes) {
		uint64_t whole = w.source.at / 8 - w.source.head_bytes;
		o->second += whole;
		o->second_length -= whole;
		b->sbb = w.source.at % 8;
		kept->saved_count = 0;
	}
	b->flags = outcome == done || b->oesc != 0 ? b->flags & ~(uint32_t)flag_cf : b->flags | flag_cf;
	return outcome;
}
