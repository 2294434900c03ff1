/* What is told of nodes. */
#include <errno.h>
#include <string.h>

#include "base/num.h"
#include "svc/mastercore.h"

bool
kv_member_is_for(struct kv_member *mb, const struct kv_masterpeer *p)
{
	if (!p || !mb->is_loopback || p->is_local ||
	    kv_id_is_equal(mb->host, p->host))
		return true;
	kv_log_limited(&mb->loopback_log, kv_loop_now(mb->m->loop), KV_LOG_WARN,
		       "node name=\"%s\" is known by addr=%s only, of no use "
		       "to other hosts (asked from=%s): start it with --host "
		       "and an address of its host",
		       mb->name, mb->addr, p->addr);
	return false;
}

size_t
kv_member_record_bytes(const struct kv_member *mb)
{
	return sizeof(struct kv_node_rec) + mb->addr_len + mb->name_len;
}

size_t
kv_member_record(struct kv_member *mb, uint8_t *to)
{
	uint64_t age = (kv_master_now(mb->m) - mb->heard) / KV_NS_PER_MS;
	struct kv_node_rec rec = {
		.boot = mb->boot,
		.host = mb->host,
		.state = (uint8_t)mb->state,
		.addr_len = mb->addr_len,
		.name_len = mb->name_len,
		.masters = mb->masters,
		.sessions = (uint8_t)kv_max_u64(mb->room.sessions, 1),
		.heard_ms = kv_le32((uint32_t)kv_min_u64(age, UINT32_MAX)),
		.pool_bytes = mb->room.pool_bytes,
		.ready_bytes = mb->room.ready_bytes,
		.free_bytes = mb->room.free_bytes,
		.pinned_bytes = mb->room.pinned_bytes,
		.keys = mb->room.keys,
		.victim_age_ms = mb->room.victim_age_ms,
	};

	memcpy(to, &rec, sizeof(rec));
	to += sizeof(rec);
	memcpy(to, mb->addr, mb->addr_len);
	memcpy(to + mb->addr_len, mb->name, mb->name_len);
	return kv_member_record_bytes(mb);
}

int
kv_member_records(struct kv_master *m, const struct kv_masterpeer *p,
		  struct kv_bytes *out, unsigned *count)
{
	struct kv_member *mb;
	unsigned at, n = 0;
	uint8_t *to;

	for (at = 0; (mb = kv_member_next(m, &at));) {
		if (mb->heir || !kv_member_is_for(mb, p))
			continue;
		to = kv_bytes_reserve(out, kv_member_record_bytes(mb));
		if (!to)
			return -ENOMEM;
		out->len += kv_member_record(mb, to);
		n++;
	}
	*count = n;
	return 0;
}
