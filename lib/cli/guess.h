/* Which name somebody meant who wrote another one. */
#ifndef KV_CLI_GUESS_H
#define KV_CLI_GUESS_H

#include <stddef.h>

enum {
	KV_GUESS_BYTES_MAX = 64, /* nothing is near what is longer */
};

/* Zeroed at first. */
struct kv_guess {
	const char *best; /* the nearest name so far, NULL: none is near */
	size_t edits;     /* that make it of what was written */
};

/*
 * Holds what was written, the N bytes at P, against NAME. Near is what up to
 * two edits change, and fewer than a third of NAME; case, and '-' for '_', are
 * none.
 */
void kv_guess_try(struct kv_guess *g, const char *p, size_t n,
		  const char *name);

#endif
