#ifndef KV_TEST_ENGPEER_H
#define KV_TEST_ENGPEER_H

/* Engines in other processes, which do what they are told. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "kvpool.h"

struct engpeer {
	pid_t pid;
	int fd;
	char addr[32];
};

struct engpeer_opts {
	/* In the new process before its engine; not 0: it ends, and start is
	 * false. May be NULL. */
	int (*prepare)(void);
	struct kv_engine_opts engine; /* size need not be set */
};

/* First thing in main(): the processes are made by one that has no threads. */
void engpeer_init(void);

/* opts may be NULL. */
bool engpeer_start(struct engpeer *p, const struct engpeer_opts *opts);
/* Closes its engine; fails the test if it does not exit with 0. */
void engpeer_stop(struct engpeer *p);
/* SIGKILL, and waits for the end. */
void engpeer_kill(struct engpeer *p);
/* Another one at the same port. */
bool engpeer_restart(struct engpeer *p, const struct engpeer_opts *opts);

enum engpeer_op {
	ENGPEER_STOP,
	ENGPEER_MAP,        /* len: new memory, zero, not registered: address */
	ENGPEER_REGISTER,   /* addr, len: result */
	ENGPEER_UNREGISTER, /* addr: result */
	ENGPEER_ALLOC,      /* len: address or 0 */
	ENGPEER_FREE,       /* addr: result */
	ENGPEER_FILL,       /* addr, len, seed */
	ENGPEER_VERIFY,     /* addr, len, seed: bytes that are wrong */
	ENGPEER_NOTES,      /* how many wait, and the number in the last one */
	ENGPEER_UNMAP,      /* addr, len: not there any more */
	/* As a client of another engine. */
	ENGPEER_MEET,  /* addr: the port of that */
	ENGPEER_WRITE, /* addr there, len, seed: result */
	ENGPEER_READ,  /* addr there, len, seed: result, or 1 for wrong bytes */
	ENGPEER_FLOOD, /* as WRITE again and again until it fails: result */
	ENGPEER_PATH,  /* the first letter of the path, or a result */
	ENGPEER_DENY,  /* seccomp: the system calls in addr and len fail */
};

int64_t engpeer_do(const struct engpeer *p, enum engpeer_op op, uint64_t addr,
		   uint64_t len, uint64_t seed);
/* The two halves of it. */
void engpeer_tell(const struct engpeer *p, enum engpeer_op op, uint64_t addr,
		  uint64_t len, uint64_t seed);
int64_t engpeer_answer(const struct engpeer *p);
/* MAP and REGISTER; fails the test when it cannot. */
uint64_t engpeer_region(const struct engpeer *p, uint64_t len);

/* Bytes that depend on seed and place: `at` is where p lies in the pattern. */
void engpeer_fill(void *p, uint64_t at, size_t len, uint64_t seed);
/* How many differ. */
uint64_t engpeer_verify(const void *p, uint64_t at, size_t len, uint64_t seed);

/* Waits for a child; fails the test when it ends in another way. */
void engpeer_expect_exit(pid_t pid, int code);

/* An engine of this process, or the test fails. */
struct kv_engine *engpeer_open(const struct kv_engine_opts *opts);

#endif
