"""Printing is PyTorch's, to the letter, but for `torch.` in front of dtypes.

The expected texts are what PyTorch 2.13 prints with float64 as the default dtype.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from jitgrad.tensor.printing import format_tensor, get_printoptions, printoptions, set_printoptions

nan, inf = np.nan, np.inf

FACTORY = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}


@pytest.fixture(autouse=True)
def factory_options() -> Iterator[None]:
    set_printoptions(profile="default")
    yield
    set_printoptions(profile="default")


def case(
    name: str,
    value: np.ndarray,
    expected: str,
    *,
    requires_grad: bool = False,
    grad_fn: str | None = None,
    **options: Any,
) -> Any:
    suffixes = {"requires_grad": requires_grad, "grad_fn": grad_fn}
    return pytest.param(value, expected, suffixes, options, id=name)


CASES = [
    case(
        "scalar_integral",
        np.array(3.0),
        "tensor(3.)",
    ),
    case(
        "scalar_fraction",
        np.array(3.14159),
        "tensor(3.1416)",
    ),
    case(
        "scalar_negative_zero",
        np.array(-0.0),
        "tensor(-0.)",
    ),
    case(
        "scalar_nan",
        np.array(nan),
        "tensor(nan)",
    ),
    case(
        "scalar_minus_inf",
        np.array(-inf),
        "tensor(-inf)",
    ),
    case(
        "scalar_small",
        np.array(1.5e-5),
        "tensor(1.5000e-05)",
    ),
    case(
        "scalar_1e-4",
        np.array(1e-4),
        "tensor(0.0001)",
    ),
    case(
        "scalar_1e8",
        np.array(1e8),
        "tensor(100000000.)",
    ),
    case(
        "scalar_above_1e8",
        np.array(1e8 + 1),
        "tensor(1.0000e+08)",
    ),
    case(
        "scalar_int",
        np.array(7),
        "tensor(7)",
    ),
    case(
        "scalar_bool",
        np.array(True),
        "tensor(True)",
    ),
    case(
        "scalar_complex",
        np.array(1.0 - 2.5j),
        "tensor(1.-2.5000j)",
    ),
    case(
        "scalar_float32",
        np.array(0.1, np.float32),
        "tensor(0.1000, dtype=float32)",
    ),
    case(
        "scalar_zero_threshold",
        np.array(2.5),
        "tensor(2.5000)",
        threshold=0,
    ),
    case(
        "integral_floats",
        np.array([1.0, 2.0, -3.0]),
        "tensor([ 1.,  2., -3.])",
    ),
    case(
        "fractions",
        np.array([1.0, 2.5, -3.0]),
        "tensor([ 1.0000,  2.5000, -3.0000])",
    ),
    case(
        "column_width_is_the_widest",
        np.array([[1.0, 2.0], [3.0, 400.125]]),
        """\
tensor([[  1.0000,   2.0000],
        [  3.0000, 400.1250]])""",
    ),
    case(
        "rounds_the_binary_value",
        np.array([0.00005, 0.99995, 9.99995, 2.00025]),
        "tensor([ 0.0001,  1.0000, 10.0000,  2.0002])",
        sci_mode=False,
    ),
    case(
        "rounding_does_not_choose_notation",
        np.array([0.99994, 99.99996]),
        "tensor([  0.9999, 100.0000])",
    ),
    case(
        "ratio_1000",
        np.array([1.0, 1000.0]),
        "tensor([   1., 1000.])",
    ),
    case(
        "ratio_above_1000",
        np.array([1.0, 1001.0]),
        "tensor([1.0000e+00, 1.0010e+03])",
    ),
    case(
        "ratio_above_1000_fractions",
        np.array([0.5, -600.25]),
        "tensor([ 5.0000e-01, -6.0025e+02])",
    ),
    case(
        "small_numbers",
        np.array([1e-4, 9.9e-5]),
        "tensor([1.0000e-04, 9.9000e-05])",
    ),
    case(
        "large_integral",
        np.array([1e8, 99999999.0]),
        "tensor([100000000.,  99999999.])",
    ),
    case(
        "large_integral_scientific",
        np.array([123456789.0, 1e9]),
        "tensor([1.2346e+08, 1.0000e+09])",
    ),
    case(
        "three_digit_exponents",
        np.array([1e-300, 1e300, -1.0]),
        "tensor([1.0000e-300, 1.0000e+300, -1.0000e+00])",
    ),
    case(
        "ratio_overflows",
        np.array([5e-324, 1.7976931348623157e308]),
        "tensor([4.9407e-324, 1.7977e+308])",
    ),
    case(
        "subnormal",
        np.array([5e-324, -1e-310]),
        "tensor([ 4.9407e-324, -1.0000e-310])",
    ),
    case(
        "float32_subnormal",
        np.array([1e-45, 1.0], np.float32),
        "tensor([1.4013e-45, 1.0000e+00], dtype=float32)",
    ),
    case(
        "float32_max",
        np.array([3.4028235e38, 1.0], np.float32),
        "tensor([3.4028e+38, 1.0000e+00], dtype=float32)",
    ),
    case(
        "float16",
        np.array([0.1, 65504.0, 6e-8], np.float16),
        "tensor([9.9976e-02, 6.5504e+04, 5.9605e-08], dtype=float16)",
    ),
    case(
        "zeros",
        np.zeros(3),
        "tensor([0., 0., 0.])",
    ),
    case(
        "negative_zeros_stick_out",
        np.array([0.0, -0.0, 1.0]),
        "tensor([0., -0., 1.])",
    ),
    case(
        "negative_zero_among_fractions",
        np.array([-0.0, 0.5]),
        "tensor([-0.0000, 0.5000])",
    ),
    case(
        "only_zeros_and_nonfinites",
        np.array([0.0, -0.0, nan, inf, -inf]),
        "tensor([0., -0., nan, inf, -inf])",
    ),
    case(
        "nonfinites_among_integral",
        np.array([1.0, nan, inf, -inf]),
        "tensor([1., nan, inf, -inf])",
    ),
    case(
        "nonfinites_among_fractions",
        np.array([1.5, nan, inf, -inf, 0.0]),
        "tensor([1.5000,    nan,    inf,   -inf, 0.0000])",
    ),
    case(
        "nonfinites_in_scientific",
        np.array([1e-5, nan, inf, -inf, 0.0, -0.0]),
        "tensor([1.0000e-05,        nan,        inf,       -inf, 0.0000e+00, -0.0000e+00])",
    ),
    case(
        "only_nan",
        np.array([nan, nan]),
        "tensor([nan, nan])",
    ),
    case(
        "tiny_rounds_to_minus_zero",
        np.array([-1e-5, 1.0]),
        "tensor([-0.0000,  1.0000])",
        sci_mode=False,
    ),
    case(
        "ints",
        np.array([1, -20, 300]),
        "tensor([  1, -20, 300])",
    ),
    case(
        "int_matrix",
        np.arange(12).reshape(3, 4) - 5,
        """\
tensor([[-5, -4, -3, -2],
        [-1,  0,  1,  2],
        [ 3,  4,  5,  6]])""",
    ),
    case(
        "int64_limits",
        np.array([-9223372036854775808, 9223372036854775807]),
        "tensor([-9223372036854775808,  9223372036854775807])",
    ),
    case(
        "uint64",
        np.array([18446744073709551615, 0], np.uint64),
        "tensor([18446744073709551615,                    0], dtype=uint64)",
    ),
    case(
        "int8",
        np.array([-128, 127], np.int8),
        "tensor([-128,  127], dtype=int8)",
    ),
    case(
        "uint8",
        np.array([[0, 255]], np.uint8),
        "tensor([[  0, 255]], dtype=uint8)",
    ),
    case(
        "int32",
        np.arange(3, dtype=np.int32),
        "tensor([0, 1, 2], dtype=int32)",
    ),
    case(
        "bools",
        np.array([True, False]),
        "tensor([ True, False])",
    ),
    case(
        "bool_matrix",
        np.eye(3) > 0,
        """\
tensor([[ True, False, False],
        [False,  True, False],
        [False, False,  True]])""",
    ),
    case(
        "all_true",
        np.ones(2, np.bool_),
        "tensor([True, True])",
    ),
    case(
        "complex_integral",
        np.array([1 + 2j, -3 - 4j]),
        "tensor([ 1.+2.j, -3.-4.j])",
    ),
    case(
        "complex_fractions",
        np.array([[1.5 + 2j, -3 - 0.25j]]),
        "tensor([[ 1.5000+2.0000j, -3.0000-0.2500j]])",
    ),
    case(
        "complex_parts_have_their_own_notation",
        np.array([1e-7 + 2j, 1 - 3j]),
        "tensor([1.0000e-07+2.j, 1.0000e+00-3.j])",
    ),
    case(
        "complex_nonfinite",
        np.array([complex(nan, inf), complex(-inf, nan), complex(1.0, -inf)]),
        "tensor([nan+infj, -inf+nanj, 1.-infj])",
    ),
    case(
        "complex_signed_zeros",
        np.array([complex(0.0, -0.0), complex(-0.0, 0.0)]),
        "tensor([0.-0.j, -0.+0.j])",
    ),
    case(
        "complex_imaginary_is_not_aligned",
        np.array([1 + 2j, 1 + 200.5j]),
        "tensor([1.+2.0000j, 1.+200.5000j])",
    ),
    case(
        "complex64",
        np.array([1 + 2j], np.complex64),
        "tensor([1.+2.j], dtype=complex64)",
    ),
    case(
        "complex_wraps_with_room_for_j",
        np.ones(12) + 1j,
        """\
tensor([1.+1.j, 1.+1.j, 1.+1.j, 1.+1.j, 1.+1.j, 1.+1.j, 1.+1.j, 1.+1.j, 1.+1.j, 1.+1.j,
        1.+1.j, 1.+1.j])""",
    ),
    case(
        "complex_wraps",
        np.arange(12) / 7 + 1j * np.arange(12),
        """\
tensor([0.0000+0.j, 0.1429+1.j, 0.2857+2.j, 0.4286+3.j, 0.5714+4.j, 0.7143+5.j,
        0.8571+6.j, 1.0000+7.j, 1.1429+8.j, 1.2857+9.j, 1.4286+10.j, 1.5714+11.j])""",
    ),
    case(
        "matrix",
        np.array([[1.0, 2.0], [3.0, 4.0]]),
        """\
tensor([[1., 2.],
        [3., 4.]])""",
    ),
    case(
        "row",
        np.ones((1, 3)),
        "tensor([[1., 1., 1.]])",
    ),
    case(
        "column",
        np.array([[1.0], [0.5]]),
        """\
tensor([[1.0000],
        [0.5000]])""",
    ),
    case(
        "cube",
        np.arange(8.0).reshape(2, 2, 2),
        """\
tensor([[[0., 1.],
         [2., 3.]],

        [[4., 5.],
         [6., 7.]]])""",
    ),
    case(
        "four_axes",
        np.arange(16.0).reshape(2, 2, 2, 2) / 4,
        """\
tensor([[[[0.0000, 0.2500],
          [0.5000, 0.7500]],

         [[1.0000, 1.2500],
          [1.5000, 1.7500]]],


        [[[2.0000, 2.2500],
          [2.5000, 2.7500]],

         [[3.0000, 3.2500],
          [3.5000, 3.7500]]]])""",
    ),
    case(
        "five_axes",
        np.arange(4.0).reshape(2, 1, 1, 2, 1),
        """\
tensor([[[[[0.],
           [1.]]]],



        [[[[2.],
           [3.]]]]])""",
    ),
    case(
        "transposed",
        np.arange(6.0).reshape(2, 3).T,
        """\
tensor([[0., 3.],
        [1., 4.],
        [2., 5.]])""",
    ),
    case(
        "negative_strides",
        np.arange(4)[::-1],
        "tensor([3, 2, 1, 0])",
    ),
    case(
        "other_byte_order",
        np.array([1.0, 2.5], np.float64).astype(">f8"),
        "tensor([1.0000, 2.5000])",
    ),
    case(
        "empty",
        np.zeros(0),
        "tensor([])",
    ),
    case(
        "empty_shape",
        np.zeros((2, 0)),
        "tensor([], size=(2, 0))",
    ),
    case(
        "empty_cube",
        np.zeros((0, 3, 1)),
        "tensor([], size=(0, 3, 1))",
    ),
    case(
        "empty_float32",
        np.zeros(0, np.float32),
        "tensor([], dtype=float32)",
    ),
    case(
        "empty_int",
        np.zeros((0, 3), np.int64),
        "tensor([], size=(0, 3), dtype=int64)",
    ),
    case(
        "empty_bool",
        np.zeros(0, np.bool_),
        "tensor([], dtype=bool)",
    ),
    case(
        "empty_complex",
        np.zeros(0, np.complex128),
        "tensor([], dtype=complex128)",
    ),
    case(
        "empty_requires_grad",
        np.zeros((1, 0), np.float32),
        "tensor([], size=(1, 0), dtype=float32, requires_grad=True)",
        requires_grad=True,
    ),
    case(
        "wraps_fractions",
        np.arange(20) / 8,
        """\
tensor([0.0000, 0.1250, 0.2500, 0.3750, 0.5000, 0.6250, 0.7500, 0.8750, 1.0000,
        1.1250, 1.2500, 1.3750, 1.5000, 1.6250, 1.7500, 1.8750, 2.0000, 2.1250,
        2.2500, 2.3750])""",
    ),
    case(
        "wraps_zeros_as_if_one_column_wide",
        np.zeros(30),
        """\
tensor([0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0.,
        0., 0., 0., 0., 0., 0.])""",
    ),
    case(
        "wraps_ints",
        np.arange(40),
        """\
tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,
        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35,
        36, 37, 38, 39])""",
    ),
    case(
        "wraps_in_matrix",
        np.arange(28.0).reshape(2, 14) / 4,
        """\
tensor([[0.0000, 0.2500, 0.5000, 0.7500, 1.0000, 1.2500, 1.5000, 1.7500, 2.0000,
         2.2500, 2.5000, 2.7500, 3.0000, 3.2500],
        [3.5000, 3.7500, 4.0000, 4.2500, 4.5000, 4.7500, 5.0000, 5.2500, 5.5000,
         5.7500, 6.0000, 6.2500, 6.5000, 6.7500]])""",
    ),
    case(
        "wraps_in_cube",
        np.arange(24.0).reshape(2, 1, 12) / 4,
        """\
tensor([[[0.0000, 0.2500, 0.5000, 0.7500, 1.0000, 1.2500, 1.5000, 1.7500,
          2.0000, 2.2500, 2.5000, 2.7500]],

        [[3.0000, 3.2500, 3.5000, 3.7500, 4.0000, 4.2500, 4.5000, 4.7500,
          5.0000, 5.2500, 5.5000, 5.7500]]])""",
    ),
    case(
        "one_per_line_at_least",
        np.array([1.5, 2.5]),
        """\
tensor([1.5000,
        2.5000])""",
        linewidth=5,
    ),
    case(
        "linewidth_100",
        np.arange(24) / 8,
        """\
tensor([0.0000, 0.1250, 0.2500, 0.3750, 0.5000, 0.6250, 0.7500, 0.8750, 1.0000, 1.1250, 1.2500,
        1.3750, 1.5000, 1.6250, 1.7500, 1.8750, 2.0000, 2.1250, 2.2500, 2.3750, 2.5000, 2.6250,
        2.7500, 2.8750])""",
        linewidth=100,
    ),
    case(
        "at_threshold",
        np.arange(8),
        "tensor([0, 1, 2, 3, 4, 5, 6, 7])",
        threshold=8,
    ),
    case(
        "above_threshold",
        np.arange(8),
        "tensor([0, 1, 2,  ..., 5, 6, 7])",
        threshold=7,
    ),
    case(
        "summary_vector",
        np.arange(1001.0),
        "tensor([   0.,    1.,    2.,  ...,  998.,  999., 1000.])",
    ),
    case(
        "summary_looks_at_shown_only",
        np.where(np.arange(2000) == 1000, 1e-9, 1.0),
        "tensor([1., 1., 1.,  ..., 1., 1., 1.])",
    ),
    case(
        "summary_matrix",
        np.arange(10000).reshape(100, 100),
        """\
tensor([[   0,    1,    2,  ...,   97,   98,   99],
        [ 100,  101,  102,  ...,  197,  198,  199],
        [ 200,  201,  202,  ...,  297,  298,  299],
        ...,
        [9700, 9701, 9702,  ..., 9797, 9798, 9799],
        [9800, 9801, 9802,  ..., 9897, 9898, 9899],
        [9900, 9901, 9902,  ..., 9997, 9998, 9999]])""",
    ),
    case(
        "summary_short_axis",
        np.arange(3000.0).reshape(3, 1000),
        """\
tensor([[0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 9.9700e+02, 9.9800e+02,
         9.9900e+02],
        [1.0000e+03, 1.0010e+03, 1.0020e+03,  ..., 1.9970e+03, 1.9980e+03,
         1.9990e+03],
        [2.0000e+03, 2.0010e+03, 2.0020e+03,  ..., 2.9970e+03, 2.9980e+03,
         2.9990e+03]])""",
    ),
    case(
        "summary_axis_of_six",
        np.arange(1200).reshape(6, 200),
        """\
tensor([[   0,    1,    2,  ...,  197,  198,  199],
        [ 200,  201,  202,  ...,  397,  398,  399],
        [ 400,  401,  402,  ...,  597,  598,  599],
        [ 600,  601,  602,  ...,  797,  798,  799],
        [ 800,  801,  802,  ...,  997,  998,  999],
        [1000, 1001, 1002,  ..., 1197, 1198, 1199]])""",
    ),
    case(
        "summary_tall",
        np.arange(2000.0).reshape(1000, 2) / 2,
        """\
tensor([[0.0000e+00, 5.0000e-01],
        [1.0000e+00, 1.5000e+00],
        [2.0000e+00, 2.5000e+00],
        ...,
        [9.9700e+02, 9.9750e+02],
        [9.9800e+02, 9.9850e+02],
        [9.9900e+02, 9.9950e+02]])""",
    ),
    case(
        "summary_cube",
        np.arange(4096).reshape(16, 16, 16),
        """\
tensor([[[   0,    1,    2,  ...,   13,   14,   15],
         [  16,   17,   18,  ...,   29,   30,   31],
         [  32,   33,   34,  ...,   45,   46,   47],
         ...,
         [ 208,  209,  210,  ...,  221,  222,  223],
         [ 224,  225,  226,  ...,  237,  238,  239],
         [ 240,  241,  242,  ...,  253,  254,  255]],

        [[ 256,  257,  258,  ...,  269,  270,  271],
         [ 272,  273,  274,  ...,  285,  286,  287],
         [ 288,  289,  290,  ...,  301,  302,  303],
         ...,
         [ 464,  465,  466,  ...,  477,  478,  479],
         [ 480,  481,  482,  ...,  493,  494,  495],
         [ 496,  497,  498,  ...,  509,  510,  511]],

        [[ 512,  513,  514,  ...,  525,  526,  527],
         [ 528,  529,  530,  ...,  541,  542,  543],
         [ 544,  545,  546,  ...,  557,  558,  559],
         ...,
         [ 720,  721,  722,  ...,  733,  734,  735],
         [ 736,  737,  738,  ...,  749,  750,  751],
         [ 752,  753,  754,  ...,  765,  766,  767]],

        ...,

        [[3328, 3329, 3330,  ..., 3341, 3342, 3343],
         [3344, 3345, 3346,  ..., 3357, 3358, 3359],
         [3360, 3361, 3362,  ..., 3373, 3374, 3375],
         ...,
         [3536, 3537, 3538,  ..., 3549, 3550, 3551],
         [3552, 3553, 3554,  ..., 3565, 3566, 3567],
         [3568, 3569, 3570,  ..., 3581, 3582, 3583]],

        [[3584, 3585, 3586,  ..., 3597, 3598, 3599],
         [3600, 3601, 3602,  ..., 3613, 3614, 3615],
         [3616, 3617, 3618,  ..., 3629, 3630, 3631],
         ...,
         [3792, 3793, 3794,  ..., 3805, 3806, 3807],
         [3808, 3809, 3810,  ..., 3821, 3822, 3823],
         [3824, 3825, 3826,  ..., 3837, 3838, 3839]],

        [[3840, 3841, 3842,  ..., 3853, 3854, 3855],
         [3856, 3857, 3858,  ..., 3869, 3870, 3871],
         [3872, 3873, 3874,  ..., 3885, 3886, 3887],
         ...,
         [4048, 4049, 4050,  ..., 4061, 4062, 4063],
         [4064, 4065, 4066,  ..., 4077, 4078, 4079],
         [4080, 4081, 4082,  ..., 4093, 4094, 4095]]])""",
    ),
    case(
        "summary_bool",
        np.arange(1001) % 2 == 0,
        "tensor([ True, False,  True,  ...,  True, False,  True])",
    ),
    case(
        "summary_complex",
        np.arange(1001) + 0.5j,
        """\
tensor([   0.+0.5000j,    1.+0.5000j,    2.+0.5000j,  ...,  998.+0.5000j,
         999.+0.5000j, 1000.+0.5000j])""",
    ),
    case(
        "summary_float32_grad",
        np.ones(2000, np.float32),
        "tensor([1., 1., 1.,  ..., 1., 1., 1.], dtype=float32, requires_grad=True)",
        requires_grad=True,
    ),
    case(
        "summary_threshold",
        np.arange(10),
        "tensor([0, 1, 2,  ..., 7, 8, 9])",
        threshold=5,
    ),
    case(
        "summary_edgeitems_1",
        np.arange(12.0).reshape(4, 3),
        """\
tensor([[ 0.,  ...,  2.],
        ...,
        [ 9.,  ..., 11.]])""",
        threshold=5,
        edgeitems=1,
    ),
    case(
        "summary_no_edgeitems",
        np.arange(12.0),
        "tensor([...], size=(12,))",
        threshold=5,
        edgeitems=0,
    ),
    case(
        "summary_no_edgeitems_matrix",
        np.arange(12.0).reshape(3, 4),
        "tensor([...], size=(3, 4))",
        threshold=5,
        edgeitems=0,
    ),
    case(
        "no_edgeitems_without_summary",
        np.arange(3.0),
        "tensor([0., 1., 2.], size=(3,))",
        edgeitems=0,
    ),
    case(
        "requires_grad",
        np.ones(3),
        "tensor([1., 1., 1.], requires_grad=True)",
        requires_grad=True,
    ),
    case(
        "scalar_requires_grad",
        np.array(2.0),
        "tensor(2., requires_grad=True)",
        requires_grad=True,
    ),
    case(
        "grad_fn",
        np.ones((2, 2)) * 3,
        """\
tensor([[3., 3.],
        [3., 3.]], grad_fn=<MulBackward0>)""",
        grad_fn="MulBackward0",
    ),
    case(
        "grad_fn_scalar",
        np.array(27.0),
        "tensor(27., grad_fn=<MeanBackward0>)",
        grad_fn="MeanBackward0",
    ),
    case(
        "float32_grad_fn",
        np.ones(2, np.float32),
        "tensor([1., 1.], dtype=float32, grad_fn=<AddBackward0>)",
        grad_fn="AddBackward0",
    ),
    case(
        "suffix_fits_exactly",
        np.array([1.0, 2.0]),
        "tensor([1., 2.], requires_grad=True)",
        requires_grad=True,
        linewidth=37,
    ),
    case(
        "suffix_misses_by_one_column",
        np.array([1.0, 2.0]),
        """\
tensor([1., 2.],
       requires_grad=True)""",
        requires_grad=True,
        linewidth=36,
    ),
    case(
        "suffix_after_full_line",
        np.arange(9) / 2 + 0.25,
        """\
tensor([0.2500, 0.7500, 1.2500, 1.7500, 2.2500, 2.7500, 3.2500, 3.7500, 4.2500],
       requires_grad=True)""",
        requires_grad=True,
    ),
    case(
        "suffix_after_wrapped_line",
        np.arange(12) / 2 + 0.25,
        """\
tensor([0.2500, 0.7500, 1.2500, 1.7500, 2.2500, 2.7500, 3.2500, 3.7500, 4.2500,
        4.7500, 5.2500, 5.7500], requires_grad=True)""",
        requires_grad=True,
    ),
    case(
        "suffix_after_full_wrapped_line",
        np.arange(18) / 2 + 0.25,
        """\
tensor([0.2500, 0.7500, 1.2500, 1.7500, 2.2500, 2.7500, 3.2500, 3.7500, 4.2500,
        4.7500, 5.2500, 5.7500, 6.2500, 6.7500, 7.2500, 7.7500, 8.2500, 8.7500],
       requires_grad=True)""",
        requires_grad=True,
    ),
    case(
        "two_suffixes_second_wraps",
        np.arange(7, dtype=np.float32) / 2,
        """\
tensor([0.0000, 0.5000, 1.0000, 1.5000, 2.0000, 2.5000, 3.0000], dtype=float32,
       requires_grad=True)""",
        requires_grad=True,
    ),
    case(
        "two_suffixes_both_wrap",
        np.arange(9, dtype=np.float32) / 2,
        """\
tensor([0.0000, 0.5000, 1.0000, 1.5000, 2.0000, 2.5000, 3.0000, 3.5000, 4.0000],
       dtype=float32, grad_fn=<ReluBackward0>)""",
        grad_fn="ReluBackward0",
    ),
    case(
        "second_suffix_fits_exactly_on_the_new_line",
        np.arange(5, dtype=np.float32),
        """\
tensor([0., 1., 2., 3., 4.],
       dtype=float32, requires_grad=True)""",
        requires_grad=True,
        linewidth=40,
    ),
    case(
        "second_suffix_misses_the_new_line",
        np.arange(5, dtype=np.float32),
        """\
tensor([0., 1., 2., 3., 4.],
       dtype=float32,
       requires_grad=True)""",
        requires_grad=True,
        linewidth=39,
    ),
    case(
        "second_suffix_fits_exactly",
        np.ones(1, np.float32),
        "tensor([1.], dtype=float32, requires_grad=True)",
        requires_grad=True,
        linewidth=48,
    ),
    case(
        "second_suffix_misses_by_one_column",
        np.ones(1, np.float32),
        """\
tensor([1.], dtype=float32,
       requires_grad=True)""",
        requires_grad=True,
        linewidth=47,
    ),
    case(
        "long_grad_fn",
        np.arange(3.0),
        "tensor([0., 1., 2.], grad_fn=<LinalgVectorNormBackward0>)",
        grad_fn="LinalgVectorNormBackward0",
    ),
    case(
        "suffixes_each_on_a_line",
        np.zeros((2, 0), np.float32),
        """\
tensor([],
       size=(2, 0),
       dtype=float32,
       requires_grad=True)""",
        requires_grad=True,
        linewidth=20,
    ),
    case(
        "precision_2",
        np.array([1.12345, 2.0]),
        "tensor([1.12, 2.00])",
        precision=2,
    ),
    case(
        "precision_0",
        np.array([1.6, 2.0]),
        "tensor([2, 2])",
        precision=0,
    ),
    case(
        "precision_8_scientific",
        np.array([1e-9, 1.0]),
        "tensor([1.00000000e-09, 1.00000000e+00])",
        precision=8,
    ),
    case(
        "scientific_forced",
        np.array([1.0, 2.5]),
        "tensor([1.0000e+00, 2.5000e+00])",
        sci_mode=True,
    ),
    case(
        "scientific_forced_integral",
        np.array([1.0, 2.0]),
        "tensor([1.0000e+00, 2.0000e+00])",
        sci_mode=True,
    ),
    case(
        "scientific_forced_zeros",
        np.zeros(2),
        "tensor([0., 0.])",
        sci_mode=True,
    ),
    case(
        "scientific_forbidden",
        np.array([1e-9, 123456789.5]),
        "tensor([        0.0000, 123456789.5000])",
        sci_mode=False,
    ),
    case(
        "scientific_forbidden_integral",
        np.array([1.0, 1e20]),
        "tensor([                    1., 100000000000000000000.])",
        sci_mode=False,
    ),
    case(
        "profile_short",
        np.arange(1001) / 3,
        "tensor([  0.00,   0.33,  ..., 333.00, 333.33])",
        profile="short",
    ),
    case(
        "profile_short_overridden",
        np.arange(1001) / 3,
        "tensor([  0.00,  ..., 333.33])",
        profile="short",
        edgeitems=1,
    ),
    case(
        "profile_full",
        np.arange(1001) // 1000,
        """\
tensor([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 1])""",
        profile="full",
        linewidth=100,
    ),
]


@pytest.mark.parametrize(("value", "expected", "suffixes", "options"), CASES)
def test_prints_as_pytorch(value: np.ndarray, expected: str, suffixes: dict[str, Any], options: dict[str, Any]) -> None:
    with printoptions(**options):
        assert format_tensor(value, **suffixes) == expected
    assert get_printoptions() == FACTORY


def test_layout_of_memory_does_not_show() -> None:
    value = np.arange(24.0).reshape(2, 3, 4)
    assert format_tensor(np.asfortranarray(value)) == format_tensor(value)
    assert format_tensor(value.T) == format_tensor(value.T.copy())


def test_value_is_left_alone() -> None:
    value = np.array([nan, -0.0, 1e-9, inf])
    value.flags.writeable = False
    before = value.tobytes()
    format_tensor(value)
    assert value.tobytes() == before


@pytest.mark.parametrize("dtype", [object, "U3", "S3", "M8[s]", "m8[s]", [("a", float)], np.longdouble])
def test_dtypes_that_no_tensor_has_are_refused(dtype: Any) -> None:
    with pytest.raises(TypeError, match="cannot hold dtype"):
        format_tensor(np.zeros(2, dtype))


def test_options_stay_until_changed() -> None:
    set_printoptions(precision=2)
    set_printoptions(linewidth=40)
    assert get_printoptions() == {**FACTORY, "precision": 2, "linewidth": 40}
    set_printoptions(profile="short", edgeitems=5)
    assert get_printoptions() == {**FACTORY, "precision": 2, "edgeitems": 5}
    set_printoptions(profile="full")
    assert get_printoptions() == {**FACTORY, "threshold": inf}


def test_scientific_mode_returns_to_automatic_at_the_next_call() -> None:
    set_printoptions(sci_mode=True)
    assert get_printoptions()["sci_mode"] is True
    set_printoptions(precision=3)
    assert get_printoptions()["sci_mode"] is None


def test_options_can_be_read_and_put_back() -> None:
    set_printoptions(precision=1, threshold=7, edgeitems=2, linewidth=60, sci_mode=False)
    saved = get_printoptions()
    set_printoptions(profile="default")
    set_printoptions(**saved)
    assert get_printoptions() == saved


def test_options_of_a_block_end_with_it_whatever_happens() -> None:
    set_printoptions(precision=1, sci_mode=True)
    before = get_printoptions()

    def print_and_fail() -> None:
        with printoptions(precision=9):
            assert format_tensor(np.array([1.5])) == "tensor([1.500000000])"
            raise KeyError

    with pytest.raises(KeyError):
        print_and_fail()
    assert get_printoptions() == before


@pytest.mark.parametrize("name", ["precision", "threshold", "edgeitems", "linewidth"])
def test_negative_options_are_refused_and_change_nothing(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must not be negative, got -1"):
        set_printoptions(**{name: -1})
    assert get_printoptions() == FACTORY


def test_unknown_profile_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown profile 'long': choose one of default, short, full"):
        set_printoptions(profile="long")  # type: ignore[arg-type]
