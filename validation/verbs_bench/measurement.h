/* One measurement: the vocabulary that plan, client, server and results share.
 *
 * A plan (plan.h) is a list of these. The client sends each to the server as it is, so every field has a fixed size;
 * that both sides mean the same is checked when they connect (control.h).
 */
#ifndef RPSIM_VERBS_MEASUREMENT_H
#define RPSIM_VERBS_MEASUREMENT_H

#include <stdbool.h>
#include <stdint.h>

enum verb {
	VERB_WRITE,
	VERB_WRITE_WITH_IMM,
	VERB_SEND,
	VERB_READ,
	VERB_CAS,
	VERB_FETCH_ADD,
	VERB_WRITE_READ,  /* a READ of the last bytes written, posted behind the WRITE */
	VERB_WRITE_SEND,  /* a request behind the WRITE; the responder's CPU flushes the range and answers */
	VERB_FLUSH,       /* nothing written before it */
	VERB_WRITE_FLUSH,
	VERB_ATOMIC_WRITE,
	VERBS
};
enum transport { RC, UC, UD, TRANSPORTS };
enum inline_mode { INLINE_AUTO, INLINE_YES, INLINE_NO, INLINE_MODES };
enum method {
	COMPLETION,      /* from the first post to the last completion */
	HALF_ROUND_TRIP, /* half the time until the responder's answer, by the same verb, is seen */
	METHODS
};
enum memory { DRAM, DAX, DMABUF, MEMORIES };
enum access { SEQUENTIAL, RANDOM, ACCESSES };
enum placement { GLOBAL, PERSISTENT, PLACEMENTS };
enum level { RANGE, REGION, LEVELS };

extern const char *const verb_names[VERBS];
extern const char *const transport_names[TRANSPORTS];
extern const char *const inline_names[INLINE_MODES];
extern const char *const method_names[METHODS];
extern const char *const memory_names[MEMORIES];
extern const char *const access_names[ACCESSES];
extern const char *const placement_names[PLACEMENTS];
extern const char *const level_names[LEVELS];

enum {
	MAX_ID = 64,
	MAX_QPS = 1024,
	MAX_DEPTH = 4096,
	MAX_SIZE = 1 << 20,
	MAX_ITERATIONS = 10000000, /* every sample is kept */
	CACHE_LINE = 64
};

struct measurement {
	char id[MAX_ID];
	uint32_t verb, transport, inline_mode, method, memory, access, placement, level;
	uint32_t size_bytes, qps, depth;
	uint32_t iterations, warmup, unused;
	uint64_t region_bytes;
};

bool carries_data(enum verb verb);       /* the requester's bytes travel, so they may be inline */
bool is_atomic_size(enum verb verb);     /* always 8 bytes */
bool has_flush(enum verb verb);          /* placement and level mean something */
bool consumes_receive(enum verb verb);   /* the responder has to post receives */
bool legal_on(enum verb verb, enum transport transport);
bool answers(const struct measurement *m); /* the responder's CPU takes part in each operation */

/* Where operation after operation goes in the region: slots of whole cache lines, in turn or drawn. Both sides can
 * follow the same sequence. */
struct slots {
	uint64_t count, stride_bytes, next;
	uint64_t random; /* state of the generator, 0 if in turn */
};

struct slots slots_of(const struct measurement *m);
uint64_t slots_next(struct slots *slots); /* the offset of the next slot, in bytes */

#endif
