#!/bin/bash
# Numbers of other types, and several tensors in a file: test_tensors.sh HGA; needs python3 with numpy.
set -u
hga=$1
. "$(dirname "$0")/facts.sh"

cat >make.py <<'END'
import json
import struct
import numpy as np
rng = np.random.default_rng(3)
q = rng.normal(size=(24, 2, 8)).astype("f4")
half = q.astype("f2")
half.flat[:8] = [0, -0.0, 2.0**-24, 2.0**-14, 1023 * 2.0**-24, 65504, -65504, 1 / 3]
np.save("half.npy", half)
np.save("half_as_single.npy", half.astype("f4"))
np.save("half_big.npy", half.astype(">f2"))
np.save("single.npy", q)
np.save("single_big.npy", q.astype(">f4"))
np.save("double.npy", q.astype("f8"))
np.save("double_big.npy", q.astype(">f8"))
cut = (q.view("u4") & 0xFFFF0000).view("f4")
np.save("bfloat_as_single.npy", cut)
bits = (cut.view("u4") >> 16).astype("<u2")
np.save("bfloat.npy", bits.view("V2"))
np.savez("several.npz", a=half, b=q)
np.savez_compressed("packed.npz", only=q)
body = b""
header = {"__metadata__": {"made": "here"}}
for name, dtype, data in ("x.q", "F32", q), ("h", "F16", half), ("w", "BF16", bits), ("n", "I64", np.arange(24)), ("u", "U8", np.zeros(3, "u1")):
    if name == "u":
        continue
    header[name] = {"dtype": dtype, "shape": list(data.shape), "data_offsets": [len(body), len(body) + data.nbytes]}
    body += data.tobytes()
def put(path, header, body):
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + body)
put("model.safetensors", header, body)
wrong = dict(header, h=dict(header["h"], shape=[25, 2, 8]))
put("wrong.safetensors", wrong, body)
put("short.safetensors", header, body[:100])
def moved(by, first):
    return {name: dict(t, data_offsets=[x + (by if x >= first else 0) for x in t["data_offsets"]]) if "dtype" in t else t for name, t in header.items()}
beside = dict(header, f={"dtype": "F8_E4M3", "shape": [4, 5], "data_offsets": [len(body), len(body) + 20]}, s={"dtype": "F4", "shape": [8], "data_offsets": [len(body) + 20, len(body) + 24]})
put("fp8.safetensors", beside, body + bytes(24))
np.savez("empty.npz")
np.savez("beside.npz", a=half, u=np.zeros(3, "u1"), b=np.zeros((2, 2), bool), t=np.array("word"))
put("overlap.safetensors", dict(moved(-36, 10000), h=dict(header["h"], data_offsets=[1500, 2268])), body)
put("hole.safetensors", dict(moved(4, 1537), h=dict(header["h"], data_offsets=[1540, 2308])), body[:1536] + bytes(4) + body[1536:])
put("after.safetensors", header, body + bytes(4))
put("beyond.safetensors", header, body[:-4])
text = json.dumps(header)[:-1].encode() + b', "h": {"dtype": "F16", "shape": [0], "data_offsets": [0, 0]}}'
open("twice.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + body)
import io, zipfile
def member(array, n):
    to = io.BytesIO()
    np.save(to, array)
    return to.getvalue()[:n]
for path, n in ("missing.npz", -40), ("headless.npz", 20):
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("a.npy", member(half, None))
        z.writestr("b.npy", member(q, n))
open("missing.npy", "wb").write(member(q, -40))
open("more.npy", "wb").write(member(q, None) + b"x")
open("absurd.safetensors", "wb").write(struct.pack("<Q", 1 << 62) + text + body)
open("absurd_too.safetensors", "wb").write(b"\xff" * 8 + text + body)
locked = bytearray(open("several.npz", "rb").read())
for lead, at in (b"PK\3\4", 6), (b"PK\1\2", 8):
    locked[locked.find(lead) + at] |= 1  # the first array says that it is encrypted
open("locked.npz", "wb").write(locked)
open("cut.npz", "wb").write(open("several.npz", "rb").read()[:-40])
END
python3 make.py || exit 1
run() { "$hga" attend dense --query "$1" --key "$1" --value "$1" --out "$2" "${@:3}"; }
gives_as() { run "$1" one.npy --quiet && run "$2" two.npy --quiet && same_bytes one.npy two.npy; }
fact float16_is_read gives_as half.npy half_as_single.npy
fact big_endian_float16_is_read gives_as half_big.npy half_as_single.npy
fact big_endian_float32_is_read gives_as single_big.npy single.npy
fact float64_is_read gives_as double.npy single.npy
fact big_endian_float64_is_read gives_as double_big.npy single.npy
fact bfloat16_is_read gives_as bfloat.npy bfloat_as_single.npy
fact a_member_of_an_npz_is_read gives_as several.npz:b single.npy
fact a_compressed_one_is_read gives_as packed.npz single.npy
fact a_safetensor_is_read gives_as model.safetensors:x.q single.npy
fact a_safetensor_of_float16_is_read gives_as model.safetensors:h half_as_single.npy
fact a_safetensor_of_bfloat16_is_read gives_as model.safetensors:w bfloat_as_single.npy

says() { run "$1" o.npy 2>stderr >stdout; equal "$(cat stderr)" "hga: 24 rows, 2 heads of 8, $2"; }
fact the_type_is_said says half.npy float16
fact the_type_of_a_member_is_said says model.safetensors:w bfloat16

# ---- what comes out ----

cat >rounded.py <<'END'
import sys
import numpy as np
single, other = np.load(sys.argv[1]), np.load(sys.argv[2])
kind = sys.argv[3]
if kind == "bf16":
    assert other.dtype == np.dtype("V2"), other.dtype
    bits = single.view("u4").astype("u8")
    assert (other.view("u2") == ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("u2")).all()
else:
    want = {"f16": "f2", "f32": "f4", "f64": "f8"}[kind]
    assert other.dtype == np.dtype("<" + want), other.dtype
    assert (other == single.astype(want)).all()
END
for type in f16 bf16 f32 f64; do
    run single.npy single.out.npy --quiet
    fact output_in_${type} run single.npy out.npy --quiet --out-type $type
    fact it_is_rounded_to_$type python3 rounded.py single.out.npy out.npy $type
done
run half.npy half.out.npy --quiet
fact output_in_the_inputs_type run half.npy same.npy --quiet --out-type same
fact it_is_float16 python3 rounded.py half.out.npy same.npy f16
fact types_are_known refused 2 "--out-type: 'f8' is not one of" run single.npy new.npy --out-type f8

# ---- what is in a file ----

fact a_file_tells_what_it_has equal "$("$hga" tensor several.npz | tr -s ' ')" "$(printf 'name type shape\na float16 (24, 2, 8)\nb float32 (24, 2, 8)')"
fact safetensors_too equal "$("$hga" tensor model.safetensors | tail -n +2 | tr -s ' ')" \
    "$(printf 'x.q float32 (24, 2, 8)\nh float16 (24, 2, 8)\nw bfloat16 (24, 2, 8)\nn int64 (24,)')"
fact a_tensor_beside_fp8_is_read gives_as fp8.safetensors:x.q single.npy
fact and_one_of_bfloat16 gives_as fp8.safetensors:w bfloat_as_single.npy
fact fp8_is_listed equal "$("$hga" tensor fp8.safetensors | tail -n +5 | tr -s ' ')" "$(printf 'n int64 (24,)\nf F8_E4M3 (4, 5)\ns F4 (8,)')"
fact fp8_is_not_read refused 3 "fp8.safetensors:f: has the type F8_E4M3, which is not one of" run fp8.safetensors:f new.npy
fact an_archive_without_arrays_is_one equal "$("$hga" tensor empty.npz --json | tr -d ' \n')" '{"schema":1,"tensors":[]}'
fact other_arrays_are_listed_too equal "$("$hga" tensor beside.npz | tail -n +2 | tr -s ' ')" \
    "$(printf 'a float16 (24, 2, 8)\nu uint8 (3,)\nb bool (2, 2)\nt text ()')"
fact and_not_read refused 3 "holds uint8 where float16, bfloat16, float32 or float64 is needed" run beside.npz:u new.npy
fact but_those_beside_them_are gives_as beside.npz:a half_as_single.npy
fact one_array_too equal "$("$hga" tensor double_big.npy | tail -1 | tr -s ' ')" "- float64 (24, 2, 8)"

# ---- refused ----

fact a_member_must_be_there refused 3 "several.npz: has no array 'c'" run several.npz:c new.npy
fact several_need_a_name refused 3 "several.npz: has 2 arrays" run several.npz new.npy
fact a_tensor_must_be_there refused 3 "model.safetensors: has no tensor 'c'" run model.safetensors:c new.npy
fact safetensors_need_a_name refused 3 "model.safetensors: has 4 tensors" run model.safetensors new.npy
fact whole_numbers_are_no_tensor refused 3 "model.safetensors:n: holds int64" run model.safetensors:n new.npy
fact a_shape_must_fit refused 3 "wrong.safetensors:h: has 768 bytes" run wrong.safetensors:h new.npy
fact a_file_must_be_whole refused 3 "short.safetensors: its tensors end at byte 3264 of 100" run short.safetensors:h new.npy
fact tensors_do_not_overlap refused 3 "overlap.safetensors: the tensors x.q and h overlap at byte 1500" run overlap.safetensors:x.q new.npy
fact nor_leave_a_hole refused 3 "hole.safetensors: bytes 1536 to 1540 before h are no tensor's" run hole.safetensors:x.q new.npy
fact nor_end_before_the_file refused 3 "after.safetensors: its tensors end at byte 3264 of 3268" "$hga" tensor after.safetensors
fact nor_after_it refused 3 "beyond.safetensors: its tensors end at byte 3264 of 3260" "$hga" tensor beyond.safetensors
fact nor_twice_under_one_name refused 3 "twice.safetensors" run twice.safetensors:h new.npy
fact metadata_are_no_tensor refused 3 "has no tensor '__metadata__'" run model.safetensors:__metadata__ new.npy
fact an_archive_must_be_whole refused 3 "cut.npz: not a .npz file" run cut.npz:a new.npy
fact one_array_has_no_name refused 3 "single.npy: is one array" run single.npy:a new.npy
fact a_missing_file_is_named refused 3 "gone.npz:a" run gone.npz:a new.npy
fact a_list_is_of_whole_arrays refused 3 "missing.npz:b: has 1496 bytes of elements where its shape needs 1536" "$hga" tensor missing.npz
fact one_that_cannot_be_unpacked_is_named refused 3 "locked.npz: a: " "$hga" tensor locked.npz
fact headers_too refused 3 "headless.npz" "$hga" tensor headless.npz
fact one_array_is_whole_too refused 3 "missing.npy: has 1496 bytes of elements where its shape needs 1536" "$hga" tensor missing.npy
fact or_longer refused 3 "more.npy: goes on after its 1536 bytes of elements" "$hga" tensor more.npy
for command in tensor 'attend dense --key single.npy --value single.npy --out new.npy --query'; do
    # shellcheck disable=SC2086 # words
    fact an_absurd_header_is_told refused 3 "absurd.safetensors: not a .npy, .npz or .safetensors file: its header would have 4611686018427387904 bytes" "$hga" $command absurd.safetensors
    # shellcheck disable=SC2086 # words
    fact one_of_as_many_as_there_are refused 3 "its header would have 18446744073709551615 bytes" "$hga" $command absurd_too.safetensors
done
fact tensor_needs_a_file refused 2 "FILE is missing" "$hga" tensor

# ---- tables of a batch ----

# What comes by a pipe comes once, for however many samples.
python3 -c '
import numpy as np
r = np.random.default_rng(1)
for name, shape in dict(bq=(3, 6, 2, 4), bp=(6, 3), bb=(21, 2), bs=(2,), br=(1, 2)).items(): np.save(name, np.abs(r.normal(size=shape)).astype("f4"))'
batch() { timeout 10 "$hga" "$1" dense -p causal=1 --query bq.npy --key bq.npy --value bq.npy --quiet --out "${@:2}" >table; }
for option in node-pos:bp rel-bias:br edge-bias:bb sink:bs slopes:bs; do
    for command in attend decode; do
        [ "$command $option" != "decode edge-bias:bb" ] || continue # which decoding refuses
        pipe=$command.${option%:*}.pipe
        rm -f piped.npy
        mkfifo $pipe
        timeout 20 bash -c 'cat "$0" >"$1"' ${option#*:}.npy $pipe &
        batch $command read.npy --${option%:*} ${option#*:}.npy
        fact "${option%:*}_of_a_batch_may_come_by_a_pipe_to_$command" batch $command piped.npy --${option%:*} $pipe
        fact "${option%:*}_is_then_that_of_all_samples_of_$command" same_bytes piped.npy read.npy
    done
done

# Each sample has trees of its own, and asks for the leaves again.
python3 -c 'import numpy as np; np.save("leaves", (np.arange(6) // 2).astype("i4"))'
mkfifo leaves.pipe
piped_leaves() { timeout 10 "$hga" attend treeformer-fine -p query-leaf=@leaves.pipe --query "$1" --key "$1" --value "$1" --out leaves_out.npy --quiet 2>stderr; }
python3 -c 'import numpy as np; np.save("one", np.load("bq.npy")[0])'
# One writer for each call: two at once would be one file of twice the length.
timeout 20 bash -c 'cat leaves.npy >leaves.pipe' &
fact leaves_of_a_sample_may_come_by_a_pipe piped_leaves one.npy
timeout 20 bash -c 'cat leaves.npy >leaves.pipe' &
refused_leaves() { piped_leaves bq.npy; equal $? 2 && shows stderr 'leaves.pipe: is a pipe, which can be read once, and is needed again: give a file'; }
fact those_of_a_batch_are_refused_in_words refused_leaves

# ---- tensors to try things with ----

random() { "$hga" tensor --random "$@"; }
fact a_random_tensor_is_made random 31x4x8 --seed 5 -o random.npy
fact of_the_shape_asked_for python3 -c 'import numpy as np; x = np.load("random.npy"); assert x.shape == (31, 4, 8) and x.dtype == np.float32'
fact its_numbers_are_standard_normal python3 -c 'import os, subprocess, sys, numpy as np
subprocess.run([sys.argv[1], "tensor", "--random", "40001", "-o", "many.npy"], check=True)
x = np.sort(np.load("many.npy").astype(float)); q = [-1.6449, -0.6745, 0, 0.6745, 1.6449]
assert np.abs(np.quantile(x, [.05, .25, .5, .75, .95]) - q).max() < .03 and len(set(x)) > 39900' "$hga"
random 31x4x8 --seed 5 -o again.npy
random 31x4x8 --seed 6 -o other.npy
fact the_seed_says_which same_bytes random.npy again.npy
differs() { ! cmp -s random.npy other.npy; }
fact another_seed_another_tensor differs
fact a_shape_is_whole_numbers refused 2 "'3x' is not a shape" random 3x -o new.npy
fact none_of_them_0 refused 2 "'3x0' is not a shape" random 3x0 -o new.npy
fact nor_negative refused 2 "'-3' is not a shape" "$hga" tensor --random=-3 -o new.npy
fact of_eight_dimensions_at_most refused 2 "over 8 dimensions" random 1x1x1x1x1x1x1x1x1 -o new.npy
fact that_memory_can_hold refused 2 "more numbers than memory" random 4294967296x4294967296 -o new.npy
# AddressSanitizer would end the process, and has a word to say besides.
: >said
unsanitized() { ASAN_OPTIONS=allocator_may_return_null=1 TSAN_OPTIONS=allocator_may_return_null=1 "$@" 2>said; local status=$?; grep -v Sanitizer said >&2; return $status; }
fact and_has_room_for refused 4 "out of memory" unsanitized random 1000000x1000000x100000 -o new.npy
fact a_random_tensor_needs_a_file refused 2 "needs --output" random 3
fact a_seed_is_of_a_random_tensor refused 2 "seed is for --random" "$hga" tensor random.npy --seed 1
facts_end
