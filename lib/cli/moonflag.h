/* The flags of mooncake_master and mooncake_client, and what each is here. */
#ifndef KV_CLI_MOONFLAG_H
#define KV_CLI_MOONFLAG_H

#include <stdbool.h>
#include <stdio.h>

#include "base/log.h"
#include "cli/conf.h"
#include "cli/flagconv.h"
#include "cli/gflags.h"

/* As moonflag.def explains them. */
enum kv_moonflag_kind {
	KV_MOONFLAG_TO,
	KV_MOONFLAG_CODE,
	KV_MOONFLAG_OWN,
	KV_MOONFLAG_REFUSED,
	KV_MOONFLAG_NOTHING,
};

/* Why a flag has no meaning here. */
enum kv_moonflag_reason {
	KV_MOONFLAG_SSD,
	KV_MOONFLAG_METADATA,
	KV_MOONFLAG_LEASE,
	KV_MOONFLAG_PIN,
	KV_MOONFLAG_EVICTION,
	KV_MOONFLAG_PLACE,
	KV_MOONFLAG_PUT,
	KV_MOONFLAG_THREADS,
	KV_MOONFLAG_BUFFER,
	KV_MOONFLAG_STORED,
	KV_MOONFLAG_POOL,
	KV_MOONFLAG_TENANTS,
	KV_MOONFLAG_COPIES,
	KV_MOONFLAG_DEVICES,
	KV_MOONFLAG_EVENTS,
	KV_MOONFLAG_LOG,
	KV_MOONFLAG_REASONS,
};

/* The number of each: KV_MOONFLAG_MASTER_port, ... */
enum {
#define KV_FLAG(kind, who, name, ...)   KV_MOONFLAG_##who##_##name,
#define KV_FLAG_NOTHING(who, name, ...) KV_MOONFLAG_##who##_##name,
#include "cli/moonflag.def"
#undef KV_FLAG
#undef KV_FLAG_NOTHING
	KV_MOONFLAG_COUNT,
};

struct kv_moonflag {
	const char *name;
	enum kv_gflags_type type;
	enum kv_moonflag_kind kind;
	unsigned who;                   /* bits of enum kv_conf_who */
	enum kv_moonflag_reason reason; /* of NOTHING */
	const char *preset;             /* NULL: none */
	kv_flagconv_fn *conv;
	const char *option; /* of TO and OWN */
	const char *help;   /* of REFUSED: what to do instead */
};

/* Flag I < KV_MOONFLAG_COUNT. */
const struct kv_moonflag *kv_moonflag_row(size_t i);

/* What there is to say about it, and how loud. */
const char *kv_moonflag_reason(enum kv_moonflag_reason reason,
			       enum kv_log_level *level);

/* The list of the flags of WHO, 80 columns wide. */
void kv_moonflag_list(unsigned who, FILE *f);

#endif
