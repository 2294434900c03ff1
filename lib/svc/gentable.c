#include "svc/gentable.h"

#include <string.h>

#include "net/conn.h"

_Static_assert(KV_GENERATIONS_MAX *(sizeof(struct kv_generation_ent) +
				    KV_TENANT_BYTES_MAX) < KV_TAIL_MAX / 2,
	       "a table fits in a frame, with names");

size_t
kv_gentable_bytes(const struct kv_generations *t)
{
	size_t bytes = 0;
	unsigned i;

	for (i = 0; i < t->count; i++)
		bytes += sizeof(struct kv_generation_ent) + t->ents[i].len;
	return bytes;
}

static uint8_t *
ent_write(uint8_t *to, const char *name, size_t len, struct kv_generation g)
{
	struct kv_generation_ent e = {
		.generation = kv_gentable_build(g),
		.tenant_len = (uint8_t)len,
	};

	memcpy(to, &e, sizeof(e));
	memcpy(to + sizeof(e), name, len);
	return to + sizeof(e) + len;
}

void
kv_gentable_write(const struct kv_generations *t, void *to)
{
	uint8_t *p = to;
	unsigned i;

	for (i = 0; i < t->count; i++)
		p = ent_write(p, t->ents[i].name, t->ents[i].len, t->ents[i].g);
}

void
kv_gentable_tell(struct kv_conn *c, const char *name, size_t len,
		 struct kv_generation g)
{
	struct kv_generation_news *m;
	void *tail;

	m = kv_conn_begin_tail(c, KV_MSG_GENERATION, 0, 0,
			       sizeof(struct kv_generation_ent) + len, &tail);
	if (!m)
		return; /* it is lost: the next one begins with all of them */
	m->count = kv_le32(1);
	ent_write(tail, name, len, g);
	kv_conn_end(c);
}
