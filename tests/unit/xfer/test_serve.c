/* What an engine answers to peers, good and bad, over a simulated network. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "kvpool.h"
#include "net/hello.h"
#include "simpair.h"
#include "test.h"
#include "wirepeer.h"
#include "xfer/guest.h"
#include "xfer/note.h"
#include "xfer/region.h"
#include "xfer/serve.h"

enum {
	REGION = 100000
};

static const struct kv_id boot = { .b = "engine" };
static const struct kv_id token = { .b = "token" };
static char memory[REGION], bytes[REGION];

struct fixture {
	struct simpair pair;
	struct kv_region_set regions;
	struct kv_guest_set guests;
	struct kv_note_queue notes;
	struct kv_serve *serve;
	struct wirepeer peer;
	uint64_t handle; /* of memory */
};
static struct fixture f;

static void
run_ms(unsigned ms)
{
	simpair_run(&f.pair, ms * KV_NS_PER_MS);
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
		.regions = &f.regions,
		.guests = &f.guests,
		.notes = &f.notes,
		.boot = boot,
		.token = &token,
	};
	struct kv_region_rec rec;
	struct kv_peer peer;

	memset(&f, 0, sizeof(f));
	memset(memory, 0, sizeof(memory));
	simpair_open(&f.pair, &opts, is_unix);
	kv_region_init(&f.regions);
	kv_guest_init(&f.guests);
	kv_note_init(&f.notes);
	assert_int_equal(kv_region_add(&f.regions, memory, REGION, NULL), 0);
	kv_region_list(&f.regions, &rec, 1);
	f.handle = kv_get64(rec.handle);
	so.loop = f.pair.loop;
	f.serve = kv_serve_new(&so);
	assert_non_null(f.serve);
	f.pair.net[1]->peer(f.pair.net[1], f.pair.stream[1], &peer);
	kv_serve_accept(f.serve, f.pair.stream[1], &peer);
	wirepeer_open(&f.peer, f.pair.loop, f.pair.stream[0]);
	return 0;
}

static void
quiet(void *arg, enum kv_log_level level, const char *msg)
{
	(void)arg;
	(void)level;
	(void)msg;
}

static int
open_tcp(void **state)
{
	(void)state;
	kv_log_set_sink(quiet, NULL);
	return open_fixture(false);
}

static int
open_unix(void **state)
{
	(void)state;
	kv_log_set_sink(quiet, NULL);
	return open_fixture(true);
}

static int
close_fixture(void **state)
{
	(void)state;
	wirepeer_close(&f.peer);
	kv_serve_free(f.serve);
	simpair_close(&f.pair);
	assert_int_equal(f.regions.by_addr[0]->users, 0);
	kv_note_fini(&f.notes);
	kv_guest_fini(&f.guests);
	kv_region_fini(&f.regions);
	kv_log_set_sink(NULL, NULL);
	return 0;
}

/* ---- what a peer does ---- */

static int
hello(enum kv_role role, const struct kv_id *want, char *text)
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
	wirepeer_send(&f.peer, KV_MSG_HELLO, 1, &h, NULL, 0);
	run_ms(100);
	frame = wirepeer_take(&f.peer, KV_MSG_HELLO_R);
	assert_non_null(frame);
	memcpy(&r, frame->body, sizeof(r));
	if (text)
		snprintf(text, KV_HELLO_TEXT_BYTES, "%.*s",
			 (int)frame->tail_len, (char *)frame->tail);
	assert_true(kv_id_is_equal(r.boot, boot));
	wireframe_free(frame);
	return r.status;
}

static struct kv_xfer_piece
piece(uint64_t handle, uint64_t off, uint64_t len)
{
	return (struct kv_xfer_piece){
		.handle = kv_le64(handle),
		.off = kv_le64(off),
		.len = kv_le64(len),
	};
}

static void
send_xfer(uint64_t id, enum kv_xfer_op op, const struct kv_xfer_piece *pieces,
	  unsigned count)
{
	struct kv_xfer x = {
		.op = (uint8_t)op,
		.count = kv_le32(count),
	};

	wirepeer_send(&f.peer, KV_MSG_XFER, id, &x, pieces,
		      count * sizeof(*pieces));
}

static void
send_write(uint64_t id, const struct kv_xfer_piece *pieces, unsigned count,
	   size_t len)
{
	struct iovec iov = { bytes, len };
	struct kv_xfer *x;
	void *tail;

	x = kv_conn_begin_tail(f.peer.c, KV_MSG_XFER, id, 0,
			       count * sizeof(*pieces), &tail);
	assert_non_null(x);
	x->op = KV_XFER_WRITE;
	x->count = kv_le32(count);
	memcpy(tail, pieces, count * sizeof(*pieces));
	kv_conn_end_payload(f.peer.c, &iov, 1, NULL);
}

static void
expect_xfer(uint64_t id, int status, const void *payload, size_t len)
{
	struct wireframe *frame = wirepeer_take(&f.peer, KV_MSG_XFER_R);

	assert_non_null(frame);
	assert_int_equal(frame->id, id);
	assert_int_equal(((struct kv_xfer_r *)frame->body)->status, status);
	assert_int_equal(frame->payload_len, len);
	if (len)
		assert_memory_equal(frame->payload, payload, len);
	wireframe_free(frame);
}

static void
expect_closed(void)
{
	run_ms(1000);
	assert_true(f.peer.is_lost);
	assert_null(wirepeer_take(&f.peer, KV_MSG_XFER_R));
}

static void
fill(void)
{
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)(i * 31 + i / 251);
}

/* ---- tests ---- */

static void
who_is_no_engine_is_refused(void **state)
{
	static const enum kv_role roles[] = { KV_ROLE_REQUESTER, KV_ROLE_DATA,
					      KV_ROLE_NODE, KV_ROLE_PROBE };
	char text[KV_HELLO_TEXT_BYTES];

	(void)state;
	assert_int_equal(hello(roles[0], NULL, text), KV_EINVALID);
	assert_non_null(strstr(text, "engine"));
	/* What it says now is not heard, and it is closed in time. */
	send_xfer(2, KV_XFER_READ, NULL, 0);
	run_ms(5000);
	assert_false(f.peer.is_lost);
	assert_int_equal(wirepeer_count(&f.peer, KV_MSG_XFER_R), 0);
	run_ms(6000);
	assert_true(f.peer.is_lost);
	for (int i = 1; i < 4; i++) {
		close_fixture(NULL);
		open_tcp(NULL);
		assert_int_equal(hello(roles[i], NULL, NULL), KV_EINVALID);
	}
}

static void
another_process_is_meant(void **state)
{
	const struct kv_id other = { .b = "other" };

	(void)state;
	assert_int_equal(hello(KV_ROLE_ENGINE, &other, NULL), KV_EGONE);
}

static void
silence_is_closed(void **state)
{
	(void)state;
	run_ms(9000);
	assert_false(f.peer.is_lost);
	run_ms(2000);
	assert_true(f.peer.is_lost);
}

static void
hello_comes_first(void **state)
{
	(void)state;
	send_xfer(2, KV_XFER_READ, NULL, 0);
	run_ms(100);
	assert_int_equal(wirepeer_count(&f.peer, KV_MSG_XFER_R), 0);
	run_ms(11000);
	assert_true(f.peer.is_lost);
}

static void
a_payload_before_hello_is_not_taken(void **state)
{
	struct kv_xfer_piece p = piece(f.handle, 0, REGION);

	(void)state;
	fill();
	send_write(2, &p, 1, REGION);
	expect_closed();
	assert_int_equal(memory[1], 0);
}

static void
bytes_are_written_and_read(void **state)
{
	struct kv_xfer_piece p[3] = {
		piece(f.handle, 50000, 30000),
		piece(f.handle, 0, 0),
		piece(f.handle, 0, 50000),
	};

	(void)state;
	fill();
	assert_int_equal(hello(KV_ROLE_ENGINE, &boot, NULL), 0);
	send_write(5, p, 3, 80000);
	run_ms(2000);
	expect_xfer(5, KV_OK, NULL, 0);
	assert_memory_equal(memory + 50000, bytes, 30000);
	assert_memory_equal(memory, bytes + 30000, 50000);
	assert_int_equal(memory[80000], 0);
	send_xfer(6, KV_XFER_READ, p, 3);
	run_ms(2000);
	expect_xfer(6, KV_OK, bytes, 80000);
}

static void
nothing_can_be_moved_too(void **state)
{
	struct kv_xfer_piece p = piece(f.handle, REGION, 0);

	(void)state;
	assert_int_equal(hello(KV_ROLE_ENGINE, NULL, NULL), 0);
	send_xfer(5, KV_XFER_WRITE, &p, 1);
	send_xfer(6, KV_XFER_READ, &p, 1);
	send_xfer(7, KV_XFER_READ, NULL, 0);
	send_xfer(8, KV_XFER_WRITE, NULL, 0);
	run_ms(1000);
	for (uint64_t id = 5; id <= 8; id++)
		expect_xfer(id, KV_OK, NULL, 0);
	p = piece(f.handle + 1, 0, 0);
	send_xfer(9, KV_XFER_WRITE, &p, 1);
	run_ms(1000);
	expect_xfer(9, KV_EINVALID, NULL, 0);
}

/* The payload is dropped, the connection goes on. */
static void
what_is_unknown_is_drained(void **state)
{
	struct kv_xfer_piece bad[] = {
		piece(f.handle + 1, 0, 100),
		piece(0, 0, 100),
		piece(f.handle, REGION - 99, 100),
		piece(f.handle, UINT64_MAX - 49, 100),
	};
	struct kv_xfer_piece p[2] = { piece(f.handle, 10, 100) };

	(void)state;
	fill();
	assert_int_equal(hello(KV_ROLE_ENGINE, NULL, NULL), 0);
	for (unsigned i = 0; i < 4; i++) {
		p[1] = bad[i];
		send_write(10 + i, p, 2, 200);
		send_xfer(20 + i, KV_XFER_READ, p, 2);
		run_ms(1000);
		expect_xfer(10 + i, KV_EINVALID, NULL, 0);
		expect_xfer(20 + i, KV_EINVALID, NULL, 0);
	}
	assert_int_equal(memory[11], 0);
	send_write(30, p, 1, 100);
	run_ms(1000);
	expect_xfer(30, KV_OK, NULL, 0);
	assert_memory_equal(memory + 10, bytes, 100);
}

static void
lengths_that_lie_are_closed(void **state)
{
	struct kv_xfer_piece p[2] = { piece(f.handle, 0, 1000),
				      piece(f.handle, 0, UINT64_MAX) };

	(void)state;
	for (int i = 0; i < 5; i++) {
		close_fixture(NULL);
		open_tcp(NULL);
		p[0].handle = p[1].handle = kv_le64(f.handle);
		assert_int_equal(hello(KV_ROLE_ENGINE, NULL, NULL), 0);
		if (i < 2)
			send_write(5, p, 1, i ? 1001 : 999);
		else if (i == 2)
			send_xfer(5, KV_XFER_WRITE, p, 1); /* no payload */
		else if (i == 3)
			send_xfer(5, KV_XFER_READ, p, 2);
		else
			send_xfer(5, (enum kv_xfer_op)3, p, 1);
		expect_closed();
	}
}

static void
counts_that_lie_are_closed(void **state)
{
	static struct kv_xfer_piece many[KV_XFER_PIECES_MAX + 1];
	struct kv_xfer x = { .op = KV_XFER_READ, .count = kv_le32(2) };

	(void)state;
	for (unsigned i = 0; i <= KV_XFER_PIECES_MAX; i++)
		many[i] = piece(f.handle, i, 1);
	fill();
	memcpy(memory, bytes, REGION);
	assert_int_equal(hello(KV_ROLE_ENGINE, NULL, NULL), 0);
	send_xfer(5, KV_XFER_READ, many, KV_XFER_PIECES_MAX);
	run_ms(1000);
	expect_xfer(5, KV_OK, bytes, KV_XFER_PIECES_MAX);
	send_xfer(6, KV_XFER_READ, many, KV_XFER_PIECES_MAX + 1);
	expect_closed();
	close_fixture(NULL);
	open_tcp(NULL);
	assert_int_equal(hello(KV_ROLE_ENGINE, NULL, NULL), 0);
	wirepeer_send(&f.peer, KV_MSG_XFER, 5, &x, many, sizeof(many[0]));
	expect_closed();
	close_fixture(NULL);
	open_tcp(NULL);
	assert_int_equal(hello(KV_ROLE_ENGINE, NULL, NULL), 0);
	x.count = kv_le32(0);
	wirepeer_send(&f.peer, KV_MSG_XFER, 5, &x, many, sizeof(many[0]));
	expect_closed();
}

/* A read may not ask for more than a payload holds; memory need not be. */
static void
an_answer_has_a_bound(void **state)
{
	size_t len = (size_t)KV_PAYLOAD_MAX + 1;
	void *room = mmap(NULL, len, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct kv_xfer_piece p;

	(void)state;
	assert_ptr_not_equal(room, MAP_FAILED);
	assert_int_equal(kv_region_add(&f.regions, room, len, NULL), 0);
	p = piece(f.regions.last_handle, 0, len);
	assert_int_equal(hello(KV_ROLE_ENGINE, NULL, NULL), 0);
	send_xfer(5, KV_XFER_READ, &p, 1);
	expect_closed();
	munmap(room, len);
}

static void
a_message_that_is_no_request_is_closed(void **state)
{
	static const enum kv_msg_type types[] = { KV_MSG_NODES, KV_MSG_HELLO,
						  KV_MSG_PING_R };

	(void)state;
	for (int i = 0; i < 3; i++) {
		close_fixture(NULL);
		open_tcp(NULL);
		assert_int_equal(hello(KV_ROLE_ENGINE, NULL, NULL), 0);
		wirepeer_send(&f.peer, types[i], 5, NULL, NULL, 0);
		expect_closed();
	}
}

static void
more_reads_than_are_served_at_once(void **state)
{
	enum {
		READS = 5 * KV_ENGINE_READS_MAX
	};
	struct kv_xfer_piece p = piece(f.handle, 0, REGION);

	(void)state;
	fill();
	memcpy(memory, bytes, REGION);
	assert_int_equal(hello(KV_ROLE_ENGINE, NULL, NULL), 0);
	for (unsigned i = 0; i < READS; i++)
		send_xfer(100 + i, KV_XFER_READ, &p, 1);
	run_ms(60000);
	for (unsigned i = 0; i < READS; i++)
		expect_xfer(100 + i, KV_OK, bytes, REGION);
}

/* Nobody reads what was asked for: the rest is not even begun. */
static void
a_peer_that_reads_nothing_holds_little(void **state)
{
	struct kv_xfer_piece p = piece(f.handle, 0, REGION);

	(void)state;
	assert_int_equal(hello(KV_ROLE_ENGINE, NULL, NULL), 0);
	kv_conn_pause(f.peer.c, true);
	for (unsigned i = 0; i < 1000; i++)
		send_xfer(100 + i, KV_XFER_READ, &p, 1);
	run_ms(5000);
	assert_int_equal(f.regions.by_addr[0]->users, KV_ENGINE_READS_MAX);
}

static void
regions_are_told_over_tcp_without_the_token(void **state)
{
	struct kv_region_rec rec;
	struct wireframe *frame;
	struct kv_regions_r *r;

	(void)state;
	assert_int_equal(hello(KV_ROLE_ENGINE, NULL, NULL), 0);
	wirepeer_send(&f.peer, KV_MSG_REGIONS, 5, NULL, NULL, 0);
	run_ms(100);
	frame = wirepeer_take(&f.peer, KV_MSG_REGIONS_R);
	assert_non_null(frame);
	r = (struct kv_regions_r *)frame->body;
	assert_int_equal(kv_get32(r->count), 1);
	assert_int_equal(kv_get64(r->token_addr), 0);
	assert_int_equal(kv_get64(r->token[0]) | kv_get64(r->token[1]), 0);
	assert_int_equal(frame->tail_len, sizeof(rec));
	memcpy(&rec, frame->tail, sizeof(rec));
	assert_int_equal(kv_get64(rec.addr), (uintptr_t)memory);
	assert_int_equal(kv_get64(rec.len), REGION);
	wireframe_free(frame);
}

static void
memory_is_not_given_over_tcp(void **state)
{
	struct kv_memory m = { .handle = kv_le64(0) };
	struct wireframe *frame;

	(void)state;
	assert_int_equal(hello(KV_ROLE_ENGINE, NULL, NULL), 0);
	wirepeer_send(&f.peer, KV_MSG_MEMORY, 5, &m, NULL, 0);
	run_ms(100);
	frame = wirepeer_take(&f.peer, KV_MSG_MEMORY_R);
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
	assert_int_equal(hello(KV_ROLE_ENGINE, NULL, text), KV_EDENIED);
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
	assert_int_equal(hello(KV_ROLE_ENGINE, NULL, NULL), 0);
	wirepeer_send(&f.peer, KV_MSG_NOTE, 5, &note, "abcde", 5);
	wirepeer_send(&f.peer, KV_MSG_PING, 6, &ping, NULL, 0);
	run_ms(100);
	frame = wirepeer_take(&f.peer, KV_MSG_NOTE_R);
	assert_int_equal(((struct kv_note_r *)frame->body)->status, 0);
	wireframe_free(frame);
	frame = wirepeer_take(&f.peer, KV_MSG_PING_R);
	assert_memory_equal(frame->body, &ping, sizeof(ping));
	wireframe_free(frame);
	assert_int_equal(kv_note_pop(&f.notes, &in, 1), 1);
	assert_string_equal(in.name, "ab");
	assert_string_equal(in.text, "cde");
	free(in.text);
	note.text_len = kv_le32(4);
	wirepeer_send(&f.peer, KV_MSG_NOTE, 7, &note, "abcde", 5);
	expect_closed();
}

static void
a_note_name_has_a_bound(void **state)
{
	struct kv_note note = { .name_len = kv_le16(256) };
	char name[256];

	(void)state;
	memset(name, 'x', sizeof(name));
	assert_int_equal(hello(KV_ROLE_ENGINE, NULL, NULL), 0);
	wirepeer_send(&f.peer, KV_MSG_NOTE, 5, &note, name, 256);
	expect_closed();
}

static void
cutting_ends_what_touches_a_region(void **state)
{
	struct kv_xfer_piece p = piece(f.handle, 0, REGION);
	char other[10];

	(void)state;
	assert_int_equal(kv_region_add(&f.regions, other, 10, NULL), 0);
	assert_int_equal(hello(KV_ROLE_ENGINE, NULL, NULL), 0);
	simnet_cut(f.pair.sn, "b", "a");
	send_xfer(5, KV_XFER_READ, &p, 1);
	send_xfer(6, KV_XFER_READ, &p, 1);
	send_xfer(7, KV_XFER_READ, &p, 1);
	run_ms(1000);
	assert_true(f.regions.by_addr[0]->users + f.regions.by_addr[1]->users >
		    0);
	for (int i = 0; i < 2; i++)
		if (f.regions.by_addr[i]->len == 10)
			kv_serve_cut(f.serve, f.regions.by_addr[i]);
	run_ms(100);
	assert_int_equal(simnet_streams(f.pair.sn), 2);
	for (int i = 0; i < 2; i++)
		if (f.regions.by_addr[i]->len == REGION)
			kv_serve_cut(f.serve, f.regions.by_addr[i]);
	assert_int_equal(
		f.regions.by_addr[0]->users + f.regions.by_addr[1]->users, 0);
	simnet_heal(f.pair.sn, "b", "a");
	run_ms(1000);
	assert_true(f.peer.is_lost);
}

static void
cutting_ends_a_write_half_way(void **state)
{
	struct kv_xfer_piece p = piece(f.handle, 0, REGION);
	size_t landed;

	(void)state;
	fill();
	assert_int_equal(hello(KV_ROLE_ENGINE, NULL, NULL), 0);
	/* Slow enough to be cut in the middle. */
	simnet_delay(f.pair.sn, "a", "b", KV_NS_PER_MS);
	send_write(5, &p, 1, REGION);
	for (int i = 0; i < 1000 && !f.regions.by_addr[0]->users; i++)
		simpair_run(&f.pair, KV_NS_PER_MS / 20);
	assert_int_equal(f.regions.by_addr[0]->users, 1);
	kv_serve_cut(f.serve, f.regions.by_addr[0]);
	assert_int_equal(f.regions.by_addr[0]->users, 0);
	for (landed = 0; landed < REGION && memory[landed] == bytes[landed];)
		landed++;
	assert_true(landed < REGION);
	memset(memory, 0, sizeof(memory));
	run_ms(5000);
	for (size_t i = 0; i < REGION; i++)
		assert_int_equal(memory[i], 0);
	assert_true(f.peer.is_lost);
}

#define OVER_TCP(fn) \
	cmocka_unit_test_setup_teardown(fn, open_tcp, close_fixture)
#define OVER_UNIX(fn) \
	cmocka_unit_test_setup_teardown(fn, open_unix, close_fixture)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		OVER_TCP(who_is_no_engine_is_refused),
		OVER_TCP(another_process_is_meant),
		OVER_TCP(silence_is_closed),
		OVER_TCP(hello_comes_first),
		OVER_TCP(a_payload_before_hello_is_not_taken),
		OVER_TCP(bytes_are_written_and_read),
		OVER_TCP(nothing_can_be_moved_too),
		OVER_TCP(what_is_unknown_is_drained),
		OVER_TCP(lengths_that_lie_are_closed),
		OVER_TCP(counts_that_lie_are_closed),
		OVER_TCP(an_answer_has_a_bound),
		OVER_TCP(a_message_that_is_no_request_is_closed),
		OVER_TCP(more_reads_than_are_served_at_once),
		OVER_TCP(a_peer_that_reads_nothing_holds_little),
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
