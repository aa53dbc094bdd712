//! The adapter, and what is made of it but connections.

use std::{collections::BTreeSet, ffi::c_void, sync::OnceLock};

use ndk_abi::{
    ndkpi::*,
    status::NTSTATUS,
    wdm::{GROUP_AFFINITY, MDL},
};

use super::{
    Originals, Traced, close,
    connections::{Events, connect_event},
    create, note, provider, request, returned,
};

traced! { NDK_ADAPTER, NDK_ADAPTER_DISPATCH, []:
    fn NdkQueryAdapterInfo(this, info: *mut NDK_ADAPTER_INFO, size: *mut u32) -> NTSTATUS |call| {
        let (version, room) = ((*info).Version, *size);
        let status = call(this, info, size);
        note(format!("NdkQueryAdapterInfo with version {}.{} in {room} bytes", version.Major, version.Minor));
        returned("NdkQueryAdapterInfo", status)
    }

    fn NdkCreateCq(
        this,
        depth: u32,
        notify: NDK_FN_CQ_NOTIFICATION_CALLBACK,
        notify_context: *mut c_void,
        affinity: *mut GROUP_AFFINITY,
        completion: NDK_FN_CREATE_COMPLETION,
        context: *mut c_void,
        place: *mut *mut NDK_CQ,
    ) -> NTSTATUS |call| {
        let asked = format!(" of {depth}, affinity {:?}", affinity.as_ref());
        create("NdkCreateCq", &asked, completion, context, place, |done, wait| {
            call(this, depth, notify, notify_context, affinity, done, wait, place)
        })
    }

    fn NdkCreatePd(
        this,
        completion: NDK_FN_CREATE_COMPLETION,
        context: *mut c_void,
        place: *mut *mut NDK_PD,
    ) -> NTSTATUS |call| {
        create("NdkCreatePd", "", completion, context, place, |done, wait| call(this, done, wait, place))
    }

    fn NdkCreateConnector(
        this,
        completion: NDK_FN_CREATE_COMPLETION,
        context: *mut c_void,
        place: *mut *mut NDK_CONNECTOR,
    ) -> NTSTATUS |call| {
        create("NdkCreateConnector", "", completion, context, place, |done, wait| call(this, done, wait, place))
    }

    fn NdkCreateListener(
        this,
        event: NDK_FN_CONNECT_EVENT_CALLBACK,
        event_context: *mut c_void,
        completion: NDK_FN_CREATE_COMPLETION,
        context: *mut c_void,
        place: *mut *mut NDK_LISTENER,
    ) -> NTSTATUS |call| {
        // Some bytes for each listener, which go with the process.
        let events = Box::into_raw(Box::new(Events { event, context: event_context })).cast();
        create("NdkCreateListener", "", completion, context, place, |done, wait| {
            call(this, connect_event, events, done, wait, place)
        })
    }

    fn NdkBuildLAM(
        this,
        mdl: *mut MDL,
        length: usize,
        completion: Option<NDK_FN_REQUEST_COMPLETION>,
        context: *mut c_void,
        mapping: *mut NDK_LOGICAL_ADDRESS_MAPPING,
        size: *mut u32,
        fbo: *mut u32,
    ) -> NTSTATUS |call| {
        let room = *size;
        let Some(completion) = completion else {
            let status = call(this, mdl, length, None, context, mapping, size, fbo);
            note(format!("NdkBuildLAM of {length} bytes, {room} bytes of mapping, no completion: {status}, {} bytes", *size));
            return status;
        };
        request("NdkBuildLAM", &format!(" of {length} bytes, {room} bytes of mapping"), completion, context, |done, wait| {
            call(this, mdl, length, Some(done), wait, mapping, size, fbo)
        })
    }

    fn NdkReleaseLAM(this, mapping: *mut NDK_LOGICAL_ADDRESS_MAPPING) |call| {
        note("NdkReleaseLAM".to_owned());
        call(this, mapping);
    }
}

traced! { NDK_PD, NDK_PD_DISPATCH, [NdkClosePd]:
    fn NdkCreateMr(
        this,
        fast: u8,
        completion: NDK_FN_CREATE_COMPLETION,
        context: *mut c_void,
        place: *mut *mut NDK_MR,
    ) -> NTSTATUS |call| {
        let asked = format!(", FastRegister {fast}");
        create("NdkCreateMr", &asked, completion, context, place, |done, wait| call(this, fast, done, wait, place))
    }

    fn NdkCreateQp(
        this,
        receives: *mut NDK_CQ,
        initiators: *mut NDK_CQ,
        qp_context: *mut c_void,
        receive_depth: u32,
        initiator_depth: u32,
        receive_sge: u32,
        initiator_sge: u32,
        inline: u32,
        completion: NDK_FN_CREATE_COMPLETION,
        context: *mut c_void,
        place: *mut *mut NDK_QP,
    ) -> NTSTATUS |call| {
        let asked = format!(
            " of {} CQs, depths {receive_depth} and {initiator_depth}, SGEs {receive_sge} and {initiator_sge}, {inline} bytes inline",
            if receives == initiators { "one and the same" } else { "two" },
        );
        create("NdkCreateQp", &asked, completion, context, place, |done, wait| {
            call(
                this, receives, initiators, qp_context, receive_depth, initiator_depth, receive_sge, initiator_sge, inline,
                done, wait, place,
            )
        })
    }

    fn NdkGetPrivilegedMemoryRegionToken(this, token: *mut u32) |call| {
        note("NdkGetPrivilegedMemoryRegionToken".to_owned());
        call(this, token);
    }
}

traced! { NDK_MR, NDK_MR_DISPATCH, [NdkCloseMr]:
    fn NdkRegisterMr(
        this,
        mdl: *mut MDL,
        length: usize,
        flags: u32,
        completion: NDK_FN_REQUEST_COMPLETION,
        context: *mut c_void,
    ) -> NTSTATUS |call| {
        let asked = format!(" of {length} bytes, flags {flags:#x}");
        request("NdkRegisterMr", &asked, completion, context, |done, wait| call(this, mdl, length, flags, done, wait))
    }

    fn NdkDeregisterMr(this, completion: NDK_FN_REQUEST_COMPLETION, context: *mut c_void) -> NTSTATUS |call| {
        request("NdkDeregisterMr", "", completion, context, |done, wait| call(this, done, wait))
    }

    fn NdkInitializeFastRegisterMr(
        this,
        pages: u32,
        remote: u8,
        completion: NDK_FN_REQUEST_COMPLETION,
        context: *mut c_void,
    ) -> NTSTATUS |call| {
        let asked = format!(" of {pages} pages, RemoteAccess {remote}");
        request("NdkInitializeFastRegisterMr", &asked, completion, context, |done, wait| {
            call(this, pages, remote, done, wait)
        })
    }

    fn NdkGetRemoteTokenFromMr(this) -> u32 |call| {
        note("NdkGetRemoteTokenFromMr".to_owned());
        call(this)
    }

    fn NdkGetLocalTokenFromMr(this) -> u32 |call| {
        note("NdkGetLocalTokenFromMr".to_owned());
        call(this)
    }
}

traced! { NDK_CQ, NDK_CQ_DISPATCH, [NdkCloseCq]:
    fn NdkArmCq(this, kind: u32) |call| {
        note(format!("NdkArmCq of type {kind}"));
        call(this, kind);
    }

    fn NdkGetCqResults(this, results: *mut NDK_RESULT, room: u32) -> u32 |call| {
        let count = call(this, results, room);
        let statuses = (0..count as usize).map(|index| (*results.add(index)).Status.to_string()).collect::<BTreeSet<_>>();
        note(format!("NdkGetCqResults with room for {room}: {}", statuses.into_iter().collect::<Vec<_>>().join(", ")));
        count
    }

    fn NdkGetCqResultsEx(this, results: *mut NDK_RESULT_EX, room: u32) -> u32 |call| {
        let count = call(this, results, room);
        let of = |index| {
            let result = *results.add(index);
            format!("{:?} {}", result.Type, result.Status)
        };
        let statuses = (0..count as usize).map(of).collect::<BTreeSet<_>>();
        note(format!("NdkGetCqResultsEx with room for {room}: {}", statuses.into_iter().collect::<Vec<_>>().join(", ")));
        count
    }

    fn NdkControlCqInterruptModeration(this, interval: u32, count: u32) -> NTSTATUS |call| {
        let status = call(this, interval, count);
        note(format!("NdkControlCqInterruptModeration of {interval} and {count}: {status}"));
        status
    }
}
