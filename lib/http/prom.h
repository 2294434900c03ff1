#ifndef KV_HTTP_PROM_H
#define KV_HTTP_PROM_H

/*
 * Metrics in the text format of Prometheus, version 0.0.4. All samples of one
 * family are written in a row, after what describes it.
 */

#include <stdint.h>

struct kv_bytes;

#define KV_PROM_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

enum kv_prom_type {
	KV_PROM_COUNTER,
	KV_PROM_GAUGE,
};

struct kv_prom {
	struct kv_bytes *out;
	int status;       /* 0, or -ENOMEM from then on */
	const char *name; /* of the family under way */
};

/* What all following samples belong to. The name stays valid until the next
 * one; naming the same family again in a row does nothing. */
void kv_prom_family(struct kv_prom *p, const char *name, enum kv_prom_type type,
		    const char *help);
void kv_prom_sample(struct kv_prom *p, uint64_t value);
/* The label's value may be any bytes; what is not UTF-8 is escaped. */
void kv_prom_labelled(struct kv_prom *p, const char *label, const char *value,
		      uint64_t v);

#endif
