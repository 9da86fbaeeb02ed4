/* What one measurement gave. */
#ifndef RPSIM_VERBS_SAMPLES_H
#define RPSIM_VERBS_SAMPLES_H

#include <stdint.h>
#include <stdio.h>

#include "measurement.h"
#include "report.h"

struct samples {
	uint64_t *ticks; /* each operation's, in order of completion */
	uint32_t count, room;
	uint64_t start, end; /* first post, last completion: ticks */
	bool inline_data;
	uint32_t mtu_bytes; /* of the path */
	struct verdict verdict;
};

struct samples samples_open(uint32_t room);
void samples_close(struct samples *samples);

/* The conditions of a measurement as the beginning of a JSON object, which is left open. */
void measurement_write(FILE *out, const struct measurement *m, const char *inline_data);

/* One entry of `results` in the JSON document. */
void samples_write(FILE *out, const struct measurement *m, struct samples *samples);

/* One line of the table, 80 columns. */
void table_head(FILE *out);
void table_row(FILE *out, const struct measurement *m, struct samples *samples);

/* A string as JSON, with its quotes. */
void json_string(FILE *out, const char *text);

#endif
