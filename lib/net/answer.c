#include "net/answer.h"

#include <string.h>

#include "base/num.h"
#include "wire/msg.h"

void
kv_answer_ping(struct kv_conn *c, const struct kv_msg *ping)
{
	const struct kv_ping *in = ping->body;
	struct kv_ping *r = kv_conn_begin(c, KV_MSG_PING_R, ping->id, 0);

	if (!r)
		return;
	*r = *in;
	kv_conn_end(c);
}

void
kv_answer_error(struct kv_conn *c, uint64_t id, int status, const char *text)
{
	size_t max = kv_msg_tail_max(KV_MSG_ERROR_R);
	size_t len = text ? kv_min_size(strlen(text), max) : 0;
	struct kv_error_r *r;
	void *tail;

	r = kv_conn_begin_tail(c, KV_MSG_ERROR_R, id, 0, len, &tail);
	if (!r)
		return;
	r->status = (uint8_t)status;
	r->text_len = kv_le32((uint32_t)len);
	if (len)
		memcpy(tail, text, len);
	kv_conn_end(c);
}
