#!/usr/bin/env bash
# The tour in one go: draw labelled images, pack them into shards, look inside, examine the pipeline, train a model. demo.sh PENSTOCK FOLDER
set -euo pipefail
tool=$1
folder=$2
expected=0.55 # chance is 0.1; three seeds reach 0.67 to 0.69
bold= plain=
[ -t 1 ] && [ -z "${NO_COLOR:-}" ] && bold=$'\033[1m' plain=$'\033[0m'
run() {
    printf '\n%s$ penstock' "$bold"
    for word in "$@"; do
        case $word in *' '*) printf ' "%s"' "$word" ;; *) printf ' %s' "$word" ;; esac
    done
    printf '%s\n' "$plain"
    "$tool" "$@"
}

rm -rf "$folder"
mkdir -p "$folder"
run generate "$folder/images" --images 2000 --size 96
run pack "$folder/images" "$folder/shards" --shards 4 --split train=0.9,val=0.1 --shuffle 7
run inspect "$folder/shards" --verify --sheet "$folder/sheet.png"
run inspect "$folder/shards" --head 2
pipeline="tfrecord $folder/shards/*train*-of-00004 | shuffle | example | decode | random_resized_crop 96 | flip | normalize imagenet | batch 32"
run plan "$pipeline"
run bench "$pipeline" --seconds 5
run doctor "$pipeline" --quick --step-ms 20 --html "$folder/doctor.html"
run cat "$pipeline" --sheet "$folder/batch.png"
steps="example | decode | resize 48"
run train "tfrecord $folder/shards/*train*-of-00004 | shuffle | $steps | flip | normalize 0..1 | batch 32" \
    --val "tfrecord $folder/shards/*val*-of-00004 | $steps | normalize 0..1 | batch 32" \
    --model "conv 16 3 bias=false pad=same | batchnorm momentum=0.9 | relu | maxpool 2 | conv 32 3 bias=false pad=same | batchnorm momentum=0.9 | relu | maxpool 2 | conv 64 3 bias=false pad=same | batchnorm momentum=0.9 | relu | globalavgpool | dense 10" \
    --epochs 12 --schedule one-cycle --lr 0.01 --out "$folder/run"
run predict "$folder/run" "$folder"/images/*/*-00003.* --top 3
run export "$folder/run" "$folder/model.onnx"
accuracy=$("$tool" eval "$folder/run" "tfrecord $folder/shards/*val*-of-00004 | $steps | normalize 0..1 | batch 32" --json |
    sed -n 's/.*"accuracy": *\([0-9.]*\).*/\1/p')
printf '\nAccuracy of the best checkpoint on the validation images: %.1f %% (expected: at least %.0f %%)\n' \
    "$(awk -v x="$accuracy" 'BEGIN { print 100 * x }')" "$(awk -v x="$expected" 'BEGIN { print 100 * x }')"
awk -v got="$accuracy" -v least="$expected" 'BEGIN { exit !(got != "" && got + 0 >= least + 0) }' || {
    printf 'demo.sh: the model has not learned what it should\n' >&2
    exit 1
}
printf '\nLook at %s/sheet.png (what is stored), %s/batch.png (what a model would see), %s/doctor.html (whether data is the limit) and %s/run/report.html (the training).\n' "$folder" "$folder" "$folder" "$folder"
