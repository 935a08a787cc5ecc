//! What the posterior predicts, and how sure it is.
