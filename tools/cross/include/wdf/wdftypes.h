/* Handles. */
#pragma once

typedef HANDLE WDFOBJECT;
#define DECLARE_WDF_HANDLE(name) typedef struct name##__ { int unused; } *name
DECLARE_WDF_HANDLE(WDFDRIVER);
DECLARE_WDF_HANDLE(WDFDEVICE);
DECLARE_WDF_HANDLE(WDFTIMER);
DECLARE_WDF_HANDLE(WDFSPINLOCK);
typedef struct WDFDEVICE_INIT *PWDFDEVICE_INIT;

/* Prototypes of the table entries: all take the driver globals first. wdk-macros looks them up as PFN_ plus the upper-case
 * function name. */
#define WDFAPI(result, name, ...) typedef result (NTAPI *PFN_##name)(PWDF_DRIVER_GLOBALS DriverGlobals, __VA_ARGS__)
