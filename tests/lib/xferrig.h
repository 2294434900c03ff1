#ifndef KV_TEST_XFERRIG_H
#define KV_TEST_XFERRIG_H

/* An engine that serves one region, and one peer that a test plays, over a
 * simulated network. */

#include "simpair.h"
#include "wirepeer.h"
#include "xfer/guest.h"
#include "xfer/note.h"
#include "xfer/region.h"
#include "xfer/serve.h"

enum {
	REGION = 100000
};

struct xferrig {
	struct simpair pair;
	struct kv_region_set regions;
	struct kv_guest_set guests;
	struct kv_note_queue notes;
	struct kv_serve *serve;
	struct wirepeer peer;
	uint64_t handle; /* of xferrig_memory */
};

extern struct xferrig xf;
extern const struct kv_id xferrig_boot, xferrig_token;
extern char xferrig_memory[REGION]; /* the region */
extern char xferrig_bytes[REGION];  /* what xferrig_write sends */

/* Fixtures of cmocka. */
int xferrig_tcp(void **state);
int xferrig_unix(void **state);
int xferrig_close(void **state);
#define OVER_TCP(fn) \
	cmocka_unit_test_setup_teardown(fn, xferrig_tcp, xferrig_close)
#define OVER_UNIX(fn) \
	cmocka_unit_test_setup_teardown(fn, xferrig_unix, xferrig_close)

void xferrig_run(unsigned ms);
/* HELLO of a peer that wants this process, or any (NULL); the status. text: of
 * the answer, KV_HELLO_TEXT_BYTES, or NULL. */
int xferrig_hello(enum kv_role role, const struct kv_id *want, char *text);
struct kv_xfer_piece xferrig_piece(uint64_t handle, uint64_t off, uint64_t len);
void xferrig_send(uint64_t id, enum kv_xfer_op op,
		  const struct kv_xfer_piece *pieces, unsigned count);
/* With so much of xferrig_bytes. */
void xferrig_write(uint64_t id, const struct kv_xfer_piece *pieces,
		   unsigned count, size_t len);
/* The answer is there, and says this. */
void xferrig_expect(uint64_t id, int status, const void *payload, size_t len);
/* Within a second, and without an answer. */
void xferrig_expect_closed(void);
/* Gives xferrig_bytes something to tell apart. */
void xferrig_fill(void);

#endif
