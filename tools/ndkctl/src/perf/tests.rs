//! Measurements by the driver's own code on the simulated kernel.

use std::time::Duration;

use conformance::{Bench, Transport as _, sim::Simulated};

use super::*;
use crate::{stats::Totals, tests::Simulation};

const PATIENCE: Duration = Duration::from_secs(20);

fn options(sizes: &[u32]) -> Options {
    let (address, to, operation, plot) = (None, None, Vec::new(), None);
    Options { address, server: false, to, sizes: sizes.to_vec(), operation, plot }
}

/// Octets that have gone out of these adapters and come in.
fn octets(drivers: &[&Simulation]) -> [u64; 2] {
    let totals: Vec<_> = drivers.iter().map(|driver| Totals::read(*driver).unwrap()).collect();
    ["out_octets", "in_octets"].map(|name| totals.iter().map(|totals| totals.get(name)).sum())
}

/// Each figure is there, and the bytes are those that the driver counts.
fn measured(here: &Simulation, there: &Simulation, adapters: &[&Simulation]) {
    let before = octets(adapters);
    let found = measure_here(here, there, &options(&[1, 4096])).unwrap();
    let after = octets(adapters);
    assert_eq!([after[0] - before[0], after[1] - before[1]], [found.moved_bytes; 2]);
    let table = found.to_string();
    for operation in Operation::ALL {
        for size in ["1 B", "4 KiB"] {
            let name = format!("{:9} {size:>8} ", operation.name());
            assert!(table.lines().any(|line| line.starts_with(&name)), "{table}");
        }
    }
    let json = serde_json::to_value(&found).unwrap();
    let rows = json["figures"].as_array().unwrap();
    assert_eq!(rows.len(), 6);
    for row in rows {
        assert!(["samples", "operations", "depth"].iter().all(|count| row[count].as_u64() > Some(0)), "{row}");
    }
    assert!(found.svg().unwrap().matches("\nread\n").count() == 3);
    println!("{table}");
}

// Shows S1745.
#[test]
fn an_adapter_measures_with_itself() {
    let kernel = Simulated::boot();
    let open = || Simulation(kernel.open().unwrap());
    let (here, there) = (open(), open());
    measured(&here, &there, &[&here]);
    drop((here, there));
    assert!(Bench::new(&kernel, PATIENCE).left_behind().is_empty());
    assert_eq!(Box::new(kernel).close(), [""; 0]);
}

// Shows S1745.
#[test]
fn an_adapter_measures_with_another() {
    let [first, second] = Simulated::boot_two_devices();
    let (here, there) = (Simulation(first.open().unwrap()), Simulation(second.open().unwrap()));
    measured(&here, &there, &[&here, &there]);
    let server = SocketAddr::new(first_address(&there).unwrap(), PORT);
    let none = measure(&here, server, &options(&[1]), &AtomicBool::new(false));
    let none = none.err().unwrap().to_string();
    assert!(none.contains("STATUS_CONNECTION_REFUSED") && none.contains("ndkctl perf --server"), "{none}");
    drop((here, there));
    assert_eq!([Box::new(second), Box::new(first)].map(|machine| machine.close()), [Vec::<String>::new(), Vec::new()]);
}

// Shows S1746.
#[test]
fn a_driver_without_the_consumer_is_said_to_be_one() {
    let kernel = Simulated::boot_with(false);
    let open = || Simulation(kernel.open().unwrap());
    let (here, there) = (open(), open());
    let refused = measure_here(&here, &there, &options(&[1])).err().unwrap().to_string();
    assert!(refused.contains("STATUS_NOT_SUPPORTED") && refused.contains("cargo make test-consumer"), "{refused}");
    drop((here, there));
    assert_eq!(Box::new(kernel).close(), [""; 0]);
}

#[test]
fn sizes_are_those_that_the_driver_takes() {
    assert_eq!((message("4MiB"), message("1")), (Ok(SOFTNDK_TEST_PERF_SIZE), Ok(1)));
    for wrong in ["0", "5MiB", "4194305", "x"] {
        assert!(message(wrong).is_err(), "{wrong}");
    }
}
