#!/bin/sh
# The runs behind docs/methods.md: every method on 100 CounterFact and 100 QAEdit edits, 1,000 edits in a row, and
# deviations undone on 20 edits.
# sh docs/methods.sh EDITING_SETS OUT [RUN...]; what is there is not run again, and what was stopped goes on.
set -eu

sets=$1 out=$2
shift 2
named="$*"

# sweep SPEC OPTION...: its runs that were named, or all if none were.
sweep() {
  spec=$1 only=""
  shift
  for run in $named; do
    ! grep -q "method: $run" "$spec" || only="$only --only $run*"
  done
  # shellcheck disable=SC2086  # $only is a list of options.
  [ "$named" ] && [ ! "$only" ] || kgedit sweep "$spec" "$@" $only
}

here=$(dirname "$0")
mkdir -p "$out"
export OMP_NUM_THREADS=1 KGEDIT_HOME="$out/home"
[ -f "$out/deviations.json" ] || python - "$sets" "$out" <<'END'
import json
import sys
from pathlib import Path

sets, out = map(Path, sys.argv[1:])
# The defaults for models without published values were found on the first CounterFact edits: others are taken here.
counterfact = json.loads((sets / "counterfact-edit.json").read_text(encoding="utf-8"))[1000:]
# Of the five locality questions of an edit, all from Natural Questions, the first.
qaedit = json.loads((sets / "QAEdit_inter_1k.json").read_text(encoding="utf-8"))[100:]
qaedit = [{**edit, "locality": edit["locality"][:1]} for edit in qaedit]
# Twenty of the hundred, with the same known facts beside them: statistics that are there already serve these runs too.
deviations = counterfact[:20] + counterfact[100:]
for name, edits in (("counterfact", counterfact), ("qaedit", qaedit), ("deviations", deviations)):
    (out / f"{name}.json").write_text(json.dumps(edits, ensure_ascii=False, indent=1), encoding="utf-8")
END

for set in counterfact qaedit; do
  sweep "$here/methods.yaml" --edits "$out/$set.json" --limit 100 --out "$out/$set"
done
sweep "$here/in-a-row.yaml" --edits "$out/counterfact.json" --limit 1000 --out "$out/in-a-row"
[ "$named" ] || {
  kgedit sweep "$here/deviations.yaml" --edits "$out/deviations.json" --limit 20 --out "$out/deviations"
  kgedit sweep "$here/closed-forms.yaml" --edits "$out/counterfact.json" --limit 100 --out "$out/closed-forms"
  kgedit sweep "$here/deviations-tiny.yaml" --edits "$out/counterfact.json" --limit 100 --out "$out/deviations-tiny"
}
python "$here/methods_tables.py" "$out"
python "$here/deviations_tables.py" "$out"
[ "$named" ] || python "$here/deviation_checks.py" "$out/deviations.json"
