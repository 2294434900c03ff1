#ifndef KV_TEST_TALLY_H
#define KV_TEST_TALLY_H

/* What a thread of a driver saw, and what is made of it at the end. */

#include <stdint.h>
#include <stdio.h>

#include "guard.h"

enum tally_op {
	TALLY_PUT,
	TALLY_GET,
	TALLY_EXIST,
	TALLY_VIEW,
	TALLY_REMOVE,
	TALLY_OPS,
};

enum {
	TALLY_STATUSES = 32,
};

struct tally {
	uint64_t keys[TALLY_OPS][TALLY_STATUSES]; /* by (positive) status */
	uint64_t calls[TALLY_OPS];
	uint64_t ms_max[TALLY_OPS];
	uint64_t wrong;      /* bytes, or what a promise excludes */
	uint64_t late;       /* calls over their bound */
	uint64_t unexpected; /* statuses */
};

/* Times a call: between these two. */
void tally_enter(struct guard *g, enum tally_op op, uint64_t timeout_ms);
void tally_leave(struct tally *t, struct guard *g, enum tally_op op);

/* Counts the status (0 or negative) of a key. allowed: bits 1 << status. */
void tally_key(struct tally *t, enum tally_op op, long status,
	       uint64_t allowed);

/* Says on stderr what is wrong, and counts it. */
__attribute__((format(printf, 2, 3))) void tally_wrong(struct tally *t,
						       const char *fmt, ...);

void tally_add(struct tally *sum, const struct tally *t);
/* One line of JSON. */
void tally_print(const struct tally *t, FILE *f);
/* The exit code of a driver. */
int tally_code(const struct tally *t);

#endif
