/* Regions of an engine that has NICs: what these know of them, and until when.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "hcahost.h"
#include "nth_fault.h"
#include "test.h"
#include "xfer/rdmaregion.h"
#include "xfer/region.h"
#include "xfer/regtable.h"

static char memory[1 << 16];
static struct kv_region_set set;
static struct kv_rdma *rdma;
static unsigned registered, warnings;

static struct ibv_mr *
count_reg(struct ibv_pd *pd, void *addr, size_t bytes, int access)
{
	struct ibv_mr *mr = hcahost_real->reg_mr(pd, addr, bytes, access);

	registered += mr != NULL;
	return mr;
}

static int
count_dereg(struct ibv_mr *mr)
{
	registered--;
	return hcahost_real->dereg_mr(mr);
}

static void
count_warnings(void *arg, enum kv_log_level level, const char *msg)
{
	(void)arg;
	warnings += level == KV_LOG_WARN && strstr(msg, "reached by TCP");
}

static int
set_up(void **state)
{
	struct kv_rdma_opts o = { .verbs = &hcahost_v, .addrs = hcahost_addrs };
	char err[KV_RDMADEV_WHY_BYTES];

	(void)state;
	hcahost_open();
	hcahost_v.reg_mr = count_reg;
	hcahost_v.reg_mr_iova2 = NULL;
	hcahost_v.dereg_mr = count_dereg;
	rdma = kv_rdma_open(&o, err, sizeof(err));
	if (!rdma)
		exit(4); /* as hcahost_open() */
	registered = warnings = 0;
	kv_log_set_sink(count_warnings, NULL);
	kv_region_init(&set, rdma);
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	kv_region_fini(&set);
	assert_int_equal(registered, 0);
	kv_rdma_close(rdma);
	hcahost_close();
	kv_log_set_sink(NULL, NULL);
	return 0;
}

static uint64_t
now(void)
{
	const struct kv_clock clock = { 0 };

	return kv_clock_now(&clock);
}

static struct kv_region *
begin_end(void *data)
{
	struct kv_region *r;

	assert_int_equal(
		kv_region_begin_end(&set, data, KV_REGION_UNREGISTER, &r), 0);
	return r;
}

/* As a peer reads what is told in so many bytes. */
static struct kv_regtable *
table_of(size_t max)
{
	static struct kv_le64 tail[1 << 10];
	struct kv_regions_r body = { .ports = (uint8_t)kv_rdma_ports(rdma) };
	struct kv_msg msg = {
		.type = KV_MSG_REGIONS_R,
		.body = &body,
		.tail = (void *)tail,
	};
	struct kv_regtable *t;
	uint32_t n;

	assert_true(max <= sizeof(tail));
	msg.tail_len = kv_region_list(&set, tail, max, &n);
	assert_true(msg.tail_len <= max);
	body.count = kv_le32(n);
	t = kv_regtable_parse(&msg);
	assert_non_null(t);
	return t;
}

static void
keys_are_told_for_each_port(void **state)
{
	const struct kv_rdmamem *mem, *own;
	struct kv_regtable *t;

	(void)state;
	assert_int_equal(kv_rdma_ports(rdma), 3);
	assert_int_equal(kv_region_add(&set, memory, 1000, NULL), 0);
	assert_int_equal(kv_region_add(&set, memory + 5000, 2000, NULL), 0);
	t = table_of(4096);
	assert_int_equal(t->n, 2);
	for (int i = 0; i < 2; i++) {
		mem = t->entries[i].mem;
		own = kv_rdmaregion_far(set.by_addr[i]->nic);
		assert_int_equal(mem->addr, set.by_addr[i]->addr);
		assert_int_equal(mem->len, set.by_addr[i]->len);
		assert_memory_equal(mem->keys, own->keys, 3 * sizeof(uint32_t));
		assert_int_not_equal(mem->keys[0], 0);
	}
	kv_regtable_unref(t);
}

static void
where_there_is_no_room_keys_are_left_out(void **state)
{
	const size_t recs = 3 * sizeof(struct kv_region_rec), keys = 3 * 4;
	struct kv_regtable *t;

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_int_equal(
			kv_region_add(&set, memory + 100 * i, 100, NULL), 0);
	for (size_t n = 0; n <= 3; n++) {
		size_t told = 0;

		t = table_of(recs + n * keys + keys - 1);
		assert_int_equal(t->n, 3);
		for (size_t i = 0; i < 3; i++)
			told += t->entries[i].mem != NULL;
		assert_int_equal(told, n);
		kv_regtable_unref(t);
	}
	t = table_of(recs - 1);
	assert_int_equal(t->n, 2);
	kv_regtable_unref(t);
}

static void
a_repeat_is_not_registered_twice(void **state)
{
	unsigned once;

	(void)state;
	assert_int_equal(kv_region_add(&set, memory, 1000, NULL), 0);
	once = registered;
	assert_true(once > 0);
	assert_int_equal(kv_region_add(&set, memory, 1000, NULL), 0);
	assert_int_equal(registered, once);
	assert_int_equal(kv_region_add(&set, memory, 999, NULL), -EINVAL);
	assert_int_equal(registered, once);
}

/* From the end of the wait on, whatever the caller does then. */
static void
no_nic_knows_what_has_gone(void **state)
{
	struct kv_region *r;

	(void)state;
	assert_int_equal(kv_region_add(&set, memory, 1000, NULL), 0);
	r = begin_end(memory);
	assert_true(registered > 0);
	assert_int_equal(kv_region_wait(&set, r, now() + KV_NS_PER_S), 0);
	assert_int_equal(registered, 0);
	kv_region_end(&set, r, false);
	assert_ptr_equal(begin_end(memory), r);
	assert_int_equal(kv_region_wait(&set, r, now() + KV_NS_PER_S), 0);
	kv_region_end(&set, r, true);
	assert_int_equal(set.n_addr, 0);
}

static void
what_a_nic_refuses_goes_on_without(void **state)
{
	struct kv_regtable *t;

	(void)state;
	hca_memlock(hcahost_host, 0);
	assert_int_equal(kv_region_add(&set, memory, 1000, NULL), 0);
	assert_int_equal(kv_region_add(&set, memory + 5000, 1000, NULL), 0);
	assert_int_equal(registered, 0);
	assert_int_equal(warnings, 1);
	hca_memlock(hcahost_host, 1 << 20);
	assert_int_equal(kv_region_add(&set, memory + 9000, 1000, NULL), 0);
	t = table_of(4096);
	assert_null(t->entries[0].mem);
	assert_null(t->entries[1].mem);
	assert_non_null(t->entries[2].mem);
	kv_regtable_unref(t);
}

static void
memory_of_our_own_is_found_and_held(void **state)
{
	uint64_t addr = (uintptr_t)memory, bytes;
	struct kv_region *r;

	(void)state;
	assert_null(kv_region_hold_near(&set, addr, &bytes));
	assert_int_equal(bytes, UINT64_MAX - addr);
	assert_int_equal(kv_region_add(&set, memory + 100, 1000, NULL), 0);
	assert_null(kv_region_hold_near(&set, addr, &bytes));
	assert_int_equal(bytes, 100);
	r = kv_region_hold_near(&set, addr + 1099, &bytes);
	assert_non_null(r);
	assert_int_equal(bytes, 1);
	assert_ptr_equal(kv_region_hold_near(&set, addr + 100, &bytes), r);
	assert_int_equal(bytes, 1000);
	assert_int_equal(r->users, 2);
	assert_false(kv_region_is_dying(&set, r));

	assert_ptr_equal(begin_end(memory + 100), r);
	assert_true(kv_region_is_dying(&set, r));
	assert_null(kv_region_hold_near(&set, addr + 200, &bytes));
	assert_int_equal(bytes, 900);
	kv_region_let_go(&set, r);
	assert_int_equal(kv_region_wait(&set, r, now() + KV_NS_PER_MS),
			 -ETIMEDOUT);
	assert_true(registered > 0);
	kv_region_let_go(&set, r);
	assert_int_equal(kv_region_wait(&set, r, now() + KV_NS_PER_S), 0);
	kv_region_end(&set, r, true);
}

static void
what_no_nic_knows_is_not_held(void **state)
{
	uint64_t bytes;

	(void)state;
	hca_memlock(hcahost_host, 0);
	assert_int_equal(kv_region_add(&set, memory, 1000, NULL), 0);
	assert_null(kv_region_hold_near(&set, (uintptr_t)memory + 10, &bytes));
	assert_int_equal(bytes, 990);
	assert_int_equal(set.by_addr[0]->users, 0);
}

/* 2: not added; 1: added, without NICs. */
static int
add_without_memory(void)
{
	int rc;

	set_up(NULL);
	rc = kv_region_add(&set, memory, 100, NULL);
	if (rc == -ENOMEM)
		rc = 2;
	else if (rc == 0)
		rc = set.by_addr[0]->nic ? 0 : 1;
	tear_down(NULL);
	return rc;
}

static void
no_memory_changes_nothing(void **state)
{
	unsigned seen[3] = { 0 };
	int rc;

	(void)state;
	/* Some are not the set's: those of the fixture, and of ports. */
	for (unsigned n = 1; n < 40; n++) {
		rc = nth_fault_run(n, add_without_memory);
		if (rc < 3)
			seen[rc]++;
	}
	assert_true(seen[0] > 0);
	assert_true(seen[1] > 0);
	assert_int_equal(seen[2], 2);
}

#define WITH_SET(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		nth_fault_test(no_memory_changes_nothing),
		WITH_SET(keys_are_told_for_each_port),
		WITH_SET(where_there_is_no_room_keys_are_left_out),
		WITH_SET(a_repeat_is_not_registered_twice),
		WITH_SET(no_nic_knows_what_has_gone),
		WITH_SET(what_a_nic_refuses_goes_on_without),
		WITH_SET(memory_of_our_own_is_found_and_held),
		WITH_SET(what_no_nic_knows_is_not_held),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
