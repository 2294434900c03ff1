#include "svc/relay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/status.h"
#include "net/answer.h"
#include "svc/relaycore.h"

static const struct kv_relay_kind *const kinds[] = {
	[KV_MSG_REMOVE] = &kv_relayrm_kind,
	[KV_MSG_KEYS] = &kv_relayls_keys,
	[KV_MSG_QUERY] = &kv_relayls_query,
};

/* ---- the end ---- */

static void
relay_free(struct kv_relay *r)
{
	struct kv_relayleg *leg, *tmp;

	KV_LIST_FOREACH_SAFE(leg, tmp, &r->legs, link)
		kv_relayleg_free(leg);
	kv_loop_defer_del(&r->end);
	kv_list_del(&r->link);
	kv_list_del(&r->mine);
	if (r->p)
		r->p->n_relays--;
	r->m->n_relays--;
	kv_bytes_fini(&r->away);
	kv_bytes_fini(&r->out);
	kv_bytes_fini(&r->tail);
	free(r->keys);
	free(r);
}

/* ERROR_R into relay->out. */
static bool
error_build(struct kv_relay *r)
{
	size_t len = strlen(r->text);
	struct kv_error_r body = {
		.status = (uint8_t)r->error,
		.text_len = kv_le32((uint32_t)len),
	};

	kv_bytes_reset(&r->out);
	return kv_bytes_append(&r->out, &body, sizeof(body)) == 0 &&
	       kv_bytes_append(&r->out, r->text, len) == 0;
}

static void
answer_send(struct kv_relay *r, const struct kv_msg *a)
{
	size_t body_bytes = kv_msg_body_bytes(a->type);
	void *body, *tail;

	body = kv_conn_begin_tail(r->p->conn, a->type, r->id, 0, a->tail_len,
				  &tail);
	if (!body)
		return;
	memcpy(body, a->body, body_bytes);
	if (a->tail_len > 0)
		memcpy(tail, a->tail, a->tail_len);
	kv_conn_end(r->p->conn);
}

static void
relay_end(struct kv_defer *d)
{
	struct kv_relay *r = KV_CONTAINER_OF(d, struct kv_relay, end);
	struct kv_msg a = { .type = r->type + 128, .id = r->id };
	struct kv_master *m = r->m;
	size_t body_bytes;
	bool is_built;

	kv_master_count(m, KV_MASTERSTAT_RELAYS_AWAY,
			r->away.len / sizeof(struct kv_id));
	is_built = r->error == KV_OK && r->kind->finish(r);
	if (!is_built) {
		if (r->error == KV_OK)
			r->error = KV_ENOMEM;
		a.type = KV_MSG_ERROR_R;
		is_built = error_build(r);
	}
	body_bytes = kv_msg_body_bytes(a.type);
	if (is_built) {
		a.body = r->out.data;
		a.tail = r->out.data + body_bytes;
		a.tail_len = r->out.len - body_bytes;
	}
	if (is_built && r->p)
		answer_send(r, &a);
	else if (is_built && r->fn)
		r->fn(r->arg, &a);
	relay_free(r);
	kv_master_drained(m);
}

bool
kv_relay_is_doubted(const struct kv_member *mb)
{
	return !mb->heir && (mb->is_parted || !kv_peermasters_is_fresh(mb));
}

bool
kv_relay_send_all(struct kv_relay *r, const struct kv_msg *msg,
		  bool only_doubted)
{
	struct kv_relayleg *leg;
	struct kv_member *mb;
	unsigned at;

	for (at = 0; (mb = kv_member_next(r->m, &at));) {
		if (mb->heir || (only_doubted && !kv_relay_is_doubted(mb)))
			continue;
		leg = kv_relayleg_new(r, mb);
		if (!leg)
			return false;
		kv_relayleg_send(leg, mb, msg->body, msg->tail, msg->tail_len);
	}
	return true;
}

/* ---- the beginning ---- */

/* Nodes that only other masters have are not asked. */
static bool
lacking_are_away(struct kv_relay *r)
{
	uint64_t ids[KV_NODES_MAX];
	unsigned n = kv_peermasters_absent(r->m, ids, KV_NODES_MAX), i;
	struct kv_id boot = { { 0 } };
	struct kv_le64 half;

	for (i = 0; i < n; i++) {
		half = kv_le64(ids[i]);
		memcpy(&boot, &half, sizeof(half));
		if (kv_bytes_append(&r->away, &boot, sizeof(boot)) < 0)
			return false;
	}
	return true;
}

bool
kv_relay_may_ask(const struct kv_relay *r, const char *tenant, size_t len)
{
	static const char none[] = "default";
	const struct kv_masterpeer *p = r->p;
	const char *own = none;
	size_t own_len = sizeof(none) - 1;

	if (!p)
		return true;
	if (p->tenant_len > 0) {
		own = p->tenant;
		own_len = p->tenant_len;
	}
	if (len == 0) {
		tenant = none;
		len = sizeof(none) - 1;
	}
	return len == own_len && memcmp(tenant, own, len) == 0;
}

static struct kv_relay *
relay_new(struct kv_master *m, const struct kv_msg *msg)
{
	struct kv_relay *r = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->m = m;
	r->kind = kinds[msg->type];
	r->type = msg->type;
	r->id = msg->id;
	r->end.fn = relay_end;
	kv_list_init(&r->legs);
	kv_list_init(&r->mine);
	kv_list_add_tail(&m->relays, &r->link);
	m->n_relays++;
	return r;
}

/* 0, or -EPROTO: then it is gone. */
static int
relay_start(struct kv_relay *r, const struct kv_msg *msg)
{
	int rc = r->kind->start(r, msg);
	struct kv_relayleg *leg, *tmp;

	if (rc < 0) {
		relay_free(r);
		return rc;
	}
	if (rc > 0)
		r->error = rc;
	else if (r->type != KV_MSG_KEYS && !lacking_are_away(r))
		r->error = KV_ENOMEM;
	/* It broke off between making a leg and sending it. */
	KV_LIST_FOREACH_SAFE(leg, tmp, &r->legs, link)
		if (!kv_rpc_is_under_way(&leg->call))
			kv_relayleg_end(leg);
	r->is_asked = true;
	if (kv_list_is_empty(&r->legs))
		kv_loop_defer(r->m->loop, &r->end);
	return 0;
}

static bool
is_over_bound(const struct kv_master *m)
{
	return m->n_relays >= KV_MASTER_RELAYS_MAX ||
	       m->phase != KV_MASTER_RUNNING;
}

int
kv_relay_msg(struct kv_masterpeer *p, const struct kv_msg *msg)
{
	struct kv_relay *r;

	if (is_over_bound(p->m) || p->n_relays >= KV_PEER_REQUESTS_MAX) {
		kv_answer_error(p->conn, msg->id, KV_EBUSY, NULL);
		return 0;
	}
	r = relay_new(p->m, msg);
	if (!r) {
		kv_answer_error(p->conn, msg->id, KV_ENOMEM, NULL);
		return 0;
	}
	r->p = p;
	p->n_relays++;
	kv_list_add_tail(&p->relays, &r->mine);
	kv_masterpeer_charge(p, msg->tail_len / sizeof(struct kv_id));
	return relay_start(r, msg);
}

struct kv_relay *
kv_relay_ask(struct kv_master *m, const struct kv_msg *question,
	     kv_relay_fn *fn, void *arg)
{
	struct kv_relay *r;
	int rc;

	assert(question->type < KV_ARRAY_LEN(kinds) && kinds[question->type]);
	if (is_over_bound(m)) {
		errno = EBUSY;
		return NULL;
	}
	r = relay_new(m, question);
	if (!r)
		return NULL;
	r->fn = fn;
	r->arg = arg;
	rc = relay_start(r, question);
	if (rc < 0) {
		errno = -rc;
		return NULL;
	}
	return r;
}

void
kv_relay_forget(struct kv_relay *r)
{
	r->fn = NULL;
}

void
kv_relay_peer_lost(struct kv_masterpeer *p)
{
	struct kv_relay *r;

	while ((r = KV_LIST_FIRST(&p->relays, struct kv_relay, mine))) {
		kv_list_del(&r->mine);
		r->p = NULL;
	}
	p->n_relays = 0;
}

void
kv_relay_fini(struct kv_master *m)
{
	struct kv_relay *r, *tmp;

	KV_LIST_FOREACH_SAFE(r, tmp, &m->relays, link)
		relay_free(r);
}
