"""The digits classifier once more, as one would write it in PyTorch: tensors, ``backward()`` and ``.grad``.

Run ``python examples/pytorch_style.py``.
"""

from __future__ import annotations

import argparse

import numpy as np
from rich.progress import track
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import jitgrad as jg

CLASSES = 10


class Linear:
    """An affine layer."""

    def __init__(self, n_inputs, n_outputs):
        self.weight = (jg.randn(n_inputs, n_outputs) * np.sqrt(2 / n_inputs)).requires_grad_()
        self.bias = jg.zeros(n_outputs, requires_grad=True)

    def __call__(self, x):
        """Return one row of outputs for each row of inputs."""
        return x @ self.weight + self.bias

    def parameters(self):
        """List what is to be trained."""
        return [self.weight, self.bias]


def cross_entropy(logits, one_hot):
    """Mean cross-entropy, in nats."""
    z = logits - logits.detach().max(axis=1, keepdims=True)
    return -((z - jg.log(jg.exp(z).sum(axis=1, keepdims=True))) * one_hot).sum() / len(one_hot)


def train(images, labels, *, epochs=30, batch=64, rate=0.2, seed=0):
    """Minibatch gradient descent; returns the model as a function of images."""
    jg.manual_seed(seed)
    rng = np.random.default_rng(seed)
    first, second = Linear(images.shape[1], 64), Linear(64, CLASSES)
    parameters = first.parameters() + second.parameters()

    def model(x):
        return second(jg.maximum(first(x), 0.0))

    one_hot = np.eye(CLASSES)[labels]
    for _ in track(range(epochs), description="training"):
        order = rng.permutation(len(images))
        for start in range(0, len(images), batch):
            chosen = order[start : start + batch]
            loss = cross_entropy(model(jg.tensor(images[chosen])), jg.tensor(one_hot[chosen]))
            loss.backward()
            with jg.no_grad():
                for parameter in parameters:
                    parameter -= rate * parameter.grad
                    parameter.grad = None
    return model


def main():
    """Load, train, report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=30)
    options = parser.parse_args()
    images, labels = load_digits(return_X_y=True)
    seen, unseen, seen_labels, unseen_labels = train_test_split(
        images / 16.0, labels, test_size=0.25, random_state=0, stratify=labels
    )
    model = train(seen, seen_labels, epochs=options.epochs)
    with jg.no_grad():
        guesses = model(jg.tensor(unseen)).numpy().argmax(axis=1)
    print(f"held-out accuracy: {100 * np.mean(guesses == unseen_labels):.1f} % of {len(unseen)} digits")


if __name__ == "__main__":
    main()
