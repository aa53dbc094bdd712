/* KMDF 1.33 declarations for the Linux build: the functions a miniport-mode driver may call, the six that crate wdk
 * wraps, and their structures. Written from the public KMDF ABI: table indices, names and layouts. The Windows build
 * uses the WDK's own headers instead. Every table function takes the driver globals first. */
#pragma once

#define WdfFunctions WdfFunctions_01033
typedef VOID (*WDFFUNC)(VOID);
extern const WDFFUNC *WdfFunctions;
extern ULONG WdfFunctionCount;
extern BOOLEAN WdfClientVersionHigherThanFramework;
extern WDFFUNC WdfDriverMiniportUnloadOverride;
/* wdk-build compiles one C file that only includes this header, to carry this symbol. */
__declspec(selectany) ULONG WdfMinimumVersionRequired = KMDF_VERSION_MINOR;

/* Handles */
typedef HANDLE WDFOBJECT;
#define DECLARE_WDF_HANDLE(name) typedef struct name##__ { int unused; } *name
DECLARE_WDF_HANDLE(WDFDRIVER);
DECLARE_WDF_HANDLE(WDFDEVICE);
DECLARE_WDF_HANDLE(WDFTIMER);
DECLARE_WDF_HANDLE(WDFWORKITEM);
DECLARE_WDF_HANDLE(WDFDPC);
DECLARE_WDF_HANDLE(WDFSPINLOCK);
DECLARE_WDF_HANDLE(WDFWAITLOCK);
DECLARE_WDF_HANDLE(WDFMEMORY);
DECLARE_WDF_HANDLE(WDFKEY);
DECLARE_WDF_HANDLE(WDFSTRING);
typedef struct WDFDEVICE_INIT WDFDEVICE_INIT, *PWDFDEVICE_INIT;

typedef struct _WDF_DRIVER_GLOBALS {
    WDFDRIVER Driver;
    ULONG DriverFlags;
    ULONG DriverTag;
    CHAR DriverName[32];
    BOOLEAN DisplaceDriverUnload;
} WDF_DRIVER_GLOBALS, *PWDF_DRIVER_GLOBALS;
extern PWDF_DRIVER_GLOBALS WdfDriverGlobals;

/* Function table */
typedef enum _WDFFUNCENUM {
    WdfDpcCreateTableIndex = 111,
    WdfDpcEnqueueTableIndex = 112,
    WdfDpcCancelTableIndex = 113,
    WdfDpcGetParentObjectTableIndex = 114,
    WdfDriverCreateTableIndex = 116,
    WdfDriverOpenParametersRegistryKeyTableIndex = 119,
    WdfMemoryCreateTableIndex = 192,
    WdfMemoryGetBufferTableIndex = 194,
    WdfDeviceMiniportCreateTableIndex = 200,
    WdfDriverMiniportUnloadTableIndex = 201,
    WdfObjectGetTypedContextWorkerTableIndex = 202,
    WdfObjectAllocateContextTableIndex = 203,
    WdfObjectContextGetObjectTableIndex = 204,
    WdfObjectCreateTableIndex = 207,
    WdfObjectDeleteTableIndex = 208,
    WdfRegistryOpenKeyTableIndex = 229,
    WdfRegistryCloseTableIndex = 231,
    WdfRegistryQueryValueTableIndex = 235,
    WdfRegistryQueryULongTableIndex = 240,
    WdfWaitLockCreateTableIndex = 312,
    WdfWaitLockAcquireTableIndex = 313,
    WdfWaitLockReleaseTableIndex = 314,
    WdfSpinLockCreateTableIndex = 315,
    WdfSpinLockAcquireTableIndex = 316,
    WdfSpinLockReleaseTableIndex = 317,
    WdfTimerCreateTableIndex = 318,
    WdfTimerStartTableIndex = 319,
    WdfTimerStopTableIndex = 320,
    WdfTimerGetParentObjectTableIndex = 321,
    WdfWorkItemCreateTableIndex = 379,
    WdfWorkItemEnqueueTableIndex = 380,
    WdfWorkItemGetParentObjectTableIndex = 381,
    WdfWorkItemFlushTableIndex = 382,
    WdfFunctionTableNumEntries = 458,
} WDFFUNCENUM;

/* Objects */
typedef enum _WDF_EXECUTION_LEVEL {
    WdfExecutionLevelInvalid = 0,
    WdfExecutionLevelInheritFromParent = 1,
    WdfExecutionLevelPassive = 2,
    WdfExecutionLevelDispatch = 3,
} WDF_EXECUTION_LEVEL;

typedef enum _WDF_SYNCHRONIZATION_SCOPE {
    WdfSynchronizationScopeInvalid = 0,
    WdfSynchronizationScopeInheritFromParent = 1,
    WdfSynchronizationScopeDevice = 2,
    WdfSynchronizationScopeQueue = 3,
    WdfSynchronizationScopeNone = 4,
} WDF_SYNCHRONIZATION_SCOPE;

typedef VOID EVT_WDF_OBJECT_CONTEXT_CLEANUP(WDFOBJECT Object);
typedef EVT_WDF_OBJECT_CONTEXT_CLEANUP *PFN_WDF_OBJECT_CONTEXT_CLEANUP;
typedef VOID EVT_WDF_OBJECT_CONTEXT_DESTROY(WDFOBJECT Object);
typedef EVT_WDF_OBJECT_CONTEXT_DESTROY *PFN_WDF_OBJECT_CONTEXT_DESTROY;

typedef const struct _WDF_OBJECT_CONTEXT_TYPE_INFO *PCWDF_OBJECT_CONTEXT_TYPE_INFO;
typedef PCWDF_OBJECT_CONTEXT_TYPE_INFO (*PFN_GET_UNIQUE_CONTEXT_TYPE)(VOID);
typedef struct _WDF_OBJECT_CONTEXT_TYPE_INFO {
    ULONG Size;
    LPCSTR ContextName;
    size_t ContextSize;
    PCWDF_OBJECT_CONTEXT_TYPE_INFO UniqueType;
    PFN_GET_UNIQUE_CONTEXT_TYPE EvtDriverGetUniqueContextType;
} WDF_OBJECT_CONTEXT_TYPE_INFO, *PWDF_OBJECT_CONTEXT_TYPE_INFO;

typedef struct _WDF_OBJECT_ATTRIBUTES {
    ULONG Size;
    PFN_WDF_OBJECT_CONTEXT_CLEANUP EvtCleanupCallback;
    PFN_WDF_OBJECT_CONTEXT_DESTROY EvtDestroyCallback;
    WDF_EXECUTION_LEVEL ExecutionLevel;
    WDF_SYNCHRONIZATION_SCOPE SynchronizationScope;
    WDFOBJECT ParentObject;
    size_t ContextSizeOverride;
    PCWDF_OBJECT_CONTEXT_TYPE_INFO ContextTypeInfo;
} WDF_OBJECT_ATTRIBUTES, *PWDF_OBJECT_ATTRIBUTES;

/* Driver */
typedef NTSTATUS EVT_WDF_DRIVER_DEVICE_ADD(WDFDRIVER Driver, PWDFDEVICE_INIT DeviceInit);
typedef EVT_WDF_DRIVER_DEVICE_ADD *PFN_WDF_DRIVER_DEVICE_ADD;
typedef VOID EVT_WDF_DRIVER_UNLOAD(WDFDRIVER Driver);
typedef EVT_WDF_DRIVER_UNLOAD *PFN_WDF_DRIVER_UNLOAD;

typedef enum _WDF_DRIVER_INIT_FLAGS {
    WdfDriverInitNonPnpDriver = 1,
    WdfDriverInitNoDispatchOverride = 2,
    WdfVerifyOn = 4,
    WdfVerifierOn = 8,
    WdfDriverInitCompanion = 16,
} WDF_DRIVER_INIT_FLAGS;

typedef struct _WDF_DRIVER_CONFIG {
    ULONG Size;
    PFN_WDF_DRIVER_DEVICE_ADD EvtDriverDeviceAdd;
    PFN_WDF_DRIVER_UNLOAD EvtDriverUnload;
    ULONG DriverInitFlags;
    ULONG DriverPoolTag;
} WDF_DRIVER_CONFIG, *PWDF_DRIVER_CONFIG;

/* Timers, work items, DPCs */
typedef VOID EVT_WDF_TIMER(WDFTIMER Timer);
typedef EVT_WDF_TIMER *PFN_WDF_TIMER;
typedef struct _WDF_TIMER_CONFIG {
    ULONG Size;
    PFN_WDF_TIMER EvtTimerFunc;
    ULONG Period;
    BOOLEAN AutomaticSerialization;
    ULONG TolerableDelay;
    __declspec(align(8)) BOOLEAN UseHighResolutionTimer;
} WDF_TIMER_CONFIG, *PWDF_TIMER_CONFIG;

typedef VOID EVT_WDF_WORKITEM(WDFWORKITEM WorkItem);
typedef EVT_WDF_WORKITEM *PFN_WDF_WORKITEM;
typedef struct _WDF_WORKITEM_CONFIG {
    ULONG Size;
    PFN_WDF_WORKITEM EvtWorkItemFunc;
    BOOLEAN AutomaticSerialization;
} WDF_WORKITEM_CONFIG, *PWDF_WORKITEM_CONFIG;

typedef VOID EVT_WDF_DPC(WDFDPC Dpc);
typedef EVT_WDF_DPC *PFN_WDF_DPC;
typedef struct _WDF_DPC_CONFIG {
    ULONG Size;
    PFN_WDF_DPC EvtDpcFunc;
    BOOLEAN AutomaticSerialization;
} WDF_DPC_CONFIG, *PWDF_DPC_CONFIG;

/* Prototypes of the table entries; wdk-macros looks them up as PFN_ plus the upper-case function name. */
#define WDFAPI(result, name, ...) typedef result (NTAPI *PFN_##name)(PWDF_DRIVER_GLOBALS DriverGlobals, __VA_ARGS__)

WDFAPI(NTSTATUS, WDFDRIVERCREATE, PDRIVER_OBJECT DriverObject, PCUNICODE_STRING RegistryPath,
       PWDF_OBJECT_ATTRIBUTES DriverAttributes, PWDF_DRIVER_CONFIG DriverConfig, WDFDRIVER *Driver);
WDFAPI(NTSTATUS, WDFDRIVEROPENPARAMETERSREGISTRYKEY, WDFDRIVER Driver, ACCESS_MASK DesiredAccess,
       PWDF_OBJECT_ATTRIBUTES KeyAttributes, WDFKEY *Key);
WDFAPI(NTSTATUS, WDFDEVICEMINIPORTCREATE, WDFDRIVER Driver, PWDF_OBJECT_ATTRIBUTES Attributes,
       PDEVICE_OBJECT DeviceObject, PDEVICE_OBJECT AttachedDeviceObject, PDEVICE_OBJECT Pdo, WDFDEVICE *Device);
WDFAPI(VOID, WDFDRIVERMINIPORTUNLOAD, WDFDRIVER Driver);

WDFAPI(PVOID, WDFOBJECTGETTYPEDCONTEXTWORKER, WDFOBJECT Handle, PCWDF_OBJECT_CONTEXT_TYPE_INFO TypeInfo);
WDFAPI(NTSTATUS, WDFOBJECTALLOCATECONTEXT, WDFOBJECT Handle, PWDF_OBJECT_ATTRIBUTES ContextAttributes, PVOID *Context);
WDFAPI(WDFOBJECT, WDFOBJECTCONTEXTGETOBJECT, PVOID ContextPointer);
WDFAPI(NTSTATUS, WDFOBJECTCREATE, PWDF_OBJECT_ATTRIBUTES Attributes, WDFOBJECT *Object);
WDFAPI(VOID, WDFOBJECTDELETE, WDFOBJECT Object);

WDFAPI(NTSTATUS, WDFTIMERCREATE, PWDF_TIMER_CONFIG Config, PWDF_OBJECT_ATTRIBUTES Attributes, WDFTIMER *Timer);
WDFAPI(BOOLEAN, WDFTIMERSTART, WDFTIMER Timer, LONGLONG DueTime);
WDFAPI(BOOLEAN, WDFTIMERSTOP, WDFTIMER Timer, BOOLEAN Wait);
WDFAPI(WDFOBJECT, WDFTIMERGETPARENTOBJECT, WDFTIMER Timer);

WDFAPI(NTSTATUS, WDFWORKITEMCREATE, PWDF_WORKITEM_CONFIG Config, PWDF_OBJECT_ATTRIBUTES Attributes,
       WDFWORKITEM *WorkItem);
WDFAPI(VOID, WDFWORKITEMENQUEUE, WDFWORKITEM WorkItem);
WDFAPI(WDFOBJECT, WDFWORKITEMGETPARENTOBJECT, WDFWORKITEM WorkItem);
WDFAPI(VOID, WDFWORKITEMFLUSH, WDFWORKITEM WorkItem);

WDFAPI(NTSTATUS, WDFDPCCREATE, PWDF_DPC_CONFIG Config, PWDF_OBJECT_ATTRIBUTES Attributes, WDFDPC *Dpc);
WDFAPI(BOOLEAN, WDFDPCENQUEUE, WDFDPC Dpc);
WDFAPI(BOOLEAN, WDFDPCCANCEL, WDFDPC Dpc, BOOLEAN Wait);
WDFAPI(WDFOBJECT, WDFDPCGETPARENTOBJECT, WDFDPC Dpc);

WDFAPI(NTSTATUS, WDFSPINLOCKCREATE, PWDF_OBJECT_ATTRIBUTES SpinLockAttributes, WDFSPINLOCK *SpinLock);
WDFAPI(VOID, WDFSPINLOCKACQUIRE, WDFSPINLOCK SpinLock);
WDFAPI(VOID, WDFSPINLOCKRELEASE, WDFSPINLOCK SpinLock);
WDFAPI(NTSTATUS, WDFWAITLOCKCREATE, PWDF_OBJECT_ATTRIBUTES LockAttributes, WDFWAITLOCK *Lock);
WDFAPI(NTSTATUS, WDFWAITLOCKACQUIRE, WDFWAITLOCK Lock, PLONGLONG Timeout);
WDFAPI(VOID, WDFWAITLOCKRELEASE, WDFWAITLOCK Lock);

WDFAPI(NTSTATUS, WDFMEMORYCREATE, PWDF_OBJECT_ATTRIBUTES Attributes, POOL_TYPE PoolType, ULONG PoolTag,
       size_t BufferSize, WDFMEMORY *Memory, PVOID *Buffer);
WDFAPI(PVOID, WDFMEMORYGETBUFFER, WDFMEMORY Memory, size_t *BufferSize);

WDFAPI(NTSTATUS, WDFREGISTRYOPENKEY, WDFKEY ParentKey, PCUNICODE_STRING KeyName, ACCESS_MASK DesiredAccess,
       PWDF_OBJECT_ATTRIBUTES KeyAttributes, WDFKEY *Key);
WDFAPI(VOID, WDFREGISTRYCLOSE, WDFKEY Key);
WDFAPI(NTSTATUS, WDFREGISTRYQUERYVALUE, WDFKEY Key, PCUNICODE_STRING ValueName, ULONG ValueLength, PVOID Value,
       PULONG ValueLengthQueried, PULONG ValueType);
WDFAPI(NTSTATUS, WDFREGISTRYQUERYULONG, WDFKEY Key, PCUNICODE_STRING ValueName, PULONG Value);
#undef WDFAPI
