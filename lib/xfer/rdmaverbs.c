#include "xfer/rdmaverbs.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/attr.h"

/* IBV_FORK_UNNEEDED, which older headers do not have. */
enum {
	FORK_UNNEEDED = 2,
};

/* A function of a library, and its place in the table. */
struct symbol {
	const char *name;
	size_t offset;
	bool is_optional;
};

#define NAMED(name, field, is_optional)                                 \
	{                                                               \
		name, offsetof(struct kv_rdmaverbs, field), is_optional \
	}
#define VERB(field) NAMED("ibv_" #field, field, false)
#define CM(field)   NAMED("rdma_" #field, field, false)

static const struct symbol verbs_symbols[] = {
	VERB(get_device_list),
	VERB(free_device_list),
	VERB(get_device_name),
	VERB(open_device),
	VERB(close_device),
	VERB(get_async_event),
	VERB(ack_async_event),
	VERB(query_device),
	VERB(query_port),
	VERB(query_gid),
	NAMED("_ibv_query_gid_ex", query_gid_ex, true),
	VERB(alloc_pd),
	VERB(dealloc_pd),
	VERB(reg_mr),
	NAMED("ibv_reg_mr_iova2", reg_mr_iova2, true),
	VERB(dereg_mr),
	VERB(create_comp_channel),
	VERB(destroy_comp_channel),
	VERB(create_cq),
	VERB(destroy_cq),
	VERB(get_cq_event),
	VERB(ack_cq_events),
	VERB(create_srq),
	VERB(modify_srq),
	VERB(destroy_srq),
	VERB(create_qp),
	VERB(modify_qp),
	VERB(query_qp),
	VERB(destroy_qp),
};

static const struct symbol cm_symbols[] = {
	CM(create_event_channel),
	CM(destroy_event_channel),
	CM(create_id),
	CM(destroy_id),
	CM(bind_addr),
	CM(listen),
	CM(resolve_addr),
	CM(resolve_route),
	CM(init_qp_attr),
	CM(connect),
	CM(accept),
	CM(establish),
	CM(reject),
	CM(disconnect),
	CM(migrate_id),
	CM(set_option),
	CM(get_cm_event),
	CM(ack_cm_event),
	CM(get_src_port),
};

/* dlerror() is of one sentence for a library that is not there and for one that
 * lacks another. */
static bool
is_not_there(const char *library, const char *error)
{
	size_t n = strlen(library);

	return strncmp(error, library, n) == 0 && error[n] == ':' &&
	       strstr(error, "No such file") != NULL;
}

static void *
open_library(const char *library, const char *packages, char *why, size_t n)
{
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	const char *error;

	if (handle)
		return handle;
	error = dlerror();
	if (!error || is_not_there(library, error))
		snprintf(why, n, "%s is not installed (apt: %s)", library,
			 packages);
	else
		snprintf(why, n, "cannot load %s: %s", library, error);
	return NULL;
}

static int
find_symbols(struct kv_rdmaverbs *v, void *handle, const struct symbol *s,
	     size_t n, const char **missing)
{
	for (size_t i = 0; i < n; i++) {
		void *address = dlsym(handle, s[i].name);

		if (!address && !s[i].is_optional) {
			*missing = s[i].name;
			return -ENOTSUP;
		}
		/* A function's address, which C lets no void * become. */
		memcpy((char *)v + s[i].offset, &address, sizeof(address));
	}
	return 0;
}

/*
 * A fork makes private pages copy-on-write. Before Linux 5.12 that took pages
 * from under the device: who writes first, here the parent, gets a copy, and
 * the device goes on with the old page. Our pools do not suffer from it, they
 * are shared mappings and MADV_DONTFORK besides (mem/seg.c); but the rings of
 * the library's own queues would, and the buffers that an engine registers,
 * and engines fork. So the library is told to keep them from children, who may
 * only exec or _exit anyway (kvpool.h); on such kernels callers' huge pages
 * want RDMAV_HUGEPAGES_SAFE=1 as well. Newer ones copy such pages for the
 * child, and the library knows it; the call would withhold them all the same
 * (tried with rdma-core 44), from what malloc() has on them, too, which ends
 * the child inside of fork().
 *
 * It has to come before any other call. Where somebody else in the process was
 * first, it fails if he did not want it, and is no news if he did (NCCL does
 * it, and RDMAV_FORK_SAFE=1 makes the library do it): neither is an error here.
 */
static void
survive_forks(void *handle)
{
	void *address = dlsym(handle, "ibv_fork_init");
	void *ask = dlsym(handle, "ibv_is_fork_initialized");
	int (*fork_init)(void);
	int (*is_initialized)(void);

	memcpy(&is_initialized, &ask, sizeof(is_initialized));
	if (!address || (ask && is_initialized() == FORK_UNNEEDED))
		return;
	memcpy(&fork_init, &address, sizeof(fork_init));
	(void)fork_init();
}

int
kv_rdmaverbs_open(struct kv_rdmaverbs *v, const char *verbs, const char *cm,
		  char *why, size_t n)
{
	void *handle =
		open_library(verbs, "libibverbs1 ibverbs-providers", why, n);
	struct kv_rdmaverbs found = { 0 }, both;
	const char *missing;

	if (!handle)
		return -ENOENT;
	if (find_symbols(&found, handle, verbs_symbols,
			 KV_ARRAY_LEN(verbs_symbols), &missing) < 0) {
		snprintf(why, n,
			 "%s is too old or no such library: it has no "
			 "%s",
			 verbs, missing);
		dlclose(handle);
		return -ENOTSUP;
	}
	survive_forks(handle);
	both = found;
	handle = open_library(cm, "librdmacm1", why, n);
	if (!handle)
		goto out;
	if (find_symbols(&both, handle, cm_symbols, KV_ARRAY_LEN(cm_symbols),
			 &missing) < 0) {
		snprintf(why, n,
			 "%s is too old or no such library: it has no "
			 "%s",
			 cm, missing);
		dlclose(handle);
		goto out;
	}
	found = both;
	*why = '\0';
out:
	*v = found;
	return 0;
}

static struct kv_rdmaverbs loaded;
static int load_status;
static char load_why[256];

static void
load(void)
{
	load_status =
		kv_rdmaverbs_open(&loaded, "libibverbs.so.1", "librdmacm.so.1",
				  load_why, sizeof(load_why));
}

const struct kv_rdmaverbs *
kv_rdmaverbs_load(const char **why)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load);
	*why = load_why;
	return load_status == 0 ? &loaded : NULL;
}
