#!/usr/bin/env bash
# Builds and runs the tests that a sanitizer preset is for: tools/sanitize.sh asan|tsan|fuzz [SECONDS]
#   asan  unit and protocol tests under AddressSanitizer and UndefinedBehaviorSanitizer
#   tsan  rings, pools and the tick loop under ThreadSanitizer
#   fuzz  every libFuzzer target from its seed corpus, SECONDS each (default 10)
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
seconds=${2:-10}

build() {
  cmake --preset "$preset" >/dev/null
  cmake --build --preset "$preset" --target "$@"
}

run() {
  echo "== $preset: $*"
  "build/$preset/$@"
}

case $preset in
  asan)
    targets=(audio_test playout_buffer_test codec_pool_test kernels_test worker_pool_test checkpoint_test
             duplex_engine_test tick_loop_test session_test voice_service_test config_file_test
             web_server_test)
    build "${targets[@]}"
    for target in "${targets[@]}"; do run "$target" --gtest_brief=1; done
    ;;
  tsan)
    targets=(codec_pool_test worker_pool_test playout_buffer_test tick_loop_test session_test
             voice_service_test)
    build "${targets[@]}"
    for target in "${targets[@]}"; do
      # Simulated minutes in one thread tell this sanitizer nothing.
      filter='*'
      [ "$target" = playout_buffer_test ] && filter='*Thread*'
      run "$target" --gtest_brief=1 --gtest_filter="$filter"
    done
    ;;
  fuzz)
    targets=(ogg_stream wav_file voice_message moshi_message safetensors)
    build "${targets[@]/%/_fuzz}"
    found=$(mktemp -d)
    trap 'rm -rf "$found"' EXIT
    for target in "${targets[@]}"; do
      mkdir "$found/$target"
      run "${target}_fuzz" -max_total_time="$seconds" -rss_limit_mb=2048 -print_final_stats=1 \
          -artifact_prefix="build/fuzz/${target}_" "$found/$target" "tests/fuzz/corpus/$target" 2>&1 |
        grep -E '^==|number_of_executed_units|ERROR|SUMMARY' || exit 1
    done
    ;;
  *)
    echo "usage: $0 asan|tsan|fuzz [SECONDS]" >&2
    exit 2
    ;;
esac
echo "$preset passed"
