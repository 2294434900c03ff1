#include <stdint.h>
#include <stdio.h>
#include <sysexits.h>

#include "base/status.h"
#include "cli/keylist.h"
#include "cli/out.h"
#include "cli/tool.h"
#include "cmd/kvget.h"

static void
print(const struct kvget_options *o, struct kv_out *out,
      const struct kv_key *key, bool is_there)
{
	char buf[KV_TOOL_KEY_SIZE];

	if (out) {
		kv_out_begin(out, KV_OUT_ROW, NULL);
		kv_out_key(out, "key", key->data, key->len);
		kv_out_bool(out, "exists", is_there);
		kv_out_end(out, KV_OUT_ROW);
	} else if (o->is_nul) {
		fwrite(key->data, 1, key->len, stdout);
		printf("\t%d%c", is_there, '\0');
	} else {
		printf("%s\t%d\n", kv_tool_key(buf, key), is_there);
	}
}

int
kvget_exist(const struct kvget_options *o, struct kv_client *c)
{
	static struct kv_keylist l;
	struct kv_out *out = o->common.json ? kv_out_json_new(stdout) : NULL;
	uint8_t is_there[KV_KEYLIST_MAX];
	int code = 0;
	long rc = 0;

	if (o->common.json && !out)
		return kv_tool_say(EX_OSERR, "out of memory");
	kv_keylist_init(&l, o->keys, o->n_keys, o->is_nul);
	if (out)
		kv_out_begin(out, KV_OUT_TABLE, NULL);
	while (rc >= 0 && kv_keylist_next(&l)) {
		rc = kv_client_exist(c, l.keys, l.n, is_there, 0);
		for (size_t i = 0; rc >= 0 && i < l.n; i++)
			print(o, out, &l.keys[i], is_there[i]);
		if (rc < 0)
			code = kv_tool_fail((int)rc);
		else if ((size_t)rc < l.n)
			code = 1;
	}
	code = kv_tool_worse(l.code, code);
	kv_keylist_fini(&l);
	return kv_tool_end(out, code);
}
