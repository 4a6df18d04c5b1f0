// Pictures on canvases: latency over time, spectrum and waterfall. Also numbers as text.

const three = (value) => (value < 9.995 ? value.toFixed(2) : value < 99.95 ? value.toFixed(1) : value.toFixed(0));

// Formats a quantity with three digits and a decimal prefix.
export function quantity(value, unit) {
  const sizes = [[1e9, "G"], [1e6, "M"], [1e3, "k"]];
  const found = sizes.find(([size]) => Math.abs(value) >= size);
  return found ? `${three(value / found[0])} ${found[1]}${unit}` : `${Number(value.toFixed(2))} ${unit}`;
}

export const bytes = (value) => quantity(Math.round(value), "B");
export const rate = (value, unit) => quantity(value < 10 ? Math.round(value * 10) / 10 : Math.round(value), unit);
export const count = (value) => value.toLocaleString("en");

// Formats nanoseconds.
export function time(ns) {
  const units = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]];
  const [size, unit] = units.find(([size]) => ns >= size) ?? [1, "ns"];
  return `${Number((ns / size).toPrecision(3))} ${unit}`;
}

// Returns the dark-to-light colour of a value from 0 to 1, as three numbers.
export function colour(value) {
  const stops = [[13, 17, 38], [38, 42, 122], [126, 35, 140], [214, 62, 92], [250, 140, 48], [252, 236, 160]];
  const at = Math.max(0, Math.min(value, 1)) * (stops.length - 1);
  const low = Math.min(Math.floor(at), stops.length - 2);
  return stops[low].map((part, index) => Math.round(part + (stops[low + 1][index] - part) * (at - low)));
}

// Fits a canvas to its size on the screen. Returns the context, with the size in CSS pixels.
function prepared(canvas) {
  const scale = window.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth || canvas.width, canvas.clientHeight || canvas.height];
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const FONT = '11px system-ui, "DejaVu Sans", sans-serif';
const LEFT = 58;
const BOTTOM = 20;

// Latencies over time: a column for each update, a row for each bucket.
export class LatencyMap {
  constructor(canvas) {
    this.canvas = canvas;
    this.columns = [];
    this.last = new Map();
  }

  clear() {
    this.columns = [];
    this.last = new Map();
  }

  // Adds the packets since the last update. The counts in `pairs` are totals since the start.
  add(atMs, pairs) {
    const now = new Map(pairs);
    const isFirst = this.last.size === 0;
    const total = (map) => [...map.values()].reduce((sum, it) => sum + it, 0);
    // A restarted receiver counts from 0 again.
    const before = total(now) < total(this.last) ? new Map() : this.last;
    const column = [...now].map(([ns, packets]) => [ns, Math.max(packets - (before.get(ns) ?? 0), 0)]);
    this.last = now;
    if (isFirst) return;
    this.columns.push({ atMs, column: column.filter(([, packets]) => packets > 0) });
    const oldest = atMs - LatencyMap.SECONDS * 1000;
    while (this.columns.length && this.columns[0].atMs < oldest) this.columns.shift();
  }

  static SECONDS = 30;

  // Returns the latency that this share of the shown packets does not exceed. Null means too few
  // packets.
  quantile(share) {
    const all = new Map();
    for (const { column } of this.columns) for (const [ns, packets] of column) all.set(ns, (all.get(ns) ?? 0) + packets);
    const sum = [...all.values()].reduce((a, b) => a + b, 0);
    if (sum * (1 - share) < 1) return null;
    let seen = 0;
    for (const [ns, packets] of [...all].sort((a, b) => a[0] - b[0])) {
      seen += packets;
      if (seen >= sum * share) return ns;
    }
    return null;
  }

  draw() {
    const { context, width, height } = prepared(this.canvas);
    const [plotWidth, plotHeight] = [width - LEFT, height - BOTTOM];
    const all = this.columns.flatMap(({ column }) => column.map(([ns]) => ns));
    const low = Math.floor(Math.log10(Math.min(1e3, ...all)));
    const high = Math.max(Math.ceil(Math.log10(Math.max(1e6, ...all) * 1.26)), low + 1);
    const y = (ns) => plotHeight * (1 - (Math.log10(Math.max(ns, 1)) - low) / (high - low));
    const end = this.columns.at(-1)?.atMs ?? 0;
    const x = (atMs) => LEFT + plotWidth * (1 - (end - atMs) / (LatencyMap.SECONDS * 1000));
    context.fillStyle = `rgb(${colour(0)})`;
    context.fillRect(LEFT, 0, plotWidth, plotHeight);
    this.columns.forEach(({ atMs, column }, index) => {
      const from = x(this.columns[index - 1]?.atMs ?? atMs - 100);
      const sum = column.reduce((all, [, packets]) => all + packets, 0);
      for (const [ns, packets] of column) {
        const [top, bottom] = [y(ns + 2 ** Math.floor(Math.log2(Math.max(ns, 1))) / 4), y(ns)];
        context.fillStyle = `rgb(${colour(0.3 + 0.7 * Math.sqrt(packets / sum))})`;
        context.fillRect(Math.max(from, LEFT), top, Math.max(x(atMs) - from, 1) + 0.5, bottom - top + 0.5);
      }
    });
    context.font = FONT;
    context.fillStyle = style("--muted");
    context.textAlign = "right";
    for (let power = low; power <= high; power++) {
      context.fillText(time(10 ** power), LEFT - 6, Math.min(Math.max(y(10 ** power) + 4, 10), plotHeight));
      context.fillRect(LEFT - 4, Math.min(y(10 ** power), plotHeight - 1), 4, 1);
    }
    context.textAlign = "center";
    for (const seconds of [30, 20, 10]) {
      context.fillText(`${seconds} s ago`, Math.max(x(end - seconds * 1000), LEFT + 24), height - 5);
    }
    context.textAlign = "right";
    context.fillText("now", width, height - 5);
  }
}

// The newest spectrum, and earlier spectra as rows of a waterfall. A frame takes the place of the
// waterfall.
export class SpectrumPlot {
  constructor(canvas, waterfall) {
    Object.assign(this, { canvas, waterfall, rows: [], spectrum: null, low: -100, high: 0 });
  }

  clear() {
    this.rows = [];
    this.spectrum = null;
  }

  add(spectrum) {
    const isOther = this.spectrum && (this.spectrum.levels.length !== spectrum.levels.length ||
      this.spectrum.image.length !== spectrum.image.length);
    if (isOther) this.rows = [];
    const isNew = !this.spectrum || this.spectrum.number !== spectrum.number;
    this.spectrum = spectrum;
    if (!spectrum.levels.length || !isNew) return;
    const isFirst = this.rows.length === 0;
    const isFrame = spectrum.image.length > 0;
    this.rows = isFrame ? spectrum.image : [spectrum.levels, ...this.rows.slice(0, 219)];
    // The scale changes slowly, so that it does not jump.
    const sorted = (isFrame ? spectrum.image.flat() : [...spectrum.levels]).sort((a, b) => a - b);
    let [floor, top] = [sorted[Math.floor(sorted.length / 10)], sorted.at(-1)];
    if (spectrum.unit === "dB") [floor, top] = [Math.max(floor, -140) - 12, top + 8];
    const least = spectrum.unit === "dB" ? 20 : Math.max(Math.abs(top) * 1e-3, 1e-9);
    const follow = isFirst ? 1 : 0.1;
    this.low += (floor - this.low) * follow;
    this.high += (Math.max(top, this.low + least) - this.high) * follow;
  }

  draw() {
    this.drawLevels();
    this.drawWaterfall();
  }

  // Returns the value at this share of an axis, as text, with enough digits to distinguish values
  // that are a quarter of the axis apart.
  place(share, axis = this.spectrum?.axis) {
    const [low, high, unit] = axis ?? [0, 1, ""];
    const largest = Math.max(Math.abs(low), Math.abs(high));
    const sizes = unit === "fs" || unit === "" ? [] : [[1e9, "G"], [1e6, "M"], [1e3, "k"]];
    const [size, prefix] = sizes.find(([size]) => largest >= size) ?? [1, ""];
    const digits = Math.max(0, Math.min(9, 1 - Math.floor(Math.log10(Math.abs(high - low) / 4 / size || 1))));
    return `${Number(((low + share * (high - low)) / size).toFixed(digits))} ${prefix}${unit}`;
  }

  drawLevels() {
    const { context, width, height } = prepared(this.canvas);
    const [plotWidth, plotHeight] = [width - LEFT, height - BOTTOM];
    const y = (db) => plotHeight * (1 - (Math.max(db, this.low) - this.low) / (this.high - this.low));
    context.font = FONT;
    context.textAlign = "right";
    const unit = this.spectrum?.unit ?? "dB";
    const span = this.high - this.low;
    const power = 10 ** Math.floor(Math.log10(span / 2));
    const step = unit === "dB" ? (span > 90 ? 40 : 20) : [5, 2, 1].find((it) => it * power <= span / 2) * power;
    for (let place = Math.ceil(this.low / step); place * step < this.high; place++) {
      const level = place * step;
      context.fillStyle = style("--line");
      context.fillRect(LEFT, y(level), plotWidth, 1);
      context.fillStyle = style("--muted");
      context.fillText(`${Number(level.toPrecision(3))} ${unit}`, LEFT - 6, Math.max(y(level) + 4, 10));
    }
    const levels = this.spectrum?.levels ?? [];
    if (!levels.length) return;
    context.beginPath();
    levels.forEach((db, index) => context.lineTo(LEFT + (plotWidth * (index + 0.5)) / levels.length, y(db)));
    context.strokeStyle = style("--accent");
    context.lineWidth = 1.4;
    context.stroke();
    context.fillStyle = style("--muted");
    // A narrow screen has no room for five labels.
    const shares = plotWidth > 420 ? [0, 0.25, 0.5, 0.75, 1] : [0, 0.5, 1];
    shares.forEach((share) => {
      context.textAlign = share === 0 ? "left" : share === 1 ? "right" : "center";
      context.fillText(this.place(share), LEFT + plotWidth * share, height - 5);
    });
  }

  drawWaterfall() {
    // An image needs more room than the lines of a waterfall.
    this.waterfall.classList.toggle("image", Boolean(this.spectrum?.image.length));
    const { context, width, height } = prepared(this.waterfall);
    const plotWidth = width - LEFT;
    context.fillStyle = `rgb(${colour(0)})`;
    context.fillRect(LEFT, 0, plotWidth, height);
    const bins = this.rows[0]?.length;
    if (!bins) return;
    const rows = Math.min(this.rows.length, height);
    const image = new ImageData(bins, rows);
    for (let row = 0; row < rows; row++) {
      this.rows[row].forEach((db, bin) => {
        image.data.set([...colour((db - this.low) / (this.high - this.low)), 255], 4 * (row * bins + bin));
      });
    }
    this.hidden ??= document.createElement("canvas");
    [this.hidden.width, this.hidden.height] = [bins, rows];
    this.hidden.getContext("2d").putImageData(image, 0, 0);
    context.imageSmoothingEnabled = false;
    const isFrame = this.spectrum.image.length > 0;
    context.drawImage(this.hidden, LEFT, 0, plotWidth, isFrame ? height : rows);
    context.font = FONT;
    context.fillStyle = style("--muted");
    context.textAlign = "right";
    if (isFrame) {
      const axis = this.spectrum.image_axis;
      [0, 0.5, 1].forEach((share) =>
        context.fillText(this.place(share, axis), LEFT - 6, Math.min(Math.max(height * share + 4, 10), height - 2)));
      return;
    }
    context.fillText("now", LEFT - 6, 10);
    context.fillText(`${Math.round(height / 10)} s ago`, LEFT - 6, height - 2);
  }
}
