/* What the program says when something is wrong: which call, what it said, what to look at. */
#ifndef RPSIM_VERBS_REPORT_H
#define RPSIM_VERBS_REPORT_H

#include <infiniband/verbs.h>
#include <stdarg.h>

/* Exit statuses, as everywhere in rpsim: done; done, and something failed; the input or the machine is not right. */
enum { STATUS_DONE = 0, STATUS_FAILED = 1, STATUS_WRONG = 2 };

/* How a measurement, or a step of it, went. */
enum outcome {
	OUTCOME_DONE,
	OUTCOME_SKIPPED, /* this device, library or platform cannot do it */
	OUTCOME_FAILED,  /* it should have worked */
};

struct verdict {
	enum outcome outcome;
	char reason[400];
};

#define FORMAT(at, arguments) __attribute__((format(printf, at, arguments)))

struct verdict done(void);
struct verdict skipped(const char *format, ...) FORMAT(1, 2);
struct verdict failed(const char *format, ...) FORMAT(1, 2);

/* A library call that failed with an errno. Skipped if the device says that it cannot, else failed with advice. */
struct verdict refused(const char *call, int error, const char *format, ...) FORMAT(3, 4);

/* A completion that is not a success. */
struct verdict bad_completion(const struct ibv_wc *completion);

/* One line on standard error, then the end of the program with STATUS_WRONG. */
_Noreturn void stop(const char *format, ...) FORMAT(1, 2);

const char *errno_name(int error);
long memlock_limit_kib(void); /* -1: unlimited */

#endif
