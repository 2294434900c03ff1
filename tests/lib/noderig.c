#include "noderig.h"

#include "test.h"

struct simnode sim;
uint8_t blob[SIMNODE_POOL];

int
noderig_open(const struct simnode_opts *opts)
{
	for (size_t i = 0; i < sizeof(blob); i++)
		blob[i] = (uint8_t)(i * 31 + i / 251);
	simnode_open(&sim, opts);
	for (unsigned i = 0; i < opts->masters; i++)
		simnode_master_up(&sim, i);
	simnode_run(&sim, 50);
	assert_int_equal(kv_node_sessions(sim.node), opts->masters);
	return 0;
}

int
noderig_alone(void **state)
{
	(void)state;
	return noderig_open(&(struct simnode_opts){ 0 });
}

int
noderig_one(void **state)
{
	(void)state;
	return noderig_open(&(struct simnode_opts){ .masters = 1 });
}

int
noderig_two(void **state)
{
	(void)state;
	return noderig_open(&(struct simnode_opts){ .masters = 2 });
}

int
noderig_one_down(void **state)
{
	(void)state;
	simnode_open(&sim, &(struct simnode_opts){ .masters = 1 });
	return 0;
}

int
noderig_two_down(void **state)
{
	(void)state;
	simnode_open(&sim, &(struct simnode_opts){ .masters = 2 });
	return 0;
}

void
noderig_join(unsigned i)
{
	simnode_master_up(&sim, i);
	simnode_run(&sim, 1200);
	assert_true(sim.masters[i].has_peer);
}

int
noderig_kept_alone(void **state)
{
	(void)state;
	return noderig_open(&(struct simnode_opts){ .has_file = true });
}

int
noderig_kept_one(void **state)
{
	(void)state;
	return noderig_open(
		&(struct simnode_opts){ .masters = 1, .has_file = true });
}

int
noderig_close(void **state)
{
	(void)state;
	simnode_close(&sim);
	return 0;
}

void
noderig_crash(bool they_stay)
{
	simnode_crash(&sim);
	if (!they_stay)
		sim.file.attached = 0;
	simnode_restart(&sim);
	assert_int_equal(kv_node_ready(sim.node, 0, SIMNODE_POOL), 0);
}
