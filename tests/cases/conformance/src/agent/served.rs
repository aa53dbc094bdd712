//! The process that has the device.

use std::{
    collections::HashMap,
    io,
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use super::frames::{Answer, Ask, Line};
use crate::{File, Pending, Transport, memory::shared};

/// A device that any thread may use.
type Device = Box<dyn Transport + Send>;

/// Makes one.
type Boot = Box<dyn Fn() -> Device + Send + Sync>;

/// Maps the buffers of the first process that connects, and performs requests until that process ends.
///
/// # Errors
/// No process connects, or its buffers cannot be mapped.
pub fn serve(listener: TcpListener, boot: impl Fn() -> Device + Send + Sync + 'static) -> io::Result<()> {
    let (life, _) = listener.accept()?;
    let mut life = Line::new(life)?;
    let Ask::Join(path) = life.hear()? else { return Err(io::ErrorKind::InvalidData.into()) };
    shared::join(&path)?;
    life.say(&Answer::Done)?;
    thread::spawn(move || {
        let served = Arc::new(Served { boot: Box::new(boot), things: Mutex::default() });
        for socket in listener.incoming().flatten() {
            let served = served.clone();
            thread::spawn(move || served.speak(socket));
        }
    });
    match life.hear::<Ask>() {
        Ok(_) => Err(io::ErrorKind::InvalidData.into()),
        Err(_it_is_gone) => Ok(()),
    }
}

/// The device, and what is open of it.
struct Served {
    boot: Boot,
    things: Mutex<Things>,
}

#[derive(Default)]
struct Things {
    // Before the device that they are of.
    requests: HashMap<u64, Request>,
    files: HashMap<u64, Arc<dyn File>>,
    device: Option<Device>,
    last: u64,
}

type Request = Arc<Mutex<Box<dyn Pending>>>;

impl Things {
    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn file(&self, number: u64) -> Arc<dyn File> {
        self.files[&number].clone()
    }
}

impl Served {
    fn speak(&self, socket: TcpStream) {
        let Ok(mut line) = Line::new(socket) else { return };
        while let Ok(ask) = line.hear() {
            if line.say(&self.answer(ask)).is_err() {
                return;
            }
        }
    }

    fn things(&self) -> MutexGuard<'_, Things> {
        lock(&self.things)
    }

    fn request(&self, number: u64) -> Request {
        self.things().requests[&number].clone()
    }

    /// Nothing of the device is called with the lock held.
    fn answer(&self, ask: Ask) -> Answer {
        match ask {
            // That was said already.
            Ask::Join(_) => Answer::Done,
            Ask::Boot => {
                let device = (self.boot)();
                let booted = Answer::Booted(device.front_end(), device.ephemeral_ports());
                let earlier =
                    std::mem::replace(&mut *self.things(), Things { device: Some(device), ..Things::default() });
                drop(earlier);
                booted
            }
            Ask::Open => Answer::Opened(self.open()),
            Ask::CloseFile(file) => {
                let file = self.things().files.remove(&file);
                drop(file);
                Answer::Done
            }
            Ask::Submit { file, code, input, output_length, buffers } => {
                shared::borrow(buffers);
                let file = self.things().file(file);
                let mut request = file.submit(code, &input, output_length);
                let pended = request.pended();
                let request = match request.wait(Duration::ZERO) {
                    Some(completion) => Err(completion.into()),
                    None => {
                        let mut things = self.things();
                        let number = things.number();
                        things.requests.insert(number, Arc::new(Mutex::new(request)));
                        Ok(number)
                    }
                };
                Answer::Submitted { request, pended }
            }
            Ask::Stranger { file, code, input } => {
                let file = self.things().file(file);
                Answer::Stranger(file.send_from_another_process(code, &input).map(|status| status.0))
            }
            Ask::Wait(request, limit) => {
                let ended = lock(&self.request(request)).wait(limit);
                if ended.is_some() {
                    self.things().requests.remove(&request);
                }
                Answer::Waited(ended.map(Into::into))
            }
            Ask::Cancel(request) => {
                lock(&self.request(request)).cancel();
                Answer::Done
            }
            Ask::Forget(request) => {
                let request = self.things().requests.remove(&request);
                drop(request);
                Answer::Done
            }
            Ask::Close => {
                let Things { device, requests, files, .. } = std::mem::take(&mut *self.things());
                drop((requests, files));
                Answer::Closed(device.map_or_else(Vec::new, |device| device.close()))
            }
        }
    }

    fn open(&self) -> Result<(u64, Option<u64>), i32> {
        let mut things = self.things();
        let file = things.device.as_ref().expect("a device").open().map_err(|status| status.0)?;
        let (number, handle) = (things.number(), file.handle());
        things.files.insert(number, file.into());
        Ok((number, handle))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
