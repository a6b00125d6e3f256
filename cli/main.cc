// antiphon: the command line tool. Each subcommand registers itself; this file only dispatches.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "cli/bench.h"
#include "cli/check.h"
#include "cli/doctor.h"
#include "cli/inspect.h"
#include "cli/key.h"
#include "cli/plan.h"
#include "cli/quality.h"
#include "cli/talk.h"
#include "cli/voice.h"

int main(int argc, char** argv) {
  CLI::App app{"antiphon: full-duplex speech models, from the command line"};
  app.require_subcommand(1);
  int exit_status = 0;
  antiphon::cli::RegisterBench(app, &exit_status);
  antiphon::cli::RegisterCheck(app, &exit_status);
  antiphon::cli::RegisterDoctor(app, &exit_status);
  antiphon::cli::RegisterInspect(app, &exit_status);
  antiphon::cli::RegisterKey(app, &exit_status);
  antiphon::cli::RegisterPlan(app, &exit_status);
  antiphon::cli::RegisterQuality(app, &exit_status);
  antiphon::cli::RegisterTalk(app, &exit_status);
  antiphon::cli::RegisterVoice(app, &exit_status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int status = app.exit(error);
    return status == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "antiphon: %s\n", error.what());
    return 1;
  }
  return exit_status;
}
