#!/bin/sh
# The runs behind docs/methods.md: every method on 20 CounterFact and 20 QAEdit edits, one at a time and in a row.
# sh docs/methods.sh EDITING_SETS OUT [METHOD...]; what is there already is not run again.
set -eu

sets=$1 out=$2
shift 2
[ $# -gt 0 ] || set -- none prompt ike rag ft ft_l ft_m locft_bf lora lora_merge rome r_rome c_rome memit alphaedit \
  mend grace wise ultraedit crispedit stableedit

mkdir -p "$out"
python - "$sets" "$out" <<'END'
import json
import sys
from pathlib import Path

sets, out = map(Path, sys.argv[1:])
# The defaults for models without published values were found on the first CounterFact edits: others are taken here.
counterfact = json.loads((sets / "counterfact-edit.json").read_text(encoding="utf-8"))[1000:]
# Of the five locality questions of an edit, all from Natural Questions, the first.
qaedit = json.loads((sets / "QAEdit_inter_1k.json").read_text(encoding="utf-8"))[100:]
qaedit = [{**edit, "locality": edit["locality"][:1]} for edit in qaedit]
for name, edits in (("counterfact", counterfact), ("qaedit", qaedit)):
    (out / f"{name}.json").write_text(json.dumps(edits, ensure_ascii=False, indent=1), encoding="utf-8")
END

for set in counterfact qaedit; do
  for method in "$@"; do
    # Facts stated ahead of a prompt and adapters are made for all edits at once, as published.
    case $method in
      none | crispedit | stableedit) protocols=per_timestep ;;
      prompt | lora | lora_merge) protocols="single per_timestep" ;;
      locft_bf | memit | alphaedit | ultraedit) protocols="single sequential per_timestep" ;;
      *) protocols="single sequential" ;;
    esac
    for protocol in $protocols; do
      KGEDIT_HOME="$out/home-$set" OMP_NUM_THREADS=1 kgedit run-edit --edits "$out/$set.json" --limit 20 \
        --model smollm2-135m --method "$method" --protocol "$protocol" \
        --preset synthetic --preset wild --preset few_shot --preset question_only \
        --out "$out/$set/$method-$protocol"
    done
  done
  kgedit report "$out/$set"/* --brief --overwrite --markdown "$out/$set.md"
done

# Longer rows, asked again after every hundred edits.
for method in memit alphaedit; do
  case " $* " in
    *" $method "*)
      KGEDIT_HOME="$out/home-counterfact" OMP_NUM_THREADS=1 kgedit run-edit --edits "$out/counterfact.json" --limit 300 \
        --model smollm2-135m --method "$method" --protocol sequential --evaluate-every 100 --preset synthetic \
        --preset few_shot --out "$out/in-a-row/$method"
      ;;
  esac
done
if [ -d "$out/in-a-row" ]; then
  kgedit report "$out"/in-a-row/* --brief --overwrite --markdown "$out/in-a-row.md"
fi
