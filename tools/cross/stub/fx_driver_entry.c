/* The Linux build's WdfDriverEntry.lib: the KMDF client's entry point and unload hooks. Duties as the WDK's stub has
 * them: bind through wdfldr.sys, call DriverEntry, hook the unload that fits the driver's mode, unbind at the end. */
typedef unsigned char BOOLEAN;
typedef unsigned short USHORT, WCHAR;
typedef unsigned int ULONG;
typedef int NTSTATUS;
typedef struct { USHORT Length, MaximumLength; WCHAR *Buffer; } UNICODE_STRING;
typedef struct { ULONG Major, Minor, Build; } WDF_VERSION;
typedef struct {
    ULONG Size;
    WCHAR *Component;
    WDF_VERSION Version;
    ULONG FuncCount;
    void *FuncTable; /* from 1.15 on: where the loader stores the address of the framework's table */
    void *Module;
} WDF_BIND_INFO;
typedef struct {
    void *Driver;
    ULONG DriverFlags, DriverTag;
    char DriverName[32];
    BOOLEAN DisplaceDriverUnload;
} WDF_DRIVER_GLOBALS;
typedef void (*WDFFUNC)(void);
typedef void (*MINIPORT_UNLOAD)(WDF_DRIVER_GLOBALS *, void *driver);
typedef void (*DRIVER_UNLOAD)(void *driver_object);

enum {
    FUNCTION_COUNT = 458,             /* KMDF 1.33 */
    MINIPORT_UNLOAD_INDEX = 201,      /* WdfDriverMiniportUnload */
    NO_DISPATCH_OVERRIDE = 2,         /* WdfDriverInitNoDispatchOverride */
    DRIVER_UNLOAD_OFFSET = 0x68,      /* DRIVER_OBJECT.DriverUnload, x64 */
    STATUS_NAME_TOO_LONG = 0xC0000106 - 0x100000000,
};

__declspec(dllimport) NTSTATUS WdfVersionBind(void *, UNICODE_STRING *, WDF_BIND_INFO *, WDF_DRIVER_GLOBALS **);
__declspec(dllimport) NTSTATUS WdfVersionUnbind(UNICODE_STRING *, WDF_BIND_INFO *, WDF_DRIVER_GLOBALS *);
NTSTATUS DriverEntry(void *driver_object, UNICODE_STRING *registry_path);

WDFFUNC *WdfFunctions_01033;
WDF_DRIVER_GLOBALS *WdfDriverGlobals;
ULONG WdfFunctionCount = FUNCTION_COUNT;
BOOLEAN WdfClientVersionHigherThanFramework;
WDFFUNC WdfDriverMiniportUnloadOverride;

static WCHAR component[] = L"KmdfLibrary";
static WDF_BIND_INFO bind_info = {
    sizeof(WDF_BIND_INFO), component, { 1, 33, 0 }, FUNCTION_COUNT, &WdfFunctions_01033, 0,
};
static WCHAR path_buffer[512]; /* a service key's path: the name itself has at most 256 characters */
static UNICODE_STRING service_path = { 0, sizeof(path_buffer), path_buffer };
static DRIVER_UNLOAD displaced_unload;

static void unbind(void) {
    WdfVersionUnbind(&service_path, &bind_info, WdfDriverGlobals);
}

static void displacing_unload(void *driver_object) {
    if (displaced_unload)
        displaced_unload(driver_object);
    unbind();
}

static void miniport_unload(WDF_DRIVER_GLOBALS *globals, void *driver) {
    ((MINIPORT_UNLOAD)WdfFunctions_01033[MINIPORT_UNLOAD_INDEX])(globals, driver);
    unbind();
}

NTSTATUS FxDriverEntry(void *driver_object, UNICODE_STRING *registry_path) {
    if (!driver_object)
        return DriverEntry(driver_object, registry_path);

    if (registry_path->Length > sizeof(path_buffer))
        return STATUS_NAME_TOO_LONG;
    service_path.Length = registry_path->Length;
    for (ULONG i = 0; i < registry_path->Length / sizeof(WCHAR); i++)
        path_buffer[i] = registry_path->Buffer[i];

    NTSTATUS status = WdfVersionBind(driver_object, &service_path, &bind_info, &WdfDriverGlobals);
    if (status < 0)
        return status;
    WdfDriverMiniportUnloadOverride = WdfFunctions_01033[MINIPORT_UNLOAD_INDEX];

    status = DriverEntry(driver_object, registry_path);
    if (status < 0) {
        unbind();
        return status;
    }
    if (WdfDriverGlobals->DisplaceDriverUnload) {
        DRIVER_UNLOAD *slot = (DRIVER_UNLOAD *)((char *)driver_object + DRIVER_UNLOAD_OFFSET);
        displaced_unload = *slot;
        *slot = displacing_unload;
    } else if (WdfDriverGlobals->DriverFlags & NO_DISPATCH_OVERRIDE) {
        WdfDriverMiniportUnloadOverride = (WDFFUNC)miniport_unload;
    }
    return status;
}
