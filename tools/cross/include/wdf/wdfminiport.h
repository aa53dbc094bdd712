/* As in the kit, wdf.h does not include this. Nothing here does. */
#pragma once

WDFAPI(NTSTATUS, WDFDEVICEMINIPORTCREATE, WDFDRIVER Driver, PWDF_OBJECT_ATTRIBUTES Attributes,
       PDEVICE_OBJECT DeviceObject, PDEVICE_OBJECT AttachedDeviceObject, PDEVICE_OBJECT Pdo, WDFDEVICE *Device);
WDFAPI(VOID, WDFDRIVERMINIPORTUNLOAD, WDFDRIVER Driver);
