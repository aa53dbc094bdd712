/* What driver/abi declares, in the kits' headers and in ndioctl.h of microsoft/NetworkDirect. Not yet run: there are no kits on Linux. */
#define _AMD64_
#define AMD64
#define _KERNEL_MODE
#define NDIS_WDM 1
#define NDIS_MINIPORT_DRIVER 1
#define NDIS685_MINIPORT 1

#include <ntifs.h>
#include <ndis.h>
#include <ndkpi.h>
#include <ndkrss.h>
#include <wsk.h>
#include <wskndk.h>
#include <ndioctl.h>
