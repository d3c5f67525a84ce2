#!/bin/sh
# The whole path on the bundled sample, as README shows it. `make demo` runs it in the environment that it set up.
set -eu

step() {
  printf '\n\033[1m$ %s\033[0m\n' "$*"
  "$@"
}

home=${KGEDIT_HOME:-kgedit-data}
first=$home/benchmark/20210104_20230227
second=$home/benchmark/20230227_20240603
rm -rf "$home/benchmark" "$home/runs" "$home/sample"

step kgedit write-sample "$home/sample"
for date in 2021-01-04 2023-02-27 2024-06-03; do
  step kgedit load-dump "$home/sample/$(echo "$date" | tr -d -).json.gz" --date "$date" \
    --redirects "$home/sample/redirects.tsv"
done
step kgedit snapshots
step kgedit query changed_edges -p from=2021-01-04 -p to=2023-02-27 --limit 5
step kgedit export-timestep --from 2021-01-04 --to 2023-02-27
step kgedit export-timestep --from 2023-02-27 --to 2024-06-03

for method in none ft_m lora_merge rag; do
  step kgedit run-edit --timestep "$first" --timestep "$second" --model tiny --method "$method" --evaluate-earlier \
    --out "$home/runs/tiny-$method"
  step kgedit run-edit --timestep "$first" --model smollm2-135m --method "$method" --limit 4 \
    --out "$home/runs/smollm2-135m-$method"
done
# One edit at a time, undone before the next: the setting in which teacher forcing makes editing look solved.
step kgedit run-edit --timestep "$first" --model tiny --method ft_m --protocol single --limit 40 \
  --out "$home/runs/tiny-ft_m-single"
step kgedit report "$home"/runs/*
step kgedit find Germany --limit 3
step kgedit browse --item Q183 --from 2021-01-04 --to 2023-02-27 --print
