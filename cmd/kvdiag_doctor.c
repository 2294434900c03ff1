#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "cli/tool.h"
#include "cmd/kvdiag.h"
#include "cmd/kvdiag_round.h"
#include "svc/client.h"

/* One line a finding, or one row. */
static void
print(void *arg, const struct kv_doctor_finding *f)
{
	char line[2 * KV_DOCTOR_TEXT_BYTES + 64];
	const struct kvdiag *d = arg;

	if (d->common.json) {
		kv_out_begin(d->out, KV_OUT_ROW, NULL);
		kv_out_string(d->out, "level", kv_doctor_word(f->level));
		kv_out_string(d->out, "check", f->check);
		kv_out_string(d->out, "fact", f->fact);
		kv_out_string(d->out, "advice", *f->advice ? f->advice : NULL);
		kv_out_end(d->out, KV_OUT_ROW);
		return;
	}
	snprintf(line, sizeof(line), "%-8s%s: %s%s%s", kv_doctor_word(f->level),
		 f->check, f->fact, *f->advice ? "; " : "", f->advice);
	kv_out_string(d->out, NULL, line);
}

static void
judge_machine(struct kv_doctor *doctor, struct kv_doctor_host *h,
	      const struct kvdiag *d)
{
	enum kv_protocol protocol = kv_opts_protocol(&d->common);
	struct kv_rdmadev *ports = NULL;
	char why[KV_RDMADEV_WHY_BYTES] = "";
	struct kv_mcenv env;

	kv_mcenv_read(&env, (const char *const *)environ);
	h->is_must = protocol == KV_PROTOCOL_RDMA;
	h->is_wished = protocol == KV_PROTOCOL_RDMA_OR_TCP;
	if (protocol != KV_PROTOCOL_TCP && env.is_tcp) {
		h->why_none = "MC_FORCE_TCP is set";
	} else if (protocol != KV_PROTOCOL_TCP) {
		h->wanted = kvdiag_wanted(d, &env);
		h->n_ports = kvdiag_list_devices(d, &env, &ports, why);
		h->ports = ports;
		h->ports_why = why;
	}
	kv_doctor_host(doctor, h);
	free(ports);
}

static void
judge_host(struct kv_doctor *doctor, const struct kvdiag_round *r)
{
	const struct kv_conf *conf = &r->d->common.conf;
	const struct kv_node_info *own = r->pool.own;
	struct kv_doctor_host h = {
		.root = "",
		.is_huge = conf->hugepages,
		.pool_file = conf->pool_file,
	};

	/* The default is nobody's wish. */
	if (conf->source[KV_CONF_GLOBAL_SEGMENT_SIZE] != KV_CONF_DEFAULT)
		h.pool_bytes = (uint64_t)conf->global_segment_size;
	if (own) {
		h.node_pid =
			kv_doctor_pid(r->local->hub.local + strlen("unix:"));
		h.node_bytes = own->pool_bytes;
		h.node_unready = own->pool_bytes - own->ready_bytes;
	}
	judge_machine(doctor, &h, r->d);
}

static void
judge_local(struct kv_doctor *doctor, const struct kvdiag_round *r)
{
	const struct kv_conf *conf = &r->d->common.conf;

	if (r->pool.own)
		kv_doctor_say(doctor, KV_DOCTOR_OK, "local node", "",
			      "%s answers at %s", r->own.name,
			      r->local->hub.local + strlen("unix:"));
	else if (*conf->socket || r->local)
		kv_doctor_say(doctor, KV_DOCTOR_FAULT, "local node",
			      "start kvclient, or correct --socket; its "
			      "--socket-group lets other users in",
			      "%s", r->local_why);
	else if (conf->source[KV_CONF_SOCKET] == KV_CONF_OPTION)
		kv_doctor_say(doctor, KV_DOCTOR_OK, "local node", "",
			      "none is asked, --socket is empty");
	else
		kv_doctor_say(doctor, KV_DOCTOR_OK, "local node", "",
			      "no kvclient runs on this host: its processes "
			      "reach the pool over TCP");
}

static void
judge_pool(struct kv_doctor *doctor, const struct kvdiag_round *r)
{
	static void (*const checks[])(struct kv_doctor *,
				      const struct kv_doctor_pool *) = {
		kv_doctor_masters, kv_doctor_versions, kv_doctor_clocks,
		kv_doctor_members, kv_doctor_nodes,    kv_doctor_addresses,
		kv_doctor_memory,  kv_doctor_room,
	};

	for (size_t i = 0; i < KV_ARRAY_LEN(checks); i++)
		checks[i](doctor, &r->pool);
	if (r->pool.n_nodes)
		kv_doctor_keys_judge(doctor, r->keys, kvdiag_round_asked(r));
}

int
kvdiag_doctor(struct kvdiag *d)
{
	enum kv_out_kind kind = d->common.json ? KV_OUT_TABLE : KV_OUT_LIST;
	struct kv_doctor doctor = { .tell = print, .arg = d };
	struct kv_mcenv env; /* whose complaints are heard now */
	struct kvdiag_round r;
	bool is_reached;
	int rc;

	kv_mcenv_read(&env, (const char *const *)environ);
	kv_mcenv_warn((const char *const *)environ);
	rc = kvdiag_round_start(&r, d);
	if (rc == 0)
		rc = kvdiag_round_visit(&r);
	if (rc == 0 && kv_doctor_is_moving(&r.pool)) {
		sleep(1);
		rc = kvdiag_round_again(&r);
	}
	if (rc < 0) {
		kvdiag_round_end(&r);
		return kvdiag_fail(d, rc);
	}
	kv_out_begin(d->out, kind, NULL);
	judge_host(&doctor, &r);
	judge_local(&doctor, &r);
	judge_pool(&doctor, &r);
	kv_out_end(d->out, kind);
	is_reached = r.pool.own || r.pool.n_nodes;
	for (size_t i = 0; i < r.pool.n_masters; i++)
		is_reached |= r.clients[i] != NULL;
	kvdiag_round_end(&r);
	if (!is_reached)
		return EX_UNAVAILABLE;
	return doctor.found[KV_DOCTOR_WARNING] || doctor.found[KV_DOCTOR_FAULT];
}
