#!/bin/sh
# The runs behind docs/results.md: 100 random QAEdit edits and 100 random cases of the pat slices, seven methods.
# sh docs/results.sh SHARED_DATA OUT [METHOD...]; a run that is whole is not made again, one that was stopped is resumed.
set -eu

data=$1 out=$2
shift 2
[ $# -gt 0 ] || set -- none rag memit ft_m lora locft_bf rome

mkdir -p "$out"
export OMP_NUM_THREADS=1
export KGEDIT_HOME="$out/home"
timestep="$KGEDIT_HOME/timesteps/20211230_20231230"
if [ ! -d "$timestep" ]; then
  for date in 2021-12-30 2023-12-30; do
    kgedit load-dump "$data/slices/pat/$(echo $date | tr -d -).json.gz" --date $date
  done
  kgedit export-timestep --from 2021-12-30 --to 2023-12-30
  kgedit graph stop
fi
# Of the five locality questions of a QAEdit edit, all from Natural Questions, the first.
[ -f "$out/qaedit.json" ] || python - "$data/editing_sets/QAEdit_inter_1k.json" "$out/qaedit.json" <<'END'
import json
import sys
from pathlib import Path

edits = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
edits = [{**edit, "locality": edit["locality"][:1]} for edit in edits]
Path(sys.argv[2]).write_text(json.dumps(edits, ensure_ascii=False, indent=1), encoding="utf-8")
END

for method in "$@"; do
  # One edit at a time where a method is published so; facts of a prompt, adapters and batches all at once.
  case $method in
    ft_m | rome) protocol=single ;;
    *) protocol=per_timestep ;;
  esac
  # The runs shown were made before the search for values ended at the whole loss.
  case $method in
    memit | rome) settings="--set stop=target" ;;
    *) settings="" ;;
  esac
  for set in pat qaedit; do
    case $set in
      pat) cases="--timestep $timestep" ;;
      qaedit) cases="--edits $out/qaedit.json" ;;
    esac
    kgedit run-edit $cases --sample 100 --seed 0 --model smollm2-135m --method "$method" --protocol $protocol $settings \
      --preset synthetic --preset wild --preset wild_chat --preset few_shot --out "$out/$set/$method"
  done
done
for set in pat qaedit; do
  kgedit score "$out/$set"/* --metric single_answer
  kgedit report "$out/$set"/* --brief --overwrite --markdown "$out/$set.md"
done
python "$(dirname "$0")/results_tables.py" "$out"
