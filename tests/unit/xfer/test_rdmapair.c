/* Which ports are paired. */
#include "xfer/rdmalinkcore.h"

#include <arpa/inet.h>
#include <string.h>

#include "test.h"

static struct kv_rdmadev near[KV_RDMA_PORTS_MAX];
static struct kv_rail_rec far[KV_RAILS_MAX];
static struct kv_rdmapair pairs[KV_RDMALINK_RAILS];

static void
ip_parse(const char *ip, void *out)
{
	char mapped[64];

	snprintf(mapped, sizeof(mapped), "%s%s",
		 strchr(ip, ':') ? "" : "::ffff:", ip);
	assert_int_equal(inet_pton(AF_INET6, mapped, out), 1);
}

static void
near_set(unsigned i, const char *ip, uint8_t bits)
{
	struct kv_rdmadev *d = &near[i];

	*d = (struct kv_rdmadev){ .n_ips = 1, .ip_bits = { bits } };
	ip_parse(ip, &d->ips[0]);
}

static void
far_set(unsigned i, const char *ip, uint8_t bits)
{
	far[i] = (struct kv_rail_rec){
		.port = kv_le16(1),
		.bits = bits,
		.number = (uint8_t)i,
		.layer = KV_RAIL_INFINIBAND,
	};
	ip_parse(ip, far[i].ip);
}

/* "near-far ..." */
static void
expect(unsigned n_near, unsigned n_far, const char *want)
{
	unsigned n = kv_rdmapair_find(near, n_near, far, n_far, pairs), i;
	char got[256] = "";
	size_t len = 0;

	for (i = 0; i < n; i++)
		len += (size_t)snprintf(got + len, sizeof(got) - len, "%s%u-%u",
					i ? " " : "", pairs[i].near,
					pairs[i].far);
	assert_string_equal(got, want);
}

static void
networks_go_first(void **state)
{
	(void)state;
	near_set(0, "10.0.0.1", 120);
	near_set(1, "10.0.1.1", 120);
	near_set(2, "10.0.2.1", 120);
	far_set(0, "10.0.2.9", 120);
	far_set(1, "10.0.0.9", 120);
	far_set(2, "10.0.1.9", 120);
	expect(3, 3, "0-1 1-2 2-0");
}

static void
within_a_network_places_count(void **state)
{
	unsigned i;
	char ip[32];

	(void)state;
	for (i = 0; i < 4; i++) {
		snprintf(ip, sizeof(ip), "10.0.0.%u", 1 + i);
		near_set(i, ip, 120);
		snprintf(ip, sizeof(ip), "10.0.0.%u", 11 + i);
		far_set(i, ip, 120);
	}
	expect(4, 4, "0-0 1-1 2-2 3-3");
	expect(1, 4, "0-0 0-1 0-2 0-3");
	expect(4, 1, "0-0 1-0 2-0 3-0");
	expect(2, 4, "0-0 1-1 1-2 0-3");
}

static void
and_where_no_network_is_shared(void **state)
{
	(void)state;
	near_set(0, "10.0.0.1", 127);
	near_set(1, "10.0.1.1", 127);
	far_set(0, "10.1.0.1", 127);
	far_set(1, "10.1.1.1", 127);
	far_set(2, "10.1.2.1", 127);
	expect(2, 3, "0-0 1-1 1-2");
}

static void
a_port_without_a_shared_network_is_tried(void **state)
{
	(void)state;
	near_set(0, "10.0.0.1", 120);
	near_set(1, "192.168.0.1", 120);
	far_set(0, "10.0.0.2", 120);
	expect(2, 1, "0-0 1-0");
	/* But none of the others is tried where networks tell. */
	far_set(1, "172.16.0.1", 120);
	expect(1, 2, "0-0");
}

static void
bits_are_compared_not_bytes(void **state)
{
	(void)state;
	near_set(0, "10.0.0.1", 96 + 27);
	near_set(1, "10.0.0.33", 96 + 27);
	far_set(0, "10.0.0.34", 96 + 27);
	far_set(1, "10.0.0.2", 96 + 27);
	expect(2, 2, "0-1 1-0");
	/* Both sides are to agree on it. */
	near_set(0, "10.0.0.1", 96 + 24);
	near_set(1, "10.0.1.1", 96 + 24);
	far_set(0, "10.0.1.2", 96 + 16);
	far_set(1, "10.0.0.2", 96 + 16);
	expect(2, 2, "0-1 1-0");
}

static void
any_address_of_a_port_counts(void **state)
{
	(void)state;
	near_set(0, "10.0.0.1", 120);
	near_set(1, "10.0.1.1", 120);
	near[0].n_ips = 2;
	near[0].ip_bits[1] = 64;
	ip_parse("fd00:1::1", &near[0].ips[1]);
	far_set(0, "10.0.1.2", 120);
	far_set(1, "fd00:1::2", 64);
	expect(2, 2, "0-1 1-0");
}

static void
nothing_has_no_pairs(void **state)
{
	(void)state;
	near_set(0, "10.0.0.1", 120);
	far_set(0, "10.0.0.2", 120);
	expect(0, 1, "");
	expect(1, 0, "");
	/* No bits: the network is not known. */
	far_set(0, "10.0.0.2", 0);
	expect(1, 1, "0-0");
}

static void
sixteen_are_enough(void **state)
{
	unsigned i;
	char ip[32];

	(void)state;
	for (i = 0; i < 16; i++) {
		snprintf(ip, sizeof(ip), "10.0.%u.1", i);
		near_set(i, ip, 120);
		snprintf(ip, sizeof(ip), "10.1.%u.2", i);
		far_set(i, ip, 120);
	}
	assert_int_equal(kv_rdmapair_find(near, 16, far, 16, pairs), 16);
	for (i = 0; i < 16; i++)
		assert_int_equal(pairs[i].far, i);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(networks_go_first),
		cmocka_unit_test(within_a_network_places_count),
		cmocka_unit_test(and_where_no_network_is_shared),
		cmocka_unit_test(a_port_without_a_shared_network_is_tried),
		cmocka_unit_test(bits_are_compared_not_bytes),
		cmocka_unit_test(any_address_of_a_port_counts),
		cmocka_unit_test(nothing_has_no_pairs),
		cmocka_unit_test(sixteen_are_enough),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
