/* What a master asks of nodes: pages of keys, one key; how many questions at
 * once, and for whom. */

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "masterrig.h"
#include "svc/mastercore.h"
#include "svc/relay.h"

#include "test.h"

static struct rignode a, b, c;
static struct rigpeer req;

static int
setup_three(void **state)
{
	rig_setup(state);
	/* Not in the order of their boot ids. */
	rig_up(&b, "10.0.0.3", 52, 2);
	rig_up(&a, "10.0.0.2", 52, 1);
	rig_up(&c, "10.0.0.4", 52, 3);
	rig_requester(&req, "10.0.0.9");
	return 0;
}

/* ---- KEYS ---- */

static uint64_t
keys_send(uint8_t boot, uint64_t cursor)
{
	struct kv_keys k = { .node = { { boot } },
			     .cursor = kv_le64(cursor),
			     .limit = kv_le32(100),
			     .pattern_len = kv_le16(2) };

	return rig_send(&req, KV_MSG_KEYS, &k, "^x", 2);
}

static void
keys_serve(struct rignode *n, uint64_t want, uint64_t cursor)
{
	struct wireframe *f = rig_wait(&n->p, KV_MSG_KEYS);
	struct kv_keys_ent e = { .size = kv_le64(9), .key_len = kv_le16(2) };
	struct kv_keys_r r = { .cursor = kv_le64(cursor),
			       .count = kv_le32(1),
			       .undecided = kv_le64(7) };
	char tail[sizeof(e) + 2];

	assert_int_equal(kv_get64(((struct kv_keys *)f->body)->cursor), want);
	assert_memory_equal(f->tail, "^x", 2);
	memcpy(tail, &e, sizeof(e));
	memcpy(tail + sizeof(e), "xy", 2);
	wirepeer_send(&n->p.w, KV_MSG_KEYS_R, f->id, &r, tail, sizeof(tail));
	wireframe_free(f);
}

static void
keys_are(uint64_t id, int status, uint8_t node, uint8_t next, uint64_t cursor)
{
	struct wireframe *f = rig_wait(&req, KV_MSG_KEYS_R);
	struct kv_keys_r *r = (void *)f->body;

	assert_int_equal(f->id, id);
	assert_int_equal(r->status, status);
	assert_int_equal(r->node.b[0], node);
	assert_int_equal(r->next.b[0], next);
	assert_int_equal(kv_get64(r->cursor), cursor);
	assert_int_equal(kv_get32(r->count), status == 0 && node != 0);
	assert_int_equal(kv_get64(r->undecided), 7 * kv_get32(r->count));
	if (status == 0 && node != 0)
		assert_memory_equal(f->tail + f->tail_len - 2, "xy", 2);
	wireframe_free(f);
}

static void
pages_in_the_order_of_boot_ids(void **state)
{
	uint64_t id;

	(void)state;
	id = keys_send(0, 0);
	keys_serve(&a, 0, 77);
	keys_are(id, 0, 1, 1, 77);
	id = keys_send(1, 77);
	keys_serve(&a, 77, 0);
	keys_are(id, 0, 1, 2, 0);
	id = keys_send(2, 0);
	keys_serve(&b, 0, 0);
	keys_are(id, 0, 2, 3, 0);
	id = keys_send(3, 0);
	keys_serve(&c, 0, 0);
	keys_are(id, 0, 3, 0, 0);
}

static void
a_node_that_vanished_between_pages(void **state)
{
	(void)state;
	rig_kill(&b);
	rig_ms(5);
	keys_are(keys_send(2, 77), KV_EGONE, 2, 3, 0);
	rig_kill(&c);
	rig_ms(5);
	keys_are(keys_send(3, 77), KV_EGONE, 3, 0, 0);
}

static void
a_node_that_vanished_during_a_page(void **state)
{
	uint64_t id;

	(void)state;
	id = keys_send(2, 0);
	rig_ms(5);
	rig_kill(&b);
	keys_are(id, KV_EUNREACHABLE, 2, 3, 0);
}

static void
a_node_that_gives_no_page(void **state)
{
	uint64_t id;

	(void)state;
	id = keys_send(2, 0);
	rig_ms(2100);
	keys_are(id, KV_EUNREACHABLE, 2, 3, 0);
}

static void
no_node_has_no_keys(void **state)
{
	(void)state;
	rig_requester(&req, "10.0.0.9");
	keys_are(keys_send(0, 0), 0, 0, 0, 0);
}

/* ---- QUERY ---- */

static uint64_t
query_send(char k)
{
	struct kv_query q = { .key_len = kv_le16(1) };

	return rig_send(&req, KV_MSG_QUERY, &q, &k, 1);
}

static void
query_serve(struct rignode *n, unsigned count)
{
	struct wireframe *f = rig_wait(&n->p, KV_MSG_QUERY);
	struct kv_query_rec rec[2] = { { .boot = n->p.boot,
					 .size = kv_le64(1234) } };
	struct kv_query_r r = { .count = kv_le32(count) };

	rec[1] = rec[0];
	wirepeer_send(&n->p.w, KV_MSG_QUERY_R, f->id, &r, rec,
		      count * sizeof(rec[0]));
	wireframe_free(f);
}

static void
all_owners_tell_of_a_key(void **state)
{
	const struct kv_query_rec *rec;
	struct kv_query_r *r;
	struct wireframe *f;
	uint64_t id;

	(void)state;
	rig_letter_put(&a, 'x', 1);
	rig_letter_put(&c, 'x', 1);
	id = query_send('x');
	query_serve(&a, 1);
	query_serve(&c, 1);
	f = rig_wait(&req, KV_MSG_QUERY_R);
	r = (void *)f->body;
	assert_int_equal(f->id, id);
	assert_int_equal(kv_get32(r->count), 2);
	assert_int_equal(kv_get32(r->away), 0);
	rec = (void *)f->tail;
	assert_int_equal(rec->boot.b[0], 1);
	assert_int_equal(kv_get64(rec->size), 1234);
	assert_int_equal(rec->addr_len, 11);
	assert_memory_equal(rec + 1, "10.0.0.2:52n01", 14);
	rec = (void *)(f->tail + sizeof(*rec) + 14);
	assert_memory_equal(rec + 1, "10.0.0.4:52n03", 14);
	wireframe_free(f);
}

static void
owners_that_do_not_tell_are_away(void **state)
{
	struct kv_query_r *r;
	struct wireframe *f;

	(void)state;
	rig_letter_put(&a, 'x', 1);
	rig_letter_put(&c, 'x', 1);
	query_send('x');
	query_serve(&a, 1);
	f = rig_wait(&req, KV_MSG_QUERY_R);
	r = (void *)f->body;
	assert_int_equal(kv_get32(r->count), 1);
	assert_int_equal(kv_get32(r->away), 1);
	wireframe_free(f);
}

static void
an_unknown_key_is_asked_of_nobody(void **state)
{
	struct wireframe *f;

	(void)state;
	query_send('x');
	f = rig_wait(&req, KV_MSG_QUERY_R);
	assert_int_equal(kv_get32(((struct kv_query_r *)f->body)->count), 0);
	wireframe_free(f);
	assert_int_equal(wirepeer_count(&a.p.w, KV_MSG_QUERY), 0);
}

static void
a_broken_answer_is_none(void **state)
{
	struct kv_query_rec rec = { .addr_len = 200 };
	struct kv_query_r r = { .count = kv_le32(1) };
	struct wireframe *f;

	(void)state;
	rig_letter_put(&a, 'x', 1);
	query_send('x');
	f = rig_wait(&a.p, KV_MSG_QUERY);
	wirepeer_send(&a.p.w, KV_MSG_QUERY_R, f->id, &r, &rec, sizeof(rec));
	wireframe_free(f);
	f = rig_wait(&req, KV_MSG_QUERY_R);
	assert_int_equal(kv_get32(((struct kv_query_r *)f->body)->count), 0);
	assert_int_equal(kv_get32(((struct kv_query_r *)f->body)->away), 1);
	wireframe_free(f);
}

/* ---- bounds, and askers that are not connected ---- */

static void
too_many_questions_are_refused(void **state)
{
	unsigned i, busy;

	(void)state;
	for (i = 0; i <= KV_PEER_REQUESTS_MAX; i++)
		keys_send(1, 0);
	rig_ms(5);
	busy = wirepeer_count(&req.w, KV_MSG_ERROR_R);
	assert_int_equal(busy, 1);
	rig_ms(2100);
	assert_int_equal(wirepeer_count(&req.w, KV_MSG_KEYS_R),
			 KV_PEER_REQUESTS_MAX);
	assert_int_equal(rig.m->n_relays, 0);
}

static unsigned answers;
static enum kv_msg_type answer_type;
static uint64_t answer_removed;

static void
answered(void *arg, const struct kv_msg *answer)
{
	assert_ptr_equal(arg, &answers);
	answers++;
	answer_type = answer->type;
	if (answer->type == KV_MSG_REMOVE_R)
		answer_removed = kv_get64(
			((const struct kv_remove_r *)answer->body)->removed);
}

static void
questions_of_the_http_server(void **state)
{
	struct kv_remove body = { .op = KV_REMOVE_ALL };
	struct kv_msg q = { .type = KV_MSG_REMOVE, .body = &body };

	(void)state;
	answers = 0;
	assert_non_null(kv_relay_ask(rig.m, &q, answered, &answers));
	assert_int_equal(answers, 0);
	rig_serve_removal(&a, "", 1);
	rig_serve_removal(&b, "", 2);
	rig_serve_removal(&c, "", 3);
	rig_ms(5);
	assert_int_equal(answers, 1);
	assert_int_equal(answer_type, KV_MSG_REMOVE_R);
	assert_int_equal(answer_removed, 6);

	body.op = 77;
	assert_null(kv_relay_ask(rig.m, &q, answered, &answers));
	assert_int_equal(errno, EPROTO);
}

static void
a_question_that_is_forgotten(void **state)
{
	struct kv_keys body = { .limit = kv_le32(1) };
	struct kv_msg q = { .type = KV_MSG_KEYS, .body = &body };
	struct kv_relay *r;

	(void)state;
	answers = 0;
	r = kv_relay_ask(rig.m, &q, answered, &answers);
	assert_non_null(r);
	kv_relay_forget(r);
	rig_ms(2100);
	assert_int_equal(answers, 0);
	assert_int_equal(rig.m->n_relays, 0);
}

#define THREE(f) cmocka_unit_test_setup_teardown(f, setup_three, rig_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		THREE(pages_in_the_order_of_boot_ids),
		THREE(a_node_that_vanished_between_pages),
		THREE(a_node_that_vanished_during_a_page),
		THREE(a_node_that_gives_no_page),
		RIG_TEST(no_node_has_no_keys),
		THREE(all_owners_tell_of_a_key),
		THREE(owners_that_do_not_tell_are_away),
		THREE(an_unknown_key_is_asked_of_nobody),
		THREE(a_broken_answer_is_none),
		THREE(too_many_questions_are_refused),
		THREE(questions_of_the_http_server),
		THREE(a_question_that_is_forgotten),
	};

	kv_log_set_level(KV_LOG_ERR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
