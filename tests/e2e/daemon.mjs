// antiphond itself, as a child that dies with this process.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { buildDir } from "./place.mjs";

export class Daemon {
  #process;
  #log = [];

  port = 0;

  // Runs until stop() or kill(); answers on loopback at `port` (0: any that is free). `options`:
  // texts as on the command line. Throws with the daemon's log where it does not come up.
  static async start(options = [], port = 0) {
    const daemon = new Daemon();
    const command = [join(buildDir, "antiphond"), `--server.listen=["127.0.0.1:${port}"]`, ...options];
    daemon.#process = spawn("setpriv", ["--pdeathsig", "KILL", ...command], {
      stdio: ["ignore", "ignore", "pipe"],
    });
    await new Promise((resolve, reject) => {
      createInterface(daemon.#process.stderr)
        .on("line", (line) => {
          daemon.#log.push(line);
          const [, found] = line.match(/talk at http:\/\/127\.0\.0\.1:(\d+)\//) ?? [];
          if (!found) return;
          daemon.port = Number(found);
          resolve();
        })
        .on("close", () => reject(new Error(`antiphond stopped:\n${daemon.log}`)));
      daemon.#process.on("error", reject);
    });
    return daemon;
  }

  get url() {
    return `http://127.0.0.1:${this.port}/`;
  }

  // Lines written so far.
  get log() {
    return this.#log.join("\n");
  }

  async info() {
    return (await fetch(`${this.url}v1/info`)).json();
  }

  // Ends as a crash does: no goodbye.
  async kill() {
    await this.#end("SIGKILL");
  }

  // Ends as a service manager ends it; the exit status.
  async stop() {
    return this.#end("SIGTERM");
  }

  async #end(signal) {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return this.#process.exitCode;
    const exited = once(this.#process, "exit");
    this.#process.kill(signal);
    const [status] = await exited;
    return status;
  }
}
