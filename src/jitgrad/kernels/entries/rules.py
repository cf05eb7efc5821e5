"""Rows whose VJP rules run in Python: run the op and record it, and replay the row, calling nothing but the rules."""

from __future__ import annotations

from jitgrad.kernels import layout as L
from jitgrad.kernels.entries.bars import add_to_bar
from jitgrad.kernels.entries.elementwise import enter_constant
from jitgrad.kernels.entries.joins import finish, record
from jitgrad.kernels.entries.objects import (
    ARRAY_DATA,
    OBJECT_TYPE,
    as_int,
    call_object,
    dtype_of,
    extent_of,
    float_of,
    free,
    from_int,
    get_kept,
    header_of,
    hold,
    inline,
    let_go,
    list_item,
    memcpy,
    new_tuple,
    nothing,
    set_item,
    set_tuple_item,
    slot,
    tuple_item,
    tuple_size,
    vectorcall,
)
from jitgrad.kernels.entries.rows import append_row, has_room, is_ours
from jitgrad.kernels.intrinsics import call_new_array, load, scratch, store


@inline
def _id_of(process, operand):
    """The id of an operand, or CONSTANT."""
    if load(operand + OBJECT_TYPE) != load(process + 8 * L.P_TENSOR):
        return L.CONSTANT
    vid = as_int(slot(operand, process, L.P_TENSOR_VID))
    return vid if vid >= 0 else L.CONSTANT


@inline
def _array_of(process, operand):
    """The array of a tensor; any other operand as it is."""
    if load(operand + OBJECT_TYPE) == load(process + 8 * L.P_TENSOR):
        return slot(operand, process, L.P_TENSOR_VALUE)
    return operand


@inline
def _tape_of(process, operands):
    """The tape that all tensors of floats are recorded on, or 0: on none, several, or one that native code leaves."""
    none = load(process + 8 * L.P_NONE)
    tape = 0
    for k in range(tuple_size(operands)):
        operand = tuple_item(operands, k)
        if load(operand + OBJECT_TYPE) != load(process + 8 * L.P_TENSOR):
            continue
        own = slot(operand, process, L.P_TENSOR_TAPE)
        if own == none and slot(operand, process, L.P_TENSOR_LEAF) == none:
            continue
        if own == none or as_int(slot(operand, process, L.P_TENSOR_VID)) < 0 or (tape != 0 and own != tape):
            return 0
        if float_of(process, slot(operand, process, L.P_TENSOR_VALUE)) < 0:
            return 0
        tape = own
    if load(load(process + 8 * L.P_SUSPENDED)) != 0:
        return 0
    return tape


@inline
def _keeps(process, opcode, operands):
    """What the rules of the recorded operands will need, as ROW_KEEPS; -1 if it is a constant that is not small."""
    pattern = 0
    for k in range(min(tuple_size(operands), L.MAX_KERNEL_OPERANDS)):
        pattern |= 1 << k if _id_of(process, tuple_item(operands, k)) >= 0 else 0
    keeps = load(load(process + 8 * L.P_KERNELS) + 8 * (L.KERNEL_WIDTH * 2 * opcode + L.KERNEL_KEEPS + pattern))
    for k in range(min(tuple_size(operands), L.MAX_KERNEL_OPERANDS)):
        operand = tuple_item(operands, k)
        if (keeps >> k) & 1 and _id_of(process, operand) < 0:
            array = _array_of(process, operand)
            if dtype_of(process, array) < 0 or extent_of(array) > L.COPIED:
                return -1
    return keeps


@inline
def _forward(process, function, operands, params):
    """Call an op's function with the arrays of its operands.

    Returns a new reference, 0 after an error: to an array, or to a tuple of several results.
    """
    n = tuple_size(operands)
    arrays = new_tuple(n)
    if arrays == 0:
        return 0
    for k in range(n):
        array = _array_of(process, tuple_item(operands, k))
        hold(array)
        set_tuple_item(arrays, k, array)
    out = call_object(function, arrays, params)
    let_go(arrays)
    if out == 0:
        return 0
    kind = load(out + OBJECT_TYPE)
    if kind == load(process + 8 * L.P_NDARRAY) or kind == load(process + 8 * L.P_TUPLE):
        return out
    argument = scratch(1)
    store(argument, out)
    array = vectorcall(load(process + 8 * L.P_ASARRAY), argument, 1, 0)
    let_go(out)
    return array


def run(self, args, n_args):
    """``(opcode, function, operands, params)``: run an op of one result on a tuple of operands, and record it.

    Returns the result's tensor. None, with nothing done, unless the tensors among the operands are floats that are
    recorded on one tape, and what else the rules need is small arrays of floats, of which they get copies.
    """
    process = load(self + ARRAY_DATA)
    opcode = as_int(load(args))
    operands = load(args + 16)
    params = load(args + 24)
    n = tuple_size(operands)
    tape = _tape_of(process, operands)
    if tape == 0:
        return nothing(process)
    header = header_of(process, tape)
    if not is_ours(header) or not has_room(header, n, n + 1):
        return nothing(process)
    keeps = _keeps(process, opcode, operands)
    if keeps < 0:
        return nothing(process)
    out = _forward(process, load(args + 8), operands, params)
    if out == 0:
        return 0
    dtype = float_of(process, out)
    if dtype < 0 or not has_room(header, n, n + 1):
        let_go(out)
        return nothing(process)
    place = scratch(3)
    data = record(process, header, out, params, place)
    if data < 0:
        return 0
    # constants become values before the row, whose result has the next id
    ids = scratch(3)
    for k in range(min(n, L.MAX_KERNEL_OPERANDS)):
        operand = tuple_item(operands, k)
        vid = _id_of(process, operand)
        if (keeps >> k) & 1:
            array = _array_of(process, operand)
            if vid >= 0:
                failed = set_item(load(header + 8 * L.H_KEPT), slot(operand, process, L.P_TENSOR_VID), array)
            else:
                vid = enter_constant(process, header, array, dtype_of(process, array))
                failed = vid
            if failed < 0:
                return 0
        store(ids + 8 * k, vid)
    row = load(header + 8 * L.H_N_ROWS)
    result = load(header + 8 * L.H_N_VALUES)
    ids_of_row = append_row(header, 2 * opcode, L.KIND_RULE, n, result, 1, data, keeps, load(place), load(place + 8))
    for k in range(n):
        known = k < L.MAX_KERNEL_OPERANDS
        store(ids_of_row + 8 * k, load(ids + 8 * k) if known else _id_of(process, tuple_item(operands, k)))
    tensor = finish(process, header, tape, out, dtype, extent_of(out), row, load(place + 16))
    if tensor != 0 and keeps & L.KEEPS_RESULT:
        if set_item(load(header + 8 * L.H_KEPT), slot(tensor, process, L.P_TENSOR_VID), out) != 0:
            return 0
    let_go(out)
    return tensor


@inline
def _bar_array(process, kind, value, dtype):
    """Return a new array of the cotangent that native code owns, which it then has no more; 0 after an error."""
    lengths = load(kind + load(process + 8 * L.P_TYPE_SHAPE))
    ndim = tuple_size(lengths)
    shape = scratch(64)  # NumPy's limit
    for d in range(ndim):
        store(shape + 8 * d, as_int(tuple_item(lengths, d)))
    new_array = load(process + 8 * L.P_NEW_ARRAY)
    array = call_new_array(new_array, load(process + 8 * L.P_NDARRAY), ndim, shape, 12 - dtype, 0, 0, 0, 0, 0)
    if array != 0:
        bar = load(value + 8 * L.VALUE_BAR)
        memcpy(load(array + ARRAY_DATA), bar, load(value + 8 * L.VALUE_SIZE) * (8 >> dtype))
        free(bar)
        store(value + 8 * L.VALUE_BAR_STATE, L.BAR_NONE)
    return array


@inline
def _kept(process, header, vid):
    """The residual of a value, or None. No new reference."""
    key = from_int(vid)
    array = get_kept(load(header + 8 * L.H_KEPT), key) if vid >= 0 else 0
    let_go(key)
    return load(process + 8 * L.P_NONE) if array == 0 else array


@inline
def _is_active(header, vid):
    place = load(header + 8 * L.H_VALUES) + 8 * (L.VALUE_WIDTH * vid + L.VALUE_ACTIVE)
    return vid >= load(header + 8 * L.H_FIRST_VALUE) and load(place) != 0


@inline
def _rule(rules, k):
    """An operand's rule. That of an op of any number of operands is the only one."""
    return tuple_item(rules, k if tuple_size(rules) > 1 else 0)


@inline
def _row_values(process, header, operands, n, values, types):
    """Fill the tuples of a row's residuals and of the types of its operands."""
    none = load(process + 8 * L.P_NONE)
    for k in range(n):
        vid = load(operands + 8 * k)
        array = _kept(process, header, vid)
        kind = list_item(load(header + 8 * L.H_TYPES), vid) if vid >= 0 else none
        hold(array)
        hold(kind)
        set_tuple_item(values, k, array)
        set_tuple_item(types, k, kind)


@inline
def _add(process, header, vid, contribution, add):
    """Add what a rule has returned to the cotangent of a value. Returns 0 after an error."""
    if contribution == load(process + 8 * L.P_NONE):
        return 1
    value = load(header + 8 * L.H_VALUES) + 8 * L.VALUE_WIDTH * vid
    dtype = load(value + 8 * L.VALUE_DTYPE)
    size = load(value + 8 * L.VALUE_SIZE)
    if dtype >= 0 and size <= L.SMALL and dtype_of(process, contribution) == dtype and extent_of(contribution) == size:
        add_to_bar(value, dtype, load(contribution + ARRAY_DATA))
        return 1
    arguments = scratch(2)
    number = from_int(vid)
    store(arguments, number)
    store(arguments + 8, contribution)
    done = vectorcall(add, arguments, 2, 0)
    let_go(number)
    if done == 0:
        return 0
    let_go(done)
    return 1


@inline
def _can_reverse(process, header, row, value, rules):
    """Whether native code can replay a row: its one result's cotangent is small and its own, its rules are known."""
    if load(row + 8 * L.ROW_N_RESULTS) != 1 or load(row + 8 * L.ROW_FREED) == L.FREED:
        return False
    if load(value + 8 * L.VALUE_BAR_STATE) != L.BAR_OWNED or load(value + 8 * L.VALUE_ACTIVE) != 1:
        return False
    if load(value + 8 * L.VALUE_DTYPE) < 0 or load(value + 8 * L.VALUE_SIZE) > L.SMALL:
        return False
    none = load(process + 8 * L.P_NONE)
    if rules == none:
        return False
    operands = load(header + 8 * L.H_OPERANDS) + 8 * load(row + 8 * L.ROW_OPERANDS)
    for k in range(load(row + 8 * L.ROW_N_OPERANDS)):
        if _is_active(header, load(operands + 8 * k)) and _rule(rules, k) == none:
            return False
    return True


@inline
def reverse_rule(process, header, row, value, all_rules, add):
    """Replay a row by calling the rules of its active operands: 1 when that is done, 0 after an error.

    -1, with nothing done, where more of Python is needed.
    """
    rules = list_item(all_rules, load(row + 8 * L.ROW_KERNEL) >> 1)
    if not _can_reverse(process, header, row, value, rules):
        return -1
    n = load(row + 8 * L.ROW_N_OPERANDS)
    result = load(row + 8 * L.ROW_RESULT)
    first = load(row + 8 * L.ROW_OPERANDS)
    g = _bar_array(process, list_item(load(header + 8 * L.H_TYPES), result), value, load(value + 8 * L.VALUE_DTYPE))
    values = new_tuple(n)
    types = new_tuple(n)
    if g == 0 or values == 0 or types == 0:
        return 0
    _row_values(process, header, load(header + 8 * L.H_OPERANDS) + 8 * first, n, values, types)
    out = _kept(process, header, result)
    params = list_item(load(header + 8 * L.H_PARAMS), load(row + 8 * L.ROW_DATA))
    hold(out)
    hold(params)
    done = 1
    arguments = scratch(6)
    store(arguments + 8, g)
    store(arguments + 16, values)
    store(arguments + 24, types)
    store(arguments + 32, out)
    store(arguments + 40, params)
    for k in range(n):
        vid = load(load(header + 8 * L.H_OPERANDS) + 8 * (first + k))
        if done == 0 or not _is_active(header, vid):
            continue
        number = from_int(k)
        store(arguments, number)
        contribution = vectorcall(_rule(rules, k), arguments, 6, 0)
        let_go(number)
        if contribution == 0:
            done = 0
        else:
            done = _add(process, header, vid, contribution, add)
            let_go(contribution)
    let_go(g)
    let_go(values)
    let_go(types)
    let_go(out)
    let_go(params)
    return done
