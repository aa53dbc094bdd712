//! The process that has the other device.

use std::{
    collections::HashMap,
    env,
    io::{self, Read as _},
    os::{
        fd::AsFd as _,
        unix::net::{UnixListener, UnixStream},
    },
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use conformance::{File, Pending, Transport as _, local::Local, memory::shared};
use hosted::Hosted;

use crate::frames::{Answer, Ask, Line};

/// Where the buffers are that both processes have.
pub(crate) const BUFFERS: &str = "SOFTNDK_TEST_BUFFERS";

/// Does what it is asked for until the process that started this one is gone. Its standard input is what to listen on.
pub(crate) fn serve() -> io::Result<()> {
    let path =
        env::var(BUFFERS).map_err(|_| io::Error::other(format!("without {BUFFERS} there is nobody to serve")))?;
    shared::join(&path)?;
    let listener = UnixListener::from(io::stdin().as_fd().try_clone_to_owned()?);
    // Whoever started this process says nothing on the first connection.
    let (mut life, _) = listener.accept()?;
    thread::spawn(move || {
        let served = Arc::new(Served::default());
        for socket in listener.incoming().flatten() {
            let served = served.clone();
            thread::spawn(move || served.speak(socket));
        }
    });
    life.read(&mut [0]).map(drop)
}

/// The device, and what is open of it.
#[derive(Default)]
struct Served(Mutex<Things>);

#[derive(Default)]
struct Things {
    // Before the device that they are of.
    requests: HashMap<u64, Request>,
    files: HashMap<u64, Arc<dyn File>>,
    device: Option<Box<Local<Hosted>>>,
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
    fn speak(&self, socket: UnixStream) {
        let mut line = Line::new(socket);
        while let Ok(ask) = line.hear() {
            if line.say(&self.answer(ask)).is_err() {
                return;
            }
        }
    }

    fn things(&self) -> MutexGuard<'_, Things> {
        lock(&self.0)
    }

    fn request(&self, number: u64) -> Request {
        self.things().requests[&number].clone()
    }

    /// Nothing of the device is called with the lock held.
    fn answer(&self, ask: Ask) -> Answer {
        match ask {
            Ask::Boot(addresses) => {
                let device = Box::new(Local::new(&addresses, true));
                let earlier =
                    std::mem::replace(&mut *self.things(), Things { device: Some(device), ..Things::default() });
                drop(earlier);
                Answer::Done
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
