/* The function table's indices, and what the stub in WdfDriverEntry.lib keeps. */
#pragma once

extern PWDF_DRIVER_GLOBALS WdfDriverGlobals;
extern BOOLEAN WdfClientVersionHigherThanFramework;
extern ULONG WdfFunctionCount;
/* wdk-build compiles one C file that only includes wdf.h, to carry this symbol. */
__declspec(selectany) ULONG WdfMinimumVersionRequired = KMDF_VERSION_MINOR;

typedef enum _WDFFUNCENUM {
    WdfDriverCreateTableIndex = 116,
    WdfDeviceMiniportCreateTableIndex = 200,
    WdfDriverMiniportUnloadTableIndex = 201,
    WdfObjectDeleteTableIndex = 208,
    WdfSpinLockCreateTableIndex = 315,
    WdfSpinLockAcquireTableIndex = 316,
    WdfSpinLockReleaseTableIndex = 317,
    WdfTimerCreateTableIndex = 318,
    WdfTimerStartTableIndex = 319,
    WdfTimerStopTableIndex = 320,
    WdfFunctionTableNumEntries = 458,
} WDFFUNCENUM;
