"""The native part of the reverse replay: marking what it has to look at, and walking the rows."""

from __future__ import annotations

from jitgrad.kernels import layout as L
from jitgrad.kernels.entries.bars import add_elements, add_to_bar, open_bar
from jitgrad.kernels.entries.elementwise import call_over, dense_strides
from jitgrad.kernels.entries.objects import (
    ARRAY_DATA,
    as_int,
    free,
    from_int,
    inline,
    itemsize_of,
    malloc,
    memcpy,
    nothing,
)
from jitgrad.kernels.entries.rows import operand_count
from jitgrad.kernels.entries.rules import reverse_rule
from jitgrad.kernels.entries.writes import ADD, READ, WRITE, move
from jitgrad.kernels.intrinsics import call_kernel, load, pointer_f4, pointer_f8, scratch, store


def begin(self, args, n_args):
    """``(header, first_value, first_row, last_row, *wanted)``: mark what a replay of these rows has to look at.

    Of the values from ``first_value`` on, the wanted ones become active and held, and with them the results of every
    row that has an active operand.
    """
    process = load(self + ARRAY_DATA)
    header = load(load(args) + ARRAY_DATA)
    values = load(header + 8 * L.H_VALUES)
    first_value = as_int(load(args + 8))
    store(header + 8 * L.H_FIRST_VALUE, first_value)
    for v in range(first_value, load(header + 8 * L.H_N_VALUES)):
        store(values + 8 * (L.VALUE_WIDTH * v + L.VALUE_ACTIVE), 0)
    for k in range(4, n_args):
        store(values + 8 * (L.VALUE_WIDTH * as_int(load(args + 8 * k)) + L.VALUE_ACTIVE), 2)
    last = as_int(load(args + 24))
    for r in range(as_int(load(args + 16)), last + 1):
        row = load(header + 8 * L.H_ROWS) + 8 * L.ROW_WIDTH * r
        operands = load(header + 8 * L.H_OPERANDS) + 8 * load(row + 8 * L.ROW_OPERANDS)
        active = 0
        for k in range(operand_count(row)):
            v = load(operands + 8 * k)
            if v >= first_value and load(values + 8 * (L.VALUE_WIDTH * v + L.VALUE_ACTIVE)) != 0:
                active = 1
                break
        if active:
            result = load(row + 8 * L.ROW_RESULT)
            for k in range(load(row + 8 * L.ROW_N_RESULTS)):
                place = values + 8 * (L.VALUE_WIDTH * (result + k) + L.VALUE_ACTIVE)
                if load(place) == 0:
                    store(place, 1)
    return nothing(process)


def end(self, args, n_args):
    """``(header,)``: after a replay, whether it came through or not; free the cotangents that are left."""
    process = load(self + ARRAY_DATA)
    header = load(load(args) + ARRAY_DATA)
    for v in range(load(header + 8 * L.H_FIRST_VALUE), load(header + 8 * L.H_N_VALUES)):
        value = load(header + 8 * L.H_VALUES) + 8 * L.VALUE_WIDTH * v
        if load(value + 8 * L.VALUE_BAR_STATE) == L.BAR_OWNED:
            free(load(value + 8 * L.VALUE_BAR))
        store(value + 8 * L.VALUE_BAR_STATE, L.BAR_NONE)
    return nothing(process)


def release(self, args, n_args):
    """``(header, last_row)``: before a replay that frees; mark the rows that it will free and the values that stay.

    The seeds' VALUE_NEEDED is 2, that of all other values 0. Afterwards VALUE_NEEDED is 1 where a row that the replay
    does not reach, and that is not freed, keeps the value.
    """
    process = load(self + ARRAY_DATA)
    header = load(load(args) + ARRAY_DATA)
    values = load(header + 8 * L.H_VALUES)
    rows = load(header + 8 * L.H_ROWS)
    for r in range(as_int(load(args + 8)), -1, -1):
        row = rows + 8 * L.ROW_WIDTH * r
        reached = False
        for k in range(load(row + 8 * L.ROW_N_RESULTS)):
            value = values + 8 * L.VALUE_WIDTH * (load(row + 8 * L.ROW_RESULT) + k)
            reached = reached or (load(value + 8 * L.VALUE_NEEDED) == 2 and load(value + 8 * L.VALUE_ACTIVE) != 0)
        if not reached:
            continue
        if load(row + 8 * L.ROW_KEEPS) != 0 and load(row + 8 * L.ROW_FREED) == 0:
            store(row + 8 * L.ROW_FREED, L.BEING_FREED)
        operands = load(header + 8 * L.H_OPERANDS) + 8 * load(row + 8 * L.ROW_OPERANDS)
        for k in range(operand_count(row)):
            if load(operands + 8 * k) >= 0:
                store(values + 8 * (L.VALUE_WIDTH * load(operands + 8 * k) + L.VALUE_NEEDED), 2)
    for v in range(load(header + 8 * L.H_N_VALUES)):
        store(values + 8 * (L.VALUE_WIDTH * v + L.VALUE_NEEDED), 0)
    for r in range(load(header + 8 * L.H_N_ROWS)):
        row = rows + 8 * L.ROW_WIDTH * r
        keeps = load(row + 8 * L.ROW_KEEPS)
        if keeps == 0 or load(row + 8 * L.ROW_FREED) != 0:
            continue
        operands = load(header + 8 * L.H_OPERANDS) + 8 * load(row + 8 * L.ROW_OPERANDS)
        for k in range(operand_count(row)):
            v = load(operands + 8 * k)
            if v >= 0 and (keeps & L.KEEPS_ALL != 0 or (k < 61 and (keeps >> k) & 1 != 0)):
                store(values + 8 * (L.VALUE_WIDTH * v + L.VALUE_NEEDED), 1)
        if keeps & L.KEEPS_RESULT != 0:
            for k in range(load(row + 8 * L.ROW_N_RESULTS)):
                store(values + 8 * (L.VALUE_WIDTH * (load(row + 8 * L.ROW_RESULT) + k) + L.VALUE_NEEDED), 1)
    return nothing(process)


@inline
def _reverse_elementwise(process, header, row, value):
    """Add an elementwise row's contributions. False, with nothing done, where a VJP kernel is not compiled yet."""
    values = load(header + 8 * L.H_VALUES)
    first_value = load(header + 8 * L.H_FIRST_VALUE)
    kernel = load(row + 8 * L.ROW_KERNEL)
    dtype = kernel & 1
    itemsize = 8 >> dtype
    table = load(process + 8 * L.P_KERNELS) + 8 * (L.KERNEL_WIDTH * kernel + L.KERNEL_VJP)
    operands = load(header + 8 * L.H_OPERANDS) + 8 * load(row + 8 * L.ROW_OPERANDS)
    n_operands = load(row + 8 * L.ROW_N_OPERANDS)
    for k in range(n_operands):
        v = load(operands + 8 * k)
        if v >= first_value and load(values + 8 * (L.VALUE_WIDTH * v + L.VALUE_ACTIVE)) != 0:
            if load(table + 8 * (L.VJP_WIDTH * k + L.VJP_ADDRESS)) == 0:
                return False
    pointers = scratch(6)
    steps = scratch(6)
    dims = scratch(1)
    extent = load(value + 8 * L.VALUE_SIZE)
    store(dims, extent)
    for k in range(n_operands):
        v = load(operands + 8 * k)
        if v < first_value or load(values + 8 * (L.VALUE_WIDTH * v + L.VALUE_ACTIVE)) == 0:
            continue
        group = table + 8 * L.VJP_WIDTH * k
        store(pointers, load(value + 8 * L.VALUE_BAR))
        store(steps, itemsize)
        n_residuals = load(group + 8 * L.VJP_N_RESIDUALS)
        for j in range(n_residuals):
            which = load(group + 8 * (L.VJP_RESIDUALS + j))
            u = load(row + 8 * L.ROW_RESULT) if which == L.RESULT else load(operands + 8 * which)
            if u == L.IMMEDIATE:
                store(pointers + 8 * (j + 1), row + 8 * L.ROW_DATA)
                store(steps + 8 * (j + 1), 0)
            else:
                residual = values + 8 * L.VALUE_WIDTH * u
                step = itemsize_of(load(residual + 8 * L.VALUE_DTYPE))
                store(pointers + 8 * (j + 1), load(residual + 8 * L.VALUE_ADDRESS))
                store(steps + 8 * (j + 1), 0 if load(residual + 8 * L.VALUE_SIZE) != extent else step)
        target = values + 8 * L.VALUE_WIDTH * v
        narrow = load(target + 8 * L.VALUE_SIZE) != extent  # a scalar operand: its cotangent is a sum
        held = open_bar(target, dtype, narrow)
        store(pointers + 8 * (n_residuals + 1), load(target + 8 * L.VALUE_BAR))
        store(steps + 8 * (n_residuals + 1), 0 if narrow else itemsize)
        call_kernel(load(group + 8 * L.VJP_ADDRESS), pointers, dims, steps, L.ACCUMULATE if held or narrow else L.STORE)
    return True


@inline
def _bar_strides(strides, shape, ndim, itemsize, bar_strides):
    """Write the strides of an operand's cotangent, which is contiguous, from those of the operand itself."""
    step = itemsize
    for d in range(ndim - 1, -1, -1):
        broadcast = load(strides + 8 * d) == 0
        store(bar_strides + 8 * d, 0 if broadcast else step)
        step *= 1 if broadcast else load(shape + 8 * d)


@inline
def _reverse_broadcast(process, header, row, value):
    """Add a broadcast row's contributions. False, with nothing done, where a VJP kernel is not compiled yet."""
    values = load(header + 8 * L.H_VALUES)
    first_value = load(header + 8 * L.H_FIRST_VALUE)
    kernel = load(row + 8 * L.ROW_KERNEL)
    dtype = kernel & 1
    itemsize = 8 >> dtype
    table = load(process + 8 * L.P_KERNELS) + 8 * (L.KERNEL_WIDTH * kernel + L.KERNEL_VJP)
    operands = load(header + 8 * L.H_OPERANDS) + 8 * load(row + 8 * L.ROW_OPERANDS)
    n_ids = operand_count(row)
    for k in range(n_ids):
        v = load(operands + 8 * k)
        if v >= first_value and load(values + 8 * (L.VALUE_WIDTH * v + L.VALUE_ACTIVE)) != 0:
            if load(table + 8 * (L.VJP_WIDTH * k + L.VJP_ADDRESS)) == 0:
                return False
    layout = operands + 8 * n_ids
    ndim = load(layout)
    shape = layout + 8
    operand_strides = shape + 8 * ndim
    own_strides = scratch(8)
    dense_strides(own_strides, shape, ndim, itemsize)
    extent = load(value + 8 * L.VALUE_SIZE)
    pointers = scratch(6)
    strides = scratch(48)
    for k in range(n_ids):
        v = load(operands + 8 * k)
        if v < first_value or load(values + 8 * (L.VALUE_WIDTH * v + L.VALUE_ACTIVE)) == 0:
            continue
        group = table + 8 * L.VJP_WIDTH * k
        n_residuals = load(group + 8 * L.VJP_N_RESIDUALS)
        store(pointers, load(value + 8 * L.VALUE_BAR))
        memcpy(strides, own_strides, 8 * ndim)
        for j in range(n_residuals):
            which = load(group + 8 * (L.VJP_RESIDUALS + j))
            u = load(row + 8 * L.ROW_RESULT) if which == L.RESULT else load(operands + 8 * which)
            number = u == L.IMMEDIATE  # whose strides are zeros
            address = row + 8 * L.ROW_DATA if number else load(values + 8 * (L.VALUE_WIDTH * u + L.VALUE_ADDRESS))
            store(pointers + 8 * (j + 1), address)
            source = own_strides if which == L.RESULT else operand_strides + 8 * ndim * which
            memcpy(strides + 8 * ndim * (j + 1), source, 8 * ndim)
        target = values + 8 * L.VALUE_WIDTH * v
        narrow = load(target + 8 * L.VALUE_SIZE) != extent
        held = open_bar(target, dtype, narrow)
        store(pointers + 8 * (n_residuals + 1), load(target + 8 * L.VALUE_BAR))
        _bar_strides(operand_strides + 8 * ndim * k, shape, ndim, itemsize, strides + 8 * ndim * (n_residuals + 1))
        data = L.ACCUMULATE if held or narrow else L.STORE
        call_over(load(group + 8 * L.VJP_ADDRESS), pointers, strides, n_residuals + 2, shape, ndim, data)
    return True


@inline
def _reverse_view(header, row, value):
    """Scatter the cotangent of a strided view into its base's."""
    values = load(header + 8 * L.H_VALUES)
    dtype = load(row + 8 * L.ROW_KERNEL) & 1
    itemsize = 8 >> dtype
    operands = load(header + 8 * L.H_OPERANDS) + 8 * load(row + 8 * L.ROW_OPERANDS)
    base = values + 8 * L.VALUE_WIDTH * load(operands)
    open_bar(base, dtype, True)
    target = load(base + 8 * L.VALUE_BAR) + load(operands + 8)
    source = load(value + 8 * L.VALUE_BAR)
    ndim = load(operands + 16)
    shape = operands + 24
    strides = shape + 8 * ndim
    outer = 1
    for d in range(ndim - 1):
        outer *= load(shape + 8 * d)
    inner = load(shape + 8 * (ndim - 1)) if ndim > 0 else 1
    step = load(strides + 8 * (ndim - 1)) if ndim > 0 else 0
    for block in range(outer):
        place = target
        rest = block
        for d in range(ndim - 2, -1, -1):
            length = load(shape + 8 * d)
            place += (rest % length) * load(strides + 8 * d)
            rest //= length
        if dtype == 0:
            for _ in range(inner):
                pointer_f8(place)[0] += pointer_f8(source)[0]
                place += step
                source += itemsize
        else:
            for _ in range(inner):
                pointer_f4(place)[0] += pointer_f4(source)[0]
                place += step
                source += itemsize


@inline
def _reverse_put(header, row, value):
    """Give the cotangent of a written part to what was written, and the rest to what was written to."""
    values = load(header + 8 * L.H_VALUES)
    first_value = load(header + 8 * L.H_FIRST_VALUE)
    dtype = load(row + 8 * L.ROW_KERNEL) & 1
    itemsize = 8 >> dtype
    operands = load(header + 8 * L.H_OPERANDS) + 8 * load(row + 8 * L.ROW_OPERANDS)
    x_id = load(operands)
    value_id = load(operands + 8)
    offset = load(operands + 16)
    ndim = load(operands + 24)
    shape = operands + 32
    strides = shape + 8 * ndim
    size = 1
    for d in range(ndim):
        size *= load(shape + 8 * d)
    bar = load(value + 8 * L.VALUE_BAR)
    if value_id >= first_value:
        source = values + 8 * L.VALUE_WIDTH * value_id
        if load(source + 8 * L.VALUE_ACTIVE) != 0:
            open_bar(source, dtype, True)
            step = itemsize if load(source + 8 * L.VALUE_SIZE) == size else 0
            move(dtype, bar + offset, shape, strides, ndim, load(source + 8 * L.VALUE_BAR), step, ADD)
    base = values + 8 * L.VALUE_WIDTH * x_id
    if x_id < first_value or load(base + 8 * L.VALUE_ACTIVE) == 0:
        return
    n = load(base + 8 * L.VALUE_SIZE)
    if load(base + 8 * L.VALUE_BAR_STATE) == L.BAR_NONE:
        if load(value + 8 * L.VALUE_BAR_STATE) == L.BAR_OWNED and load(value + 8 * L.VALUE_ACTIVE) != 2:
            store(value + 8 * L.VALUE_BAR_STATE, L.BAR_NONE)  # it changes hands
        else:
            held = bar
            bar = malloc(n * itemsize)
            memcpy(bar, held, n * itemsize)
        store(base + 8 * L.VALUE_BAR, bar)
        store(base + 8 * L.VALUE_BAR_STATE, L.BAR_OWNED)
        zero = scratch(1)
        store(zero, 0)
        move(dtype, bar + offset, shape, strides, ndim, zero, 0, WRITE)
        return
    open_bar(base, dtype, False)
    total = load(base + 8 * L.VALUE_BAR)
    before = malloc(size * itemsize)  # the written part adds nothing to what is there
    move(dtype, total + offset, shape, strides, ndim, before, itemsize, READ)
    add_elements(dtype, total, bar, n)
    move(dtype, total + offset, shape, strides, ndim, before, itemsize, WRITE)
    free(before)


@inline
def _reverse_join(header, row, value):
    """Give each operand its part of the cotangent."""
    values = load(header + 8 * L.H_VALUES)
    first_value = load(header + 8 * L.H_FIRST_VALUE)
    dtype = load(row + 8 * L.ROW_KERNEL) & 1
    operands = load(header + 8 * L.H_OPERANDS) + 8 * load(row + 8 * L.ROW_OPERANDS)
    part = load(value + 8 * L.VALUE_BAR)
    for k in range(load(row + 8 * L.ROW_N_OPERANDS)):
        v = load(operands + 8 * k)
        target = values + 8 * L.VALUE_WIDTH * v
        n = load(target + 8 * L.VALUE_SIZE)
        if v >= first_value and load(target + 8 * L.VALUE_ACTIVE) != 0:
            add_to_bar(target, dtype, part)
        part += n * (8 >> dtype)


@inline
def _reverse_gather(header, row, value):
    """Add the cotangent of each slice to where it was taken from."""
    values = load(header + 8 * L.H_VALUES)
    dtype = load(row + 8 * L.ROW_KERNEL) & 1
    operands = load(header + 8 * L.H_OPERANDS) + 8 * load(row + 8 * L.ROW_OPERANDS)
    base = values + 8 * L.VALUE_WIDTH * load(operands)
    index = values + 8 * L.VALUE_WIDTH * load(operands + 8)
    open_bar(base, dtype, True)
    n = load(index + 8 * L.VALUE_SIZE)
    outer = load(operands + 16)
    inner = load(value + 8 * L.VALUE_SIZE) // (n * outer)
    length = load(base + 8 * L.VALUE_SIZE) // (inner * outer)
    position = load(index + 8 * L.VALUE_ADDRESS)
    target = load(base + 8 * L.VALUE_BAR)
    source = load(value + 8 * L.VALUE_BAR)
    row_bytes = inner * (8 >> dtype)
    for _ in range(outer):
        for i in range(n):
            at = load(position + 8 * i)
            place = target + row_bytes * (at + length if at < 0 else at)
            if dtype == 0:
                for j in range(inner):
                    pointer_f8(place)[j] += pointer_f8(source)[j]
            else:
                for j in range(inner):
                    pointer_f4(place)[j] += pointer_f4(source)[j]
            source += row_bytes
        target += length * row_bytes


@inline
def _reverse_total(header, row, value):
    """Add a total's cotangent, scaled, to every element of its operand's."""
    dtype = load(row + 8 * L.ROW_KERNEL) & 1
    operands = load(header + 8 * L.H_OPERANDS) + 8 * load(row + 8 * L.ROW_OPERANDS)
    operand = load(header + 8 * L.H_VALUES) + 8 * L.VALUE_WIDTH * load(operands)
    held = open_bar(operand, dtype, False)
    n = load(operand + 8 * L.VALUE_SIZE)
    scale = pointer_f8(row + 8 * L.ROW_DATA)[0]
    if dtype == 0:
        bar = pointer_f8(load(operand + 8 * L.VALUE_BAR))
        g = pointer_f8(load(value + 8 * L.VALUE_BAR))[0] * scale
        for i in range(n):
            bar[i] = bar[i] + g if held else g
    else:
        narrow = pointer_f4(load(operand + 8 * L.VALUE_BAR))
        h = pointer_f4(load(value + 8 * L.VALUE_BAR))[0] * scale
        for i in range(n):
            narrow[i] = narrow[i] + h if held else h


@inline
def _wants_array(header, row, kind):
    """Whether a row adds to a part of a large cotangent that is no array of the replay's own yet.

    NumPy's memory is handed out as it is, and where it holds zeros, it is not touched before it is written to.
    """
    if kind != L.KIND_VIEW and kind != L.KIND_GATHER:
        return False
    base = load(load(header + 8 * L.H_OPERANDS) + 8 * load(row + 8 * L.ROW_OPERANDS))
    value = load(header + 8 * L.H_VALUES) + 8 * L.VALUE_WIDTH * base
    state = load(value + 8 * L.VALUE_BAR_STATE)
    return load(value + 8 * L.VALUE_SIZE) > L.SMALL and (state == L.BAR_NONE or state == L.BAR_BORROWED)


def reverse(self, args, n_args):
    """``(header, first_row, row, rules, add)``: replay in reverse from ``row`` down, as far as native code can.

    ``rules`` has a tuple for each op, with the VJP rules of its operands as functions of the parts of a row, or None;
    ``add(value, contribution)`` adds what native code cannot. Returns the row that needs more of Python than its
    rules, a VJP kernel that must be compiled, or an array to add to; or ``first_row - 1``.
    """
    process = load(self + ARRAY_DATA)
    header = load(load(args) + ARRAY_DATA)
    first = as_int(load(args + 8))
    r = as_int(load(args + 16))
    while r >= first:
        values = load(header + 8 * L.H_VALUES)  # a rule may have run
        row = load(header + 8 * L.H_ROWS) + 8 * L.ROW_WIDTH * r
        kind = load(row + 8 * L.ROW_KIND)
        value = values + 8 * L.VALUE_WIDTH * load(row + 8 * L.ROW_RESULT)
        if kind == L.KIND_RULE:
            for k in range(load(row + 8 * L.ROW_N_RESULTS)):
                if load(value + 8 * (L.VALUE_WIDTH * k + L.VALUE_BAR_STATE)) != L.BAR_NONE:
                    done = reverse_rule(process, header, row, value, load(args + 24), load(args + 32))
                    if done != 1:
                        return 0 if done == 0 else from_int(r)
                    break
        elif load(value + 8 * L.VALUE_BAR_STATE) != L.BAR_NONE:
            if load(value + 8 * L.VALUE_ACTIVE) != 0:
                if load(row + 8 * L.ROW_FREED) == L.FREED or _wants_array(header, row, kind):
                    return from_int(r)
                if kind == L.KIND_VIEW:
                    _reverse_view(header, row, value)
                elif kind == L.KIND_PUT:
                    _reverse_put(header, row, value)
                elif kind == L.KIND_JOIN:
                    _reverse_join(header, row, value)
                elif kind == L.KIND_GATHER:
                    _reverse_gather(header, row, value)
                elif kind == L.KIND_TOTAL:
                    _reverse_total(header, row, value)
                elif kind == L.KIND_BROADCAST_2 or kind == L.KIND_BROADCAST_1 or kind == L.KIND_BROADCAST_3:
                    if not _reverse_broadcast(process, header, row, value):
                        return from_int(r)
                elif not _reverse_elementwise(process, header, row, value):
                    return from_int(r)
            if load(value + 8 * L.VALUE_ACTIVE) != 2:
                if load(value + 8 * L.VALUE_BAR_STATE) == L.BAR_OWNED:
                    free(load(value + 8 * L.VALUE_BAR))
                store(value + 8 * L.VALUE_BAR_STATE, L.BAR_NONE)
        r -= 1
    return from_int(first - 1)
