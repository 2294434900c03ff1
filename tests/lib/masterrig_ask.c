/* What requesters ask the master of the rig. */
#include "masterrig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

static struct wireframe *
lookup(struct rigpeer *p, unsigned key, unsigned flags)
{
	struct kv_lookup l = { .count = kv_le32(1), .flags = (uint8_t)flags };
	struct kv_id hash = rig_hash(key);
	struct wireframe *f;

	f = rig_ask(p, KV_MSG_LOOKUP, &l, &hash, sizeof(hash));
	assert_int_equal(kv_get32(((struct kv_lookup_r *)f->body)->count), 1);
	return f;
}

bool
rig_exists(struct rigpeer *p, unsigned key)
{
	struct wireframe *f = lookup(p, key, KV_LOOKUP_EXIST);
	bool found = f->tail[0];

	assert_int_equal(f->tail_len, 1);
	wireframe_free(f);
	return found;
}

unsigned
rig_owners(struct rigpeer *p, unsigned key)
{
	struct wireframe *f = lookup(p, key, 0);
	struct kv_lookup_r *r = (void *)f->body;
	const uint8_t *at = f->tail + 1 + f->tail[0] * sizeof(struct kv_le16);
	const struct kv_node_rec *rec;
	unsigned i, bits = 0;

	assert_int_equal(f->tail[0], kv_get16(r->nodes));
	for (i = 0; i < kv_get16(r->nodes); i++) {
		rec = (const void *)at;
		assert_int_equal(bits & 1u << rec->boot.b[0], 0);
		bits |= 1u << rec->boot.b[0];
		at += sizeof(*rec) + rec->addr_len + rec->name_len;
	}
	assert_ptr_equal(at, f->tail + f->tail_len);
	wireframe_free(f);
	return bits;
}

static unsigned
flags_of(struct rigpeer *p, unsigned lookup_flags)
{
	struct wireframe *f = lookup(p, 999999, lookup_flags);
	unsigned flags = ((struct kv_lookup_r *)f->body)->flags;

	wireframe_free(f);
	return flags;
}

unsigned
rig_flags(struct rigpeer *p)
{
	unsigned flags = flags_of(p, 0);

	assert_int_equal(flags, flags_of(p, KV_LOOKUP_EXIST));
	return flags;
}

bool
rig_is_incomplete(struct rigpeer *p)
{
	return rig_flags(p) & KV_LOOKUP_INCOMPLETE;
}

bool
rig_hides(struct rigpeer *p)
{
	return rig_flags(p) & KV_LOOKUP_HIDES;
}

void
rig_report(struct rigpeer *p, const struct rignode *n, bool reachable)
{
	struct kv_report r = { .boot = n->p.boot, .reachable = reachable };

	rig_send(p, KV_MSG_REPORT, &r, NULL, 0);
	rig_ms(1);
}

int
rig_state(struct rigpeer *p, const struct rignode *n)
{
	struct wireframe *f = rig_ask(p, KV_MSG_NODES, NULL, NULL, 0);
	struct kv_nodes_r *r = (void *)f->body;
	const struct kv_node_rec *rec;
	const uint8_t *at = f->tail;
	int state = 0;
	unsigned i;

	for (i = 0; i < kv_get32(r->count); i++) {
		rec = (const void *)at;
		if (kv_id_is_equal(rec->boot, n->p.boot))
			state = rec->state;
		at += sizeof(*rec) + rec->addr_len + rec->name_len;
	}
	assert_ptr_equal(at, f->tail + f->tail_len);
	wireframe_free(f);
	return state;
}

uint64_t
rig_stat(struct rigpeer *p, const char *name)
{
	struct wireframe *f = rig_ask(p, KV_MSG_STATS, NULL, NULL, 0);
	char *text = calloc(1, f->tail_len + 2), *at;
	uint64_t v = 0;
	char line[128];

	assert_non_null(text);
	text[0] = '\n';
	memcpy(text + 1, f->tail, f->tail_len);
	snprintf(line, sizeof(line), "\n%s ", name);
	at = strstr(text, line);
	if (!at)
		fail_msg("no counter %s", name);
	else
		v = strtoull(at + strlen(line), NULL, 10);
	free(text);
	wireframe_free(f);
	return v;
}

struct kv_id
rig_letter(char k)
{
	return kv_key_hash_build(kv_key_hash(kv_key_seed("", 0), &k, 1));
}

void
rig_letter_put(struct rignode *n, char k, uint64_t random)
{
	struct kv_publish_ent e = { .hash = rig_letter(k),
				    .put_id = { .random = kv_le64(random) } };

	wireframe_free(rig_publish(n, 0, &e, 1, 0));
}

void
rig_serve_removal(struct rignode *n, const char *pattern, unsigned removed)
{
	struct wireframe *f = rig_wait(&n->p, KV_MSG_REMOVE);
	struct kv_remove_r r = {
		.removed = kv_le64(removed),
		.kept = kv_le32(removed > 0),
		.undecided = kv_le64(removed > 0 ? 10 : 0),
	};

	assert_int_equal(f->tail_len, strlen(pattern));
	assert_memory_equal(f->tail, pattern, strlen(pattern));
	wirepeer_send(&n->p.w, KV_MSG_REMOVE_R, f->id, &r, NULL, 0);
	wireframe_free(f);
	if (removed > 0)
		rig_pong(n);
}
