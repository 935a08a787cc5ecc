//! Sizes of images and of the windows that slide over them.

/// An image: rows of pixels, the channels of a pixel next to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    /// Rows.
    pub height: usize,
    /// Pixels of a row.
    pub width: usize,
    /// Elements of a pixel.
    pub channels: usize,
}

impl Image {
    /// Number of pixels.
    pub fn pixels(&self) -> usize {
        self.height * self.width
    }
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.pixels() * self.channels
    }
    /// Elements of a row.
    pub fn row(&self) -> usize {
        self.width * self.channels
    }
}

/// A window that slides over an image; each array is vertical, then horizontal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// Rows and columns that it covers.
    pub size: [usize; 2],
    /// Pixels from one place to the next.
    pub stride: [usize; 2],
    /// Rows and columns of zeros before and after the image.
    pub padding: [usize; 2],
}

impl Window {
    /// A window that touches each pixel once.
    pub fn tiling(size: [usize; 2]) -> Self {
        Window { size, stride: size, padding: [0, 0] }
    }

    /// What sliding over an image yields, one pixel for each place; `None` if there is no place, or
    /// if a size or a stride is zero.
    pub fn output(&self, image: Image, channels: usize) -> Option<Image> {
        let places = |axis: usize, extent: usize| {
            let free = (extent + 2 * self.padding[axis]).checked_sub(self.size[axis])?;
            (self.size[axis] > 0).then_some(free.checked_div(self.stride[axis])? + 1)
        };
        Some(Image { height: places(0, image.height)?, width: places(1, image.width)?, channels })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_does_not_fit_has_no_output() {
        let image = Image { height: 4, width: 5, channels: 1 };
        let window = |size, stride, padding| Window { size, stride, padding };
        let places = |window: Window| window.output(image, 2).map(|o| [o.height, o.width]);
        assert_eq!(places(window([3, 3], [1, 1], [0, 0])), Some([2, 3]));
        assert_eq!(places(window([3, 3], [2, 2], [1, 0])), Some([2, 2]));
        assert_eq!(places(window([5, 5], [1, 1], [0, 0])), None);
        assert_eq!(places(window([5, 5], [1, 1], [1, 0])), Some([2, 1]));
        assert_eq!(places(window([0, 1], [1, 1], [0, 0])), None);
        assert_eq!(places(window([1, 1], [1, 0], [0, 0])), None);
        assert_eq!(places(Window::tiling([2, 2])), Some([2, 2]));
    }
}
