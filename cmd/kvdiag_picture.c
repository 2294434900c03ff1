/* The pool at one moment, for people or for programs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/str.h"
#include "cmd/kvdiag_watch.h"

static void
print_masters(struct kv_out *o, const struct kv_doctor_pool *p)
{
	const struct kv_doctor_master *m;

	kv_out_begin(o, KV_OUT_TABLE, "masters");
	for (m = p->masters; m < p->masters + p->n_masters; m++) {
		kv_out_begin(o, KV_OUT_ROW, NULL);
		kv_out_string(o, "master", m->d.addr);
		kv_out_string(o, "status",
			      m->d.status == 0 ? "ok"
					       : kv_status_text(m->d.status));
		kv_out_u64(o, "nodes", m->n);
		kv_out_u64(o, "keys",
			   kv_doctor_stat(&m->d, "master_key_count"));
		if (m->d.status == 0)
			kv_out_duration(o, "round_trip_s", m->d.trip_ns);
		else
			kv_out_none(o, "round_trip_s");
		kv_out_end(o, KV_OUT_ROW);
	}
	kv_out_end(o, KV_OUT_TABLE);
}

static void
print_rate(struct kv_out *o, unsigned i, const struct kvdiag_follow *f,
	   bool is_json)
{
	const struct kvdiag_watch_rate *r = &kvdiag_watch_rates[i];
	const char *name = is_json ? r->name : r->head;

	if (!f || !f->has_rates)
		kv_out_none(o, name);
	else if (r->is_bytes)
		kv_out_bytes(o, name, (uint64_t)f->rates[i]);
	else
		kv_out_double(o, name, f->rates[i], 0);
}

static void
print_fields(struct kv_out *o, const struct kv_node_info *n,
	     const struct kvdiag_follow *f, bool is_json)
{
	kv_out_bytes(o, "pool_bytes", n->pool_bytes);
	kv_out_bytes(o, "free_bytes", n->free_bytes);
	kv_out_bytes(o, "pinned_bytes", n->pinned_bytes);
	kv_out_u64(o, "keys", n->keys);
	for (unsigned i = 0; i < KVDIAG_WATCH_RATES; i++)
		print_rate(o, i, f, is_json);
	if (n->victim_age_ms)
		kv_out_duration(o, "victim_age_s",
				n->victim_age_ms * KV_NS_PER_MS);
	else
		kv_out_none(o, "victim_age_s");
}

/* A row in the table of nodes for people, apart for programs. */
static void
print_total(struct kv_out *o, const struct kv_node_info *sum,
	    const struct kvdiag_follow *f, bool is_json)
{
	if (is_json) {
		kv_out_end(o, KV_OUT_TABLE);
		kv_out_begin(o, KV_OUT_OBJECT, "total");
		print_fields(o, sum, f, is_json);
		kv_out_end(o, KV_OUT_OBJECT);
		return;
	}
	kv_out_begin(o, KV_OUT_ROW, NULL);
	kv_out_string(o, "node", "all");
	kv_out_string(o, "state", NULL);
	print_fields(o, sum, f, is_json);
	kv_out_end(o, KV_OUT_ROW);
	kv_out_end(o, KV_OUT_TABLE);
}

static void
add(struct kv_node_info *sum, struct kvdiag_follow *total,
    const struct kv_node_info *n, const struct kvdiag_follow *f)
{
	sum->pool_bytes += n->pool_bytes;
	sum->free_bytes += n->free_bytes;
	sum->pinned_bytes += n->pinned_bytes;
	sum->keys += n->keys;
	if (!f || !f->has_rates)
		return;
	total->has_rates = true;
	for (size_t i = 0; i < KVDIAG_WATCH_RATES; i++)
		total->rates[i] += f->rates[i];
}

static void
print_nodes(struct kv_out *o, struct kvdiag_watch *w)
{
	const struct kv_doctor_pool *p = &w->round.pool;
	struct kv_node_info sum = { 0 };
	struct kvdiag_follow total = { 0 };

	kv_out_begin(o, KV_OUT_TABLE, "nodes");
	for (size_t i = 0; i < p->n_nodes; i++) {
		const struct kv_node_info *n = &p->nodes[i].info;
		const struct kvdiag_follow *f = kvdiag_follow_find(w, n->boot);

		kv_out_begin(o, KV_OUT_ROW, NULL);
		kv_out_string(o, "node", n->name);
		kv_out_string(o, "state", n->state);
		print_fields(o, n, f, w->round.d->common.json);
		kv_out_end(o, KV_OUT_ROW);
		add(&sum, &total, n, f);
	}
	print_total(o, &sum, &total, w->round.d->common.json);
}

/* JSON in one line: no newline stands inside its strings. */
static void
squeeze(char *text)
{
	char *to = text;
	const char *from = text;

	while (*from) {
		if (*from == '\n')
			from += 1 + strspn(from + 1, " ");
		else
			*to++ = *from++;
	}
	memcpy(to, "\n", 2);
}

static void
print_time(FILE *f, struct kv_out *o, const struct kvdiag_watch *w)
{
	const struct kvdiag *d = w->round.d;
	time_t now = time(NULL);
	char text[16], every[16];
	struct tm tm;

	if (d->common.json) {
		kv_out_u64(o, "time_s", (uint64_t)now);
		return;
	}
	strftime(text, sizeof(text), "%H:%M:%S", localtime_r(&now, &tm));
	fprintf(f, "%s, each %s%s\n", text,
		kv_str_duration_format(every, sizeof(every), d->interval_ns),
		w->has_keys ? "; q ends" : "");
}

char *
kvdiag_picture(struct kvdiag_watch *w)
{
	const struct kvdiag *d = w->round.d;
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);
	struct kv_out *o = NULL;
	int rc = -ENOMEM;

	if (f)
		o = d->common.json ? kv_out_json_new(f)
				   : kv_out_text_new(f, false);
	if (o) {
		kv_out_begin(o, KV_OUT_OBJECT, NULL);
		print_time(f, o, w);
		print_masters(o, &w->round.pool);
		print_nodes(o, w);
		kv_out_end(o, KV_OUT_OBJECT);
		rc = kv_out_finish(o);
	}
	if (f && fclose(f) != 0)
		rc = -errno;
	if (rc < 0) {
		free(text);
		return NULL;
	}
	if (d->common.json)
		squeeze(text);
	return text;
}
