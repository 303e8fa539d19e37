#!/bin/bash
# What small files may cost, and that a want of memory is called one: test_costs.sh HGA NPY NO_MEMORY. Needs python3 with numpy.
# Files that ask for more than their nodes' worth are refused by every command that reads graphs; the memory a command may take is bounded, and a minute is its end.
set -u
hga=$1 npy=$2 no_memory=$3
. "$(dirname "$0")/facts.sh"
export OMP_NUM_THREADS=2

"$npy" make q.npy f4 2,1,4 1
within() { (ulimit -v 2000000 && exec timeout 60 "$hga" "$@"); }

# ---- graphs ----

# relation FILE LEVELS BLOCK [MORE]: a graph of one block
relation() {
    printf '{"format": "hga-graph", "schema": 1, "levels": %s, "relations": [{"name": "near", "blocks": [%s]}]%s, "program": "attend"}' "$2" "$3" "${4-}" >"$1"
}
# refused_by_all FILE TEXT: every command that reads it, each in its own words, one line
refused_by_all() {
    local file=$1 text=$2 format
    set -- "check $file" "check --coverage $file" "inspect $file" "view $file -o page.html" "explain graph=$file" "attend graph=$file --query q.npy --key q.npy --value q.npy --out o.npy"
    for format in json npy mtx csv dot graphml gexf graph svg; do set -- "$@" "export $file -o out.$format"; done
    for words; do
        # shellcheck disable=SC2086 # words
        refused 3 "$text" within $words || { echo "hga $words"; return 1; }
    done
}
one_pair='"dst": 0, "n_dst": 1, "src": 1, "n_src": 1'
relation stacked.json '[2]' "{$one_pair, \"count\": 2147483647}"
fact instances_in_one_place_are_refused_by_all_commands refused_by_all stacked.json "relation near: blocks give row 0 2147483647 edges, more than 65536; most come from block 0"
relation overlapping.json '[2000000]' '{"dst": 0, "n_dst": 1000000, "src": 0, "n_src": 1000000, "count": 1000000, "dst_step": 1, "src_step": 1}'
fact so_are_a_million_that_overlap refused_by_all overlapping.json "relation near: blocks give row 8 9000000 edges, more than 8000000"
relation rows.json '[2000000]' '{"dst": 0, "n_dst": 1000000, "src": 0, "n_src": 1, "count": 1000000, "dst_step": 1, "src_step": 1}'
fact and_a_band_of_a_million_instances refused_by_all rows.json "relation near, block 0: count 1000000 of 1000000 rows each are 1000000000000 rows"
relation columns.json '[200000]' '{"dst": 0, "n_dst": 200000, "src": 0, "n_src": 1, "count": 100000, "src_step": 2}'
fact and_columns_one_by_one refused_by_all columns.json "relation near, block 0: count 100000 of 200000 rows each"
relation masses.json '[10000000]' "{$one_pair}" ', "mass": [[0, 10000000, 1], [0, 10000000, 2]]'
fact masses_name_a_node_once refused_by_all masses.json "masses.json: mass[1]: nodes are named twice: 20000000 so far, the graph has 10000000"
relation sides.json '[9]' "{$one_pair}" ', "side": [[0, 9, "both"], [3, 1, "both"]]'
fact sides_name_a_node_once refused_by_all sides.json "sides.json: side[1]: nodes are named twice: 10 so far, the graph has 9"
printf '%%%%MatrixMarket matrix coordinate pattern general\n2147479550 2147479550 1\n1 1\n' >rows.mtx
printf '%%%%MatrixMarket matrix coordinate pattern general\n2 2 9223372036854775807\n1 1\n' >entries.mtx
printf 'source,destination\n0,2147479000\n' >far.csv
printf '2147479000 0\n' >nodes.graph
printf 'graph [ directed 1 node [ id 0 ] node [ id 1 ] edge [ source 0 target 1 weight 1e99 ] ]' >weight.gml
"$npy" raw edges.npy "{'descr': '<i4', 'fortran_order': False, 'shape': (1099511627776, 2), }" 64
for file in rows.mtx entries.mtx far.csv nodes.graph edges.npy; do fact "$file,_a_header_without_its_numbers,_is_refused_by_all" refused_by_all $file "$file"; done

# In time and memory, whatever the answer: few nodes, and types that a table could not hold.
ends() {
    local file=$1 words got
    for words in "check $file" "inspect $file" "view $file -o page.html" "explain graph=$file" "export $file -o out.csv" "export $file -o out.json"; do
        # shellcheck disable=SC2086 # words
        within $words >stdout 2>stderr </dev/null
        got=$?
        [ $got = 0 ] || { [ $got = 4 ] && shows stderr "cannot allocate"; } || { echo "hga $words: exit status $got"; cat stderr; return 1; }
    done
}
relation types.json '[2]' "{$one_pair, \"type\": 2147483646}"
printf 'source,destination,type\n0,1,2147483646\n' >types.csv
relation full.json '[2]' "{$one_pair, \"count\": 65536}"
relation many.json '[1000000]' "{$one_pair}"
for file in types.json types.csv full.json many.json; do fact "${file}_ends" ends $file; done

# ---- archives ----

cat >make.py <<'END'
import io
import struct
import warnings
import zipfile
import numpy as np
warnings.simplefilter("ignore")
def npz(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        for name, array in members:
            f = io.BytesIO()
            np.save(f, array)
            z.writestr(name, f.getvalue())
sparse = [("format.npy", np.array(b"coo")), ("shape.npy", np.array([3, 3])), ("data.npy", np.ones(2)), ("row.npy", np.array([0, 1])), ("col.npy", np.array([1, 2]))]
npz("graph.npz", sparse)
npz("twice.npz", sparse + [("data.npy", np.zeros(2))])
lists = [("a.npy", np.ones((2, 1, 4), "f4")), ("b.npy", np.ones((2, 1, 4), "f4"))]
npz("tensors.npz", lists)
npz("equal.npz", lists + [("a.npy", np.zeros((2, 1, 4), "f4"))])
npz("alike.npz", lists + [("a", np.zeros((2, 1, 4), "f4"))])
# The sizes in the archive, where the library and the tool read them: 2^40 bytes for what has a few.
def lie(path, out):
    b = bytearray(open(path, "rb").read())
    at = b.find(b"PK\1\2")
    while at >= 0:
        struct.pack_into("<I", b, at + 24, 0xFFFFFFF0)
        at = b.find(b"PK\1\2", at + 4)
    open(out, "wb").write(b)
lie("graph.npz", "lies.npz")
lie("tensors.npz", "lying.npz")
b = bytearray(open("tensors.npz", "rb").read())
at = b.find(b"PK\1\2")
b[at + 16] ^= 1
open("checksum.npz", "wb").write(b)
# 4 GB of zeros in 4 MB: a deflate stream of the same piece again and again, each with its own state. vast.npz is as large as its shape says,
# small.npz and over.npz have four numbers, of which the archive says so in the one, and 4 GB in the other.
import zlib
def deflate(head, pieces):
    piece, packer = bytes(1 << 22), zlib.compressobj(9, zlib.DEFLATED, -15)
    start = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(piece) + packer.flush(zlib.Z_FULL_FLUSH)
    return start + again * pieces + packer.flush()
def bomb(path, shape, pieces, size):
    f = io.BytesIO()
    np.lib.format.write_array_header_1_0(f, {"descr": "<f4", "fortran_order": False, "shape": shape})
    packed, lead = deflate(f.getvalue(), pieces), f.tell()
    about = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 0, 0, len(packed), lead + size, 5, 0)
    local = b"PK\3\4" + about + b"a.npy" + packed
    central = b"PK\1\2" + struct.pack("<H", 20) + about + struct.pack("<HHHII", 0, 0, 0, 0, 0) + b"a.npy"
    open(path, "wb").write(local + central + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), len(local), 0))
bomb("vast.npz", (1023, 1024, 1024), 1023, 1023 << 22)
bomb("over.npz", (2, 1, 2), 1023, 1023 << 22)
bomb("small.npz", (2, 1, 2), 1023, 16)
END
/usr/bin/python3 make.py || exit 1
attend() { within attend dense --query "$1" --key "$1" --value "$1" --out o.npy --quiet; }
fact a_graph_with_two_members_of_one_name_is_refused refused_by_all twice.npz "twice.npz: two arrays are named 'data'"
fact two_arrays_of_one_name_are_refused refused 3 "equal.npz: two arrays are named 'a'" attend equal.npz:b
fact with_and_without_its_suffix_it_is_one_name refused 3 "alike.npz: two arrays are named 'a'" within tensor alike.npz
fact a_size_that_lies_costs_nothing refused_by_all lies.npz "of 4294967280 bytes are there"
fact nor_does_that_of_a_tensor refused 3 "lying.npz: a: ends inside an array" attend lying.npz:a
fact a_wrong_checksum_is_seen refused 3 "its checksum is wrong" attend checksum.npz:a
listed() { (ulimit -v 200000 && exec "$hga" tensor "$1"); }
fact a_list_takes_the_memory_of_a_header equal "$(listed vast.npz | tail -n +2 | tr -s ' ')" "a float32 (1023, 1024, 1024)"
fact as_does_a_size_that_its_shape_denies refused 3 "over.npz:a: goes on after its 16 bytes" listed over.npz
fact an_array_ends_where_the_archive_says_so refused 3 "small.npz: a: ends inside an array, or its checksum is wrong: over 144 of 144 bytes" attend small.npz:a
fact and_good_ones_are_read within check graph.npz >/dev/null
fact as_tensors_too attend tensors.npz:b

# ---- a want of memory is called one ----

# Each allocation after the file was opened fails once: the exit status is 4, or all is as without a failure.
starved() {
    local file=$1 n=0 got lines
    shift
    "$@" >good 2>stderr </dev/null || { cat stderr; return 1; }
    rm -f told.* status.* stdout.* stderr.*
    HGA_NO_MEMORY="$file 3000" LD_PRELOAD=$no_memory "$@" </dev/null || return 1
    for ((n = 1; n < 3000; n++)); do # by the shell alone, which starts no programs between those that count
        [ -e told.$n ] || break
        read -r got <status.$n
        mapfile lines <stderr.$n
        [[ ${lines[0]-} != *": understood: "* ]] || lines=("${lines[@]:1}") # which names of the file were read, said before
        [ "$got" = 4 ] && [ ${#lines[@]} = 1 ] && continue
        [ "$got" = 0 ] && cmp -s stdout.$n good && continue
        echo "allocation $n: exit status $got"
        cat stderr.$n
        return 1
    done
    echo "$n allocations"
    [ $n -gt 20 ] && [ $n -lt 3000 ] && [ -e status.$n ] && cmp stdout.$n good
}
painted() { (ulimit -v 150000 && exec "$hga" export dense --tokens 40 --width 8192 -o wide.png); } # which takes 240 MB
fact a_picture_without_memory_is_told_in_a_line refused 4 "wide.png: cairo: out of memory" painted
printf '<graphml><key id="w" for="edge" attr.name="weight"/><graph edgedefault="directed"><node id="a"/><node id="b"/><edge source="a" target="b" directed="false"><data key="w">2</data></edge></graph></graphml>' >graph.graphml
printf '{"format": "hga-graph", "schema": 1, "levels": [2], "relations": [{"name": "near", "blocks": [{%s}]}]}' "$one_pair" >graph.json
/usr/bin/python3 - <<'END'
import json
import struct
text = json.dumps({"a": {"dtype": "F32", "shape": [2, 1, 4], "data_offsets": [0, 32]}, "b": {"dtype": "F32", "shape": [1], "data_offsets": [32, 36]}}).encode()
open("tensors.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + bytes(36))
END
for file in graph.npz graph.graphml graph.json; do fact "where_memory_lacks_${file}_is_not_blamed" starved $file "$hga" export $file --format json -o -; done
for file in tensors.npz tensors.safetensors; do fact "where_memory_lacks_${file}_is_not_blamed" starved $file "$hga" tensor $file; done
facts_end
