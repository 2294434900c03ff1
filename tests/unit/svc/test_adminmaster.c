/* What a master says over HTTP of itself, its nodes and one key, and how all
 * keys go. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "wire/msg.h"

#include "adminrig.h"
#include "test.h"

/* ---- itself ---- */

static void
health_and_role(void **state)
{
	(void)state;
	assert_int_equal(httpclient_get(&web.c, "/health"), 200);
	adminrig_is("{\"status\":\"ok\",\"role\":\"leader\","
		    "\"ha_state\":\"serving\",\"service_ready\":true,"
		    "\"complete\":true,\"nodes\":2}");
	assert_true(httpclient_has_header(
		&web.c, "Content-Type: application/json; charset=utf-8"));
	assert_int_equal(httpclient_get(&web.c, "/role"), 200);
	adminrig_is("leader");
	assert_int_equal(httpclient_get(&web.c, "/ha_status"), 200);
	adminrig_is("serving");
	assert_int_equal(httpclient_get(&web.c, "/leader"), 200);
	adminrig_is("{\"present\":false}");
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
	kv_admin_drain(web.admin);
	assert_int_equal(httpclient_get(&web.c, "/health"), 200);
	adminrig_has("\"service_ready\":false");
	assert_int_equal(httpclient_get(&web.c, "/metrics"), 200);
	for (size_t i = 0; i < KV_ARRAY_LEN(refused); i++) {
		assert_int_equal(httpclient_get(&web.c, refused[i]), 503);
		adminrig_has("service plane is not active");
	}
	assert_int_equal(
		httpclient_ask(&web.c, "POST", "/api/v1/remove_all", ""), 503);
}

static void
metrics(void **state)
{
	static struct rigpeer p;

	(void)state;
	assert_int_equal(rig_put(&web.a, 1, 11, 0), KV_VERDICT_STAYS);
	rig_requester(&p, "10.0.0.9");
	assert_true(rig_exists(&p, 1));
	assert_int_equal(httpclient_get(&web.c, "/metrics"), 200);
	assert_true(httpclient_has_header(
		&web.c,
		"Content-Type: text/plain; version=0.0.4; charset=utf-8"));
	adminrig_has("# TYPE kvpool_build_info gauge\n"
		     "kvpool_build_info{version=\"");
	adminrig_has("# TYPE master_key_count gauge\nmaster_key_count 1\n");
	adminrig_has("# TYPE master_active_clients gauge\n"
		     "master_active_clients 2\n");
	adminrig_has("# TYPE segment_total_capacity_bytes gauge\n"
		     "segment_total_capacity_bytes{segment=\"10.0.0.2:50052\"} "
		     "1048576\n"
		     "segment_total_capacity_bytes{segment=\"10.0.0.3:50052\"} "
		     "1048576\n");
	adminrig_has("# TYPE master_exist_key_requests_total counter\n"
		     "master_exist_key_requests_total 1\n");
}

static void
summary(void **state)
{
	(void)state;
	web.a.room.pool_bytes = kv_le64(3 << 20);
	web.a.room.ready_bytes = kv_le64(2 << 20);
	web.a.room.free_bytes = kv_le64(1 << 20);
	rig_beat(&web.a);
	rig_ms(10);
	assert_int_equal(httpclient_get(&web.c, "/metrics/summary"), 200);
	adminrig_has("role=leader, state=serving, service_ready=true, "
		     "master={Mem Storage: 1.0 MiB / ");
	adminrig_has("| SSD Storage: 0 B / 0 B | Keys: 0 (soft-pinned: 0) | "
		     "Clients: 2 | ");
	assert_ptr_equal(strchr((char *)web.c.body.data, '\n'),
			 web.c.body.data + web.c.body.len - 1);
}

/* ---- nodes ---- */

static void
segments(void **state)
{
	static struct rignode joining;

	(void)state;
	assert_int_equal(httpclient_get(&web.c, "/get_all_segments"), 200);
	adminrig_is("10.0.0.2:50052\n10.0.0.3:50052\n");
	rig_node(&joining, "10.0.0.4", 50052, 0xc0);
	assert_int_equal(rig_join(&joining, NULL), 0);
	assert_int_equal(httpclient_get(&web.c, "/get_all_segments"), 200);
	adminrig_has("10.0.0.4:50052\n");
	assert_int_equal(httpclient_get(&web.c, "/health"), 200);
	adminrig_has("\"complete\":false");
	rig_kill(&web.b);
	rig_ms(3000);
	assert_int_equal(httpclient_get(&web.c, "/get_all_segments"), 200);
	adminrig_has_not("10.0.0.3");
}

static void
no_segments(void **state)
{
	(void)state;
	rig_send(&web.a.p, KV_MSG_LEAVE, NULL, NULL, 0);
	rig_send(&web.b.p, KV_MSG_LEAVE, NULL, NULL, 0);
	rig_ms(100);
	assert_int_equal(httpclient_get(&web.c, "/get_all_segments"), 200);
	adminrig_is("");
	assert_int_equal(httpclient_get(&web.c, "/get_segments_detail"), 200);
	adminrig_is("{\"total_segments\":0,\"segments\":[]}");
}

static void
segments_in_detail(void **state)
{
	(void)state;
	web.a.room.pool_bytes = kv_le64(4 << 20);
	web.a.room.ready_bytes = kv_le64(2 << 20);
	web.a.room.free_bytes = kv_le64(1 << 20);
	web.a.room.keys = kv_le64(7);
	rig_beat(&web.a);
	rig_ms(10);
	assert_int_equal(httpclient_get(&web.c, "/get_segments_detail"), 200);
	adminrig_has(
		"{\"total_segments\":2,\"segments\":[{"
		"\"segment_name\":\"10.0.0.2:50052\","
		"\"segment_id\":\"a0000000-0000-0000-0000-000000000000\",");
	adminrig_has("\"size_bytes\":4194304,\"size_human\":\"4.0 MiB\","
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
	web.a.is_frozen = true;
	web.a.beats = false;
	rig_ms(1000);
	rig_node(&again, "10.0.0.2", 50053, 0xa1);
	assert_int_equal(rig_join(&again, "10.0.0.2:50052"), 0);
	again.room.pool_bytes = kv_le64(2 << 20);
	rig_beat(&again);
	rig_ms(10);
	assert_int_equal(httpclient_get(&web.c, "/metrics"), 200);
	adminrig_has("segment_total_capacity_bytes{segment=\"10.0.0.2:50052\"} "
		     "2097152\n"
		     "segment_total_capacity_bytes{segment=\"10.0.0.3:50052\"} "
		     "0\n");
	assert_int_equal(httpclient_get(&web.c, "/get_segments_detail"), 200);
	adminrig_has("\"total_segments\":2,");
	adminrig_has("\"segment_id\":\"a1000000-");
	adminrig_has_not("\"segment_id\":\"a0000000-");
	assert_int_equal(httpclient_get(&web.c, "/get_all_segments"), 200);
	first = strstr((char *)web.c.body.data, "10.0.0.2:50052");
	assert_non_null(first);
	assert_null(strstr(first + 1, "10.0.0.2:50052"));
}

static void
one_segment(void **state)
{
	(void)state;
	assert_int_equal(httpclient_get(&web.c, "/query_segment"), 400);
	adminrig_has("?segment= is missing");
	assert_int_equal(
		httpclient_get(&web.c, "/query_segment?segment=10.0.0.2"), 404);
	adminrig_has(
		"\"error_code\":-101,\"error_message\":\"no such segment\"");
	assert_int_equal(
		httpclient_get(&web.c,
			       "/query_segment?segment=10.0.0.2%3a50052"),
		200);
	adminrig_is("10.0.0.2:50052\nUsed(bytes): 0\n"
		    "Capacity(bytes) : 1048576\n");
	assert_int_equal(httpclient_get(&web.c, "/api/v1/segments/status"
						"?segment=10.0.0.3:50052"),
			 200);
	adminrig_is("{\"success\":true,\"segment\":\"10.0.0.3:50052\","
		    "\"status\":1,\"status_name\":\"OK\"}");
}

/* ---- one key ---- */

#define ODD     "a/b%2F c+d\n\0\xff#"
#define ODD_ESC "a/b%252F%20c%2bd%0A%00%ff%23"

static void
a_key_and_its_copies(void **state)
{
	(void)state;
	adminrig_publish(&web.a, "", ODD, sizeof(ODD) - 1);
	adminrig_publish(&web.b, "", ODD, sizeof(ODD) - 1);
	adminrig_say(&web.c, "GET", "/query_key?key=" ODD_ESC);
	adminrig_tell(&web.a, "", ODD, sizeof(ODD) - 1, 100);
	adminrig_tell(&web.b, "", ODD, sizeof(ODD) - 1, 100);
	assert_int_equal(adminrig_take(), 200);
	adminrig_is("{\"size_\":100,\"buffer_address_\":4096,"
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
	adminrig_publish(&web.a, "t", "k", 1);
	adminrig_say(&web.c, "GET", "/query_key?key=k&tenant=t");
	adminrig_tell(&web.a, "t", "k", 1, 1);
	assert_int_equal(adminrig_take(), 200);
	adminrig_say(&web.c, "GET", "/query_key?tenant_id=t&key=k");
	adminrig_tell(&web.a, "t", "k", 1, 1);
	assert_int_equal(adminrig_take(), 200);
}

static void
a_key_that_is_not_there(void **state)
{
	(void)state;
	adminrig_say(&web.c, "GET", "/query_key?key=none");
	assert_int_equal(adminrig_take(), 404);
	adminrig_is("{\"success\":false,\"error_code\":-704,"
		    "\"error_message\":\"no such key\"}");
	adminrig_publish(&web.a, "", "gone", 4);
	adminrig_say(&web.c, "GET", "/query_key?key=gone");
	adminrig_tell(&web.a, "", "gone", 4, 0);
	assert_int_equal(adminrig_take(), 404);
}

static void
a_node_that_does_not_answer(void **state)
{
	(void)state;
	adminrig_publish(&web.a, "", "k", 1);
	adminrig_say(&web.c, "GET", "/query_key?key=k");
	rig_ms(2500);
	assert_int_equal(adminrig_take(), 404);
	adminrig_has("no node that answered has this key, 1 did not answer");
}

static void
keys_and_tenants_have_bounds(void **state)
{
	char target[4000], name[2000];

	(void)state;
	assert_int_equal(httpclient_get(&web.c, "/query_key"), 400);
	adminrig_has("?key= is missing");
	assert_int_equal(httpclient_get(&web.c, "/query_key?key=k&key=k"), 400);
	adminrig_has("?key= is there more than once");
	assert_int_equal(httpclient_get(&web.c, "/query_key?key="), 400);
	adminrig_has("a key has 1 to 1024 bytes");
	memset(name, 'k', sizeof(name));
	snprintf(target, sizeof(target), "/query_key?key=%.1025s", name);
	assert_int_equal(httpclient_get(&web.c, target), 400);
	snprintf(target, sizeof(target), "/query_key?key=%.1024s", name);
	adminrig_say(&web.c, "GET", target);
	assert_int_equal(adminrig_take(), 404);
	snprintf(target, sizeof(target), "/query_key?key=k&tenant=%.65s", name);
	assert_int_equal(httpclient_get(&web.c, target), 400);
	adminrig_has("a tenant's name has at most 64 bytes");
	snprintf(target, sizeof(target), "/get_all_keys?tenant=%.65s", name);
	assert_int_equal(httpclient_get(&web.c, target), 400);
	snprintf(target, sizeof(target),
		 "/batch_query_keys?keys=k&tenant=%.65s", name);
	assert_int_equal(httpclient_get(&web.c, target), 400);
}

static void
the_asker_leaves(void **state)
{
	struct httpclient other;

	(void)state;
	adminrig_publish(&web.a, "", "k", 1);
	adminrig_open(&other);
	adminrig_say(&other, "GET", "/query_key?key=k");
	httpclient_close(&other);
	adminrig_tell(&web.a, "", "k", 1, 1);
	rig_ms(2);
	httpclient_turn(&web.c, 20);
	assert_int_equal(httpclient_get(&web.c, "/role"), 200);
}

static void
it_ends_while_it_asks(void **state)
{
	struct httpclient others[4];

	(void)state;
	adminrig_publish(&web.a, "", "k", 1);
	for (size_t i = 0; i < KV_ARRAY_LEN(others); i++)
		adminrig_open(&others[i]);
	adminrig_say(&others[0], "GET", "/query_key?key=k");
	adminrig_say(&others[1], "GET", "/batch_query_keys?keys=k,l");
	adminrig_say(&others[2], "GET", "/get_all_keys");
	adminrig_say(&others[3], "POST", "/api/v1/remove_all");
	kv_admin_free(web.admin);
	web.admin = NULL;
	for (size_t i = 0; i < KV_ARRAY_LEN(others); i++)
		httpclient_close(&others[i]);
	rig_ms(3000);
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
	struct wireframe *f = adminrig_asked(n, KV_MSG_REMOVE);
	const struct kv_remove *q = (void *)f->body;
	struct kv_remove_r r = {
		.removed = kv_le64(removed),
		.kept = kv_le32(flags ? 0 : 1),
	};

	assert_int_equal(q->op, KV_REMOVE_ALL);
	assert_int_equal(q->flags, flags);
	assert_int_equal(f->tail_len, strlen(tenant));
	assert_memory_equal(f->tail, tenant, f->tail_len);
	adminrig_answer(n, f, &r, NULL);
	if (removed > 0)
		rig_pong(n);
}

static void
everything_is_removed(void **state)
{
	(void)state;
	assert_int_equal(httpclient_get(&web.c, "/api/v1/remove_all"), 405);
	assert_true(httpclient_has_header(&web.c, "Allow: POST"));
	adminrig_say(&web.c, "POST", "/api/v1/remove_all");
	answer_remove(&web.a, 0, "", 3);
	answer_remove(&web.b, 0, "", 4);
	assert_int_equal(adminrig_take(), 200);
	adminrig_is("{\"success\":true,\"removed_count\":7,\"kept_count\":2}");
	adminrig_say(&web.c, "POST",
		     "/api/v1/remove_all?force=true&tenant_id=t");
	answer_remove(&web.a, KV_REMOVE_FORCE, "t", 0);
	answer_remove(&web.b, KV_REMOVE_FORCE, "t", 0);
	assert_int_equal(adminrig_take(), 200);
	adminrig_is("{\"success\":true,\"removed_count\":0,\"kept_count\":0}");
}

static void
removal_with_a_node_away(void **state)
{
	(void)state;
	adminrig_say(&web.c, "POST", "/api/v1/remove_all?force=1");
	answer_remove(&web.a, KV_REMOVE_FORCE, "", 3);
	rig_ms(2500);
	assert_int_equal(adminrig_take(), 503);
	adminrig_is("{\"success\":false,\"removed_count\":3,"
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
		assert_int_equal(httpclient_get(&web.c, targets[i]), 503);
		adminrig_has("\"error_message\":\"busy, try again\"");
	}
	assert_int_equal(
		httpclient_ask(&web.c, "POST", "/api/v1/remove_all", ""), 503);
	assert_int_equal(httpclient_get(&web.c, "/batch_query_keys?keys=k,l"),
			 200);
	adminrig_is("{\"success\":true,\"data\":{"
		    "\"k\":{\"ok\":false,\"error\":\"busy, try again\"},"
		    "\"l\":{\"ok\":false,\"error\":\"busy, try again\"}}}");
}

static void
no_port(void **state)
{
	struct kv_admin_opts opts = { .loop = web.loop, .master = rig.m };
	char err[256] = "";

	(void)state;
	opts.port = kv_admin_port(web.admin);
	opts.host = "127.0.0.1";
	assert_null(kv_admin_new(&opts, err, sizeof(err)));
	assert_int_equal(errno, EADDRINUSE);
	assert_non_null(strstr(err, "is in use already"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		ADMINRIG_TEST(health_and_role),
		ADMINRIG_TEST(while_it_drains),
		ADMINRIG_TEST(metrics),
		ADMINRIG_TEST(summary),
		ADMINRIG_TEST(segments),
		ADMINRIG_TEST(no_segments),
		ADMINRIG_TEST(segments_in_detail),
		ADMINRIG_TEST(a_segment_comes_again),
		ADMINRIG_TEST(one_segment),
		ADMINRIG_TEST(a_key_and_its_copies),
		ADMINRIG_TEST(a_key_of_a_tenant),
		ADMINRIG_TEST(a_key_that_is_not_there),
		ADMINRIG_TEST(a_node_that_does_not_answer),
		ADMINRIG_TEST(keys_and_tenants_have_bounds),
		ADMINRIG_TEST(the_asker_leaves),
		ADMINRIG_TEST(it_ends_while_it_asks),
		ADMINRIG_TEST(everything_is_removed),
		ADMINRIG_TEST(removal_with_a_node_away),
		ADMINRIG_TEST(a_master_that_is_busy),
		ADMINRIG_TEST(no_port),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
