#include "xferrig.h"

#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "net/hello.h"
#include "test.h"

struct xferrig xf;

const struct kv_id xferrig_boot = { .b = "engine" };
const struct kv_id xferrig_token = { .b = "token" };
char xferrig_memory[REGION], xferrig_bytes[REGION];

void
xferrig_run(unsigned ms)
{
	simpair_run(&xf.pair, ms * KV_NS_PER_MS);
}

static int
open_fixture(bool is_unix)
{
	struct simnet_opts opts = {
		.seed = 3,
		.latency_ns = 1000000,
		.pipe_bytes = 20000, /* less than a payload */
		.chunked = true,
	};
	struct kv_serve_opts so = {
		.regions = &xf.regions,
		.guests = &xf.guests,
		.notes = &xf.notes,
		.boot = xferrig_boot,
		.token = &xferrig_token,
	};
	struct kv_region_rec rec;
	struct kv_peer peer;
	uint32_t n;

	memset(&xf, 0, sizeof(xf));
	memset(xferrig_memory, 0, sizeof(xferrig_memory));
	simpair_open(&xf.pair, &opts, is_unix);
	kv_region_init(&xf.regions, NULL);
	kv_guest_init(&xf.guests);
	kv_note_init(&xf.notes);
	assert_int_equal(
		kv_region_add(&xf.regions, xferrig_memory, REGION, NULL), 0);
	kv_region_list(&xf.regions, &rec, sizeof(rec), &n);
	xf.handle = kv_get64(rec.handle);
	so.loop = xf.pair.loop;
	xf.serve = kv_serve_new(&so);
	assert_non_null(xf.serve);
	xf.pair.net[1]->peer(xf.pair.net[1], xf.pair.stream[1], &peer);
	kv_serve_accept(xf.serve, xf.pair.stream[1], &peer);
	wirepeer_open(&xf.peer, xf.pair.loop, xf.pair.stream[0]);
	return 0;
}

static void
quiet(void *arg, enum kv_log_level level, const char *msg)
{
	(void)arg;
	(void)level;
	(void)msg;
}

int
xferrig_tcp(void **state)
{
	(void)state;
	kv_log_set_sink(quiet, NULL);
	return open_fixture(false);
}

int
xferrig_unix(void **state)
{
	(void)state;
	kv_log_set_sink(quiet, NULL);
	return open_fixture(true);
}

int
xferrig_close(void **state)
{
	(void)state;
	wirepeer_close(&xf.peer);
	kv_serve_free(xf.serve);
	simpair_close(&xf.pair);
	assert_int_equal(xf.regions.by_addr[0]->users, 0);
	kv_note_fini(&xf.notes);
	kv_guest_fini(&xf.guests);
	kv_region_fini(&xf.regions);
	kv_log_set_sink(NULL, NULL);
	return 0;
}

int
xferrig_hello(enum kv_role role, const struct kv_id *want, char *text)
{
	struct kv_hello h = {
		.version_min = kv_le16(1),
		.version_max = kv_le16(1),
		.role = (uint8_t)role,
	};
	struct wireframe *frame;
	struct kv_hello_r r;

	if (want)
		h.want = *want;
	wirepeer_send(&xf.peer, KV_MSG_HELLO, 1, &h, NULL, 0);
	xferrig_run(100);
	frame = wirepeer_take(&xf.peer, KV_MSG_HELLO_R);
	assert_non_null(frame);
	memcpy(&r, frame->body, sizeof(r));
	if (text)
		snprintf(text, KV_HELLO_TEXT_BYTES, "%.*s",
			 (int)frame->tail_len, (char *)frame->tail);
	assert_true(kv_id_is_equal(r.boot, xferrig_boot));
	wireframe_free(frame);
	return r.status;
}

struct kv_xfer_piece
xferrig_piece(uint64_t handle, uint64_t off, uint64_t len)
{
	return (struct kv_xfer_piece){
		.handle = kv_le64(handle),
		.off = kv_le64(off),
		.len = kv_le64(len),
	};
}

void
xferrig_send(uint64_t id, enum kv_xfer_op op,
	     const struct kv_xfer_piece *pieces, unsigned count)
{
	struct kv_xfer x = {
		.op = (uint8_t)op,
		.count = kv_le32(count),
	};

	wirepeer_send(&xf.peer, KV_MSG_XFER, id, &x, pieces,
		      count * sizeof(*pieces));
}

void
xferrig_write(uint64_t id, const struct kv_xfer_piece *pieces, unsigned count,
	      size_t len)
{
	struct iovec iov = { xferrig_bytes, len };
	struct kv_xfer *x;
	void *tail;

	x = kv_conn_begin_tail(xf.peer.c, KV_MSG_XFER, id, 0,
			       count * sizeof(*pieces), &tail);
	assert_non_null(x);
	x->op = KV_XFER_WRITE;
	x->count = kv_le32(count);
	memcpy(tail, pieces, count * sizeof(*pieces));
	kv_conn_end_payload(xf.peer.c, &iov, 1, NULL);
}

void
xferrig_expect(uint64_t id, int status, const void *payload, size_t len)
{
	struct wireframe *frame = wirepeer_take(&xf.peer, KV_MSG_XFER_R);

	assert_non_null(frame);
	assert_int_equal(frame->id, id);
	assert_int_equal(((struct kv_xfer_r *)frame->body)->status, status);
	assert_int_equal(frame->payload_len, len);
	if (len)
		assert_memory_equal(frame->payload, payload, len);
	wireframe_free(frame);
}

void
xferrig_expect_closed(void)
{
	xferrig_run(1000);
	assert_true(xf.peer.is_lost);
	assert_null(wirepeer_take(&xf.peer, KV_MSG_XFER_R));
}

void
xferrig_fill(void)
{
	for (size_t i = 0; i < sizeof(xferrig_bytes); i++)
		xferrig_bytes[i] = (char)(i * 31 + i / 251);
}
