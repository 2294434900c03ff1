/*
 * usage: race --file=FILE --parties=N --party=I [--OPTION=VALUE...]
 *
 * N processes, at any nodes, meet at each key: behind a barrier (in a file that
 * they share) `writers` of them put it, each a value of its own, the others
 * read it all the time. From the first hit on everybody must see that value and
 * no other; once a put has returned nobody may miss. Exits as hammer does.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "driver.h"
#include "tally.h"
#include "value.h"

#define BIT(status) (1ull << (status))

enum {
	ROUNDS_MAX = 15000, /* 71-promise-1-two-writers with KV_LONG */
	REPLICAS = 8,
};

static struct driver d = { .timeout_ms = 8000 };
static const char *path, *prefix = "race", *prefer;
static uint64_t parties = 2, party, writers = 2, rounds = 100, replicas = 1;
static uint64_t size_max = 3 << 20;

static const struct driver_opt options[] = {
	{ "file", DRIVER_TEXT, &path },
	{ "prefix", DRIVER_TEXT, &prefix },
	{ "prefer", DRIVER_TEXT, &prefer },
	{ "parties", DRIVER_NUMBER, &parties },
	{ "party", DRIVER_NUMBER, &party },
	{ "writers", DRIVER_NUMBER, &writers },
	{ "rounds", DRIVER_NUMBER, &rounds },
	{ "replicas", DRIVER_NUMBER, &replicas },
	{ "size-max", DRIVER_NUMBER, &size_max },
	{ 0 },
};

struct round {
	_Atomic uint32_t winner;  /* writer seen by the first hit; 0: none */
	_Atomic uint32_t is_done; /* a put has returned */
};

static struct shared {
	_Atomic uint64_t arrived; /* at all barriers so far */
	struct round rounds[ROUNDS_MAX];
} * shared;

static struct kv_client *c;
static struct guard guard;
static struct tally tally;
static uint8_t *bytes; /* size_max */

static uint64_t
now_ns(void)
{
	return kv_clock_now(&(struct kv_clock){ 0 });
}

static void
meet(void)
{
	static uint64_t meetings;
	uint64_t until = now_ns() + guard_slow() * 60 * KV_NS_PER_S;

	shared->arrived++;
	meetings++;
	while (shared->arrived < meetings * parties) {
		if (now_ns() > until) {
			fprintf(stderr, "the others do not come\n");
			exit(DRIVER_HANG);
		}
		usleep(50);
	}
}

static struct kv_key
name_key(char *buf, size_t n, uint64_t r)
{
	snprintf(buf, n, "%s/%" PRIu64, prefix, r);
	return (struct kv_key){ buf, strlen(buf) };
}

/* Everybody's values differ in size too. */
static uint64_t
size_of(uint64_t r, uint64_t who)
{
	uint64_t n = size_max * (1 + (r + who) % parties) / parties;

	return r % 10 == 9 ? n % 3000 : n;
}

static void
put(struct kv_key key, uint64_t r)
{
	struct value_part all = { key, size_of(r, party), 0, 0 };
	const struct kv_buf buf = { bytes, size_of(r, party) };
	struct kv_put_item item = { .key = key, .bufs = &buf, .nbufs = 1 };
	const struct kv_put_opts opts = {
		.size = sizeof(opts),
		.replicas = (uint32_t)replicas,
		.prefer = prefer,
	};
	int tries = 0;

	all.len = all.size;
	value_fill(bytes, &all, (uint32_t)party + 1);
	do {
		tally_enter(&guard, TALLY_PUT, d.timeout_ms);
		kv_client_put(c, &item, 1, &opts);
		tally_leave(&tally, &guard, TALLY_PUT);
		tally_key(&tally, TALLY_PUT, item.status,
			  BIT(0) | BIT(KV_EEXISTS) | BIT(KV_EBUSY));
	} while (item.status == -KV_EBUSY && ++tries < 20);
	if (item.status == 0 || item.status == -KV_EEXISTS)
		shared->rounds[r].is_done = 1;
	else
		tally_wrong(&tally, "%.*s: put: %s", (int)key.len,
			    (const char *)key.data,
			    kv_status_name(item.status));
}

static void
judge(struct kv_key key, uint64_t r, const struct kv_buf *pieces, uint64_t size)
{
	struct value_part all = { key, size, 0, size };
	uint32_t writer, first = 0;
	uint64_t bad;

	if (!value_check(pieces, &all, &writer, &bad)) {
		tally_wrong(&tally, "round %" PRIu64 ": byte %" PRIu64, r, bad);
		return;
	}
	if (writer == UINT32_MAX) /* by its size, then */
		writer = (uint32_t)size + (1u << 16);
	if (!atomic_compare_exchange_strong(&shared->rounds[r].winner, &first,
					    writer) &&
	    first != writer)
		tally_wrong(&tally, "round %" PRIu64 ": %u, then %u", r, first,
			    writer);
}

/* Whether it was a hit. A miss is wrong when it must be there. */
static bool
get(struct kv_key key, uint64_t r, bool must)
{
	const struct kv_buf buf = { bytes, size_max };
	struct kv_get_item g = { .key = key, .bufs = &buf, .nbufs = 1 };
	uint8_t there = 0;

	tally_enter(&guard, TALLY_EXIST, d.timeout_ms);
	if (kv_client_exist(c, &key, 1, &there, 0) < 0)
		tally_wrong(&tally, "round %" PRIu64 ": exist fails", r);
	tally_leave(&tally, &guard, TALLY_EXIST);
	if (must && !there)
		tally_wrong(&tally, "round %" PRIu64 ": does not exist", r);
	tally_enter(&guard, TALLY_GET, d.timeout_ms);
	kv_client_get(c, &g, 1, NULL);
	tally_leave(&tally, &guard, TALLY_GET);
	tally_key(&tally, TALLY_GET, g.status, BIT(0) | BIT(KV_EMISS));
	if (g.status == 0)
		judge(key, r, &buf, g.len);
	else if (there || must)
		tally_wrong(&tally, "round %" PRIu64 ": %s: %s", r,
			    there ? "exists" : "was put",
			    kv_status_name(g.status));
	return g.status == 0;
}

static void
view(struct kv_key key, uint64_t r)
{
	struct kv_view v = { .key = key };

	tally_enter(&guard, TALLY_VIEW, d.timeout_ms);
	kv_client_view(c, &v, 1, 0);
	tally_leave(&tally, &guard, TALLY_VIEW);
	if (v.status == -KV_ENOTSUP && !*d.socket) /* no node here */
		return;
	tally_key(&tally, TALLY_VIEW, v.status, BIT(0) | BIT(KV_EMISS));
	if (v.status == 0)
		judge(key, r, v.pieces, v.size);
	kv_client_release(c, &v, 1);
}

/* All copies are of one put. */
static void
query(struct kv_key key, uint64_t r)
{
	struct kv_replica_info info[REPLICAS];
	uint32_t away = 0;
	long n = kv_client_query(c, key, 1, info, REPLICAS, &away);

	if (n < 1 || n > (long)replicas || away > 0)
		tally_wrong(&tally, "round %" PRIu64 ": %ld copies, %u away", r,
			    n, away);
	for (long i = 1; i < n && i < REPLICAS; i++)
		if (info[i].size != info[0].size ||
		    info[i].sum != info[0].sum ||
		    info[i].version_random != info[0].version_random)
			tally_wrong(&tally, "round %" PRIu64 ": copies differ",
				    r);
}

static void
play(uint64_t r)
{
	uint64_t until = now_ns() + guard_slow() * 30 * KV_NS_PER_S;
	char name[64];
	struct kv_key key = name_key(name, sizeof(name), r);

	meet();
	if ((party + r) % parties < writers)
		put(key, r);
	else
		while (!get(key, r, shared->rounds[r].is_done) &&
		       now_ns() < until)
			;
	get(key, r, true);
	meet();
	get(key, r, true);
	view(key, r);
	if (party == r % parties)
		query(key, r);
}

static void
share(void)
{
	int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
	void *p;

	if (fd < 0 || ftruncate(fd, sizeof(*shared)) < 0)
		exit(EX_USAGE);
	p = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		 0);
	if (p == MAP_FAILED)
		exit(EX_OSERR);
	close(fd);
	shared = p;
}

int
main(int argc, char **argv)
{
	(void)argc;
	driver_parse(&d, options, argv);
	share();
	bytes = malloc(size_max);
	if (!bytes || rounds > ROUNDS_MAX || parties == 0)
		return EX_USAGE;
	guard_add(&guard);
	c = driver_open(&d);
	fprintf(stderr, "running\n");
	for (uint64_t r = 0; r < rounds; r++)
		play(r);
	meet(); /* an embedded node stays till the end */
	kv_client_close(c);
	free(bytes);
	tally_print(&tally, stdout);
	return tally_code(&tally);
}
