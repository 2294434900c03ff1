#ifndef KV_TEST_WIREPEER_H
#define KV_TEST_WIREPEER_H

/* The other side of a connection, played by a test: it sends what it is told
 * and keeps every frame that comes, payload included. */

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "net/conn.h"

struct wireframe {
	struct kv_list link;
	enum kv_msg_type type;
	uint8_t flags;
	uint64_t id;
	uint8_t *body; /* of the type's struct */
	uint8_t *tail;
	size_t tail_len;
	uint8_t *payload;
	uint32_t payload_len;
	int fd; /* that came along; -1 */
};

struct wirepeer {
	struct kv_conn *c;     /* NULL: closed by the test */
	struct kv_list frames; /* in the order of their arrival */
	uint8_t *payload;      /* of the frame that is arriving */
	bool is_lost;
	int status;
	bool stops_reading;
};

/* Takes the stream over. */
void wirepeer_open(struct wirepeer *p, struct kv_loop *loop,
		   struct kv_stream *s);
/* Closes and forgets; harmless when it was never opened (zeroed). */
void wirepeer_close(struct wirepeer *p);

/* A frame with this body (NULL: zeroes) and tail. */
void wirepeer_send(struct wirepeer *p, enum kv_msg_type type, uint64_t id,
		   const void *body, const void *tail, size_t tail_len);
/* DATA. The bytes must stay until they have left. */
void wirepeer_send_data(struct wirepeer *p, uint64_t ref, uint64_t off,
			const void *bytes, size_t len);

/* The first frame of the type that came, taken out; NULL: none. */
struct wireframe *wirepeer_take(struct wirepeer *p, enum kv_msg_type type);
void wireframe_free(struct wireframe *f);
unsigned wirepeer_count(const struct wirepeer *p, enum kv_msg_type type);

#endif
