#!/bin/bash
# Each package is linked because it is called: test_packages.sh PRODUCT LIBRARY.. -- PRODUCT LIBRARY.. ..
# A product is a library or a program of ours, and behind it stand the libraries of packages that it is linked with. Some object of the product calls a function of each.
set -u
products=("$@")
. "$(dirname "$0")/facts.sh"

# names OPTION FILE: symbols of an archive or of a shared library, without their versions
names() { { nm "$1" "$2"; nm -D "$1" "$2"; } 2>/dev/null | awk 'NF > 1 { print $NF }' | sed 's/@.*//' | sort -u; }
called() { names -u "$1" >needs && names --defined-only "$2" >has && [ -n "$(comm -12 needs has | head -1)" ]; }

product=
for word in "${products[@]}"; do
    case $word in
    --) product= ;;
    *)
        if [ -z "$product" ]; then product=$word; else fact "${product##*/}_calls_${word##*/}" called "$product" "$word"; fi
        ;;
    esac
done

facts_end
