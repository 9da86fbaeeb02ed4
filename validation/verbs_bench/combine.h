/* One measurement as a plan has it, where fields may be lists, and the combinations that it stands for. */
#ifndef RPSIM_VERBS_COMBINE_H
#define RPSIM_VERBS_COMBINE_H

#include <stddef.h>

#include "fields.h"
#include "plan.h"
#include "report.h"

enum { MAX_CHOICES = 64 };

/* One measurement as written: every field is a list, and all combinations are wanted. */
struct choices {
	unsigned count;
	uint64_t values[MAX_CHOICES];
	size_t line; /* 0: not given */
};

/* The plan's file, and how far it is read. */
struct reader {
	const char *path;
	struct yaml_document_s *document;
	struct plan *plan;
	unsigned mistakes;
	size_t room;       /* for measurements */
	size_t first_line; /* of the measurement that is being read */
};

/* Prints one mistake of a plan, with its line and field, and counts it. */
void mistake(struct reader *reader, size_t line, const char *field, const char *format, ...) FORMAT(4, 5);

/* A field that means nothing for a verb is a mistake; what is not given gets its default. */
void complete(struct reader *reader, struct choices *all);

/* Appends every combination to the plan, or says which one is illegal. */
void add_combinations(struct reader *reader, const char *id, const struct choices *all);

#endif
