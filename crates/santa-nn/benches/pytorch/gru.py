"""The paper's recurrent network in PyTorch, twice: `nn.GRU`, and a function with its own backward.

Both return the loss of one sequence x_1 .. x_T: binary cross-entropy summed over the keys, mean
over the steps, where x_t is predicted from h_{t-1} and h_0 = tanh(b_0) is learned:

    r, z = sigmoid(x W + h U + b)
    c    = tanh(x W_c + b_c + r * (h U_c))
    h'   = z * h + (1 - z) * c

`nn.GRU` has one more bias, inside the product with r.
"""

import warnings

import torch
import torch.nn.functional as F
from torch import nn

# Half-width of the uniform start of the weights.
SPREAD = 0.05


def loss_of(states, output, x):
    return F.binary_cross_entropy_with_logits(output(states), x, reduction="sum") / len(x)


class TorchGru(nn.Module):
    def __init__(self, keys, hidden):
        super().__init__()
        self.gru = nn.GRU(keys, hidden)
        self.initial = nn.Parameter(torch.zeros(hidden))
        self.output = nn.Linear(hidden, keys)

    def forward(self, x):
        h_0 = torch.tanh(self.initial).unsqueeze(0)
        later, _ = self.gru(x[:-1], h_0)
        return loss_of(torch.cat([h_0, later]), self.output, x)


def forward_steps(
    u_t: torch.Tensor, states: torch.Tensor, gates: torch.Tensor, candidates: torch.Tensor
):
    """Fills h_1 .. h_T; `gates` and `candidates` hold what comes from x, and are completed."""
    hidden = states.shape[1]
    from_h = torch.empty(3 * hidden, dtype=states.dtype)
    h_gates, h_c = from_h[: 2 * hidden], from_h[2 * hidden :]
    # Views are made once for all steps: to make one costs as much as the arithmetic on it.
    h, rz, c = states.unbind(), gates.unbind(), candidates.unbind()
    r, z = gates[:, :hidden].unbind(), gates[:, hidden:].unbind()
    for t in range(len(c)):
        torch.mv(u_t, h[t], out=from_h)
        rz[t].add_(h_gates).sigmoid_()
        c[t].addcmul_(r[t], h_c).tanh_()
        torch.lerp(c[t], h[t], z[t], out=h[t + 1])


def backward_steps(
    u: torch.Tensor, z: torch.Tensor, factors: torch.Tensor, d: torch.Tensor, d_from_h: torch.Tensor
):
    """Completes d = dL/dh_0 .. dL/dh_T, and fills the derivatives by h U."""
    d_h, d_r_z_c, d_flat = d.unbind(), d_from_h.unbind(), d_from_h.flatten(1).unbind()
    z_t, factor = z.unbind(), factors.unbind()
    for t in range(len(factor) - 1, -1, -1):
        torch.mul(factor[t], d_h[t + 1], out=d_r_z_c[t])
        d_h[t].addcmul_(d_h[t + 1], z_t[t]).addmv_(u, d_flat[t])


class Recurrence(torch.autograd.Function):
    """h_0 .. h_T from A = x W + b of the T steps, h_0 and U = [U_r U_z U_c].

    The loops over the steps have one product of a matrix and a vector each; the rest of the
    backward pass, the gradient of U among it, is computed for all steps at once.
    """

    @staticmethod
    def forward(ctx, a, h_0, u, loops):
        steps, hidden = a.shape[0], h_0.numel()
        states = a.new_empty(steps + 1, hidden)
        states[0] = h_0
        gates, candidates = (part.contiguous() for part in a.split([2 * hidden, hidden], 1))
        loops[0](u.t().contiguous(), states, gates, candidates)
        ctx.save_for_backward(states, gates, candidates, u)
        ctx.loops = loops
        return states

    @staticmethod
    def backward(ctx, d_states):
        states, gates, c, u = ctx.saved_tensors
        steps, hidden = c.shape
        before = states[:-1]
        r, z = gates.split(hidden, 1)
        h_c = before @ u[:, 2 * hidden :]
        # Each derivative is a known factor times dL/dh_{t+1}.
        to_c = (1 - z) * (1 - c * c)
        factors = torch.stack([to_c * h_c * r * (1 - r), (before - c) * z * (1 - z), to_c * r], 1)
        d = d_states.clone(memory_format=torch.contiguous_format)
        d_from_h = torch.empty_like(factors)
        ctx.loops[1](u, z, factors, d, d_from_h)
        d_u = before.t() @ d_from_h.flatten(1)
        d_a = d_from_h
        torch.mul(d[1:], to_c, out=d_a[:, 2])
        return d_a.flatten(1), d[0], d_u, None


PLAIN_LOOPS = (forward_steps, backward_steps)


def scripted_loops():
    """The loops without the interpreter, by TorchScript where it still exists."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tuple(torch.jit.script(loop) for loop in PLAIN_LOOPS)


class CustomGru(nn.Module):
    def __init__(self, keys, hidden, loops=PLAIN_LOOPS):
        super().__init__()
        self.loops = loops
        self.input = nn.Parameter(torch.empty(keys, 3 * hidden).uniform_(-SPREAD, SPREAD))
        self.recurrent = nn.Parameter(torch.empty(hidden, 3 * hidden).uniform_(-SPREAD, SPREAD))
        self.bias = nn.Parameter(torch.zeros(3 * hidden))
        self.initial = nn.Parameter(torch.zeros(hidden))
        self.output = nn.Linear(hidden, keys)

    def forward(self, x):
        a = torch.addmm(self.bias, x[:-1], self.input)
        states = Recurrence.apply(a, torch.tanh(self.initial), self.recurrent, self.loops)
        return loss_of(states, self.output, x)

    def plain(self, x):
        """The same by autograd alone, straight from the equations."""
        h = torch.tanh(self.initial)
        states = [h]
        for x_t in x[:-1]:
            a_r, a_z, a_c = (x_t @ self.input + self.bias).chunk(3)
            h_r, h_z, h_c = (h @ self.recurrent).chunk(3)
            r, z = torch.sigmoid(a_r + h_r), torch.sigmoid(a_z + h_z)
            c = torch.tanh(a_c + r * h_c)
            h = z * h + (1 - z) * c
            states.append(h)
        return loss_of(torch.stack(states), self.output, x)


def check_custom_gru(loops=PLAIN_LOOPS):
    """Loss and gradients of the custom function are those of autograd."""
    torch.manual_seed(2)
    keys, hidden, steps = 5, 7, 11
    model = CustomGru(keys, hidden, loops).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(-1, 1)
    x = (torch.rand(steps, keys) < 0.5).double()
    expected = model.plain(x)
    found = model(x)
    torch.testing.assert_close(found, expected)
    parameters = list(model.parameters())
    torch.testing.assert_close(
        torch.autograd.grad(found, parameters), torch.autograd.grad(expected, parameters)
    )
