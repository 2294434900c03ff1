#include "svc/survey.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/num.h"
#include "base/status.h"

/* Keys of one LOOKUP: its frame and that of the answer are bounded, and a large
 * call has several, which are hashed, sent and looked up at once. (With all
 * that is around them they fit into 128 KiB.) */
#define FRAME_KEYS 8128
/* A node that is silent so long is not waited for. */
#define POLL_NS KV_NS_PER_S
/* Who only asks knows the nodes as of when it began: the table is asked for,
 * beside the call, when it is older. */
#define NODES_AGE_NS (3 * KV_NS_PER_S)
/* One that the master hides is most likely dead. */
#define POLL_HIDDEN_NS (250 * KV_NS_PER_MS)

/* One node asked for the keys that the directory does not know. */
struct poll {
	struct kv_list link;
	struct kv_survey *s;
	struct kv_link *to;
	struct kv_call call;
	struct kv_link_wait wait;
	struct kv_id boot;
	uint64_t patience;
	size_t *missing; /* their numbers */
	size_t n;
	size_t pos;
	size_t asked;
};

static void poll_next(struct poll *p);

static void
survey_end(struct kv_survey *s, int status)
{
	bool is_sure =
		s->has_directory || (s->ch->hub->n_masters == 0 && s->heard);

	if (s->lack)
		s->doubt = s->lack;
	else if (status < 0 && kv_loop_now(s->ch->loop) >= s->deadline)
		s->doubt = -KV_ETIMEOUT;
	else if (!is_sure)
		s->doubt = -KV_EUNREACHABLE;
	s->done(s, status);
}

/* A failure on the way; what this process lacks is remembered. */
static void
survey_note(struct kv_survey *s, int status)
{
	s->status = status;
	if (kv_status_scope(status) == KV_SCOPE_SELF)
		s->lack = status;
}

/* Sets the hashes of the first n keys. */
static void
hash_until(struct kv_survey *s, size_t n)
{
	const struct kv_key *k;

	for (; s->names && s->hashed < n; s->hashed++) {
		k = &s->names[s->hashed];
		s->keys[s->hashed].hash =
			kv_key_hash(s->ch->hub->key_seed, k->data, k->len);
	}
}

/* ---- nodes ---- */

static void
poll_free(struct poll *p)
{
	kv_rpc_cancel(&p->call);
	kv_link_wait_cancel(&p->wait);
	kv_list_del(&p->link);
	p->to->users--;
	free(p->missing);
	free(p);
}

static void
poll_end(struct poll *p, int status)
{
	struct kv_survey *s = p->s;

	if (status < 0)
		survey_note(s, status);
	else
		s->heard = true;
	if (!p->to->is_local)
		kv_chan_report(s->ch, &p->boot, status);
	poll_free(p);
	if (kv_list_is_empty(&s->polls))
		survey_end(s, s->heard ? 0 : s->status);
}

/* Its number; -1: no memory, which is noted. */
static int
boot_number(struct kv_survey *s, const struct kv_id *boot)
{
	struct kv_id *more;
	unsigned i;

	for (i = 0; i < s->n_boots; i++)
		if (kv_id_is_equal(s->boots[i], *boot))
			return (int)i;
	more = KV_FAULT_POINT()
		       ? NULL
		       : realloc(s->boots, (s->n_boots + 1) * sizeof(*more));
	if (!more) {
		survey_note(s, -KV_ENOMEM);
		return -1;
	}
	s->boots = more;
	s->boots[s->n_boots] = *boot;
	return (int)s->n_boots++;
}

static void
owner_add(struct kv_survey_key *k, int number)
{
	unsigned i;

	k->exists = 1;
	for (i = 0; i < k->n; i++)
		if (k->owners[i] == number)
			return;
	if (number >= 0 && k->n < KV_REPLICAS_MAX)
		k->owners[k->n++] = (uint16_t)number;
}

static void
poll_answered(struct kv_call *call, int status, const struct kv_msg *msg)
{
	struct poll *p = KV_CONTAINER_OF(call, struct poll, call);
	const struct kv_lookup_r *r;
	size_t i;
	int number;

	if (status < 0) {
		/* It answers nobody: later calls do not wait for it again. */
		if (status == -ETIMEDOUT && !p->to->is_local)
			kv_link_drop(p->to, -KV_ETIMEOUT);
		poll_end(p, -kv_status_from_errno(status));
		return;
	}
	r = msg->body;
	if (msg->type != KV_MSG_LOOKUP_R || kv_get32(r->count) != p->asked ||
	    msg->tail_len < p->asked) {
		poll_end(p, -KV_EPROTO);
		return;
	}
	number = boot_number(p->s, &p->to->boot);
	for (i = 0; i < p->asked; i++)
		if (msg->tail[i])
			owner_add(&p->s->keys[p->missing[p->pos + i]], number);
	p->pos += p->asked;
	poll_next(p);
}

static void
poll_send(struct poll *p)
{
	struct kv_rpc *rpc = &p->to->ctl.rpc;
	struct kv_lookup *body;
	struct kv_id *ids;
	size_t i;

	p->asked = kv_min_size(p->n - p->pos, FRAME_KEYS);
	p->call.fn = poll_answered;
	body = kv_rpc_begin(
		rpc, &p->call, KV_MSG_LOOKUP,
		kv_chan_patience(p->s->ch, p->s->deadline, 0, p->patience));
	if (!body) {
		poll_end(p, -kv_status_from_errno(errno));
		return;
	}
	body->count = kv_le32((uint32_t)p->asked);
	body->flags = KV_LOOKUP_EXIST;
	ids = kv_conn_tail(rpc->conn, p->asked * sizeof(*ids));
	if (!ids) {
		kv_rpc_cancel(&p->call);
		poll_end(p, -KV_ENOMEM);
		return;
	}
	for (i = 0; i < p->asked; i++)
		ids[i] = kv_key_hash_build(
			p->s->keys[p->missing[p->pos + i]].hash);
	kv_rpc_end(rpc);
}

static void
poll_open(struct kv_link_wait *w, int status)
{
	struct poll *p = KV_CONTAINER_OF(w, struct poll, wait);

	if (status < 0)
		poll_end(p, status);
	else
		poll_send(p);
}

static void
poll_next(struct poll *p)
{
	int rc;

	if (p->pos == p->n) {
		poll_end(p, 0);
		return;
	}
	p->wait.fn = poll_open;
	rc = kv_link_open(p->to, &p->wait, false, p->s->deadline);
	if (rc > 0)
		poll_send(p);
	else if (rc < 0)
		poll_end(p, rc);
}

/* Prepares the question to one node. */
static void
poll_add(struct kv_survey *s, struct kv_link *to, const struct kv_id *boot,
	 uint64_t patience)
{
	struct poll *p = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*p));
	size_t i;

	if (p)
		p->missing = calloc(s->n, sizeof(*p->missing));
	if (!p || !p->missing) {
		survey_note(s, -KV_ENOMEM);
		free(p);
		return;
	}
	for (i = 0; i < s->n; i++)
		if (!s->keys[i].exists)
			p->missing[p->n++] = i;
	p->s = s;
	p->to = to;
	p->boot = *boot;
	p->patience = patience;
	to->users++;
	kv_list_add_tail(&s->polls, &p->link);
}

/* May the node have what the directory does not name? It leaves out whom this
 * host has reported (whether they are back is found out here), and whom others
 * cannot reach (while this process does). */
static bool
is_left_out(const struct kv_survey *s, const struct kv_id *boot)
{
	return kv_hub_has_failed(s->ch->hub, boot) ||
	       (s->hides && kv_chan_is_linked(s->ch, boot));
}

/* some: those that a complete directory may have left out. */
static void
polls_prepare(struct kv_survey *s, bool some)
{
	struct kv_chan *ch = s->ch;
	struct kv_hub_node *nodes;
	uint64_t now = kv_loop_now(ch->loop);
	bool local_known = false;
	struct kv_link *to;
	unsigned i, n;

	nodes = kv_hub_nodes(ch->hub, &n);
	if (!nodes)
		survey_note(s, -KV_ENOMEM);
	for (i = 0; nodes && i < n; i++) {
		if (some && !is_left_out(s, &nodes[i].boot))
			continue;
		if (!kv_hub_try(ch->hub, &nodes[i].boot, now))
			continue;
		to = kv_chan_link(ch, &nodes[i].boot);
		if (to)
			poll_add(s, to, &nodes[i].boot,
				 some && s->hides ? POLL_HIDDEN_NS : POLL_NS);
		else if (errno != ENOENT)
			survey_note(s, -KV_ENOMEM);
		local_known = local_known || to == ch->local;
	}
	if (ch->local && !local_known && !some)
		poll_add(s, ch->local, &ch->local->boot, POLL_NS);
	free(nodes);
}

/* Masters have spoken, or cannot: ask the nodes. */
static void
polls_start(struct kv_survey *s, bool some)
{
	struct poll *p, *tmp;

	hash_until(s, s->n);
	polls_prepare(s, some);
	if (kv_list_is_empty(&s->polls)) {
		survey_end(s, s->heard ? 0 : s->status);
		return;
	}
	/* The last one's end is the survey's: nothing of it is used after. */
	KV_LIST_FOREACH_SAFE(p, tmp, &s->polls, link) {
		bool is_last = p->link.next == &s->polls;

		poll_next(p);
		if (is_last)
			break;
	}
}

/* ---- masters ---- */

static void round_next(struct kv_survey *s);

/* The i-th key of this round. */
static struct kv_survey_key *
key_at(const struct kv_survey *s, size_t i)
{
	return &s->keys[s->left ? s->left[i] : i];
}

static int
master_build(struct kv_ask *ask, struct kv_conn *c, void *body)
{
	struct kv_survey_frame *f =
		KV_CONTAINER_OF(ask, struct kv_survey_frame, ask);
	struct kv_lookup *l = body;
	struct kv_id *ids;
	size_t i;

	l->count = kv_le32((uint32_t)f->n);
	l->flags = f->s->exist_only ? KV_LOOKUP_EXIST : 0;
	ids = kv_conn_tail(c, f->n * sizeof(*ids));
	if (!ids)
		return -ENOMEM;
	for (i = 0; i < f->n; i++)
		ids[i] = kv_key_hash_build(key_at(f->s, f->pos + i)->hash);
	return 0;
}

static int
exist_take(struct kv_survey_frame *f, const struct kv_msg *msg)
{
	const struct kv_lookup_r *r = msg->body;
	size_t i;

	if (kv_get32(r->count) != f->n || msg->tail_len != f->n)
		return -KV_EPROTO;
	for (i = 0; i < f->n; i++)
		key_at(f->s, f->pos + i)->exists = msg->tail[i] != 0;
	return 0;
}

static int
owners_take(struct kv_survey_frame *f, const struct kv_msg *msg)
{
	struct kv_survey *s = f->s;
	struct kv_map_lookup m;
	struct kv_map_node node;
	struct kv_cut again;
	int *numbers, rc;
	size_t i, at = 0;
	unsigned j;

	if (kv_map_lookup_parse(msg, (unsigned)f->n, &m) < 0)
		return -KV_EPROTO;
	again = m.records;
	rc = kv_hub_learn(s->ch->hub, &again, m.nodes);
	if (rc < 0)
		return -kv_status_from_errno(rc);
	numbers =
		KV_FAULT_POINT() ? NULL : calloc(m.nodes + 1, sizeof(*numbers));
	if (!numbers)
		return -KV_ENOMEM;
	for (j = 0; j < m.nodes && kv_map_node_take(&m.records, &node); j++)
		numbers[j] = boot_number(s, &node.rec->boot);
	for (i = 0; i < f->n; i++)
		for (j = 0; j < m.owners[i]; j++)
			owner_add(key_at(s, f->pos + i),
				  numbers[kv_get16(m.index[at++])]);
	free(numbers);
	return 0;
}

static bool
has_missing(const struct kv_survey *s)
{
	size_t i;

	for (i = 0; i < s->n; i++)
		if (!s->keys[i].exists)
			return true;
	return false;
}

/* No master can say more: what is missing is a miss, or nodes know. A node that
 * is slow may be left by each master to another one, which does not hear of it
 * either any more. */
static void
masters_end(struct kv_survey *s)
{
	bool is_open = s->gaps & (KV_LOOKUP_INCOMPLETE | KV_LOOKUP_LACKS);

	if (has_missing(s) &&
	    (is_open || s->hides || kv_hub_has_sick(s->ch->hub)))
		polls_start(s, !is_open);
	else
		survey_end(s, 0);
}

static void master_answered(struct kv_ask *ask, int status,
			    const struct kv_msg *msg);

/* Sends what may be under way. */
static void
master_next(struct kv_survey *s)
{
	struct kv_survey_frame *f;

	if (s->told == s->n_left) {
		round_next(s);
		return;
	}
	for (f = s->frames; f < s->frames + KV_SURVEY_FRAMES; f++) {
		if (f->n > 0 || s->pos == s->n_left)
			continue;
		f->s = s;
		f->pos = s->pos;
		f->n = kv_min_size(s->n_left - s->pos, FRAME_KEYS);
		s->pos += f->n;
		if (!s->left)
			hash_until(s, s->pos);
		f->ask.type = KV_MSG_LOOKUP;
		f->ask.deadline = s->deadline;
		f->ask.build = master_build;
		f->ask.fn = master_answered;
		f->ask.skip = s->spoke;
		/* One that failed may be the only one that has some node. */
		f->ask.is_extra = s->rounds > 1 && !s->gaps;
		kv_ask_start(s->ch, &f->ask);
	}
}

static void
frames_cancel(struct kv_survey *s)
{
	struct kv_survey_frame *f;

	for (f = s->frames; f < s->frames + KV_SURVEY_FRAMES; f++) {
		kv_ask_cancel(&f->ask);
		f->n = 0;
	}
}

/* They failed, or there is none. Deferred, for what failed may be a connection
 * that is just being given up, with all the frames on it. */
static void
masters_failed(struct kv_defer *d)
{
	struct kv_survey *s = KV_CONTAINER_OF(d, struct kv_survey, defer);

	frames_cancel(s);
	if (kv_loop_now(s->ch->loop) >= s->deadline)
		survey_end(s, s->heard ? 0 : s->status);
	else if (s->heard && s->told == 0)
		masters_end(s);
	else
		polls_start(s, false);
}

static void
master_answered(struct kv_ask *ask, int status, const struct kv_msg *msg)
{
	struct kv_survey_frame *f =
		KV_CONTAINER_OF(ask, struct kv_survey_frame, ask);
	struct kv_survey *s = f->s;
	const struct kv_lookup_r *r;

	if (status == 0) {
		r = msg->body;
		status = kv_status_of_peer(r->status);
	}
	if (status == 0)
		status = s->exist_only ? exist_take(f, msg)
				       : owners_take(f, msg);
	if (status < 0) {
		survey_note(s, status);
		kv_loop_defer(s->ch->loop, &s->defer);
		return;
	}
	r = msg->body;
	s->heard = true;
	s->hides |= (r->flags & KV_LOOKUP_HIDES) != 0;
	s->flags |= r->flags & ~KV_LOOKUP_HIDES;
	s->answered &= 1u << ask->master;
	s->told += f->n;
	f->n = 0;
	master_next(s);
}

/* Begins with the keys that are still missing, or with all again. */
static void
round_start(struct kv_survey *s)
{
	size_t i, n = 0;

	free(s->left);
	s->left = KV_FAULT_POINT() ? NULL : calloc(s->n, sizeof(*s->left));
	if (!s->left) {
		survey_note(s, -KV_ENOMEM);
		masters_end(s);
		return;
	}
	for (i = 0; i < s->n; i++)
		if (!s->keys[i].exists || s->ask_all)
			s->left[n++] = i;
	s->n_left = n;
	s->pos = s->told = 0;
	s->flags = 0;
	s->answered = UINT_MAX;
	s->rounds++;
	master_next(s);
}

/* A node that came meanwhile is asked when masters do not know, or are away. */
static void
nodes_refresh(struct kv_chan *ch)
{
	if (kv_hub_is_stale(ch->hub, kv_loop_now(ch->loop), NODES_AGE_NS))
		kv_chan_refresh(ch, NULL, NULL);
}

/* All keys of a round were asked. */
static void
round_next(struct kv_survey *s)
{
	nodes_refresh(s->ch);
	/* Frames may have been answered by different ones. */
	s->spoke |= s->answered;
	s->gaps |= s->flags;
	s->has_directory = true;
	if (s->flags == 0 && !s->ask_all)
		s->gaps = 0; /* this one knows */
	if (s->rounds < s->ch->hub->n_masters &&
	    (s->ask_all || (s->flags != 0 && has_missing(s))))
		round_start(s);
	else
		masters_end(s);
}

void
kv_survey_start(struct kv_chan *ch, struct kv_survey *s)
{
	s->ch = ch;
	s->status = -KV_EUNREACHABLE;
	kv_list_init(&s->polls);
	s->defer = (struct kv_defer){ .fn = masters_failed };
	if (ch->hub->n_masters == 0) {
		kv_loop_defer(ch->loop, &s->defer);
		return;
	}
	s->n_left = s->n;
	s->answered = UINT_MAX;
	s->rounds = 1;
	master_next(s);
}

void
kv_survey_fini(struct kv_survey *s)
{
	struct poll *p;

	if (!s->ch)
		return;
	frames_cancel(s);
	kv_loop_defer_del(&s->defer);
	while ((p = KV_LIST_FIRST(&s->polls, struct poll, link)))
		poll_free(p);
	free(s->left);
	s->left = NULL;
	free(s->boots);
	s->boots = NULL;
	s->n_boots = 0;
}
