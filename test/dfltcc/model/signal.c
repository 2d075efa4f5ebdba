/* Copyright The Lighterage Authors. */
/* SPDX-License-Identifier: Apache-2.0 */

/* The instruction itself: a machine without it raises SIGILL, and the handler
   here executes it and goes on behind it. It does so for one instruction more,
   the mark that env.sh puts in the place of zlib-ng's STFLE. */

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <ucontext.h>
#include <unistd.h>

#include "fault.h"

enum {
	opcode_dfltcc = 0xb939,
	opcode_mark = 0xb2ff, /* assigned to nothing; operands as STFLE has them */
	facility = 151,
	circular = 0x80, /* the bit of the history's type beside the function's code */
	page = 4096,
};

static struct sigaction before;

static void set_condition(ucontext_t *u, unsigned code) {
	u->uc_mcontext.psw.mask = (u->uc_mcontext.psw.mask & ~(3ul << 44)) | (unsigned long)code << 44;
}

/* store_facilities stores the machine's facilities and the one that is modelled. */
static void store_facilities(ucontext_t *u, const uint8_t *instruction) {
	unsigned long *general = u->uc_mcontext.gregs;
	uint64_t facilities[32] = {0};
	register unsigned long last __asm__("0") = sizeof(facilities) / sizeof(facilities[0]) - 1;
	__asm__ volatile(".insn s,0xb2b00000,%0" : "=Q"(facilities), "+d"(last) : : "cc", "memory");

	unsigned long words = (last & 0xff) + 1, wanted = (general[0] & 0xff) + 1;
	facilities[facility / 64] |= 1ull << (63 - facility % 64);
	if (words < facility / 64 + 1)
		words = facility / 64 + 1;
	unsigned base = instruction[2] >> 4;
	uint8_t *to = (uint8_t *)((base == 0 ? 0 : general[base]) + ((instruction[2] & 15u) << 8 | instruction[3]));
	memcpy(to, facilities, (wanted < words ? wanted : words) * 8);
	general[0] = (general[0] & ~0xfful) | (words - 1);
	set_condition(u, wanted < words ? 3 : 0);
}

static void query(struct available *a) {
	memset(a, 0, sizeof(*a));
	a->functions[0] = 1 << 7;
	if (without_functions())
		return;
	a->functions[0] |= 1 << (7 - dfltcc_gdht) | 1 << (7 - dfltcc_cmpr) | 1 << (7 - dfltcc_xpnd);
	a->formats[0] = 1 << 7;
}

/* convert executes DFLTCC and returns its condition code, or misuse. */
static enum outcome convert(unsigned long *general, const uint8_t *instruction) {
	unsigned function = general[0] & 0x7f, third = instruction[2] >> 4;
	unsigned first = instruction[3] >> 4, second = instruction[3] & 15;
	struct block *b = (struct block *)general[1];

	if (general[1] % 8 != 0)
		return misuse;
	if (function == dfltcc_qaf) {
		query((struct available *)b);
		count_call(dfltcc_qaf, done);
		return done;
	}
	if (second == 0 || second % 2 != 0 || b->pbvn != 0)
		return misuse;
	struct operands o = {
		.second = (const uint8_t *)general[second], .second_length = general[second + 1], .step = model_step()};
	struct operands was = o;
	enum outcome outcome;
	if (function == dfltcc_gdht) {
		outcome = generate(b, &o);
		count_call(dfltcc_gdht, outcome);
		return outcome;
	}
	if (first == 0 || first % 2 != 0 || first == second || !(general[0] & circular) || general[third] % page != 0)
		return misuse;
	was.first = o.first = (uint8_t *)general[first];
	was.first_length = o.first_length = general[first + 1];
	was.history = o.history = (uint8_t *)general[third];
	switch (function) {
	case dfltcc_cmpr:
		outcome = compress(b, &o);
		break;
	case dfltcc_xpnd:
		outcome = expand(b, &o);
		break;
	default:
		return misuse;
	}
	if (outcome == misuse)
		return misuse;
	count_call((int)function, outcome);
	spoil((int)function, outcome, b, &was, &o);
	general[first] = (unsigned long)o.first;
	general[first + 1] = o.first_length;
	general[second] = (unsigned long)o.second;
	general[second + 1] = o.second_length;
	return outcome;
}

/* pass_on gives a signal to who had it before. */
static void pass_on(int number, siginfo_t *info, void *context) {
	if (before.sa_flags & SA_SIGINFO) {
		before.sa_sigaction(number, info, context);
	} else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
		before.sa_handler(number);
	} else {
		signal(number, SIG_DFL); /* and come back, to end the program */
	}
}

static void handle(int number, siginfo_t *info, void *context) {
	ucontext_t *u = context;
	const uint8_t *instruction = info->si_addr;
	unsigned opcode = (unsigned)instruction[0] << 8 | instruction[1];

	if (opcode == opcode_mark) {
		store_facilities(u, instruction);
	} else if (opcode == opcode_dfltcc) {
		enum outcome outcome = convert(u->uc_mcontext.gregs, instruction);
		if (outcome == misuse) {
			static const char message[] = "dfltcc model: the program misuses the instruction, or uses what is not modelled\n";
			if (write(STDERR_FILENO, message, sizeof(message) - 1) < 0)
				_exit(2);
			pass_on(number, info, context);
			return;
		}
		set_condition(u, outcome);
	} else {
		pass_on(number, info, context);
		return;
	}
	u->uc_mcontext.psw.addr = (unsigned long)instruction + 4;
}

static void install(void) {
	struct sigaction ours = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK};

	sigfillset(&ours.sa_mask);
	if (sigaction(SIGILL, &ours, &before) != 0) {
		perror("dfltcc model: sigaction");
		_exit(2);
	}
}

/* A program in C has the model before main. */
__attribute__((constructor)) static void begin(void) {
	read_environment();
	install();
}

/* A program in Go takes the signals for itself when it starts, so that the model
   has to come again. The linker puts this function, which gives the model's
   archive its place in the program too, before the one that Go calls then. */
__attribute__((weak)) void __real_x_cgo_notify_runtime_init_done(void *);
void __wrap_x_cgo_notify_runtime_init_done(void *);
void __wrap_x_cgo_notify_runtime_init_done(void *unused) {
	install();
	if (__real_x_cgo_notify_runtime_init_done != NULL)
		__real_x_cgo_notify_runtime_init_done(unused);
}
