/* Addresses, one or a list; what is accepted must survive being written and
 * read again. */
#include "net/addr.h"

#include <assert.h>
#include <string.h>

#include "base/limits.h"

enum {
	MAX = 4
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(const struct kv_addr *a)
{
	char text[KV_ADDR_TEXT_BYTES_MAX], err[KV_ADDR_ERROR_BYTES];
	struct kv_addr again;
	int code;

	if (a->kind == KV_ADDR_UNIX)
		assert(strlen(a->name) <= KV_SOCKPATH_BYTES_MAX);
	code = kv_addr_parse(kv_addr_format(a, text), 0, &again, err,
			     sizeof(err));
	assert(code == 0);
	assert(again.kind == a->kind);
	assert(again.port == a->port);
	assert(!strcmp(again.name, a->name));
	assert(!(kv_addr_is_loopback(a) && kv_addr_is_unspecified(a)));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kv_addr addrs[MAX];
	char err[KV_ADDR_ERROR_BYTES];
	char text[1024];
	int n;

	if (size >= sizeof(text))
		return 0;
	memcpy(text, data, size);
	text[size] = 0;
	n = kv_addr_parse_list(text, 50051, addrs, MAX, err, sizeof(err));
	for (int i = 0; i < n; i++)
		check(&addrs[i]);
	assert(n > 0 || strlen(err) > 0);
	if (!kv_addr_parse(text, 50051, addrs, err, sizeof(err)))
		check(addrs);
	else
		assert(strlen(err) < sizeof(err));
	return 0;
}
