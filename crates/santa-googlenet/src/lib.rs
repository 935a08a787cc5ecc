//! GoogLeNet, trained by Santa or by SGD with momentum.
