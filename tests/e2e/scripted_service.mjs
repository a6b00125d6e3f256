// A stand-in for the daemon that speaks docs/PROTOCOL.md by a script: for states that a healthy
// daemon cannot be brought to on demand (faults, odd closes, a slow prompt, voices it does not have).

import { createServer } from "node:http";
import { readFileSync } from "node:fs";
import { WebSocketServer } from "ws";

const kFrameMs = 80;
const kPacketSamples = 480;
const kWordMs = 320; // from word to word
const kSoundMs = 160; // of each

// `assets`: URL path → [file, content type]. `csp`: the policy the daemon sends.
export class ScriptedService {
  #http;
  #sockets;

  port = 0;

  // Forgets everything about the test before.
  reset(model) {
    this.cut();
    this.connections = 0;
    this.starts = []; // every `start` received
    this.clientStats = []; // every `stats` received
    this.kinds = new Set(); // kind bytes received
    this.prefix = ""; // of every path, as a proxy may have it
    this.model = model;
    // async (call, number): what happens to connection `number` (0, 1, ...).
    this.script = async (call) => call.talk();
  }

  static async start(assets, csp, port = 0) {
    const service = new ScriptedService();
    service.#http = createServer((request, response) => service.#serve(request, response, assets, csp));
    service.#sockets = new WebSocketServer({
      noServer: true,
      handleProtocols: (offered) => (offered.has("antiphon.v1") ? "antiphon.v1" : false),
    });
    service.#http.on("upgrade", (request, socket, head) => service.#upgrade(request, socket, head));
    await new Promise((resolve) => service.#http.listen(port, "0.0.0.0", resolve));
    service.port = service.#http.address().port;
    return service;
  }

  get url() {
    return `http://127.0.0.1:${this.port}/`;
  }

  // Cuts every connection as a lost network does.
  cut() {
    for (const socket of this.#sockets.clients) socket.terminate();
  }

  stop() {
    this.cut();
    this.#http.close();
    this.#http.closeAllConnections();
  }

  #upgrade(request, stream, head) {
    if (request.url !== `${this.prefix}/v1/voice`) return stream.destroy();
    this.#sockets.handleUpgrade(request, stream, head, async (socket) => {
      socket.on("error", () => socket.terminate());
      await this.script(new Call(this, socket), this.connections++);
    });
  }

  #serve(request, response, assets, csp) {
    const path = request.url.startsWith(this.prefix) ? request.url.slice(this.prefix.length) : "";
    const headers = { "Content-Security-Policy": csp, "Cache-Control": "no-store" };
    if (path === "/healthz") return response.writeHead(200, headers).end("ok");
    if (path === "/v1/info") {
      headers["Content-Type"] = "application/json";
      return response.writeHead(200, headers).end(JSON.stringify({ model: this.model }));
    }
    if (!assets[path]) return response.writeHead(404, headers).end();
    const [file, type] = assets[path];
    response.writeHead(200, { ...headers, "Content-Type": type }).end(readFileSync(file));
  }
}

// One connection, and what a script may do with it.
class Call {
  #service;
  #socket;
  #started;

  constructor(service, socket) {
    this.#service = service;
    this.#socket = socket;
    this.#started = new Promise((resolve) => {
      socket.on("message", (data, binary) => {
        if (binary) service.kinds.add(data[0]);
        else this.#take(JSON.parse(data.toString()), resolve);
      });
    });
  }

  send(message) {
    this.#socket.send(JSON.stringify(message));
  }

  close(code, error) {
    if (error) this.send({ type: "error", ...error });
    this.#socket.close(code);
  }

  // Says hello; done when the client sent `start`.
  async hello() {
    const { name, family, ...offers } = this.#service.model;
    this.send({
      type: "hello",
      version: 1,
      server: "antiphond 0.1.0",
      session: `scripted-${this.#service.connections}`,
      model: { name, family },
      sample_rate_hz: 24000,
      frame_ms: kFrameMs,
      audio: ["opus", "pcm16"],
      ...offers,
    });
    return this.#started;
  }

  // Sends each packet back as it came.
  async echo() {
    await this.hello();
    this.send({ type: "ready", time_ms: 0 });
    this.#socket.on("message", (data, binary) => binary && this.#socket.send(data));
  }

  // Runs a prompt of `promptFrames`, then speaks: `lines` are [from ms, words], and while words are
  // said there is a tone. At `stallAtMs` nothing is sent for `stallMs`, then all that is due.
  async talk({ promptFrames = 0, promptFrameMs = 20, lines = [], stallAtMs = Infinity, stallMs = 0 } = {}) {
    await this.hello();
    for (let done = 1; done <= promptFrames; ++done) {
      if (this.#socket.readyState !== this.#socket.OPEN) return;
      await new Promise((resolve) => setTimeout(resolve, promptFrameMs));
      this.send({ type: "progress", done_frames: done, total_frames: promptFrames });
    }
    this.send({ type: "ready", time_ms: 0 });
    const words = lines.flatMap(([from, text]) =>
      text.match(/\S+/g).map((word, index) => ({ text: ` ${word}`, at: from + kWordMs * index })),
    );
    const beganAt = performance.now();
    let frame = 0;
    const timer = setInterval(() => {
      if (this.#socket.readyState !== this.#socket.OPEN) return clearInterval(timer);
      const now = performance.now() - beganAt;
      if (now > stallAtMs && now < stallAtMs + stallMs) return;
      for (; (frame + 1) * kFrameMs <= now; ++frame) this.#tick(frame, words);
    }, 5);
  }

  #take(message, onStart) {
    if (message.type === "stats") this.#service.clientStats.push(message);
    if (message.type === "start") {
      this.#service.starts.push(message);
      onStart();
    }
    if (message.type === "bye") {
      this.send({ type: "bye", reason: "client" });
      this.#socket.close(1000);
    }
  }

  #tick(frame, words) {
    const now = frame * kFrameMs;
    const word = words.find(({ at }) => at >= now && at < now + kFrameMs);
    if (word) this.send({ type: "text", text: word.text, time_ms: now });
    const loud = words.some(({ at }) => now > at - kFrameMs && now < at + kSoundMs);
    for (let packet = 0; packet < 4; ++packet) this.#socket.send(tone(frame * 4 + packet, loud));
    if (frame % 12 > 0) return;
    const stats = { frames: frame, late: 0, degraded: 0, starved: 0, buffer_ms: 58, oldest_ms: 71 };
    this.send({ type: "stats", ...stats, dropped_ms: 0, lost: 0, queued_bytes: 0 });
  }
}

// One pcm16 message of 20 ms: a tone of 300 Hz, or silence. 300 Hz has whole periods in a frame.
function tone(packet, loud) {
  const message = Buffer.alloc(1 + 2 * kPacketSamples);
  message[0] = 2;
  for (let i = 0; i < kPacketSamples && loud; ++i) {
    const phase = (2 * Math.PI * 300 * (packet * kPacketSamples + i)) / 24000;
    message.writeInt16LE(Math.round(0.3 * 32767 * Math.sin(phase)), 1 + 2 * i);
  }
  return message;
}
