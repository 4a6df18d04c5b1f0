// The page connects to the stream of events, and keeps the user's choices.

import { request } from "./access.js";
import { Graph } from "./graph.js";
import { LatencyMap, SpectrumPlot, bytes, count, quantity, rate, time } from "./plots.js";
import { PropertyForms } from "./properties.js";

const at = (id) => document.getElementById(id);
const chosen = { waveform: null, connection: null, component: null, port: null };
const graph = new Graph(at("graph"), chooseConnection, chooseComponent);
const latency = new LatencyMap(at("latency"));
const spectrum = new SpectrumPlot(at("spectrum"), at("waterfall"));
const forms = new PropertyForms(at("properties"));
let stream = null;
let state = null;
let seen = false;
// Whether the chosen waveform is running.
let runs = false;
// The connections shown last, and the time when all of them were present.
let kept = { connections: [], at_ms: 0 };

const keyOf = (it) => `${it.from} -> ${it.to}`;

// Opens the stream of events for the user's choices, and opens it again when it breaks. A spectrum
// is measured only while its stream is open.
async function connect() {
  stream?.abort();
  const { signal } = (stream = new AbortController());
  const query = new URLSearchParams();
  if (chosen.waveform) {
    query.set("waveform", chosen.waveform.name);
    query.set("pid", chosen.waveform.pid);
    if (chosen.port) query.set("port", chosen.port);
  }
  while (!signal.aborted) {
    const response = await request(`events?${query}`, { signal }).catch(() => null);
    if (response?.ok) await receiveAll(response.body.pipeThrough(new TextDecoderStream()).getReader(), signal);
    if (signal.aborted) return;
    if (response && !response.ok) return badge("status", await refusal(response), "bad");
    // There was no response. A stream that has ended may have lost the place to another page.
    if (!response) badge("status", "the server is gone; trying again", "bad");
    await new Promise((resume) => setTimeout(resume, 1000));
  }
}

async function refusal(response) {
  if (response.status === 403) return "refused: open the printed address again";
  return (await response.json().catch(() => null))?.error ?? `refused: ${response.status}`;
}

// Receives the events of a stream until it ends.
async function receiveAll(reader, signal) {
  let text = "";
  while (!signal.aborted) {
    const { value, done } = await reader.read().catch(() => ({ done: true }));
    if (done) return;
    const events = (text + value).split("\n\n");
    text = events.pop();
    for (const event of events) {
      if (signal.aborted) return;
      try {
        receive(JSON.parse(event.slice("data: ".length)));
      } catch (error) {
        // An event that cannot be shown does not affect the next one.
        reportError(error);
      }
    }
  }
}

function badge(id, text, kind) {
  at(id).textContent = text;
  at(id).className = `badge ${kind}`;
}

// Fills a list with options. If the options have not changed, an open list stays open.
function options(id, list, value) {
  const select = at(id);
  const shape = JSON.stringify(list);
  if (select.dataset.shape !== shape) {
    select.dataset.shape = shape;
    select.replaceChildren(...list.map(([key, text]) => new Option(text, key)));
  }
  if (select.value !== value) select.value = value ?? "";
}

function receive(update) {
  state = update;
  badge("status", "live", "good");
  const running = state.waveforms.find((it) => it.name === chosen.waveform?.name && it.pid === chosen.waveform?.pid);
  const successor = running ?? state.waveforms.find((it) => it.name === chosen.waveform?.name);
  if (chosen.waveform === null || (!running && successor)) {
    const next = successor ?? state.waveforms[0];
    if (next) return chooseWaveform(next);
  }
  const names = state.waveforms.map((it) => [`${it.pid}`, `${it.name} (process ${it.pid})`]);
  if (chosen.waveform && !running) names.push([`${chosen.waveform.pid}`, `${chosen.waveform.name} (ended)`]);
  options("waveform", names, `${chosen.waveform?.pid ?? ""}`);
  at("problems").hidden = !state.problems.length;
  at("problems").replaceChildren(...state.problems.map((it) => Object.assign(document.createElement("li"), { textContent: it })));
  runs = Boolean(running);
  if (!runs) return showEnd();
  seen = true;
  // Connections disappear a moment before their waveform, or while a component is restarted.
  const isLess = state.connections.length < kept.connections.length;
  // Without any connection, the waveform is ending.
  const isEnding = running.phase === "stopping" || state.connections.length === 0;
  if (isLess && (isEnding || state.at_ms - kept.at_ms < 3000)) state.connections = kept.connections;
  else kept = { connections: state.connections, at_ms: state.at_ms };
  badge("phase", running.phase, running.phase === "running" ? "good" : "warn");
  at("totals").textContent = `${running.elapsed_s.toFixed(0)} s · ${count(running.packets)} packets · ${count(running.lost)} lost`;
  showChoices(running);
  graph.show(running.components, state.connections, chosen);
  showTable();
  showLatency();
  showSpectrum();
}

function showEnd() {
  const name = chosen.waveform?.name ?? state.only;
  const text = name ? `${name} ${seen ? "has ended" : "does not run"}` : "no waveform runs";
  badge("phase", text, "bad");
  graph.end();
  if (!seen) at("graph").textContent = "As soon as a waveform runs, it is shown here: stripline run FILE.toml";
}

// Makes the choices that are still missing, and shows the lists.
function showChoices(running) {
  const connections = state.connections;
  if (!connections.some((it) => keyOf(it) === chosen.connection)) {
    chosen.connection = connections[0] ? keyOf(connections[0]) : null;
    latency.clear();
  }
  options("connection", connections.map((it) => [keyOf(it), keyOf(it)]), chosen.connection);
  const ports = new Map(connections.map((it) => [it.from, `${it.from} (${it.payload || "?"})`]));
  if (!ports.has(chosen.port) && ports.size) {
    const numbers = connections.find((it) => /^c?[fsu](8|16|32|64)$/.test(it.payload));
    choosePort((numbers ?? connections[0]).from);
  }
  options("port", [...ports], chosen.port);
  const names = running.components.map((it) => it.name);
  if (!names.includes(chosen.component)) chooseComponent(names[0]);
  options("component", running.components.map((it) => [it.name, `${it.name} (${it.type})`]), chosen.component);
}

function showTable() {
  const cell = (text, kind = "") => Object.assign(document.createElement("td"), { textContent: text, className: kind });
  at("rows").replaceChildren(...state.connections.map((it) => {
    const row = document.createElement("tr");
    const waiting = it.waiting === null ? "?" : `${count(it.waiting)} of ${count(it.depth)}`;
    row.append(
      cell(it.from), cell(it.to), cell(it.transport), cell(it.payload), cell(it.overflow), cell(count(it.packets), "number"),
      cell(rate(it.packets_per_s, "packets/s"), "number"), cell(`${bytes(it.bytes_per_s)}/s`, "number"), cell(waiting, "number"),
      cell(count(it.lost), it.lost ? "number lost" : "number"), cell(it.waits),
    );
    return row;
  }));
}

function showLatency() {
  const it = state.connections.find((it) => keyOf(it) === chosen.connection);
  if (!it) return;
  latency.add(state.at_ms, it.latency);
  latency.draw();
  const [half, most] = [latency.quantile(0.5), latency.quantile(0.99)];
  const words = [half && `median ${time(half)}`, most && `99 % within ${time(most)}`].filter(Boolean);
  const text = words.length
    ? `From send to receive, last ${LatencyMap.SECONDS} s: ${words.join(", ")}.`
    : "From send to receive; no measured packets yet.";
  const means = [["", it.latency_mean_ns], ["queued ", it.queued_mean_ns], ["then in use for ", it.service_mean_ns]];
  const known = means.filter(([, ns]) => ns !== null).map(([word, ns]) => word + time(ns));
  const split = known.length ? ` Mean of the last second: ${known.join(", ")}.` : "";
  at("latency-text").textContent = text + split + (it.age ? ` ${ageText(it.age)}` : "");
}

// The age of samples, with the error of the clock. The clock of a host has no stated error.
function ageText(age) {
  const error = age.clock?.error_ns;
  const isHost = age.clock?.reference === "host";
  const within = error != null ? ` ± ${time(error)}` : isHost ? "" : " ± ?";
  const sign = age.last_ns < 0 ? "-" : "";
  return `Age of the samples: ${sign}${time(Math.abs(age.last_ns))}${within}.`;
}

function showSpectrum() {
  if (state.spectrum) spectrum.add(state.spectrum);
  spectrum.draw();
  const it = spectrum.spectrum;
  const words = [it?.port && `${it.port}, ${it.payload}`, it?.sample_rate_hz && `${quantity(it.sample_rate_hz, "sample/s")}`];
  if (it?.center_frequency_hz) words.push(`centre ${quantity(it.center_frequency_hz, "Hz")}`);
  if (it?.channel) words.push(`channel ${it.channel}`);
  if (it?.problem) words.push(it.problem);
  at("spectrum-text").textContent = words.filter(Boolean).join(", ") || "waiting for samples";
  at("spectrum").dataset.spectra = it?.number ?? 0;
}

function chooseWaveform(it) {
  Object.assign(chosen, { waveform: { name: it.name, pid: it.pid }, connection: null, component: null, port: null });
  kept = { connections: [], at_ms: 0 };
  latency.clear();
  spectrum.clear();
  connect();
}

function chooseConnection(key) {
  chosen.connection = key;
  latency.clear();
  const it = state.connections.find((it) => keyOf(it) === key);
  if (it && it.from !== chosen.port) choosePort(it.from);
}

function choosePort(port) {
  chosen.port = port;
  spectrum.clear();
  connect();
}

function chooseComponent(name) {
  chosen.component = name;
  showProperties();
}

let isAsking = false;

// Shows the current properties. Called once a second.
async function showProperties() {
  if (!runs || !chosen.component || isAsking || document.hidden) return;
  isAsking = true;
  try {
    const which = chosen.waveform;
    const response = await request(`api/properties?${new URLSearchParams({ waveform: which.name, pid: which.pid })}`);
    if (response.ok) forms.show(which, chosen.component, await response.json());
  } catch {
    // The stream of events reports that the server is gone.
  } finally {
    isAsking = false;
  }
}

at("waveform").addEventListener("change", (event) => {
  const it = state.waveforms.find((it) => `${it.pid}` === event.target.value);
  if (it) chooseWaveform(it);
});
at("connection").addEventListener("change", (event) => chooseConnection(event.target.value));
at("port").addEventListener("change", (event) => choosePort(event.target.value));
at("component").addEventListener("change", (event) => chooseComponent(event.target.value));
// A hidden page takes no data from the waveform.
document.addEventListener("visibilitychange", () => (document.hidden ? stream.abort() : connect()));
setInterval(showProperties, 1000);
connect();
