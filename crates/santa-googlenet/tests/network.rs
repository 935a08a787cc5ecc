//! Shapes, sizes, loss and gradients of the network.

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};
use santa::noise::{Purpose, Stream};
use santa_googlenet::{AUXILIARY_WEIGHT, GoogLeNetConfig, cross_entropy};

fn images(seed: u64, shape: [usize; 4], device: &Device) -> Tensor<4> {
    let mut values = vec![0.0f32; shape.iter().product()];
    Stream::new(seed, 0, Purpose::Data).normals(0, 0, 0, &mut values);
    // About the spread of pixels in 0 to 255.
    values.iter_mut().for_each(|x| *x *= 60.0);
    Tensor::from_data(TensorData::new(values, shape), device)
}

fn scalar(x: Tensor<1>) -> f64 {
    f64::from(x.try_into_vec_as::<f32>().unwrap()[0])
}

/// Szegedy et al. 2014, table 1, column "output size".
#[test]
fn every_stage_has_the_published_shape() {
    let device = Device::flex();
    let network = GoogLeNetConfig::default().init(1, &device).unwrap();
    let stages = network.stages(images(1, [1, 3, 224, 224], &device));
    let published = [
        ("conv1", [112, 112, 64]),
        ("pool1", [56, 56, 64]),
        ("conv2", [56, 56, 192]),
        ("pool2", [28, 28, 192]),
        ("inception_3a", [28, 28, 256]),
        ("inception_3b", [28, 28, 480]),
        ("pool3", [14, 14, 480]),
        ("inception_4a", [14, 14, 512]),
        ("inception_4b", [14, 14, 512]),
        ("inception_4c", [14, 14, 512]),
        ("inception_4d", [14, 14, 528]),
        ("inception_4e", [14, 14, 832]),
        ("pool4", [7, 7, 832]),
        ("inception_5a", [7, 7, 832]),
        ("inception_5b", [7, 7, 1024]),
    ];
    assert_eq!(stages.len(), published.len());
    for ((name, [batch, channels, height, width]), expected) in stages.into_iter().zip(published) {
        assert_eq!((name, [height, width, channels]), expected);
        assert_eq!(batch, 1);
    }
    let logits = network.forward(images(2, [2, 3, 224, 224], &device));
    assert_eq!(logits.dims(), [2, 1000]);
}

fn conv(inputs: usize, outputs: usize, kernel: usize) -> usize {
    (inputs * kernel * kernel + 1) * outputs
}

/// A module's parameters from the row of table 1.
fn inception(inputs: usize, [a, b, c, d, e, f]: [usize; 6]) -> usize {
    conv(inputs, a, 1)
        + conv(inputs, b, 1)
        + conv(b, c, 3)
        + conv(inputs, d, 1)
        + conv(d, e, 5)
        + conv(inputs, f, 1)
}

fn auxiliary(inputs: usize) -> usize {
    conv(inputs, 128, 1) + (128 * 4 * 4 + 1) * 1024 + (1024 + 1) * 1000
}

#[test]
fn the_parameters_are_as_many_as_in_caffes_network() {
    let trunk = conv(3, 64, 7)
        + conv(64, 64, 1)
        + conv(64, 192, 3)
        + inception(192, [64, 96, 128, 16, 32, 32])
        + inception(256, [128, 128, 192, 32, 96, 64])
        + inception(480, [192, 96, 208, 16, 48, 64])
        + inception(512, [160, 112, 224, 24, 64, 64])
        + inception(512, [128, 128, 256, 24, 64, 64])
        + inception(512, [112, 144, 288, 32, 64, 64])
        + inception(528, [256, 160, 320, 32, 128, 128])
        + inception(832, [256, 160, 320, 32, 128, 128])
        + inception(832, [384, 192, 384, 48, 128, 128]);
    let main = trunk + (1024 + 1) * 1000;
    let all = main + auxiliary(512) + auxiliary(528);
    assert_eq!(main, 6_998_552);
    assert_eq!(all, 13_378_280);

    let network = GoogLeNetConfig::default().init(1, &Device::flex()).unwrap();
    assert_eq!(network.num_params(), all);
    let parameters = network.parameters();
    let without_auxiliary: usize = parameters
        .iter()
        .filter(|(path, _)| !path.starts_with("loss1") && !path.starts_with("loss2"))
        .map(|(_, count)| count)
        .sum();
    assert_eq!(without_auxiliary, main);
    // 57 convolutions, the classifier, and three layers in each auxiliary part.
    assert_eq!(parameters.iter().filter(|(path, _)| path.ends_with(".bias")).count(), 64);
    assert_eq!(parameters[0], ("conv1.weight".into(), 3 * 7 * 7 * 64));
    assert!(parameters.contains(&("inception_4c.conv5x5_reduce.bias".into(), 24)));
}

#[test]
fn weights_are_xavier_and_biases_constant() {
    let network = GoogLeNetConfig::default().init(3, &Device::flex()).unwrap();
    struct Check(Vec<String>);
    impl burn::module::ModuleVisitor for Check {
        fn enter_module(&mut self, name: &str, _: &str) {
            self.0.push(name.into());
        }
        fn exit_module(&mut self, _: &str, _: &str) {
            self.0.pop();
        }
        fn visit_float<const D: usize>(&mut self, param: &burn::module::Param<Tensor<D>>) {
            let path = self.0.join(".");
            let values: Vec<f32> = param.val().try_into_vec_as().unwrap();
            if path.ends_with("bias") {
                let classifier = path.ends_with("classifier.bias") || path == "loss3.bias";
                let expected = if classifier { 0.0 } else { 0.2 };
                assert!(values.iter().all(|x| *x == expected), "{path}");
                return;
            }
            let dims = param.dims();
            let fan_in: usize = if D == 2 { dims[0] } else { dims[1..].iter().product() };
            let bound = (3.0 / fan_in as f32).sqrt();
            let variance = values.iter().map(|x| f64::from(x * x)).sum::<f64>()
                / values.len() as f64
                * fan_in as f64;
            assert!(values.iter().all(|x| x.abs() <= bound), "{path}");
            // The square of a uniform variable of variance 1 has variance 4/5.
            let z = (variance - 1.0) / (0.8 / values.len() as f64).sqrt();
            assert!(z.abs() < 5.0, "{path}: {variance}, z = {z}");
        }
    }
    network.visit(&mut Check(Vec::new()));
}

#[test]
fn small_images_and_other_sizes_work() {
    let device = Device::flex();
    for size in [64, 75, 96, 128] {
        let config = GoogLeNetConfig { classes: 5, size, narrow: 8 };
        let network = config.init(1, &device).unwrap();
        let logits = network.forward_training(images(1, [2, 3, size, size], &device), 1, 0);
        assert_eq!(logits.main.dims(), [2, 5]);
        assert_eq!(logits.auxiliary.map(|logits| logits.dims()), [[2, 5]; 2]);
    }
}

#[test]
fn sizes_that_cannot_work_are_refused_by_name() {
    let config = GoogLeNetConfig { classes: 3, size: 64, narrow: 4 };
    for (wrong, field) in [
        (GoogLeNetConfig { classes: 1, ..config }, "`classes` is 1"),
        (GoogLeNetConfig { size: 63, ..config }, "`size` is 63"),
        (GoogLeNetConfig { narrow: 0, ..config }, "`narrow` is 0"),
    ] {
        let message = wrong.init(1, &Device::flex()).unwrap_err().to_string();
        assert!(message.contains(field), "{message}");
    }
}

#[test]
fn the_loss_is_the_main_one_and_a_share_of_the_auxiliary_ones() {
    let device = Device::flex();
    let config = GoogLeNetConfig { classes: 4, size: 64, narrow: 8 };
    let network = config.init(1, &device).unwrap();
    let logits = network.forward_training(images(1, [3, 3, 64, 64], &device), 1, 0);
    let labels = Tensor::<1, Int>::from_data([0, 3, 1], &device);

    // The cross-entropy from its definition, in double precision.
    let reference = |logits: &Tensor<2>| -> f64 {
        let rows: Vec<f32> = logits.clone().try_into_vec_as().unwrap();
        let negative: f64 = rows
            .chunks(4)
            .zip([0, 3, 1])
            .map(|(row, label)| {
                let sum: f64 = row.iter().map(|x| f64::from(*x).exp()).sum();
                sum.ln() - f64::from(row[label])
            })
            .sum();
        negative / 3.0
    };
    let main = reference(&logits.main);
    let [first, second] = [0, 1].map(|i| reference(&logits.auxiliary[i]));
    assert!((scalar(cross_entropy(logits.main.clone(), labels.clone())) - main).abs() < 1e-4);
    let loss = scalar(logits.loss(labels));
    assert!((loss - (main + 0.3 * first + 0.3 * second)).abs() < 1e-4);
    assert_eq!(AUXILIARY_WEIGHT, 0.3);
}
