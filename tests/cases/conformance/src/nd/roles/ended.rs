//! Two failures in a row, of which the first one is the reason.

use anyhow::anyhow;

/// What came of `result`, once the peer has been told that it is over. An error if it could not be told: with the earlier one, if any.
pub(super) fn ended<T>(result: anyhow::Result<T>, told: anyhow::Result<()>) -> anyhow::Result<anyhow::Result<T>> {
    match (result, told) {
        (Err(first), Err(then)) => Err(anyhow!("{first:#}; then: {then:#}")),
        (result, told) => told.map(|()| result),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_failure_hides_another() {
        let said = |result, told| match ended::<()>(result, told) {
            Ok(Ok(())) => String::new(),
            Ok(Err(error)) | Err(error) => format!("{error:#}"),
        };
        assert_eq!(said(Ok(()), Ok(())), "");
        assert_eq!(said(Err(anyhow!("a")), Ok(())), "a");
        assert_eq!(said(Ok(()), Err(anyhow!("b"))), "b");
        assert_eq!(said(Err(anyhow!("a")), Err(anyhow!("b"))), "a; then: b");
    }
}
