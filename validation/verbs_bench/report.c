#include "report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static struct verdict verdict(enum outcome outcome, const char *format, va_list arguments)
{
	struct verdict result = {.outcome = outcome};

	vsnprintf(result.reason, sizeof result.reason, format, arguments);
	return result;
}

struct verdict done(void)
{
	return (struct verdict){.outcome = OUTCOME_DONE};
}

struct verdict skipped(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	struct verdict result = verdict(OUTCOME_SKIPPED, format, arguments);
	va_end(arguments);
	return result;
}

struct verdict failed(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	struct verdict result = verdict(OUTCOME_FAILED, format, arguments);
	va_end(arguments);
	return result;
}

const char *errno_name(int error)
{
	switch (error) {
	case EACCES: return "EACCES";
	case EAGAIN: return "EAGAIN";
	case EFAULT: return "EFAULT";
	case EINVAL: return "EINVAL";
	case EMFILE: return "EMFILE";
	case ENODEV: return "ENODEV";
	case ENOENT: return "ENOENT";
	case ENOMEM: return "ENOMEM";
	case ENOSYS: return "ENOSYS";
	case EOPNOTSUPP: return "EOPNOTSUPP";
	case EPERM: return "EPERM";
	default: return strerror(error);
	}
}

long memlock_limit_kib(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return -1;
	return (long)(limit.rlim_cur / 1024);
}

struct verdict refused(const char *call, int error, const char *format, ...)
{
	struct verdict result = {.outcome = OUTCOME_FAILED};
	char what[200], advice[160] = "";
	long limit_kib = memlock_limit_kib();
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(what, sizeof what, format, arguments);
	va_end(arguments);
	if (error == EOPNOTSUPP || error == ENOSYS || error == EINVAL)
		result.outcome = OUTCOME_SKIPPED;
	if ((error == ENOMEM || error == EAGAIN) && limit_kib >= 0)
		snprintf(advice, sizeof advice, "; the memlock limit is %ld KiB: raise it (ulimit -l, limits.conf)",
			 limit_kib);
	else if (error == ENOMEM)
		snprintf(advice, sizeof advice, "; the device or the machine has no more room for it");
	else if (error == EACCES || error == EPERM)
		snprintf(advice, sizeof advice, "; look at the permissions of /dev/infiniband/* and of the file");
	snprintf(result.reason, sizeof result.reason, "%s: %s (%s)%s", what, call, errno_name(error), advice);
	return result;
}

struct verdict bad_completion(const struct ibv_wc *completion)
{
	const char *advice = "";

	switch (completion->status) {
	case IBV_WC_RETRY_EXC_ERR:
		advice = ": the responder did not answer; is it alive, the link up, the GID of the same RoCE version, "
			 "the MTU passed by all switches?";
		break;
	case IBV_WC_RNR_RETRY_EXC_ERR:
		advice = ": the responder had no receive posted";
		break;
	case IBV_WC_REM_ACCESS_ERR:
		advice = ": the responder's region does not allow it";
		break;
	case IBV_WC_REM_INV_REQ_ERR:
		advice = ": the responder's device does not know the operation";
		break;
	case IBV_WC_LOC_PROT_ERR:
		advice = ": the requester's buffer is not registered for it";
		break;
	default:
		break;
	}
	return failed("completion with %s (vendor code 0x%x)%s", ibv_wc_status_str(completion->status),
		      completion->vendor_err, advice);
}

void stop(const char *format, ...)
{
	va_list arguments;

	fflush(stdout);
	fputs("rpsim-verbs: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(STATUS_WRONG);
}
