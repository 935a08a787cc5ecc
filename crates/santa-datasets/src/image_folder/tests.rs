//! On a folder of small images made here.

use super::decode::decode;
use super::*;
use image::codecs::jpeg::JpegEncoder;
use image::{DynamicImage, ImageFormat, RgbImage};
use std::io::Cursor;
use std::num::NonZero;
use std::sync::Arc;

/// A folder that is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = format!("santa-datasets-images-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }
    fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.0.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Pixel (x, y) is (x, y, blue).
fn picture(width: u32, height: u32, blue: u8) -> RgbImage {
    RgbImage::from_fn(width, height, |x, y| image::Rgb([x as u8, y as u8, blue]))
}

fn png(picture: &RgbImage) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    picture.write_to(&mut bytes, ImageFormat::Png).unwrap();
    bytes.into_inner()
}

fn jpeg(picture: &RgbImage) -> Vec<u8> {
    const QUALITY: u8 = 95;
    let mut bytes = Vec::new();
    JpegEncoder::new_with_quality(&mut bytes, QUALITY).encode_image(picture).unwrap();
    bytes
}

fn example(name: &str) -> Folder {
    let folder = Folder::new(name);
    for i in 0..6 {
        folder.write(&format!("tulip/{i}.png"), &png(&picture(20, 12, i)));
        folder.write(&format!("daisy/{i}.JPG"), &jpeg(&picture(17, 30, 100 + i)));
    }
    folder.write("daisy/notes.txt", b"not an image");
    folder.write("daisy/.hidden.png", b"neither");
    folder.write("readme.png", b"not in a class");
    folder
}

fn crop(height: u32, width: u32, place: Place) -> Transform {
    Transform { crop: Some(Crop { height, width, place }), ..Transform::default() }
}

fn load(folder: &ImageFolder, i: u32, transform: &Transform, epoch: u64) -> Vec<u8> {
    let mut out = Vec::new();
    folder.load(i, transform, epoch, &mut out).unwrap();
    out
}

#[test]
fn classes_and_images_are_in_the_order_of_their_names() {
    let folder = example("order");
    let images = ImageFolder::open(&folder.0).unwrap();
    assert_eq!(images.classes(), ["daisy", "tulip"]);
    assert_eq!(images.len(), 12);
    assert!(images.path(0).ends_with("daisy/0.JPG") && images.path(11).ends_with("tulip/5.png"));
    assert_eq!((images.label(5), images.label(6)), (0, 1));
}

#[test]
fn a_folder_without_images_is_refused() {
    let folder = Folder::new("empty");
    folder.write("class/notes.txt", b"");
    let text = ImageFolder::open(&folder.0).unwrap_err().to_string();
    assert!(text.contains("a sub-folder for each class"), "{text}");
    assert!(
        ImageFolder::open(folder.0.join("nowhere")).unwrap_err().to_string().contains("listing")
    );
}

#[test]
fn the_middle_is_cropped_to_the_pixel() {
    let folder = example("centre");
    let images = ImageFolder::open(&folder.0).unwrap();
    // 20 x 12 pixels: columns from 9, rows from 5.
    let pixels = load(&images, 6, &crop(2, 2, Place::Centre), 0);
    assert_eq!(pixels, [9, 5, 0, 10, 5, 0, 9, 6, 0, 10, 6, 0]);
    let too_large = crop(13, 2, Place::Centre);
    let error = images.load(6, &too_large, 0, &mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains("0.png: 20 x 12 pixels are too few"), "{error}");
}

#[test]
fn random_crops_are_everywhere_and_follow_seed_epoch_and_index() {
    let folder = example("random");
    let images = ImageFolder::open(&folder.0).unwrap();
    let transform = Transform { seed: 1, ..crop(1, 1, Place::Random) };
    let mut columns = [false; 20];
    let mut rows = [false; 12];
    for epoch in 0..400 {
        let pixel = load(&images, 6, &transform, epoch);
        columns[usize::from(pixel[0])] = true;
        rows[usize::from(pixel[1])] = true;
    }
    assert!(columns.iter().chain(&rows).all(|seen| *seen));
    // Enough draws that they do not agree by chance.
    let draw = |transform: &Transform, i, from| -> Vec<Vec<u8>> {
        (from..from + 10).map(|epoch| load(&images, i, transform, epoch)[..2].to_vec()).collect()
    };
    let base = draw(&transform, 6, 0);
    assert_eq!(draw(&transform, 6, 0), base);
    assert_ne!(draw(&transform, 7, 0), base);
    assert_ne!(draw(&transform, 6, 10), base);
    assert_ne!(draw(&Transform { seed: 2, ..transform }, 6, 0), base);
}

#[test]
fn every_other_image_is_mirrored_left_to_right() {
    let folder = example("flip");
    let images = ImageFolder::open(&folder.0).unwrap();
    let plain = crop(12, 20, Place::Centre);
    let flipped = Transform { flip: true, ..plain };
    let straight = load(&images, 6, &plain, 0);
    let mirror: Vec<u8> = straight
        .chunks(20 * 3)
        .flat_map(|row| row.rchunks(3).flatten().copied().collect::<Vec<u8>>())
        .collect();
    let epochs = 200;
    let mirrored = (0..epochs)
        .filter(|epoch| {
            let pixels = load(&images, 6, &flipped, *epoch);
            assert!(pixels == straight || pixels == mirror);
            pixels == mirror
        })
        .count();
    // Binomial with probability 1/2: 100 with a deviation of 7; six of those are allowed.
    assert!((58..=142).contains(&mirrored), "{mirrored}");
}

#[test]
fn a_resized_image_keeps_its_gradient() {
    let folder = example("resize");
    let images = ImageFolder::open(&folder.0).unwrap();
    let transform = Transform {
        resize: Some(Resize::Covering { height: 6, width: 6 }),
        ..crop(6, 10, Place::Centre)
    };
    let pixels = load(&images, 6, &transform, 0);
    // A new pixel covers two old ones, in both directions.
    for (i, pixel) in pixels.chunks(3).enumerate() {
        let (x, y) = ((i % 10) as f64, (i / 10) as f64);
        assert!((f64::from(pixel[0]) - (2.0 * x + 0.5)).abs() <= 1.0, "{pixel:?}");
        assert!((f64::from(pixel[1]) - (2.0 * y + 0.5)).abs() <= 1.0, "{pixel:?}");
    }
    let exact = Transform {
        resize: Some(Resize::Exact { height: 3, width: 5 }),
        grey: true,
        ..Transform::default()
    };
    assert_eq!(exact.shape().unwrap(), [3, 5, 1]);
    assert_eq!(load(&images, 0, &exact, 0).len(), 15);
}

#[test]
fn transforms_without_one_size_are_refused() {
    assert!(Transform::default().shape().is_err());
    assert!(
        Transform {
            resize: Some(Resize::Covering { height: 8, width: 8 }),
            ..Transform::default()
        }
        .shape()
        .is_err()
    );
    assert!(Transform::covering(0, 8).is_err());
    assert!(Transform::covering(u32::MAX, u32::MAX).is_err());
    let none = Transform {
        resize: Some(Resize::Covering { height: 1, width: 0 }),
        ..crop(1, 1, Place::Centre)
    };
    assert!(none.shape().is_err());
}

#[test]
fn jpeg_comes_close_to_the_picture() {
    let original = picture(40, 40, 50);
    let decoded = decode(Path::new("it.jpg"), &jpeg(&original)).unwrap().into_rgb8();
    let close = |(a, b): (&u8, &u8)| a.abs_diff(*b) <= 12;
    assert!(original.iter().zip(decoded.iter()).all(close));
}

#[test]
fn every_truncation_is_refused_with_the_name_of_the_file() {
    let picture = picture(24, 24, 9);
    for whole in [png(&picture), jpeg(&picture)] {
        // A PNG whose last, empty chunk is missing has all its pixels.
        const END_CHUNK: usize = 12;
        for end in 0..whole.len() - END_CHUNK {
            let error = decode(Path::new("it"), &whole[..end]).map(|_| end).unwrap_err();
            assert!(error.to_string().starts_with("image it: "));
        }
    }
}

#[test]
fn the_end_of_a_thumbnail_is_not_the_end_of_a_jpeg() {
    let whole = jpeg(&picture(24, 24, 9));
    let thumbnail = jpeg(&picture(4, 4, 9));
    // As metadata, right behind the start of the image.
    let length = (thumbnail.len() as u16 + 2).to_be_bytes();
    let bytes = [&whole[..2], &[0xff, 0xe1], &length, &thumbnail, &whole[2..]].concat();
    decode(Path::new("it.jpg"), &bytes).unwrap();
    let cut = &bytes[..bytes.len() - 20];
    assert!(decode(Path::new("it.jpg"), cut).unwrap_err().to_string().contains("end early"));
}

#[test]
fn images_larger_than_their_file_can_hold_are_refused() {
    let mut bytes = png(&picture(24, 24, 9));
    // Width and height are the first numbers of the first chunk, whose checksum follows them.
    const WIDTH: usize = 16;
    const HEADER: std::ops::Range<usize> = 12..29;
    for side in [4_000u32, 40_000] {
        bytes[WIDTH..WIDTH + 4].copy_from_slice(&side.to_be_bytes());
        bytes[WIDTH + 4..WIDTH + 8].copy_from_slice(&side.to_be_bytes());
        let mut crc = flate2::Crc::new();
        crc.update(&bytes[HEADER]);
        bytes[HEADER.end..HEADER.end + 4].copy_from_slice(&crc.sum().to_be_bytes());
        let error = decode(Path::new("it.png"), &bytes).unwrap_err().to_string();
        let expected = if side == 4_000 { "cannot be in" } else { "at most" };
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn an_image_that_would_be_resized_beyond_bounds_is_refused() {
    let folder = Folder::new("thin");
    folder.write("class/a-line.png", &png(&picture(MAX_SIDE, 1, 0)));
    folder.write("class/thin.png", &png(&picture(160, 10, 0)));
    let images = ImageFolder::open(&folder.0).unwrap();
    for side in [64, 500] {
        let transform = Transform::covering(side, side).unwrap();
        let error = images.load(0, &transform, 0, &mut Vec::new()).unwrap_err().to_string();
        let size = format!("would be {} x {side} when resized", MAX_SIDE * side);
        assert!(error.contains("a-line.png") && error.contains(&size), "{error}");
    }
    // Sides of 16 to 1 may grow to any size.
    assert_eq!(load(&images, 1, &Transform::covering(64, 64).unwrap(), 0).len(), 64 * 64 * 3);
    // One line becomes a square at no such cost.
    let square = Resize::Exact { height: 8, width: 8 };
    let exact = Transform { resize: Some(square), ..Transform::default() };
    assert_eq!(load(&images, 0, &exact, 0).len(), 8 * 8 * 3);
}

fn requests(epochs: u64) -> Vec<Request> {
    (0..epochs)
        .flat_map(|epoch| {
            [vec![11, 0, 3], vec![5, 6, 7], vec![1, 2, 10], vec![4]]
                .map(|indices| Request { epoch, indices })
        })
        .collect()
}

fn prefetch(images: &ImageFolder, threads: usize) -> Prefetcher<std::vec::IntoIter<Request>> {
    let transform = Transform::covering(8, 8).unwrap().random();
    let threads = NonZero::new(threads).unwrap();
    Prefetcher::new(images.clone(), transform, requests(5), threads).unwrap()
}

#[test]
fn batches_come_in_order_and_do_not_depend_on_the_number_of_threads() {
    let folder = example("threads");
    let images = ImageFolder::open(&folder.0).unwrap();
    let alone: Vec<ImageBatch> = prefetch(&images, 1).map(|batch| batch.unwrap()).collect();
    let order: Vec<Request> = alone
        .iter()
        .map(|batch| Request { epoch: batch.epoch, indices: batch.indices.clone() })
        .collect();
    assert_eq!(order, requests(5));
    assert_eq!(alone[0].labels, [1, 0, 0]);
    assert_eq!(alone[0].pixels.len(), 3 * 8 * 8 * 3);
    assert_ne!(alone[0].pixels, alone[4].pixels, "another epoch");
    for threads in [2, 5] {
        let together: Vec<ImageBatch> = prefetch(&images, threads).map(|b| b.unwrap()).collect();
        assert_eq!(together, alone);
    }
}

#[test]
fn no_more_batches_are_requested_ahead_than_two_a_thread() {
    let folder = example("bounded");
    let images = ImageFolder::open(&folder.0).unwrap();
    let requested = std::cell::Cell::new(0);
    let counted = requests(5).into_iter().inspect(|_| requested.set(requested.get() + 1));
    let transform = Transform::covering(8, 8).unwrap();
    let mut batches =
        Prefetcher::new(images, transform, counted, NonZero::new(3).unwrap()).unwrap();
    assert_eq!(requested.get(), 6);
    batches.next().unwrap().unwrap();
    assert_eq!(requested.get(), 7);
}

#[test]
fn dropped_early_it_ends_its_threads() {
    let folder = example("drop");
    let images = Arc::new(ImageFolder::open(&folder.0).unwrap());
    let transform = Transform::covering(8, 8).unwrap();
    for taken in 0..3 {
        let requests = requests(100);
        let threads = NonZero::new(4).unwrap();
        let mut batches =
            Prefetcher::new(Arc::clone(&images), transform, requests, threads).unwrap();
        assert!(batches.by_ref().take(taken).all(|batch| batch.is_ok()));
        drop(batches);
        assert_eq!(Arc::strong_count(&images), 1, "no thread has the folder any more");
    }
}

#[test]
fn a_broken_image_is_an_error_of_its_batch_only() {
    let folder = example("broken");
    folder.write("tulip/1.png", b"\x89PNG\r\n\x1a\nno more");
    let images = ImageFolder::open(&folder.0).unwrap();
    for (batch, request) in prefetch(&images, 2).zip(requests(5)) {
        if request.indices.contains(&7) {
            assert!(batch.unwrap_err().to_string().contains("1.png: "));
        } else {
            assert_eq!(batch.unwrap().indices, request.indices);
        }
    }
    let wrong = [Request { epoch: 0, indices: vec![12] }];
    let transform = Transform::covering(8, 8).unwrap();
    let mut batches = Prefetcher::new(images, transform, wrong, NonZero::<usize>::MIN).unwrap();
    assert!(batches.next().unwrap().unwrap_err().to_string().contains("there are 12 images"));
    assert!(batches.next().is_none());
}

#[test]
fn grey_and_deep_images_become_bytes() {
    let deep =
        DynamicImage::ImageLuma16(image::ImageBuffer::from_pixel(3, 2, image::Luma([0x8000])));
    let mut bytes = Cursor::new(Vec::new());
    deep.write_to(&mut bytes, ImageFormat::Png).unwrap();
    let folder = Folder::new("deep");
    folder.write("class/a.png", bytes.get_ref());
    let images = ImageFolder::open(&folder.0).unwrap();
    assert_eq!(load(&images, 0, &crop(1, 1, Place::Centre), 0), [128; 3]);
}
