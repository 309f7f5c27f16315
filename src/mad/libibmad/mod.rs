//! Decoding by libibmad, for comparison.

#[cfg(test)]
mod tests;
