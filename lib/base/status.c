#include "base/status.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <sysexits.h>

#include "base/attr.h"

struct row {
	const char *name;
	const char *text;
	int err;
	int code;
	int mooncake;
	enum kv_scope scope;
};

/* The public header is written by hand; it must say what the table says. */
#define KV_STATUS(num, name, err, code, mooncake, scope, text) \
	_Static_assert(KV_##name == (num), "kvpool.h: number of KV_" #name);
#include "base/status.def"
#undef KV_STATUS

static const struct row rows[] = {
#define KV_STATUS(num, name, err, code, mooncake, scope, text) \
	[num] = { #name, text, err, code, mooncake, KV_SCOPE_##scope },
#include "base/status.def"
#undef KV_STATUS
};

_Static_assert(KV_ARRAY_LEN(rows) <= UINT8_MAX + 1, "a status is one byte");

/* NULL if the table has no such number (numbers may have gaps). */
static const struct row *
row_find(int status)
{
	if (status < 0 && status > INT_MIN)
		status = -status;
	if (status < 0 || (size_t)status >= KV_ARRAY_LEN(rows))
		return NULL;
	return rows[status].name ? &rows[status] : NULL;
}

static const struct row *
row_or_internal(int status)
{
	const struct row *r = row_find(status);

	return r ? r : &rows[KV_EINTERNAL];
}

const char *
kv_status_name(int status)
{
	return row_or_internal(status)->name;
}

const char *
kv_status_text(int status)
{
	const struct row *r = row_find(status);

	return r ? r->text : "unknown status";
}

int
kv_status_errno(int status)
{
	return row_or_internal(status)->err;
}

int
kv_status_exit(int status)
{
	return row_or_internal(status)->code;
}

int
kv_status_mooncake(int status)
{
	return row_or_internal(status)->mooncake;
}

enum kv_scope
kv_status_scope(int status)
{
	return row_or_internal(status)->scope;
}

/* Errnos that system calls give and that no row carries. */
static int
from_foreign(int err)
{
	switch (err) {
	case EPIPE:
	case ENOBUFS: /* it takes too little of what is sent */
	case ECONNABORTED:
	case ENOTCONN:
		return KV_ECONNLOST;
	case ECONNREFUSED:
	case ENETUNREACH:
	case ENETDOWN:
	case EHOSTDOWN:
	case EADDRNOTAVAIL:
	case ENXIO:  /* a name that nobody has */
	case ENONET: /* or that no name server could tell of */
		return KV_EUNREACHABLE;
	case EMFILE:
	case ENFILE:
		return KV_ENOMEM;
	case EAGAIN:
		return KV_EBUSY;
	case EPERM:
		return KV_EDENIED;
	case EFBIG:
	case EOVERFLOW:
		return KV_ETOOBIG;
	case ERANGE:
	case ENAMETOOLONG:
		return KV_EINVALID;
	case EFAULT:
		return KV_ETRANSFER;
	default:
		return KV_EINTERNAL;
	}
}

int
kv_status_from_errno(int err)
{
	size_t i;

	if (err == INT_MIN)
		return KV_EINTERNAL;
	err = abs(err);
	for (i = 0; i < KV_ARRAY_LEN(rows); i++)
		if (rows[i].name && rows[i].err == err)
			return (int)i;
	return from_foreign(err);
}

int
kv_status_of_peer(uint8_t status)
{
	return kv_status_scope(status) == KV_SCOPE_SELF ? -KV_EBUSY : -status;
}
