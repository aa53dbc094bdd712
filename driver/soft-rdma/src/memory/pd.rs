//! Protection domains: a queue pair may name the memory of its own domain only.

use platform::{Arc, Charge, Platform, SpinLock};

use crate::{
    Adapter, Close, Error, OnClose,
    memory::token::{Target, Token},
    object::counts::{CountedObject, ObjectKind},
};

/// A protection domain.
pub struct ProtectionDomain<P: Platform> {
    on_close: OnClose<P>,
    /// The privileged token, made when a consumer first asks for it: a domain whose consumer never asks has none to guess.
    privileged: SpinLock<Option<Token<P>>, P>,
    adapter: Arc<Adapter<P>, P>,
    _charge: Charge<P>,
}

impl<P: Platform> ProtectionDomain<P> {
    /// Makes a domain. IRQL <= DISPATCH.
    pub fn new(adapter: &Arc<Adapter<P>, P>) -> Result<Arc<Self, P>, Error> {
        let charge = adapter.quota().charge(Arc::<Self, P>::POOL_BYTES)?;
        Ok(Arc::try_new(Self {
            on_close: OnClose::new(CountedObject::new(adapter, ObjectKind::Pd)?),
            privileged: SpinLock::<_, P>::new(None),
            adapter: adapter.clone(),
            _charge: charge,
        })?)
    }

    /// The adapter that the domain was made through.
    pub fn adapter(&self) -> &Arc<Adapter<P>, P> {
        &self.adapter
    }

    /// The token for local reads and writes over logical addresses; it is never valid remotely
    /// (NDK_FN_GET_PRIVILEGED_MEMORY_REGION_TOKEN). IRQL <= DISPATCH.
    pub fn privileged_token(this: &Arc<Self, P>) -> Result<u32, Error> {
        if let Some(token) = &*this.privileged.lock() {
            return Ok(token.value());
        }
        let mut token = Some(Token::new(this.adapter().device(), Target::Privileged(Arc::downgrade(this)))?);
        let mut privileged = this.privileged.lock();
        if privileged.is_none() {
            core::mem::swap(&mut *privileged, &mut token);
        }
        let value = privileged.as_ref().map_or(0, Token::value);
        drop(privileged);
        drop(token);
        Ok(value)
    }
}

impl<P: Platform> Close<P> for ProtectionDomain<P> {
    fn on_close(&self) -> &OnClose<P> {
        &self.on_close
    }
}
