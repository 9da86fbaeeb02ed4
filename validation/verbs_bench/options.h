/* The command line. */
#ifndef RPSIM_VERBS_OPTIONS_H
#define RPSIM_VERBS_OPTIONS_H

#include <stdbool.h>

#include "region.h"

extern const char usage[];

enum { MAX_ONLY = 64 };

struct options {
	const char *plan, *out, *own_address, *port;
	const char *only[MAX_ONLY];
	unsigned only_count;
	struct places places;
	bool json, once;
};

/* `known` are the options of the command, by their letters in options.c. What follows them is at `optind`. */
struct options parse(int count, char **arguments, const char *known);

/* A message, the usage, and the end of the program. */
_Noreturn void misused(const char *problem, const char *what);

#endif
