#ifndef KV_TEST_GUARD_H
#define KV_TEST_GUARD_H

/*
 * Sees to it that calls end. A call may take its deadline and a second more,
 * times KV_SLOW (how much slower than usual this build and machine are), and
 * the time in which this process was not run at all.
 */

#include <stdatomic.h>
#include <stdint.h>

/* How a driver ends. */
enum {
	DRIVER_WRONG = 1,      /* bytes that nobody put, or a promise broken */
	DRIVER_HANG = 2,       /* a call outlived its deadline */
	DRIVER_UNEXPECTED = 3, /* an error that the contract does not have */
};

/* The calls of one thread, one at a time. */
struct guard {
	_Atomic uint64_t entered_ns; /* 0: none is under way */
	_Atomic uint64_t allowed_ns;
	_Atomic(const char *) what;
	struct guard *next;
	_Atomic uint64_t stalled_ns; /* of the process, when it was entered */
};

/* KV_SLOW of the environment, else by the flavour. */
unsigned guard_slow(void);

/* Before the first call; the guard stays for the life of the process. A call
 * that never ends is named on stderr and ends the process: DRIVER_HANG. */
void guard_add(struct guard *g);

void guard_enter(struct guard *g, const char *what, uint64_t timeout_ms);
/* Milliseconds that the call took. *is_late: it was over its bound. */
uint64_t guard_leave(struct guard *g, int *is_late);

#endif
