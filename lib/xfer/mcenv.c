#include "xfer/mcenv.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/log.h"
#include "base/num.h"

/* A variable and what becomes of it. */
struct var {
	const char *name;
	void (*take)(struct kv_mcenv *m, uint64_t n, const char *text);
	uint64_t least, most; /* of a number; most 0: it is a text */
};

static void
take_qps(struct kv_mcenv *m, uint64_t n, const char *text)
{
	(void)text;
	m->qps = (unsigned)n;
}

/* Mooncake's own default is 64 KiB: whoever writes that down means nothing by
 * it, and is not to lose by it. */
static void
take_slice(struct kv_mcenv *m, uint64_t n, const char *text)
{
	(void)text;
	if (n != KV_MCENV_SLICE_BYTES_MIN)
		m->slice_bytes = n;
}

static void
take_tc(struct kv_mcenv *m, uint64_t n, const char *text)
{
	(void)text;
	m->traffic_class = (int)n;
}

static void
take_sl(struct kv_mcenv *m, uint64_t n, const char *text)
{
	(void)text;
	m->service_level = (int)n;
}

static void
take_gid(struct kv_mcenv *m, uint64_t n, const char *text)
{
	(void)text;
	m->gid_index = (int)n;
}

static void
take_pkey(struct kv_mcenv *m, uint64_t n, const char *text)
{
	(void)text;
	m->pkey_index = (int)n;
}

static void
take_mtu(struct kv_mcenv *m, uint64_t n, const char *text)
{
	(void)text;
	if (kv_is_pow2_u64(n))
		m->mtu_bytes = (unsigned)n;
	else
		kv_warn("MC_MTU=%s is ignored: 512, 1024, 2048 or 4096", text);
}

static void
take_port(struct kv_mcenv *m, uint64_t n, const char *text)
{
	(void)text;
	m->port = (unsigned)n;
}

/* 0: off; 1 and 2: where the device has it, which is our way. */
static void
take_relaxed(struct kv_mcenv *m, uint64_t n, const char *text)
{
	(void)text;
	m->is_ordered = n == 0;
}

static void
take_tcp(struct kv_mcenv *m, uint64_t n, const char *text)
{
	(void)n;
	m->is_tcp = text[0] != '\0' && strcmp(text, "0") != 0 &&
		    strcasecmp(text, "false") != 0;
}

/* What it asks for is done anyway. */
static void
take_nothing(struct kv_mcenv *m, uint64_t n, const char *text)
{
	(void)m;
	(void)n;
	(void)text;
}

static void
take_devices(struct kv_mcenv *m, uint64_t n, const char *text)
{
	(void)n;
	if (strlen(text) < sizeof(m->devices))
		memcpy(m->devices, text, strlen(text) + 1);
	else
		kv_warn("a white list of devices in the environment is longer "
			"than %zu bytes, and ignored",
			sizeof(m->devices) - 1);
}

/* In the order in which they count: the last one wins. */
static const struct var vars[] = {
	{ "MC_NUM_QP_PER_EP", take_qps, 1, KV_MCENV_QPS_MAX },
	{ "MC_SLICE_SIZE", take_slice, KV_MCENV_SLICE_BYTES_MIN,
	  KV_MCENV_SLICE_BYTES_MAX },
	{ "NCCL_IB_GID_INDEX", take_gid, 0, 255 },
	{ "MC_GID_INDEX", take_gid, 0, 255 },
	{ "MC_IB_PORT", take_port, 1, 254 },
	{ "MC_PKEY_INDEX", take_pkey, 0, 255 },
	{ "MC_MTU", take_mtu, 512, 4096 },
	{ "MC_IB_TC", take_tc, 0, 255 },
	{ "MC_IB_SL", take_sl, 0, 15 },
	{ "MC_IB_PCI_RELAXED_ORDERING", take_relaxed, 0, 2 },
	{ "MC_FORCE_TCP", take_tcp, 0, 0 },
	{ "MC_MS_AUTO_DISC", take_nothing, 0, 0 }, /* finds NICs by itself */
	{ "MC_MS_FILTERS", take_devices, 0, 0 },
	{ "MC_TE_FILTERS", take_devices, 0, 0 },
};

static const char *
value_of(const char *const *env, const char *name)
{
	size_t len = strlen(name);

	for (; env && *env; env++)
		if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
			return *env + len + 1;
	return NULL;
}

/* -1 is Mooncake's word for "find out". */
static void
number_take(struct kv_mcenv *m, const struct var *v, const char *text)
{
	unsigned long long n;
	char *end;

	if (strcmp(text, "-1") == 0 || text[0] == '\0')
		return;
	errno = 0;
	n = strtoull(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end || errno || n < v->least ||
	    n > v->most)
		kv_warn("%s=%s is ignored: a number from %llu to %llu", v->name,
			text, (unsigned long long)v->least,
			(unsigned long long)v->most);
	else
		v->take(m, n, text);
}

void
kv_mcenv_read(struct kv_mcenv *m, const char *const *env)
{
	const char *text;
	size_t i;

	*m = (struct kv_mcenv){
		.qps = 2,
		.slice_bytes = UINT64_C(1) << 20,
		.traffic_class = -1,
		.service_level = -1,
		.gid_index = -1,
		.pkey_index = -1,
	};
	for (i = 0; i < KV_ARRAY_LEN(vars); i++) {
		text = value_of(env, vars[i].name);
		if (text && vars[i].most > 0)
			number_take(m, &vars[i], text);
		else if (text)
			vars[i].take(m, 0, text);
	}
}

static bool
is_known(const char *entry, size_t len)
{
	size_t i;

	for (i = 0; i < KV_ARRAY_LEN(vars); i++)
		if (strlen(vars[i].name) == len &&
		    strncmp(vars[i].name, entry, len) == 0)
			return true;
	return false;
}

void
kv_mcenv_warn(const char *const *env)
{
	static atomic_flag is_said = ATOMIC_FLAG_INIT;
	char names[512] = "", more[32] = "";
	unsigned left = 0;
	size_t used = 0, len;

	if (atomic_flag_test_and_set(&is_said))
		return;
	for (; env && *env; env++) {
		len = strcspn(*env, "=");
		if (strncmp(*env, "MC_", 3) != 0 || is_known(*env, len))
			continue;
		if (used + len + 2 >= sizeof(names)) {
			left++;
			continue;
		}
		used += (size_t)snprintf(names + used, sizeof(names) - used,
					 "%s%.*s", used ? ", " : "", (int)len,
					 *env);
	}
	if (left)
		snprintf(more, sizeof(more), "%s%u more", used ? " and " : "",
			 left);
	if (used || left)
		kv_warn("the environment has variables that mean nothing to "
			"kvpool: %s%s",
			names, more);
}
