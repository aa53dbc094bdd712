//! The parser. A rule that is wrong gives the place, and what was expected there.

use core::{fmt, str::FromStr};

use iwarp::terminate::Cause;

use crate::{Action, ActionKind, Chance, FilterKind, Filters, Operation, Point, Role, Rule, When};

/// Bytes of the longest rule, without the white space around it.
pub const LONGEST_RULE: usize = 160;

/// The texts of the rules in a text. A rule ends at the end of a line or at `;`. What follows `#` in a line is a comment.
pub fn texts(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(|line| line.split_once('#').map_or(line, |(rules, _comment)| rules));
    lines.flat_map(|line| line.split(';')).map(str::trim).filter(|rule| !rule.is_empty())
}

/// The rules of a text, each with its own text.
pub fn parse(text: &str) -> impl Iterator<Item = Result<(Rule, &str), ParseError>> {
    (1..).zip(texts(text)).map(|(number, text)| {
        rule(text).map(|rule| (rule, text)).map_err(|(column, expected)| ParseError { rule: number, column, expected })
    })
}

/// Where a text is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The number of the rule, from 1.
    pub rule: u32,
    /// The character of the rule, from 1; one behind the last if the rule ends too early.
    pub column: u32,
    /// What the rule should have there.
    pub expected: Expected,
}

/// What a rule should have at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// A rule of at most [`LONGEST_RULE`] bytes.
    ShorterRule,
    /// The first word.
    On,
    /// The name of a point.
    Point,
    /// A clause that the rule does not have yet.
    Clause,
    /// A filter of the point that the rule does not have yet.
    Filter(Point),
    /// The value of a filter.
    Value(FilterKind),
    /// A number.
    Number,
    /// A number that is not 0.
    NotZero,
    /// Two numbers with `/` between them.
    Chance,
    /// An action of the point.
    Action(Point),
    /// A status of the point.
    Status(Point),
    /// A time.
    Time,
    /// A time of whole seconds.
    Seconds,
    /// The code of a Terminate.
    Code,
    /// Nothing more.
    End,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {}, column {}: expected {}", self.rule, self.column, self.expected)
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ShorterRule => write!(f, "a rule of at most {LONGEST_RULE} bytes"),
            Self::On => f.write_str("`on`"),
            Self::Point => list(f, "one of", Point::ALL.iter().map(|point| point.name())),
            Self::Clause => f.write_str("`where`, `after`, `every`, `times`, `for` or `chance`, each once, or `do`"),
            Self::Filter(point) => {
                list(f, "one of these filters, none twice:", point.filters().iter().map(|filter| filter.name()))
            }
            Self::Value(FilterKind::Port) => f.write_str("`=` and a port, 1 to 65535"),
            Self::Value(FilterKind::Address) => f.write_str("`=` and an IP address"),
            Self::Value(FilterKind::Role) => f.write_str("`=` and `active` or `passive`"),
            Self::Value(FilterKind::Operation) => {
                list(f, "`=` and one of", Operation::ALL.iter().map(|operation| operation.name()))
            }
            Self::Value(FilterKind::Process | FilterKind::QueuePair) => f.write_str("`=` and a number"),
            Self::Value(FilterKind::Bytes) => f.write_str("`=`, `>=` or `<=`, and a number"),
            Self::Number => f.write_str("a number"),
            Self::NotZero => f.write_str("a number that is not 0"),
            Self::Chance => f.write_str("two numbers as 1/10, the first not larger than the second"),
            Self::Action(point) => list(f, "one of", point.actions().iter().map(|action| action.syntax())),
            Self::Status(point) => list(f, "one of", point.statuses().iter().map(|status| status.0)),
            Self::Time => f.write_str("a time as 100us, 5ms or 2s, not 0 and at most an hour"),
            Self::Seconds => f.write_str("whole seconds as 2s, not 0 and at most an hour"),
            Self::Code => {
                f.write_str("layer, error type and error code of a Terminate (RFC 5040 section 4.8), as 0x0100")
            }
            Self::End => f.write_str("the end of the rule"),
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, before: &str, words: impl Iterator<Item = &'static str>) -> fmt::Result {
    f.write_str(before)?;
    for (place, word) in words.enumerate() {
        write!(f, "{}{word}", if place == 0 { " " } else { ", " })?;
    }
    Ok(())
}

/// The character of a rule, from 1, and what it should have there.
type Wrong = (u32, Expected);

/// The words of a rule that are left.
#[derive(Clone, Copy)]
struct Words<'a> {
    left: &'a str,
    column: u32,
}

/// A word, and the character at which it begins.
#[derive(Clone, Copy)]
struct Word<'a> {
    text: &'a str,
    column: u32,
}

impl<'a> Words<'a> {
    /// The next word; behind the last, an empty one.
    fn next(&mut self) -> Word<'a> {
        let word = self.left.trim_start();
        let skipped = characters(self.left).saturating_sub(characters(word));
        let (text, left) = word.split_at(word.find(char::is_whitespace).unwrap_or(word.len()));
        let column = self.column.saturating_add(skipped);
        *self = Self { left, column: column.saturating_add(characters(text)) };
        Word { text, column }
    }

    /// The next word, without taking it.
    fn peek(mut self) -> Word<'a> {
        self.next()
    }
}

fn characters(text: &str) -> u32 {
    u32::try_from(text.chars().count()).unwrap_or(u32::MAX)
}

impl Word<'_> {
    fn wrong(self, expected: Expected) -> Wrong {
        (self.column, expected)
    }

    fn number<T: FromStr>(self, expected: Expected) -> Result<T, Wrong> {
        number(self.text).ok_or(self.wrong(expected))
    }
}

fn rule(text: &str) -> Result<Rule, Wrong> {
    if text.len() > LONGEST_RULE {
        return Err((1, Expected::ShorterRule));
    }
    let mut words = Words { left: text, column: 1 };
    let on = words.next();
    if on.text != "on" {
        return Err(on.wrong(Expected::On));
    }
    let word = words.next();
    let point = Point::ALL.into_iter().find(|point| point.name() == word.text);
    let point = point.ok_or(word.wrong(Expected::Point))?;
    let (mut found_filters, mut after, mut every, mut times) = (None, None, None, None);
    let (mut time, mut chance) = (None, None);
    loop {
        let word = words.next();
        match word.text {
            "where" if found_filters.is_none() => found_filters = Some(filters(point, &mut words)?),
            "after" if after.is_none() => after = Some(words.next().number(Expected::Number)?),
            "every" if every.is_none() => every = Some(not_zero(words.next())?),
            "times" if times.is_none() => times = Some(not_zero(words.next())?),
            "for" if time.is_none() => {
                let word = words.next();
                time = Some(microseconds(word.text).ok_or(word.wrong(Expected::Time))?);
            }
            "chance" if chance.is_none() => chance = Some(self::chance(&mut words)?),
            "do" => break,
            _ => return Err(word.wrong(Expected::Clause)),
        }
    }
    let usual = When::default();
    let rule = Rule {
        point,
        filters: found_filters.unwrap_or_default(),
        when: When {
            after: after.unwrap_or(usual.after),
            every: every.unwrap_or(usual.every),
            times: times.unwrap_or(usual.times),
            time,
            chance,
        },
        action: action(point, &mut words)?,
    };
    let end = words.next();
    if end.text.is_empty() { Ok(rule) } else { Err(end.wrong(Expected::End)) }
}

fn not_zero(word: Word<'_>) -> Result<u64, Wrong> {
    word.number(Expected::NotZero).and_then(|number| match number {
        0 => Err(word.wrong(Expected::NotZero)),
        number => Ok(number),
    })
}

fn chance(words: &mut Words<'_>) -> Result<Chance, Wrong> {
    let word = words.next();
    let wrong = word.wrong(Expected::Chance);
    let (hits, of) = word.text.split_once('/').ok_or(wrong)?;
    let (hits, of) = (number(hits).ok_or(wrong)?, number(of).ok_or(wrong)?);
    if of == 0 || hits > of {
        return Err(wrong);
    }
    let mut seed = 0;
    if words.peek().text == "seed" {
        words.next();
        seed = words.next().number(Expected::Number)?;
    }
    Ok(Chance { hits, of, seed })
}

/// The filters behind `where`, at least one.
fn filters(point: Point, words: &mut Words<'_>) -> Result<Filters, Wrong> {
    let mut filters = Filters::default();
    let (mut least, mut most) = (None, None);
    loop {
        let word = words.next();
        let name = word.text.split(['=', '<', '>']).next().unwrap_or_default();
        let kind = point.filters().iter().find(|kind| kind.name() == name);
        let kind = *kind.ok_or(word.wrong(Expected::Filter(point)))?;
        let rest = word.text.get(name.len()..).unwrap_or_default();
        let wrong_value =
            || Word { text: rest, column: word.column.saturating_add(characters(name)) }.wrong(Expected::Value(kind));
        let value = |relation| rest.strip_prefix(relation).ok_or_else(wrong_value);
        match kind {
            FilterKind::Port => {
                let port: u16 = number(value("=")?).ok_or_else(wrong_value)?;
                once(&mut filters.port, (port != 0).then_some(port).ok_or_else(wrong_value)?)
            }
            FilterKind::Address => once(&mut filters.address, value("=")?.parse().map_err(|_| wrong_value())?),
            FilterKind::Role => once(
                &mut filters.role,
                match value("=")? {
                    "active" => Role::Active,
                    "passive" => Role::Passive,
                    _ => return Err(wrong_value()),
                },
            ),
            FilterKind::Process => once(&mut filters.process, number(value("=")?).ok_or_else(wrong_value)?),
            FilterKind::QueuePair => once(&mut filters.queue_pair, number(value("=")?).ok_or_else(wrong_value)?),
            FilterKind::Operation => {
                let name = value("=")?;
                let operation = Operation::ALL.into_iter().find(|operation| operation.name() == name);
                once(&mut filters.operation, operation.ok_or_else(wrong_value)?)
            }
            FilterKind::Bytes => match (rest.strip_prefix(">="), rest.strip_prefix("<=")) {
                (Some(bytes), _) => once(&mut least, number(bytes).ok_or_else(wrong_value)?),
                (_, Some(bytes)) => once(&mut most, number(bytes).ok_or_else(wrong_value)?),
                _ => {
                    let bytes = number(value("=")?).ok_or_else(wrong_value)?;
                    once(&mut least, bytes).and_then(|()| once(&mut most, bytes))
                }
            },
        }
        .ok_or(word.wrong(Expected::Filter(point)))?;
        if !words.peek().text.contains(['=', '<', '>']) {
            break;
        }
    }
    filters.bytes.least = least.unwrap_or(filters.bytes.least);
    filters.bytes.most = most.unwrap_or(filters.bytes.most);
    Ok(filters)
}

fn microseconds(time: &str) -> Option<u32> {
    const HOUR: u32 = 3_600_000_000;
    let units = [("us", 1), ("ms", 1_000), ("s", 1_000_000)];
    let found = units.into_iter().find_map(|(unit, each)| number::<u32>(time.strip_suffix(unit)?)?.checked_mul(each));
    found.filter(|time| (1..=HOUR).contains(time))
}

fn whole_seconds(microseconds: u32) -> Option<u32> {
    const SECOND: u32 = 1_000_000;
    microseconds.is_multiple_of(SECOND).then(|| microseconds.checked_div(SECOND))?
}

/// The cause of a Terminate that a segment may have, by layer, error type and error code in hexadecimal digits.
fn cause(code: &str) -> Option<Cause> {
    let digits = code.strip_prefix("0x").filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
    let [first, code] = u16::from_str_radix(digits, 16).ok()?.to_be_bytes();
    let cause = Cause { layer: first >> 4, kind: first & 0xF, code };
    // These are of the TCP connection, and of the MPA Request and Reply.
    let others =
        [Cause::CONNECTION_LOST, Cause::INVALID_REQUEST_REPLY, Cause::INSUFFICIENT_READS, Cause::NO_MATCHING_RTR];
    (!others.contains(&cause) && Cause::ALL.iter().any(|(named, _)| *named == cause)).then_some(cause)
}

/// A number of digits only: `FromStr` takes a sign too.
fn number<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok().filter(|_| text.starts_with(|first: char| first.is_ascii_digit()))
}

/// Sets a filter; `None`: the rule has it already.
fn once<T>(filter: &mut Option<T>, value: T) -> Option<()> {
    filter.replace(value).is_none().then_some(())
}

fn action(point: Point, words: &mut Words<'_>) -> Result<Action, Wrong> {
    let word = words.next();
    let is = |kind: &&ActionKind| kind.syntax().split(' ').next() == Some(word.text);
    let kind = point.actions().iter().find(is).ok_or(word.wrong(Expected::Action(point)))?;
    Ok(match kind {
        ActionKind::Fail => {
            let word = words.next();
            let status = point.statuses().iter().find(|(name, _)| *name == word.text);
            Action::Fail(status.ok_or(word.wrong(Expected::Status(point)))?.1)
        }
        ActionKind::Delay => {
            let word = words.next();
            Action::Delay(microseconds(word.text).ok_or(word.wrong(Expected::Time))?)
        }
        ActionKind::SendTimeout => {
            let word = words.next();
            let seconds = microseconds(word.text).and_then(whole_seconds);
            Action::SendTimeout(seconds.ok_or(word.wrong(Expected::Seconds))?)
        }
        ActionKind::Terminate => {
            let word = words.next();
            Action::Terminate(cause(word.text).ok_or(word.wrong(Expected::Code))?)
        }
        ActionKind::Stall => Action::Stall,
        ActionKind::Disconnect => Action::Disconnect,
        ActionKind::Reset => Action::Reset,
        ActionKind::Overrun => Action::Overrun,
        ActionKind::Drop => Action::Drop,
        ActionKind::Duplicate => Action::Duplicate,
        ActionKind::Reorder => Action::Reorder,
        ActionKind::Corrupt => Action::Corrupt,
    })
}
