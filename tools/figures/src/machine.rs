//! Where and when something was measured.

use std::{env, fs, thread};

use time::OffsetDateTime;

/// The processors, the load before, and the day, for people.
#[must_use]
pub fn machine() -> String {
    let count = thread::available_parallelism().map_or(0, usize::from);
    let load = fs::read_to_string("/proc/loadavg").ok();
    let load =
        load.as_deref().and_then(|load| load.split(' ').next()).map_or(String::new(), |load| format!("; load {load}"));
    format!("{count} processors, {}{load}; {}", processor(), OffsetDateTime::now_utc().date())
}

/// As the system calls it.
fn processor() -> String {
    let linux = fs::read_to_string("/proc/cpuinfo").ok();
    let linux = linux.as_deref().and_then(|info| info.lines().find_map(|line| line.strip_prefix("model name")));
    let name = linux.map(|name| name.trim_start_matches(['\t', ' ', ':']).to_owned());
    name.or_else(|| env::var("PROCESSOR_IDENTIFIER").ok()).unwrap_or_else(|| env::consts::ARCH.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_processors_and_a_day() {
        let text = machine();
        let (count, rest) = text.split_once(" processors, ").unwrap();
        assert!(count.parse::<usize>().unwrap() > 0);
        let day = rest.rsplit_once("; ").unwrap().1;
        assert!(day.len() == 10 && day.starts_with("20"), "{text}");
    }
}
