/* Nodes and masters that failed, and when they may be asked again. */
#include <stdlib.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"
#include "svc/hub.h"

/* Owners that this process could not reach; a handful at most. */
#define SICK_MAX        64
#define SICK_FIRST_NS   (100 * KV_NS_PER_MS)
#define SICK_LAST_NS    (1500 * KV_NS_PER_MS)
#define SICK_TRIAL_NS   KV_NS_PER_S /* then another call may try */
#define MASTER_FIRST_NS (50 * KV_NS_PER_MS)
#define MASTER_LAST_NS  KV_NS_PER_S
#define MASTER_TRIAL_NS KV_NS_PER_S /* as SICK_TRIAL_NS */

struct kv_hub_sick {
	struct kv_id boot;
	uint64_t retry_at;
	uint64_t backoff;
	bool is_trying;
};

static struct kv_hub_sick *
sick_find(struct kv_hub *hub, const struct kv_id *boot)
{
	unsigned i;

	for (i = 0; i < hub->n_sick; i++)
		if (kv_id_is_equal(hub->sick[i].boot, *boot))
			return &hub->sick[i];
	return NULL;
}

/* A free entry; when all are taken the one that is due first. */
static struct kv_hub_sick *
sick_add(struct kv_hub *hub)
{
	struct kv_hub_sick *s;
	unsigned i;

	if (!hub->sick)
		hub->sick = calloc(SICK_MAX, sizeof(*hub->sick));
	if (!hub->sick)
		return NULL;
	if (hub->n_sick < SICK_MAX)
		return &hub->sick[hub->n_sick++];
	s = &hub->sick[0];
	for (i = 1; i < SICK_MAX; i++)
		if (hub->sick[i].retry_at < s->retry_at)
			s = &hub->sick[i];
	return s;
}

bool
kv_hub_sick(struct kv_hub *hub, const struct kv_id *boot, uint64_t now)
{
	struct kv_hub_sick *s;
	bool is_news = false;

	KV_LOCKED(&hub->lock) {
		s = sick_find(hub, boot);
		if (s && now < s->retry_at && !s->is_trying)
			break;  /* others failed at the same moment */
		is_news = true; /* repeated: the master forgets */
		if (s) {
			s->backoff = kv_min_u64(2 * s->backoff, SICK_LAST_NS);
		} else {
			s = sick_add(hub);
			if (!s)
				break;
			s->boot = *boot;
			s->backoff = SICK_FIRST_NS;
		}
		s->retry_at = now + s->backoff;
		s->is_trying = false;
	}
	return is_news;
}

bool
kv_hub_well(struct kv_hub *hub, const struct kv_id *boot)
{
	struct kv_hub_sick *s;
	bool was_sick = false;

	KV_LOCKED(&hub->lock) {
		s = hub->n_sick > 0 ? sick_find(hub, boot) : NULL;
		if (s) {
			*s = hub->sick[--hub->n_sick];
			was_sick = true;
		}
	}
	return was_sick;
}

bool
kv_hub_is_sick(struct kv_hub *hub, const struct kv_id *boot, uint64_t now)
{
	struct kv_hub_sick *s;
	bool is_sick = false;

	KV_LOCKED(&hub->lock) {
		s = hub->n_sick > 0 ? sick_find(hub, boot) : NULL;
		is_sick = s && now < s->retry_at;
	}
	return is_sick;
}

bool
kv_hub_try(struct kv_hub *hub, const struct kv_id *boot, uint64_t now)
{
	struct kv_hub_sick *s;
	bool may = true;

	KV_LOCKED(&hub->lock) {
		s = hub->n_sick > 0 ? sick_find(hub, boot) : NULL;
		if (!s)
			break;
		may = now >= s->retry_at;
		if (!may)
			break;
		s->is_trying = true;
		s->retry_at = now + SICK_TRIAL_NS;
	}
	return may;
}

bool
kv_hub_has_failed(struct kv_hub *hub, const struct kv_id *boot)
{
	bool has = false;

	KV_LOCKED(&hub->lock)
		has = hub->n_sick > 0 && sick_find(hub, boot);
	return has;
}

bool
kv_hub_has_sick(struct kv_hub *hub)
{
	bool has = false;

	KV_LOCKED(&hub->lock)
		has = hub->n_sick > 0;
	return has;
}

void
kv_hub_master_down(struct kv_hub *hub, unsigned i, uint64_t now,
		   const char *why)
{
	KV_LOCKED(&hub->lock) {
		hub->master_why[i] = why;
		if (now < hub->master_retry_at[i])
			break;
		hub->master_backoff[i] = kv_min_u64(
			kv_max_u64(2 * hub->master_backoff[i], MASTER_FIRST_NS),
			MASTER_LAST_NS);
		hub->master_retry_at[i] = now + hub->master_backoff[i];
		if (!hub->is_opening)
			kv_log_limited(&hub->master_log[i], now, KV_LOG_WARN,
				       "master %s: %s", hub->masters[i], why);
	}
}

void
kv_hub_master_up(struct kv_hub *hub, unsigned i)
{
	KV_LOCKED(&hub->lock) {
		hub->master_backoff[i] = 0;
		hub->master_retry_at[i] = 0;
		hub->master_why[i] = NULL;
		kv_log_recovered(&hub->master_log[i], KV_LOG_WARN,
				 "master %s answers again", hub->masters[i]);
	}
}

bool
kv_hub_master_has_failed(struct kv_hub *hub, unsigned i)
{
	bool has = false;

	KV_LOCKED(&hub->lock)
		has = hub->master_backoff[i] > 0 && !hub->is_opening;
	return has;
}

bool
kv_hub_master_has_other(struct kv_hub *hub, unsigned but)
{
	bool has = false;
	unsigned i;

	KV_LOCKED(&hub->lock)
		for (i = 0; i < hub->n_masters; i++)
			has |= !(but & 1u << i) && hub->master_backoff[i] == 0;
	return has;
}

bool
kv_hub_master_is_down(struct kv_hub *hub, unsigned i, uint64_t now)
{
	bool is_down = false;

	KV_LOCKED(&hub->lock)
		is_down = now < hub->master_retry_at[i];
	return is_down;
}

bool
kv_hub_master_try(struct kv_hub *hub, unsigned i, uint64_t now)
{
	bool may = false;

	KV_LOCKED(&hub->lock) {
		may = now >= hub->master_retry_at[i] &&
		      now >= hub->master_trial_at[i];
		if (may)
			hub->master_trial_at[i] = now + MASTER_TRIAL_NS;
	}
	return may;
}
