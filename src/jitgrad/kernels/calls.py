"""The built-in function that a compiled function is: arguments checked, arrays made, a plan run, in one native call."""

from __future__ import annotations

from numba import types

from jitgrad.kernels import layout as L
from jitgrad.kernels.entries.objects import (
    ARRAY_DATA,
    ARRAY_DTYPE,
    ARRAY_FLAGS,
    ARRAY_NDIM,
    ARRAY_SHAPE,
    OBJECT_TYPE,
    as_double,
    hold,
    inline,
    let_go,
)
from jitgrad.kernels.intrinsics import (
    call_new_array,
    call_return,
    load,
    pointer_f8,
    pointer_i4,
    scratch,
    store,
)
from jitgrad.kernels.rows import bind_slot, run

__all__ = ["call"]

_i8 = types.int64
_dict_item = types.ExternalFunction("PyDict_GetItem", _i8(_i8, _i8))
_new_tuple = types.ExternalFunction("PyTuple_New", _i8(_i8))
_set_tuple = types.ExternalFunction("PyTuple_SetItem", types.int32(_i8, _i8, _i8))
_vectorcall = types.ExternalFunction("PyObject_Vectorcall", _i8(_i8, _i8, _i8, _i8))

_CELL_CONTENTS = ARRAY_DATA  # behind the head of the object, too
_READABLE = 0x101  # NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED


@inline
def _bind_arguments(context, args, process, plan):
    """Check the arguments, and tell the plan where they are. Returns whether they are what was traced."""
    table = load(context + 8 * L.CALL_ARGUMENTS)
    for k in range(load(context + 8 * L.CALL_N_ARGUMENTS)):
        expected = table + 8 * L.ARGUMENT_WIDTH * k
        argument = load(args + 8 * k)
        kind = load(expected + 8 * L.ARGUMENT_KIND)
        known = load(expected + 8 * L.ARGUMENT_OBJECT)
        if kind == L.ARGUMENT_ARRAY:
            if load(argument + OBJECT_TYPE) != load(process + 8 * L.P_NDARRAY):
                return False
            if load(argument + ARRAY_DTYPE) != known:
                return False
            if pointer_i4(argument + ARRAY_FLAGS)[0] & _READABLE != _READABLE:
                return False
            ndim = pointer_i4(argument + ARRAY_NDIM)[0]
            if ndim != load(expected + 8 * L.ARGUMENT_NDIM):
                return False
            shape = load(argument + ARRAY_SHAPE)
            traced = load(expected + 8 * L.ARGUMENT_SHAPE)
            for d in range(ndim):
                if load(shape + 8 * d) != load(traced + 8 * d):
                    return False
            bind_slot(plan, load(expected + 8 * L.ARGUMENT_SLOT), load(argument + ARRAY_DATA))
        elif kind == L.ARGUMENT_NUMBER:
            if load(argument + OBJECT_TYPE) != load(process + 8 * L.P_FLOAT):
                return False
            pointer_f8(known)[0] = as_double(argument)
        elif argument != known:
            return False
    return True


@inline
def _surroundings_hold(context):
    table = load(context + 8 * L.CALL_CHECKS)
    for k in range(load(context + 8 * L.CALL_N_CHECKS)):
        check = table + 8 * L.CHECK_WIDTH * k
        holder = load(check + 8 * L.CHECK_HOLDER)
        key = load(check + 8 * L.CHECK_KEY)
        now = _dict_item(holder, key) if key != 0 else load(holder + _CELL_CONTENTS)
        if now != load(check + 8 * L.CHECK_SEEN):
            return False
    return True


@inline
def _attempt(context, args):
    """Run the plan. Returns the result; 0 after an error; -1, with nothing done, where the general path must run."""
    process = load(context + 8 * L.CALL_PROCESS)
    plan = load(context + 8 * L.CALL_PLAN)
    if not _bind_arguments(context, args, process, plan) or not _surroundings_hold(context):
        return -1
    made = scratch(16)
    outputs = load(context + 8 * L.CALL_OUTPUTS)
    n_outputs = load(context + 8 * L.CALL_N_OUTPUTS)
    for k in range(n_outputs):
        output = outputs + 8 * L.OUTPUT_WIDTH * k
        array = call_new_array(
            load(process + 8 * L.P_NEW_ARRAY),
            load(process + 8 * L.P_NDARRAY),
            load(output + 8 * L.OUTPUT_NDIM),
            load(output + 8 * L.OUTPUT_SHAPE),
            load(output + 8 * L.OUTPUT_TYPE),
            0,
            0,
            0,
            0,
            0,
        )
        if array == 0:
            for j in range(k):
                let_go(load(made + 8 * j))
            return 0
        store(made + 8 * k, array)
        bind_slot(plan, load(output + 8 * L.OUTPUT_SLOT), load(array + ARRAY_DATA))
    if run(plan, 0) != load(plan + 8 * L.PLAN_N_ROWS):  # a guard does not hold
        for k in range(n_outputs):
            let_go(load(made + 8 * k))
        return -1
    hits = load(context + 8 * L.CALL_HITS)
    store(hits, load(hits) + 1)
    stack = scratch(32)  # FORM_DEPTH, as a literal
    depth = 0
    form = load(context + 8 * L.CALL_FORM)
    for k in range(load(context + 8 * L.CALL_N_FORM)):
        what = load(form + 16 * k)
        operand = load(form + 16 * k + 8)
        if what == L.FORM_OUTPUT:
            # a scalar of NumPy's for an array without axes; takes over the reference
            store(stack + 8 * depth, call_return(load(process + 8 * L.P_RETURN), load(made + 8 * operand)))
            depth += 1
        elif what == L.FORM_OBJECT:
            hold(operand)
            store(stack + 8 * depth, operand)
            depth += 1
        else:
            items = _new_tuple(operand)
            depth -= operand
            for j in range(operand):
                _set_tuple(items, j, load(stack + 8 * (depth + j)))
            store(stack + 8 * depth, items)
            depth += 1
    return load(stack)


def call(self, args, n_args, names):
    """``(*args, **kwargs)``: replay where the arguments are what was traced; ``self`` is the context."""
    context = load(self + ARRAY_DATA)
    if (
        load(context + 8 * L.CALL_READY) != 0
        and names == 0
        and n_args == load(context + 8 * L.CALL_N_ARGUMENTS)
        and load(load(context + 8 * L.CALL_TRACES)) == 0
    ):
        result = _attempt(context, args)
        if result != -1:
            return result
    return _vectorcall(load(context + 8 * L.CALL_GENERAL), args, n_args, names)
