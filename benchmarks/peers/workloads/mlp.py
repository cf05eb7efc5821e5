"""A perceptron 784-128-10 with one hidden layer, cross-entropy over a batch of 128."""

from typing import Any

import numpy as np

from benchmarks.peers.workload import Inputs, Workload


def make_inputs(batch: int, pixels: int, hidden: int, classes: int) -> Inputs:
    rng = np.random.default_rng(0)
    return (
        rng.normal(size=(pixels, hidden)) * np.sqrt(2.0 / pixels),
        0.1 * rng.normal(size=hidden),
        rng.normal(size=(hidden, classes)) * np.sqrt(1.0 / hidden),
        0.1 * rng.normal(size=classes),
        rng.random((batch, pixels)),
        np.eye(classes)[rng.integers(classes, size=batch)],
    )


def inputs() -> Inputs:
    return make_inputs(128, 784, 128, 10)


def small_inputs() -> Inputs:
    return make_inputs(2, 5, 4, 3)


def loss(xp: Any, w1: Any, b1: Any, w2: Any, b2: Any, images: Any, targets: Any) -> Any:
    hidden = xp.maximum(images @ w1 + b1, 0.0)
    logits = hidden @ w2 + b2
    logits = logits - xp.max(logits, axis=1, keepdims=True)
    log_norm = xp.log(xp.sum(xp.exp(logits), axis=1, keepdims=True))
    return -xp.sum(targets * (logits - log_norm)) / images.shape[0]


def torch_loss(torch: Any, w1: Any, b1: Any, w2: Any, b2: Any, images: Any, targets: Any) -> Any:
    hidden = torch.relu(torch.addmm(b1, images, w1))
    return torch.nn.functional.cross_entropy(torch.addmm(b2, hidden, w2), targets)


def numba_value_and_grad(nb: Any) -> Any:
    @nb.njit
    def value_and_grad(w1, b1, w2, b2, images, targets):  # type: ignore[no-untyped-def]
        batch = images.shape[0]
        hidden = np.dot(images, w1)
        for i in range(batch):
            for j in range(hidden.shape[1]):
                hidden[i, j] = max(hidden[i, j] + b1[j], 0.0)
        bar_logits = np.dot(hidden, w2)  # in turn the logits, their exponentials and their cotangents
        grad_b2 = np.zeros_like(b2)
        value = 0.0
        for i in range(batch):
            row = bar_logits[i]
            row += b2
            peak = row.max()
            norm = 0.0
            for j in range(len(row)):
                shifted = row[j] - peak
                value -= targets[i, j] * shifted
                row[j] = np.exp(shifted)
                norm += row[j]
            weight = 0.0
            for j in range(len(row)):
                weight += targets[i, j]
            value += weight * np.log(norm)
            for j in range(len(row)):
                row[j] = (weight * row[j] / norm - targets[i, j]) / batch
                grad_b2[j] += row[j]
        bar_hidden = np.dot(bar_logits, w2.T)
        grad_b1 = np.zeros_like(b1)
        for i in range(batch):
            for j in range(hidden.shape[1]):
                if hidden[i, j] > 0.0:
                    grad_b1[j] += bar_hidden[i, j]
                else:
                    bar_hidden[i, j] = 0.0
        return value / batch, np.dot(images.T, bar_hidden), grad_b1, np.dot(hidden.T, bar_logits), grad_b2

    return value_and_grad


WORKLOAD = Workload(
    title="MLP 784-128-10, batch 128",
    inputs=inputs,
    loss=loss,
    argnums=(0, 1, 2, 3),
    torch=torch_loss,
    numba=numba_value_and_grad,
    small_inputs=small_inputs,
)
