/*
 * Puts and gets by RDMA: real cores of nodes and clients over fake devices.
 * Every byte that comes is compared, and memory that a call gave back is looked
 * at again.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "xfer/rdmalinkcore.h" /* before a global one has the name `far` */

#include "railcall.h"
#include "test.h"

enum {
	MIB = 1 << 20,
	LARGE = 40 * MIB,
};

/* ---- what goes how ---- */

static void
sizes(unsigned n_rails)
{
	static const size_t sizes[] = { 0,      1,       1000,    65536,
					65537,  100000,  262143,  262144,
					300001, 2 * MIB, 20000001 };
	char name[8];
	bool is_large;

	railcall_begin(n_rails, 1);
	for (unsigned i = 0; i < KV_ARRAY_LEN(sizes); i++) {
		for (unsigned reg = 0; reg < 2; reg++) {
			snprintf(name, sizeof(name), "%c%u", 'a' + i, reg);
			is_large = sizes[i] > KV_INLINE_BYTES_MAX;
			assert_int_equal(
				railcall_put_value(name, sizes[i], reg),
				is_large);
			assert_int_equal(
				railcall_get_value(name, sizes[i], reg),
				is_large);
			assert_int_equal(
				railcall_get_value(name, sizes[i], !reg),
				is_large);
		}
	}
	assert_int_equal(kv_link_rails(railcall_link()), n_rails);
	railcall_end();
}

static void
values_of_all_sizes_by_one_rail(void **state)
{
	(void)state;
	sizes(1);
}

static void
values_of_all_sizes_by_two_rails(void **state)
{
	(void)state;
	sizes(2);
}

static void
values_of_all_sizes_by_eight_rails(void **state)
{
	(void)state;
	sizes(8);
}

static void
a_part_of_a_value(void **state)
{
	struct railcall c;

	(void)state;
	railcall_begin(2, 1);
	railcall_give("k", 5 * MIB);
	railcall_new(&c, MIB, true);
	railcall_get(&c, "k", KV_NS_PER_S);
	c.gitem.is_part = 1;
	c.gitem.off = 3 * MIB + 17;
	railcall_wait(&c);
	assert_int_equal(c.gitem.status, 0);
	assert_int_equal(c.gitem.len, MIB);
	railcall_check(&c, "k", 3 * MIB + 17, MIB);
	c.is_done = false;
	railcall_get(&c, "k", KV_NS_PER_S);
	c.gitem.is_part = 1;
	c.gitem.off = 5 * MIB - 200000;
	railcall_wait(&c);
	assert_int_equal(c.gitem.len, 200000);
	railcall_check(&c, "k", 5 * MIB - 200000, 200000);
	assert_int_equal((unsigned char)c.bytes[200000], 0x5a);
	assert_int_equal(cluster_rdma_bytes(cl), MIB + 200000);
	railcall_free(&c);
	railcall_end();
}

/* Too small, not there: nothing is awaited in vain. */
static void
what_cannot_be_had(void **state)
{
	struct railcall c;

	(void)state;
	railcall_begin(1, 1);
	railcall_give("k", 5 * MIB);
	railcall_new(&c, MIB, true);
	railcall_get(&c, "k", KV_NS_PER_S);
	assert_true(railcall_wait(&c) < KV_NS_PER_S / 10);
	assert_int_equal(c.gitem.status, -KV_ETOOBIG);
	assert_int_equal(c.gitem.size_total, 5 * MIB);
	c.is_done = false;
	railcall_get(&c, "none", KV_NS_PER_S);
	assert_true(railcall_wait(&c) < KV_NS_PER_S / 10);
	assert_int_equal(c.gitem.status, -KV_EMISS);
	railcall_free(&c);
	assert_true(railcall_get_value("k", 5 * MIB, true));
	railcall_end();
}

/* ---- RDMA and nothing else ---- */

static void
rdma_alone_or_not_at_all(void **state)
{
	struct railcall c;

	(void)state;
	kv_log_set_level(KV_LOG_ERR);
	railcall_begin(2, 1);
	far->hub.rdma_only = true;
	assert_true(railcall_put_value("k", MIB, false));
	assert_true(railcall_put_value("small", 70000,
				       false)); /* worth it or not */
	assert_true(railcall_get_value("small", 70000, false));
	assert_false(railcall_put_value("tiny", 100, false));
	assert_false(railcall_get_value("tiny", 100, false));
	railcall_cut(0, 2, true);
	railcall_new(&c, MIB, true);
	railcall_get(&c, "k", 5 * KV_NS_PER_S);
	railcall_wait(&c);
	assert_true(c.gitem.status < 0);
	c.is_done = false;
	railcall_put(&c, "k2", 5 * KV_NS_PER_S);
	railcall_wait(&c);
	assert_true(c.pitem.status < 0);
	railcall_free(&c);
	railcall_cut(0, 2, false);
	cluster_run(cl, 10 * KV_NS_PER_S);
	railcall_get_value("tiny", 100, false);
	cluster_run(cl, 10 * KV_NS_PER_S);
	assert_true(railcall_get_value("k", MIB, false));
	railcall_end();
}

/* ---- queue pairs that went to others ---- */

/* As if another link of the loop had no room. */
static bool
rest(void)
{
	const struct kv_rdmalink *l = railcall_link()->rails;
	const struct kv_rdmalink other = { .rl = l->rl };

	return kv_rdmarest_room(&other, l->rl->cqs[0]);
}

/* The first call after it goes by TCP, the next one by RDMA. */
static void
rails_come_back_when_they_are_wanted(void **state)
{
	char name[8];

	(void)state;
	railcall_begin(2, 1);
	assert_true(railcall_put_value("k", MIB, true));
	railcall_put_value("tiny", 100, true);
	assert_false(rest());
	cluster_run(cl, 2 * KV_NS_PER_S);
	for (unsigned i = 0; i < 4; i++) {
		assert_true(rest());
		assert_int_equal(kv_link_rails(railcall_link()), 0);
		cluster_run(cl, KV_NS_PER_S);
		/* What is small does not need them. */
		assert_false(railcall_get_value("tiny", 100, true));
		cluster_run(cl, KV_NS_PER_S);
		assert_int_equal(kv_link_rails(railcall_link()), 0);
		snprintf(name, sizeof(name), "k%u", i);
		if (i % 2)
			assert_false(railcall_put_value(name, MIB, true));
		else
			assert_false(railcall_get_value("k", MIB, true));
		cluster_run(cl, KV_NS_PER_S / 50);
		assert_int_equal(kv_link_rails(railcall_link()), 2);
		assert_true(railcall_get_value("k", MIB, true));
		snprintf(name, sizeof(name), "l%u", i);
		assert_true(railcall_put_value(name, MIB, true));
		cluster_run(cl, 2 * KV_NS_PER_S);
	}
	railcall_end();
}

/* A node reads for longer than a second what it was asked to put. */
static void
a_put_keeps_its_queue_pairs(void **state)
{
	struct railcall c;

	(void)state;
	railcall_begin(1, 1);
	assert_true(railcall_put_value("k", MIB, true));
	hca_rate(simrails_port(rails, far->host, 0), (double)LARGE / 3e9);
	railcall_new(&c, LARGE, true);
	railcall_put(&c, "k2", 20 * KV_NS_PER_S);
	cluster_run(cl, 2 * KV_NS_PER_S);
	assert_false(c.is_done);
	assert_false(rest());
	railcall_wait(&c);
	assert_int_equal(c.pitem.status, 0);
	railcall_free(&c);
	assert_true(cluster_rdma_bytes(cl) >= MIB + LARGE);
	railcall_end();
}

/* Where there is nothing else they are waited for. */
static void
rdma_alone_waits_for_its_rails(void **state)
{
	char name[8];

	(void)state;
	railcall_begin(2, 1);
	far->hub.rdma_only = true;
	assert_true(railcall_put_value("k", MIB, true));
	for (unsigned i = 0; i < 3; i++) {
		cluster_run(cl, 2 * KV_NS_PER_S);
		assert_true(rest());
		assert_true(railcall_get_value("k", MIB, true));
		cluster_run(cl, 2 * KV_NS_PER_S);
		assert_true(rest());
		snprintf(name, sizeof(name), "k%u", i);
		assert_true(railcall_put_value(name, MIB, true));
	}
	railcall_end();
}

/* ---- many keys of one call ---- */

enum {
	MANY = 300,
	MANY_BYTES = 80000,
	MANY_PARTS = 250,
};

/* ---- what people are told ---- */

static const char *
why(void)
{
	static char text[KV_HUB_WHY_BYTES];

	kv_link_rails_why(railcall_link(), text, sizeof(text));
	return text;
}

static void
expect_path(enum kv_hub_path path)
{
	struct kv_hub_node n;

	assert_true(kv_hub_node(&far->hub, &railcall_link()->want, &n));
	assert_int_equal(n.path, path);
}

static void
people_are_told_why_not(void **state)
{
	(void)state;
	railcall_begin(2, 1);
	railcall_give("k", MIB);
	assert_true(railcall_get_value("k", MIB, true));
	expect_path(KV_HUB_PATH_RDMA);
	assert_string_equal(why(), "");
	railcall_cut(0, 1, true);
	railcall_get_value("k", MIB, true);
	assert_int_equal(kv_link_rails(railcall_link()), 1);
	assert_memory_equal(why(), "1 of 2 rails: ", 14);
	railcall_cut(1, 1, true);
	railcall_get_value("k", MIB, true);
	assert_int_equal(kv_link_rails(railcall_link()), 0);
	assert_string_equal(why(), "no rail came up in time");
	cluster_run(cl, 2 * KV_NS_PER_S);
	assert_non_null(strstr(why(), ": no answer"));
	railcall_end();
}

/* Also when there never was a rail; and later ones take that back. */
static void
and_when_it_is_over(void **state)
{
	(void)state;
	railcall_begin(1, 1);
	railcall_give("k", MIB);
	railcall_cut(0, 1, true);
	assert_false(railcall_get_value("k", MIB, true));
	expect_path(KV_HUB_PATH_TCP);
	assert_true(*why() != '\0');
	railcall_cut(0, 1, false);
	cluster_run(cl, 10 * KV_NS_PER_S);
	assert_true(railcall_get_value("k", MIB, true));
	assert_string_equal(why(), "");
	railcall_end();
}

static char many_names[MANY][8];
static struct kv_buf many_bufs[MANY][MANY_PARTS];
static unsigned n_over;

static void
many_put_over(struct kv_putop *op)
{
	(void)op;
	n_over++;
}

static void
many_get_over(struct kv_getop *op)
{
	(void)op;
	n_over++;
}

static void
many_wait(void)
{
	while (n_over == 0)
		cluster_run(cl, 100 * KV_NS_PER_US);
	n_over = 0;
}

/* Parts of a block lie apart, as layers of a KV cache do. */
static void
many_prepare(char *memory)
{
	const size_t part = MANY_BYTES / MANY_PARTS;

	for (unsigned i = 0; i < MANY; i++) {
		snprintf(many_names[i], sizeof(many_names[i]), "m%u", i);
		for (unsigned k = 0; k < MANY_PARTS; k++)
			many_bufs[i][k] = (struct kv_buf){
				memory + ((size_t)k * MANY + i) * part, part
			};
	}
}

/* Their pieces are more than one frame has room for. */
static void
many_keys_in_many_parts(void **state)
{
	static struct kv_put_item puts[MANY];
	static struct kv_get_item gets[MANY];
	const size_t bytes = (size_t)MANY * MANY_BYTES;
	char *memory = malloc(bytes), *copy = malloc(bytes);
	struct kv_putop put = {
		.items = puts, .n = MANY, .replicas = 1, .done = many_put_over
	};
	struct kv_getop get = { .items = gets,
				.n = MANY,
				.done = many_get_over };

	(void)state;
	assert_true(memory && copy);
	railcall_begin(2, 1);
	many_prepare(memory);
	for (size_t i = 0; i < bytes; i++)
		memory[i] = copy[i] = (char)(i * 7 + (i >> 9) * 3);
	for (unsigned i = 0; i < MANY; i++) {
		puts[i] = (struct kv_put_item){
			.key = { many_names[i], strlen(many_names[i]) },
			.bufs = many_bufs[i],
			.nbufs = MANY_PARTS,
		};
		gets[i] = (struct kv_get_item){ .key = puts[i].key,
						.bufs = many_bufs[i],
						.nbufs = MANY_PARTS };
	}
	assert_int_equal(kv_ranges_add(&far->hub.ranges, memory, bytes), 0);
	kv_loop_refresh(cl->loop);
	put.deadline = get.deadline = cl->clock.ns + 10 * KV_NS_PER_S;
	assert_int_equal(kv_putop_start(far->ch, &put), 0);
	many_wait();
	memset(memory, 0, bytes);
	kv_loop_refresh(cl->loop);
	assert_int_equal(kv_getop_start(far->ch, &get), 0);
	many_wait();
	for (unsigned i = 0; i < MANY; i++) {
		assert_int_equal(puts[i].status, 0);
		assert_int_equal(gets[i].status, 0);
	}
	assert_memory_equal(memory, copy, bytes);
	assert_int_equal(cluster_rdma_bytes(cl), 2 * bytes);
	assert_int_equal(kv_ranges_del(&far->hub.ranges, memory), 0);
	railcall_end();
	free(memory);
	free(copy);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_of_all_sizes_by_one_rail),
		cmocka_unit_test(values_of_all_sizes_by_two_rails),
		cmocka_unit_test(values_of_all_sizes_by_eight_rails),
		cmocka_unit_test(a_part_of_a_value),
		cmocka_unit_test(what_cannot_be_had),
		cmocka_unit_test(rdma_alone_or_not_at_all),
		cmocka_unit_test(people_are_told_why_not),
		cmocka_unit_test(and_when_it_is_over),
		cmocka_unit_test(rails_come_back_when_they_are_wanted),
		cmocka_unit_test(a_put_keeps_its_queue_pairs),
		cmocka_unit_test(rdma_alone_waits_for_its_rails),
		cmocka_unit_test(many_keys_in_many_parts),
	};

	if (getenv("SIM_TEST"))
		cmocka_set_test_filter(getenv("SIM_TEST"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
