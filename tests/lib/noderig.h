#ifndef KV_TEST_NODERIG_H
#define KV_TEST_NODERIG_H

/* The one node that a test of nodes plays with, and bytes to put. */

#include "simnode.h"

extern struct simnode sim;
extern uint8_t blob[SIMNODE_POOL]; /* no part of it is like another one */

/* All masters are up, and the node has a session with each. Returns 0. */
int noderig_open(const struct simnode_opts *opts);

/* Fixtures of cmocka: without masters, with one, with two; the end of each. */
int noderig_alone(void **state);
int noderig_one(void **state);
int noderig_two(void **state);
/* Its pool outlives it. */
int noderig_kept_alone(void **state);
int noderig_kept_one(void **state);
int noderig_close(void **state);
/* The same, but the masters are down, and blob is all zeros. */
int noderig_one_down(void **state);
int noderig_two_down(void **state);
/* This master comes up, and the node joins it. */
void noderig_join(unsigned i);

/* Crashes and is back, with all pages at once; nobody is attached any more
 * unless they stay. */
void noderig_crash(bool they_stay);

#endif
