#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

#define DEFAULT_PORT "18515" /* as perftest's */

const char usage[] =
	"usage: rpsim-verbs serve [--bind ADDRESS] [--port PORT] [--dax PATH] [--dmabuf DEVICE] [--huge-pages]\n"
	"                         [--cpu N] [--once]\n"
	"       rpsim-verbs measure SERVER --plan PLAN [--only ID] [--out FILE] [--json] [--bind ADDRESS]\n"
	"                         [--port PORT] [--cpu N]\n"
	"       rpsim-verbs plan PLAN [--json]      (reads the plan, lists its measurements)\n"
	"\n"
	"Start `serve` on one machine, `measure` on the other; SERVER is the IP address of an RDMA port there.\n"
	"\n"
	"  --plan PLAN       what to measure (YAML; see plans/)\n"
	"  --only ID         only the plan's measurements of this id; may be repeated\n"
	"  --out FILE        write the results, as JSON, there\n"
	"  --json            print the results (or the list) as JSON on standard output, the table on standard error\n"
	"  --bind ADDRESS    own IP address, where there are several RDMA ports\n"
	"  --port PORT       of the connection manager (default " DEFAULT_PORT ")\n"
	"  --dax PATH        device DAX, or a file on a file system mounted with -o dax: memory `dax`\n"
	"  --dmabuf DEVICE   /dev/udmabuf or /dev/dma_heap/NAME: memory `dmabuf`\n"
	"  --huge-pages      ask for transparent huge pages for memory `dram`\n"
	"  --cpu N           run on this processor only\n"
	"  --once            serve one client, then end\n"
	"\n"
	"Exit status: 0 measured, or skipped what device or library cannot do; 1 a measurement failed; 2 the input is\n"
	"wrong, there is no RDMA device, or the server cannot be reached.\n";

void misused(const char *problem, const char *what)
{
	stop("%s%s\n%s", problem, what, usage);
}

static void pin(const char *text)
{
	cpu_set_t set;
	char *end;
	long cpu = strtol(text, &end, 10);

	if (*end || cpu < 0 || cpu >= CPU_SETSIZE)
		misused("--cpu expects a number, found ", text);
	CPU_ZERO(&set);
	CPU_SET((int)cpu, &set);
	if (sched_setaffinity(0, sizeof set, &set))
		stop("--cpu %ld: there is no such processor, or it may not be used (%s)", cpu, errno_name(errno));
}

struct options parse(int count, char **arguments, const char *known)
{
	static const struct option names[] = {
		{"plan", required_argument, NULL, 'p'},   {"only", required_argument, NULL, 'i'},
		{"out", required_argument, NULL, 'o'},    {"json", no_argument, NULL, 'j'},
		{"bind", required_argument, NULL, 'b'},   {"port", required_argument, NULL, 't'},
		{"dax", required_argument, NULL, 'd'},    {"dmabuf", required_argument, NULL, 'm'},
		{"huge-pages", no_argument, NULL, 'h'},   {"cpu", required_argument, NULL, 'c'},
		{"once", no_argument, NULL, '1'},         {0},
	};
	struct options options = {.port = DEFAULT_PORT};
	int letter;

	opterr = 0;
	while ((letter = getopt_long(count, arguments, ":", names, NULL)) != -1) {
		if (letter == '?')
			misused("unknown option ", arguments[optind - 1]);
		if (letter == ':')
			misused("a value is missing for ", arguments[optind - 1]);
		if (!strchr(known, letter))
			misused("not an option of this command: ", arguments[optind - (optarg ? 2 : 1)]);
		switch (letter) {
		case 'p': options.plan = optarg; break;
		case 'o': options.out = optarg; break;
		case 'j': options.json = true; break;
		case 'b': options.own_address = optarg; break;
		case 't': options.port = optarg; break;
		case 'd': options.places.dax = optarg; break;
		case 'm': options.places.dmabuf = optarg; break;
		case 'h': options.places.huge_pages = true; break;
		case 'c': pin(optarg); break;
		case '1': options.once = true; break;
		default:
			if (options.only_count == MAX_ONLY)
				misused("--only is given too often: ", optarg);
			options.only[options.only_count++] = optarg;
		}
	}
	return options;
}
