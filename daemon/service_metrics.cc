#include "daemon/service_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "daemon/metrics_text.h"

namespace antiphon::daemon {
namespace {

double Real(uint64_t count) { return static_cast<double>(count); }

void AddTicks(const TickLoop& ticks, MetricsText* page) {
  page->Family("antiphon_tick_seconds", "histogram",
               "Time of turns with sessions, from their begin to the I/O thread's wake.");
  page->Sample({}, ticks.part(TickPart::kTotal));
  page->Family("antiphon_tick_part_seconds", "histogram",
               "Time of the parts of turns; start is the delay after the grid point.");
  for (const TickPart part : {TickPart::kStart, TickPart::kGather, TickPart::kEngine,
                              TickPart::kScatter, TickPart::kPrefill}) {
    page->Sample({{"part", TickPartName(part)}}, ticks.part(part));
  }
  const TickStats stats = ticks.stats();
  page->Counter("antiphon_ticks_total", "Turns that ran.", Real(stats.ticks));
  page->Counter("antiphon_ticks_missed_total", "Grid points skipped while sessions were running.",
                Real(stats.missed));
}

void AddFrames(const TickLoop& ticks, MetricsText* page) {
  struct Kind {
    const char *name, *help;
    uint64_t LaneTotals::*member;
  };
  constexpr Kind kKinds[] = {
      {"antiphon_frames_total", "Frames produced, by slot.", &LaneTotals::frames},
      {"antiphon_frames_late_total", "Frames not handed over before the next tick, by slot.",
       &LaneTotals::late},
      {"antiphon_frames_degraded_total", "Frames of silence for want of sound, by slot.",
       &LaneTotals::degraded},
      {"antiphon_frames_starved_total", "Frames that lacked the caller's sound, by slot.",
       &LaneTotals::starved},
  };
  for (const Kind& kind : kKinds) {
    page->Family(kind.name, "counter", kind.help);
    for (size_t n = 0; n < ticks.lanes(); ++n) {
      page->Sample({{"slot", std::to_string(n)}}, Real(ticks.totals(n).*kind.member));
    }
  }
}

void AddBuffers(const TickLoop& ticks, Time now, MetricsText* page) {
  page->Family("antiphon_buffer_seconds", "gauge", "Caller's sound waiting, by slot.");
  for (size_t n = 0; n < ticks.lanes(); ++n) {
    page->Sample({{"slot", std::to_string(n)}}, ticks.lane(n).in.stats(now).buffered_ms / 1e3);
  }
  page->Family("antiphon_buffer_age_seconds", "gauge",
               "Age of the oldest of the caller's sound waiting, by slot.");
  for (size_t n = 0; n < ticks.lanes(); ++n) {
    page->Sample({{"slot", std::to_string(n)}}, ticks.lane(n).in.stats(now).oldest_ms / 1e3);
  }
}

void AddSessions(const SessionTable& table, MetricsText* page) {
  page->Gauge("antiphon_slots", "Conversations that can go on at once.", Real(table.capacity()));
  page->Gauge("antiphon_slots_free", "Slots that can be given away now.", Real(table.free_lanes()));
  page->Gauge("antiphon_sessions", "Conversations now.", Real(table.open_sessions()));
  page->Gauge("antiphon_draining", "1 while nobody is admitted any more.",
              table.draining() ? 1 : 0);
  page->Counter("antiphon_admissions_total", "Callers admitted.", Real(table.admitted()));
  page->Family("antiphon_refusals_total", "counter", "Callers refused, by reason.");
  for (const Admission why : kRefusals) {
    page->Sample({{"reason", AdmissionName(why)}}, Real(table.refused(why)));
  }
  const PeerCounters& peers = table.peers();
  page->Counter("antiphon_messages_ignored_total", "Messages of unknown kinds.",
                Real(peers.ignored));
  page->Counter("antiphon_messages_faulty_total", "Messages that break the protocol.",
                Real(peers.faulty));
  page->Counter("antiphon_client_underruns_total", "Gaps in playback that clients told of.",
                Real(peers.underruns));
}

void AddFront(const FrontCounters& front, MetricsText* page) {
  page->Family("antiphon_front_refusals_total", "counter",
               "Connections and requests turned away before a conversation, by reason.");
  page->Sample({{"reason", "connections"}}, Real(front.connections));
  page->Sample({{"reason", "address"}}, Real(front.address));
  page->Sample({{"reason", "origin"}}, Real(front.origin));
  page->Sample({{"reason", "key"}}, Real(front.key));
  page->Sample({{"reason", "right"}}, Real(front.right));
  page->Sample({{"reason", "slow"}}, Real(front.slow));
}

void AddSound(const SessionTable& table, int codec_threads, MetricsText* page) {
  const SoundTotals sound = table.sound();
  page->Counter("antiphon_opus_errors_total", "Packets that would not decode.", Real(sound.broken));
  page->Counter("antiphon_packets_concealed_total", "Packets lost or broken, replaced by guesses.",
                Real(sound.lost));
  page->Counter("antiphon_input_dropped_seconds_total", "Caller's sound cut after floods.",
                sound.dropped_ms / 1e3);
  page->Gauge("antiphon_codec_threads", "Threads of the codec pool.", codec_threads);
  page->Gauge("antiphon_codec_jobs", "Codec jobs and preparations under way.", table.pending());
  page->Counter("antiphon_codec_jobs_dropped_total", "Codec jobs refused by a full strand.",
                Real(sound.refused_jobs));
}

void AddKv(const TickLoop& ticks, MetricsText* page) {
  const engine::KvUse use = ticks.kv_use();
  page->Gauge("antiphon_kv_pages", "Pages of the keys' and values' pool.", use.pages);
  page->Gauge("antiphon_kv_pages_free", "Pages that hold nothing.", use.free_pages);
}

double ResidentBytes() {
  long size = 0, resident = 0;
  std::FILE* const file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  if (std::fscanf(file, "%ld %ld", &size, &resident) != 2) resident = 0;
  std::fclose(file);
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

void AddProcess(MetricsText* page) {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  page->Counter("process_cpu_seconds_total", "Processor time, user and system.",
                Seconds(use.ru_utime) + Seconds(use.ru_stime));
  page->Gauge("process_resident_memory_bytes", "Memory that is resident.", ResidentBytes());
  std::error_code error;
  double descriptors = 0;
  for (std::filesystem::directory_iterator at("/proc/self/fd", error), end; !error && at != end;
       at.increment(error)) {
    ++descriptors;
  }
  page->Gauge("process_open_fds", "File descriptors open.", descriptors);
}

}  // namespace

std::string ServiceMetrics(const MetricsSources& sources, Time now) {
  MetricsText page;
  page.Family("antiphon_build_info", "gauge", "1; the version is the label.");
  page.Sample({{"version", ANTIPHON_VERSION}}, 1);
  page.Gauge("antiphon_healthy", "1 while ticks are made.", sources.healthy ? 1 : 0);
  AddTicks(sources.ticks, &page);
  AddFrames(sources.ticks, &page);
  AddBuffers(sources.ticks, now, &page);
  AddSessions(sources.table, &page);
  if (sources.front != nullptr) AddFront(*sources.front, &page);
  AddSound(sources.table, sources.codec_threads, &page);
  AddKv(sources.ticks, &page);
  AddProcess(&page);
  return page.text();
}

}  // namespace antiphon::daemon
