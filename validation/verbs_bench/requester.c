#include "requester.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "cpu_flush.h"
#include "extensions.h"
#include "pairs.h"

enum {
	PATIENCE_S = 5,        /* for one completion */
	SERVER_MS = 60 * 1000, /* for the server to get memory and queue pairs ready */
	POLL_AT_ONCE = 16,
};

/* Operations go to the queue pairs in turn, and each queue pair completes its own in order: so a ring of start times
 * for each tells when the completing one began. */
struct run {
	struct pairs *pairs;
	const struct measurement *m;
	struct samples *samples;
	struct slots slots;
	uint64_t *starts;                  /* [queue pair][operation % depth] */
	uint32_t *posted, *sent, *replied; /* of each queue pair */
	uint32_t total, begun, ended;
	uint64_t patience;
};

static struct verdict post_next(struct run *run)
{
	unsigned q = run->begun % run->pairs->count;
	uint64_t offset = slots_next(&run->slots), now = ticks();

	if (run->begun == run->m->warmup)
		run->samples->start = now;
	uint32_t turn = run->posted[q]++ % run->m->depth;

	run->starts[q * run->m->depth + turn] = now;
	int error = post_operation(run->pairs, q, offset, turn * MAX_QPS + q);
	if (error)
		return refused("ibv_post_send", error, "%s", verb_names[run->m->verb]);
	run->begun++;
	return done();
}

static void record(struct run *run, unsigned q, uint32_t operation, uint64_t now)
{
	if (run->ended++ >= run->m->warmup) {
		uint64_t start = run->starts[q * run->m->depth + operation % run->m->depth];

		run->samples->ticks[run->samples->count++] = now - start;
		run->samples->end = now;
	}
}

/* An operation that waits for a reply ends when it comes, but its place is free when its send is through as well. */
static struct verdict take(struct run *run, const struct ibv_wc *completion, uint64_t now)
{
	unsigned q = (completion->wr_id & ~ID_RECEIVE) % MAX_QPS;
	bool waits_for_reply = run->m->verb == VERB_WRITE_SEND;

	if (completion->status != IBV_WC_SUCCESS)
		return bad_completion(completion);
	if (completion->wr_id & ID_RECEIVE) {
		uint32_t operation = run->replied[q]++;
		int error = post_receive(run->pairs, q, run->pairs->own.base + run->pairs->own_echo, REPLY_BYTES,
					 run->pairs->own.mr->lkey, q);

		record(run, q, operation, now);
		return error ? refused("ibv_post_recv", error, "room for a reply") : done();
	}
	uint32_t operation = run->sent[q]++;
	if (!waits_for_reply)
		record(run, q, operation, now);
	return done();
}

static bool has_room(const struct run *run)
{
	unsigned q = run->begun % run->pairs->count;

	return run->begun < run->total && run->begun - run->ended < run->m->depth &&
	       run->posted[q] - run->sent[q] < run->m->depth;
}

static struct verdict out_of_patience(const struct run *run)
{
	return failed("no completion within %d s, %u of %u operations done%s", PATIENCE_S, run->ended, run->total,
		      run->m->transport == RC ? ": is the server alive, is the link up?"
					      : ": a message was lost; nobody sends it again");
}

static struct verdict run_completions(struct run *run)
{
	struct ibv_wc completions[POLL_AT_ONCE];
	struct verdict verdict = done();
	uint64_t last = ticks();

	while (run->ended < run->total) {
		while (has_room(run)) {
			verdict = post_next(run);
			if (verdict.outcome != OUTCOME_DONE)
				return verdict;
		}
		int count = ibv_poll_cq(run->pairs->cq, POLL_AT_ONCE, completions);
		uint64_t now = ticks();

		for (int i = 0; i < count; i++) {
			verdict = take(run, &completions[i], now);
			if (verdict.outcome != OUTCOME_DONE)
				return verdict;
		}
		if (count < 0)
			return failed("ibv_poll_cq failed");
		if (count)
			last = now;
		else if (now - last > run->patience)
			return out_of_patience(run);
	}
	return done();
}

/* There and back: the time until the answer is seen, by its completion or, for a WRITE, in memory. */
static struct verdict run_round_trips(struct run *run)
{
	struct pairs *pairs = run->pairs;
	char *echo = pairs->own.base + pairs->own_echo;
	volatile char *last_byte = echo + run->m->size_bytes - 1;
	bool in_memory = run->m->verb == VERB_WRITE;
	struct ibv_wc completion;

	while (run->ended < run->total) {
		bool sent = false, answered = false;
		struct verdict verdict;

		*last_byte = 0;
		verdict = post_next(run);
		uint64_t start = ticks();
		while (verdict.outcome == OUTCOME_DONE && !(sent && answered)) {
			if (in_memory && !answered && *last_byte) {
				answered = true;
				record(run, 0, run->ended, ticks());
			} else if (ibv_poll_cq(pairs->cq, 1, &completion) > 0) {
				if (completion.status != IBV_WC_SUCCESS) {
					verdict = bad_completion(&completion);
				} else if (completion.wr_id & ID_RECEIVE) {
					answered = true;
					record(run, 0, run->ended, ticks());
					int error = post_receive(pairs, 0, run->m->verb == VERB_SEND ? echo : NULL,
								 run->m->size_bytes, pairs->own.mr->lkey, 0);
					if (error)
						verdict = refused("ibv_post_recv", error, "room for an answer");
				} else {
					sent = true;
				}
			} else if (ticks() - start > run->patience) {
				verdict = out_of_patience(run);
			}
		}
		if (verdict.outcome != OUTCOME_DONE)
			return verdict;
	}
	return done();
}

static struct verdict run_operations(struct pairs *pairs, const struct measurement *m, struct samples *samples)
{
	struct run run = {
		.pairs = pairs,
		.m = m,
		.samples = samples,
		.slots = slots_of(m),
		.starts = calloc((size_t)m->qps * m->depth, sizeof(uint64_t)),
		.posted = calloc(3 * m->qps, sizeof(uint32_t)),
		.total = m->warmup + m->iterations,
		.patience = (uint64_t)(PATIENCE_S * 1e9 / the_clock.ns_per_tick),
	};
	if (!run.starts || !run.posted)
		stop("out of memory");
	run.sent = run.posted + m->qps;
	run.replied = run.sent + m->qps;
	samples->mtu_bytes = pairs->mtu_bytes;
	samples->inline_data = pairs->inline_data || m->verb == VERB_ATOMIC_WRITE;
	struct verdict verdict = m->method == HALF_ROUND_TRIP ? run_round_trips(&run) : run_completions(&run);
	free(run.starts);
	free(run.posted);
	return verdict;
}

/* Receives for the answers: of the measured verb, or replies to flush requests. */
static struct verdict post_receives(struct pairs *pairs)
{
	const struct measurement *m = pairs->m;
	bool replies = m->verb == VERB_WRITE_SEND;
	char *room = pairs->own.base + pairs->own_echo;

	for (unsigned q = 0; q < pairs->count; q++)
		for (unsigned i = 0; i < pairs->receives; i++) {
			int error = post_receive(pairs, q, m->verb == VERB_WRITE_WITH_IMM ? NULL : room,
						 replies ? REPLY_BYTES : m->size_bytes, pairs->own.mr->lkey, q);
			if (error)
				return refused("ibv_post_recv", error, "receive %u of %u", i + 1, pairs->receives);
		}
	return done();
}

static void draft_prepare(struct control *control, const struct pairs *pairs, uint32_t psn)
{
	struct message *message = control_draft(control, PREPARE);

	message->measurement = *pairs->m;
	message->address = (uintptr_t)pairs->own.base + pairs->own_echo;
	message->rkey = pairs->own.mr->rkey;
	message->psn = psn;
	message->reads_in_flight = reads_in_flight(control->id->verbs, false);
	for (unsigned q = 0; q < pairs->count; q++)
		message->qpns[q] = pairs->qps[q]->qp_num;
}

bool measure(struct control *control, const struct measurement *m, struct samples *samples)
{
	struct pairs pairs = {.own.fd = -1};
	uint32_t psn = (uint32_t)monotonic_ns() & 0xFFFFFF;
	const struct message *answer;
	bool alive = true;

	samples->verdict = extension_available(control->id->verbs, m);
	if (samples->verdict.outcome == OUTCOME_DONE && m->verb == VERB_WRITE_SEND && !cpu_flush_name())
		samples->verdict = skipped("no instruction that flushes caches is known for this architecture");
	if (samples->verdict.outcome == OUTCOME_DONE)
		samples->verdict = pairs_open(&pairs, control, m, false);
	if (samples->verdict.outcome == OUTCOME_DONE) {
		draft_prepare(control, &pairs, psn);
		answer = control_send(control) ? control_receive(control, SERVER_MS) : NULL;
		alive = answer != NULL;
		if (!alive) {
			samples->verdict = failed("the server is gone");
		} else if (answer->kind == REFUSED) {
			samples->verdict = answer->outcome == OUTCOME_SKIPPED ? skipped("%.380s", answer->text)
									      : failed("%.380s", answer->text);
		} else {
			samples->verdict = pairs_connect(&pairs, control, answer, psn, answer->reads_in_flight);
			if (samples->verdict.outcome == OUTCOME_DONE)
				samples->verdict = post_receives(&pairs);
			if (samples->verdict.outcome == OUTCOME_DONE)
				samples->verdict = run_operations(&pairs, m, samples);
			control_draft(control, FINISH);
			answer = control_send(control) ? control_receive(control, SERVER_MS) : NULL;
			alive = answer != NULL;
			if (alive && answer->outcome == OUTCOME_FAILED && samples->verdict.outcome == OUTCOME_DONE)
				samples->verdict = failed("%.380s", answer->text);
		}
	}
	pairs_close(&pairs);
	return alive;
}
