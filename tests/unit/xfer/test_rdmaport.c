#include "xfer/rdmaport.h"

#include <arpa/inet.h>
#include <string.h>

#include "test.h"

static void
speeds_are_lanes_times_rate(void **state)
{
	static const struct {
		uint8_t speed, width;
		uint32_t mbit_per_s;
	} links[] = {
		{ 1, 1, 2500 },     /* SDR 1X: soft-RoCE */
		{ 2, 2, 20000 },    /* DDR 4X */
		{ 4, 2, 40000 },    /* QDR 4X, 40 Gbit/s Ethernet */
		{ 8, 2, 40000 },    /* FDR10 4X */
		{ 16, 2, 56000 },   /* FDR 4X */
		{ 32, 1, 25000 },   /* EDR 1X, 25 Gbit/s Ethernet */
		{ 32, 2, 100000 },  /* EDR 4X */
		{ 64, 16, 100000 }, /* HDR 2X: a split cable */
		{ 64, 2, 200000 },  /* HDR 4X */
		{ 128, 2, 400000 }, /* NDR 4X */
		{ 64, 4, 400000 },  /* HDR 8X */
		{ 1, 8, 30000 },    /* SDR 12X */
		{ 3, 2, 0 },        { 32, 3, 0 }, { 0, 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(links) / sizeof(*links); i++)
		assert_int_equal(
			kv_rdmaport_speed(links[i].speed, links[i].width),
			links[i].mbit_per_s);
}

static void
numbers_have_words(void **state)
{
	(void)state;
	assert_int_equal(kv_rdmaport_mtu(IBV_MTU_256), 256);
	assert_int_equal(kv_rdmaport_mtu(IBV_MTU_1024), 1024);
	assert_int_equal(kv_rdmaport_mtu(IBV_MTU_4096), 4096);
	assert_int_equal(kv_rdmaport_mtu((enum ibv_mtu)0), 0);
	assert_int_equal(kv_rdmaport_mtu((enum ibv_mtu)6), 0);
	assert_string_equal(kv_rdmaport_state(IBV_PORT_ACTIVE), "active");
	assert_string_equal(kv_rdmaport_state(IBV_PORT_DOWN), "down");
	assert_string_equal(kv_rdmaport_state((enum ibv_port_state)99),
			    "unknown");
	assert_string_equal(kv_rdmaport_layer(IBV_LINK_LAYER_ETHERNET),
			    "Ethernet");
	assert_string_equal(kv_rdmaport_layer(IBV_LINK_LAYER_INFINIBAND),
			    "InfiniBand");
	assert_string_equal(kv_rdmaport_layer(77), "unknown");
}

static const char *
why(enum ibv_port_state port_state, uint8_t phys, uint8_t layer)
{
	const struct ibv_port_attr attr = {
		.state = port_state,
		.phys_state = phys,
		.link_layer = layer,
	};

	return kv_rdmaport_why_down(&attr);
}

static void
each_way_of_being_down_has_its_advice(void **state)
{
	(void)state;
	assert_non_null(strstr(why(IBV_PORT_INIT, 5, IBV_LINK_LAYER_INFINIBAND),
			       "opensm"));
	assert_null(strstr(why(IBV_PORT_ARMED, 5, IBV_LINK_LAYER_ETHERNET),
			   "opensm"));
	assert_non_null(strstr(why(IBV_PORT_DOWN, 2, IBV_LINK_LAYER_INFINIBAND),
			       "; plug in"));
	assert_non_null(strstr(why(IBV_PORT_DOWN, 3, IBV_LINK_LAYER_ETHERNET),
			       "; `ip link set"));
	assert_string_equal(why(IBV_PORT_DOWN, 3, IBV_LINK_LAYER_INFINIBAND),
			    "port down; see to its link");
}

static void
other_transports_are_refused(void **state)
{
	(void)state;
	assert_null(kv_rdmaport_why_not(IBV_TRANSPORT_IB));
	assert_non_null(
		strstr(kv_rdmaport_why_not(IBV_TRANSPORT_IWARP), "iWARP"));
	assert_non_null(strstr(kv_rdmaport_why_not(IBV_TRANSPORT_UNSPECIFIED),
			       "neither"));
}

static unsigned
rank(const char *ip, bool is_v2, bool is_here)
{
	struct kv_rdmaport_gid g = { .is_v2 = is_v2, .is_here = is_here };

	assert_int_equal(inet_pton(AF_INET6, ip, g.gid.raw), 1);
	return kv_rdmaport_gid_rank(&g);
}

static void
gids_are_ranked(void **state)
{
	/* Each is better than those behind it. */
	const unsigned ranks[] = {
		rank("::ffff:10.0.0.1", true, true),
		rank("fd00::1", true, true),
		rank("::ffff:10.0.0.1", true, false),
		rank("fd00::1", true, false),
		rank("fe80::1", true, false),
		rank("::ffff:10.0.0.1", false, true),
		rank("fe80::1", false, false),
		rank("::", true, true),
	};

	(void)state;
	for (size_t i = 1; i < sizeof(ranks) / sizeof(*ranks); i++)
		assert_true(ranks[i] < ranks[i - 1]);
	assert_int_equal(ranks[7], 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(speeds_are_lanes_times_rate),
		cmocka_unit_test(numbers_have_words),
		cmocka_unit_test(each_way_of_being_down_has_its_advice),
		cmocka_unit_test(other_transports_are_refused),
		cmocka_unit_test(gids_are_ranked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
