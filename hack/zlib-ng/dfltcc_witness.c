/* Copyright The Lighterage Authors. */
/* SPDX-License-Identifier: Apache-2.0 */

/* Compiled as a part of zlib-ng, with its private headers and its flags: the
   layout of a stream's state depends on both. */

#include "zbuild.h"
#include "deflate.h"
#include "inftrees.h"
#include "inflate.h"

#if defined(S390_DFLTCC_DEFLATE)
#  include "arch/s390/dfltcc_deflate.h"
#endif
#if defined(S390_DFLTCC_INFLATE)
#  include "arch/s390/dfltcc_inflate.h"
#endif
#if defined(S390_DFLTCC_DEFLATE) || defined(S390_DFLTCC_INFLATE)
#  include "arch/s390/dfltcc_detail.h"
#endif

#include "dfltcc_witness.h"

/* deflate_witness is told where in the window the stream began. */
static enum dfltcc_witness deflate_witness(const zng_stream *stream, unsigned int began) {
#if defined(S390_DFLTCC_DEFLATE)
	/* dfltcc_can_deflate changes nothing but takes a pointer to a variable. */
	zng_stream *strm = (zng_stream *)stream;
	const deflate_state *s = (const deflate_state *)strm->state;
	const struct dfltcc_state *d = &s->arch.common;

	if (!is_bit_set(d->af.fns, DFLTCC_GDHT) || !is_bit_set(d->af.fns, DFLTCC_CMPR) ||
	    !is_bit_set(d->af.fmts, DFLTCC_FMT0))
		return dfltcc_no_instruction;
	if ((s->arch.level_mask & (1 << s->level)) == 0)
		return dfltcc_level;
	if (s->w_bits != HB_BITS)
		return dfltcc_window;
	if (!PREFIX(dfltcc_can_deflate)(strm))
		return dfltcc_other;
	/* Bytes were read, and there are two that read any: the instruction, whose
	   new-task bit is gone, and fill_window, which software at every level calls and
	   which moves the start of the window or leaves bytes ahead of it. */
	if (strm->total_in == 0 || d->param.nt != 0 || s->strstart != began || s->lookahead != 0)
		return dfltcc_other;
	return dfltcc_did_all;
#else
	(void)stream, (void)began;
	return dfltcc_not_built;
#endif
}

enum dfltcc_witness dfltcc_deflate_witness(const zng_stream *stream) { return deflate_witness(stream, 0); }

/* The window begins at 1 where the history of the instruction has the dictionary: zlib's
   header is to name it. Where the window of software has it, it begins behind all of it. */
enum dfltcc_witness dfltcc_dictionary_witness(const zng_stream *stream) { return deflate_witness(stream, 1); }

enum dfltcc_witness dfltcc_inflate_witness(const zng_stream *stream) {
#if defined(S390_DFLTCC_INFLATE)
	zng_stream *strm = (zng_stream *)stream;
	const struct inflate_state *s = (const struct inflate_state *)strm->state;
	const struct dfltcc_state *d = &s->arch.common;

	/* Also what remains of it after dfltcc_inflate_disable. */
	if (!PREFIX(dfltcc_can_inflate)(strm))
		return dfltcc_no_instruction;
	/* The instruction itself clears the new-task bit, or, where there is a dictionary, the
	   library does just before. After that the library has no way to go on in software,
	   and before it every block is offered to the instruction. */
	return d->param.nt == 0 ? dfltcc_did_all : dfltcc_other;
#else
	(void)stream;
	return dfltcc_not_built;
#endif
}
