#include "xfer/rdmaverbs.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test.h"

#define VERBS "libibverbs.so.1"

static struct kv_rdmaverbs table;
static char why[256];

static void
a_library_that_is_not_there_is_named_with_its_package(void **state)
{
	const struct kv_rdmaverbs none = { 0 };

	(void)state;
	assert_int_equal(kv_rdmaverbs_open(&table, "libno.so.1", "libno.so.1",
					   why, sizeof(why)),
			 -ENOENT);
	assert_string_equal(why, "libno.so.1 is not installed (apt: "
				 "libibverbs1 ibverbs-providers)");
	assert_memory_equal(&table, &none, sizeof(none));
}

static void
a_library_that_does_not_load_says_why(void **state)
{
	char path[] = "/tmp/kv_rdmaverbs.XXXXXX";
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "no library", 10), 10);
	close(fd);
	assert_int_equal(
		kv_rdmaverbs_open(&table, path, path, why, sizeof(why)),
		-ENOENT);
	unlink(path);
	assert_int_equal(strncmp(why, "cannot load /tmp/", 17), 0);
	assert_non_null(strstr(why, ": file too short"));
}

static void
a_library_without_a_function_is_refused(void **state)
{
	(void)state;
	assert_int_equal(kv_rdmaverbs_open(&table, "libc.so.6", "libc.so.6",
					   why, sizeof(why)),
			 -ENOTSUP);
	assert_string_equal(why, "libc.so.6 is too old or no such library: it "
				 "has no ibv_get_device_list");
}

static void
all_functions_are_found(void **state)
{
	void (*const *each)(void) = (void *)&table;
	const struct kv_rdmaverbs *v = kv_rdmaverbs_load((const char *[]){ 0 });
	const char *text;
	void *handle;

	(void)state;
	if (!v)
		skip();
	assert_ptr_equal(v, kv_rdmaverbs_load(&text));
	assert_string_equal(text, "");
	table = *v;
	for (size_t i = 0; i < sizeof(table) / sizeof(*each); i++)
		assert_non_null(each[i]);
	handle = dlopen(VERBS, RTLD_NOW | RTLD_NOLOAD);
	assert_non_null(handle);
	assert_ptr_equal(v->get_device_list,
			 dlsym(handle, "ibv_get_device_list"));
	dlclose(handle);
}

static void
without_the_connection_manager_verbs_remain(void **state)
{
	static const char *const names[] = { "libno.so.1", "libc.so.6" };
	static const char *const texts[] = {
		"libno.so.1 is not installed (apt: librdmacm1)",
		"libc.so.6 is too old or no such library: it has no "
		"rdma_create_event_channel",
	};

	(void)state;
	if (!kv_rdmaverbs_load((const char *[]){ 0 }))
		skip();
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(kv_rdmaverbs_open(&table, VERBS, names[i], why,
						   sizeof(why)),
				 0);
		assert_string_equal(why, texts[i]);
		assert_non_null(table.destroy_qp);
		assert_null(table.create_event_channel);
		assert_null(table.get_src_port);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_library_that_is_not_there_is_named_with_its_package),
		cmocka_unit_test(a_library_that_does_not_load_says_why),
		cmocka_unit_test(a_library_without_a_function_is_refused),
		cmocka_unit_test(all_functions_are_found),
		cmocka_unit_test(without_the_connection_manager_verbs_remain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
