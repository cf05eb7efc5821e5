"""Train a two-layer classifier of handwritten digits, written in plain NumPy, with gradients from jitgrad.

Run ``python examples/digits.py``. It takes seconds, prints the accuracy on digits that it has not seen, and saves a
learning curve and a confusion matrix as one picture.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.progress import track
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import jitgrad as jg

CLASSES = 10


def make_parameters(rng, n_inputs, n_hidden):
    """He-initialised weights and zero biases."""
    return {
        "w1": rng.normal(size=(n_inputs, n_hidden)) * np.sqrt(2 / n_inputs),
        "b1": np.zeros(n_hidden),
        "w2": rng.normal(size=(n_hidden, CLASSES)) * np.sqrt(2 / n_hidden),
        "b2": np.zeros(CLASSES),
    }


def logits(parameters, images):
    """Two layers with a rectifier between: of shape (images, classes)."""
    hidden = np.maximum(images @ parameters["w1"] + parameters["b1"], 0.0)
    return hidden @ parameters["w2"] + parameters["b2"]


def loss(parameters, images, one_hot):
    """Mean cross-entropy, in nats."""
    z = logits(parameters, images)
    z = z - np.max(z, axis=1, keepdims=True)
    log_probabilities = z - np.log(np.sum(np.exp(z), axis=1, keepdims=True))
    return -np.mean(np.sum(log_probabilities * one_hot, axis=1))


def accuracy(parameters, images, labels):
    """Fraction of images whose likeliest class is theirs."""
    return float(np.mean(np.argmax(logits(parameters, images), axis=1) == labels))


def train(images, labels, held_out, *, epochs=40, batch=32, rate=0.05, seed=0):
    """Minibatch gradient descent. Returns the parameters and, by epoch, mean loss and accuracy on held-out digits."""
    rng = np.random.default_rng(seed)
    parameters = make_parameters(rng, images.shape[1], 64)
    one_hot = np.eye(CLASSES)[labels]
    loss_and_gradient = jg.value_and_grad(loss)
    curve = []
    for _ in track(range(epochs), description="training"):
        order = rng.permutation(len(images))
        losses = []
        for start in range(0, len(images), batch):
            chosen = order[start : start + batch]
            value, gradient = loss_and_gradient(parameters, images[chosen], one_hot[chosen])
            for name in parameters:
                parameters[name] = parameters[name] - rate * gradient[name]
            losses.append(value)
        curve.append((np.mean(losses), accuracy(parameters, *held_out)))
    return parameters, np.array(curve)


def draw(path, curve, parameters, images, labels):
    """Save the learning curve and the confusion matrix as one picture."""
    confusion = np.zeros((CLASSES, CLASSES), dtype=int)
    np.add.at(confusion, (labels, np.argmax(logits(parameters, images), axis=1)), 1)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    epochs = np.arange(1, len(curve) + 1)
    left.semilogy(epochs, curve[:, 0], color="tab:blue")
    left.set(xlabel="epoch", title="Learning curve")
    left.set_ylabel("mean loss on training digits (nats)", color="tab:blue")
    share = left.twinx()
    share.plot(epochs, 100 * curve[:, 1], color="tab:orange")
    share.set_ylabel("held-out digits recognised (%)", color="tab:orange")
    right.imshow(np.sqrt(confusion), cmap="Blues")
    for true in range(CLASSES):
        for guessed in range(CLASSES):
            count = confusion[true, guessed]
            if count:
                color = "white" if count > confusion.max() / 3 else "black"
                right.text(guessed, true, count, ha="center", va="center", color=color)
    ticks = range(CLASSES)
    right.set(xlabel="recognised as", ylabel="digit", title="Held-out digits", xticks=ticks, yticks=ticks)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main():
    """Load, train, report, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("digits.png"), help="where the picture goes")
    parser.add_argument("--epochs", type=int, default=40)
    options = parser.parse_args()

    images, labels = load_digits(return_X_y=True)
    images = images / 16.0
    seen, unseen, seen_labels, unseen_labels = train_test_split(
        images, labels, test_size=0.25, random_state=0, stratify=labels
    )
    parameters, curve = train(seen, seen_labels, (unseen, unseen_labels), epochs=options.epochs)
    draw(options.output, curve, parameters, unseen, unseen_labels)
    console = Console()
    console.print(f"held-out accuracy: {100 * curve[-1, 1]:.1f} % of {len(unseen)} digits")
    console.print(f"picture: {options.output}")


if __name__ == "__main__":
    main()
