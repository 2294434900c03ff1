/*
 * usage: crooked --target=SOCKET_OR_ADDR --seconds=N [--prefix=P]
 *
 * A requester whose frames are all well formed and whose deeds are not: grants
 * that it fills twice, in the wrong order, beyond their end, or never, grants
 * and pins of others, sizes at every border, and sudden ends. The node must
 * live, and must get everything back in the end.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/num.h"
#include "driver.h"
#include "rawreq.h"

enum {
	KEYS_MAX = 4,
	BYTES = 1 << 20,
	STEPS_MAX = 30,
	WAIT_MS = 30,
};

static struct driver d;
static const char *target = "", *prefix = "crooked";
static uint64_t seconds = 5;

static const struct driver_opt options[] = {
	{ "target", DRIVER_TEXT, &target },
	{ "prefix", DRIVER_TEXT, &prefix },
	{ "seconds", DRIVER_NUMBER, &seconds },
	{ 0 },
};

static struct forge forge;
static uint8_t bytes[BYTES];
static char names[KEYS_MAX][2000];

static uint64_t
now_ns(void)
{
	return kv_clock_now(&(struct kv_clock){ 0 });
}

static uint64_t
below(uint64_t n)
{
	return kv_rng_below(&forge.rng, n);
}

static uint64_t
some_size(void)
{
	static const uint64_t sizes[] = {
		0,          1,         255,        256,        4096,
		65535,      65536,     65537,      1 << 20,    3 << 20,
		64 << 20,   256 << 20, 1ull << 32, 1ull << 40, (1ull << 40) + 1,
		1ull << 63,
	};
	uint64_t n = KV_ARRAY_LEN(sizes);

	if (below(50) == 0)
		return UINT64_MAX - below(300);
	return sizes[below(below(3) ? 9 : n)];
}

static uint32_t
some_budget(void)
{
	static const uint32_t budgets[] = { 0, 1, 100, 5000, UINT32_MAX };

	return budgets[below(KV_ARRAY_LEN(budgets))];
}

static uint64_t
some_token(const struct rawreq *r)
{
	return below(20) ? r->data_token : below(1000);
}

static enum kv_mode
some_mode(const struct rawreq *r)
{
	if (below(20) == 0)
		return (enum kv_mode)below(4);
	return r->is_local ? KV_MODE_SHM : KV_MODE_DATA;
}

static size_t
some_keys(struct rawreq_key *keys)
{
	size_t n = below(KEYS_MAX + 1);

	for (size_t i = 0; i < n; i++) {
		int len = snprintf(names[i], sizeof(names[i]), "%s/%d", prefix,
				   (int)below(30));

		if (below(100) == 0)
			memset(names[i] + len, 'x', below(1500));
		else if (below(200) == 0)
			names[i][0] = '\0';
		keys[i].key = names[i];
		keys[i].size = some_size();
		keys[i].off = below(3) ? 0 : some_size();
		keys[i].flags = (uint8_t)(below(3) ? 0 : below(4));
	}
	return n;
}

/* A name that was given, that is made up, or that was given to another. */
static uint64_t
some_name(const struct rawreq_name *list, size_t n)
{
	if (n > 0 && below(6))
		return list[below(n)].name;
	return below(10) ? below(100000) : kv_rng_u64(&forge.rng);
}

static bool
do_put(struct rawreq *r)
{
	struct rawreq_key keys[KEYS_MAX];
	size_t n = some_keys(keys);
	uint32_t count = below(30) ? (uint32_t)n : (uint32_t)below(100000);
	const struct kv_put how = {
		.put_id.random = kv_le64(kv_rng_u64(&forge.rng)),
		.put_id.version = kv_le32((uint32_t)below(2)),
		.count = kv_le32(count),
		.budget_ms = kv_le32(some_budget()),
		.mode = (uint8_t)some_mode(r),
		.flags = (uint8_t)(below(4) ? 0 : below(16) & ~2u),
		.data_token = kv_le64(some_token(r)),
	};

	if (!rawreq_put(r, keys, n, &how))
		return false;
	return rawreq_wait(r, below(2) ? KV_MSG_GRANT_R : KV_MSG_PUT_R,
			   WAIT_MS) ||
	       below(3);
}

static bool
do_get(struct rawreq *r)
{
	struct rawreq_key keys[KEYS_MAX];
	size_t n = some_keys(keys);
	const struct kv_get how = {
		.count = kv_le32(below(30) ? (uint32_t)n : UINT32_MAX),
		.budget_ms = kv_le32(some_budget()),
		.inline_max = kv_le32((uint32_t)some_size()),
		.mode = (uint8_t)some_mode(r),
		.flags = (uint8_t)below(2),
		.data_token = kv_le64(some_token(r)),
	};

	if (!rawreq_get(r, keys, n, &how))
		return false;
	return below(2) || rawreq_wait(r, KV_MSG_GET_R, WAIT_MS) || below(3);
}

static bool
do_data(struct rawreq *r)
{
	uint64_t off = below(3) ? 0 : some_size();
	uint32_t len = (uint32_t)below(below(2) ? BYTES : 70000);

	if (r->data < 0)
		return true;
	if (below(40)) /* whole, else cut by what follows */
		return rawreq_data(r, some_name(r->grants, r->ngrants), off,
				   bytes, len);
	return forge_send(r->data, bytes, len);
}

/* All bytes of a grant in order, or some too many. */
static bool
do_data_well(struct rawreq *r)
{
	const struct rawreq_name *g;
	uint64_t at = 0, end;

	if (r->data < 0 || r->ngrants == 0)
		return true;
	g = &r->grants[below(4) ? r->ngrants - 1 : below(r->ngrants)];
	end = kv_min_u64(g->size + (below(8) ? 0 : below(1000)), 4 << 20);
	while (at < end) {
		uint32_t len = (uint32_t)kv_min_u64(end - at, 70000);

		if (!rawreq_data(r, g->name, at, bytes, len))
			return false;
		at += len;
	}
	return below(3) || rawreq_wait(r, KV_MSG_PUT_R, WAIT_MS) || below(3);
}

static bool
do_names(struct rawreq *r)
{
	uint64_t list[40];
	size_t n = 1 + below(KV_ARRAY_LEN(list));
	bool grants = below(2);

	if (below(3))
		n = 1;
	for (size_t i = 0; i < n; i++)
		list[i] = grants ? some_name(r->grants, r->ngrants)
				 : some_name(r->pins, r->npins);
	if (!grants)
		return rawreq_release(r, list, n);
	if (below(10) == 0)
		r->id -= below(3);
	return rawreq_filled(r, list, n, (uint8_t)below(2));
}

static void
deal(struct rawreq *r)
{
	static bool (*const deeds[])(struct rawreq *) = {
		do_put,       do_put,       do_get,   do_data,
		do_data_well, do_data_well, do_names,
	};

	for (uint64_t n = 1 + below(STEPS_MAX); n > 0; n--)
		if (!deeds[below(KV_ARRAY_LEN(deeds))](r))
			break;
	if (r->data >= 0 && below(4) == 0) { /* loses one of the two */
		close(r->data);
		r->data = -1;
		do_put(r);
	}
}

/* A process of its own, so that it can end with things in its hands. */
static void
child(void)
{
	struct rawreq r;

	for (uint64_t n = below(3) + 1; n > 0; n--) {
		if (!rawreq_open(&r, &forge, target))
			continue;
		deal(&r);
		if (below(3))
			_exit(0);
		rawreq_close(&r);
	}
	_exit(0);
}

int
main(int argc, char **argv)
{
	uint64_t end_ns, n = 0;
	int status;

	(void)argc;
	driver_parse(&d, options, argv);
	end_ns = now_ns() + seconds * KV_NS_PER_S;
	for (; now_ns() < end_ns; n++) {
		kv_rng_seed(&forge.rng, d.seed + n);
		pid_t pid = fork();

		if (pid == 0)
			child();
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
			return EX_SOFTWARE;
	}
	printf("{\"processes\":%llu}\n", (unsigned long long)n);
	return 0;
}
