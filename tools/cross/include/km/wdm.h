/* Searched before the installed mingw-w64 ddk headers: declarations of wdm.h that those lack and the wdk crates or the
 * driver need. Prototypes as documented on learn.microsoft.com (windows-drivers/ddi). */
#pragma once
#include_next <wdm.h>

typedef ULONGLONG POOL_FLAGS;
NTKERNELAPI PVOID NTAPI ExAllocatePool2(POOL_FLAGS Flags, SIZE_T NumberOfBytes, ULONG Tag);
NTKERNELAPI VOID NTAPI KeQuerySystemTimePrecise(PLARGE_INTEGER CurrentTime);
