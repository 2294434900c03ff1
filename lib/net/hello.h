#ifndef KV_NET_HELLO_H
#define KV_NET_HELLO_H

/*
 * The handshake: HELLO of the dialling side, HELLO_R of the accepting one. What
 * is refused is refused with a status and a text for people.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/conn.h"

/* The accepting side closes a connection that said no HELLO for so long. */
#define KV_HELLO_WAIT_NS    UINT64_C(10000000000)
#define KV_HELLO_TEXT_BYTES 256 /* with its NUL */

/* What a dialler says of itself. */
struct kv_hello_opts {
	enum kv_role role;
	const struct kv_id *boot;
	const struct kv_id *want; /* NULL: whoever it is */
	const struct kv_id *host; /* NULL: not told */
	uint64_t token;           /* KV_ROLE_DATA: of the control connection */
	const char *tenant;       /* at most 64 bytes; NULL: "default" */
	struct kv_generation_le generation; /* of it */
	const char *name;  /* cut to KV_NAME_BYTES_MAX; NULL: none */
	uint64_t features; /* KV_FEATURE_* */
};

/* For people: why a connection that ended with status (-errno) before HELLO was
 * answered is hardly one to kvpool. NULL: it may well be. */
const char *kv_hello_why(int status);

/* Completes a HELLO whose body was begun (kv_conn_begin, kv_rpc_begin): only
 * the end is left to do. False: the connection is closed or full. */
bool kv_hello_build(struct kv_conn *c, const struct kv_hello_opts *opts);

/* A HELLO as it came, valid as long as its message. */
struct kv_hello_in {
	enum kv_role role;
	uint16_t version; /* the one to speak */
	struct kv_id boot;
	struct kv_id want;
	struct kv_id host;
	uint64_t token;
	uint32_t pid; /* as it says; not to be trusted */
	const char *tenant;
	uint8_t tenant_len; /* 0: "default" */
	const char *name;
	uint8_t name_len;
	struct kv_generation_le generation; /* of the tenant */
	uint64_t features;                  /* also ones nobody knows here */
};

/*
 * Checks the first message of an accepted connection, sent to the process
 * `boot`. KV_OK, or what to answer: KV_EPROTO (not a good HELLO), KV_EVERSION,
 * KV_EGONE (meant for another process), with a text.
 */
int kv_hello_check(const struct kv_msg *msg, const struct kv_id *boot,
		   struct kv_hello_in *out, char text[KV_HELLO_TEXT_BYTES]);

/* Queues HELLO_R. status 0: text NULL, or what a node tells who is on its own
 * host: its masters, "host:port,...". */
void kv_hello_answer(struct kv_conn *c, uint64_t id, int status,
		     const char *text, const struct kv_id *boot,
		     uint64_t token);

/* What else may be said to whom is not refused. */
struct kv_hello_reply {
	const char *text; /* as above */
	const struct kv_id *boot;
	uint64_t token;
	uint64_t features;
	struct kv_generation_le generation; /* of a requester's tenant */
};

void kv_hello_welcome(struct kv_conn *c, uint64_t id,
		      const struct kv_hello_reply *reply);

struct kv_hello_result {
	struct kv_id boot;
	uint64_t token;
	uint64_t features;
	struct kv_generation_le generation;
	char text[KV_HELLO_TEXT_BYTES]; /* escaped for people; "" */
	/* As they came, none with a status; valid as long as the message. */
	const char *masters;
	size_t masters_len;
};

/* Reads HELLO_R: the status in it, or KV_EPROTO. */
int kv_hello_parse(const struct kv_msg *msg, struct kv_hello_result *out);

#endif
