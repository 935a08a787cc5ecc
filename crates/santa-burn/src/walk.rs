//! Ways through a module: what its parameters are, taking their numbers out, putting them back.
//!
//! A module is visited and mapped in the same order, that of its fields, which is the order of the
//! segments in the layout.

use crate::error::{Error, Result};
use crate::memory;
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{DType, Device, GradientCheckpointingStrategy, Tensor, TensorData};
use santa::Target;

/// A parameter as the layout sees it.
pub(crate) struct Described {
    pub path: String,
    pub shape: Vec<usize>,
    pub requires_grad: bool,
}

/// Paths and shapes of a module's float parameters.
pub(crate) fn describe<M: Module>(module: &M) -> Vec<Described> {
    struct Describe {
        path: Vec<String>,
        found: Vec<Described>,
    }
    impl ModuleVisitor for Describe {
        fn enter_module(&mut self, name: &str, _: &str) {
            self.path.push(name.to_string());
        }
        fn exit_module(&mut self, _: &str, _: &str) {
            self.path.pop();
        }
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.found.push(Described {
                path: self.path.join("."),
                shape: param.lazy_shape().as_slice().to_vec(),
                requires_grad: param.is_require_grad(),
            });
        }
    }
    let mut visitor = Describe { path: Vec::new(), found: Vec::new() };
    module.visit(&mut visitor);
    visitor.found
}

/// Gradients of the moving parameters, and the numbers of those that are not in the host's memory.
pub(crate) struct Gathered {
    pub gradients: Vec<Option<TensorData>>,
    pub remote: Vec<Option<TensorData>>,
}

/// Where the gradients of a step come from.
pub(crate) trait Source {
    fn gradient<const D: usize>(&mut self, id: ParamId) -> Option<Tensor<D>>;
}

impl Source for GradientsParams {
    fn gradient<const D: usize>(&mut self, id: ParamId) -> Option<Tensor<D>> {
        self.remove(id)
    }
}

impl Source for &GradientsParams {
    fn gradient<const D: usize>(&mut self, id: ParamId) -> Option<Tensor<D>> {
        self.get(id)
    }
}

/// Checks a module against the layout and takes its gradients. On an error nothing has changed.
pub(crate) fn gather<M: Module, S: Source>(
    module: &M,
    target: &Target,
    grads: S,
    missing_is_zero: bool,
) -> Result<Gathered> {
    struct Gather<'a, S> {
        path: Vec<String>,
        target: &'a Target,
        grads: S,
        missing_is_zero: bool,
        any: bool,
        gathered: Gathered,
        error: Option<Error>,
    }
    impl<S: Source> Gather<'_, S> {
        fn one<const D: usize>(&mut self, param: &Param<Tensor<D>>) -> Result<()> {
            let path = self.path.join(".");
            let shape = param.dims().to_vec();
            let i = self.gathered.gradients.len();
            match self.target.layout().segments().get(i) {
                Some(segment) if segment.name() == path && segment.shape() == shape => {}
                other => {
                    let expected = other.map_or("nothing more".to_string(), |s| {
                        format!("`{}` of the shape {:?}", s.name(), s.shape())
                    });
                    return Err(Error::Module(format!(
                        "the module has `{path}` of the shape {shape:?} where these dynamics were \
                         built for {expected}; build them for this module"
                    )));
                }
            }
            if self.target.settings(i).frozen {
                self.gathered.gradients.push(None);
                self.gathered.remote.push(None);
                return Ok(());
            }
            let name = || format!("`{path}`");
            if param.dtype() != DType::F32 {
                return Err(Error::DType { parameter: name(), dtype: param.dtype() });
            }
            let gradient = match self.grads.gradient::<D>(param.id) {
                Some(gradient) if gradient.dims() != param.dims() => {
                    let gradient = gradient.dims().to_vec();
                    return Err(Error::Shape { parameter: name(), shape, gradient });
                }
                Some(gradient) => {
                    self.any = true;
                    memory::take_gradient(gradient.inner(), name)?
                }
                None if self.missing_is_zero => {
                    TensorData::new(vec![0f32; shape.iter().product()], shape)
                }
                None => return Err(Error::MissingGradient { parameter: path }),
            };
            let remote = match memory::is_host(&param.device()) {
                true => None,
                false => Some(memory::take_parameter(param.base().inner(), name)?),
            };
            self.gathered.gradients.push(Some(gradient));
            self.gathered.remote.push(remote);
            Ok(())
        }
    }
    impl<S: Source> ModuleVisitor for Gather<'_, S> {
        fn enter_module(&mut self, name: &str, _: &str) {
            self.path.push(name.to_string());
        }
        fn exit_module(&mut self, _: &str, _: &str) {
            self.path.pop();
        }
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if self.error.is_none() {
                self.error = self.one(param).err();
            }
        }
    }
    let gathered = Gathered { gradients: Vec::new(), remote: Vec::new() };
    let (path, error) = (Vec::new(), None);
    let mut visitor = Gather { path, target, grads, missing_is_zero, any: false, gathered, error };
    module.visit(&mut visitor);
    if let Some(error) = visitor.error {
        return Err(error);
    }
    let (found, expected) = (visitor.gathered.gradients.len(), target.layout().segments().len());
    if found != expected {
        return Err(Error::Module(format!(
            "the module has {found} parameters, these dynamics were built for {expected}; build them \
             for this module"
        )));
    }
    if !visitor.any {
        return Err(Error::Module(
            "none of the gradients belongs to this module; make them with \
             GradientsParams::from_grads from the module that is stepped"
                .into(),
        ));
    }
    Ok(visitor.gathered)
}

/// What a parameter is besides its numbers.
struct Context {
    device: Device,
    requires_grad: bool,
    distributed: bool,
    /// `None` without autodiff.
    checkpointing: Option<GradientCheckpointingStrategy>,
}

impl Context {
    fn of<const D: usize>(tensor: &Tensor<D>) -> Self {
        Context {
            device: tensor.device().inner(),
            requires_grad: tensor.is_require_grad(),
            distributed: tensor.is_distributed(),
            checkpointing: tensor.gradient_checkpointing_strategy(),
        }
    }

    fn tensor<const D: usize>(self, data: TensorData, id: ParamId) -> Tensor<D> {
        let mut tensor = memory::give_back::<D>(data, &self.device);
        if let Some(strategy) = self.checkpointing {
            tensor = Tensor::from_inner(tensor).with_gradient_checkpointing_strategy(strategy);
        }
        if self.requires_grad {
            tensor = tensor.require_grad();
        }
        if self.distributed {
            tensor = tensor.set_distributed(id);
        }
        tensor
    }
}

/// The moving parameters of a module that has been emptied of them.
pub(crate) struct Taken {
    pub theta: Vec<Option<TensorData>>,
    contexts: Vec<Option<Context>>,
}

/// Takes the moving parameters out of a module that [`gather`] has checked, leaving a tensor of one
/// element in the place of each.
pub(crate) fn take<M: Module>(
    module: &mut M,
    target: &Target,
    remote: Vec<Option<TensorData>>,
) -> Taken {
    type Reader = Box<dyn FnOnce() -> TensorData>;
    struct Take<'a> {
        target: &'a Target,
        contexts: Vec<Option<Context>>,
        readers: Vec<Option<Reader>>,
    }
    impl ModuleMapper for Take<'_> {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            if self.target.settings(self.contexts.len()).frozen {
                self.contexts.push(None);
                self.readers.push(None);
                return param;
            }
            let (id, tensor, mapper) = param.consume();
            let context = Context::of(&tensor);
            let place = Tensor::empty([1; D], (&context.device, DType::F32));
            self.contexts.push(Some(context));
            self.readers.push(Some(Box::new(move || tensor.inner().into_data())));
            Param::from_mapped_value(id, place, mapper)
        }
    }
    let mut mapper = Take { target, contexts: Vec::new(), readers: Vec::new() };
    // The clone holds the tensors, too, until it takes the module's place: then they are held by the
    // readers alone, and can be read without a copy.
    *module = module.clone().map(&mut mapper);
    let theta = mapper.readers.into_iter().zip(remote);
    let theta = theta.map(|(reader, remote)| remote.or_else(|| reader.map(|read| read())));
    Taken { theta: theta.collect(), contexts: mapper.contexts }
}

/// Puts them back.
pub(crate) fn put<M: Module>(module: &mut M, taken: Taken) {
    struct Put<I> {
        parameters: I,
    }
    impl<I: Iterator<Item = (Option<TensorData>, Option<Context>)>> ModuleMapper for Put<I> {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            let Some((Some(data), Some(context))) = self.parameters.next() else { return param };
            let (id, _, mapper) = param.consume();
            Param::from_mapped_value(id, context.tensor(data, id), mapper)
        }
    }
    let parameters = taken.theta.into_iter().zip(taken.contexts);
    *module = module.clone().map(&mut Put { parameters });
}

/// All parameters in one vector, the frozen ones included, in the order of the layout.
pub(crate) fn flatten<M: Module>(module: &M) -> Result<Vec<f32>> {
    struct Flatten {
        path: Vec<String>,
        theta: Vec<f32>,
        error: Option<Error>,
    }
    impl ModuleVisitor for Flatten {
        fn enter_module(&mut self, name: &str, _: &str) {
            self.path.push(name.to_string());
        }
        fn exit_module(&mut self, _: &str, _: &str) {
            self.path.pop();
        }
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let name = || format!("`{}`", self.path.join("."));
            let data = memory::take_parameter(param.base().inner(), name);
            match data.and_then(|data| memory::numbers(&data, name).map(<[f32]>::to_vec)) {
                Ok(numbers) => self.theta.extend(numbers),
                Err(error) => {
                    self.error.get_or_insert(error);
                }
            }
        }
    }
    let mut visitor = Flatten { path: Vec::new(), theta: Vec::new(), error: None };
    module.visit(&mut visitor);
    visitor.error.map_or(Ok(visitor.theta), Err)
}

/// Gives a module the values of such a vector.
pub(crate) fn fill<M: Module>(module: &mut M, theta: &[f32]) {
    struct Fill<'a> {
        theta: &'a [f32],
    }
    impl ModuleMapper for Fill<'_> {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            let (id, tensor, mapper) = param.consume();
            let (mine, rest) = self.theta.split_at(tensor.dims().iter().product());
            self.theta = rest;
            let data = TensorData::new(mine.to_vec(), tensor.dims());
            Param::from_mapped_value(id, Context::of(&tensor).tensor(data, id), mapper)
        }
    }
    *module = module.clone().map(&mut Fill { theta });
}
