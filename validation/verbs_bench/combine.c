#include "combine.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_MEASUREMENTS = 100000 };

static bool combination_is_legal(struct reader *reader, const struct measurement *m, const struct choices *all)
{
	const char *verb = verb_names[m->verb];
	size_t verb_line = all[F_VERB].line;
	unsigned before = reader->mistakes;

	if (!legal_on(m->verb, m->transport))
		mistake(reader, verb_line, "verb", "found %s on %s, expected %s", verb, transport_names[m->transport],
			m->transport == UD ? "SEND" : "WRITE, WRITE_WITH_IMM or SEND");
	if (m->size_bytes > m->region_bytes)
		mistake(reader, all[F_SIZES].line ? all[F_SIZES].line : verb_line, "sizes",
			"found %u bytes, expected no more than the region's %llu", m->size_bytes,
			(unsigned long long)m->region_bytes);
	if (m->inline_mode == INLINE_YES && !carries_data(m->verb))
		mistake(reader, all[F_INLINE].line, "inline", "found yes for %s, expected auto or no: "
			"it has no data that could be inline", verb);
	if (m->method == HALF_ROUND_TRIP && (m->depth > 1 || m->qps > 1))
		mistake(reader, all[F_METHOD].line, "method", "found half_round_trip at depth %u on %u queue pairs, "
			"expected depth 1 and qps 1", m->depth, m->qps);
	if (m->method == HALF_ROUND_TRIP && m->verb != VERB_WRITE && m->verb != VERB_WRITE_WITH_IMM &&
	    m->verb != VERB_SEND)
		mistake(reader, all[F_METHOD].line, "method", "found half_round_trip for %s, "
			"expected WRITE, WRITE_WITH_IMM or SEND", verb);
	return reader->mistakes == before;
}

/* False if this combination repeats another one, because the verb does not look at the field. */
static bool is_new(const struct choices *all, const unsigned *chosen)
{
	enum verb verb = (enum verb)all[F_VERB].values[chosen[F_VERB]];

	return !is_atomic_size(verb) || !chosen[F_SIZES];
}

static struct measurement combine(const char *id, const struct choices *all, const unsigned *chosen)
{
	struct measurement m = {0};
	uint64_t value[FIELDS];

	for (unsigned f = 0; f < FIELDS; f++)
		value[f] = all[f].values[chosen[f]];
	memcpy(m.id, id, MAX_ID);
	m.verb = (uint32_t)value[F_VERB];
	m.transport = (uint32_t)value[F_TRANSPORT];
	m.memory = (uint32_t)value[F_MEMORY];
	m.region_bytes = value[F_REGION];
	m.placement = (uint32_t)value[F_PLACEMENT];
	m.level = (uint32_t)value[F_LEVEL];
	m.qps = (uint32_t)value[F_QPS];
	m.depth = (uint32_t)value[F_DEPTH];
	m.size_bytes = is_atomic_size(m.verb) ? 8 : (uint32_t)value[F_SIZES];
	m.inline_mode = (uint32_t)value[F_INLINE];
	m.method = (uint32_t)value[F_METHOD];
	m.access = (uint32_t)value[F_ACCESS];
	m.iterations = (uint32_t)value[F_ITERATIONS];
	m.warmup = (uint32_t)value[F_WARMUP];
	if (!all[F_METHOD].line && m.transport != RC && m.depth == 1 && m.qps == 1 && legal_on(m.verb, m.transport))
		m.method = HALF_ROUND_TRIP; /* a completion there only says that the bytes left */
	return m;
}

void add_combinations(struct reader *reader, const char *id, const struct choices *all)
{
	struct plan *plan = reader->plan;
	unsigned chosen[FIELDS] = {0};
	int turning;

	do {
		if (is_new(all, chosen)) {
			struct measurement m = combine(id, all, chosen);

			if (!combination_is_legal(reader, &m, all))
				return;
			if (plan->count == MAX_MEASUREMENTS) {
				mistake(reader, reader->first_line, "measurements", "found more than %d combinations, "
					"expected fewer", MAX_MEASUREMENTS);
				return;
			}
			if (plan->count == reader->room) {
				reader->room = reader->room ? 2 * reader->room : 64;
				plan->measurements = realloc(plan->measurements, reader->room * sizeof m);
				if (!plan->measurements)
					stop("out of memory");
			}
			plan->measurements[plan->count++] = m;
		}
		for (turning = FIELDS - 1; turning >= 0; turning--) {
			if (++chosen[turning] < all[turning].count)
				break;
			chosen[turning] = 0;
		}
	} while (turning >= 0);
}

void complete(struct reader *reader, struct choices *all)
{
	bool only_flushes = true, only_atomics = true;
	uint64_t other = 0; /* a verb that does not flush */

	for (unsigned i = 0; i < all[F_VERB].count; i++) {
		if (!has_flush((enum verb)all[F_VERB].values[i])) {
			only_flushes = false;
			other = all[F_VERB].values[i];
		}
		only_atomics &= is_atomic_size((enum verb)all[F_VERB].values[i]);
	}
	if (!all[F_VERB].line) {
		mistake(reader, reader->first_line, "verb", "found nothing, expected a verb, e.g. WRITE");
	} else if (all[F_VERB].count) {
		for (unsigned f = F_PLACEMENT; f <= F_LEVEL; f++)
			if (all[f].line && !only_flushes)
				mistake(reader, all[f].line, fields[f].name, "found for %s, expected for FLUSH and "
					"WRITE+FLUSH only", verb_names[other]);
		if (!all[F_SIZES].line && !only_atomics)
			mistake(reader, reader->first_line, "sizes", "found nothing, expected %s",
				fields[F_SIZES].expected);
		for (unsigned i = 0; only_atomics && i < all[F_SIZES].count; i++)
			if (all[F_SIZES].values[i] != 8)
				mistake(reader, all[F_SIZES].line, "sizes", "found %llu bytes for %s, expected 8 B",
					(unsigned long long)all[F_SIZES].values[i], verb_names[all[F_VERB].values[0]]);
	}
	for (unsigned f = 0; f < FIELDS; f++)
		if (!all[f].count)
			all[f] = (struct choices){.count = 1, .values = {fields[f].fallback}, .line = all[f].line};
}
