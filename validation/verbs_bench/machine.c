#include "machine.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "clock.h"
#include "cpu_flush.h"
#include "ddio.h"
#include "extensions.h"
#include "samples.h"

void machine_check(void)
{
	int count = 0;
	struct ibv_device **devices = ibv_get_device_list(&count);
	bool opened = false, up = false;

	if (!devices || !count)
		stop("no RDMA device: 'rdma link show' should list one; is the adapter's module loaded? A software "
		     "device will do to try things out: rdma link add rxe0 type rxe netdev eth0");
	for (int i = 0; i < count; i++) {
		struct ibv_context *context = ibv_open_device(devices[i]);
		struct ibv_device_attr attributes;
		struct ibv_port_attr port;

		if (!context)
			continue;
		opened = true;
		for (unsigned p = 1; !ibv_query_device(context, &attributes) && p <= attributes.phys_port_cnt; p++)
			up |= !ibv_query_port(context, (uint8_t)p, &port) && port.state == IBV_PORT_ACTIVE;
		ibv_close_device(context);
	}
	if (!opened)
		stop("no RDMA device can be opened, the first one is %s (%s): may you open /dev/infiniband/uverbs*?",
		     ibv_get_device_name(devices[0]), errno_name(errno));
	if (!up)
		stop("no port of an RDMA device is up, the first device is %s: look at its cable and link, "
		     "'rdma link show', 'ip link'", ibv_get_device_name(devices[0]));
	ibv_free_device_list(devices);
}

/* Files of /sys and /proc -------------------------------------------------------------------------------- */

static bool read_line(const char *path, char *text, size_t room)
{
	FILE *file = fopen(path, "r");
	bool found = file && fgets(text, (int)room, file);

	if (file)
		fclose(file);
	if (found)
		text[strcspn(text, "\n")] = 0;
	return found;
}

static void fact(FILE *out, const char *name, const char *value)
{
	fprintf(out, ", \"%s\": ", name);
	json_string(out, value);
}

static void fact_of_file(FILE *out, const char *name, const char *path)
{
	char text[256];

	if (read_line(path, text, sizeof text))
		fact(out, name, text);
}

static void fact_of_device(FILE *out, const char *name, const char *device, const char *file)
{
	char path[256];

	snprintf(path, sizeof path, "/sys/class/infiniband/%s/device/%s", device, file);
	fact_of_file(out, name, path);
}

static void write_cpu(FILE *out)
{
	char line[256], *value;
	FILE *file = fopen("/proc/cpuinfo", "r");

	while (file && fgets(line, sizeof line, file))
		if (!strncmp(line, "model name", 10) && (value = strchr(line, ':'))) {
			line[strcspn(line, "\n")] = 0;
			fact(out, "cpu", value + 2);
			break;
		}
	if (file)
		fclose(file);
	fprintf(out, ", \"cpus\": %ld, \"cpu_used\": %d", sysconf(_SC_NPROCESSORS_ONLN), sched_getcpu());
	fact_of_file(out, "frequency_governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
	if (cpu_flush_name())
		fact(out, "cpu_flush", cpu_flush_name());
}

static void write_caches(FILE *out)
{
	const char *comma = "";
	char path[128], level[16], type[32], size[32];

	fputs(", \"caches\": [", out);
	for (int i = 0; i < 8; i++) {
		snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/level", i);
		if (!read_line(path, level, sizeof level))
			break;
		snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/type", i);
		if (!read_line(path, type, sizeof type))
			break;
		snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
		if (!read_line(path, size, sizeof size))
			break;
		fprintf(out, "%s{\"level\": %d, \"type\": \"%s\", \"size_bytes\": %ld}", comma, atoi(level), type,
			1024 * strtol(size, NULL, 10));
		comma = ", ";
	}
	fputs("]", out);
}

static void write_numa(FILE *out, const char *device)
{
	char text[64], path[256];

	fputs(", \"numa\": {\"nodes\": ", out);
	json_string(out, read_line("/sys/devices/system/node/online", text, sizeof text) ? text : "0");
	snprintf(path, sizeof path, "/sys/class/infiniband/%s/device/numa_node", device);
	fprintf(out, ", \"of_device\": %d", read_line(path, text, sizeof text) ? atoi(text) : -1);
	unsigned cpu, node;
	if (!getcpu(&cpu, &node))
		fprintf(out, ", \"of_process\": %u", node);
	fputs("}", out);
}

/* The device --------------------------------------------------------------------------------------------- */

static void write_device(FILE *out, const struct control *control)
{
	static const char *const layers[] = {"unspecified", "InfiniBand", "Ethernet"};
	struct ibv_context *context = control->id->verbs;
	const char *device = ibv_get_device_name(context->device);
	const struct path *path = &control->path;
	struct ibv_device_attr attributes;
	struct ibv_port_attr port;
	char folder[256];

	fputs("\"device\": ", out);
	json_string(out, device);
	fact_of_device(out, "pcie_speed", device, "current_link_speed");
	fact_of_device(out, "pcie_width", device, "current_link_width");
	snprintf(folder, sizeof folder, "/sys/class/infiniband/%s/device", device);
	fact(out, "ddio", ddio_state(folder));
	if (!ibv_query_device(context, &attributes)) {
		fact(out, "firmware", attributes.fw_ver);
		fprintf(out, ", \"vendor_id\": %u, \"vendor_part_id\": %u, \"max_qp\": %d, \"max_reads_in_flight\": %d",
			attributes.vendor_id, attributes.vendor_part_id, attributes.max_qp,
			attributes.max_qp_init_rd_atom);
	}
	if (!ibv_query_port(context, (uint8_t)path->port, &port)) {
		fact(out, "link_layer", layers[port.link_layer % 3]);
		fprintf(out, ", \"port\": %u, \"link_speed_code\": %u, \"link_width_code\": %u", path->port,
			port.active_speed, port.active_width);
	}
	fprintf(out, ", \"path_mtu_bytes\": %u, \"gid_index\": %u", 128u << path->rtr.path_mtu,
		path->rtr.ah_attr.grh.sgid_index);
}

void machine_facts(const struct control *control, char *text, size_t room)
{
	FILE *out = fmemopen(text, room, "w");
	struct utsname kernel;

	if (!out)
		stop("out of memory");
	fputc('{', out);
	write_device(out, control);
	if (!uname(&kernel)) {
		fact(out, "kernel", kernel.release);
		fact(out, "architecture", kernel.machine);
	}
	fact(out, "library", "libibverbs " LIBRARY_VERSION);
	fprintf(out, ", \"library_has_flush\": %s, \"library_has_atomic_write\": %s", HAVE_FLUSH ? "true" : "false",
		HAVE_ATOMIC_WRITE ? "true" : "false");
	write_cpu(out);
	write_caches(out);
	write_numa(out, ibv_get_device_name(control->id->verbs->device));
	fprintf(out, ", \"memlock_limit_kib\": %ld, \"clock\": {\"source\": \"%s\", \"ns_per_tick\": %.6f, "
		"\"overhead_ns\": %.1f}}", memlock_limit_kib(), the_clock.cycles ? "rdtscp" : "clock_gettime",
		the_clock.ns_per_tick, the_clock.overhead_ns);
	fclose(out);
}
