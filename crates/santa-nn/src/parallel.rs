//! Work over the cores, or in order where the feature `parallel` is off.

/// Runs `work` on every item, in any order.
pub(crate) fn for_each<T: Send>(items: &mut [T], work: impl Fn(&mut T) + Sync + Send) {
    #[cfg(feature = "parallel")]
    if items.len() > 1 && rayon::current_num_threads() > 1 {
        use rayon::prelude::*;
        items.par_iter_mut().with_max_len(1).for_each(work);
        return;
    }
    items.iter_mut().for_each(work);
}

/// [`for_each`] for work that takes its items.
pub(crate) fn spread<T: Send>(items: Vec<T>, work: impl Fn(T) + Sync + Send) {
    #[cfg(feature = "parallel")]
    if items.len() > 1 && rayon::current_num_threads() > 1 {
        use rayon::prelude::*;
        return items.into_par_iter().with_max_len(1).for_each(work);
    }
    items.into_iter().for_each(work);
}
