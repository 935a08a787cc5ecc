"""Golden losses and gradients of small models, computed by PyTorch in double precision.

Writes `models.json` beside this file, which the tests compare with the library. To run it in a
scratch virtual environment:

    python3 -m venv venv
    venv/bin/pip install torch numpy
    venv/bin/python crates/santa-nn/tests/golden/generate.py

Inputs and parameters come from a small congruential generator and have few digits. No
pre-activation of a ReLU is nearer than `MARGIN` to zero, and no two candidates of a max pooling are
nearer to each other: each case takes the first seed for which that holds, so that the rounding of
single precision cannot choose another branch.

Everything is row-major. Images are [h, w, c]; a dense weight is [in, out]; the weight of a
convolution is [kh, kw, c_in, c_out]. Four lists are written:

    feed_forward  softmax cross-entropy, mean over the batch
    gru           binary cross-entropy summed over the keys; `sequence_mean` is the mean over the
                  sequences of each one's mean over its steps, `step_mean` the mean over all steps
    bayes         Bayes by Backprop with one given draw: the feed-forward loss
                  + weight (log q(w) - log p(w)) / n_data
    mixture       log p(w) of the scale-mixture prior alone, with its gradient, far into the tails
"""

import json
import math
import pathlib

import torch
import torch.nn.functional as F

MARGIN = 1e-4
# Decimal places of the results: more than any comparison asks for.
DECIMALS = 14
# Knuth's multiplier and increment for a generator modulo 2^64.
MULTIPLIER = 6364136223846793005
INCREMENT = 1442695040888963407
ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid}


class Generator:
    """Deterministic numbers with few digits."""

    def __init__(self, seed):
        self.state = seed
        self.bits()

    def bits(self):
        self.state = (self.state * MULTIPLIER + INCREMENT) % 2**64
        return self.state >> 33

    def below(self, n):
        return self.bits() % n

    def uniform(self, count, half_width, digits=3):
        """Multiples of 10^-digits between -half_width and half_width."""
        grid = round(half_width * 10**digits)
        return [(self.below(2 * grid + 1) - grid) / 10**digits for _ in range(count)]


class TooClose(Exception):
    """A kink lies within the margin."""


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


# ---- feed-forward networks ----------------------------------------------------------------------


def conv(channels, kernel, stride=(1, 1), padding=(0, 0)):
    sizes = {"kernel": list(kernel), "stride": list(stride), "padding": list(padding)}
    return {"conv": {"channels": channels, **sizes}}


def same5(channels):
    return conv(channels, (5, 5), padding=(2, 2))


def pool(window=(2, 2), stride=(2, 2)):
    return {"max_pool": {"window": list(window), "stride": list(stride)}}


def dense(units):
    return {"dense": units}


def layout_of(architecture):
    """Names and shapes of the parameters, in order, and the number of outputs."""
    shape = list(architecture["input"])
    layout = []
    count = {"dense": 0, "conv": 0}
    for layer in architecture["layers"]:
        if layer == "flatten":
            shape = [math.prod(shape)]
        elif "dense" in layer:
            (inputs,) = shape
            shape = [layer["dense"]]
            weight = [inputs, *shape]
        elif "conv" in layer:
            s = layer["conv"]
            weight = [*s["kernel"], shape[2], s["channels"]]
            padded = [n + 2 * p for n, p in zip(shape, s["padding"])]
            shape = [(n - k) // d + 1 for n, k, d in zip(padded, s["kernel"], s["stride"])]
            shape.append(s["channels"])
        elif "max_pool" in layer:
            s = layer["max_pool"]
            sizes = [(n - k) // d + 1 for n, k, d in zip(shape, s["window"], s["stride"])]
            shape = [*sizes, shape[2]]
        kind = next((kind for kind in count if kind in layer), None)
        if kind:
            count[kind] += 1
            layout.append([f"{kind}{count[kind]}.weight", weight])
            layout.append([f"{kind}{count[kind]}.bias", weight[-1:]])
    (outputs,) = shape
    return layout, outputs


def size_of(layout):
    return sum(math.prod(shape) for _, shape in layout)


def pieces(theta, layout):
    """The named tensors of a flat parameter vector, as views."""
    parts = theta.split([math.prod(shape) for _, shape in layout])
    return {name: part.view(shape) for part, (name, shape) in zip(parts, layout)}


def parameters(generator, layout, gain=1.0):
    """A flat list: weights of about unit gain, biases of up to a half."""
    values = []
    for _, shape in layout:
        fan_in = math.prod(shape[:-1])
        half_width = gain * math.sqrt(3 / fan_in) if len(shape) > 1 else 0.5
        values += generator.uniform(math.prod(shape), half_width)
    return values


def keep_apart(distances):
    if distances.numel() and distances.abs().min() < MARGIN:
        raise TooClose


def max_pool(x, window, stride):
    """Pooling of [n, h, w, c] in which no window has two maxima."""
    x = x.permute(0, 3, 1, 2)
    windows = x.unfold(2, window[0], stride[0]).unfold(3, window[1], stride[1])
    first, second = windows.flatten(4).topk(2).values.unbind(-1)
    # After a ReLU many entries of a window may be 0; no gradient passes there.
    keep_apart((first - second)[first != 0])
    return F.max_pool2d(x, window, stride).permute(0, 2, 3, 1)


def forward(architecture, named, x):
    count = {"dense": 0, "conv": 0}

    def next_pair(kind):
        count[kind] += 1
        prefix = f"{kind}{count[kind]}"
        return named[f"{prefix}.weight"], named[f"{prefix}.bias"]

    for layer in architecture["layers"]:
        if layer == "flatten":
            x = x.flatten(1)
        elif isinstance(layer, str):
            if layer == "relu":
                keep_apart(x)
            x = ACTIVATIONS[layer](x)
        elif "dense" in layer:
            weight, bias = next_pair("dense")
            x = x @ weight + bias
        elif "conv" in layer:
            weight, bias = next_pair("conv")
            s = layer["conv"]
            x = F.conv2d(
                x.permute(0, 3, 1, 2).contiguous(),
                weight.permute(3, 2, 0, 1).contiguous(),
                bias,
                stride=s["stride"],
                padding=s["padding"],
            ).permute(0, 2, 3, 1)
        else:
            x = max_pool(x, **layer["max_pool"])
    return x


def with_margin(make, seed):
    """What `make` returns for the first seed that keeps every kink at a distance."""
    while True:
        try:
            return make(Generator(seed))
        except TooClose:
            seed += 1


def draw_batch(generator, architecture, batch, classes):
    inputs = generator.uniform(batch * math.prod(architecture["input"]), 1.0)
    labels = [generator.below(classes) for _ in range(batch)]
    return inputs, labels


def feed_forward(name, input_shape, layers, batch, seed=1, gain=1.0):
    architecture = {"input": list(input_shape), "layers": layers}
    layout, classes = layout_of(architecture)

    def make(generator):
        inputs, labels = draw_batch(generator, architecture, batch, classes)
        values = parameters(generator, layout, gain)
        theta = tensor(values).requires_grad_()
        x = tensor(inputs).view(batch, *input_shape)
        outputs = forward(architecture, pieces(theta, layout), x)
        loss = F.cross_entropy(outputs, torch.tensor(labels))
        loss.backward()
        return {
            "name": name,
            "architecture": architecture,
            "layout": layout,
            "batch": batch,
            "inputs": inputs,
            "labels": labels,
            "parameters": values,
            "outputs": outputs.flatten().tolist(),
            "loss": loss.item(),
            "gradient": theta.grad.tolist(),
        }

    return with_margin(make, seed)


def dense_cases():
    yield feed_forward("softmax regression", [5], [dense(3)], 7)
    yield feed_forward("two dense layers without activation", [5], [dense(4), dense(3)], 7)
    for activation in ACTIVATIONS:
        layers = [dense(5), activation, dense(4), activation, dense(3)]
        for batch in (1, 7, 33):
            yield feed_forward(f"dense, {activation}, batch {batch}", [6], layers, batch)
    yield feed_forward(
        "dense, all activations, odd widths",
        [17],
        [dense(9), "relu", dense(7), "tanh", dense(5), "sigmoid", dense(3)],
        3,
    )
    layers = [dense(5), "relu", dense(4)]
    yield feed_forward("dense, logits in the hundreds", [6], layers, 7, gain=40)


def conv_cases():
    # The pixels are the logits. Behind another layer the gradient of the input is tested, too.
    def first(title, shape, layer, batch=2):
        return feed_forward(f"convolution {title}, first", shape, [layer, "flatten"], batch)

    def second(title, shape, layer, batch=2):
        front = conv(shape[2], (1, 1))
        layers = [front, "tanh", layer, "flatten"]
        return feed_forward(f"convolution {title}", shape, layers, batch)

    yield second("1x1, 3 to 2", [5, 4, 3], conv(2, (1, 1)))
    yield second("1x1, stride 2", [5, 4, 3], conv(2, (1, 1), stride=(2, 2)))
    yield second("3x3, 1 to 3", [6, 5, 1], conv(3, (3, 3)))
    yield second("3x3, padding 2, 3 to 5", [4, 3, 3], conv(5, (3, 3), padding=(2, 2)))
    yield second("3x3, stride 2, remainder", [7, 8, 2], conv(3, (3, 3), stride=(2, 2)))
    yield second("3x2, 3 to 2", [6, 5, 3], conv(2, (3, 2)))
    uneven = conv(3, (3, 2), stride=(2, 1), padding=(1, 0))
    yield second("3x2, stride 2x1, padding 1x0", [8, 6, 2], uneven)
    yield first("3x2, stride 2x1, padding 1x0", [8, 6, 2], uneven)
    yield first("5x5, padding 2, 1 to 3", [7, 7, 1], same5(3), 1)
    yield first("5x5, padding 2, 1 to 1", [13, 11, 1], same5(1))
    yield second("5x5, padding 2, 3 to 2", [9, 7, 3], same5(2))
    yield second("5x5, padding 2, even image", [4, 6, 2], same5(3))
    yield second("5x5, padding 2, image below the kernel", [3, 2, 2], same5(3), 3)
    yield second("5x5, padding 2, 3 to 7", [3, 5, 3], same5(7), 1)
    yield second("5x5, padding 2, 1 to 17", [3, 3, 1], same5(17), 1)
    yield second("5x5, padding 2, 5 to 1", [5, 4, 5], same5(1), 1)
    yield second("5x5, padding 4, 3 to 2", [5, 3, 3], conv(2, (5, 5), padding=(4, 4)))
    yield second("5x5, padding 0, 2 to 5", [7, 8, 2], conv(5, (5, 5)))
    yield second("5x5, padding 0, one output", [5, 5, 2], conv(3, (5, 5)))
    yield second("5x5, stride 2, padding 2", [9, 8, 2], conv(3, (5, 5), (2, 2), (2, 2)))
    yield second("5x5, stride 2x1, padding 4", [6, 5, 1], conv(2, (5, 5), (2, 1), (4, 4)))


def pool_cases():
    front = conv(3, (3, 3), padding=(1, 1))
    for title, shape, layer in [
        ("2x2", [6, 8, 1], pool()),
        ("2x2, remainders", [7, 5, 2], pool()),
        ("3x3, stride 2", [8, 7, 1], pool((3, 3), (2, 2))),
        ("3x2, stride 3x2, remainders", [8, 7, 2], pool((3, 2), (3, 2))),
        ("3x2, stride 1x2", [5, 6, 1], pool((3, 2), (1, 2))),
        ("2x2, stride 3", [9, 8, 1], pool((2, 2), (3, 3))),
    ]:
        yield feed_forward(f"max pooling {title}", shape, [front, layer, "flatten"], 2)
    layers = [front, "relu", pool(), "flatten", dense(3)]
    yield feed_forward("max pooling after ReLU", [7, 6, 1], layers, 3)


def cnn_cases():
    """The paper's network and the authors', in small: pooling comes before the ReLU."""
    yield feed_forward(
        "cnn of the paper",
        [12, 12, 1],
        [
            *(same5(4), pool(), "relu"),
            *(same5(6), pool(), "relu"),
            *("flatten", dense(8), "relu", dense(8), "relu", dense(10)),
        ],
        3,
    )
    padded = {"kernel": (5, 5), "padding": (4, 4)}
    yield feed_forward(
        "cnn of the authors",
        [8, 8, 1],
        [
            *(conv(4, **padded), pool(), "relu"),
            *(conv(3, **padded), pool(), "relu"),
            *("flatten", dense(5), "relu", dense(10)),
        ],
        3,
    )


# ---- the recurrent network ----------------------------------------------------------------------


def gru_logits(named, x):
    """Predictions of x_1 .. x_T; that of x_t is made from h_{t-1}."""
    w, u, b = named["gru.input"], named["gru.recurrent"], named["gru.bias"]
    hidden = u.shape[0]
    h = torch.tanh(named["gru.initial"])
    logits = []
    for x_t in x:
        logits.append(h @ named["output.weight"] + named["output.bias"])
        from_x = (x_t @ w + b).split(hidden)
        from_h = (h @ u).split(hidden)
        r = torch.sigmoid(from_x[0] + from_h[0])
        z = torch.sigmoid(from_x[1] + from_h[1])
        c = torch.tanh(r * from_h[2] + from_x[2])
        h = z * h + (1 - z) * c
    return torch.stack(logits)


def check_against_builtin(named, x, logits):
    """PyTorch's own GRU is the same map once its second bias is 0."""
    keys, hidden = x.shape[1], named["gru.initial"].numel()
    builtin = torch.nn.GRU(keys, hidden, dtype=torch.float64)
    with torch.no_grad():
        builtin.weight_ih_l0.copy_(named["gru.input"].T)
        builtin.weight_hh_l0.copy_(named["gru.recurrent"].T)
        builtin.bias_ih_l0.copy_(named["gru.bias"])
        builtin.bias_hh_l0.zero_()
        h_0 = torch.tanh(named["gru.initial"]).view(1, hidden)
        states = torch.cat([h_0, builtin(x, h_0)[0][:-1]])
        expected = states @ named["output.weight"] + named["output.bias"]
    torch.testing.assert_close(logits.detach(), expected)


def gru(name, keys, hidden, lengths, seed=1):
    generator = Generator(seed)
    layout = [
        ["gru.input", [keys, 3 * hidden]],
        ["gru.recurrent", [hidden, 3 * hidden]],
        ["gru.bias", [3 * hidden]],
        ["gru.initial", [hidden]],
        ["output.weight", [hidden, keys]],
        ["output.bias", [keys]],
    ]
    inputs = [generator.below(2) for _ in range(sum(lengths) * keys)]
    values = parameters(generator, layout)
    theta = tensor(values).requires_grad_()
    named = pieces(theta, layout)
    sequences = tensor(inputs).view(-1, keys).split(lengths)
    outputs = [gru_logits(named, x) for x in sequences]
    for x, logits in zip(sequences, outputs):
        check_against_builtin(named, x, logits)
    sums = torch.stack(
        [
            F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
            for x, logits in zip(sequences, outputs)
        ]
    )
    result = {
        "name": name,
        "architecture": {"keys": keys, "hidden": hidden},
        "layout": layout,
        "lengths": lengths,
        "inputs": inputs,
        "parameters": values,
        "outputs": torch.cat(outputs).flatten().tolist(),
    }
    for flavour, loss in [
        ("sequence_mean", (sums / tensor(lengths)).mean()),
        ("step_mean", sums.sum() / sum(lengths)),
    ]:
        (gradient,) = torch.autograd.grad(loss, theta, retain_graph=True)
        result[f"loss_{flavour}"] = loss.item()
        result[f"gradient_{flavour}"] = gradient.tolist()
    return result


def gru_cases():
    yield gru("one sequence", 4, 5, [7])
    yield gru("one sequence of one step", 4, 5, [1])
    yield gru("three sequences", 4, 5, [3, 9, 1])
    yield gru("odd widths", 3, 7, [6, 2])


# ---- Bayes by Backprop --------------------------------------------------------------------------


def log_normal(x, mean, deviation):
    """Logarithm of the normal density, element by element."""
    z = (x - mean) / deviation
    return -0.5 * z * z - torch.log(deviation) - 0.5 * math.log(2 * math.pi)


def log_mixture(w, prior):
    parts = [
        math.log(share) + log_normal(w, 0.0, tensor(deviation))
        for share, deviation in [
            (prior["pi"], prior["sigma1"]),
            (1 - prior["pi"], prior["sigma2"]),
        ]
    ]
    return torch.logsumexp(torch.stack(parts), 0)


# Where the components of the mixture overlap, and where the narrow one is a spike.
SMOOTH = {"pi": 0.5, "sigma1": 1.0, "sigma2": 0.25}
SPIKE = {"pi": 0.25, "sigma1": 1.0, "sigma2": 0.0025}


def bayes(name, prior, weight, rho_centre, seed=1):
    architecture = {"input": [5], "layers": [dense(4), "relu", dense(3)]}
    layout, classes = layout_of(architecture)
    count = size_of(layout)
    batch, n_data = 6, 50

    def make(generator):
        inputs, labels = draw_batch(generator, architecture, batch, classes)
        stored = {
            "mu": parameters(generator, layout),
            "rho": [round(rho_centre + value, 3) for value in generator.uniform(count, 1.5)],
            "eps": generator.uniform(count, 2.0),
        }
        mu, rho = (tensor(stored[key]).requires_grad_() for key in ("mu", "rho"))
        sigma = F.softplus(rho)
        w = mu + sigma * tensor(stored["eps"])
        x = tensor(inputs).view(batch, -1)
        outputs = forward(architecture, pieces(w, layout), x)
        nll = F.cross_entropy(outputs, torch.tensor(labels))
        log_q = log_normal(w, mu, sigma).sum()
        log_p = log_mixture(w, prior).sum()
        loss = nll + weight * (log_q - log_p) / n_data
        loss.backward()
        return {
            "name": name,
            "architecture": architecture,
            "layout": layout,
            "batch": batch,
            "n_data": n_data,
            "weight": weight,
            "prior": prior,
            "inputs": inputs,
            "labels": labels,
            **stored,
            "outputs": outputs.flatten().tolist(),
            "nll": nll.item(),
            "log_q": log_q.item(),
            "log_p": log_p.item(),
            "loss": loss.item(),
            "gradient_mu": mu.grad.tolist(),
            "gradient_rho": rho.grad.tolist(),
        }

    return with_margin(make, seed)


def bayes_cases():
    yield bayes("smooth prior", SMOOTH, 1.0, -1.0)
    yield bayes("smooth prior, weight 1/4", SMOOTH, 0.25, -1.0)
    yield bayes("spike and slab", SPIKE, 1.0, -3.0)
    yield bayes("wide posterior", SMOOTH, 1.0, 2.0)


def mixture_cases():
    for name, prior in [("smooth", SMOOTH), ("spike", SPIKE)]:
        values = [0.0, 0.001, -0.01, 0.1, -0.5, 1.0, -4.0, 50.0, -1000.0]
        w = tensor(values).requires_grad_()
        log_p = log_mixture(w, prior)
        log_p.sum().backward()
        yield {
            "name": name,
            "prior": prior,
            "w": values,
            "log_p": log_p.tolist(),
            "gradient": w.grad.tolist(),
        }


def rounded(value):
    if isinstance(value, dict):
        return {key: rounded(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [rounded(entry) for entry in value]
    return round(value, DECIMALS) if isinstance(value, float) else value


def main():
    torch.set_num_threads(1)
    golden = {
        "feed_forward": [*dense_cases(), *conv_cases(), *pool_cases(), *cnn_cases()],
        "gru": list(gru_cases()),
        "bayes": list(bayes_cases()),
        "mixture": list(mixture_cases()),
    }
    # A line for each case, so that a change shows which one it touched.
    lines = [f'{{\n"made_by": {json.dumps(f"PyTorch {torch.__version__}, float64")}']
    for kind, cases in golden.items():
        rows = ",\n".join(json.dumps(rounded(case), separators=(",", ":")) for case in cases)
        lines.append(f'"{kind}": [\n{rows}\n]')
    path = pathlib.Path(__file__).with_name("models.json")
    path.write_text(",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
