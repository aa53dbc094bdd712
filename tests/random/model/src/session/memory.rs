//! Memory operations of a session.

use ndk_abi::wdm::PAGE_SIZE;
use simkernel::Pages;

use super::{BUFFER_PAGES, COMPLETED, FAST, Memory, REGIONS, Session, context, nth};
use crate::{
    operation::Place,
    reference::{Extent, Life, Result, Sge, mismatch},
};

/// MDLs give an index, not an address: nothing is mapped there.
const INDEX: u64 = 0x7FFE_0000_0000;

/// The part of a range that a [`Place`] means; see `Session::place`.
fn part(base: u64, length: u64, place: Place, token: u32) -> Sge {
    const WILD: u32 = 1 << 31;
    let offset = u64::from(place.offset);
    let offset = if place.offset & WILD != 0 { offset } else { offset % (length + 1) };
    let rest = u32::try_from(length.saturating_sub(offset)).unwrap_or(u32::MAX - 1);
    let length = match place.length {
        wild if wild & WILD != 0 => wild,
        more if more % 8 == 6 => rest + 1,
        all if all % 8 == 7 => rest,
        some => (some / 8) % (rest + 1),
    };
    Sge { address: base.wrapping_add(offset), length, token }
}

impl Session {
    pub(super) fn create_buffer(&mut self, index: usize) {
        let pages = Pages::new(BUFFER_PAGES[index]);
        let size = pages.size();
        // 4099 is prime: no two pages are alike.
        let pattern: Vec<u8> = (0..4_099).map(|at| (at * 31 + (at >> 8) + index * 57) as u8).collect();
        let bytes = pattern.repeat(size.div_ceil(pattern.len()))[..size].to_vec();
        pages.write(0, &bytes);
        self.model.create_buffer(bytes);
        let mdl = pages.mdl(0, size, INDEX);
        let logical = self.adapter.pages(&mdl, size);
        self.memory.push(Memory { pages, logical, _mdl: mdl });
    }

    pub(super) fn create_mr(&mut self, slot: usize) {
        let index = self.model.create_mr(slot % 2, slot >= FAST);
        self.handles.mrs.push(self.domains[slot % 2].create_mr(slot >= FAST));
        self.slots.mrs[slot] = index;
    }

    pub(super) fn create_mw(&mut self, slot: usize) {
        let index = self.model.create_mw(slot % 2);
        self.handles.mws.push(self.domains[slot % 2].create_mw());
        self.slots.mws[slot] = index;
    }

    /// What a [`Place`] names in a domain. The token: of a region that is registered, of any region (24 to 27), of the other
    /// domain's (28), one that was (29), one that never was (30), none (31). The offset lies inside of the region, unless its
    /// highest bit is set. The length fits, unless it is one more than that (6 of 8) or its highest bit is set; it is all the
    /// rest (7), or anything up to that.
    pub(super) fn place(&self, domain: usize, place: Place) -> Sge {
        let class = place.token % 32;
        let region = self.region(domain, class).map(|region| &self.model.regions[region]);
        let (base, length) = region.and_then(|region| region.range()).unwrap_or((INDEX, 4096));
        let token = match class {
            29 => self.stale.last().copied().unwrap_or(7),
            30 => 0xBAD0_0000 | place.offset,
            31 => 0,
            _ => region.map_or(0, |region| region.token),
        };
        part(base, length, place, token)
    }

    /// The region of a token class, see `place`.
    pub(super) fn region(&self, domain: usize, class: u8) -> Option<usize> {
        let domain = if class == 28 { 1 - domain } else { domain };
        let fits = |&mr: &usize| {
            let region = &self.model.regions[mr];
            region.domain == domain
                && region.life == Life::Open
                && ((24..28).contains(&class) || region.range().is_some())
        };
        nth(class, self.slots.mrs.iter().copied().filter(fits))
    }

    /// Where `length` bytes are read or written: if the place is "the rest" (7), or one byte more (6), they end there.
    /// With a token from 192 on it is a window, if one is bound.
    pub(super) fn target(&self, domain: usize, place: Place, length: u64) -> (u64, u32) {
        let windows = self.slots.mws.iter().map(|&mw| &self.model.windows[mw]);
        let bound = windows.filter(|window| window.domain == domain && window.range().is_some());
        let window = nth(place.token, bound).filter(|_| place.token >= 192);
        let Sge { address, length: room, token } = match window.and_then(|window| Some((window, window.range()?))) {
            Some((window, (base, length))) => part(base, length, place, window.token),
            None => self.place(domain, place),
        };
        let from_end = matches!(place.length % 8, 6 | 7) && length <= room.into();
        (if from_end { address + u64::from(room) - length } else { address }, token)
    }

    fn mr(&self, number: u8) -> Option<(usize, usize)> {
        let slot = usize::from(number) % REGIONS;
        let mr = self.slots.mrs[slot];
        (self.model.regions[mr].life == Life::Open).then_some((slot, mr))
    }

    pub(super) fn register(&mut self, mr: u8, offset: u16, length: u32, flags: u8) -> Result<()> {
        let Some((slot, mr)) = self.mr(mr) else { return Ok(()) };
        let size = self.memory[slot].pages.size();
        let start = usize::from(offset) % size;
        let length = (length as usize).clamp(1, size - start);
        let mdl = self.memory[slot].pages.mdl(start, length, INDEX);
        let base = mdl.virtual_address();
        let flags = u32::from(flags) % 32;
        let number = self.number();
        self.step(
            |session| {
                let handle = session.handles.mrs[mr];
                let status = handle.register(&mdl, length, flags, context(COMPLETED, number));
                (status, handle.token())
            },
            |session, answer| {
                let part = Extent { buffer: slot, start, length };
                session.model.register(mr, part, base, flags, answer)
            },
        )?;
        self.mdls.push(mdl);
        Ok(())
    }

    pub(super) fn deregister(&mut self, mr: u8) -> Result<()> {
        let Some((_, mr)) = self.mr(mr) else { return Ok(()) };
        if !self.model.regions[mr].fast && self.model.regions[mr].token != 0 {
            self.stale.push(self.model.regions[mr].token);
        }
        self.request(
            |session, context| session.handles.mrs[mr].deregister(context),
            |session| session.model.deregister(mr),
        )
    }

    pub(super) fn initialize_fast(&mut self, mr: u8, pages: u32, remote_access: bool) -> Result<()> {
        let Some((_, mr)) = self.mr(mr) else { return Ok(()) };
        let number = self.number();
        self.step(
            |session| {
                let handle = session.handles.mrs[mr];
                let status = handle.initialize_fast(pages, remote_access, context(COMPLETED, number));
                (status, handle.token())
            },
            |session, answer| session.model.initialize_fast(mr, pages, remote_access, answer),
        )
    }

    /// The consumer's own writes.
    pub(super) fn scribble(&mut self, buffer: u8, offset: u16, seed: u8) -> Result<()> {
        let buffer = usize::from(buffer) % REGIONS;
        let size = self.memory[buffer].pages.size();
        let start = usize::from(offset) % size;
        let bytes: Vec<u8> = (0..(size - start).min(PAGE_SIZE)).map(|at| (at as u8).wrapping_mul(seed | 1)).collect();
        self.memory[buffer].pages.write(start, &bytes);
        self.model.buffers[buffer].bytes[start..][..bytes.len()].copy_from_slice(&bytes);
        Ok(())
    }

    /// Compares the buffers that the model has written.
    pub(super) fn compare_memory(&mut self) -> Result<()> {
        // What is not defined is what it is.
        for Extent { buffer, start, length } in std::mem::take(&mut self.model.undefined) {
            let bytes = self.memory[buffer].pages.read(start, length);
            let model = &mut self.model.buffers[buffer];
            model.bytes[start..][..length].copy_from_slice(&bytes);
            model.dirty = true;
        }
        for index in 0..REGIONS {
            if std::mem::take(&mut self.model.buffers[index].dirty) {
                self.compare_buffer(index)?;
            }
        }
        Ok(())
    }

    pub(super) fn compare_all_memory(&self) -> Result<()> {
        (0..REGIONS).try_for_each(|index| self.compare_buffer(index))
    }

    fn compare_buffer(&self, index: usize) -> Result<()> {
        let model = &self.model.buffers[index].bytes;
        let actual = self.memory[index].pages.read(0, model.len());
        if actual != *model {
            let at = actual.iter().zip(model).position(|(actual, model)| actual != model).unwrap_or(0);
            let last = actual.iter().zip(model).rposition(|(actual, model)| actual != model).unwrap_or(0);
            mismatch!("buffer {index} differs from byte {at} to {last}: {} not {}", actual[at], model[at]);
        }
        Ok(())
    }
}
