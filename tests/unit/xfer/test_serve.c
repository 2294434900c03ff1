/* What an engine answers to peers, over a simulated network. */

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "kvpool.h"
#include "net/hello.h"
#include "test.h"
#include "xferrig.h"

static void
bytes_are_written_and_read(void **state)
{
	struct kv_xfer_piece p[3] = {
		xferrig_piece(xf.handle, 50000, 30000),
		xferrig_piece(xf.handle, 0, 0),
		xferrig_piece(xf.handle, 0, 50000),
	};

	(void)state;
	xferrig_fill();
	assert_int_equal(xferrig_hello(KV_ROLE_ENGINE, &xferrig_boot, NULL), 0);
	xferrig_write(5, p, 3, 80000);
	xferrig_run(2000);
	xferrig_expect(5, KV_OK, NULL, 0);
	assert_memory_equal(xferrig_memory + 50000, xferrig_bytes, 30000);
	assert_memory_equal(xferrig_memory, xferrig_bytes + 30000, 50000);
	assert_int_equal(xferrig_memory[80000], 0);
	xferrig_send(6, KV_XFER_READ, p, 3);
	xferrig_run(2000);
	xferrig_expect(6, KV_OK, xferrig_bytes, 80000);
}

static void
nothing_can_be_moved_too(void **state)
{
	struct kv_xfer_piece p = xferrig_piece(xf.handle, REGION, 0);

	(void)state;
	assert_int_equal(xferrig_hello(KV_ROLE_ENGINE, NULL, NULL), 0);
	xferrig_send(5, KV_XFER_WRITE, &p, 1);
	xferrig_send(6, KV_XFER_READ, &p, 1);
	xferrig_send(7, KV_XFER_READ, NULL, 0);
	xferrig_send(8, KV_XFER_WRITE, NULL, 0);
	xferrig_run(1000);
	for (uint64_t id = 5; id <= 8; id++)
		xferrig_expect(id, KV_OK, NULL, 0);
	p = xferrig_piece(xf.handle + 1, 0, 0);
	xferrig_send(9, KV_XFER_WRITE, &p, 1);
	xferrig_run(1000);
	xferrig_expect(9, KV_EINVALID, NULL, 0);
}

static void
regions_are_told_over_tcp_without_the_token(void **state)
{
	struct kv_region_rec rec;
	struct wireframe *frame;
	struct kv_regions_r *r;

	(void)state;
	assert_int_equal(xferrig_hello(KV_ROLE_ENGINE, NULL, NULL), 0);
	wirepeer_send(&xf.peer, KV_MSG_REGIONS, 5, NULL, NULL, 0);
	xferrig_run(100);
	frame = wirepeer_take(&xf.peer, KV_MSG_REGIONS_R);
	assert_non_null(frame);
	r = (struct kv_regions_r *)frame->body;
	assert_int_equal(kv_get32(r->count), 1);
	assert_int_equal(kv_get64(r->token_addr), 0);
	assert_int_equal(kv_get64(r->token[0]) | kv_get64(r->token[1]), 0);
	assert_int_equal(frame->tail_len, sizeof(rec));
	memcpy(&rec, frame->tail, sizeof(rec));
	assert_int_equal(kv_get64(rec.addr), (uintptr_t)xferrig_memory);
	assert_int_equal(kv_get64(rec.len), REGION);
	wireframe_free(frame);
}

static void
memory_is_not_given_over_tcp(void **state)
{
	struct kv_memory m = { .handle = kv_le64(0) };
	struct wireframe *frame;

	(void)state;
	assert_int_equal(xferrig_hello(KV_ROLE_ENGINE, NULL, NULL), 0);
	wirepeer_send(&xf.peer, KV_MSG_MEMORY, 5, &m, NULL, 0);
	xferrig_run(100);
	frame = wirepeer_take(&xf.peer, KV_MSG_MEMORY_R);
	assert_non_null(frame);
	assert_int_equal(((struct kv_memory_r *)frame->body)->status,
			 KV_EDENIED);
	assert_int_equal(frame->fd, -1);
	wireframe_free(frame);
}

/* The simulator has no descriptors of processes, so nobody may be trusted. */
static void
a_local_peer_must_be_known_to_the_kernel(void **state)
{
	char text[KV_HELLO_TEXT_BYTES];

	(void)state;
	assert_int_equal(xferrig_hello(KV_ROLE_ENGINE, NULL, text), KV_EDENIED);
	assert_non_null(strstr(text, "descriptor of the other process"));
}

static void
notes_and_pings_are_answered(void **state)
{
	struct kv_note note = { .name_len = kv_le16(2),
				.text_len = kv_le32(3) };
	struct kv_ping ping = { .stamp = kv_le64(77) };
	struct kv_note_in in;
	struct wireframe *frame;

	(void)state;
	assert_int_equal(xferrig_hello(KV_ROLE_ENGINE, NULL, NULL), 0);
	wirepeer_send(&xf.peer, KV_MSG_NOTE, 5, &note, "abcde", 5);
	wirepeer_send(&xf.peer, KV_MSG_PING, 6, &ping, NULL, 0);
	xferrig_run(100);
	frame = wirepeer_take(&xf.peer, KV_MSG_NOTE_R);
	assert_int_equal(((struct kv_note_r *)frame->body)->status, 0);
	wireframe_free(frame);
	frame = wirepeer_take(&xf.peer, KV_MSG_PING_R);
	assert_memory_equal(frame->body, &ping, sizeof(ping));
	wireframe_free(frame);
	assert_int_equal(kv_note_pop(&xf.notes, &in, 1), 1);
	assert_string_equal(in.name, "ab");
	assert_string_equal(in.text, "cde");
	free(in.text);
	note.text_len = kv_le32(4);
	wirepeer_send(&xf.peer, KV_MSG_NOTE, 7, &note, "abcde", 5);
	xferrig_expect_closed();
}

static void
a_note_name_has_a_bound(void **state)
{
	struct kv_note note = { .name_len = kv_le16(256) };
	char name[256];

	(void)state;
	memset(name, 'x', sizeof(name));
	assert_int_equal(xferrig_hello(KV_ROLE_ENGINE, NULL, NULL), 0);
	wirepeer_send(&xf.peer, KV_MSG_NOTE, 5, &note, name, 256);
	xferrig_expect_closed();
}

static void
cutting_ends_what_touches_a_region(void **state)
{
	struct kv_xfer_piece p = xferrig_piece(xf.handle, 0, REGION);
	char other[10];

	(void)state;
	assert_int_equal(kv_region_add(&xf.regions, other, 10, NULL), 0);
	assert_int_equal(xferrig_hello(KV_ROLE_ENGINE, NULL, NULL), 0);
	simnet_cut(xf.pair.sn, "b", "a");
	xferrig_send(5, KV_XFER_READ, &p, 1);
	xferrig_send(6, KV_XFER_READ, &p, 1);
	xferrig_send(7, KV_XFER_READ, &p, 1);
	xferrig_run(1000);
	assert_true(xf.regions.by_addr[0]->users +
			    xf.regions.by_addr[1]->users >
		    0);
	for (int i = 0; i < 2; i++)
		if (xf.regions.by_addr[i]->len == 10)
			kv_serve_cut(xf.serve, xf.regions.by_addr[i]);
	xferrig_run(100);
	assert_int_equal(simnet_streams(xf.pair.sn), 2);
	for (int i = 0; i < 2; i++)
		if (xf.regions.by_addr[i]->len == REGION)
			kv_serve_cut(xf.serve, xf.regions.by_addr[i]);
	assert_int_equal(
		xf.regions.by_addr[0]->users + xf.regions.by_addr[1]->users, 0);
	simnet_heal(xf.pair.sn, "b", "a");
	xferrig_run(1000);
	assert_true(xf.peer.is_lost);
}

static void
cutting_ends_a_write_half_way(void **state)
{
	struct kv_xfer_piece p = xferrig_piece(xf.handle, 0, REGION);
	size_t landed;

	(void)state;
	xferrig_fill();
	assert_int_equal(xferrig_hello(KV_ROLE_ENGINE, NULL, NULL), 0);
	/* Slow enough to be cut in the middle. */
	simnet_delay(xf.pair.sn, "a", "b", KV_NS_PER_MS);
	xferrig_write(5, &p, 1, REGION);
	for (int i = 0; i < 1000 && !xf.regions.by_addr[0]->users; i++)
		simpair_run(&xf.pair, KV_NS_PER_MS / 20);
	assert_int_equal(xf.regions.by_addr[0]->users, 1);
	kv_serve_cut(xf.serve, xf.regions.by_addr[0]);
	assert_int_equal(xf.regions.by_addr[0]->users, 0);
	for (landed = 0; landed < REGION &&
			 xferrig_memory[landed] == xferrig_bytes[landed];)
		landed++;
	assert_true(landed < REGION);
	memset(xferrig_memory, 0, sizeof(xferrig_memory));
	xferrig_run(5000);
	for (size_t i = 0; i < REGION; i++)
		assert_int_equal(xferrig_memory[i], 0);
	assert_true(xf.peer.is_lost);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		OVER_TCP(bytes_are_written_and_read),
		OVER_TCP(nothing_can_be_moved_too),
		OVER_TCP(regions_are_told_over_tcp_without_the_token),
		OVER_TCP(memory_is_not_given_over_tcp),
		OVER_UNIX(a_local_peer_must_be_known_to_the_kernel),
		OVER_TCP(notes_and_pings_are_answered),
		OVER_TCP(a_note_name_has_a_bound),
		OVER_TCP(cutting_ends_what_touches_a_region),
		OVER_TCP(cutting_ends_a_write_half_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
