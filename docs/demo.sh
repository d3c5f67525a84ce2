#!/bin/sh
# The whole path on the bundled sample. `make demo` runs it in the environment that it set up. What the commands print
# goes to demo.log in the home folder; what came of them is on the screen.
set -eu

home=${KGEDIT_HOME:-kgedit-data}
log=$home/demo.log
timestep=$home/benchmark/20210104_20230227
mkdir -p "$home"
rm -rf "$home/benchmark" "$home/runs" "$home/sample" "$home/report"
begun=$(date +%s)
: >"$log"

step() {
  printf '%4d s  $ %s\n' $(($(date +%s) - begun)) "$*"
  printf '\n$ %s\n' "$*" >>"$log"
  "$@" >>"$log" 2>&1 || { tail -n 20 "$log" >&2; exit 1; }
}

step kgedit write-sample "$home/sample"
for date in 2021-01-04 2023-02-27; do
  step kgedit load-dump "$home/sample/$(echo "$date" | tr -d -).json.gz" --date "$date" \
    --redirects "$home/sample/redirects.tsv"
done
step kgedit export-timestep --from 2021-01-04 --to 2023-02-27

edit="kgedit run-edit --timestep $timestep"
step $edit --model tiny --method ft_m --protocol single --limit 30 --out "$home/runs/tiny-ft_m-single"
step $edit --model tiny --method ft_m --protocol sequential --limit 30 --out "$home/runs/tiny-ft_m"
step $edit --model tiny --method grace --protocol sequential --limit 30 --out "$home/runs/tiny-grace"
step $edit --model smollm2-135m --method rag --limit 4 --out "$home/runs/smollm2-135m-rag"
step kgedit report "$home"/runs/* --out "$home/report"
printf '%4d s\n\n' $(($(date +%s) - begun))
python docs/demo_results.py "$home"
