//! Objects in slots, made again after they were closed.

use ndk_abi::status::STATUS_SUCCESS;

use super::{CLOSED, CQS, LISTENERS, QPS, REGIONS, SRQS, Session, WINDOWS, context};
use crate::{
    consumer::Context,
    operation::Slot,
    reference::{Callback, Life, Object, Result},
};

fn closed_context(object: Object) -> Context {
    let (kind, index) = match object {
        Object::Cq(index) => (0, index),
        Object::Srq(index) => (1, index),
        Object::Mr(index) => (2, index),
        Object::Qp(index) => (3, index),
        Object::Connector(index) => (4, index),
        Object::Listener(index) => (5, index),
        Object::Mw(index) => (6, index),
    };
    context(CLOSED + kind, index)
}

pub(super) fn closed_object(kind: usize, index: usize) -> Object {
    match kind - CLOSED {
        0 => Object::Cq(index),
        1 => Object::Srq(index),
        2 => Object::Mr(index),
        3 => Object::Qp(index),
        4 => Object::Connector(index),
        5 => Object::Listener(index),
        _ => Object::Mw(index),
    }
}

impl Session {
    /// Makes the object of a slot, if the one before is closed.
    pub(super) fn create(&mut self, slot: Slot) -> Result<()> {
        let object = self.in_slot(slot);
        if !self.is_open(object) {
            match slot {
                Slot::Cq(index) => self.create_cq(usize::from(index) % CQS),
                Slot::Srq(index) => self.create_srq(usize::from(index) % SRQS),
                Slot::Mr(index) => self.create_mr(usize::from(index) % REGIONS),
                Slot::Mw(index) => self.create_mw(usize::from(index) % WINDOWS),
                Slot::Qp(index) => self.create_qp(usize::from(index) % QPS),
                Slot::Listener(index) => self.create_listener(usize::from(index) % LISTENERS),
            }
        }
        Ok(())
    }

    pub(super) fn close_slot(&mut self, slot: Slot) -> Result<()> {
        self.close(self.in_slot(slot))
    }

    fn in_slot(&self, slot: Slot) -> Object {
        match slot {
            Slot::Cq(index) => Object::Cq(self.slots.cqs[usize::from(index) % CQS]),
            Slot::Srq(index) => Object::Srq(self.slots.srqs[usize::from(index) % SRQS]),
            Slot::Mr(index) => Object::Mr(self.slots.mrs[usize::from(index) % REGIONS]),
            Slot::Mw(index) => Object::Mw(self.slots.mws[usize::from(index) % WINDOWS]),
            Slot::Qp(index) => Object::Qp(self.slots.qps[usize::from(index) % QPS]),
            Slot::Listener(index) => Object::Listener(self.slots.listeners[usize::from(index) % LISTENERS]),
        }
    }

    fn is_open(&mut self, object: Object) -> bool {
        *self.model.life(object) == Life::Open
    }

    /// Closes an object, unless it is.
    pub(super) fn close(&mut self, object: Object) -> Result<()> {
        if !self.is_open(object) {
            return Ok(());
        }
        if let Object::Mr(index) = object
            && self.model.regions[index].token != 0
        {
            self.stale.push(self.model.regions[index].token);
        }
        self.step(
            |session| session.call_close(object),
            |session, inline| {
                session.inline.extend(inline.then_some(Callback::Closed(object)));
                session.model.close(object);
                Ok(())
            },
        )
    }

    /// True: inline.
    pub(super) fn call_close(&mut self, object: Object) -> bool {
        let context = closed_context(object);
        let status = match object {
            Object::Cq(index) => self.handles.cqs[index].close(context),
            Object::Srq(index) => self.handles.srqs[index].close(context),
            Object::Mr(index) => self.handles.mrs[index].close(context),
            Object::Mw(index) => self.handles.mws[index].close(context),
            Object::Qp(index) => self.handles.qps[index].close(context),
            Object::Connector(index) => self.handles.connectors[index].close(context),
            Object::Listener(index) => self.handles.listeners[index].close(context),
        };
        status == STATUS_SUCCESS
    }

    pub(super) fn objects(&mut self) -> Vec<Object> {
        let all: Vec<_> = self.model.objects().collect();
        all.into_iter().filter(|&object| self.is_open(object)).collect()
    }
}
