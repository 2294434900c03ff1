/* What is built where there are no headers of verbs, tried everywhere: it comes
 * before the library's. */
#include "xfer/rdma_none.c"

#include <stdlib.h>
#include <string.h>

#include "test.h"

static const char words[] =
	"built without the headers of verbs; install libibverbs-dev and "
	"librdmacm-dev, and build again";

static void
there_is_no_list(void **state)
{
	const struct kv_rdmadev_opts o = { .wanted = "" };
	struct kv_rdmadev *list;
	char err[256];

	(void)state;
	assert_int_equal(kv_rdmadev_list(&o, &list, err, sizeof(err)),
			 -ENOTSUP);
	assert_null(list);
	assert_string_equal(err, words);
}

static void
no_port_is_opened(void **state)
{
	const struct kv_rdma_opts o = { 0 };
	char err[256];

	(void)state;
	assert_null(kv_rdma_open(&o, err, sizeof(err)));
	assert_int_equal(errno, ENOTSUP);
	assert_string_equal(err, words);
	kv_rdma_close(NULL);
}

static void
no_memory_is_registered(void **state)
{
	const struct kv_rdmaregion_pool_opts o = { 0 };
	char bytes[8];

	(void)state;
	assert_null(kv_rdmaregion_new(NULL, bytes, sizeof(bytes),
				      KV_RDMAREGION_NEAR));
	assert_int_equal(errno, ENOTSUP);
	errno = 0;
	assert_null(kv_rdmaregion_pool(NULL, &o));
	assert_int_equal(errno, ENOTSUP);
	kv_rdmaregion_free(NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(there_is_no_list),
		cmocka_unit_test(no_port_is_opened),
		cmocka_unit_test(no_memory_is_registered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
