"""Fit a logistic regression with scipy.optimize and jitgrad's gradient, and compare with scikit-learn's optimum.

Run ``python examples/logistic_scipy.py``. The data are the breast-cancer measurements that scikit-learn ships.
"""

from __future__ import annotations

import numpy as np
import scipy.optimize
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import jitgrad as jg

PENALTY = 1.0  # on the squared weights; scikit-learn's C is its inverse


def objective(theta, x, sign):
    """Negative log-likelihood of labels -1 and 1 plus the ridge penalty; theta is the weights, then the intercept."""
    margins = sign * (x @ theta[:-1] + theta[-1])
    return np.sum(np.logaddexp(0.0, -margins)) + 0.5 * PENALTY * np.sum(theta[:-1] ** 2)


def fit(x, sign):
    """Return SciPy's result: ``jac=True`` says that the function returns its gradient too."""
    start = np.zeros(x.shape[1] + 1)
    options = {"gtol": 1e-9, "maxiter": 2000}
    return scipy.optimize.minimize(
        jg.value_and_grad(objective), start, args=(x, sign), jac=True, method="BFGS", options=options
    )


def main():
    """Fit both, and print how far apart they are."""
    x, labels = load_breast_cancer(return_X_y=True)
    x = StandardScaler().fit_transform(x)
    sign = 2.0 * labels - 1.0
    ours = fit(x, sign)
    reference = LogisticRegression(C=1 / PENALTY, tol=1e-12, max_iter=10_000, solver="newton-cholesky").fit(x, labels)
    theirs = np.append(reference.coef_[0], reference.intercept_)
    print(f"objective at our optimum:            {ours.fun:.10f}  after {ours.nfev} evaluations")
    print(f"objective at scikit-learn's optimum: {objective(theirs, x, sign):.10f}")
    print(f"largest difference of a parameter:   {np.max(np.abs(ours.x - theirs)):.2e}")


if __name__ == "__main__":
    main()
