/* rpsim-verbs: one- and two-sided RDMA operations, timed on real hardware, in rpsim's format of measurements. */
#include <errno.h>
#include <libgen.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "control.h"
#include "machine.h"
#include "options.h"
#include "plan.h"
#include "requester.h"
#include "responder.h"
#include "samples.h"

#define VERSION "1.0"

static struct plan read_plan(const char *path)
{
	struct plan plan;

	if (plan_read(path, &plan))
		exit(STATUS_WRONG);
	return plan;
}

/* plan --------------------------------------------------------------------------------------------------- */

static void print_measurement(const struct measurement *m)
{
	printf("%-24s %-14s %s %7u B  qps %u  depth %u  %s", m->id, verb_names[m->verb], transport_names[m->transport],
	       m->size_bytes, m->qps, m->depth, memory_names[m->memory]);
	if (has_flush(m->verb))
		printf("  %s %s", placement_names[m->placement], level_names[m->level]);
	putchar('\n');
}

static int command_plan(int count, char **arguments)
{
	struct options options = parse(count, arguments, "j");

	if (optind + 1 != count)
		misused("one PLAN is expected", "");
	struct plan plan = read_plan(arguments[optind]);

	for (unsigned i = 0; i < plan.count; i++)
		if (options.json) {
			char mode[16];

			snprintf(mode, sizeof mode, "\"%s\"", inline_names[plan.measurements[i].inline_mode]);
			fputs(i ? ",\n" : "[", stdout);
			measurement_write(stdout, &plan.measurements[i], mode);
			putchar('}');
		} else {
			print_measurement(&plan.measurements[i]);
		}
	if (options.json)
		puts(plan.count ? "]" : "[]");
	fprintf(stderr, "%s: %u measurements\n", plan.name, plan.count);
	plan_free(&plan);
	return STATUS_DONE;
}

/* serve -------------------------------------------------------------------------------------------------- */

/* A file for DAX may be made yet, in a folder that is there. */
static void check_place(const char *option, const char *path, bool may_be_new)
{
	char *copy = strdup(path);

	if (access(path, R_OK | W_OK) && !(may_be_new && errno == ENOENT && !access(dirname(copy), W_OK)))
		stop("%s %s: it is not there, or may not be read and written (%s)", option, path, errno_name(errno));
	free(copy);
}

static int command_serve(int count, char **arguments)
{
	struct options options = parse(count, arguments, "btdmhc1");

	if (optind != count)
		misused("found an argument that is not expected: ", arguments[optind]);
	if (options.places.dax)
		check_place("--dax", options.places.dax, strncmp(options.places.dax, "/dev/", 5) != 0);
	if (options.places.dmabuf)
		check_place("--dmabuf", options.places.dmabuf, false);
	machine_check();
	clock_start();
	struct rdma_cm_id *listener = control_listen(options.own_address, options.port);

	fprintf(stderr, "rpsim-verbs: serving on %s, port %s\n",
		options.own_address ? options.own_address : "all addresses", options.port);
	do {
		struct control control;

		if (control_accept(&control, listener) && control_receive(&control, -1)) {
			struct message *greeting = control_draft(&control, HELLO);

			machine_facts(&control, greeting->text, sizeof greeting->text);
			if (control_send(&control))
				serve(&control, &options.places);
		}
		control_close(&control);
	} while (!options.once);
	return STATUS_DONE;
}

/* measure ------------------------------------------------------------------------------------------------ */

static bool wanted(const struct options *options, const struct measurement *m)
{
	for (unsigned i = 0; i < options->only_count; i++)
		if (!strcmp(options->only[i], m->id))
			return true;
	return !options->only_count;
}

static void check_only(const struct options *options, const struct plan *plan)
{
	for (unsigned i = 0; i < options->only_count; i++) {
		unsigned k = 0;

		while (k < plan->count && strcmp(plan->measurements[k].id, options->only[i]))
			k++;
		if (k == plan->count)
			stop("--only %s: no measurement of %s has this id", options->only[i], options->plan);
	}
}

/* Measures all that is wanted into a JSON document. Returns whether something failed. */
static bool measure_all(struct control *control, const struct options *options, const struct plan *plan, FILE *out,
			FILE *table)
{
	const char *comma = "";
	bool alive = true, any_failed = false;

	table_head(table);
	fputs("\"results\": [", out);
	for (unsigned i = 0; i < plan->count; i++) {
		const struct measurement *m = &plan->measurements[i];

		if (!wanted(options, m))
			continue;
		struct samples samples = samples_open(m->iterations);

		if (alive)
			alive = measure(control, m, &samples);
		else
			samples.verdict = failed("the server is gone");
		fprintf(out, "%s\n", comma);
		samples_write(out, m, &samples);
		table_row(table, m, &samples);
		any_failed |= samples.verdict.outcome == OUTCOME_FAILED;
		comma = ",";
		samples_close(&samples);
	}
	fputs("\n]", out);
	return any_failed;
}

/* Results get their name only when they are complete; however the program ends, nothing half-written stays. */
static char temporary[4096];

static void remove_temporary(void)
{
	if (*temporary)
		unlink(temporary);
}

static void interrupted(int signal_number)
{
	remove_temporary();
	_exit(128 + signal_number);
}

static FILE *open_output(const struct options *options)
{
	FILE *out;

	if (!options->out)
		return options->json ? stdout : fopen("/dev/null", "w");
	snprintf(temporary, sizeof temporary, "%s.part", options->out);
	out = fopen(temporary, "w");
	if (!out)
		stop("%s: cannot be written (%s)", options->out, errno_name(errno));
	atexit(remove_temporary);
	signal(SIGINT, interrupted);
	signal(SIGTERM, interrupted);
	return out;
}

static int command_measure(int count, char **arguments)
{
	struct options options = parse(count, arguments, "piojbtc");
	struct control control;
	char facts[sizeof((struct message *)0)->text];
	const struct message *greeting;

	if (optind + 1 != count)
		misused("one SERVER is expected", "");
	if (!options.plan)
		misused("a plan is missing: --plan PLAN", "");
	if (options.json && options.out)
		misused("--json and --out exclude each other", "");
	struct plan plan = read_plan(options.plan);

	check_only(&options, &plan);
	machine_check();
	FILE *out = open_output(&options);
	clock_start();
	control_connect(&control, arguments[optind], options.port, options.own_address);
	machine_facts(&control, facts, sizeof facts);
	control_draft(&control, HELLO);
	greeting = control_send(&control) ? control_receive(&control, 10000) : NULL;
	if (!greeting)
		stop("the server does not answer; does it run the same version of rpsim-verbs?");
	fputs("{\"format\": \"rpsim-measurements-1\", \"origin\": \"native\", "
	      "\"program\": {\"name\": \"rpsim-verbs\", \"version\": \"" VERSION "\"},\n\"plan\": ", out);
	json_string(out, plan.name);
	fprintf(out, ",\n\"machine\": %s,\n\"responder\": %s,\n", facts, greeting->text);
	bool any_failed = measure_all(&control, &options, &plan, out, options.json ? stderr : stdout);
	fputs("}\n", out);
	control_close(&control);
	plan_free(&plan);
	if (fflush(out) || ferror(out) || (out != stdout && fclose(out)))
		stop("%s: cannot be written (%s)", options.out ? options.out : "standard output", errno_name(errno));
	if (options.out && rename(temporary, options.out))
		stop("%s: cannot be written (%s)", options.out, errno_name(errno));
	*temporary = 0;
	return any_failed ? STATUS_FAILED : STATUS_DONE;
}

int main(int count, char **arguments)
{
	const char *command = count > 1 ? arguments[1] : "--help";

	if (!strcmp(command, "--help") || !strcmp(command, "-h") || !strcmp(command, "help")) {
		fputs(usage, stdout);
		return STATUS_DONE;
	}
	if (!strcmp(command, "--version")) {
		puts("rpsim-verbs " VERSION ", libibverbs " LIBRARY_VERSION);
		return STATUS_DONE;
	}
	if (!strcmp(command, "plan"))
		return command_plan(count - 1, arguments + 1);
	if (!strcmp(command, "serve"))
		return command_serve(count - 1, arguments + 1);
	if (!strcmp(command, "measure"))
		return command_measure(count - 1, arguments + 1);
	misused("found the command ", command);
}
