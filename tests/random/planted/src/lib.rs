//! Nothing of its own: the tests plant bugs in the driver.
