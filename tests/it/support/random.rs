//! Random choices that can be repeated: the seed is fixed, or `TOOLGATE_TEST_SEED`, and a failing test prints it.

/// A generator (xorshift64*) that tells its seed when a test fails.
pub(crate) struct Random {
    seed: u64,
    state: u64,
}

impl Random {
    pub(crate) fn new(default: u64) -> Self {
        let seed = std::env::var("TOOLGATE_TEST_SEED")
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(default);
        Self::from(seed)
    }

    pub(crate) fn from(seed: u64) -> Self {
        Self {
            seed,
            state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
        }
    }

    /// A generator for a part of the test.
    pub(crate) fn fork(&mut self) -> Self {
        let seed = self.next();
        Self::from(seed)
    }

    fn next(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number from 0 to `bound - 1`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        let index = self.below(items.len() as u64);
        &items[usize::try_from(index).unwrap()]
    }
}

impl Drop for Random {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("TOOLGATE_TEST_SEED={}", self.seed);
        }
    }
}
