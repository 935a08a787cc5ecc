//! Matrix products of the sizes that networks have.
//!
//! $$ C_{ij} = C^0_{ij} + \sum_k A_{ik} B_{kj} $$
//!
//! B and C have contiguous rows; A is packed, a few rows at a time, into slivers in which one step
//! along k is contiguous. A tile of C stays in registers while k runs. Rows of A that are zero for
//! all rows of a sliver can be left out, which is most of them where the inputs are images of digits.
//!
//! On the shapes of the paper's networks this is about as fast as the `gemm` crate (see the benchmark
//! `products`), and unlike a general product it sums in one order, whatever the processor.

use super::lanes::{DEPTH, PACKED, Scalar};
use pulp::{Arch, Simd, WithSimd};

/// Registers of a wide instruction set.
const MANY_REGISTERS: usize = 32;
/// Bytes from one row of B to the next from which on a panel is copied: each row then lies on a page
/// of its own.
const FAR: usize = 2048;
/// Rows of C that make the copy worth while.
const OFTEN: usize = 64;
/// A transposed A that is read this often or less is not packed.
const FEW_PANELS: usize = 2;
/// All steps along k.
static ALL: [u32; DEPTH] = {
    let mut all = [0; DEPTH];
    let mut k = 0;
    while k < DEPTH {
        all[k] = k as u32;
        k += 1;
    }
    all
};

/// What C holds before the products are added.
#[derive(Clone, Copy)]
pub enum Start<'a, F> {
    /// Zeros.
    Zero,
    /// What is there.
    Present,
    /// The same row, everywhere: a bias.
    Row(&'a [F]),
}

/// A matrix inside a buffer, or its transpose.
#[derive(Clone, Copy)]
pub struct View<'a, F> {
    data: &'a [F],
    /// From one stored row to the next.
    stride: usize,
    transposed: bool,
}

impl<'a, F> View<'a, F> {
    /// Rows of `width` elements, one after the other.
    pub fn rows(data: &'a [F], width: usize) -> Self {
        View { data, stride: width, transposed: false }
    }
    /// The transpose of rows of `width` elements.
    pub fn columns(data: &'a [F], width: usize) -> Self {
        View { data, stride: width, transposed: true }
    }
    /// Without the first rows and columns.
    #[inline(always)]
    fn from(self, row: usize, column: usize) -> Self {
        let (stored_row, stored_column) =
            if self.transposed { (column, row) } else { (row, column) };
        View { data: &self.data[stored_row * self.stride + stored_column..], ..self }
    }
    #[inline(always)]
    fn at(self, row: usize, column: usize) -> F
    where
        F: Copy,
    {
        self.from(row, column).data[0]
    }
    #[inline(always)]
    fn rows_of<const ROWS: usize>(self, depth: usize) -> [&'a [F]; ROWS] {
        std::array::from_fn(|i| &self.data[i * self.stride..][..depth])
    }
}

/// C = start + A B, where A is m x k, the rows of B lie `n` apart, and those of C too.
///
/// `skip_zeros` leaves out the k at which a whole sliver of A is zero: worth it where most of A is. A
/// zero of A then hides an infinity or a NaN of B.
///
/// # Panics
///
/// If a buffer is shorter than its matrix.
pub fn multiply<F: Scalar>(
    [m, n, k]: [usize; 3],
    a: View<'_, F>,
    b: &[F],
    mut start: Start<'_, F>,
    c: &mut [F],
    skip_zeros: bool,
) {
    let c = &mut c[..m * n];
    let arch = Arch::new();
    let stretches = k.div_ceil(DEPTH);
    F::with_packing(|packed, kept| {
        for stretch in 0..stretches {
            let k0 = stretch * k / stretches;
            let depth = (stretch + 1) * k / stretches - k0;
            let (a, b) = (a.from(0, k0), &b[k0 * n..(k0 + depth) * n]);
            let (c, packed, kept) = (&mut *c, &mut *packed, &mut *kept);
            arch.dispatch(Stretch { m, n, depth, a, b, start, c, skip_zeros, packed, kept });
            start = Start::Present;
        }
    });
    match start {
        Start::Present => (),
        // There was nothing to add.
        Start::Zero => c.fill(F::ZERO),
        Start::Row(row) => c.chunks_exact_mut(n).for_each(|c| c.copy_from_slice(row)),
    }
}

/// [`multiply`] with a k axis in several buffers, summed in their order: `part` gives the length of
/// each, A, and the rows of B, and `None` after the last.
pub fn multiply_parts<'a, F: Scalar>(
    [m, n]: [usize; 2],
    part: impl Fn(usize) -> Option<(usize, View<'a, F>, &'a [F])>,
    mut start: Start<'_, F>,
    c: &mut [F],
    skip_zeros: bool,
) {
    let mut index = 0;
    while let Some((k, a, b)) = part(index) {
        multiply([m, n, k], a, b, start, c, skip_zeros);
        start = Start::Present;
        index += 1;
    }
}

/// C = start + A B for at most [`DEPTH`] steps along k.
struct Stretch<'s, F> {
    m: usize,
    n: usize,
    depth: usize,
    a: View<'s, F>,
    b: &'s [F],
    start: Start<'s, F>,
    c: &'s mut [F],
    skip_zeros: bool,
    packed: &'s mut [F],
    kept: &'s mut [u32],
}

impl<F: Scalar> WithSimd for Stretch<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Stretch { m, n, depth, a, b, start, c, skip_zeros, packed, kept } = self;
        let (packed, panel_of_b) = packed.split_at_mut(PACKED);
        let lanes = F::lanes::<S>();
        let panels = Panels::new::<S>(n / lanes);
        // The columns of A lie far apart when it is transposed: packing pays if it is read often.
        let packing = skip_zeros || (a.transposed && panels.count > FEW_PANELS);
        let rows_at_once = PACKED / depth / panels.tallest * panels.tallest;
        for top in (0..m).step_by(rows_at_once) {
            let bands = bands(rows_at_once.min(m - top), panels.tallest);
            if packing {
                for band in bands.clone() {
                    let a = a.from(top + band.first_row, 0);
                    let packed = &mut packed[band.first_row * depth..];
                    let kept = skip_zeros.then(|| &mut kept[band.first * (depth + 2)..]);
                    pack_of(simd, band, depth, a, packed, kept);
                }
            }
            let mut left = 0;
            for panel in 0..=panels.count {
                let right = if panel < panels.count { panels.edge(panel + 1) * lanes } else { n };
                if left == right {
                    continue;
                }
                let far = n * F::BYTES >= FAR && m >= OFTEN;
                let b = if far {
                    let width = right - left;
                    let (rows, to) = (b.chunks(n), panel_of_b.chunks_exact_mut(width));
                    to.zip(rows).for_each(|(to, row)| to.copy_from_slice(&row[left..right]));
                    Panel { data: &*panel_of_b, stride: width }
                } else {
                    Panel { data: &b[left..], stride: n }
                };
                for band in bands.clone() {
                    let row = top + band.first_row;
                    let a = if packing {
                        Operand {
                            view: View::columns(&packed[band.first_row * depth..], band.height),
                            step: band.height * depth,
                            kept: skip_zeros.then(|| &kept[band.first * (depth + 2)..]),
                        }
                    } else {
                        let step = band.height * if a.transposed { 1 } else { a.stride };
                        Operand { view: a.from(row, 0), step, kept: None }
                    };
                    let start = match start {
                        Start::Row(row) => Start::Row(&row[left..right]),
                        other => other,
                    };
                    let place = Place { left, width: right - left, stride: n };
                    let c = &mut c[row * n..(row + band.count * band.height) * n];
                    tiles_of(simd, band, Tiles { a, depth, b, start, c, place });
                }
                left = right;
            }
        }
    }
}

/// How the columns of C are cut into panels of whole registers.
struct Panels {
    vectors: usize,
    count: usize,
    /// Rows of a tile: as many as leave registers for a row of B and an element of A.
    tallest: usize,
}

impl Panels {
    #[inline(always)]
    fn new<S: Simd>(vectors: usize) -> Self {
        // Registers of a tile: at most 25 of 32 (5 x 5), 12 of 16 (6 x 2).
        let (widest, tallest) = match vectors {
            _ if S::REGISTER_COUNT < MANY_REGISTERS => (2, 6),
            0..=2 => (2, 8),
            _ if vectors.is_multiple_of(4) => (4, 6),
            _ => (5, 5),
        };
        Panels { vectors, count: vectors.div_ceil(widest), tallest }
    }
    /// The first register of a panel.
    #[inline(always)]
    fn edge(&self, panel: usize) -> usize {
        panel * self.vectors / self.count
    }
}

/// Slivers of one height, one below the other.
#[derive(Clone, Copy)]
struct Band {
    /// Slivers before it.
    first: usize,
    /// Rows before it.
    first_row: usize,
    count: usize,
    height: usize,
}

/// Cuts rows into slivers of two heights that differ by one.
fn bands(rows: usize, tallest: usize) -> impl Iterator<Item = Band> + Clone {
    let slivers = rows.div_ceil(tallest);
    let (height, higher) = (rows / slivers, rows % slivers);
    [
        Band { first: 0, first_row: 0, count: higher, height: height + 1 },
        Band { first: higher, first_row: higher * (height + 1), count: slivers - higher, height },
    ]
    .into_iter()
    .filter(|band| band.count > 0)
}

/// Copies the slivers of a band so that one step along k is contiguous. With `kept`, the steps at
/// which a sliver is zero are left out; those that remain are listed there, after their number.
fn pack_of<F: Scalar, S: Simd>(
    simd: S,
    band: Band,
    depth: usize,
    a: View<'_, F>,
    packed: &mut [F],
    kept: Option<&mut [u32]>,
) {
    macro_rules! choose {
        ($($height:literal)*) => {
            match band.height {
                $($height => pack_band::<F, S, $height>(simd, band.count, depth, a, packed, kept),)*
                _ => unreachable!("no sliver of this height"),
            }
        };
    }
    choose!(1 2 3 4 5 6 7 8);
}

/// A function of its own: in one with the tiles, its constants would take their registers.
#[inline(never)]
fn pack_band<F: Scalar, S: Simd, const ROWS: usize>(
    simd: S,
    slivers: usize,
    depth: usize,
    a: View<'_, F>,
    packed: &mut [F],
    mut kept: Option<&mut [u32]>,
) {
    simd.vectorize(
        #[inline(always)]
        || {
            for s in 0..slivers {
                let packed = &mut packed.as_chunks_mut::<ROWS>().0[s * depth..(s + 1) * depth];
                let a = a.from(s * ROWS, 0);
                match &mut kept {
                    None => pack(a, packed),
                    Some(kept) => pack_nonzero(a, packed, &mut kept[s * (depth + 2)..]),
                }
            }
        },
    );
}

#[inline(always)]
fn pack<F: Scalar, const ROWS: usize>(a: View<'_, F>, packed: &mut [[F; ROWS]]) {
    if a.transposed {
        for (to, from) in packed.iter_mut().zip(a.data.chunks(a.stride)) {
            to.copy_from_slice(&from[..ROWS]);
        }
    } else {
        let rows = a.rows_of::<ROWS>(packed.len());
        for (k, to) in packed.iter_mut().enumerate() {
            *to = std::array::from_fn(|i| rows[i][k]);
        }
    }
}

/// Every step is written, and kept by moving on.
#[inline(always)]
fn pack_nonzero<F: Scalar, const ROWS: usize>(
    a: View<'_, F>,
    packed: &mut [[F; ROWS]],
    kept: &mut [u32],
) {
    let mut count = 0;
    if a.transposed {
        for (k, from) in a.data.chunks(a.stride).take(packed.len()).enumerate() {
            let column: [F; ROWS] = std::array::from_fn(|i| from[..ROWS][i]);
            packed[count] = column;
            kept[count + 1] = k as u32;
            count += usize::from(column.iter().any(|x| *x != F::ZERO));
        }
    } else {
        let rows = a.rows_of::<ROWS>(packed.len());
        let mut some = [false; DEPTH];
        for row in rows {
            some.iter_mut().zip(row).for_each(|(some, x)| *some |= *x != F::ZERO);
        }
        for k in 0..packed.len() {
            kept[count + 1] = k as u32;
            count += usize::from(some[k]);
        }
        for (to, k) in packed.iter_mut().zip(&kept[1..=count]) {
            *to = std::array::from_fn(|i| rows[i][*k as usize]);
        }
    }
    kept[0] = count as u32;
}

/// The slivers of a band.
#[derive(Clone, Copy)]
struct Operand<'s, F> {
    view: View<'s, F>,
    /// From one sliver to the next.
    step: usize,
    /// Which steps along k each sliver has, if not all: their number, then the list.
    kept: Option<&'s [u32]>,
}

/// Some columns of B, in rows `stride` apart.
#[derive(Clone, Copy)]
struct Panel<'s, F> {
    data: &'s [F],
    stride: usize,
}

/// The columns of a tile of C, in rows `stride` apart.
#[derive(Clone, Copy)]
struct Place {
    left: usize,
    width: usize,
    stride: usize,
}

/// The tiles of a band and a panel.
struct Tiles<'s, F> {
    a: Operand<'s, F>,
    depth: usize,
    b: Panel<'s, F>,
    start: Start<'s, F>,
    c: &'s mut [F],
    place: Place,
}

/// Picks the tile's size.
#[inline(always)]
fn tiles_of<F: Scalar, S: Simd>(simd: S, band: Band, tiles: Tiles<'_, F>) {
    macro_rules! choose {
        ($($width:literal: $($height:literal)*;)*) => {
            match (tiles.place.width / F::lanes::<S>(), band.height) {
                $($(($width, $height) => {
                    run_tiles::<F, S, $height, $width>(simd, band.count, tiles)
                })*)*
                _ => unreachable!("no tile of this size"),
            }
        };
    }
    if S::REGISTER_COUNT >= MANY_REGISTERS && tiles.place.width > 2 * F::lanes::<S>() {
        choose!(5: 1 2 3 4 5; 4: 1 2 3 4 5 6; 3: 1 2 3 4 5;);
    } else {
        choose!(2: 1 2 3 4 5 6 7 8; 1: 1 2 3 4 5 6 7 8; 0: 1 2 3 4 5 6 7 8;);
    }
}

/// A function of its own for each size, so that each has all registers.
#[inline(never)]
fn run_tiles<F: Scalar, S: Simd, const ROWS: usize, const VECTORS: usize>(
    simd: S,
    slivers: usize,
    tiles: Tiles<'_, F>,
) {
    simd.vectorize(
        #[inline(always)]
        || {
            let Tiles { a, depth, b, start, c, place } = tiles;
            for s in 0..slivers {
                let view = View { data: &a.view.data[s * a.step..], ..a.view };
                let steps = match a.kept {
                    None => &ALL[..depth],
                    Some(kept) => {
                        let kept = &kept[s * (depth + 2)..];
                        &kept[1..=kept[0] as usize]
                    }
                };
                let c = &mut c[s * ROWS * place.stride..];
                if VECTORS == 0 {
                    edge_tile::<F, S, ROWS>(simd, view, steps, b, start, c, place);
                } else {
                    tile::<F, S, ROWS, VECTORS>(simd, view, steps, b, start, c, place);
                }
            }
        },
    );
}

/// A tile of ROWS x VECTORS registers.
#[inline(always)]
fn tile<F: Scalar, S: Simd, const ROWS: usize, const VECTORS: usize>(
    simd: S,
    a: View<'_, F>,
    steps: &[u32],
    b: Panel<'_, F>,
    start: Start<'_, F>,
    c: &mut [F],
    place: Place,
) {
    let mut sums = load::<F, S, ROWS, VECTORS>(simd, start, c, place);
    if a.transposed {
        for (column, k) in a.data.chunks(a.stride).zip(steps) {
            let column = &column[..ROWS];
            let b = &b.data[*k as usize * b.stride..];
            accumulate::<F, S, ROWS, VECTORS>(simd, &mut sums, |i| column[i], b);
        }
    } else {
        let rows = a.rows_of::<ROWS>(steps.len());
        for (k, b) in (0..steps.len()).zip(b.data.chunks(b.stride)) {
            accumulate::<F, S, ROWS, VECTORS>(simd, &mut sums, |i| rows[i][k], b);
        }
    }
    store::<F, S, ROWS, VECTORS>(sums, c, place);
}

type Sums<F, S, const ROWS: usize, const VECTORS: usize> =
    [[<F as Scalar>::Vector<S>; VECTORS]; ROWS];

#[inline(always)]
fn load<F: Scalar, S: Simd, const ROWS: usize, const VECTORS: usize>(
    simd: S,
    start: Start<'_, F>,
    c: &[F],
    place: Place,
) -> Sums<F, S, ROWS, VECTORS> {
    let mut sums = [[F::splat(simd, F::ZERO); VECTORS]; ROWS];
    for i in 0..ROWS {
        let row = match start {
            Start::Zero => continue,
            Start::Present => &c[i * place.stride + place.left..][..place.width],
            Start::Row(row) => row,
        };
        sums[i].copy_from_slice(&F::vectors::<S>(row).0[..VECTORS]);
    }
    sums
}

#[inline(always)]
fn store<F: Scalar, S: Simd, const ROWS: usize, const VECTORS: usize>(
    sums: Sums<F, S, ROWS, VECTORS>,
    c: &mut [F],
    place: Place,
) {
    for i in 0..ROWS {
        let row = &mut c[i * place.stride + place.left..][..place.width];
        F::vectors_mut::<S>(row).0[..VECTORS].copy_from_slice(&sums[i]);
    }
}

/// `sums += a b` for one step along k: a column of A and a row of B.
#[inline(always)]
fn accumulate<F: Scalar, S: Simd, const ROWS: usize, const VECTORS: usize>(
    simd: S,
    sums: &mut Sums<F, S, ROWS, VECTORS>,
    a: impl Fn(usize) -> F,
    b: &[F],
) {
    let b = &F::vectors::<S>(&b[..VECTORS * F::lanes::<S>()]).0[..VECTORS];
    let b: [F::Vector<S>; VECTORS] = std::array::from_fn(|j| b[j]);
    for i in 0..ROWS {
        let a = F::splat(simd, a(i));
        for j in 0..VECTORS {
            sums[i][j] = F::mul_add(simd, a, b[j], sums[i][j]);
        }
    }
}

/// A tile of ROWS rows that are shorter than a register.
#[inline(always)]
fn edge_tile<F: Scalar, S: Simd, const ROWS: usize>(
    simd: S,
    a: View<'_, F>,
    steps: &[u32],
    b: Panel<'_, F>,
    start: Start<'_, F>,
    c: &mut [F],
    place: Place,
) {
    let mut sums = [F::splat(simd, F::ZERO); ROWS];
    for i in 0..ROWS {
        sums[i] = match start {
            Start::Zero => sums[i],
            Start::Present => {
                F::load_part(simd, &c[i * place.stride + place.left..][..place.width])
            }
            Start::Row(row) => F::load_part(simd, row),
        };
    }
    for (step, k) in steps.iter().enumerate() {
        let b = &b.data[*k as usize * b.stride..][..place.width];
        let b = F::load_part(simd, b);
        for i in 0..ROWS {
            let a = a.at(i, step);
            sums[i] = F::mul_add(simd, F::splat(simd, a), b, sums[i]);
        }
    }
    for i in 0..ROWS {
        F::store_part(simd, &mut c[i * place.stride + place.left..][..place.width], sums[i]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use santa::noise::{Purpose, Stream};

    fn numbers<F: Scalar>(len: usize, segment: u32) -> Vec<F> {
        let mut numbers = vec![F::ZERO; len];
        Stream::new(1, 0, Purpose::Custom(1)).normals(0, segment, 0, &mut numbers);
        numbers
    }

    /// The sum as the documentation has it.
    fn reference<F: Scalar>([m, n, k]: [usize; 3], a: View<'_, F>, b: &[F], start: &[F]) -> Vec<F> {
        let mut c = start.to_vec();
        for i in 0..m {
            for j in 0..n {
                for l in 0..k {
                    let x = a.at(i, l);
                    c[i * n + j] = x.fma(b[l * n + j], c[i * n + j]);
                }
            }
        }
        c
    }

    fn products_match_the_reference<F: Scalar>() {
        let sizes = [
            1,
            2,
            3,
            5,
            7,
            8,
            10,
            16,
            17,
            31,
            33,
            48,
            64,
            65,
            80,
            88,
            130,
            1030,
            DEPTH + 3,
            2 * DEPTH,
        ];
        for (case, size) in (0u64..400).map(|case| {
            let at = |axis| {
                let limit = if axis == 2 { sizes.len() } else { sizes.len() - 2 };
                sizes[Stream::new(2, 0, Purpose::Custom(1)).below(case, axis, 0, limit as u64)
                    as usize]
            };
            (case, [at(0), at(1), at(2)])
        }) {
            let [m, n, k] = size;
            let mut a = numbers::<F>(m * k, 0);
            if case % 3 == 0 {
                a.iter_mut().for_each(|x| *x = if *x < F::ONE { F::ZERO } else { *x });
            }
            let b = numbers::<F>(k * n, 1);
            let row = numbers::<F>(n, 2);
            let before = numbers::<F>(m * n, 3);
            let view = if case % 2 == 0 { View::rows(&a, k) } else { View::columns(&a, m) };
            for start in [Start::Zero, Start::Present, Start::Row(&row)] {
                let begin = match start {
                    Start::Zero => vec![F::ZERO; m * n],
                    Start::Present => before.clone(),
                    Start::Row(row) => row.repeat(m),
                };
                let expected = reference(size, view, &b, &begin);
                for skip_zeros in [false, true] {
                    let mut c = before.clone();
                    multiply(size, view, &b, start, &mut c, skip_zeros);
                    assert!(c == expected, "{size:?}, case {case}: not the same bits");
                }
            }
        }
    }

    #[test]
    fn products_have_the_bits_of_the_plain_sum_in_single_precision() {
        products_match_the_reference::<f32>();
    }

    #[test]
    fn products_have_the_bits_of_the_plain_sum_in_double_precision() {
        products_match_the_reference::<f64>();
    }

    #[test]
    fn an_empty_sum_is_what_it_starts_from() {
        let mut c = [5.0f64; 6];
        multiply([2, 3, 0], View::rows(&[], 0), &[], Start::Row(&[1.0, 2.0, 3.0]), &mut c, false);
        assert_eq!(c, [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
        multiply([2, 3, 0], View::rows(&[], 0), &[], Start::Zero, &mut c, true);
        assert_eq!(c, [0.0; 6]);
    }
}
