/* Calls that report failure by raising a structured exception, which must not unwind through Rust frames. Here no Rust frame
 * lies between the raise and the handler. The declarations are written by hand, so that this file needs no WDK header. */
typedef long NTSTATUS;
typedef struct _MDL *PMDL;

__declspec(dllimport) void MmProbeAndLockPages(PMDL mdl, char access_mode, int operation);
unsigned long _exception_code(void);

/* The filter takes the exception code: the handler would get it from the unwind, and Wine 8 passes none there. */
#define EXECUTE_HANDLER_WITH(status) ((status) = (NTSTATUS)_exception_code(), 1 /* EXCEPTION_EXECUTE_HANDLER */)

/* IRQL <= APC_LEVEL for pageable memory (ddi: nf-wdm-mmprobeandlockpages). STATUS_SUCCESS, or the code raised. */
NTSTATUS softndk_probe_and_lock_pages(PMDL mdl, int access_mode, int operation) {
    NTSTATUS status = 0;
    __try {
        MmProbeAndLockPages(mdl, (char)access_mode, operation);
    } __except (EXECUTE_HANDLER_WITH(status)) {
    }
    return status;
}

void *memmove(void *to, const void *from, unsigned long long length);
/* Volatile: a compiler that knew the callee would assume that it raises nothing, and drop the handler. */
static void *(*volatile move)(void *, const void *, unsigned long long) = memmove;

/* Copies to user memory that the I/O manager has probed. IRQL <= APC_LEVEL, in the context of its process.
 * STATUS_SUCCESS, or the code raised. */
NTSTATUS softndk_copy_to_user(void *to, const void *from, unsigned long long length) {
    NTSTATUS status = 0;
    __try {
        move(to, from, length);
    } __except (EXECUTE_HANDLER_WITH(status)) {
    }
    return status;
}
