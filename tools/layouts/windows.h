/* What driver/ndk-abi declares, in the WDK's headers and in ndioctl.h of microsoft/NetworkDirect. Run on Linux, on the headers of WDK
 * 10.0.22621; not yet on Windows. */
#define _AMD64_
#define AMD64
#define _KERNEL_MODE
#define NDIS_WDM 1
#define NDIS_MINIPORT_DRIVER 1
#define NDIS685_MINIPORT 1

#include <ntifs.h>
#include <ndis.h>
#include <ndisndk.h>
#include <ndkpi.h>
#include <ndkrss.h>
#include <wsk.h>
#include <wskndk.h>
#if __has_include(<ndioctl.h>)
#include <ndioctl.h>
#endif
