//! What came of the messages, for people and for programs.

use std::{fmt, time::Duration};

use figures::Latency;
use serde::Serialize;

/// What came of it.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) device: String,
    pub(super) peer: String,
    pub(super) bytes: usize,
    /// Messages that came back as they were sent.
    pub(super) answered: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) round_trip_us: Option<RoundTrip>,
    /// Why it ended before all had come back, if not by Ctrl-C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) failure: Option<String>,
}

#[derive(Serialize)]
pub(super) struct RoundTrip {
    #[serde(flatten)]
    latency: Latency,
    mean: f64,
}

impl RoundTrip {
    /// Of some; none has none.
    pub(super) fn of(samples: &mut [Duration]) -> Option<Self> {
        let count = u32::try_from(samples.len()).ok().filter(|count| *count > 0)?;
        let mean = (samples.iter().sum::<Duration>() / count).as_secs_f64() * 1e6;
        Some(Self { latency: Latency::of(samples), mean })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, peer, bytes, answered, round_trip_us, failure } = self;
        writeln!(f, "\n{device}\n{answered} messages of {bytes} bytes to {peer} and back, as they were sent")?;
        if let Some(RoundTrip { latency: Latency { min, median, p99 }, mean }) = round_trip_us {
            writeln!(f, "\nround trip, us:       min      mean    median       p99")?;
            writeln!(f, "               {min:10.1}{mean:10.1}{median:10.1}{p99:10.1}")?;
        }
        failure.as_ref().map_or(Ok(()), |failure| writeln!(f, "\nFAIL  {failure}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(samples: &mut [Duration], failure: Option<&str>) -> Report {
        Report {
            device: "a device".to_owned(),
            peer: "10.0.0.2".to_owned(),
            bytes: 64,
            answered: samples.len(),
            round_trip_us: RoundTrip::of(samples),
            failure: failure.map(str::to_owned),
        }
    }

    #[test]
    fn the_table_has_all_figures_and_the_failure() {
        let mut samples = [4, 1, 2, 5].map(Duration::from_micros);
        let text = report(&mut samples, None).to_string();
        assert!(text.contains("4 messages of 64 bytes to 10.0.0.2 and back"), "{text}");
        assert!(text.ends_with("1.0       3.0       2.0       4.0\n"), "{text}");
        let json = serde_json::to_value(report(&mut samples, None)).unwrap();
        assert_eq!((&json["round_trip_us"]["mean"], &json["answered"]), (&3.0.into(), &4.into()));
        assert_eq!((&json["round_trip_us"]["median"], json.get("failure")), (&2.0.into(), None));
        let failed = report(&mut [], Some("it broke"));
        assert!(failed.to_string().ends_with("FAIL  it broke\n"));
        assert!(serde_json::to_value(failed).unwrap().get("round_trip_us").is_none());
    }
}
