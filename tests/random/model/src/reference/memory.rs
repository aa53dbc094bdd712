//! Regions and what their tokens stand for (4.5).

use ndk_abi::{
    ndkpi::{
        NDK_MR_FLAG_ALLOW_LOCAL_WRITE, NDK_MR_FLAG_ALLOW_REMOTE_READ, NDK_MR_FLAG_RDMA_READ_SINK,
        NDK_OP_FLAG_ALLOW_LOCAL_WRITE, NDK_OP_FLAG_ALLOW_REMOTE_READ, NDK_OP_FLAG_RDMA_READ_SINK,
    },
    status::{
        NTSTATUS, STATUS_ACCESS_VIOLATION, STATUS_DEVICE_BUSY, STATUS_IMPLEMENTATION_LIMIT,
        STATUS_INVALID_DEVICE_REQUEST, STATUS_INVALID_PARAMETER, STATUS_REMOTE_RESOURCES,
    },
    wdm::PAGE_SIZE,
};

use super::{Fault, FaultPoint, Life, Mistake, Model, Result, Sge, mismatch};

/// A buffer of the consumer.
pub(crate) struct Buffer {
    pub(crate) bytes: Vec<u8>,
    /// Written since the last look.
    pub(crate) dirty: bool,
}

/// A part of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) buffer: usize,
    pub(crate) start: usize,
    pub(crate) length: usize,
}

/// The rights of a registration, besides local read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Rights {
    local_write: bool,
    remote_read: bool,
    remote_write: bool,
}

/// A right that an access needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Right {
    LocalRead,
    LocalWrite,
    RemoteRead,
    RemoteWrite,
}

#[derive(Clone, Debug)]
pub(super) struct Mapping {
    base: u64,
    length: u64,
    rights: Rights,
    /// The memory behind it, at least as long.
    extents: Vec<Extent>,
}

/// A fast registration as it is posted.
#[derive(Clone, Debug)]
pub(crate) struct FastRegistration {
    /// Buffer and page.
    pub(crate) pages: Vec<(usize, usize)>,
    pub(crate) first_byte_offset: u32,
    pub(crate) length: u64,
    pub(crate) base: u64,
    pub(crate) flags: u32,
}

#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) life: Life,
    pub(crate) domain: usize,
    pub(crate) fast: bool,
    /// 0: none.
    pub(crate) token: u32,
    pub(super) mapping: Option<Mapping>,
    pub(super) remote_access: bool,
    pages: usize,
}

impl Region {
    /// The address and length of what is registered.
    pub(crate) fn range(&self) -> Option<(u64, u64)> {
        self.mapping.as_ref().map(|mapping| (mapping.base, mapping.length))
    }

    pub(super) fn close(&mut self) {
        (self.token, self.mapping) = (0, None);
    }
}

impl Rights {
    fn allow(self, right: Right) -> bool {
        match right {
            Right::LocalRead => true,
            Right::LocalWrite => self.local_write,
            Right::RemoteRead => self.remote_read,
            Right::RemoteWrite => self.remote_write,
        }
    }
}

impl FastRegistration {
    fn rights(&self) -> Rights {
        Rights {
            local_write: self.flags & (NDK_OP_FLAG_ALLOW_LOCAL_WRITE | NDK_OP_FLAG_RDMA_READ_SINK) != 0,
            remote_read: self.flags & NDK_OP_FLAG_ALLOW_REMOTE_READ != 0,
            remote_write: self.flags & 0x20 != 0,
        }
    }

    /// The rules that a post of it breaks.
    pub(super) fn broken(&self, region: &Region) -> Vec<(bool, NTSTATUS)> {
        let page = PAGE_SIZE as u64;
        let offset = u64::from(self.first_byte_offset);
        let room = (self.pages.len() as u64 * page).saturating_sub(offset);
        let malformed = offset >= page
            || self.length == 0
            || self.length > room
            || self.base % page != offset
            || self.base.checked_add(self.length).is_none();
        let remote = self.rights().remote_read || self.rights().remote_write;
        vec![
            (malformed, STATUS_INVALID_PARAMETER),
            (!region.fast || region.token == 0, STATUS_INVALID_DEVICE_REQUEST),
            (remote && !region.remote_access, STATUS_ACCESS_VIOLATION),
            (self.pages.len() > region.pages, STATUS_IMPLEMENTATION_LIMIT),
        ]
    }

    pub(super) fn mapping(&self) -> Mapping {
        let mut skip = self.first_byte_offset as usize;
        let extents = self.pages.iter().map(|&(buffer, page)| {
            let skipped = std::mem::take(&mut skip);
            Extent { buffer, start: page * PAGE_SIZE + skipped, length: PAGE_SIZE - skipped }
        });
        Mapping { base: self.base, length: self.length, rights: self.rights(), extents: extents.collect() }
    }
}

impl Mapping {
    pub(super) fn allows(&self, right: Right) -> bool {
        self.rights.allow(right)
    }

    /// The memory of `[address, +length)`, if it lies inside.
    pub(super) fn extents(&self, address: u64, length: u64) -> Option<Vec<Extent>> {
        let offset = address.checked_sub(self.base)?;
        if offset.checked_add(length)? > self.length {
            return None;
        }
        let (mut skip, mut left) = (offset as usize, length as usize);
        let mut found = Vec::new();
        for extent in &self.extents {
            let skipped = skip.min(extent.length);
            let length = (extent.length - skipped).min(left);
            skip -= skipped;
            left -= length;
            if length > 0 {
                found.push(Extent { buffer: extent.buffer, start: extent.start + skipped, length });
            }
        }
        Some(found)
    }
}

impl Model {
    pub(crate) fn create_buffer(&mut self, bytes: Vec<u8>) -> usize {
        self.buffers.push(Buffer { bytes, dirty: false });
        self.buffers.len() - 1
    }

    pub(crate) fn create_mr(&mut self, domain: usize, fast: bool) -> usize {
        self.regions.push(Region {
            life: Life::Open,
            domain,
            fast,
            token: 0,
            mapping: None,
            remote_access: false,
            pages: 0,
        });
        self.regions.len() - 1
    }

    /// The tokens that stand for something.
    pub(super) fn is_token(&self, token: u32) -> bool {
        self.regions.iter().any(|region| region.token == token)
    }

    /// NdkRegisterMr of a part of a buffer, not empty, with the address `base`; then the token is `token`.
    pub(crate) fn register(
        &mut self,
        region: usize,
        part: Extent,
        base: u64,
        flags: u32,
        (actual, token): (NTSTATUS, u32),
    ) -> Result<()> {
        let known = self.is_token(token);
        let is_valid = !self.regions[region].fast && flags & !0xF == 0;
        let length = part.length as u64;
        if let Some(Fault::Fail(status)) = is_valid.then(|| self.pass(FaultPoint::Register, length)).flatten() {
            self.judge("NdkRegisterMr", &[(true, status)], actual)?;
            return Ok(());
        }
        let before = &self.regions[region];
        let broken = [
            (before.fast || flags & !0xF != 0, STATUS_INVALID_PARAMETER),
            (before.fast || before.mapping.is_some(), STATUS_INVALID_DEVICE_REQUEST),
        ];
        if self.judge("NdkRegisterMr", &broken, actual)? {
            let region = &mut self.regions[region];
            if token == 0 || known {
                mismatch!("token {token:#x} is not a new one");
            }
            let rights = Rights {
                local_write: flags & (NDK_MR_FLAG_ALLOW_LOCAL_WRITE | NDK_MR_FLAG_RDMA_READ_SINK) != 0,
                remote_read: flags & NDK_MR_FLAG_ALLOW_REMOTE_READ != 0,
                remote_write: flags & 4 != 0,
            };
            region.token = token;
            region.mapping = Some(Mapping { base, length: part.length as u64, rights, extents: vec![part] });
        }
        Ok(())
    }

    /// NdkDeregisterMr; nothing is under way. How it ends.
    pub(crate) fn deregister(&mut self, region: usize) -> NTSTATUS {
        let bound = self.is_bound(region);
        let region = &mut self.regions[region];
        if region.fast || region.mapping.is_none() {
            return STATUS_INVALID_DEVICE_REQUEST;
        }
        if bound {
            return STATUS_DEVICE_BUSY;
        }
        region.close();
        ndk_abi::status::STATUS_SUCCESS
    }

    /// NdkInitializeFastRegisterMr; then the token is `token`.
    pub(crate) fn initialize_fast(
        &mut self,
        region: usize,
        pages: u32,
        remote_access: bool,
        (actual, token): (NTSTATUS, u32),
    ) -> Result<()> {
        const LIMIT: u32 = 2_048;
        let known = self.is_token(token);
        let before = &self.regions[region];
        let broken = [
            (!before.fast || before.mapping.is_some(), STATUS_INVALID_DEVICE_REQUEST),
            (pages > LIMIT, STATUS_IMPLEMENTATION_LIMIT),
        ];
        if self.judge("NdkInitializeFastRegisterMr", &broken, actual)? {
            let region = &mut self.regions[region];
            if token == 0 || (region.token == 0 && known) || (region.token != 0 && region.token != token) {
                mismatch!("token {token:#x} after {:#x}", region.token);
            }
            (region.token, region.remote_access, region.pages) = (token, remote_access, pages as usize);
        }
        Ok(())
    }

    /// The region of a token in a domain.
    pub(super) fn region_of(&self, domain: usize, token: u32) -> Option<usize> {
        let fits = |region: &Region| token != 0 && region.token == token && region.domain == domain;
        self.regions.iter().position(fits)
    }

    /// The memory of a range, or why there is no access to it.
    pub(super) fn access(
        &self,
        domain: usize,
        (token, address, length): (u32, u64, u64),
        right: Right,
    ) -> std::result::Result<Vec<Extent>, NTSTATUS> {
        let region = self.region_of(domain, token).ok_or(STATUS_ACCESS_VIOLATION)?;
        let mapping = self.regions[region].mapping.as_ref().ok_or(STATUS_ACCESS_VIOLATION)?;
        if !mapping.rights.allow(right) {
            return Err(STATUS_ACCESS_VIOLATION);
        }
        let fits = mapping.extents(address, length).ok_or(past_end(right))?;
        let end = mapping.base + mapping.length == address + length;
        if end && self.mistake == Some(Mistake::RegionsEndEarly) { Err(past_end(right)) } else { Ok(fits) }
    }

    /// The memory of a range that the peer of `qp` names, by a token of a region or of a window.
    pub(super) fn remote_access(
        &self,
        qp: usize,
        (token, address, length): (u32, u64, u64),
        right: Right,
    ) -> std::result::Result<Vec<Extent>, NTSTATUS> {
        match self.window_of(qp, token) {
            Some(window) => self.access_through(window, (address, length), right),
            None => self.access(self.qps[qp].domain, (token, address, length), right),
        }
    }

    /// The first `length` bytes of a list of SGEs: the memory that can be reached, and whether that is all.
    pub(super) fn local(&self, domain: usize, sges: &[Sge], length: u64, right: Right) -> (Vec<Extent>, bool) {
        let mut left = length;
        let mut found = Vec::new();
        for sge in sges {
            let part = left.min(sge.length.into());
            left -= part;
            if part > 0 {
                match self.access(domain, (sge.token, sge.address, part), right) {
                    Ok(extents) => found.extend(extents),
                    Err(_) => {
                        // What lies before the end of the region may have been moved.
                        found.extend(self.reachable(domain, sge));
                        return (found, false);
                    }
                }
            }
        }
        (found, true)
    }

    fn reachable(&self, domain: usize, sge: &Sge) -> Vec<Extent> {
        let mapping = self.region_of(domain, sge.token).and_then(|region| self.regions[region].mapping.as_ref());
        let rest = mapping.and_then(|mapping| {
            let left = (mapping.base + mapping.length).checked_sub(sge.address)?;
            mapping.extents(sge.address, left.min(sge.length.into()))
        });
        rest.unwrap_or_default()
    }

    pub(super) fn gather(&self, from: &[Extent]) -> Vec<u8> {
        let part = |extent: &Extent| &self.buffers[extent.buffer].bytes[extent.start..][..extent.length];
        from.iter().flat_map(part).copied().collect()
    }

    /// Moves data from `from` to the start of `to`.
    pub(super) fn place(&mut self, to: &[Extent], from: &[u8]) {
        let mut from = from;
        for extent in to {
            let (part, rest) = from.split_at(extent.length.min(from.len()));
            let buffer = &mut self.buffers[extent.buffer];
            buffer.bytes[extent.start..][..part.len()].copy_from_slice(part);
            buffer.dirty = true;
            from = rest;
        }
    }

    /// The data that ends up in `to` is anybody's guess.
    pub(super) fn spoil(&mut self, to: &[Extent]) {
        self.undefined.extend(to);
    }
}

/// Why an access fails that leaves what its token names.
pub(super) fn past_end(right: Right) -> NTSTATUS {
    if right == Right::RemoteRead { STATUS_REMOTE_RESOURCES } else { STATUS_ACCESS_VIOLATION }
}

/// Whether two parts of a copy overlap: then the result depends on the steps of the copy.
pub(super) fn overlap(a: &[Extent], b: &[Extent]) -> bool {
    let meet =
        |a: &Extent, b: &Extent| a.buffer == b.buffer && a.start < b.start + b.length && b.start < a.start + a.length;
    a.iter().any(|a| b.iter().any(|b| meet(a, b)))
}
