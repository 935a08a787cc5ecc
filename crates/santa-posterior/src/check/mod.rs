//! Whether a sampler samples what it should.
