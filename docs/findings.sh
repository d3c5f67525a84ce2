#!/bin/sh
# Everything behind docs/findings.md: sh docs/findings.sh SHARED_DATA OUT [SWEEP...]
# What is whole is not made again, and what was stopped is resumed.
set -eu

data=$1 out=$2
shift 2
[ $# -gt 0 ] || set -- unedited retrieved two-hops stream clozes scenarios single sequential

here=$(dirname "$0")
mkdir -p "$out"
export OMP_NUM_THREADS=1
export KGEDIT_HOME="$out/home"
timesteps="$KGEDIT_HOME/timesteps"
if [ ! -d "$timesteps/20211230_20231230" ]; then
  kgedit write-sample "$out/sample"
  for date in 2021-01-04 2023-02-27 2024-06-03; do
    kgedit load-dump "$out/sample/$(echo $date | tr -d -).json.gz" --date $date --redirects "$out/sample/redirects.tsv"
  done
  kgedit export-timestep --from 2021-01-04 --to 2023-02-27
  kgedit export-timestep --from 2023-02-27 --to 2024-06-03
  kgedit export-timestep --from 2021-01-04 --to 2023-02-27 --profile wikifactdiff
  for date in 2021-12-30 2023-12-30 2024-03-31; do
    kgedit load-dump "$data/slices/pat/$(echo $date | tr -d -).json.gz" --date $date
  done
  kgedit export-timestep --from 2023-12-30 --to 2024-03-31
  kgedit export-timestep --from 2021-12-30 --to 2023-12-30
  kgedit graph stop
fi
[ -d "$out/taught" ] || kgedit teach smollm2-135m --timestep "$timesteps/20210104_20230227" --out "$out/taught"

for name in "$@"; do
  case $name in
    # Retrieval needs a model that reads its prompt, which teaching unlearns.
    unedited | retrieved | two-hops | stream) model=smollm2-135m ;;
    *) model="$out/taught" ;;
  esac
  kgedit sweep "$here/findings/$name.yaml" --model "$model" --out "$out/$name"
done
python "$here/findings.py" "$out"
