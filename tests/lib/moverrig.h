#ifndef KV_TEST_MOVERRIG_H
#define KV_TEST_MOVERRIG_H

/* A mover of values over a pool of random bytes, and peers on socket pairs. */

#include "svc/mover.h"
#include "wirepeer.h"

enum {
	MOVERRIG_POOL = 8 << 20,
};

/* A value on its way, as the node would hold it. */
struct moved {
	struct kv_move move;
	struct kv_extent ext[3];
	int done;
	int done_at; /* order of all that was called back */
};

struct moverpeer {
	struct wirepeer peer;
	struct kv_dataconn *dc;
	int closed;
	int closed_at;
};

extern struct kv_loop *mover_loop;
extern struct kv_mover *mover;
extern uint8_t *mover_pool;
extern const struct kv_id mover_boot; /* that HELLO is answered with */

/* Fixtures of cmocka: all is done on the loop, or by two threads. */
int moverrig_home(void **state);
int moverrig_threads(void **state);
int moverrig_close(void **state);

/* An entry of a table of tests for each of them. */
#define MOVER_BOTH(f)                                                      \
	{ #f " (home)", f, moverrig_home, moverrig_close, NULL },          \
	{                                                                  \
#f " (threads)", f, moverrig_threads, moverrig_close, NULL \
	}

/* Turns the loop: NULL begins to wait, for ten seconds at most. */
void moverrig_turn(const char *what);
#define MOVER_WAIT(condition)                      \
	do {                                       \
		moverrig_turn(NULL);               \
		while (!(condition))               \
			moverrig_turn(#condition); \
	} while (0)
void moverrig_rest(unsigned ms);

/* A data connection with this token, after HELLO. */
void moverpeer_open(struct moverpeer *c, uint64_t token);
void moverpeer_close(struct moverpeer *c);

/* Three pieces of the pool, out of order, `at` apart from others. */
void moved_init(struct moved *v, uint64_t at, uint64_t a, uint64_t b,
		uint64_t c);
/* Its bytes, as they are in the pool. */
void moved_gather(const struct moved *v, uint8_t *out);
/* The client will send it. */
void moved_expect(struct moverpeer *c, struct moved *v, uint64_t grant);
/* Others each time; to be freed. */
uint8_t *moverrig_bytes(size_t n);

#endif
