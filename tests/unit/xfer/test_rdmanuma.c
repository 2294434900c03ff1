#include "xfer/rdmanuma.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "madetree.h"
#include "test.h"

#define NODES "/sys/devices/system/node/"

enum {
	MEM_BYTES = 1 << 20,
};

static char root[MADETREE_BYTES];
static struct kv_rdmanuma numa;
static uint8_t *mem;

static int
setup(void **state)
{
	(void)state;
	madetree_new(root);
	mem = malloc(MEM_BYTES);
	assert_non_null(mem);
	memset(mem, 1, MEM_BYTES);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	free(mem);
	madetree_free(root);
	return 0;
}

static void
two_nodes(void)
{
	madetree_put(root, NODES "node0/distance", "10 21\n");
	madetree_put(root, NODES "node1/distance", "21 10\n");
}

static void
who_is_at_another_node_is_distant(void **state)
{
	static const int at[] = { 0, 1, 1, 0, -1 };

	(void)state;
	two_nodes();
	kv_rdmanuma_read(&numa, root, at, KV_ARRAY_LEN(at));
	assert_int_equal(numa.distant[0], 1 << 1 | 1 << 2);
	assert_int_equal(numa.distant[1], 1 << 0 | 1 << 3);
	assert_int_equal(numa.distant[2], 0);
	assert_int_equal(numa.any, 15);
}

static void
the_nearest_there_is_will_do(void **state)
{
	static const int at[] = { 2, 8, 8 };
	unsigned node;

	(void)state;
	madetree_put(root, NODES "node0/distance", "10 12 32 32\n");
	madetree_put(root, NODES "node2/distance", "12 10 32 32\n");
	madetree_put(root, NODES "node8/distance", "32 32 10 12\n");
	madetree_put(root, NODES "node9/distance", "32 32 12 10\n");
	kv_rdmanuma_read(&numa, root, at, KV_ARRAY_LEN(at));
	/* Nodes 0 and 9 have no device of their own. */
	assert_int_equal(numa.distant[0], 6);
	assert_int_equal(numa.distant[2], 6);
	assert_int_equal(numa.distant[8], 1);
	assert_int_equal(numa.distant[9], 1);
	for (node = 0; node < KV_RDMANUMA_NODES; node++)
		if (node != 0 && node != 2 && node != 8 && node != 9)
			assert_int_equal(numa.distant[node], 0);
}

static void
without_a_choice_none_is_distant(void **state)
{
	static const int one[] = { 1, 1 }, unknown[] = { -1, -1 },
			 odd[] = { 0, KV_RDMANUMA_NODES };

	(void)state;
	two_nodes();
	kv_rdmanuma_read(&numa, root, one, 2);
	assert_int_equal(numa.any, 0);
	kv_rdmanuma_read(&numa, root, unknown, 2);
	assert_int_equal(numa.any, 0);
	kv_rdmanuma_read(&numa, root, odd, 2);
	assert_int_equal(numa.any, 0);
	kv_rdmanuma_read(&numa, NULL, (const int[]){ 0, 1 }, 2);
	assert_int_equal(numa.any, 0);
	madetree_put(root, NODES "node0/distance", "10\n");
	madetree_put(root, NODES "node1/distance", "none\n");
	kv_rdmanuma_read(&numa, root, (const int[]){ 0, 1 }, 2);
	assert_int_equal(numa.any, 0);
}

static void
pages_agree_or_say_nothing(void **state)
{
	(void)state;
	assert_int_equal(kv_rdmanuma_common((const int[]){ 0 }, 1), 0);
	assert_int_equal(kv_rdmanuma_common((const int[]){ 3, 3, 3 }, 3), 3);
	assert_int_equal(kv_rdmanuma_common((const int[]){ 1, 1, 0 }, 3), -1);
	assert_int_equal(kv_rdmanuma_common((const int[]){ 1, -ENOENT }, 2),
			 -1);
	assert_int_equal(
		kv_rdmanuma_common((const int[]){ -ENOENT, -ENOENT }, 2), -1);
}

/* As the kernel sees it, which may be a single node. */
static void
memory_has_a_node(void **state)
{
	int node = kv_rdmanuma_node(mem, MEM_BYTES);

	(void)state;
	if (node < 0)
		skip(); /* forbidden, or at several */
	assert_in_range(node, 0, 1023);
	assert_int_equal(kv_rdmanuma_node(mem + 100, 1), node);
	assert_int_equal(kv_rdmanuma_node(NULL, MEM_BYTES), -1);
	memset(&numa, 0, sizeof(numa));
	numa.distant[node] = 5;
	assert_int_equal(kv_rdmanuma_distant(&numa, mem, MEM_BYTES), 0);
	numa.any = 5;
	assert_int_equal(kv_rdmanuma_distant(&numa, mem, MEM_BYTES), 5);
	assert_int_equal(kv_rdmanuma_distant(&numa, NULL, MEM_BYTES), 0);
}

#define TREE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TREE(who_is_at_another_node_is_distant),
		TREE(the_nearest_there_is_will_do),
		TREE(without_a_choice_none_is_distant),
		TREE(pages_agree_or_say_nothing),
		TREE(memory_has_a_node),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
