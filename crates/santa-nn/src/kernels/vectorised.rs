//! Plain loops, compiled for every instruction set.

use pulp::{Arch, Simd, WithSimd};

/// Runs a closure that is marked `#[inline(always)]`, compiled for the instruction set at hand.
///
/// `Arch::dispatch` takes closures as well, and runs them through `FnOnce::call_once`. Of a closure that
/// could be called again this is a function of its own, which the compiler may leave apart when it is
/// large: the loop is then compiled for the oldest processor, and every `fma` in it is a call.
#[inline]
pub fn vectorised<R>(work: impl FnMut() -> R) -> R {
    struct Work<W>(W);
    impl<R, W: FnMut() -> R> WithSimd for Work<W> {
        type Output = R;
        #[inline(always)]
        fn with_simd<S: Simd>(mut self, _: S) -> R {
            (self.0)()
        }
    }
    Arch::new().dispatch(Work(work))
}
