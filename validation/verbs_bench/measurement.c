#include "measurement.h"

const char *const verb_names[VERBS] = {
	[VERB_WRITE] = "WRITE",
	[VERB_WRITE_WITH_IMM] = "WRITE_WITH_IMM",
	[VERB_SEND] = "SEND",
	[VERB_READ] = "READ",
	[VERB_CAS] = "CAS",
	[VERB_FETCH_ADD] = "FETCH_ADD",
	[VERB_WRITE_READ] = "WRITE+READ",
	[VERB_WRITE_SEND] = "WRITE+SEND",
	[VERB_FLUSH] = "FLUSH",
	[VERB_WRITE_FLUSH] = "WRITE+FLUSH",
	[VERB_ATOMIC_WRITE] = "ATOMIC_WRITE",
};
const char *const transport_names[TRANSPORTS] = {"rc", "uc", "ud"};
const char *const inline_names[INLINE_MODES] = {"auto", "yes", "no"};
const char *const method_names[METHODS] = {"completion", "half_round_trip"};
const char *const memory_names[MEMORIES] = {"dram", "dax", "dmabuf"};
const char *const access_names[ACCESSES] = {"sequential", "random"};
const char *const placement_names[PLACEMENTS] = {"global", "persistent"};
const char *const level_names[LEVELS] = {"range", "region"};

bool carries_data(enum verb verb)
{
	return verb == VERB_WRITE || verb == VERB_WRITE_WITH_IMM || verb == VERB_SEND || verb == VERB_WRITE_READ ||
	       verb == VERB_WRITE_SEND || verb == VERB_WRITE_FLUSH;
}

bool is_atomic_size(enum verb verb)
{
	return verb == VERB_CAS || verb == VERB_FETCH_ADD || verb == VERB_ATOMIC_WRITE;
}

bool has_flush(enum verb verb)
{
	return verb == VERB_FLUSH || verb == VERB_WRITE_FLUSH;
}

bool consumes_receive(enum verb verb)
{
	return verb == VERB_SEND || verb == VERB_WRITE_WITH_IMM || verb == VERB_WRITE_SEND;
}

bool legal_on(enum verb verb, enum transport transport)
{
	/* InfiniBand Architecture Specification, volume 1, table 38 (operations by transport service) */
	switch (transport) {
	case UC:
		return verb == VERB_WRITE || verb == VERB_WRITE_WITH_IMM || verb == VERB_SEND;
	case UD:
		return verb == VERB_SEND;
	default:
		return true;
	}
}

bool answers(const struct measurement *m)
{
	return m->method == HALF_ROUND_TRIP || consumes_receive(m->verb);
}

struct slots slots_of(const struct measurement *m)
{
	uint64_t stride = (m->size_bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
	uint64_t count = m->region_bytes / stride;

	return (struct slots){
		.count = count ? count : 1,
		.stride_bytes = stride,
		.random = m->access == RANDOM ? 0x9E3779B97F4A7C15u : 0,
	};
}

uint64_t slots_next(struct slots *slots)
{
	uint64_t slot = slots->next;

	if (slots->random) { /* xorshift64 (Marsaglia, Journal of Statistical Software 8(14), 2003) */
		slots->random ^= slots->random << 13;
		slots->random ^= slots->random >> 7;
		slots->random ^= slots->random << 17;
		slot = slots->random % slots->count;
	} else {
		slots->next = slot + 1 == slots->count ? 0 : slot + 1;
	}
	return slot * slots->stride_bytes;
}
