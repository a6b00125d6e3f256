#!/bin/sh
# antiphon voice on a PersonaPlex folder put together from golden ones: voice_test.sh ANTIPHON GOLDEN SAMPLE
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp "$2/personaplex-tiny/model.safetensors" "$2/personaplex-tiny/config.json" "$folder"
cp "$2/mimi-tiny/model.safetensors" "$folder/mimi.safetensors"
cp "$2/mimi-tiny/config.json" "$folder/mimi_config.json"
"$1" voice "$3" --model "$folder" --name anna | grep -q 'anna.safetensors: [0-9]* frames'
test -s "$folder/voices/anna.safetensors"
"$1" voice "$3" --model "$folder" --name ../anna 2>&1 | grep -q -- '--name: expected a plain name'
"$1" voice "$3" --model "$2/moshi-tiny" --name anna 2>&1 | grep -q 'expected a PersonaPlex checkpoint'
echo voice_test passed
