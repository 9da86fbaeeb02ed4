/* Whether inbound writes of a device may go to the last-level cache (Intel DDIO), where that can be read. */
#ifndef RPSIM_VERBS_DDIO_H
#define RPSIM_VERBS_DDIO_H

/* `device` is the device's folder of /sys, symbolic links allowed. "on", "off", or why it cannot be told. */
const char *ddio_state(const char *device);

#endif
