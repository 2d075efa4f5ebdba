/* Copyright The Lighterage Authors. */
/* SPDX-License-Identifier: Apache-2.0 */

/* zlib-ng's API does not say whether the instruction DFLTCC did the work or
   software did. These functions, which build.sh adds to the library, do. */

#ifndef DFLTCC_WITNESS_H
#define DFLTCC_WITNESS_H

#include <zlib-ng.h>

enum dfltcc_witness {
	dfltcc_did_all = 0,        /* every byte went through the instruction */
	dfltcc_not_built = 1,      /* the library was built without it */
	dfltcc_no_instruction = 2, /* the library does not find it on this machine */
	dfltcc_level = 3,          /* the library was built to use it at other levels */
	dfltcc_window = 4,         /* it takes a window of 32 KiB alone */
	dfltcc_other = 5,          /* the stream excludes it, or software did some of it */
};

/* What did the work since the last reset of a stream that has reached its end. Of a
   stream that deflates with a preset dictionary the second function says it. */
enum dfltcc_witness dfltcc_deflate_witness(const zng_stream *stream);
enum dfltcc_witness dfltcc_dictionary_witness(const zng_stream *stream);
enum dfltcc_witness dfltcc_inflate_witness(const zng_stream *stream);

#endif
