#include "net/hello.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "base/status.h"
#include "base/str.h"
#include "event/loop.h"

_Static_assert(sizeof(KV_HELLO_HTTP) - 1 ==
		       sizeof(((struct kv_hello *)0)->http),
	       "KV_HELLO_HTTP has the size of its field");

bool
kv_hello_build(struct kv_conn *c, const struct kv_hello_opts *opts)
{
	size_t tenant_len = opts->tenant ? strlen(opts->tenant) : 0;
	size_t name_len = opts->name ? strlen(opts->name) : 0;
	struct kv_hello *h;
	char *tail;

	assert(tenant_len <= KV_TENANT_BYTES_MAX);
	name_len = kv_min_size(name_len, KV_NAME_BYTES_MAX);
	tail = kv_conn_tail(c, tenant_len + name_len);
	if (!tail)
		return false;
	h = kv_conn_body(c);
	memcpy(h->http, KV_HELLO_HTTP, sizeof(h->http));
	h->version_min = kv_le16(KV_WIRE_VERSION);
	h->version_max = kv_le16(KV_WIRE_VERSION);
	h->role = (uint8_t)opts->role;
	h->tenant_len = (uint8_t)tenant_len;
	h->name_len = (uint8_t)name_len;
	h->boot = *opts->boot;
	if (opts->want)
		h->want = *opts->want;
	if (opts->host)
		h->host = *opts->host;
	h->token = kv_le64(opts->token);
	h->pid = kv_le32((uint32_t)getpid());
	h->generation = opts->generation;
	h->features = kv_le64(opts->features);
	h->salt = kv_le32((uint32_t)kv_loop_now(kv_conn_loop(c)));
	if (tenant_len)
		memcpy(tail, opts->tenant, tenant_len);
	if (name_len)
		memcpy(tail + tenant_len, opts->name, name_len);
	return true;
}

static int
hello_parse(const struct kv_msg *msg, struct kv_hello_in *out)
{
	const struct kv_hello *h = msg->body;
	struct kv_cut cut;

	if (msg->type != KV_MSG_HELLO)
		return KV_EPROTO;
	kv_cut_init(&cut, msg);
	out->tenant = kv_cut_take(&cut, h->tenant_len);
	out->name = kv_cut_take(&cut, h->name_len);
	if (!kv_cut_done(&cut) || h->tenant_len > KV_TENANT_BYTES_MAX ||
	    h->name_len > KV_NAME_BYTES_MAX)
		return KV_EPROTO;
	out->role = h->role;
	out->version = KV_WIRE_VERSION;
	out->boot = h->boot;
	out->want = h->want;
	out->host = h->host;
	out->token = kv_get64(h->token);
	out->pid = kv_get32(h->pid);
	out->tenant_len = h->tenant_len;
	out->name_len = h->name_len;
	out->generation = h->generation;
	out->features = kv_get64(h->features);
	return KV_OK;
}

int
kv_hello_check(const struct kv_msg *msg, const struct kv_id *boot,
	       struct kv_hello_in *out, char text[KV_HELLO_TEXT_BYTES])
{
	const struct kv_hello *h = msg->body;
	struct kv_hello_in in;

	if (msg->type == KV_MSG_HELLO &&
	    (kv_get16(h->version_min) > KV_WIRE_VERSION ||
	     kv_get16(h->version_max) < KV_WIRE_VERSION)) {
		snprintf(text, KV_HELLO_TEXT_BYTES,
			 "you speak protocol versions %u to %u, this side %d "
			 "to %d: use the same release on both",
			 kv_get16(h->version_min), kv_get16(h->version_max),
			 KV_WIRE_VERSION, KV_WIRE_VERSION);
		return KV_EVERSION;
	}
	if (hello_parse(msg, &in) != KV_OK) {
		snprintf(text, KV_HELLO_TEXT_BYTES,
			 "the first message must be a well-formed HELLO");
		return KV_EPROTO;
	}
	if (!kv_id_is_zero(in.want) && !kv_id_is_equal(in.want, *boot)) {
		snprintf(text, KV_HELLO_TEXT_BYTES,
			 "another process has this address now");
		return KV_EGONE;
	}
	*out = in;
	return KV_OK;
}

static void
answer(struct kv_conn *c, uint64_t id, const char *text,
       const struct kv_hello_r *body)
{
	size_t len = text ? strlen(text) : 0;
	struct kv_hello_r *r;
	void *tail;

	r = kv_conn_begin_tail(c, KV_MSG_HELLO_R, id, 0, len, &tail);
	if (!r)
		return;
	*r = *body;
	r->version = kv_le16(KV_WIRE_VERSION);
	r->text_len = kv_le16((uint16_t)len);
	if (len)
		memcpy(tail, text, len);
	kv_conn_end(c);
}

void
kv_hello_answer(struct kv_conn *c, uint64_t id, int status, const char *text,
		const struct kv_id *boot, uint64_t token)
{
	const struct kv_hello_r body = {
		.status = (uint8_t)status,
		.boot = *boot,
		.token = kv_le64(token),
	};

	answer(c, id, text, &body);
}

void
kv_hello_welcome(struct kv_conn *c, uint64_t id,
		 const struct kv_hello_reply *reply)
{
	const struct kv_hello_r body = {
		.features = kv_le64(reply->features),
		.boot = *reply->boot,
		.token = kv_le64(reply->token),
		.generation = reply->generation,
	};

	answer(c, id, reply->text, &body);
}

const char *
kv_hello_why(int status)
{
	if (status == -EPROTO)
		return "it does not speak kvpool's protocol (is it an HTTP "
		       "port?)";
	/* Some servers close without a word what they do not understand. */
	if (status == -ECONNRESET)
		return "it closed the connection without an answer (is it an "
		       "HTTP port?)";
	return NULL;
}

int
kv_hello_parse(const struct kv_msg *msg, struct kv_hello_result *out)
{
	const struct kv_hello_r *r = msg->body;
	struct kv_hello_result res;
	const char *text;
	struct kv_cut cut;

	if (msg->type != KV_MSG_HELLO_R)
		return KV_EPROTO;
	kv_cut_init(&cut, msg);
	text = kv_cut_take(&cut, kv_get16(r->text_len));
	if (!kv_cut_done(&cut))
		return KV_EPROTO;
	res.boot = r->boot;
	res.token = kv_get64(r->token);
	res.features = kv_get64(r->features);
	res.generation = r->generation;
	res.text[0] = '\0';
	res.masters = text;
	res.masters_len = r->status == KV_OK ? kv_get16(r->text_len) : 0;
	if (r->status != KV_OK && kv_get16(r->text_len))
		kv_str_escape(res.text, sizeof(res.text), text,
			      kv_get16(r->text_len));
	*out = res;
	return r->status;
}
