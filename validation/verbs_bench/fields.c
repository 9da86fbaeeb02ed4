#include "fields.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measurement.h"

#define NAMES(list, count) .kind = NAME, .names = (list), .most = (count)-1

const struct field fields[FIELDS] = {
	[F_VERB] = {"verb", NAMES(verb_names, VERBS), .many = true},
	[F_TRANSPORT] = {"transport", NAMES(transport_names, TRANSPORTS), .many = true, .fallback = RC},
	[F_MEMORY] = {"memory", NAMES(memory_names, MEMORIES), .many = true, .fallback = DRAM},
	[F_REGION] = {"region", .kind = SIZE, .least = 64, .most = 1ull << 40, .fallback = 16 << 20, .many = true,
		      .expected = "a size from 64 B to 1 TiB, e.g. '16 MiB'"},
	[F_PLACEMENT] = {"placement", NAMES(placement_names, PLACEMENTS), .many = true, .fallback = GLOBAL},
	[F_LEVEL] = {"level", NAMES(level_names, LEVELS), .many = true, .fallback = RANGE},
	[F_QPS] = {"qps", .kind = COUNT, .least = 1, .most = MAX_QPS, .fallback = 1, .many = true,
		   .expected = "a number from 1 to 1024"},
	[F_DEPTH] = {"depth", .kind = COUNT, .least = 1, .most = MAX_DEPTH, .fallback = 1, .many = true,
		     .expected = "a number from 1 to 4096"},
	[F_SIZES] = {"sizes", .kind = SIZE, .least = 1, .most = MAX_SIZE, .fallback = 8, .many = true,
		     .expected = "a size from 1 B to 1 MiB, e.g. '64 B'"},
	[F_INLINE] = {"inline", NAMES(inline_names, INLINE_MODES), .fallback = INLINE_AUTO},
	[F_METHOD] = {"method", NAMES(method_names, METHODS), .fallback = COMPLETION},
	[F_ACCESS] = {"access", NAMES(access_names, ACCESSES), .fallback = SEQUENTIAL},
	[F_ITERATIONS] = {"iterations", .kind = COUNT, .least = 1, .most = MAX_ITERATIONS, .fallback = 1000,
			  .expected = "a number from 1 to 10000000"},
	[F_WARMUP] = {"warmup", .kind = COUNT, .least = 0, .most = MAX_ITERATIONS, .fallback = 100,
		      .expected = "a number from 0 to 10000000"},
};

static bool number(const char *text, const char **rest, uint64_t *value)
{
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	*value = strtoull(text, &end, 10);
	*rest = end;
	return errno == 0;
}

static bool size(const char *text, uint64_t *value)
{
	static const struct {
		const char *unit;
		uint64_t bytes;
	} units[] = {
		{"", 1},
		{"B", 1},
		{"kB", 1000},
		{"KB", 1000},
		{"MB", 1000000},
		{"GB", 1000000000},
		{"KiB", 1ull << 10},
		{"MiB", 1ull << 20},
		{"GiB", 1ull << 30},
		{"TiB", 1ull << 40},
	};
	const char *unit;

	if (!number(text, &unit, value))
		return false;
	while (*unit == ' ')
		unit++;
	for (unsigned i = 0; i < sizeof units / sizeof *units; i++)
		if (!strcmp(unit, units[i].unit))
			return !__builtin_mul_overflow(*value, units[i].bytes, value);
	return false;
}

bool field_value(const struct field *field, const char *text, uint64_t *value)
{
	const char *rest;

	switch (field->kind) {
	case NAME:
		for (*value = 0; *value <= field->most; ++*value)
			if (!strcmp(text, field->names[*value]))
				return true;
		return false;
	case SIZE:
		return size(text, value) && *value >= field->least && *value <= field->most;
	default:
		return number(text, &rest, value) && !*rest && *value >= field->least && *value <= field->most;
	}
}

void field_expects(const struct field *field, char *text, size_t room)
{
	if (field->kind != NAME) {
		snprintf(text, room, "%s", field->expected);
		return;
	}
	*text = 0;
	for (uint64_t i = 0; i <= field->most; i++) {
		size_t used = strlen(text);
		const char *before = i == 0 ? "" : i == field->most ? " or " : ", ";

		snprintf(text + used, room - used, "%s%s", before, field->names[i]);
	}
}

/* Levenshtein's distance, whatever the case. */
static unsigned distance(const char *one, const char *other)
{
	enum { LONGEST = 31 };
	unsigned row[LONGEST + 1];
	size_t columns = strlen(other);

	if (columns > LONGEST || strlen(one) > LONGEST)
		return LONGEST;
	for (size_t j = 0; j <= columns; j++)
		row[j] = (unsigned)j;
	for (size_t i = 1; one[i - 1]; i++) {
		unsigned diagonal = row[0];

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= columns; j++) {
			bool same = tolower((unsigned char)one[i - 1]) == tolower((unsigned char)other[j - 1]);
			unsigned changed = diagonal + !same;
			unsigned shorter = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);

			diagonal = row[j];
			row[j] = changed < shorter ? changed : shorter;
		}
	}
	return row[columns];
}

const char *nearest_name(const char *text, const char *const *names, unsigned count)
{
	const char *best = NULL;
	unsigned best_distance = (unsigned)strlen(text) / 3 + 2; /* farther is another word */

	for (unsigned i = 0; i < count; i++) {
		unsigned far = distance(text, names[i]);

		if (far < best_distance && far < strlen(names[i])) {
			best_distance = far;
			best = names[i];
		}
	}
	return best;
}
