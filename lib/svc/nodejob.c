#include "base/attr.h"
#include "svc/nodecore.h"

static void
jobs_turn(struct kv_defer *d)
{
	struct kv_node *node = KV_CONTAINER_OF(d, struct kv_node, jobs_turn);
	struct kv_nodejob *job;

	job = KV_LIST_FIRST(&node->jobs, struct kv_nodejob, turn);
	if (!job)
		return;
	kv_list_del(&job->turn);
	kv_list_add_tail(&node->jobs, &job->turn);
	if (!job->step(job))
		kv_nodejob_end(job);
	if (!kv_list_is_empty(&node->jobs))
		kv_loop_defer(node->loop, &node->jobs_turn);
}

void
kv_nodejob_init(struct kv_node *node)
{
	kv_list_init(&node->jobs);
	node->jobs_turn.fn = jobs_turn;
}

void
kv_nodejob_start(struct kv_nodejob *job, struct kv_nodepeer *peer, uint64_t id)
{
	job->peer = peer;
	job->id = id;
	kv_list_add_tail(&peer->node->jobs, &job->turn);
	kv_list_add_tail(&peer->jobs, &job->link);
	peer->requests++;
	peer->node->n_jobs++;
	kv_loop_defer(peer->node->loop, &peer->node->jobs_turn);
}

void
kv_nodejob_end(struct kv_nodejob *job)
{
	struct kv_node *node = job->peer->node;

	job->peer->requests--;
	node->n_jobs--;
	kv_list_del(&job->turn);
	kv_list_del(&job->link);
	job->free(job);
	kv_node_drained(node);
}
