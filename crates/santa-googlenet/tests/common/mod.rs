//! A small set of generated images: stripes, checks and discs.

use std::path::Path;

use image::{Rgb, RgbImage};
use santa::noise::{Purpose, Stream};
use tempfile::TempDir;

pub const CLASSES: [&str; 4] = ["checks", "disc", "level", "upright"];

/// Writes `train` and `val` images of each class; without any, the folder is not there.
pub fn folder(train: u32, val: u32) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (part, range) in [("train", 0..train), ("val", train..train + val)] {
        for (class, name) in CLASSES.iter().enumerate().filter(|_| !range.is_empty()) {
            let class_folder = folder.path().join(part).join(name);
            std::fs::create_dir_all(&class_folder).unwrap();
            for image in range.clone() {
                write(&class_folder.join(format!("{image:03}.png")), class, image);
            }
        }
    }
    folder
}

/// One image: the pattern of a class at a random place, in two random shades, with some noise.
fn write(path: &Path, class: usize, image: u32) {
    const SIDE: u32 = 74;
    const PERIOD: u32 = 16;
    let draw =
        |index| Stream::new(9, 0, Purpose::Data).uniform(u64::from(image), class as u32, index);
    let (dx, dy) = ((draw(0) * f64::from(PERIOD)) as u32, (draw(1) * f64::from(PERIOD)) as u32);
    let shades = [20.0 + 80.0 * draw(2), 150.0 + 80.0 * draw(3)];
    let mut noise = vec![0.0f32; (SIDE * SIDE) as usize];
    Stream::new(10, 0, Purpose::Data).normals(u64::from(image), class as u32, 0, &mut noise);
    let picture = RgbImage::from_fn(SIDE, SIDE, |x, y| {
        let stripe = |z: u32| z / (PERIOD / 2) % 2;
        let on = match CLASSES[class] {
            "checks" => stripe(x + dx) ^ stripe(y + dy),
            "level" => stripe(y + dy),
            "upright" => stripe(x + dx),
            _ => {
                let centre = f64::from(SIDE) / 2.0 - f64::from(PERIOD) / 2.0;
                let (x, y) = (f64::from(x) - centre, f64::from(y) - centre);
                u32::from((x - f64::from(dx)).hypot(y - f64::from(dy)) < 20.0)
            }
        };
        let grain = f64::from(noise[(y * SIDE + x) as usize]);
        let level = (shades[on as usize] + 10.0 * grain).clamp(0.0, 255.0) as u8;
        Rgb([level; 3])
    });
    picture.save(path).unwrap();
}
