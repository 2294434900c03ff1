#ifndef KV_TEST_NODEREQ_H
#define KV_TEST_NODEREQ_H

/* The node of a test, its masters, and one requester in its host. */

#include "noderig.h"
#include "wire/proto.h"

extern struct simreq req;

/* Fixtures of cmocka: with two masters; with one and a pool file. */
int nodereq_two(void **state);
int nodereq_file(void **state);
int nodereq_close(void **state);

/* Three bytes. */
void nodereq_put(const char *key);
/* The status. */
int nodereq_get(const char *key);

/* ---- generations ---- */

/* An entry with its tenant; its length. */
size_t nodereq_ent(uint8_t *to, const char *tenant, uint64_t number,
		   uint64_t random);
/* A master tells of one. */
void nodereq_news(unsigned master, const char *tenant, uint64_t number,
		  uint64_t random);
/* What a new requester is told, having told this himself. */
struct kv_generation_le nodereq_greet(uint64_t number, uint64_t random);
/* The number of what it is told. */
uint64_t nodereq_number(void);

#endif
