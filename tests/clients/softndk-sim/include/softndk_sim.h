/*
 * SoftNDK for consumers written in C: an NDKPI provider in a process, over a simulated kernel that checks what
 * a real one only punishes. Described in docs/testing.md.
 *
 * The NDKPI declarations are the consumer's own. Every entry of a dispatch table, and every callback, is a plain
 * C function of the host. Deferred calls, and so most callbacks, run at DISPATCH_LEVEL on threads of the library;
 * all threads of the program are at PASSIVE_LEVEL. What says PASSIVE_LEVEL below is not for callbacks.
 *
 * Creates, registrations, resizes and listens finish inline; connects, accepts, disconnects and closes may be pending. Logical
 * addresses (NdkBuildLAM) are addresses of the process. A rule of the kernel, or of the exports below, that is broken is
 * printed to stderr, and the process aborts; a pointer that is no NDK object, or one that was closed, is not noticed, as in a
 * kernel.
 */
#ifndef SOFTNDK_SIM_H
#define SOFTNDK_SIM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sockaddr;

/*
 * Opens an NDK_ADAPTER for a consumer of NDKPI major.minor. All adapters of a process share one device: what
 * listens through one can be reached through any. PASSIVE_LEVEL.
 *
 * An NTSTATUS: STATUS_SUCCESS; NDIS_STATUS_BAD_VERSION (0xC0010004) for a version that is not served;
 * STATUS_INVALID_PARAMETER if ndk_adapter is NULL; STATUS_INSUFFICIENT_RESOURCES. *ndk_adapter is NULL unless it
 * succeeds.
 */
int32_t softndk_sim_open_adapter(uint16_t major, uint16_t minor, void **ndk_adapter);

/*
 * Closes an adapter: waits until all objects made through it are gone and their callbacks have returned. If
 * nothing moves for five seconds, prints what is left to stderr and returns: softndk_sim_outstanding counts it.
 * NULL is ignored. PASSIVE_LEVEL.
 */
void softndk_sim_close_adapter(void *ndk_adapter);

/*
 * Describes length bytes of the program's memory, wherever they are, by an MDL of locked pages, whose virtual
 * address is va. The memory must stay until the MDL is freed. NULL if va is NULL, or if length is 4 GiB or more.
 * An MDL of length 0 describes no bytes; as a link of a chain (Next, the first member) it is skipped.
 */
void *softndk_sim_alloc_mdl(void *va, size_t length);

/*
 * Unlocks the pages and frees the MDL, not those chained to it. No region or mapping may be using it. NULL is
 * ignored.
 */
void softndk_sim_free_mdl(void *mdl);

/*
 * Gives the device an address, at any time; one that it has changes nothing. It starts with none. The address is
 * in the layout of Windows: a 16-bit family first, 2 (IPv4, 16 bytes) or 23 (IPv6, 28 bytes); the port is ignored.
 *
 * An NTSTATUS: STATUS_SUCCESS; STATUS_INVALID_PARAMETER for NULL or another family; STATUS_INVALID_ADDRESS for an
 * address that no interface can have (unspecified, multicast, broadcast); STATUS_INSUFFICIENT_RESOURCES.
 */
int32_t softndk_sim_add_address(const struct sockaddr *address);

/*
 * Replaces the device's fault rules (docs/faults.md): lines of "on POINT ... do ACTION". They last until the last adapter is
 * closed; "" removes them. A device, which is made when the first adapter is opened, begins with the rules of the environment
 * variable SOFTND_FAULTS, if it is set; then each firing is a line on stderr.
 *
 * An NTSTATUS: STATUS_SUCCESS; STATUS_INVALID_PARAMETER for NULL, and for rules of which one is wrong, which is said on
 * stderr; STATUS_INVALID_DEVICE_STATE while no adapter is open.
 */
int32_t softndk_sim_set_fault_rules(const char *rules);

/* How often rule number rule, from 1, has fired since the rules were set. */
uint64_t softndk_sim_faults(uint32_t rule);

/*
 * Returns when no deferred call and no work is queued or running, whatever thread queued it. Timers that are not
 * due yet are not waited for. It does not return as long as callbacks go on making work for each other.
 * PASSIVE_LEVEL.
 */
void softndk_sim_run_idle(void);

/*
 * Live NDK objects (adapters, and the objects made through them that are not gone) plus, once no adapter is open, bytes of the
 * provider's memory that are still allocated. 0 when clean. MDLs are the program's own, and not counted.
 * Looks when no deferred call is running, as those free things last, but waits no longer than a second for that.
 */
uint64_t softndk_sim_outstanding(void);

#ifdef __cplusplus
}
#endif

#endif
