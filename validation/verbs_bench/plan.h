/* The plan: what to measure, as YAML (docs/measuring.md). */
#ifndef RPSIM_VERBS_PLAN_H
#define RPSIM_VERBS_PLAN_H

#include "measurement.h"

struct plan {
	char name[MAX_ID];
	unsigned count;
	struct measurement *measurements; /* every combination, in the order of the results */
};

/* Reads a plan and all that is wrong with it: one line each on standard error. Returns how many mistakes there are. */
unsigned plan_read(const char *path, struct plan *plan);
void plan_free(struct plan *plan);

#endif
