/* Calls by as many threads as are to be under way, and the memory for them. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/num.h"
#include "base/sample.h"
#include "base/thread.h"
#include "cmd/kvbench_link.h"

/* ---- threads ---- */

struct shared {
	const struct kvbench_load *load;
	uint64_t until_ns;
	_Atomic int status;
};

struct worker {
	struct shared *s;
	pthread_t thread;
	bool runs;
	unsigned number;
	uint64_t calls;
	struct kv_hist hist;
};

static uint64_t
now_ns(void)
{
	return kv_clock_now(&(struct kv_clock){ 0 });
}

static void *
work(void *arg)
{
	struct worker *w = arg;
	struct shared *s = w->s;
	const struct kvbench_load *load = s->load;
	uint64_t start = now_ns(), end, n;
	int rc;

	while (start < s->until_ns && atomic_load(&s->status) == 0) {
		n = w->number + w->calls * load->depth;
		if (load->calls_max > 0 && n >= load->calls_max)
			break;
		rc = load->call(load->arg, n);
		end = now_ns();
		if (rc) {
			int none = 0;

			atomic_compare_exchange_strong(&s->status, &none, rc);
			break;
		}
		kv_hist_add(&w->hist, end - start);
		w->calls++;
		start = end;
	}
	return NULL;
}

uint64_t
kvbench_load_cpu_ns(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return ((uint64_t)u.ru_utime.tv_sec + (uint64_t)u.ru_stime.tv_sec) *
		       KV_NS_PER_S +
	       ((uint64_t)u.ru_utime.tv_usec + (uint64_t)u.ru_stime.tv_usec) *
		       1000;
}

/* The caller is one of them. */
static void
work_all(struct shared *s, struct worker *workers)
{
	unsigned n = s->load->depth, i;

	for (i = 0; i < n; i++) {
		workers[i].s = s;
		workers[i].number = i;
		kv_hist_init(&workers[i].hist);
		if (i == 0)
			continue;
		workers[i].runs =
			kv_thread_start(&workers[i].thread, KV_THREAD_ANY_CPU,
					work, &workers[i]) == 0;
		if (!workers[i].runs)
			atomic_store(&s->status, -KV_ENOMEM);
	}
	work(&workers[0]);
	for (i = 1; i < n; i++)
		if (workers[i].runs)
			pthread_join(workers[i].thread, NULL);
}

int
kvbench_load_run(struct kvbench_load *load, struct kvbench_link_sum *sum)
{
	struct worker *workers = calloc(load->depth, sizeof(*workers));
	uint64_t cpu = kvbench_load_cpu_ns(), start = now_ns(), ns;
	struct shared s = { .load = load, .until_ns = start + load->time_ns };

	if (!workers)
		return -KV_ENOMEM;
	work_all(&s, workers);
	ns = now_ns() - start;
	load->calls = load->end = 0;
	load->whole = UINT64_MAX;
	for (unsigned i = 0; i < load->depth; i++) {
		uint64_t next = i + workers[i].calls * load->depth;

		load->calls += workers[i].calls;
		load->whole = kv_min_u64(load->whole, next);
		/* One that failed may have been made all the same. */
		load->end = kv_max_u64(load->end, next + 1);
		if (sum)
			kv_hist_merge(&sum->hist, &workers[i].hist);
	}
	if (sum) {
		sum->calls += load->calls;
		sum->ns += ns;
		sum->cpu_ns += kvbench_load_cpu_ns() - cpu;
	}
	free(workers);
	return atomic_load(&s.status);
}

/* ---- memory ---- */

char *
kvbench_load_memory(uint64_t bytes)
{
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	madvise(p, bytes, MADV_HUGEPAGE);
	memset(p, 0x5a, bytes);
	return p;
}

void
kvbench_load_memory_free(char *p, uint64_t bytes)
{
	if (p)
		munmap(p, bytes);
}

void
kvbench_load_fill(char *buf, const struct kvbench_link_cell *cell)
{
	for (uint64_t i = 0; i < cell->slots; i++)
		kv_sample_fill(buf + i * cell->stride, cell->size,
			       cell->seed + i);
}

int64_t
kvbench_load_check(const char *buf, const struct kvbench_link_cell *cell)
{
	for (uint64_t i = 0; i < cell->slots; i++)
		if (kv_sample_check(buf + i * cell->stride, cell->size,
				    cell->seed + i) != cell->size)
			return (int64_t)i;
	return -1;
}
