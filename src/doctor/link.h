/* link.h: the speed of the network, as the system says. */
#ifndef DOCTOR_LINK_H
#define DOCTOR_LINK_H

#define LINK_NAME 32

/* Returns the bytes per second of the physical device of the default route, or else of the fastest physical one that is up, and its name; 0 where
 * no such device says its speed. `root` is "", or the folder of other /sys and /proc. */
double link_read(const char *root, char ret_device[LINK_NAME]);

#endif
