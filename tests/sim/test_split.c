/* Masters that hear of different nodes, or are silent, and who can reach all.
 */
#include <stdio.h>
#include <string.h>

#include "clustercore.h"
#include "svc/ask.h"
#include "svc/getop.h"
#include "svc/putop.h"
#include "svc/survey.h"
#include "test.h"

static struct cluster *cl;
static struct sim_requester *far; /* beside no node */
static char value[100];
static char name[12] = "k";
static struct kv_buf buf = { value, sizeof(value) };
static bool is_done;

static int
setup(void **state)
{
	static const struct cluster_opts o = {
		.seed = 1,
		.masters = 2,
		.nodes = 2,
		.requesters = 2,
		.keys = 1,
		.pool_bytes = 1 << 20,
		.size_max = sizeof(value),
		.replicas_max = 1,
	};

	(void)state;
	cl = cluster_new(&o);
	far = &cl->requesters[1];
	cluster_run(cl, 3 * KV_NS_PER_S);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	cluster_settle(cl);
	cluster_free(cl);
	return 0;
}

static void
put_done(struct kv_putop *op)
{
	(void)op;
	is_done = true;
}

static void
get_done(struct kv_getop *op)
{
	(void)op;
	is_done = true;
}

static void
wait_done(void)
{
	while (!is_done)
		cluster_run(cl, KV_NS_PER_MS);
}

static int
put_from(struct sim_requester *r, const char *node)
{
	struct kv_put_item item = { .key = { name, strlen(name) },
				    .bufs = &buf,
				    .nbufs = 1 };
	struct kv_putop op = { .items = &item,
			       .n = 1,
			       .replicas = 1,
			       .prefer = node,
			       .deadline = cl->clock.ns + KV_NS_PER_S,
			       .done = put_done };

	is_done = false;
	kv_loop_refresh(cl->loop);
	assert_int_equal(kv_putop_start(r->ch, &op), 0);
	wait_done();
	return item.status;
}

static int
put_at(const char *node)
{
	return put_from(far, node);
}

static int
get_preferring(struct sim_requester *r, const char *node)
{
	struct kv_get_item item = { .key = { name, strlen(name) },
				    .bufs = &buf,
				    .nbufs = 1 };
	struct kv_getop op = { .items = &item,
			       .n = 1,
			       .prefer = node,
			       .deadline = cl->clock.ns + KV_NS_PER_S,
			       .done = get_done };

	is_done = false;
	kv_loop_refresh(cl->loop);
	kv_getop_start(r->ch, &op);
	wait_done();
	return item.status;
}

static int
get_from(struct sim_requester *r)
{
	return get_preferring(r, NULL);
}

static int
get(void)
{
	return get_from(far);
}

static void
cut(const char *a, const char *b)
{
	simnet_cut(cl->net, a, b);
	simnet_cut(cl->net, b, a);
}

static void
heal(const char *a, const char *b)
{
	simnet_heal(cl->net, a, b);
	simnet_heal(cl->net, b, a);
}

/* No node tells the first master what the other one knows. */
static void
a_master_that_failed_once_is_asked_before_a_miss(void **state)
{
	(void)state;
	assert_int_equal(put_at("n1"), 0);
	cut("m0", "n1");
	cut("m1", "n0");
	cluster_run(cl, 20 * KV_NS_PER_S);
	assert_int_equal(get(), 0);
	simnet_reset(cl->net, "m1", far->host);
	kv_hub_master_down(&far->hub, 1, cl->clock.ns, "connection lost");
	cluster_run(cl, 100 * KV_NS_PER_MS);
	assert_int_equal(get(), 0);
}

/* Both hear nothing of it for a moment, and each is still told that the other
 * one does. */
static void
a_node_that_each_master_leaves_to_the_other_is_asked(void **state)
{
	unsigned i, ms;

	(void)state;
	assert_int_equal(put_at("n1"), 0);
	for (i = 0; i < 10; i++) {
		simnet_cut(cl->net, "n1", "m0");
		simnet_cut(cl->net, "n1", "m1");
		for (ms = 0; ms < 900; ms += 10) {
			cluster_run(cl, 10 * KV_NS_PER_MS);
			assert_int_equal(get(), 0);
		}
		simnet_heal(cl->net, "n1", "m0");
		simnet_heal(cl->net, "n1", "m1");
		cluster_run(cl, 3 * KV_NS_PER_S + i * 25 * KV_NS_PER_MS);
	}
}

/* Each half has put the key, and one copy gives way as it heals: before the
 * node with the other one is back at the only master that is asked. */
static void
one_of_two_copies_is_there_all_the_time(void **state)
{
	struct sim_requester *near = &cl->requesters[0];
	unsigned i, ms;

	(void)state;
	for (i = 0; i < 300; i++) {
		cut("m0", "n0"); /* and near */
		cut("m1", "n1");
		cluster_run(cl, (2000 + i * 7) * KV_NS_PER_MS);
		snprintf(name, sizeof(name), "k%u", i);
		assert_int_equal(put_from(near, "n0"), 0);
		assert_int_equal(put_from(far, "n1"), 0);
		snprintf(name, sizeof(name), "nowhere");
		for (ms = 0; ms < 1800; ms += 300) {
			assert_int_equal(get_from(near), -KV_EMISS);
			cluster_run(cl, 300 * KV_NS_PER_MS);
		}
		snprintf(name, sizeof(name), "k%u", i);
		heal("m0", "n0");
		heal("m1", "n1");
		for (ms = 0; ms < 1000; ms += 2) {
			assert_int_equal(get_from(near), 0);
			cluster_run(cl, 2 * KV_NS_PER_MS);
		}
		cluster_run(cl, 2 * KV_NS_PER_S);
	}
}

/* ---- who only asks ---- */

static void
a_node_that_came_later_is_known_when_no_master_is(void **state)
{
	(void)state;
	cluster_node_kill(cl, 1);
	cluster_run(cl, 20 * KV_NS_PER_S);
	strcpy(name, "other");
	assert_int_equal(put_at("n0"), 0);
	cluster_node_start(cl, 1);
	cluster_run(cl, 6 * KV_NS_PER_S);
	strcpy(name, "k");
	assert_int_equal(put_from(&cl->requesters[0], "n1"), 0);
	strcpy(name, "none");
	assert_int_equal(get(), -KV_EMISS);
	cluster_run(cl, 10 * KV_NS_PER_MS);
	cluster_master_kill(cl, 0);
	cluster_master_kill(cl, 1);
	cluster_run(cl, KV_NS_PER_S);
	strcpy(name, "k");
	assert_int_equal(get(), 0);
}

/* ---- what takes longer than a second ---- */

static int status;

static int
remove_build(struct kv_ask *ask, struct kv_conn *c, void *body)
{
	struct kv_remove *b = body;
	const char *tenant = ask->ch->hub->tenant;
	void *tail = kv_conn_tail(c, strlen(tenant));

	b->op = KV_REMOVE_ALL;
	b->flags = KV_REMOVE_FORCE;
	b->tenant_len = (uint8_t)strlen(tenant);
	memcpy(tail, tenant, strlen(tenant));
	return 0;
}

static void
removed(struct kv_ask *ask, int rc, const struct kv_msg *msg)
{
	(void)ask;
	(void)msg;
	status = rc;
	is_done = true;
}

/* Which master removed, and how long that took. */
static int
remove_all(uint64_t *ms)
{
	uint64_t began = cl->clock.ns;
	struct kv_ask ask = {
		.type = KV_MSG_REMOVE,
		.deadline = began + 20 * KV_NS_PER_S,
		.try_ns = 6 * KV_NS_PER_S,
		.build = remove_build,
		.fn = removed,
	};

	is_done = false;
	kv_loop_refresh(cl->loop);
	kv_ask_start(far->ch, &ask);
	wait_done();
	assert_int_equal(status, 0);
	*ms = (cl->clock.ns - began) / KV_NS_PER_MS;
	return ask.master;
}

static void
a_master_that_works_on_it_is_waited_for(void **state)
{
	uint64_t ms;

	(void)state;
	assert_int_equal(put_at("n1"), 0);
	cut("m0", "n1");
	assert_int_equal(remove_all(&ms), 0);
	assert_true(ms > 1500);
}

static void
one_that_is_silent_is_not(void **state)
{
	uint64_t ms;

	(void)state;
	assert_int_equal(put_at("n1"), 0);
	cluster_master_freeze(cl, 0, true);
	assert_int_equal(remove_all(&ms), 1);
	assert_in_range(ms, 600, 800);
}

static void
falls_silent(struct kv_timer *t)
{
	(void)t;
	cluster_master_freeze(cl, 0, true);
}

/* It answers signs of life at first. */
static void
one_that_falls_silent_is_not(void **state)
{
	struct kv_timer t = { .fn = falls_silent };
	uint64_t ms;

	(void)state;
	assert_int_equal(put_at("n1"), 0);
	cut("m0", "n1");
	kv_loop_timer_set(cl->loop, &t, cl->clock.ns + 500 * KV_NS_PER_MS);
	assert_int_equal(remove_all(&ms), 1);
	assert_in_range(ms, 1100, 1450);
}

/* ---- what waits ends together ---- */

static void
asked(struct kv_survey *s, int rc)
{
	(void)s;
	(void)rc;
	is_done = true;
}

static uint64_t
exist_ms(struct sim_requester *r)
{
	uint64_t began = cl->clock.ns;
	struct kv_survey_key key = { .hash = kv_key_hash(r->hub.key_seed, name,
							 strlen(name)) };
	struct kv_survey s = { .keys = &key,
			       .n = 1,
			       .exist_only = true,
			       .deadline = began + 5 * KV_NS_PER_S,
			       .done = asked };

	is_done = false;
	kv_loop_refresh(cl->loop);
	kv_survey_start(r->ch, &s);
	wait_done();
	kv_survey_fini(&s);
	return (cl->clock.ns - began) / KV_NS_PER_MS;
}

/* The only one that is thought to answer does not, but the other one is there
 * again. */
static void
one_that_is_back_is_not_passed_over(void **state)
{
	(void)state;
	assert_int_equal(put_at("n1"), 0);
	cluster_master_freeze(cl, 0, true);
	assert_in_range(exist_ms(far), 290, 320);
	assert_in_range(exist_ms(far), 0, 5);
	cluster_master_freeze(cl, 0, false);
	cluster_run(cl, 3 * KV_NS_PER_S);
	cluster_master_freeze(cl, 1, true);
	assert_in_range(exist_ms(far), 290, 320);
}

static void
goes_on(struct kv_timer *t)
{
	(void)t;
	cluster_master_freeze(cl, 0, false);
}

/* It was but slow, the other one is not there. */
static void
one_that_failed_just_now_is_asked_again(void **state)
{
	struct kv_timer t = { .fn = goes_on };

	(void)state;
	assert_int_equal(put_at("n1"), 0);
	cluster_master_freeze(cl, 0, true);
	cluster_master_freeze(cl, 1, true);
	kv_loop_timer_set(cl->loop, &t, cl->clock.ns + 400 * KV_NS_PER_MS);
	assert_in_range(exist_ms(far), 590, 680);
}

/* ---- more keys than a frame has ---- */

enum {
	MANY = 40000,
	HELD_EACH = 999
};

static struct kv_survey_key many[MANY];
static struct kv_key many_names[MANY];
static int many_rc;

static void
many_asked(struct kv_survey *s, int rc)
{
	(void)s;
	many_rc = rc;
	is_done = true;
}

/* Every so many-th key is the one that is there. */
static void
many_start(struct kv_survey *s)
{
	static char text[MANY][12];
	size_t i;

	assert_int_equal(put_at("n1"), 0);
	for (i = 0; i < MANY; i++) {
		snprintf(text[i], sizeof(text[i]), "%zu", i);
		many_names[i] = (struct kv_key){ text[i], strlen(text[i]) };
		if (i % HELD_EACH == 0)
			many_names[i] = (struct kv_key){ name, strlen(name) };
	}
	memset(many, 0, sizeof(many));
	*s = (struct kv_survey){ .keys = many,
				 .n = MANY,
				 .names = many_names,
				 .exist_only = true,
				 .deadline = cl->clock.ns + 5 * KV_NS_PER_S,
				 .done = many_asked };
	is_done = false;
	kv_loop_refresh(cl->loop);
	kv_survey_start(far->ch, s);
}

/* Until some were answered, and not all. */
static void
many_begin(struct kv_survey *s)
{
	many_start(s);
	while (s->told == 0)
		cluster_run(cl, KV_NS_PER_MS / 100);
	assert_in_range(s->told, 1, MANY - 1);
	assert_false(is_done);
}

static void
many_end(struct kv_survey *s)
{
	size_t i;

	wait_done();
	assert_int_equal(many_rc, 0);
	for (i = 0; i < MANY; i++)
		assert_int_equal(many[i].exists, i % HELD_EACH == 0);
	kv_survey_fini(s);
}

/* A few at a time. */
static void
frames_are_under_way_at_once(void **state)
{
	struct kv_survey s;
	size_t first;

	(void)state;
	many_start(&s);
	first = s.frames[0].n;
	assert_true(first > 0 && first * KV_SURVEY_FRAMES < MANY);
	assert_int_equal(s.pos, first * KV_SURVEY_FRAMES);
	assert_int_equal(s.hashed, s.pos);
	many_end(&s);
	assert_int_equal(s.doubt, 0);
}

static void
those_of_a_master_that_falls_silent_go_to_another(void **state)
{
	struct kv_survey s;
	uint64_t began;

	(void)state;
	many_begin(&s);
	began = cl->clock.ns;
	cluster_master_freeze(cl, 0, true);
	many_end(&s);
	assert_int_equal(s.doubt, 0);
	assert_in_range((cl->clock.ns - began) / KV_NS_PER_MS, 250, 330);
}

static void
those_of_no_master_go_to_the_nodes(void **state)
{
	struct kv_survey s;

	(void)state;
	many_begin(&s);
	cluster_master_freeze(cl, 0, true);
	cluster_master_freeze(cl, 1, true);
	many_end(&s);
	assert_int_equal(s.hashed, MANY);
	assert_int_equal(s.doubt, -KV_EUNREACHABLE);
}

static unsigned n_over;

static void
put_over(struct kv_putop *op)
{
	(void)op;
	n_over++;
}

static void
get_over(struct kv_getop *op)
{
	(void)op;
	n_over++;
}

/* One key waits for the silent master as its put does, and for the other one a
 * master is asked after that. */
static void
what_is_put_and_what_is_nowhere_are_waited_for_at_once(void **state)
{
	struct kv_put_item put = { .key = { "k", 1 },
				   .bufs = &buf,
				   .nbufs = 1 };
	struct kv_putop putop = { .items = &put,
				  .n = 1,
				  .replicas = 1,
				  .prefer = "n0",
				  .done = put_over };
	char other[sizeof(value)];
	struct kv_buf to = { other, sizeof(other) };
	struct kv_get_item gets[2] = {
		{ .key = { "k", 1 }, .bufs = &to, .nbufs = 1 },
		{ .key = { "none", 4 }, .bufs = &to, .nbufs = 1 },
	};
	struct kv_getop getop = { .items = gets, .n = 2, .done = get_over };
	uint64_t began;

	(void)state;
	strcpy(name, "first");
	assert_int_equal(put_at("n0"), 0);
	assert_int_equal(get_from(&cl->requesters[0]), 0);
	strcpy(name, "k");
	began = cl->clock.ns;
	n_over = 0;
	cluster_master_freeze(cl, 0, true);
	kv_loop_refresh(cl->loop);
	putop.deadline = getop.deadline = began + 5 * KV_NS_PER_S;
	assert_int_equal(kv_putop_start(far->ch, &putop), 0);
	cluster_run(cl, 5 * KV_NS_PER_MS);
	assert_int_equal(kv_getop_start(cl->requesters[0].ch, &getop), 0);
	while (n_over < 2)
		cluster_run(cl, KV_NS_PER_MS);
	assert_int_equal(put.status, 0);
	assert_int_equal(gets[0].status, 0);
	assert_int_equal(gets[1].status, -KV_EMISS);
	assert_in_range((cl->clock.ns - began) / KV_NS_PER_MS, 600, 880);
}

/* And one that has it not, or is no node, costs nothing but a question. */
static void
who_knows_where_it_lies_asks_no_master(void **state)
{
	uint64_t began;

	(void)state;
	strcpy(name, "k");
	assert_int_equal(put_at("n1"), 0);
	assert_int_equal(get_preferring(far, "n0"), 0);
	assert_int_equal(get_preferring(far, "n2"), 0);
	assert_int_equal(get_preferring(&cl->requesters[0], "n1"), 0);
	cluster_master_freeze(cl, 0, true);
	cluster_master_freeze(cl, 1, true);
	began = cl->clock.ns;
	assert_int_equal(get_preferring(far, "n1"), 0);
	assert_int_equal(get_preferring(&cl->requesters[0], "n1"), 0);
	assert_in_range(cl->clock.ns - began, 0, 10 * KV_NS_PER_MS);
	cluster_master_freeze(cl, 0, false);
	cluster_master_freeze(cl, 1, false);
}

/* Until it is known to be sick it is waited for. */
static void
one_that_is_preferred_and_silent_is_passed_over(void **state)
{
	(void)state;
	strcpy(name, "k");
	assert_int_equal(put_at("n0"), 0);
	assert_int_equal(get_preferring(far, "n1"), 0);
	cut(far->host, "n1");
	assert_int_equal(get_preferring(far, "n1"), 0);
	assert_int_equal(get_preferring(far, "n1"), 0);
	heal(far->host, "n1");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_node_that_each_master_leaves_to_the_other_is_asked,
			setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_master_that_failed_once_is_asked_before_a_miss, setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			one_of_two_copies_is_there_all_the_time, setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			a_node_that_came_later_is_known_when_no_master_is,
			setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_master_that_works_on_it_is_waited_for, setup,
			teardown),
		cmocka_unit_test_setup_teardown(one_that_is_silent_is_not,
						setup, teardown),
		cmocka_unit_test_setup_teardown(one_that_falls_silent_is_not,
						setup, teardown),
		cmocka_unit_test_setup_teardown(
			one_that_is_back_is_not_passed_over, setup, teardown),
		cmocka_unit_test_setup_teardown(
			one_that_failed_just_now_is_asked_again, setup,
			teardown),
		cmocka_unit_test_setup_teardown(frames_are_under_way_at_once,
						setup, teardown),
		cmocka_unit_test_setup_teardown(
			those_of_a_master_that_falls_silent_go_to_another,
			setup, teardown),
		cmocka_unit_test_setup_teardown(
			those_of_no_master_go_to_the_nodes, setup, teardown),
		cmocka_unit_test_setup_teardown(
			who_knows_where_it_lies_asks_no_master, setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			one_that_is_preferred_and_silent_is_passed_over, setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			what_is_put_and_what_is_nowhere_are_waited_for_at_once,
			setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
