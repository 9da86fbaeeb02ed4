#include "ddio.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	INTEL = 0x8086,
	/* Root ports of Skylake-SP and Cascade Lake-SP, and their register perfctrlsts_0: how the port treats writes
	 * of the devices below it. As in tools/ddio.sh of Intel's rpma and in the code of Farshin et al., ATC'20. */
	FIRST_ROOT_PORT = 0x2030,
	LAST_ROOT_PORT = 0x2033,
	PERFCTRLSTS_0 = 0x180,
	NO_SNOOP_OP_WR_EN = 1 << 3,
	USE_ALLOCATING_FLOW_WR = 1 << 7,
};

static unsigned long number_in(const char *folder, const char *name)
{
	char path[PATH_MAX + 16], text[32];
	FILE *file;

	snprintf(path, sizeof path, "%s/%s", folder, name);
	file = fopen(path, "r");
	if (!file)
		return 0;
	unsigned long number = fgets(text, sizeof text, file) ? strtoul(text, NULL, 16) : 0;
	fclose(file);
	return number;
}

const char *ddio_state(const char *device)
{
	char folder[PATH_MAX], path[PATH_MAX + 16], *slash, *name;
	uint8_t bytes[4];

	if (!realpath(device, folder))
		return "unknown: not a PCI device";
	/* pci0000:16/0000:16:00.0 (root port)/.../0000:17:00.0 (device): up to the one below the host bridge. */
	for (;;) {
		slash = strrchr(folder, '/');
		if (!slash || slash == folder)
			return "unknown: not a PCI device";
		*slash = 0;
		name = strrchr(folder, '/');
		*slash = '/';
		if (name && !strncmp(name, "/pci", 4))
			break;
		*slash = 0;
	}
	unsigned long port = number_in(folder, "device");
	if (number_in(folder, "vendor") != INTEL || port < FIRST_ROOT_PORT || port > LAST_ROOT_PORT)
		return "unknown: not a root port of Skylake-SP or Cascade Lake-SP";
	snprintf(path, sizeof path, "%s/config", folder);
	FILE *config = fopen(path, "rb");
	/* Without privilege, the kernel shows only the first 64 bytes. */
	size_t read = config && !fseek(config, PERFCTRLSTS_0, SEEK_SET) ? fread(bytes, 1, sizeof bytes, config) : 0;
	if (config)
		fclose(config);
	if (read != sizeof bytes)
		return "unknown: root may read it";
	return bytes[0] & USE_ALLOCATING_FLOW_WR && !(bytes[0] & NO_SNOOP_OP_WR_EN) ? "on" : "off";
}
