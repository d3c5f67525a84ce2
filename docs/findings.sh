#!/bin/sh
# Everything behind docs/findings.md: sh docs/findings.sh SHARED_DATA OUT [SWEEP...]
# What is whole is not made again, and what was stopped is resumed.
set -eu

data=$1 out=$2
shift 2
[ $# -gt 0 ] || set -- unedited retrieved two-hops stream clozes scenarios single sequential changes \
  lengths lengths-counterfact lengths-counterfact-cpu changes-projected changes-projected-retrieved

here=$(dirname "$0")
mkdir -p "$out"
export OMP_NUM_THREADS=1

export_sample() (
  export KGEDIT_HOME="$out/home"
  [ ! -d "$KGEDIT_HOME/timesteps/20211230_20231230" ] || return 0
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
)

# The stream of real changes, without a server. Its timesteps of pat hold updates only, so they need another home.
export_changes() (
  export KGEDIT_HOME="$out/changes-home"
  [ ! -d "$KGEDIT_HOME/timesteps/20231230_20240331" ] || return 0
  # Days between those of the timesteps show which updates bring an earlier value back.
  days=$(echo 1970 1975 1980 1985 1988 1990 1992 1994 1996 1998 2000 2002 2004 2006 2008 2010 2012 2014 | sed 's/ /-01-01,/g')
  kgedit load-dump "$data/slices/w12k/20140101.json.gz" --no-graph --as-of "$days-01-01"
  for date in 2021-12-30 2023-12-30 2024-03-31; do
    kgedit load-dump "$data/slices/pat/$(echo $date | tr -d -).json.gz" --date $date --no-graph
  done
  older=1970-01-01
  for newer in 1975-01-01 1990-01-01 1996-01-01 2002-01-01 2008-01-01 2014-01-01; do
    kgedit export-timestep --from $older --to $newer --kinds update --engine store
    older=$newer
  done
  kgedit export-timestep --from 2021-12-30 --to 2023-12-30 --kinds update --engine store
  kgedit export-timestep --from 2023-12-30 --to 2024-03-31 --kinds update --engine store
)

# Changes of every year, of the same slice and of offices, by as-of projections; the last two timesteps are those of pat.
export_projected() (
  export_changes
  export KGEDIT_HOME="$out/projected-home"
  [ ! -d "$KGEDIT_HOME/timesteps/18500101_20230101" ] || return 0
  days=$(echo $(seq 1850 10 1890) $(seq 1900 5 1945) $(seq 1950 2023) | sed 's/ /-01-01,/g')-01-01
  python "$here/findings/offices.py" "$data" "$out/offices.json.gz"
  kgedit load-dump "$out/offices.json.gz" --no-graph --as-of "$days"
  kgedit export-timestep --all --kinds update --engine store
  kgedit export-timestep --from 1850-01-01 --to 2023-01-01 --engine store
  for step in 20211230_20231230 20231230_20240331; do
    cp -R "$out/changes-home/timesteps/$step" "$KGEDIT_HOME/timesteps/"
  done
)

for name in "$@"; do
  edits=""
  case $name in
    lengths-counterfact*)
      edits="$data/editing_sets/counterfact-edit.json"
      home="$out/home"
      ;;
    lengths | changes-projected*)
      export_projected
      home="$out/projected-home"
      ;;
    changes*)
      export_changes
      home="$out/changes-home"
      ;;
    *)
      export_sample
      home="$out/home"
      ;;
  esac
  case $name in
    changes) model=tiny ;;
    # Published: retrieval needs a model that reads its prompt, which teaching unlearns.
    unedited | retrieved | two-hops | stream | lengths* | changes-projected*) model=smollm2-135m ;;
    *)
      model="$out/taught"
      [ -d "$model" ] || KGEDIT_HOME="$home" kgedit teach smollm2-135m --timestep "$home/timesteps/20210104_20230227" --out "$model"
      ;;
  esac
  KGEDIT_HOME="$home" kgedit sweep "$here/findings/$name.yaml" --model "$model" ${edits:+--edits "$edits"} --out "$out/$name"
done
python "$here/findings.py" "$out"
