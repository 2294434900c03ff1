#ifndef KV_TEST_NODEREQ_H
#define KV_TEST_NODEREQ_H

/* The node of a test, its masters, and one requester in its host. */

#include "noderig.h"
#include "wire/proto.h"

extern struct simreq req;

/* Fixtures of cmocka: with one master; with two; with one and a pool file. */
int nodereq_one(void **state);
int nodereq_two(void **state);
int nodereq_file(void **state);
int nodereq_close(void **state);

/* Three bytes. */
void nodereq_put(const char *key);
void nodereq_put_hard(const char *key); /* hard-pinned */
/* The status. */
int nodereq_get(const char *key);

/* Sends a request whose tail is the tenant and something behind it. */
void nodereq_ask(enum kv_msg_type type, const void *body, const char *tenant,
		 const void *rest, size_t n);
/* The answer to it, which must be of this type; to be freed. */
struct wireframe *nodereq_answer(enum kv_msg_type type);
/* It is ERROR_R with this status and a text with this word. */
void nodereq_fails(int status, const char *word);

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
