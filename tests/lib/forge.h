#ifndef KV_TEST_FORGE_H
#define KV_TEST_FORGE_H

/* Frames that nobody honest sends: those of the fuzzer's corpus with other
 * counts, lengths and bytes, under sums that are right; and the blocking
 * sockets to send them through. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"
#include "wire/msg.h"

#define FORGE_BYTES_MAX (KV_HEADER_BYTES + KV_FRAME_BYTES_MAX)

struct forge_seed {
	enum kv_msg_type type;
	uint8_t flags;
	uint32_t payload;
	uint64_t id;
	uint8_t *bytes; /* body and tail */
	size_t len;
};

struct forge {
	struct forge_seed seeds[256];
	size_t nseeds;
	struct kv_rng rng;
	struct kv_id boot; /* of the last control connection */
	bool keeps_boot;   /* it is to be that of the next, too */
};

/* Reads the corpus; what is no frame is left out. Number of seeds. */
size_t forge_load(struct forge *f, const char *folder);
void forge_fini(struct forge *f);

/* Writes a header with good sums before len bytes at frame + KV_HEADER_BYTES,
 * whatever type and length are. Returns the length of the frame. */
size_t forge_seal(uint8_t *frame, const struct forge_seed *like, size_t len);

/* A changed copy of the seed in frame (FORGE_BYTES_MAX). Its length. */
size_t forge_change(struct forge *f, const struct forge_seed *s,
		    uint8_t *frame);

/* A random one; of_type: of a seed of that type if there is one. */
const struct forge_seed *forge_pick(struct forge *f);
const struct forge_seed *forge_of_type(struct forge *f, enum kv_msg_type type);

/* Connected to "host:port" (numbers) or a path. -1. */
int forge_connect(const char *target);
/* The next one that a listening socket gives within the time. -1. */
int forge_accept(int fd, int timeout_ms);
/* Until all is sent or the socket does not take it for 200 ms. */
bool forge_send(int fd, const void *bytes, size_t len);
/* HELLO in this role, and the answer read. Gives its token, 0 if refused. */
uint64_t forge_hello(struct forge *f, int fd, enum kv_role role,
		     uint64_t token);
/* The next frame within the time, in frame (FORGE_BYTES_MAX); a payload is read
 * and forgotten, a descriptor that came along is in *came (NULL: closed). */
bool forge_read(int fd, uint8_t *frame, struct kv_msg *msg, int timeout_ms,
		int *came);
/* Reads what has come, and forgets it. False: the other side closed. */
bool forge_drain(int fd, int timeout_ms);

#endif
