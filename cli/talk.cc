#include "cli/talk.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/talk_local.h"
#include "cli/talk_url.h"

namespace antiphon::cli {
namespace {

struct TalkOptions {
  TalkLocalOptions local;
  TalkUrlOptions url;
  double temperature = 0.0;
};

int Talk(TalkOptions& options, bool has_temperature) {
  TalkLocalOptions& local = options.local;
  if (options.url.url.empty()) {
    if (has_temperature) local.temperature = options.temperature;
    return TalkLocally(local);
  }
  TalkUrlOptions& url = options.url;
  url.in_wav = local.in_wav;
  url.out_wav = local.out_wav;
  url.voice = local.voice;
  url.text_prompt = local.text_prompt;
  url.text = local.text;
  url.duration_s = local.duration_s;
  return TalkThroughUrl(url).failed == 0 ? 0 : 1;
}

}  // namespace

void RegisterTalk(CLI::App& app, int* exit_status) {
  const auto options = std::make_shared<TalkOptions>();
  TalkLocalOptions& local = options->local;
  TalkUrlOptions& url = options->url;
  CLI::App* talk =
      app.add_subcommand("talk", "Hold a conversation: say a WAV file, hear the answer");
  talk->add_option("IN.wav", local.in_wav, "What is said (any rate and channel count)")->required();
  talk->add_option("-o,--output", local.out_wav, "WAV file for the answer");
  talk->add_flag("--text", local.text, "Print the transcript with times");
  talk->add_option("--voice", local.voice, "Name of a voice");
  talk->add_option("--text-prompt", local.text_prompt, "Persona, where the model takes one");
  talk->add_option("--duration", local.duration_s, "Seconds; 0: the recording and 5 s of silence")
      ->check(CLI::Range(0.0, 86400.0));
  auto* in_process = "In this process";
  auto* model = talk->add_option("--model", local.model, "embedded, echo or a checkpoint folder")
                    ->capture_default_str();
  auto* temperature = talk->add_option("--temperature", options->temperature,
                                       "Of text and audio; the model's own unless given")
                          ->check(CLI::Range(0.0, 2.0));
  auto* seed = talk->add_option("--seed", local.seed, "Of sampling")->capture_default_str();
  auto* executor =
      talk->add_option("--executor", local.executor, "cpu or reference")->capture_default_str();
  auto* weights = talk->add_option("--weights", local.weights, "auto, fp32, bf16, int8 or int4")
                      ->capture_default_str();
  auto* kv = talk->add_option("--kv", local.kv, "Keys and values: auto, fp32, bf16, int8 or int4")
                 ->capture_default_str();
  auto* threads = talk->add_option("--threads", local.threads, "Workers, 0: one per core");
  auto* real_time =
      talk->add_flag("--real-time", local.real_time, "A frame every 80 ms, as in a call");
  for (CLI::Option* option :
       {model, temperature, seed, executor, weights, kv, threads, real_time}) {
    option->group(in_process);
  }
  auto* with_daemon = "Through a daemon";
  auto* address = talk->add_option("--url", url.url, "ws:// or wss:// address of a running daemon");
  auto* insecure = talk->add_flag("--insecure", url.insecure, "Take any certificate");
  auto* sessions =
      talk->add_option("--sessions", url.sessions, "Conversations at once")->capture_default_str();
  address->excludes(model)->excludes(executor)->excludes(weights)->excludes(kv)->excludes(threads);
  address->excludes(temperature)->excludes(seed)->excludes(real_time);
  insecure->needs(address);
  sessions->needs(address);
  for (CLI::Option* option : {address, insecure, sessions}) option->group(with_daemon);
  talk->callback([options, temperature, exit_status] {
    *exit_status = Talk(*options, temperature->count() > 0);
  });
}

}  // namespace antiphon::cli
