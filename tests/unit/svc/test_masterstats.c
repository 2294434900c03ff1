/* The figures of a master: their names, and how requests are counted. */

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "masterrig.h"
#include "svc/mastercore.h"

#include "test.h"

enum {
	NAMES_MAX = 200
};

static const char *names[NAMES_MAX];
static unsigned n_names;

static void
keep_name(void *arg, const struct kv_masterstats_line *line)
{
	const char *c;
	unsigned i;

	(void)arg;
	assert_true(n_names < NAMES_MAX);
	assert_non_null(line->text);
	assert_true(strlen(line->text) > 0);
	for (c = line->name; *c; c++)
		assert_true(islower(*c) || isdigit(*c) || *c == '_');
	/* All lines of one name together, and no name twice. */
	if (n_names > 0 && strcmp(names[n_names - 1], line->name) == 0)
		return;
	for (i = 0; i < n_names; i++)
		assert_string_not_equal(names[i], line->name);
	names[n_names++] = line->name;
}

static void
names_are_prometheus_names(void **state)
{
	static struct rignode a, b;

	(void)state;
	rig_up(&a, "10.0.0.2", 52, 1);
	rig_up(&b, "10.0.0.3", 52, 2);
	n_names = 0;
	kv_masterstats_each(rig.m, keep_name, NULL);
	assert_true(n_names > KV_MASTERSTATS);
}

static void
one_key_and_several_are_counted_apart(void **state)
{
	const enum kv_masterstat op = KV_MASTERSTAT_EXIST_KEY;

	(void)state;
	kv_masterstats_op(rig.m, op, 1, 0);
	kv_masterstats_op(rig.m, op, 1, 1);
	kv_masterstats_op(rig.m, op, 10, 0);
	kv_masterstats_op(rig.m, op, 10, 3);
	kv_masterstats_op(rig.m, op, 10, 10);
	kv_masterstats_op(rig.m, op, 0, 0);
	assert_int_equal(rig.m->stats[KV_MASTERSTAT_EXIST_KEY], 2);
	assert_int_equal(rig.m->stats[KV_MASTERSTAT_EXIST_KEY_FAILS], 1);
	assert_int_equal(rig.m->stats[KV_MASTERSTAT_EXIST_KEY_BATCHES], 4);
	assert_int_equal(rig.m->stats[KV_MASTERSTAT_EXIST_KEY_BATCH_FAILS], 1);
	assert_int_equal(rig.m->stats[KV_MASTERSTAT_EXIST_KEY_BATCH_PARTIAL],
			 1);
	assert_int_equal(rig.m->stats[KV_MASTERSTAT_EXIST_KEY_BATCH_ITEMS], 30);
	assert_int_equal(rig.m->stats[KV_MASTERSTAT_EXIST_KEY_BATCH_ITEM_FAILS],
			 13);
}

static void
requests_are_counted_by_what_they_are(void **state)
{
	static struct rignode a;
	static struct rigpeer req;

	(void)state;
	rig_up(&a, "10.0.0.2", 52, 1);
	rig_requester(&req, "10.0.0.9");
	rig_put(&a, 1, 10, 0);
	rig_exists(&req, 1);
	rig_owners(&req, 1);
	rig_owners(&req, 2);
	assert_int_equal(rig_stat(&req, "master_put_end_requests_total"), 1);
	assert_int_equal(rig_stat(&req, "master_exist_key_requests_total"), 1);
	assert_int_equal(
		rig_stat(&req, "master_get_replica_list_requests_total"), 2);
	assert_int_equal(
		rig_stat(&req, "master_get_replica_list_failures_total"), 1);
	assert_int_equal(rig_stat(&req, "mem_cache_hit_nums_"), 2);
	assert_int_equal(rig_stat(&req, "total_get_nums_"), 2);
	assert_int_equal(rig_stat(&req, "valid_get_nums_"), 1);
	assert_int_equal(rig_stat(&req, "master_mount_segment_requests_total"),
			 1);
	assert_int_equal(rig_stat(&req, "master_key_count"), 1);
	assert_int_equal(rig_stat(&req, "mem_cache_nums_"), 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(names_are_prometheus_names),
		RIG_TEST(one_key_and_several_are_counted_apart),
		RIG_TEST(requests_are_counted_by_what_they_are),
	};

	kv_log_set_level(KV_LOG_ERR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
