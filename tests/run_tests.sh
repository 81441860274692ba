#!/usr/bin/env bash
# Runs the four commands on the shipped models, the world among them, with a stored baseline.
#
#   tests/run_tests.sh correctness|benchmark|compare|all [--model FOLDER] [--device cpu|cuda] [--threads N] [--update] [--baseline FILE] [--times]
#
#   correctness   every model with golden values (models/*/golden, tests/golden/causal), in float32 and in bf16: passes if ours is no worse
#                 than the reference's own error in that precision on the same weights, which lies beside the golden values. Beside each line
#                 of bf16 stands whether it meets the bounds for acceptance, max < 1e-2 and mean < 1e-3. With --model only that model is
#                 tested; if it has no golden values, its stages are compared with the definitions
#   benchmark     the world's blocks, by component, and its first frame after a cold and a warm start
#   compare       the same beside tests/baseline_performance.txt, on any CPU: fails if in each of three runs a component has become three times
#                 slower relative to the others of its run, or a block relative to the machine's multiply-adds. --times compares the
#                 times themselves, and shows how much faster each component is by mean, median and P95, for a baseline of this machine
#   all           all three
#
# For benchmark and compare --model is models/world by default. Without --threads there is one thread, whose times depend least on the machine's other
# work. --update rewrites the baseline (compare, all and benchmark). BUILD (default: build) is the folder of the tachyscope binary.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD:-$root/build}
what=${1:-} threads=1 model="" device="" update="" times="" baseline=$root/tests/baseline_performance.txt
factor=3 blocks=12
usage() { sed -n '2,20s/^# \{0,1\}//p' "$0"; }
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
    --times) times=yes; shift ;;
    *) echo "tests/run_tests.sh: unknown option $1" >&2; usage >&2; exit 2 ;;
  esac
done
tachyscope=$build/tachyscope
[ -x "$tachyscope" ] || { echo "tests/run_tests.sh: no $tachyscope: build it first (make build), or name its folder in BUILD" >&2; exit 3; }
device_option=(${device:+--device "$device"})  # compare takes the threads of the baseline
on=("${device_option[@]}" --threads "$threads")
world=${model:-$root/models/world}

correctness() {
  if [ -n "$model" ]; then
    "$tachyscope" correctness --models-only --model "$model" "${on[@]}"
    return
  fi
  local golden=(--golden "$root/tests/golden/causal") folder level failed=0
  for folder in "$root"/models/*/golden; do golden+=(--golden "$folder"); done
  for level in safe aggressive; do
    echo "level $level:"
    "$tachyscope" correctness --models-only --level $level "${golden[@]}" "${on[@]}" || failed=$?
  done
  return $failed
}

benchmark() { "$tachyscope" benchmark --model "$world" --blocks $blocks "${on[@]}" "$@"; }

compare() {
  if [ -n "$times" ]; then
    "$tachyscope" compare "$baseline" --model "$world" "${device_option[@]}"
    return
  fi
  local attempt code=0
  for attempt in 1 2 3; do  # a slow component is slow in each run, a busy machine is not
    code=0
    "$tachyscope" compare "$baseline" --model "$world" --relative $factor "${device_option[@]}" || code=$?
    [ $code = 10 ] || return $code
    echo "tests/run_tests.sh: run $attempt of 3 was too slow somewhere" >&2
  done
  return $code
}

# The baseline describes itself in lines that begin with #, which are for people.
store() {
  benchmark --output "$baseline"
  sed -i "2a # made by tests/run_tests.sh benchmark --update --threads $threads, of ${world#"$root"/}" "$baseline"
}

case $what in
  correctness) correctness ;;
  benchmark) if [ -n "$update" ]; then store; else benchmark; fi ;;
  compare) if [ -n "$update" ]; then store; else compare; fi ;;
  all)
    failed=0
    correctness || failed=$?
    if [ -n "$update" ]; then store; else compare || failed=$?; fi
    exit $failed
    ;;
esac
