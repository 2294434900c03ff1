#include "hcahost.h"

#include <arpa/inet.h>
#include <stdlib.h>

struct kv_clock hcahost_clock;
struct hca *hcahost_hca;
struct hca_host *hcahost_host;
struct hca_dev *hcahost_devs[HCAHOST_DEVS];
struct hca_port *hcahost_ports[HCAHOST_PORTS];
const struct kv_rdmaverbs *hcahost_real;
struct kv_rdmaverbs hcahost_v;
struct ifaddrs hcahost_addrs[HCAHOST_PORTS];

static struct kv_loop *loop;

void
hcahost_addr(struct ifaddrs *a, struct sockaddr_in *sin, const char *ip,
	     struct ifaddrs *next)
{
	static char name[] = "eth0";

	*sin = (struct sockaddr_in){ .sin_family = AF_INET };
	inet_pton(AF_INET, ip, &sin->sin_addr);
	*a = (struct ifaddrs){
		.ifa_next = next,
		.ifa_name = name,
		.ifa_addr = (struct sockaddr *)sin,
	};
}

void
hcahost_open(void)
{
	static const char *const ips[HCAHOST_PORTS] = { "10.0.0.1", "10.0.1.1",
							"10.0.2.1" };
	static struct sockaddr_in sins[HCAHOST_PORTS];
	const struct hca_opts o = { .seed = 1 };
	struct ifaddrs *next = NULL;

	hcahost_clock =
		(struct kv_clock){ .is_virtual = true, .ns = KV_NS_PER_S };
	loop = kv_loop_new(&hcahost_clock);
	if (!loop)
		exit(3);
	hcahost_hca = hca_new(loop, &hcahost_clock, &o);
	hcahost_host = hca_host_add(hcahost_hca, "host");
	hcahost_devs[0] = hca_dev_add(hcahost_host, "mlx5_0");
	hcahost_devs[1] = hca_dev_add(hcahost_host, "mlx5_1");
	for (int i = 0; i < HCAHOST_PORTS; i++) {
		const struct hca_port_opts p = { .ip = ips[i] };

		hcahost_ports[i] = hca_port_add(hcahost_devs[i / 2], &p);
	}
	for (int i = HCAHOST_PORTS; i-- > 0; next = &hcahost_addrs[i])
		hcahost_addr(&hcahost_addrs[i], &sins[i], ips[i], next);
	hcahost_real = hca_process(hcahost_host, loop);
	hcahost_v = *hcahost_real;
}

void
hcahost_close(void)
{
	hca_process_exit(hcahost_real);
	hca_free(hcahost_hca);
	kv_loop_free(loop);
}
