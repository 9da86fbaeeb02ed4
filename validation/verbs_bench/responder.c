#include "responder.h"

#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "cpu_flush.h"
#include "extensions.h"
#include "pairs.h"

enum {
	LOOK_UP_EVERY = 64,             /* empty polls: is the client still measuring? */
	CHECK_ALIVE_EVERY = 64 * 16384, /* empty polls: is it still there? */
};

/* One measurement on the responder's side. */
struct session {
	struct control *control;
	const struct places *places;
	struct region region; /* kept for the next measurement, which often wants the same */
	struct pairs pairs;
	struct measurement m;
	struct slots slots;
};

/* Memory ------------------------------------------------------------------------------------------------- */

static unsigned access_of(const struct measurement *m)
{
	unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

	if (m->verb == VERB_CAS || m->verb == VERB_FETCH_ADD)
		access |= IBV_ACCESS_REMOTE_ATOMIC;
	return access | extension_access(m);
}

static struct verdict get_region(struct session *session)
{
	const struct measurement *m = &session->m;
	struct region *region = &session->region;

	if (region->mr && region->memory == m->memory && region->bytes == m->region_bytes &&
	    region->access == access_of(m))
		return done();
	region_close(region);
	return region_open(region, session->control->pd, m->memory, m->region_bytes, access_of(m), extension_use(m),
			   session->places);
}

/* Receives ----------------------------------------------------------------------------------------------- */

/* A SEND's bytes go to the next slot of the region, a flush request to a place of its own; the WRITE_WITH_IMM's
 * receive has none. `id` names the place. */
static struct verdict post_one(struct session *session, unsigned q, uint32_t id)
{
	struct pairs *pairs = &session->pairs;
	int error;

	if (session->m.verb == VERB_WRITE_SEND)
		error = post_receive(pairs, q, pairs->own.base + pairs->own_requests +
				     (uint64_t)(q * pairs->receives + id / MAX_QPS) * CACHE_LINE,
				     REQUEST_BYTES, pairs->own.mr->lkey, id);
	else if (session->m.verb == VERB_SEND)
		error = post_receive(pairs, q, session->region.base + slots_next(&session->slots),
				     session->m.size_bytes, session->region.mr->lkey, id);
	else
		error = post_receive(pairs, q, NULL, 0, 0, id);
	return error ? refused("ibv_post_recv", error, "the responder's receives") : done();
}

static struct verdict post_all(struct session *session)
{
	struct verdict verdict = done();

	for (unsigned i = 0; i < session->pairs.receives; i++)
		for (unsigned q = 0; q < session->pairs.count && verdict.outcome == OUTCOME_DONE; q++)
			verdict = post_one(session, q, i * MAX_QPS + q);
	return verdict;
}

/* Answers ------------------------------------------------------------------------------------------------ */

static struct verdict answer_flush(struct session *session, unsigned q, uint32_t id)
{
	struct pairs *pairs = &session->pairs;
	uint64_t wanted[2];

	memcpy(wanted, pairs->own.base + pairs->own_requests +
	       (uint64_t)(q * pairs->receives + id / MAX_QPS) * CACHE_LINE, sizeof wanted);
	if (wanted[0] > session->region.bytes || wanted[1] > session->region.bytes - wanted[0])
		return failed("a request for a flush outside of the region");
	cpu_flush(session->region.base + wanted[0], wanted[1]);
	int error = post_reply(pairs, q, q);
	return error ? refused("ibv_post_send", error, "the reply to a flush request") : done();
}

static struct verdict answer(struct session *session, const struct ibv_wc *completion)
{
	uint32_t id = (uint32_t)completion->wr_id & ~ID_RECEIVE;
	unsigned q = id % MAX_QPS;
	struct verdict verdict = done();

	if (completion->status != IBV_WC_SUCCESS)
		return bad_completion(completion);
	if (!(completion->wr_id & ID_RECEIVE))
		return done(); /* an answer has left */
	if (session->m.verb == VERB_WRITE_SEND)
		verdict = answer_flush(session, q, id);
	else if (session->m.method == HALF_ROUND_TRIP) {
		int error = post_operation(&session->pairs, q, 0, q);
		if (error)
			verdict = refused("ibv_post_send", error, "the responder's answer");
	}
	return verdict.outcome == OUTCOME_DONE ? post_one(session, q, id) : verdict;
}

/* Before the client may begin: no trace of earlier writes where this one's are awaited, or looked for at the end. */
static void clear(struct session *session)
{
	const struct measurement *m = &session->m;
	struct slots slots = slots_of(m);

	if (m->method == HALF_ROUND_TRIP && m->verb == VERB_WRITE)
		memset(session->region.base, 0, session->region.bytes);
	else
		memset(session->region.base + slots_next(&slots), 0, m->size_bytes);
}

/* At the end: what the first operation wrote is there. Where nobody acknowledges, it may be lost. */
static struct verdict check_bytes(const struct session *session)
{
	const struct measurement *m = &session->m;
	struct slots slots = slots_of(m);
	const char *first = session->region.base + slots_next(&slots);
	bool writes = carries_data(m->verb) || m->verb == VERB_ATOMIC_WRITE || m->verb == VERB_FETCH_ADD;
	uint32_t size = m->size_bytes;

	if (m->method == HALF_ROUND_TRIP && m->verb == VERB_WRITE)
		size--; /* the last byte was awaited, and taken back */
	if (m->transport != RC || !writes)
		return done();
	for (uint32_t i = 0; i < size; i++)
		if (m->verb == VERB_FETCH_ADD ? !first[0] && !first[1] && !first[2] : first[i] != PATTERN)
			return failed("byte %u of the first operation is 0x%02x in the responder's memory", i,
				      (unsigned char)first[i]);
	return done();
}

/* Answers until the client says that it has finished. A WRITE is seen in memory, by its last byte. */
static struct verdict answer_all(struct session *session)
{
	struct pairs *pairs = &session->pairs;
	const struct measurement *m = &session->m;
	bool in_memory = m->verb == VERB_WRITE;
	volatile char *last_byte = session->region.base + slots_next(&session->slots) + m->size_bytes - 1;
	struct ibv_wc completion;

	for (uint64_t empty = 1;; empty++) {
		struct verdict verdict = done();

		while (ibv_poll_cq(pairs->cq, 1, &completion) > 0) {
			verdict = answer(session, &completion);
			if (verdict.outcome != OUTCOME_DONE)
				return verdict;
		}
		if (in_memory && *last_byte) {
			*last_byte = 0;
			last_byte = session->region.base + slots_next(&session->slots) + m->size_bytes - 1;
			int error = post_operation(pairs, 0, 0, 0);
			if (error)
				return refused("ibv_post_send", error, "the responder's answer");
		}
		if (empty % LOOK_UP_EVERY == 0 && control_waiting(session->control))
			return done();
		if (empty % CHECK_ALIVE_EVERY == 0 && !control_alive(session->control))
			return failed("the client is gone");
	}
}

/* A measurement ------------------------------------------------------------------------------------------ */

static struct verdict prepare(struct session *session, const struct message *request, uint32_t psn, unsigned *reads)
{
	struct control *control = session->control;
	unsigned own_reads = reads_in_flight(control->id->verbs, true);
	struct verdict verdict = extension_available(control->id->verbs, &session->m);

	*reads = own_reads < request->reads_in_flight ? own_reads : request->reads_in_flight;
	session->slots = slots_of(&session->m);
	if (verdict.outcome == OUTCOME_DONE)
		verdict = get_region(session);
	if (verdict.outcome == OUTCOME_DONE)
		verdict = pairs_open(&session->pairs, control, &session->m, true);
	if (verdict.outcome == OUTCOME_DONE)
		verdict = pairs_connect(&session->pairs, control, request, psn, *reads);
	return verdict.outcome == OUTCOME_DONE ? post_all(session) : verdict;
}

static bool reply_ready(struct session *session, uint32_t psn, unsigned reads)
{
	struct message *message = control_draft(session->control, READY);

	message->address = (uintptr_t)session->region.base;
	message->rkey = session->region.mr->rkey;
	message->psn = psn;
	message->reads_in_flight = reads;
	for (unsigned q = 0; q < session->pairs.count; q++)
		message->qpns[q] = session->pairs.qps[q]->qp_num;
	return control_send(session->control);
}

static bool reply(struct control *control, enum message_kind kind, const struct verdict *verdict)
{
	struct message *message = control_draft(control, kind);

	message->outcome = verdict->outcome;
	snprintf(message->text, sizeof message->text, "responder: %s", verdict->reason);
	return control_send(control);
}

static bool serve_measurement(struct session *session, const struct message *request)
{
	uint32_t psn = (uint32_t)monotonic_ns() & 0xFFFFFF;
	unsigned reads;
	bool alive;

	session->m = request->measurement;
	session->pairs = (struct pairs){.own.fd = -1};
	struct verdict verdict = prepare(session, request, psn, &reads);
	if (verdict.outcome == OUTCOME_DONE) {
		clear(session);
		alive = reply_ready(session, psn, reads);
		if (alive && answers(&session->m)) {
			verdict = answer_all(session);
			if (verdict.outcome != OUTCOME_DONE)
				fprintf(stderr, "rpsim-verbs: %s: %s\n", session->m.id, verdict.reason);
		}
		/* One-sided operations need nobody here: sleep, and leave caches and power to them. */
		alive = alive && control_receive(session->control, -1);
		if (alive) {
			verdict = check_bytes(session);
			alive = reply(session->control, FINISHED, &verdict);
		}
	} else {
		alive = reply(session->control, REFUSED, &verdict);
	}
	pairs_close(&session->pairs);
	return alive;
}

void serve(struct control *control, const struct places *places)
{
	struct session session = {.control = control, .places = places, .region.fd = -1};
	const struct message *request;

	while ((request = control_receive(control, -1)) && request->kind == PREPARE)
		if (!serve_measurement(&session, request))
			break;
	region_close(&session.region);
}
