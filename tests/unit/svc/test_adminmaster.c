/* The HTTP side of a master: real connections to it, and behind it a cluster on
 * a virtual clock whose nodes are played frame by frame. */
#include "svc/admin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/bytes.h"
#include "base/limits.h"
#include "base/log.h"
#include "event/loop.h"
#include "http/exchange.h"
#include "wire/msg.h"

#include "httpclient.h"
#include "masterrig.h"
#include "test.h"

static struct kv_loop *loop; /* of the HTTP server */
static struct kv_admin *admin;
static struct httpclient c;
static struct rignode a, b;

static void
open_client(struct httpclient *cl)
{
	httpclient_open(cl, loop, kv_admin_port(admin));
	assert_true(cl->fd >= 0);
}

static int
setup(void **state)
{
	struct kv_admin_opts opts = { .host = "127.0.0.1" };
	char err[256];

	kv_log_set_level(KV_LOG_ERR);
	rig_setup(state);
	loop = kv_loop_new(NULL);
	assert_non_null(loop);
	opts.loop = loop;
	opts.master = rig.m;
	admin = kv_admin_new(&opts, err, sizeof(err));
	if (!admin)
		fail_msg("%s", err);
	open_client(&c);
	rig_up(&a, "10.0.0.2", 50052, 0xa0);
	rig_up(&b, "10.0.0.3", 50052, 0xb0);
	return 0;
}

static int
teardown(void **state)
{
	httpclient_close(&c);
	kv_admin_free(admin);
	admin = NULL;
	kv_loop_free(loop);
	return rig_teardown(state);
}

/* ---- asking ---- */

static void
check_text(const char *want)
{
	assert_true(c.is_whole);
	assert_string_equal((char *)c.body.data, want);
}

static void
check_has(const char *want)
{
	if (!strstr((char *)c.body.data, want)) {
		fprintf(stderr, "no %s in %s\n", want, (char *)c.body.data);
		fail();
	}
}

static void
check_not(const char *what)
{
	if (strstr((char *)c.body.data, what))
		fail_msg("%s in %s", what, (char *)c.body.data);
}

/* Sends a request that nodes must answer, and lets it reach the master. */
static void
say(struct httpclient *cl, const char *method, const char *target)
{
	char *text = NULL;

	assert_true(asprintf(&text,
			     "%s %s HTTP/1.1\r\nHost: x\r\n"
			     "Content-Length: 0\r\n\r\n",
			     method, target) > 0);
	httpclient_say(cl, text);
	free(text);
	httpclient_turn(cl, 20);
}

static int
take(void)
{
	rig_ms(2);
	return httpclient_take(&c, true);
}

/* ---- the nodes' answers ---- */

/* The client reads on meanwhile: it may be what makes the master ask. */
static struct wireframe *
asked(struct rignode *n, enum kv_msg_type type)
{
	struct wireframe *f = NULL;

	for (int i = 0; !f && i < 2000; i++) {
		httpclient_read(&c, 1);
		rig_ms(1);
		f = wirepeer_take(&n->p.w, type);
	}
	if (!f)
		fail_msg("no %s came", kv_msg_name(type));
	return f;
}

/* Frees the question. */
static void
answer(struct rignode *n, struct wireframe *f, const void *body,
       const struct kv_bytes *tail)
{
	static const struct kv_bytes none;

	if (!tail)
		tail = &none;
	wirepeer_send(&n->p.w, f->type + 128, f->id, body, tail->data,
		      tail->len);
	wireframe_free(f);
}

static void
append(struct kv_bytes *to, const void *p, size_t n)
{
	assert_int_equal(kv_bytes_append(to, p, n), 0);
}

static void
answer_query(struct rignode *n, const char *tenant, const char *key,
	     size_t key_len, uint64_t size)
{
	struct wireframe *f = asked(n, KV_MSG_QUERY);
	const struct kv_query *q = (void *)f->body;
	struct kv_query_r r = { .count = kv_le32(size ? 1 : 0) };
	struct kv_query_rec rec = { .boot = n->p.boot,
				    .size = kv_le64(size),
				    .off = kv_le64(4096) };
	struct kv_bytes tail = { 0 };

	assert_int_equal(q->tenant_len, strlen(tenant));
	assert_int_equal(kv_get16(q->key_len), key_len);
	assert_int_equal(f->tail_len, strlen(tenant) + key_len);
	assert_memory_equal(f->tail, tenant, strlen(tenant));
	assert_memory_equal(f->tail + strlen(tenant), key, key_len);
	if (size)
		append(&tail, &rec, sizeof(rec));
	answer(n, f, &r, &tail);
	kv_bytes_fini(&tail);
}

struct page {
	struct kv_bytes ents, keys;
	uint32_t count;
};

static void
page_add(struct page *p, const void *key, size_t len)
{
	struct kv_keys_ent ent = { .size = kv_le64(1),
				   .key_len = kv_le16((uint16_t)len) };

	append(&p->ents, &ent, sizeof(ent));
	append(&p->keys, key, len);
	p->count++;
}

/* A page of which `cursor` is where the next one begins. */
static void
answer_page(struct rignode *n, struct page *p, uint64_t cursor)
{
	struct wireframe *f = asked(n, KV_MSG_KEYS);
	struct kv_keys_r r = { .cursor = kv_le64(cursor),
			       .count = kv_le32(p->count) };

	if (p->count)
		append(&p->ents, p->keys.data, p->keys.len);
	answer(n, f, &r, &p->ents);
	kv_bytes_fini(&p->ents);
	kv_bytes_fini(&p->keys);
	*p = (struct page){ 0 };
	rig_ms(2);
}

/* ---- itself ---- */

static void
health_and_role(void **state)
{
	(void)state;
	assert_int_equal(httpclient_get(&c, "/health"), 200);
	check_text("{\"status\":\"ok\",\"role\":\"leader\","
		   "\"ha_state\":\"serving\",\"service_ready\":true,"
		   "\"complete\":true,\"nodes\":2}");
	assert_true(httpclient_has_header(
		&c, "Content-Type: application/json; charset=utf-8"));
	assert_int_equal(httpclient_get(&c, "/role"), 200);
	check_text("leader");
	assert_int_equal(httpclient_get(&c, "/ha_status"), 200);
	check_text("serving");
	assert_int_equal(httpclient_get(&c, "/leader"), 200);
	check_text("{\"present\":false}");
}

static void
while_it_drains(void **state)
{
	static const char *const refused[] = {
		"/get_all_segments",
		"/get_segments_detail",
		"/query_segment?segment=10.0.0.2:50052",
		"/get_all_keys",
		"/query_key?key=a",
		"/batch_query_keys?keys=a",
	};

	(void)state;
	kv_admin_drain(admin);
	assert_int_equal(httpclient_get(&c, "/health"), 200);
	check_has("\"service_ready\":false");
	assert_int_equal(httpclient_get(&c, "/metrics"), 200);
	for (size_t i = 0; i < KV_ARRAY_LEN(refused); i++) {
		assert_int_equal(httpclient_get(&c, refused[i]), 503);
		check_has("service plane is not active");
	}
	assert_int_equal(httpclient_ask(&c, "POST", "/api/v1/remove_all", ""),
			 503);
}

static void
metrics(void **state)
{
	static struct rigpeer p;

	(void)state;
	assert_int_equal(rig_put(&a, 1, 11, 0), KV_VERDICT_STAYS);
	rig_requester(&p, "10.0.0.9");
	assert_true(rig_exists(&p, 1));
	assert_int_equal(httpclient_get(&c, "/metrics"), 200);
	assert_true(httpclient_has_header(
		&c, "Content-Type: text/plain; version=0.0.4; charset=utf-8"));
	check_has("# TYPE kvpool_build_info gauge\n"
		  "kvpool_build_info{version=\"");
	check_has("# TYPE master_key_count gauge\nmaster_key_count 1\n");
	check_has("# TYPE master_active_clients gauge\n"
		  "master_active_clients 2\n");
	check_has("# TYPE segment_total_capacity_bytes gauge\n"
		  "segment_total_capacity_bytes{segment=\"10.0.0.2:50052\"} "
		  "1048576\n"
		  "segment_total_capacity_bytes{segment=\"10.0.0.3:50052\"} "
		  "1048576\n");
	check_has("# TYPE master_exist_key_requests_total counter\n"
		  "master_exist_key_requests_total 1\n");
}

static void
summary(void **state)
{
	(void)state;
	a.room.pool_bytes = kv_le64(3 << 20);
	a.room.ready_bytes = kv_le64(2 << 20);
	a.room.free_bytes = kv_le64(1 << 20);
	rig_beat(&a);
	rig_ms(10);
	assert_int_equal(httpclient_get(&c, "/metrics/summary"), 200);
	check_has("role=leader, state=serving, service_ready=true, "
		  "master={Mem Storage: 1.0 MiB / ");
	check_has("| SSD Storage: 0 B / 0 B | Keys: 0 (soft-pinned: 0) | "
		  "Clients: 2 | ");
	assert_ptr_equal(strchr((char *)c.body.data, '\n'),
			 c.body.data + c.body.len - 1);
}

/* ---- nodes ---- */

static void
segments(void **state)
{
	static struct rignode joining;

	(void)state;
	assert_int_equal(httpclient_get(&c, "/get_all_segments"), 200);
	check_text("10.0.0.2:50052\n10.0.0.3:50052\n");
	rig_node(&joining, "10.0.0.4", 50052, 0xc0);
	assert_int_equal(rig_join(&joining, NULL), 0);
	assert_int_equal(httpclient_get(&c, "/get_all_segments"), 200);
	check_has("10.0.0.4:50052\n");
	assert_int_equal(httpclient_get(&c, "/health"), 200);
	check_has("\"complete\":false");
	rig_kill(&b);
	rig_ms(3000);
	assert_int_equal(httpclient_get(&c, "/get_all_segments"), 200);
	check_not("10.0.0.3");
}

static void
no_segments(void **state)
{
	(void)state;
	rig_send(&a.p, KV_MSG_LEAVE, NULL, NULL, 0);
	rig_send(&b.p, KV_MSG_LEAVE, NULL, NULL, 0);
	rig_ms(100);
	assert_int_equal(httpclient_get(&c, "/get_all_segments"), 200);
	check_text("");
	assert_int_equal(httpclient_get(&c, "/get_segments_detail"), 200);
	check_text("{\"total_segments\":0,\"segments\":[]}");
}

static void
segments_in_detail(void **state)
{
	(void)state;
	a.room.pool_bytes = kv_le64(4 << 20);
	a.room.ready_bytes = kv_le64(2 << 20);
	a.room.free_bytes = kv_le64(1 << 20);
	a.room.keys = kv_le64(7);
	rig_beat(&a);
	rig_ms(10);
	assert_int_equal(httpclient_get(&c, "/get_segments_detail"), 200);
	check_has("{\"total_segments\":2,\"segments\":[{"
		  "\"segment_name\":\"10.0.0.2:50052\","
		  "\"segment_id\":\"a0000000-0000-0000-0000-000000000000\",");
	check_has("\"size_bytes\":4194304,\"size_human\":\"4.0 MiB\","
		  "\"te_endpoint\":\"10.0.0.2:50052\",\"protocol\":\"tcp\","
		  "\"status\":\"OK\",\"allocator_used_bytes\":1048576,"
		  "\"allocator_capacity_bytes\":4194304,"
		  "\"allocator_usage_percent\":25.00,\"name\":\"na0\","
		  "\"ready_bytes\":2097152,\"pinned_bytes\":0,\"keys\":7,");
}

/* Killed and started again at its address: the old one is known for a time. */
static void
a_segment_comes_again(void **state)
{
	static struct rignode again;
	const char *first;

	(void)state;
	a.is_frozen = true;
	a.beats = false;
	rig_ms(1000);
	rig_node(&again, "10.0.0.2", 50053, 0xa1);
	assert_int_equal(rig_join(&again, "10.0.0.2:50052"), 0);
	again.room.pool_bytes = kv_le64(2 << 20);
	rig_beat(&again);
	rig_ms(10);
	assert_int_equal(httpclient_get(&c, "/metrics"), 200);
	check_has("segment_total_capacity_bytes{segment=\"10.0.0.2:50052\"} "
		  "2097152\n"
		  "segment_total_capacity_bytes{segment=\"10.0.0.3:50052\"} "
		  "0\n");
	assert_int_equal(httpclient_get(&c, "/get_segments_detail"), 200);
	check_has("\"total_segments\":2,");
	check_has("\"segment_id\":\"a1000000-");
	check_not("\"segment_id\":\"a0000000-");
	assert_int_equal(httpclient_get(&c, "/get_all_segments"), 200);
	first = strstr((char *)c.body.data, "10.0.0.2:50052");
	assert_non_null(first);
	assert_null(strstr(first + 1, "10.0.0.2:50052"));
}

static void
one_segment(void **state)
{
	(void)state;
	assert_int_equal(httpclient_get(&c, "/query_segment"), 400);
	check_has("?segment= is missing");
	assert_int_equal(httpclient_get(&c, "/query_segment?segment=10.0.0.2"),
			 404);
	check_has("\"error_code\":-101,\"error_message\":\"no such segment\"");
	assert_int_equal(
		httpclient_get(&c, "/query_segment?segment=10.0.0.2%3a50052"),
		200);
	check_text("10.0.0.2:50052\nUsed(bytes): 0\n"
		   "Capacity(bytes) : 1048576\n");
	assert_int_equal(httpclient_get(&c, "/api/v1/segments/status"
					    "?segment=10.0.0.3:50052"),
			 200);
	check_text("{\"success\":true,\"segment\":\"10.0.0.3:50052\","
		   "\"status\":1,\"status_name\":\"OK\"}");
}

/* ---- one key ---- */

#define ODD     "a/b%2F c+d\n\0\xff#"
#define ODD_ESC "a/b%252F%20c%2bd%0A%00%ff%23"

/* The rig's keys are hashes of nothing; only a node that publishes a key's own
 * hash is asked for it. */
static void
publish_key(struct rignode *n, const char *tenant, const char *key, size_t len)
{
	struct kv_publish_ent ent = {
		.hash = kv_key_hash_build(kv_key_hash(
			kv_key_seed(tenant, strlen(tenant)), key, len)),
		.put_id = { .random = kv_le64(5) },
	};

	wireframe_free(rig_publish(n, 0, &ent, 1, 0));
}

static void
a_key_and_its_copies(void **state)
{
	(void)state;
	publish_key(&a, "", ODD, sizeof(ODD) - 1);
	publish_key(&b, "", ODD, sizeof(ODD) - 1);
	say(&c, "GET", "/query_key?key=" ODD_ESC);
	answer_query(&a, "", ODD, sizeof(ODD) - 1, 100);
	answer_query(&b, "", ODD, sizeof(ODD) - 1, 100);
	assert_int_equal(take(), 200);
	check_text("{\"size_\":100,\"buffer_address_\":4096,"
		   "\"protocol_\":\"tcp\","
		   "\"transport_endpoint_\":\"10.0.0.2:50052\"}\n"
		   "{\"size_\":100,\"buffer_address_\":4096,"
		   "\"protocol_\":\"tcp\","
		   "\"transport_endpoint_\":\"10.0.0.3:50052\"}\n");
}

static void
a_key_of_a_tenant(void **state)
{
	(void)state;
	publish_key(&a, "t", "k", 1);
	say(&c, "GET", "/query_key?key=k&tenant=t");
	answer_query(&a, "t", "k", 1, 1);
	assert_int_equal(take(), 200);
	say(&c, "GET", "/query_key?tenant_id=t&key=k");
	answer_query(&a, "t", "k", 1, 1);
	assert_int_equal(take(), 200);
}

static void
a_key_that_is_not_there(void **state)
{
	(void)state;
	say(&c, "GET", "/query_key?key=none");
	assert_int_equal(take(), 404);
	check_text("{\"success\":false,\"error_code\":-704,"
		   "\"error_message\":\"no such key\"}");
	publish_key(&a, "", "gone", 4);
	say(&c, "GET", "/query_key?key=gone");
	answer_query(&a, "", "gone", 4, 0);
	assert_int_equal(take(), 404);
}

static void
a_node_that_does_not_answer(void **state)
{
	(void)state;
	publish_key(&a, "", "k", 1);
	say(&c, "GET", "/query_key?key=k");
	rig_ms(2500);
	assert_int_equal(take(), 404);
	check_has("no node that answered has this key, 1 did not answer");
}

static void
keys_and_tenants_have_bounds(void **state)
{
	char target[4000], name[2000];

	(void)state;
	assert_int_equal(httpclient_get(&c, "/query_key"), 400);
	check_has("?key= is missing");
	assert_int_equal(httpclient_get(&c, "/query_key?key=k&key=k"), 400);
	check_has("?key= is there more than once");
	assert_int_equal(httpclient_get(&c, "/query_key?key="), 400);
	check_has("a key has 1 to 1024 bytes");
	memset(name, 'k', sizeof(name));
	snprintf(target, sizeof(target), "/query_key?key=%.1025s", name);
	assert_int_equal(httpclient_get(&c, target), 400);
	snprintf(target, sizeof(target), "/query_key?key=%.1024s", name);
	say(&c, "GET", target);
	assert_int_equal(take(), 404);
	snprintf(target, sizeof(target), "/query_key?key=k&tenant=%.65s", name);
	assert_int_equal(httpclient_get(&c, target), 400);
	check_has("a tenant's name has at most 64 bytes");
	snprintf(target, sizeof(target), "/get_all_keys?tenant=%.65s", name);
	assert_int_equal(httpclient_get(&c, target), 400);
	snprintf(target, sizeof(target),
		 "/batch_query_keys?keys=k&tenant=%.65s", name);
	assert_int_equal(httpclient_get(&c, target), 400);
}

static void
the_asker_leaves(void **state)
{
	struct httpclient other;

	(void)state;
	publish_key(&a, "", "k", 1);
	open_client(&other);
	say(&other, "GET", "/query_key?key=k");
	httpclient_close(&other);
	answer_query(&a, "", "k", 1, 1);
	rig_ms(2);
	httpclient_turn(&c, 20);
	assert_int_equal(httpclient_get(&c, "/role"), 200);
}

static void
it_ends_while_it_asks(void **state)
{
	struct httpclient others[4];

	(void)state;
	publish_key(&a, "", "k", 1);
	for (size_t i = 0; i < KV_ARRAY_LEN(others); i++)
		open_client(&others[i]);
	say(&others[0], "GET", "/query_key?key=k");
	say(&others[1], "GET", "/batch_query_keys?keys=k,l");
	say(&others[2], "GET", "/get_all_keys");
	say(&others[3], "POST", "/api/v1/remove_all");
	kv_admin_free(admin);
	admin = NULL;
	for (size_t i = 0; i < KV_ARRAY_LEN(others); i++)
		httpclient_close(&others[i]);
	rig_ms(3000);
}

/* ---- many keys ---- */

static void
a_batch(void **state)
{
	(void)state;
	publish_key(&a, "", "k1", 2);
	publish_key(&a, "", "k,2", 3);
	publish_key(&b, "", "\xff", 1);
	say(&c, "GET", "/batch_query_keys?keys=k1,none,k1&key=k%2c2&key=%ff");
	answer_query(&a, "", "k,2", 3, 2);
	answer_query(&a, "", "k1", 2, 1);
	answer_query(&b, "", "\xff", 1, 3);
	assert_int_equal(take(), 200);
	check_text("{\"success\":true,\"data\":{"
		   "\"k,2\":{\"ok\":true,\"values\":[{\"size_\":2,"
		   "\"buffer_address_\":4096,\"protocol_\":\"tcp\","
		   "\"transport_endpoint_\":\"10.0.0.2:50052\"}]},"
		   "\"k1\":{\"ok\":true,\"values\":[{\"size_\":1,"
		   "\"buffer_address_\":4096,\"protocol_\":\"tcp\","
		   "\"transport_endpoint_\":\"10.0.0.2:50052\"}]},"
		   "\"none\":{\"ok\":false,\"error\":\"no such key\"},"
		   "\"%FF\":{\"key\":{\"b64\":\"/w==\"},\"ok\":true,"
		   "\"values\":[{\"size_\":3,"
		   "\"buffer_address_\":4096,\"protocol_\":\"tcp\","
		   "\"transport_endpoint_\":\"10.0.0.3:50052\"}]}}}");
}

static void
a_batch_joined_and_escaped(void **state)
{
	(void)state;
	say(&c, "GET", "/batch_query_keys?keys=a%2Cb,,c%2C");
	assert_int_equal(take(), 200);
	check_text("{\"success\":true,\"data\":{"
		   "\"a\":{\"ok\":false,\"error\":\"no such key\"},"
		   "\"b\":{\"ok\":false,\"error\":\"no such key\"},"
		   "\"c\":{\"ok\":false,\"error\":\"no such key\"}}}");
}

static void
a_batch_with_bad_keys(void **state)
{
	char target[2000], name[1026];

	(void)state;
	assert_int_equal(httpclient_get(&c, "/batch_query_keys"), 400);
	check_has("No keys provided. Use ?keys=key1,key2,...");
	assert_int_equal(httpclient_get(&c, "/batch_query_keys?keys=,"), 400);
	memset(name, 'k', 1025);
	name[1025] = '\0';
	snprintf(target, sizeof(target), "/batch_query_keys?keys=a,%s", name);
	say(&c, "GET", target);
	assert_int_equal(take(), 200);
	check_has("\"a\":{\"ok\":false,\"error\":\"no such key\"}");
	check_has("k\":{\"ok\":false,\"error\":\"invalid argument\"}");
}

static void
a_large_batch_asks_in_portions(void **state)
{
	struct kv_bytes target = { 0 };
	char key[16];

	(void)state;
	append(&target, "/batch_query_keys?keys=", 23);
	for (int i = 0; i < 300; i++) {
		snprintf(key, sizeof(key), "k%03d", i);
		publish_key(&a, "", key, 4);
		append(&target, key, 4);
		append(&target, ",", 1);
	}
	append(&target, "", 1);
	say(&c, "GET", (char *)target.data);
	rig_ms(5);
	assert_int_equal(wirepeer_count(&a.p.w, KV_MSG_QUERY), 64);
	for (int i = 0; i < 300; i++) {
		snprintf(key, sizeof(key), "k%03d", i);
		answer_query(&a, "", key, 4, 1);
	}
	assert_int_equal(take(), 200);
	check_has("\"k000\":{\"ok\":true");
	check_has("\"k299\":{\"ok\":true");
	kv_bytes_fini(&target);
}

static void
a_batch_has_a_bound(void **state)
{
	struct kv_bytes target = { 0 };

	(void)state;
	append(&target, "/batch_query_keys?keys=", 23);
	for (int i = 0; i <= KV_BATCH_KEYS_MAX; i++)
		append(&target, "k,", 2);
	append(&target, "", 1);
	assert_int_equal(httpclient_get(&c, (char *)target.data), 400);
	check_has("more than 4096 keys");
	kv_bytes_fini(&target);
}

static void
a_batch_and_a_node_that_is_away(void **state)
{
	(void)state;
	publish_key(&a, "", "k", 1);
	say(&c, "GET", "/batch_query_keys?keys=k");
	rig_ms(2500);
	assert_int_equal(take(), 200);
	check_has("\"k\":{\"ok\":false,\"error\":\"node cannot be reached\"}");
}

/* ---- all keys ---- */

static void
pages_of_two_nodes(void **state)
{
	struct page p = { 0 };
	char key[32], *want = NULL;
	size_t n;

	(void)state;
	say(&c, "GET", "/get_all_keys");
	FILE *f = open_memstream(&want, &n);

	for (int i = 0; i < 3; i++) {
		for (int j = 0; j < 2000; j++) {
			snprintf(key, sizeof(key), "key-%d-%d", i, j);
			page_add(&p, key, strlen(key));
			fprintf(f, "%s\n", key);
		}
		answer_page(&a, &p, i < 2 ? i + 1 : 0);
	}
	answer_page(&b, &p, 9); /* none of it was to be shown */
	page_add(&p, "last", 4);
	answer_page(&b, &p, 0);
	fprintf(f, "last\n");
	fclose(f);
	assert_int_equal(take(), 200);
	check_text(want);
	free(want);
}

static void
odd_keys_are_lines(void **state)
{
	struct page p = { 0 };

	(void)state;
	page_add(&p, "vllm@/m/@1", 10);
	page_add(&p, "a b%2F", 6);
	page_add(&p, "\n\0\x7f", 3);
	page_add(&p, "\xd0\xba\xff", 3);
	say(&c, "GET", "/get_all_keys");
	answer_page(&a, &p, 0);
	answer_page(&b, &p, 0);
	assert_int_equal(take(), 200);
	check_text("vllm@/m/@1\na b%2F\n%0A%00%7F\n\xd0\xba\xff\n");
}

static void
odd_keys_as_json(void **state)
{
	struct page p = { 0 };

	(void)state;
	page_add(&p, "\n\0\x7f", 3);
	page_add(&p, "\xd0\xba", 2);
	page_add(&p, "\xd0\xba\xff", 3);
	say(&c, "GET", "/get_all_keys?json=1");
	answer_page(&a, &p, 0);
	page_add(&p, "z", 1);
	answer_page(&b, &p, 0);
	assert_int_equal(take(), 200);
	check_text("{\"keys\":[\"\\u000a\\u0000\\u007f\",\"\xd0\xba\","
		   "{\"b64\":\"0Lr/\"},\"z\"],\"away\":[]}");
}

static void
json_by_its_header(void **state)
{
	struct page p = { 0 };

	(void)state;
	httpclient_say(&c, "GET /get_all_keys HTTP/1.1\r\nHost: x\r\n"
			   "Accept: application/json\r\n\r\n");
	httpclient_turn(&c, 20);
	answer_page(&a, &p, 0);
	answer_page(&b, &p, 0);
	assert_int_equal(take(), 200);
	check_text("{\"keys\":[],\"away\":[]}");
}

static void
copies_are_one_key(void **state)
{
	struct page p = { 0 };

	(void)state;
	publish_key(&a, "t", "both", 4);
	publish_key(&b, "t", "both", 4);
	publish_key(&b, "t", "mine", 4);
	say(&c, "GET", "/get_all_keys?tenant=t");
	page_add(&p, "both", 4);
	answer_page(&a, &p, 0);
	page_add(&p, "both", 4);
	page_add(&p, "mine", 4);
	answer_page(&b, &p, 0);
	assert_int_equal(take(), 200);
	check_text("both\nmine\n");
}

static void
nodes_that_give_no_keys_are_named(void **state)
{
	struct page p = { 0 };

	(void)state;
	page_add(&p, "k", 1);
	say(&c, "GET", "/get_all_keys");
	answer_page(&a, &p, 0);
	wireframe_free(asked(&b, KV_MSG_KEYS));
	rig_ms(2500);
	assert_int_equal(take(), 200);
	check_text("k\n");
	/* The trailer came behind the body. */
	assert_non_null(strstr((char *)c.tail.data,
			       "X-Kvpool-Away: "
			       "b0000000-0000-0000-0000-000000000000\r\n"));
	say(&c, "GET", "/get_all_keys?json=true");
	wireframe_free(asked(&a, KV_MSG_KEYS));
	rig_ms(2500);
	answer_page(&b, &p, 0);
	assert_int_equal(take(), 200);
	check_text("{\"keys\":[],\"away\":["
		   "\"a0000000-0000-0000-0000-000000000000\"]}");
}

static void
a_list_of_no_nodes(void **state)
{
	(void)state;
	rig_send(&a.p, KV_MSG_LEAVE, NULL, NULL, 0);
	rig_send(&b.p, KV_MSG_LEAVE, NULL, NULL, 0);
	rig_ms(100);
	say(&c, "GET", "/get_all_keys");
	assert_int_equal(take(), 200);
	check_text("");
}

static void
the_reader_of_a_list_leaves(void **state)
{
	struct httpclient other;
	struct page p = { 0 };

	(void)state;
	open_client(&other);
	say(&other, "GET", "/get_all_keys");
	page_add(&p, "k", 1);
	answer_page(&a, &p, 1);
	httpclient_read(&other, 20);
	httpclient_close(&other);
	answer_page(&a, &p, 2);
	httpclient_turn(&c, 20);
	assert_int_equal(httpclient_get(&c, "/role"), 200);
}

static void
a_node_leaves_in_the_middle_of_a_list(void **state)
{
	struct page p = { 0 };

	(void)state;
	say(&c, "GET", "/get_all_keys");
	page_add(&p, "first", 5);
	answer_page(&a, &p, 1);
	rig_send(&a.p, KV_MSG_LEAVE, NULL, NULL, 0);
	rig_ms(10);
	page_add(&p, "second", 6);
	answer_page(&b, &p, 0);
	assert_int_equal(take(), 200);
	check_text("first\nsecond\n");
	assert_null(strstr((char *)c.tail.data, "X-Kvpool-Away"));
}

static void
broken_pages_end_a_list(void **state)
{
	struct kv_keys_r r = { .count = kv_le32(1000) };
	struct page p = { 0 };

	(void)state;
	say(&c, "GET", "/get_all_keys");
	answer(&a, asked(&a, KV_MSG_KEYS), &r, NULL);
	assert_int_equal(take(), 503);
	say(&c, "GET", "/get_all_keys");
	page_add(&p, "k", 1);
	answer_page(&a, &p, 0);
	answer(&b, asked(&b, KV_MSG_KEYS), &r, NULL);
	assert_int_equal(take(), 200);
	assert_false(c.is_whole);
}

/* ---- the end of all keys ---- */

static void
stopped(void *arg)
{
	(void)arg;
}

static void
answer_remove(struct rignode *n, unsigned flags, const char *tenant,
	      uint64_t removed)
{
	struct wireframe *f = asked(n, KV_MSG_REMOVE);
	const struct kv_remove *q = (void *)f->body;
	struct kv_remove_r r = {
		.removed = kv_le64(removed),
		.kept = kv_le32(flags ? 0 : 1),
	};

	assert_int_equal(q->op, KV_REMOVE_ALL);
	assert_int_equal(q->flags, flags);
	assert_int_equal(f->tail_len, strlen(tenant));
	assert_memory_equal(f->tail, tenant, f->tail_len);
	answer(n, f, &r, NULL);
	if (removed > 0)
		rig_pong(n);
}

static void
everything_is_removed(void **state)
{
	(void)state;
	assert_int_equal(httpclient_get(&c, "/api/v1/remove_all"), 405);
	assert_true(httpclient_has_header(&c, "Allow: POST"));
	say(&c, "POST", "/api/v1/remove_all");
	answer_remove(&a, 0, "", 3);
	answer_remove(&b, 0, "", 4);
	assert_int_equal(take(), 200);
	check_text("{\"success\":true,\"removed_count\":7,\"kept_count\":2}");
	say(&c, "POST", "/api/v1/remove_all?force=true&tenant_id=t");
	answer_remove(&a, KV_REMOVE_FORCE, "t", 0);
	answer_remove(&b, KV_REMOVE_FORCE, "t", 0);
	assert_int_equal(take(), 200);
	check_text("{\"success\":true,\"removed_count\":0,\"kept_count\":0}");
}

static void
removal_with_a_node_away(void **state)
{
	(void)state;
	say(&c, "POST", "/api/v1/remove_all?force=1");
	answer_remove(&a, KV_REMOVE_FORCE, "", 3);
	rig_ms(2500);
	assert_int_equal(take(), 503);
	check_text("{\"success\":false,\"removed_count\":3,"
		   "\"kept_count\":0,"
		   "\"error_code\":-900,\"error_message\":"
		   "\"not all nodes answered: try again\",\"away\":["
		   "\"b0000000-0000-0000-0000-000000000000\"]}");
}

/* As one is that has too many questions under way. */
static void
a_master_that_is_busy(void **state)
{
	static const char *const targets[] = { "/query_key?key=k",
					       "/get_all_keys" };

	(void)state;
	kv_master_stop(rig.m, stopped, NULL);
	for (size_t i = 0; i < KV_ARRAY_LEN(targets); i++) {
		assert_int_equal(httpclient_get(&c, targets[i]), 503);
		check_has("\"error_message\":\"busy, try again\"");
	}
	assert_int_equal(httpclient_ask(&c, "POST", "/api/v1/remove_all", ""),
			 503);
	assert_int_equal(httpclient_get(&c, "/batch_query_keys?keys=k,l"), 200);
	check_text("{\"success\":true,\"data\":{"
		   "\"k\":{\"ok\":false,\"error\":\"busy, try again\"},"
		   "\"l\":{\"ok\":false,\"error\":\"busy, try again\"}}}");
}

static void
no_port(void **state)
{
	struct kv_admin_opts opts = { .loop = loop, .master = rig.m };
	char err[256] = "";

	(void)state;
	opts.port = kv_admin_port(admin);
	opts.host = "127.0.0.1";
	assert_null(kv_admin_new(&opts, err, sizeof(err)));
	assert_int_equal(errno, EADDRINUSE);
	assert_non_null(strstr(err, "is in use already"));
}

#define in_scene(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		in_scene(health_and_role),
		in_scene(while_it_drains),
		in_scene(metrics),
		in_scene(summary),
		in_scene(segments),
		in_scene(no_segments),
		in_scene(segments_in_detail),
		in_scene(a_segment_comes_again),
		in_scene(one_segment),
		in_scene(a_key_and_its_copies),
		in_scene(a_key_of_a_tenant),
		in_scene(a_key_that_is_not_there),
		in_scene(a_node_that_does_not_answer),
		in_scene(keys_and_tenants_have_bounds),
		in_scene(the_asker_leaves),
		in_scene(it_ends_while_it_asks),
		in_scene(a_batch),
		in_scene(a_batch_joined_and_escaped),
		in_scene(a_batch_with_bad_keys),
		in_scene(a_large_batch_asks_in_portions),
		in_scene(a_batch_has_a_bound),
		in_scene(a_batch_and_a_node_that_is_away),
		in_scene(pages_of_two_nodes),
		in_scene(odd_keys_are_lines),
		in_scene(odd_keys_as_json),
		in_scene(json_by_its_header),
		in_scene(copies_are_one_key),
		in_scene(nodes_that_give_no_keys_are_named),
		in_scene(a_list_of_no_nodes),
		in_scene(the_reader_of_a_list_leaves),
		in_scene(a_node_leaves_in_the_middle_of_a_list),
		in_scene(broken_pages_end_a_list),
		in_scene(everything_is_removed),
		in_scene(removal_with_a_node_away),
		in_scene(a_master_that_is_busy),
		in_scene(no_port),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
