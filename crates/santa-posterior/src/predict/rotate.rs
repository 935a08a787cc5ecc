//! Images turned about their middle.

use crate::error::{Error, Result};

/// Square grey images, one after the other, each turned anticlockwise by some degrees.
///
/// A pixel of the result is interpolated between the four that surround its origin (bilinear); what
/// lies outside is black (0). Multiples of 90 degrees only move pixels.
///
/// ```
/// use santa_posterior::predict::rotate;
///
/// let image = [
///     1, 2, //
///     3, 4,
/// ];
/// assert_eq!(rotate(&image, 2, 90.0)?, [2, 4, 1, 3]);
/// # Ok::<(), santa_posterior::Error>(())
/// ```
pub fn rotate(images: &[u8], side: usize, degrees: f64) -> Result<Vec<u8>> {
    if !degrees.is_finite() {
        return Err(Error::setting("degrees", degrees, "it must be finite"));
    }
    let Some(size) = side.checked_mul(side).filter(|size| *size > 0) else {
        return Err(Error::setting("side", side, "an image has at least one pixel"));
    };
    if !images.len().is_multiple_of(size) {
        return Err(Error::data(format!(
            "{} bytes are no images of {side} x {side} pixels",
            images.len()
        )));
    }
    let (sin, cos) = exact_sin_cos(degrees);
    // Where the pixels of the result come from; the same for every image.
    let middle = (side - 1) as f64 / 2.0;
    let origins: Vec<Origin> = (0..size)
        .map(|i| {
            let (right, down) = ((i % side) as f64 - middle, (i / side) as f64 - middle);
            Origin::at(middle + cos * right - sin * down, middle + sin * right + cos * down, side)
        })
        .collect();
    Ok(images
        .chunks_exact(size)
        .flat_map(|image| origins.iter().map(|origin| origin.of(image)))
        .collect())
}

/// Sine and cosine; without an error at multiples of 90 degrees.
fn exact_sin_cos(degrees: f64) -> (f64, f64) {
    let degrees = degrees.rem_euclid(360.0);
    match degrees {
        0.0 | 360.0 => (0.0, 1.0),
        90.0 => (1.0, 0.0),
        180.0 => (0.0, -1.0),
        270.0 => (-1.0, 0.0),
        _ => degrees.to_radians().sin_cos(),
    }
}

/// Up to four pixels of an image, with weights; those outside have none.
struct Origin([(usize, f64); 4]);

impl Origin {
    fn at(x: f64, y: f64, side: usize) -> Self {
        let (left, top) = (x.floor(), y.floor());
        let (right_share, bottom_share) = (x - left, y - top);
        Origin(
            [
                (left, top, (1.0 - right_share) * (1.0 - bottom_share)),
                (left + 1.0, top, right_share * (1.0 - bottom_share)),
                (left, top + 1.0, (1.0 - right_share) * bottom_share),
                (left + 1.0, top + 1.0, right_share * bottom_share),
            ]
            .map(|(x, y, weight)| {
                let inside = |z: f64| z >= 0.0 && z < side as f64;
                match inside(x) && inside(y) {
                    true => (y as usize * side + x as usize, weight),
                    false => (0, 0.0),
                }
            }),
        )
    }

    fn of(&self, image: &[u8]) -> u8 {
        let value: f64 = self.0.iter().map(|(i, weight)| weight * f64::from(image[*i])).sum();
        value.round() as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use santa::noise::{Purpose, Stream};

    const SIDE: usize = 9;

    fn image(case: u64) -> Vec<u8> {
        let stream = Stream::new(1, 0, Purpose::Custom(4));
        (0..(SIDE * SIDE) as u32).map(|i| stream.below(case, 0, i, 256) as u8).collect()
    }

    #[test]
    fn quarter_turns_only_move_pixels() {
        for (case, side) in [(0, SIDE), (1, 3)] {
            let image = &image(case)[..side * side];
            let turned = rotate(image, side, 90.0).unwrap();
            for (y, x) in (0..side).flat_map(|y| (0..side).map(move |x| (y, x))) {
                // The upper row becomes the left column, from the bottom up.
                assert_eq!(turned[(side - 1 - x) * side + y], image[y * side + x]);
            }
            let twice = rotate(&turned, side, 90.0).unwrap();
            assert_eq!(twice, rotate(image, side, 180.0).unwrap());
            assert!(twice.iter().eq(image.iter().rev()));
            assert_eq!(rotate(&twice, side, 180.0).unwrap(), image);
            assert_eq!(rotate(&turned, side, 270.0).unwrap(), image);
            assert_eq!(rotate(&turned, side, -90.0).unwrap(), image);
            for whole_turns in [0.0, 360.0, -720.0] {
                assert_eq!(rotate(image, side, whole_turns).unwrap(), image);
            }
        }
    }

    #[test]
    fn a_round_hill_looks_the_same_at_any_angle_and_a_bright_side_goes_round() {
        let of = |height: &dyn Fn(f64, f64) -> f64| -> Vec<u8> {
            let from_middle = |i: usize| i as f64 - (SIDE / 2) as f64;
            (0..SIDE * SIDE)
                .map(|i| height(from_middle(i % SIDE), from_middle(i / SIDE)) as u8)
                .collect()
        };
        // Next to nothing at the edges.
        let hill = of(&|x, y| 200.0 * (-(x * x + y * y) / 4.0).exp());
        let slope = of(&|x, y| (100.0 + 20.0 * x) * (-(x * x + y * y) / 4.0).exp());
        for degrees in [15.0, 45.0, 100.0, 333.3] {
            let change = |image: &[u8]| {
                let turned = rotate(image, SIDE, degrees).unwrap();
                turned.iter().zip(image).map(|(a, b)| a.abs_diff(*b)).max().unwrap()
            };
            assert!(change(&hill) < 20, "{degrees}: {}", change(&hill));
        }
        // The bright side, at the right, goes up.
        let turned = rotate(&slope, SIDE, 60.0).unwrap();
        let upper: u32 = turned[..SIDE * (SIDE / 2)].iter().map(|x| u32::from(*x)).sum();
        let lower: u32 = turned[SIDE * (SIDE / 2 + 1)..].iter().map(|x| u32::from(*x)).sum();
        assert!(upper > lower + lower / 4, "{upper} {lower}");
    }

    #[test]
    fn half_a_pixel_is_the_mean_of_four() {
        // The middle of 3 x 3 pixels stays; its neighbours at 45 degrees lie between corners.
        let image = [0, 100, 0, 100, 0, 100, 0, 100, 0];
        let turned = rotate(&image, 3, 45.0).unwrap();
        assert_eq!(turned[4], 0);
        // From (1/2)^(1/2) right and above: shares a = 0.7071 of the pixels beside and above each,
        // a (1 - a) 100 twice.
        let a = 0.5f64.sqrt();
        assert_eq!(f64::from(turned[1]), (2.0 * a * (1.0 - a) * 100.0).round());
    }

    #[test]
    fn images_are_turned_one_by_one_and_odd_sizes_are_refused() {
        let both = [image(2), image(3)].concat();
        let turned = rotate(&both, SIDE, 30.0).unwrap();
        let second = rotate(&image(3), SIDE, 30.0).unwrap();
        assert_eq!(turned[SIDE * SIDE..], second);
        assert!(rotate(&both[1..], SIDE, 30.0).is_err());
        assert!(rotate(&both, 0, 30.0).is_err());
        assert!(rotate(&both, usize::MAX, 30.0).is_err());
        assert!(rotate(&both, SIDE, f64::NAN).is_err());
        assert!(rotate(&[], SIDE, 30.0).unwrap().is_empty());
    }
}
