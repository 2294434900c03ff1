/*
 * What the tails of answers are read with, and the handshake: the bytes after
 * the first two are the tail, these choose the message. A body of zeros but for
 * its counts comes before it.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "kvpool.h"
#include "net/hello.h"
#include "wire/map.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every byte that a reader was given is there. */
static void
touch(const void *p, size_t n)
{
	const uint8_t *b = p;
	unsigned sum = 0;
	size_t i;

	for (i = 0; i < n; i++)
		sum += b[i];
	if (sum == UINT_MAX)
		abort(); /* never: so the sum is needed */
}

static void
read_lookup(struct kv_msg msg, unsigned count, unsigned nodes)
{
	struct kv_lookup_r r = { .count = kv_le32(count),
				 .nodes = kv_le16((uint16_t)nodes) };
	struct kv_map_lookup m;
	struct kv_map_node n;
	unsigned i, at = 0;

	msg.body = &r;
	if (kv_map_lookup_parse(&msg, count, &m) < 0)
		return;
	for (i = 0; i < m.count; at += m.owners[i++])
		touch(&m.index[at], m.owners[i] * sizeof(*m.index));
	for (i = 0; i < m.nodes; i++) {
		if (!kv_map_node_take(&m.records, &n))
			abort(); /* it was checked */
		touch(n.addr, n.rec->addr_len);
		touch(n.name, n.rec->name_len);
	}
}

static void
read_grants(struct kv_msg msg, unsigned count)
{
	struct kv_grant_r r = { .count = kv_le32(count) };
	struct kv_map_grants m;
	unsigned i;

	msg.body = &r;
	if (kv_map_grants_parse(&msg, &m) < 0)
		return;
	for (i = 0; i < count; i++) {
		touch(m.ext, kv_get32(m.ent[i].extents) * sizeof(*m.ext));
		m.ext += kv_get32(m.ent[i].extents);
	}
}

static void
read_values(struct kv_msg msg, unsigned count)
{
	struct kv_get_r r = { .count = kv_le32(count) };
	struct kv_map_values m;
	unsigned i;

	msg.body = &r;
	if (kv_map_values_parse(&msg, count, &m) < 0)
		return;
	for (i = 0; i < count; i++) {
		touch(m.ext, kv_get16(m.ent[i].extents) * sizeof(*m.ext));
		touch(m.bytes, kv_get32(m.ent[i].inline_len));
		m.ext += kv_get16(m.ent[i].extents);
		m.bytes += kv_get32(m.ent[i].inline_len);
	}
}

static void
read_records(struct kv_msg *msg)
{
	struct kv_map_query q;
	struct kv_cut c;

	kv_cut_init(&c, msg);
	while (kv_map_query_take(&c, &q)) {
		touch(q.addr, q.rec->addr_len);
		touch(q.name, q.rec->name_len);
	}
}

static void
read_hello(struct kv_msg msg)
{
	char text[KV_HELLO_TEXT_BYTES];
	const struct kv_id boot = { { 1 } };
	struct kv_hello_in in;
	struct kv_hello h;

	if (msg.tail_len < sizeof(h))
		return;
	memcpy(&h, msg.tail, sizeof(h));
	msg.type = KV_MSG_HELLO;
	msg.body = &h;
	msg.tail += sizeof(h);
	msg.tail_len -= sizeof(h);
	if (kv_hello_check(&msg, &boot, &in, text) != KV_OK) {
		touch(text, strlen(text));
		return;
	}
	touch(in.tenant, in.tenant_len);
	touch(in.name, in.name_len);
}

static void
read_hello_r(struct kv_msg msg)
{
	struct kv_hello_result out;
	struct kv_hello_r r;

	if (msg.tail_len < sizeof(r))
		return;
	memcpy(&r, msg.tail, sizeof(r));
	msg.type = KV_MSG_HELLO_R;
	msg.body = &r;
	msg.tail += sizeof(r);
	msg.tail_len -= sizeof(r);
	kv_hello_parse(&msg, &out);
	touch(out.text, strlen(out.text));
}

/* Behind the windows come pieces, behind a count and what they add up to. */
static void
read_windows(struct kv_msg msg, unsigned count, unsigned ports)
{
	const struct kv_le64 *bytes;
	const struct kv_piece *p;
	const struct kv_le32 *n;
	struct kv_map_windows w;
	struct kv_map_window in;
	struct kv_cut c;
	uint64_t sum = 0;
	unsigned i;

	kv_cut_init(&c, &msg);
	if (!kv_map_windows_take(&c, count, ports, &w))
		return;
	for (i = 0; i < count; i++) {
		in = kv_map_window_get(&w, i);
		touch(in.keys, ports * sizeof(*in.keys));
		if (in.addr + in.len < in.addr)
			abort();
	}
	n = kv_cut_take(&c, sizeof(*n));
	bytes = kv_cut_take(&c, sizeof(*bytes));
	if (!n || !bytes)
		return;
	p = kv_map_pieces_take(&c, &w, kv_get32(*n), kv_get64(*bytes));
	for (i = 0; p && i < kv_get32(*n); i++) {
		in = kv_map_window_get(&w, kv_get32(p[i].window));
		if (kv_get64(p[i].off) + kv_get32(p[i].len) > in.len)
			abort();
		sum += kv_get32(p[i].len);
	}
	if (p && sum != kv_get64(*bytes))
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kv_msg msg = { 0 };

	if (size < 2)
		return 0;
	msg.tail = data + 2;
	msg.tail_len = size - 2;
	switch (data[0] % 7) {
	case 0:
		read_lookup(msg, data[1] & 15, data[1] >> 4);
		break;
	case 1:
		read_grants(msg, data[1]);
		break;
	case 2:
		read_values(msg, data[1]);
		break;
	case 3:
		read_records(&msg);
		break;
	case 4:
		read_hello(msg);
		break;
	case 5:
		read_hello_r(msg);
		break;
	default:
		read_windows(msg, data[1] & 7, data[1] >> 3);
	}
	return 0;
}
