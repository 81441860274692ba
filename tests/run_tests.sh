#!/usr/bin/env bash
# The four commands on a model that makes videos block by block, with a stored baseline.
#
#   tests/run_tests.sh correctness|benchmark|compare|all [--model FOLDER] [--device cpu|cuda] [--threads N] [--update] [--baseline FILE]
#
#   correctness   golden rollouts of the reference (tests/golden/causal), and the model's own: float32 beside the definitions, bf16
#                 beside float32 with the two bounds that are asked for (max < 1e-2, mean < 1e-3)
#   benchmark     its blocks, by component
#   compare       the same beside tests/baseline_performance.txt: what each component has won, by mean, median and P95
#   all           all three
#
# Without --model: random weights of the true format and the size of the world that ships (bench/peers/world_model.py), made in BUILD.
# Without --threads one thread, whose times depend least on what else the machine does.
# --update writes the baseline anew (compare, all and benchmark). BUILD (default: build) is the folder of the tachyscope binary.
# The baseline that is stored comes from a CPU, as its first lines say: on another machine compare states what the machines differ
# by, and a baseline of one's own (--update --baseline FILE) is what to compare with.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD:-$root/build}
what=${1:-} threads=1 model="" device="" update="" baseline=$root/tests/baseline_performance.txt
usage() { sed -n '2,18s/^# \{0,1\}//p' "$0"; }
case $what in
  correctness | benchmark | compare | all) shift ;;
  -h | --help) usage; exit 0 ;;
  *) usage >&2; exit 2 ;;
esac
while [ $# -gt 0 ]; do
  case $1 in
    --model) model=${2:?--model: a folder is missing}; shift 2 ;;
    --device) device=${2:?--device: cpu or cuda}; shift 2 ;;
    --baseline) baseline=${2:?--baseline: a file is missing}; shift 2 ;;
    --threads) threads=${2:?--threads: a number is missing}; shift 2 ;;
    --update) update=yes; shift ;;
    *) echo "tests/run_tests.sh: unknown option $1" >&2; usage >&2; exit 2 ;;
  esac
done
tachyscope=$build/tachyscope
[ -x "$tachyscope" ] || { echo "tests/run_tests.sh: no $tachyscope: build it first (make build), or name its folder in BUILD" >&2; exit 3; }
if [ -z "$model" ]; then
  model=$build/world-small
  [ -e "$model" ] || python3 "$root/bench/peers/world_model.py" "$model" --shape small
fi
device_option=(${device:+--device "$device"})  # compare takes the threads of the baseline
on=("${device_option[@]}" --threads "$threads")
golden=(--golden "$root/tests/golden/causal")
# The baseline says what it is of: lines that begin with # are for people.
store() {
  "$tachyscope" benchmark --model "$model" "${on[@]}" --output "$baseline"
  sed -i '2a # made by tests/run_tests.sh benchmark --update; world-small: random weights of the true format (bench/peers/world_model.py --shape small)' "$baseline"
}
case $what in
  correctness) exec "$tachyscope" correctness --models-only "${golden[@]}" --model "$model" "${on[@]}" ;;
  benchmark) [ -n "$update" ] || exec "$tachyscope" benchmark --model "$model" "${on[@]}" ;;
esac
if [ -n "$update" ]; then
  [ "$what" != all ] || "$tachyscope" correctness --models-only "${golden[@]}" --model "$model" "${on[@]}"
  store
  exit
fi
case $what in
  compare) exec "$tachyscope" compare "$baseline" --model "$model" "${device_option[@]}" ;;
  all) exec "$tachyscope" all "${golden[@]}" --model "$model" --compare "$baseline" "${on[@]}" ;;
esac
