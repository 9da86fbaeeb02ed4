/* The fields of a measurement in a plan: their names, what they may hold, how text becomes a number. */
#ifndef RPSIM_VERBS_FIELDS_H
#define RPSIM_VERBS_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In the order in which combinations are made: the last one that is a list changes fastest. */
enum field_index {
	F_VERB,
	F_TRANSPORT,
	F_MEMORY,
	F_REGION,
	F_PLACEMENT,
	F_LEVEL,
	F_QPS,
	F_DEPTH,
	F_SIZES,
	F_INLINE,
	F_METHOD,
	F_ACCESS,
	F_ITERATIONS,
	F_WARMUP,
	FIELDS
};

struct field {
	const char *name;
	enum { NAME, SIZE, COUNT } kind;
	const char *const *names; /* of a NAME: what it may be */
	uint64_t least, most;     /* a name's index, bytes, or a number */
	uint64_t fallback;        /* if the plan does not give it */
	bool many;                /* a list is allowed */
	const char *expected;     /* of a SIZE or COUNT: in words */
};

extern const struct field fields[FIELDS];

/* The value of a text; false if the field cannot hold it. */
bool field_value(const struct field *field, const char *text, uint64_t *value);

/* What the field expects, in words. */
void field_expects(const struct field *field, char *text, size_t size);

/* The name most like a misspelt one, or NULL. */
const char *nearest_name(const char *text, const char *const *names, unsigned count);

#endif
