//! An INF as text: sections of lines, as install/general-syntax-rules-for-inf-files has them.

use anyhow::{Context, Result, bail, ensure};

/// Sections in their order. Names and keys are compared without case.
pub(crate) struct Inf {
    pub(crate) sections: Vec<Section>,
}

pub(crate) struct Section {
    pub(crate) name: String,
    pub(crate) lines: Vec<Line>,
}

/// `key = value, value`, or values alone; without quotation marks and comments.
pub(crate) struct Line {
    pub(crate) key: Option<String>,
    pub(crate) values: Vec<String>,
}

impl Inf {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut sections = Vec::<Section>::new();
        for (number, line) in text.lines().enumerate() {
            let place = || format!("line {}", number + 1);
            let Some(line) = fields(line).with_context(place)? else { continue };
            if let [name] = &*line.values
                && line.key.is_none()
                && let Some(name) = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'))
            {
                ensure!(sections.iter().all(|section| !section.is(name)), "{}: a second [{name}]", place());
                sections.push(Section { name: name.to_owned(), lines: Vec::new() });
            } else {
                sections.last_mut().with_context(|| format!("{}: no section", place()))?.lines.push(line);
            }
        }
        Ok(Self { sections })
    }

    pub(crate) fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.is(name))
    }

    /// The lines of a section; none if there is no such section.
    pub(crate) fn lines(&self, section: &str) -> &[Line] {
        self.section(section).map_or(&[], |section| &section.lines)
    }

    /// The values of each line with this key.
    pub(crate) fn all<'inf>(&'inf self, section: &str, key: &str) -> impl Iterator<Item = &'inf [String]> {
        self.lines(section).iter().filter(move |line| line.is(key)).map(|line| &*line.values)
    }

    /// The only value of the only line with this key.
    pub(crate) fn value(&self, section: &str, key: &str) -> Option<&str> {
        let mut lines = self.all(section, key);
        match (lines.next(), lines.next()) {
            (Some([value]), None) => Some(value),
            _ => None,
        }
    }
}

impl Section {
    pub(crate) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

impl Line {
    pub(crate) fn is(&self, key: &str) -> bool {
        self.key.as_ref().is_some_and(|own| own.eq_ignore_ascii_case(key))
    }
}

/// What a line has besides a comment, if anything.
fn fields(line: &str) -> Result<Option<Line>> {
    let (mut key, mut values, mut field, mut quoted, mut was_quoted) = (None, Vec::new(), String::new(), false, false);
    let finish = |field: &mut String, was_quoted: &mut bool| {
        let whole = std::mem::take(field);
        // Blanks count within quotation marks only; there is no field that is quoted in part.
        if std::mem::take(was_quoted) { whole } else { whole.trim().to_owned() }
    };
    for character in line.chars() {
        match character {
            '"' => {
                if !quoted && !was_quoted {
                    field.clear();
                }
                (quoted, was_quoted) = (!quoted, true);
            }
            _ if quoted => field.push(character),
            ';' => break,
            ',' => values.push(finish(&mut field, &mut was_quoted)),
            '=' if key.is_none() && values.is_empty() => key = Some(finish(&mut field, &mut was_quoted)),
            _ if was_quoted && character.is_whitespace() => {}
            _ if was_quoted => bail!("a field that is quoted in part"),
            _ => field.push(character),
        }
    }
    ensure!(!quoted, "a quotation mark without its other");
    let last = finish(&mut field, &mut was_quoted);
    if key.is_none() && values.is_empty() && last.is_empty() {
        return Ok(None);
    }
    values.push(last);
    Ok(Some(Line { key, values }))
}

#[cfg(test)]
mod tests {
    use super::Inf;

    #[test]
    fn a_line_has_a_key_and_values() {
        let inf = Inf::parse("[A] ; c\r\n x = 1, \"a;, \" ; b\n\n;n\nHKR,, v, 0, \"\"\n%s% = \n").unwrap();
        assert_eq!(inf.sections.len(), 1);
        assert_eq!(inf.all("a", "X").collect::<Vec<_>>(), [["1", "a;, "]]);
        assert_eq!(inf.lines("A")[1].values, ["HKR", "", "v", "0", ""]);
        assert_eq!(inf.value("A", "%S%"), Some(""));
        assert_eq!((inf.value("A", "x"), inf.value("A", "y"), inf.value("B", "x")), (None, None, None));
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for text in ["x = 1", "[A]\nx = \"1", "[A]\nx = \"1\" 2", "[A]\n[a]"] {
            assert!(Inf::parse(text).is_err(), "{text:?}");
        }
    }
}
