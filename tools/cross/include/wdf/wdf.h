/* KMDF 1.33 declarations for the Linux build: the functions that the driver and crate wdk call, and their structures. Written
 * from the public KMDF ABI: table indices, names and layouts. The Windows build uses the WDK's own headers instead.
 * Each declaration is in the header that has it there, and wdf.h includes what it includes there: wdfminiport.h is none of it. */
#pragma once

#define WdfFunctions WdfFunctions_01033
typedef VOID (*WDFFUNC)(VOID);
extern const WDFFUNC *WdfFunctions;
extern WDFFUNC WdfDriverMiniportUnloadOverride;

#include "wdftypes.h"
#include "wdfglobals.h"
#include "wdffuncenum.h"
#include "wdfobject.h"
#include "wdfsync.h"
#include "wdfdriver.h"
#include "wdftimer.h"
