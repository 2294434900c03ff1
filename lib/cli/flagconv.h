/*
 * What a value of a Mooncake flag is as the value of an option of ours, and
 * whether it is one: in OUT, of KV_FLAGCONV_SIZE bytes, "" if the option is
 * best not given. TEXT has passed the type of its flag.
 */
#ifndef KV_CLI_FLAGCONV_H
#define KV_CLI_FLAGCONV_H

#include <stddef.h>

#include "base/attr.h"

enum {
	KV_FLAGCONV_SIZE = 1024,
};

/* 0, or -EINVAL with ERR in one line that says what is wanted. */
typedef int kv_flagconv_fn(const char *text, char *out, char *err, size_t size);

kv_flagconv_fn kv_flagconv_word;     /* as it stands */
kv_flagconv_fn kv_flagconv_port;     /* 0 to 65535 */
kv_flagconv_fn kv_flagconv_seconds;  /* a number of them, 1 or more */
kv_flagconv_fn kv_flagconv_size;     /* "4 GB", as a number of bytes */
kv_flagconv_fn kv_flagconv_time;     /* ms, or with ms, s, m or h; as ms */
kv_flagconv_fn kv_flagconv_ratio;    /* 0 to 1 */
kv_flagconv_fn kv_flagconv_host;     /* "" for all addresses */
kv_flagconv_fn kv_flagconv_masters;  /* of etcd, redis and k8s: refused */
kv_flagconv_fn kv_flagconv_protocol; /* tcp or rdma */
kv_flagconv_fn kv_flagconv_threads;  /* 1 or more; 64 for what is above */
kv_flagconv_fn kv_flagconv_allocator;
kv_flagconv_fn kv_flagconv_strategy;

/* The IPv4 address of the network interface of that name. */
kv_flagconv_fn kv_flagconv_interface;

#endif
