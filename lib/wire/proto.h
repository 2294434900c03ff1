#ifndef KV_WIRE_PROTO_H
#define KV_WIRE_PROTO_H

/*
 * The wire protocol: one header, one body struct a message, the rest of a
 * message (entries, keys, small values) in its tail. Same frames over Unix
 * sockets, TCP and, later, RDMA sends. Little-endian typed bytes, alignment 1.
 * Addresses never cross the wire: offsets into named regions do.
 *
 * Here is what all connections share; the other bodies are in protodata.h,
 * protodir.h, protordma.h and protoxfer.h.
 *
 * A connection starts with HELLO / HELLO_R. Requests carry an id that their
 * answers repeat; answers with KV_FLAG_MORE are followed by others.
 */

#include "base/id.h"
#include "base/le.h"
#include "base/limits.h"
#include "wire/protodata.h"
#include "wire/protodir.h"
#include "wire/protordma.h"
#include "wire/protoxfer.h"

#define KV_WIRE_MAGIC   0x3150564bu /* "KVP1" */
#define KV_WIRE_VERSION 1

enum {
	KV_FLAG_MORE = 1, /* an answer that is not the last one */
};

struct kv_header {
	struct kv_le32 magic;
	uint8_t version;
	uint8_t flags;
	struct kv_le16 type;
	struct kv_le32 len;     /* body and tail */
	struct kv_le32 payload; /* bytes behind them, under no sum */
	struct kv_le64 id;
	struct kv_le32 body_sum; /* low half of XXH3-64 of body and tail; seed:
				  * id XOR type shifted left by 48 */
	struct kv_le32 head_sum; /* low half of XXH3-64, seed 0, of the 28
				  * bytes before it */
};
#define KV_HEADER_BYTES 32

/* Body and tail of one frame; and what is left of it for a tail. */
#define KV_TAIL_MAX    (KV_FRAME_BYTES_MAX - 128)
#define KV_NAMES_MAX   1024
#define KV_PAYLOAD_MAX (1u << 30)

enum kv_msg_type {
#define KV_MSG(number, NAME, body, tmin, tmax, text) KV_MSG_##NAME = number,
#include "wire/proto.def"
#undef KV_MSG
};

enum kv_role {
	KV_ROLE_REQUESTER = 1, /* a client, to a node or to a master */
	KV_ROLE_DATA = 2,      /* a client's data connection to a node */
	KV_ROLE_NODE = 3,      /* a node, to a master */
	KV_ROLE_PROBE = 4,     /* a master, to a node's port */
	KV_ROLE_ENGINE = 5,    /* raw transfers between engines */
};

/* To an HTTP server a HELLO is a request, which it answers at once: its answer
 * is no frame. Else both sides would wait. One whose sums hold the bytes of an
 * end of line it may close without a word: with another salt they do not. */
#define KV_HELLO_HTTP "  / HTTP/1.0\r\n\r\n"

struct kv_hello {
	uint8_t http[16]; /* KV_HELLO_HTTP; not looked at */
	struct kv_le16 version_min;
	struct kv_le16 version_max;
	uint8_t role;
	uint8_t tenant_len; /* 0: "default" */
	uint8_t name_len;   /* for people: program or host name */
	uint8_t zero;
	struct kv_le64 features;
	struct kv_id boot; /* the dialler */
	struct kv_id want; /* whom it means to reach; zero: whoever it is */
	struct kv_id host; /* same value: same host (kernel boot id and network
			    * name space) */
	struct kv_le64 token; /* DATA: of its control connection */
	struct kv_le32 pid;
	struct kv_le32 salt; /* not looked at */
	/* Of the tenant, as far as this side has heard. */
	struct kv_generation_le generation;
	/* tail: tenant, name */
};

struct kv_hello_r {
	uint8_t status; /* enum kv_status; then text says why */
	uint8_t zero;
	struct kv_le16 version;
	struct kv_le16 text_len;
	struct kv_le16 zero2;
	struct kv_le64 features;
	struct kv_id boot;    /* the answering side */
	struct kv_le64 token; /* random name of this connection */
	struct kv_generation_le generation;

	/* tail: text; status KV_OK: masters of a node, "host:port,..." */
};

struct kv_ping {
	struct kv_le64 stamp; /* comes back as it was */
};

struct kv_error_r {
	uint8_t status;
	uint8_t zero[3];
	struct kv_le32 text_len;
	/* tail: text */
};

KV_LE_SIZE(kv_header, KV_HEADER_BYTES);
KV_LE_SIZE(kv_hello, 112);
KV_LE_SIZE(kv_hello_r, 56);
KV_LE_SIZE(kv_error_r, 8);

#endif
