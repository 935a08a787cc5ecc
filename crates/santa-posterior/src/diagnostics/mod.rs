//! Has it converged, and how much do the draws know?
