/*
 * One PUBLISH: what a node holds, then what it holds no more, in the order in
 * which the frame says it. A small frame is done at once. A large one (nodes
 * publish all they have after a restart of this master, all at the same time)
 * is copied and done in slices, a slice of one frame a turn, so that requests
 * pass between them; its node is not read from meanwhile.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/num.h"
#include "base/status.h"
#include "svc/mastercore.h"

#define SMALL_ENTS 256
#define SLICE_ENTS 4096
#define SLICE_NS                                                   \
	(1 * KV_NS_PER_MS) /* while the directory grows, adds take \
			    * a multiple of their usual time */
#define STEP_ENTS 128      /* between two looks at the clock */
#define AHEAD     16       /* entries between the steps of fetching memory */

struct kv_intake {
	struct kv_list link; /* master->jobs */
	struct kv_masterpeer *p;
	uint64_t id;
	uint8_t flags;
	size_t added, gone;
	size_t next; /* entry */
	const struct kv_publish_ent *ents;
	uint8_t *verdicts;
	size_t losers;
};

static struct kv_hash
ent_hash(const struct kv_publish_ent *e)
{
	return kv_key_hash_parse(e->hash);
}

static struct kv_dir_id
ent_id(const struct kv_publish_ent *e)
{
	return (struct kv_dir_id){
		.random = kv_get64(e->put_id.random),
		.version = kv_get32(e->put_id.version),
	};
}

/* Asks for memory of entries whose turn comes later. */
static void
job_prefetch(const struct kv_intake *j, const struct kv_dir *dir)
{
	size_t n = j->added + j->gone, at = j->next + AHEAD;

	if (at < n)
		kv_dir_prefetch(dir, ent_hash(&j->ents[at]));
	at += AHEAD;
	if (at < n)
		kv_dir_prefetch_word(dir, ent_hash(&j->ents[at]));
}

/* Entries up to `end`. 0 or -ENOMEM. */
static int
job_run(struct kv_intake *j, size_t end)
{
	struct kv_member *mb = j->p->member;
	const struct kv_publish_ent *e;
	int verdict;

	for (; j->next < end; j->next++) {
		job_prefetch(j, mb->m->dir);
		e = &j->ents[j->next];
		if (j->next >= j->added) {
			kv_verdict_cancel(mb, ent_hash(e), ent_id(e));
			kv_member_forget(mb, ent_hash(e), ent_id(e));
			kv_verdict_gone(mb->m, ent_hash(e));
			continue;
		}
		verdict = kv_verdict_add(mb, ent_hash(e), ent_id(e),
					 e->flags & KV_PUBLISH_SHOWN);
		if (verdict < 0)
			return verdict;
		j->verdicts[j->next] = (uint8_t)verdict;
		j->losers += verdict == KV_VERDICT_GOES;
	}
	return 0;
}

static int
job_slice(struct kv_intake *j)
{
	struct kv_loop *loop = j->p->m->loop;
	uint64_t start = kv_loop_refresh(loop);
	size_t n = j->added + j->gone;
	size_t end = kv_min_size(n, j->next + SLICE_ENTS);
	int rc;

	do {
		rc = job_run(j, kv_min_size(end, j->next + STEP_ENTS));
	} while (rc == 0 && j->next < end &&
		 kv_loop_refresh(loop) - start < SLICE_NS);
	return rc;
}

static void
job_answer(struct kv_masterpeer *p, uint64_t id, int status,
	   const uint8_t *verdicts, size_t n)
{
	struct kv_publish_r *r;
	void *tail;

	r = kv_conn_begin_tail(p->conn, KV_MSG_PUBLISH_R, id, 0, n, &tail);
	if (!r)
		return;
	r->status = (uint8_t)status;
	r->count = kv_le32((uint32_t)n);
	if (n > 0)
		memcpy(tail, verdicts, n);
	kv_conn_end(p->conn);
}

static void
job_end(struct kv_intake *j, int rc)
{
	struct kv_member *mb = j->p->member;
	struct kv_master *m = mb->m;

	if (rc < 0) {
		job_answer(j->p, j->id, KV_ENOMEM, NULL, 0);
		return;
	}
	mb->progress = kv_master_now(m);
	kv_master_count(m, KV_MASTERSTAT_PUBLISHED, j->added);
	kv_master_count(m, KV_MASTERSTAT_WITHDRAWN, j->gone);
	mb->withdrawn += j->gone;
	if (j->added > 0 && !(j->flags & KV_PUBLISH_SYNC))
		kv_masterstats_op(m, KV_MASTERSTAT_PUT_END, j->added,
				  j->losers);
	job_answer(j->p, j->id, KV_OK, j->verdicts, j->added);
	if (j->flags & KV_PUBLISH_SYNC_END)
		kv_member_synced(mb);
}

static void
job_free(struct kv_intake *j)
{
	j->p->job = NULL;
	kv_list_del(&j->link);
	free(j);
}

void
kv_intake_work(struct kv_defer *d)
{
	struct kv_master *m = KV_CONTAINER_OF(d, struct kv_master, work);
	struct kv_intake *j;
	struct kv_masterpeer *p;
	size_t n;
	int rc;

	j = KV_LIST_FIRST(&m->jobs, struct kv_intake, link);
	if (!j)
		return;
	n = j->added + j->gone;
	rc = job_slice(j);
	kv_list_del(&j->link);
	kv_list_add_tail(&m->jobs, &j->link);
	if (rc < 0 || j->next == n) {
		p = j->p;
		job_end(j, rc);
		job_free(j);
		kv_masterpeer_pause(p, KV_MASTERPEER_PAUSE_JOB, false);
	}
	if (!kv_list_is_empty(&m->jobs))
		kv_loop_defer(m->loop, d);
}

/* Copies the frame and puts it in the queue. */
static int
job_queue(const struct kv_intake *now)
{
	size_t bytes = (now->added + now->gone) * sizeof(*now->ents);
	struct kv_masterpeer *p = now->p;
	struct kv_intake *j = KV_FAULT_POINT()
				      ? NULL
				      : malloc(sizeof(*j) + bytes + now->added);

	if (!j)
		return -ENOMEM;
	*j = *now;
	memcpy(j + 1, now->ents, bytes);
	j->ents = (const struct kv_publish_ent *)(j + 1);
	j->verdicts = (uint8_t *)(j + 1) + bytes;
	kv_list_add_tail(&p->m->jobs, &j->link);
	p->job = j;
	kv_masterpeer_pause(p, KV_MASTERPEER_PAUSE_JOB, true);
	kv_loop_defer(p->m->loop, &p->m->work);
	return 0;
}

int
kv_intake_msg(struct kv_masterpeer *p, const struct kv_msg *msg)
{
	const struct kv_publish *pub = msg->body;
	uint8_t verdicts[SMALL_ENTS];
	struct kv_intake j = {
		.p = p,
		.id = msg->id,
		.flags = pub->flags,
		.added = kv_get32(pub->added),
		.gone = kv_get32(pub->gone),
		.verdicts = verdicts,
	};
	struct kv_cut cut;

	kv_cut_init(&cut, msg);
	j.ents = kv_cut_array(&cut, j.added + j.gone, sizeof(*j.ents));
	if (!kv_cut_done(&cut) || (!p->member && !p->has_left) ||
	    pub->flags & ~(KV_PUBLISH_SYNC | KV_PUBLISH_SYNC_END))
		return -EPROTO;
	if (!p->member)
		job_answer(p, msg->id, KV_ECLOSED, NULL, 0);
	else if (j.added + j.gone <= SMALL_ENTS)
		job_end(&j, job_run(&j, j.added + j.gone));
	else if (job_queue(&j) < 0)
		job_answer(p, msg->id, KV_ENOMEM, NULL, 0);
	kv_masterpeer_charge(p, j.added + j.gone);
	return 0;
}

void
kv_intake_peer_lost(struct kv_masterpeer *p)
{
	if (p->job)
		job_free(p->job);
}
