//! The types of object that a handle can name.

use platform::Passive;

use crate::objects::connector::Connector;
use crate::objects::cq::Cq;
use crate::objects::listener::Listener;
use crate::objects::mr::Mr;
use crate::objects::mw::Mw;
use crate::objects::pd::Pd;
use crate::objects::qp::Qp;
use crate::objects::srq::Srq;
use crate::tables::handles::{self, Typed};
use crate::{Host, Ref};
use ndk_consumer::Adapter;

/// The handles of a provider context.
pub(crate) type Handles<H> = handles::Handles<Object<H>, <H as Host>::Platform>;

macro_rules! objects {
    ($($kind:ident($object:ty),)*) => {
        /// A reference to an object.
        pub(crate) enum Object<H: Host> {
            $($kind(Ref<$object, H>),)*
        }

        impl<H: Host> Clone for Object<H> {
            fn clone(&self) -> Self {
                match self {
                    $(Self::$kind(object) => Self::$kind(object.clone()),)*
                }
            }
        }

        $(
            impl<H: Host> Typed<Object<H>, H::Platform> for $object {
                fn wrap(object: Ref<Self, H>) -> Object<H> {
                    Object::$kind(object)
                }
                fn of(object: &Object<H>) -> Option<&Ref<Self, H>> {
                    match object {
                        Object::$kind(object) => Some(object),
                        _ => None,
                    }
                }
            }
        )*
    };
}

objects! {
    Adapter(Adapter<H::Platform>),
    Pd(Pd<H>),
    Cq(Cq<H>),
    Mr(Mr<H>),
    Mw(Mw<H>),
    Srq(Srq<H>),
    Qp(Qp<H>),
    Connector(Connector<H>),
    Listener(Listener<H>),
}

impl<H: Host> Object<H> {
    /// The handle is freed: ends what the object does, and cancels its pended requests.
    pub(crate) fn close(self, passive: &Passive<'_>) {
        match self {
            Self::Connector(connector) => connector.close(),
            Self::Listener(listener) => listener.close(),
            Self::Qp(qp) => Qp::close(&qp),
            Self::Cq(cq) => cq.close(),
            Self::Srq(srq) => Srq::close(&srq),
            Self::Mr(mr) => mr.close(passive),
            Self::Adapter(_) | Self::Pd(_) | Self::Mw(_) => {}
        }
    }
}
