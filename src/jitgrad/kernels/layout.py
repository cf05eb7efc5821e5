"""How a tape lies in memory: the integer columns that Python and native code agree on.

Everything is a plain int64 array. The header is one small array that holds the addresses and counts of the
others, so that native code receives a whole tape as one argument.
"""

from __future__ import annotations

from typing import Final

# One instruction. Its operands are ids of values; they stand in a second array (CSR), from ROW_OPERANDS on.
ROW_KERNEL: Final = 0  # 2 * opcode + (1 for float32): the line of the kernel table
ROW_KIND: Final = 1  # how the reverse replay treats the row, see below
ROW_OPERANDS: Final = 2
ROW_N_OPERANDS: Final = 3
ROW_RESULT: Final = 4  # id of the first result; several results have consecutive ids
ROW_N_RESULTS: Final = 5
ROW_DATA: Final = 6  # the bits of an immediate scalar, or the index of the static parameters
ROW_CODE: Final = 7  # address of the user's code object, and ...
ROW_LASTI: Final = 8  # ... the offset of the instruction in it: the line, resolved only when asked for
ROW_KEEPS: Final = 9  # which operands (bit k) and whether the result (KEEPS_RESULT) its rules need again
ROW_FREED: Final = 10  # FREED after a reverse replay has dropped what the row had kept
ROW_WIDTH: Final = 11

KEEPS_RESULT: Final = 1 << 62
KEEPS_ALL: Final = 1 << 61  # every operand, however many

FREED: Final = 1
BEING_FREED: Final = 2  # by the replay that is running

KIND_RULE: Final = 0  # the VJP rule runs in Python, on arrays or tensors
KIND_ELEMENTWISE: Final = 1  # contiguous operands of one extent, or scalars: the VJP kernels run natively
KIND_VIEW: Final = 2  # the result is a strided view of the one operand: the VJP is a strided scatter
KIND_TOTAL: Final = 3  # the sum of all elements, times the scalar in ROW_DATA

# Elementwise on operands of unlike shapes or any strides: one, two or three of them.
KIND_BROADCAST_1: Final = 8
KIND_BROADCAST_2: Final = 4
KIND_BROADCAST_3: Final = 9
KINDS_OF_KERNELS: Final = (KIND_ELEMENTWISE, KIND_BROADCAST_1, KIND_BROADCAST_2, KIND_BROADCAST_3)

KIND_PUT: Final = 5  # the first operand, with the second in the place of a strided part of it
KIND_JOIN: Final = 6  # the operands' elements, one operand after another
KIND_GATHER: Final = 7  # the first operand's slices along an axis, as the second, of int64, names them

# How many of a row's operands are ids of values, where not all are: behind them stand shape and strides.
N_IDS: Final = {
    KIND_VIEW: 1,
    KIND_BROADCAST_1: 1,
    KIND_BROADCAST_2: 2,
    KIND_BROADCAST_3: 3,
    KIND_PUT: 2,
    KIND_GATHER: 2,
}

IMMEDIATE: Final = -1  # operand id of a Python scalar that stands in ROW_DATA
CONSTANT: Final = -2  # operand id of a value that no derivative is asked of and no rule needs

# One value.
VALUE_ADDRESS: Final = 0  # of its first element
VALUE_SIZE: Final = 1  # elements
VALUE_DTYPE: Final = 2  # 0 float64, 1 float32, whatever its strides; -1 anything else
VALUE_BAR: Final = 3  # address of its cotangent, while a reverse replay runs
VALUE_BAR_STATE: Final = 4
VALUE_ACTIVE: Final = 5  # 1 if the replay wants what flows through it, 2 if its cotangent is to be held
VALUE_ROW: Final = 6  # the row that made it, -1 for an input
VALUE_NEEDED: Final = 7  # 1 if a row keeps it that the running replay does not free
VALUE_WIDTH: Final = 8  # one cache line

BAR_NONE: Final = 0  # no cotangent has arrived: a symbolic zero
BAR_BORROWED: Final = 1  # lives in an array that others may read: copy before adding to it
BAR_OWNED: Final = 2  # malloc'ed by the replay, freed by the replay
BAR_ARRAY: Final = 3  # lives in an array that only the replay knows: may be added to

# The header.
H_ROWS: Final = 0
H_ROW_CAPACITY: Final = 1
H_N_ROWS: Final = 2
H_OPERANDS: Final = 3
H_OPERAND_CAPACITY: Final = 4
H_N_OPERANDS: Final = 5
H_VALUES: Final = 6
H_VALUE_CAPACITY: Final = 7
H_N_VALUES: Final = 8
H_BYTES: Final = 9  # bytes of all results recorded since the last compaction
H_BYTE_LIMIT: Final = 10
H_FIRST_VALUE: Final = 11  # values below this id take no part in the running replay
H_KEPT: Final = 12  # addresses of the tape's Python objects: the dict of residuals, ...
H_TYPES: Final = 13  # ... the list of types, ...
H_CODES: Final = 14  # ... the dict that keeps code objects alive, by address, ...
H_LAST_CODE: Final = 15  # ... the code object that was entered last, ...
H_HANDLES: Final = 16  # ... the dict of weak references to tensors, or 0, ...
H_PARAMS: Final = 17  # ... and the list of static parameters
H_THREAD: Final = 18  # the thread whose operations are recorded on it
H_WIDTH: Final = 20

# What native code must know of this process: one array for all, whose address every op's context holds.
P_KERNELS: Final = 0  # the kernel table
P_SUSPENDED: Final = 1  # how many contexts have recording switched off
P_FLOAT64: Final = 2  # NumPy's descriptors
P_FLOAT32: Final = 3
P_NDARRAY: Final = 4  # types
P_FLOAT: Final = 5
P_INT: Final = 6
P_NUMPY_FLOAT: Final = 23  # numpy.float64, which is a Python float too
P_TENSOR: Final = 7
P_NONE: Final = 8
P_NEW_ARRAY: Final = 9  # PyArray_New
P_PASSING: Final = 10  # a hash table of the code objects of ours whose frames stand for their callers'
P_TENSOR_VALUE: Final = 11  # where the slots lie in a Tensor ...
P_TENSOR_TYPE: Final = 12
P_TENSOR_TAPE: Final = 13
P_TENSOR_VID: Final = 14
P_TENSOR_LEAF: Final = 15
P_TAPE_HEADER: Final = 16  # ... and the header in a Tape
P_SCALAR_FLOAT64: Final = 17  # the ArrayTypes of scalars
P_SCALAR_FLOAT32: Final = 18
P_SLICE: Final = 19  # types and objects that basic indices are made of
P_TUPLE: Final = 20
P_ELLIPSIS: Final = 21
P_TYPE_OF: Final = 22  # the Python function that interns ArrayTypes
P_TENSOR_BASE: Final = 24  # slots that tie a view to what it is a view of
P_TENSOR_VIEWS: Final = 25
P_SWEEP: Final = 26  # the Python function that drops dead references from a list of views
P_RETURN: Final = 27  # PyArray_Return
P_BOOL: Final = 28  # NumPy's descriptor
P_ASARRAY: Final = 29  # Python functions: NumPy's, ...
P_PASSES: Final = 30  # ... and the one that says of a code object that P_PASSING lacks whether it belongs there
P_TYPE_SHAPE: Final = 31  # where the shape lies in an ArrayType
P_WIDTH: Final = 32

PASSING_SIZE: Final = 8192  # a power of 2; an address is looked for from (address >> 4) % PASSING_SIZE on

# An op's context: what its built-in function carries.
C_PROCESS: Final = 0
C_OPCODE: Final = 1
C_GENERAL: Final = 2  # the Python function that takes whatever the native path does not
C_MEAN: Final = 3  # of a total: whether to divide by the number of elements
C_KEY: Final = 4  # of an item: the name of its one static parameter
C_MASKS: Final = 5  # of an elementwise op: which operands (bit k) are booleans
C_ARITY: Final = 6  # of an elementwise op: how many operands it has, ...
C_REFLECTED: Final = 7  # ... and whether its two come exchanged
C_WIDTH: Final = 8

MAX_POINTERS: Final = 40  # of a row's operands

# A plan: rows that are replayed. Its header:
PLAN_ROWS: Final = 0
PLAN_N_ROWS: Final = 1
PLAN_POINTERS: Final = 2  # the addresses of all rows' operands
PLAN_PATCHES: Final = 3  # pairs: one of these pointers, and how far from the beginning of its slot it points, in bytes
PLAN_FIRST_PATCH: Final = 4  # of each slot of the caller's or Python's: inputs, outputs, results of steps in Python
PLAN_SHARED: Final = 5  # whether rows in chunks are left to several threads
PLAN_WIDTH: Final = 6

# One row of it: a cache line.
STEP_KERNEL: Final = 0  # address; 0 if it needs Python, 1 for a guard: do the two operands have the same bytes?
STEP_POINTERS: Final = 1  # address of those of its operands
STEP_DIMS: Final = 2  # addresses
STEP_STEPS: Final = 3
STEP_DATA: Final = 4
STEP_CHUNK: Final = 5  # elements that are done at a time, whatever the number of threads; 0 for all
STEP_N_OPERANDS: Final = 6
STEP_SUMS: Final = 7  # how many of the operands are sums; as many follow that hold what each chunk adds
STEP_WIDTH: Final = 8

# A call of a compiled function: what its built-in function carries.
CALL_PROCESS: Final = 0
CALL_GENERAL: Final = 1  # the Python function that takes whatever the native path does not
CALL_READY: Final = 2  # whether there is a plan
CALL_TRACES: Final = 3  # address of the number of traces that are running in this process
CALL_N_ARGUMENTS: Final = 4
CALL_ARGUMENTS: Final = 5
CALL_N_CHECKS: Final = 6
CALL_CHECKS: Final = 7
CALL_PLAN: Final = 8
CALL_N_OUTPUTS: Final = 9
CALL_OUTPUTS: Final = 10
CALL_N_FORM: Final = 11
CALL_FORM: Final = 12
CALL_HITS: Final = 13
CALL_WIDTH: Final = 14

# An argument: what it must be.
ARGUMENT_KIND: Final = 0
ARGUMENT_OBJECT: Final = 1  # of an array, its dtype; of a number, where to put it; else the very object
ARGUMENT_NDIM: Final = 2
ARGUMENT_SHAPE: Final = 3
ARGUMENT_SLOT: Final = 4
ARGUMENT_WIDTH: Final = 5
ARGUMENT_ARRAY: Final = 0
ARGUMENT_NUMBER: Final = 1
ARGUMENT_STATIC: Final = 2

# What a function reads beside its arguments: a key of a dict, or a cell, and the object that was there.
CHECK_HOLDER: Final = 0
CHECK_KEY: Final = 1  # 0 for a cell
CHECK_SEEN: Final = 2
CHECK_WIDTH: Final = 3

# An output: an array to be made.
OUTPUT_SLOT: Final = 0
OUTPUT_NDIM: Final = 1
OUTPUT_SHAPE: Final = 2
OUTPUT_TYPE: Final = 3  # NumPy's number of the dtype
OUTPUT_WIDTH: Final = 4

# How the result is put together: pairs, run on a stack.
FORM_OUTPUT: Final = 0  # push the output of this number
FORM_OBJECT: Final = 1  # push this object
FORM_TUPLE: Final = 2  # pop so many, push a tuple of them
FORM_DEPTH: Final = 32  # of the stack

# The kernel table: a line an op and dtype; the forward kernel, what to keep, a group for each operand's VJP kernel.
KERNEL_FORWARD: Final = 0
KERNEL_KEEPS: Final = 1  # ROW_KEEPS, by which operands are on the tape (bits 0, 1, 2)
KERNEL_VJP: Final = 9
VJP_ADDRESS: Final = 0
VJP_N_RESIDUALS: Final = 1
VJP_RESIDUALS: Final = 2  # which operands (0, 1, 2) or the result (RESULT) the partial mentions, at most 4
VJP_WIDTH: Final = 6
MAX_KERNEL_OPERANDS: Final = 3
KERNEL_WIDTH: Final = KERNEL_VJP + MAX_KERNEL_OPERANDS * VJP_WIDTH
RESULT: Final = 3

# A kernel has NumPy's inner-loop signature; its last argument says who calls.
CALLED_BY_NUMPY: Final = 0  # store, and leave no floating-point flags behind
STORE: Final = 1
ACCUMULATE: Final = 2
SINGLE: Final = 3  # store, in a fused kernel of float32

# Elements of the largest array of the user's that is copied, rather than watched, if a rule will need it.
COPIED: Final = 4096

# Above this extent a row is worth a trip through Python: its memory is returned at once.
SMALL: Final = 16384
