#include "base/status.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sysexits.h>

#include "base/attr.h"

#include "test.h"

struct row {
	int num;
	const char *name;
	int err, code, mooncake;
	const char *scope, *text;
};

static const struct row rows[] = {
#define KV_STATUS(num, name, err, code, mooncake, scope, text) \
	{ num, #name, err, code, mooncake, #scope, text },
#include "base/status.def"
#undef KV_STATUS
};

static void
numbers_and_names_are_unique(void **state)
{
	size_t i, j;

	(void)state;
	for (i = 0; i < KV_ARRAY_LEN(rows); i++) {
		assert_in_range(rows[i].num, 0, 255);
		for (j = 0; j < i; j++) {
			assert_int_not_equal(rows[i].num, rows[j].num);
			assert_string_not_equal(rows[i].name, rows[j].name);
			assert_string_not_equal(rows[i].text, rows[j].text);
		}
	}
}

/* Other releases are on the other end of the wire: these never change. */
static void
wire_numbers_are_fixed(void **state)
{
	(void)state;
	assert_int_equal(KV_OK, 0);
	assert_int_equal(KV_EMISS, 1);
	assert_int_equal(KV_EEXISTS, 2);
	assert_int_equal(KV_ENOSPACE, 3);
	assert_int_equal(KV_ENOROOM, 4);
	assert_int_equal(KV_EINVALID, 5);
	assert_int_equal(KV_ETOOBIG, 6);
	assert_int_equal(KV_EBUSY, 7);
	assert_int_equal(KV_ETIMEOUT, 8);
	assert_int_equal(KV_EUNREACHABLE, 9);
	assert_int_equal(KV_ECONNLOST, 10);
	assert_int_equal(KV_EPROTO, 11);
	assert_int_equal(KV_EVERSION, 12);
	assert_int_equal(KV_EDENIED, 13);
	assert_int_equal(KV_ETRANSFER, 14);
	assert_int_equal(KV_ECHECKSUM, 15);
	assert_int_equal(KV_ECANCELED, 16);
	assert_int_equal(KV_ECLOSED, 17);
	assert_int_equal(KV_ENOMEM, 18);
	assert_int_equal(KV_EGONE, 19);
	assert_int_equal(KV_ELEASED, 20);
	assert_int_equal(KV_EINTERNAL, 21);
	assert_int_equal(KV_ENOTSUP, 22);
}

static void
functions_give_the_row(void **state)
{
	const struct row *r;

	(void)state;
	for (r = rows; r < rows + KV_ARRAY_LEN(rows); r++) {
		assert_string_equal(kv_status_name(r->num), r->name);
		assert_string_equal(kv_status_text(r->num), r->text);
		assert_int_equal(kv_status_errno(r->num), r->err);
		assert_int_equal(kv_status_exit(r->num), r->code);
		assert_int_equal(kv_status_mooncake(r->num), r->mooncake);
		assert_string_equal(kv_status_name(-r->num), r->name);
		assert_int_equal(kv_status_exit(-r->num), r->code);
	}
	assert_int_equal(kv_status_mooncake(KV_EMISS), -704);
	assert_int_equal(kv_status_exit(KV_EMISS), 1);
	assert_int_equal(kv_status_exit(KV_EEXISTS), 0);
	assert_int_equal(kv_status_mooncake(KV_ENOSPACE), -200);
	assert_int_equal(kv_status_scope(KV_EMISS), KV_SCOPE_OP);
	assert_int_equal(kv_status_scope(KV_ECONNLOST), KV_SCOPE_CONN);
	assert_int_equal(kv_status_scope(KV_EUNREACHABLE), KV_SCOPE_PEER);
	assert_int_equal(kv_status_scope(KV_ENOMEM), KV_SCOPE_SELF);
}

static void
unknown_numbers_are_internal_errors(void **state)
{
	static const int bad[] = { -23, 23, 255, 256, INT_MAX, INT_MIN };
	size_t i;

	(void)state;
	for (i = 0; i < KV_ARRAY_LEN(bad); i++) {
		assert_string_equal(kv_status_name(bad[i]), "EINTERNAL");
		assert_string_equal(kv_status_text(bad[i]), "unknown status");
		assert_int_equal(kv_status_errno(bad[i]), EIO);
		assert_int_equal(kv_status_exit(bad[i]), EX_SOFTWARE);
		assert_int_equal(kv_status_mooncake(bad[i]), -1);
		assert_int_equal(kv_status_scope(bad[i]), KV_SCOPE_OP);
	}
}

static void
errnos_become_statuses(void **state)
{
	static const int shared[] = { KV_ENOROOM, KV_ELEASED, KV_EINTERNAL };
	size_t i, j;
	int st;

	(void)state;
	for (i = 0; i < KV_ARRAY_LEN(rows); i++) {
		st = rows[i].num;
		for (j = 0; j < KV_ARRAY_LEN(shared); j++)
			if (shared[j] == st)
				break;
		if (j < KV_ARRAY_LEN(shared))
			continue;
		assert_int_equal(kv_status_from_errno(rows[i].err), st);
		assert_int_equal(kv_status_from_errno(-rows[i].err), st);
	}
	assert_int_equal(kv_status_from_errno(ENOSPC), KV_ENOSPACE);
	assert_int_equal(kv_status_from_errno(EBUSY), KV_EBUSY);
	assert_int_equal(kv_status_from_errno(EIO), KV_ETRANSFER);
	assert_int_equal(kv_status_from_errno(-EPIPE), KV_ECONNLOST);
	assert_int_equal(kv_status_from_errno(ECONNREFUSED), KV_EUNREACHABLE);
	assert_int_equal(kv_status_from_errno(ENXIO), KV_EUNREACHABLE);
	assert_int_equal(kv_status_from_errno(ENONET), KV_EUNREACHABLE);
	assert_int_equal(kv_status_from_errno(EMFILE), KV_ENOMEM);
	assert_int_equal(kv_status_from_errno(EPERM), KV_EDENIED);
	assert_int_equal(kv_status_from_errno(EFBIG), KV_ETOOBIG);
	assert_int_equal(kv_status_from_errno(ENOTTY), KV_EINTERNAL);
	assert_int_equal(kv_status_from_errno(INT_MIN), KV_EINTERNAL);
}

static void
what_a_peer_lacks_is_not_lacking_here(void **state)
{
	(void)state;
	assert_int_equal(kv_status_of_peer(KV_OK), 0);
	assert_int_equal(kv_status_of_peer(KV_EMISS), -KV_EMISS);
	assert_int_equal(kv_status_of_peer(KV_ENOMEM), -KV_EBUSY);
	assert_int_equal(kv_status_of_peer(255), -255);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_and_names_are_unique),
		cmocka_unit_test(wire_numbers_are_fixed),
		cmocka_unit_test(functions_give_the_row),
		cmocka_unit_test(unknown_numbers_are_internal_errors),
		cmocka_unit_test(errnos_become_statuses),
		cmocka_unit_test(what_a_peer_lacks_is_not_lacking_here),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
