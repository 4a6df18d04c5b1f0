// The graph: components in layers that begin at the sources, and connections as curves between
// them.

import { bytes, count, rate } from "./plots.js";

const SVG = "http://www.w3.org/2000/svg";
const NODE = { width: 140, height: 52, gapY: 42 };
// The limits of the space between two columns. Within them, the space depends on the width.
const GAP = { least: 100, most: 200 };
const MARGIN = 12;

// Creates an element of the picture.
function element(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

const componentOf = (port) => port.slice(0, port.lastIndexOf("."));

// Returns the layer of each component, which is one more than the largest layer of the component's
// senders. Cycles end at the number of components.
export function layersOf(names, edges) {
  const layers = new Map(names.map((name) => [name, 0]));
  for (let turn = 0; turn < names.length; turn++) {
    let changed = false;
    for (const [from, to] of edges) {
      const next = Math.min(layers.get(from) + 1, names.length - 1);
      if (from !== to && layers.get(to) < next && turn < names.length - 1) {
        layers.set(to, next);
        changed = true;
      }
    }
    if (!changed) break;
  }
  return layers;
}

// Returns the components of each column, placed near the components that they are connected to.
function columnsOf(names, edges) {
  const layers = layersOf(names, edges);
  const used = [...new Set(layers.values())].sort((a, b) => a - b);
  const columns = used.map((layer) => names.filter((name) => layers.get(name) === layer));
  const rows = new Map();
  columns.forEach((column, index) => {
    const before = (name) => {
      const its = edges.filter(([from, to]) => to === name && rows.has(from)).map(([from]) => rows.get(from));
      return its.length ? its.reduce((a, b) => a + b) / its.length : Infinity;
    };
    if (index > 0) column.sort((a, b) => before(a) - before(b) || 0);
    column.forEach((name, row) => rows.set(name, row - (column.length - 1) / 2));
  });
  return columns;
}

export class Graph {
  constructor(holder, onConnection, onComponent) {
    Object.assign(this, { holder, onConnection, onComponent });
    this.shape = "";
    this.nodes = new Map();
  }

  // Shows a state. The picture is rebuilt only when components or connections have changed.
  show(components, connections, chosen) {
    const names = components.map((it) => it.name);
    for (const it of connections) {
      for (const name of [componentOf(it.from), componentOf(it.to)]) if (!names.includes(name)) names.push(name);
    }
    const shape = JSON.stringify([names, components.map((it) => it.type), connections.map((it) => [it.from, it.to])]);
    if (shape !== this.shape) {
      this.shape = shape;
      this.build(names, components, connections);
    }
    for (const it of components) {
      const node = this.nodes.get(it.name);
      node.setAttribute("class", `node ${it.state}${chosen.component === it.name ? " chosen" : ""}`);
      const restarts = it.restarts ? `, restarts: ${it.restarts}` : "";
      node.setAttribute("aria-label", `component ${it.name}, ${it.state}${restarts}`);
      node.querySelector("title").textContent = `${it.name}: ${it.state}${restarts}${it.problem ? `\n${it.problem}` : ""}`;
    }
    for (const it of connections) this.update(it, chosen);
  }

  // Shows that no component runs any more. The figures keep their last values.
  end() {
    for (const [name, node] of this.nodes) {
      node.classList.remove("running", "starting", "suspended");
      node.setAttribute("aria-label", `component ${name}, ended`);
      node.querySelector("title").textContent = `${name}: ended`;
    }
  }

  update(it, chosen) {
    const key = `${it.from} -> ${it.to}`;
    const { group, first, second, bar, fill, title } = this.edges.get(key);
    const level = it.waiting === null || !it.depth ? 0 : Math.min(it.waiting / it.depth, 1);
    const full = it.waits === "full" ? " full" : "";
    group.setAttribute("class", `edge${full}${chosen.connection === key ? " chosen" : ""}`);
    first.textContent = `${rate(it.packets_per_s, "packets/s")}`;
    second.textContent = it.lost ? `${count(it.lost)} lost` : `${bytes(it.bytes_per_s)}/s`;
    second.setAttribute("class", it.lost ? "lost" : "sub");
    bar.setAttribute("visibility", it.waiting === null ? "hidden" : "visible");
    fill.setAttribute("width", 64 * level);
    fill.setAttribute("class", `fill${level > 0.8 ? " most" : level > 0.4 ? " half" : ""}`);
    const waiting = it.waiting === null ? "unknown" : `${it.waiting} of ${it.depth}`;
    const text = `${key} over ${it.transport}: ${first.textContent}, waiting ${waiting}, lost ${it.lost}`;
    title.textContent = text;
    group.setAttribute("aria-label", `connection ${text}`);
  }

  build(names, components, connections) {
    const edges = connections.map((it) => [componentOf(it.from), componentOf(it.to)]);
    const columns = columnsOf(names, edges);
    const rows = Math.max(1, ...columns.map((column) => column.length));
    const height = 2 * MARGIN + rows * NODE.height + (rows - 1) * NODE.gapY + 20;
    const gaps = Math.max(columns.length - 1, 0);
    const free = this.holder.clientWidth - 2 * MARGIN - columns.length * NODE.width;
    const gap = Math.max(GAP.least, Math.min(GAP.most, Math.floor(free / Math.max(gaps, 1))));
    const width = 2 * MARGIN + columns.length * NODE.width + gaps * gap;
    const svg = element("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "graph" });
    const places = new Map();
    columns.forEach((column, index) => {
      const its = column.length * NODE.height + (column.length - 1) * NODE.gapY;
      column.forEach((name, row) => {
        const x = MARGIN + index * (NODE.width + gap);
        places.set(name, { x, y: (height - its) / 2 + row * (NODE.height + NODE.gapY) });
      });
    });
    this.nodes = new Map();
    this.edges = new Map();
    const pairs = new Map();
    connections.forEach((it, index) => svg.append(this.edge(it, ...edges[index].map((name) => places.get(name)), pairs)));
    for (const name of names) {
      svg.append(this.node(name, components.find((it) => it.name === name)?.type ?? "", places.get(name)));
    }
    this.holder.replaceChildren(svg);
  }

  node(name, type, { x, y }) {
    const group = element("g", { class: "node", tabindex: 0, role: "button", transform: `translate(${x} ${y})` });
    const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
    group.append(
      element("title", {}),
      element("rect", { width: NODE.width, height: NODE.height, rx: 8 }),
      element("circle", { cx: 15, cy: 19, r: 4.5 }),
      element("text", { x: 27, y: 23 }, short(name, 14)),
      element("text", { x: 27, y: 40, class: "type" }, short(type, 18)),
    );
    act(group, () => this.onComponent(name));
    this.nodes.set(name, group);
    return group;
  }

  edge(it, from, to, pairs) {
    const key = `${it.from} -> ${it.to}`;
    const [x1, y1, x2, y2] = [from.x + NODE.width, from.y + NODE.height / 2, to.x, to.y + NODE.height / 2];
    // Parallel connections and connections back take separate ways.
    const pair = JSON.stringify([from, to]);
    const shift = 44 * (pairs.get(pair) ?? 0);
    pairs.set(pair, (pairs.get(pair) ?? 0) + 1);
    const back = x2 < x1 ? 60 : 0;
    const bend = Math.max((x2 - x1) / 2, 40);
    const low = Math.max(y1, y2) + back + shift;
    const path = back || shift
      ? `M${x1} ${y1} C${x1 + bend} ${low} ${x2 - bend} ${low} ${x2} ${y2}`
      : `M${x1} ${y1} C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
    // The label is on the curve, past the middle, where the curves from one port are apart.
    const [x, y] = back || shift
      ? [(x1 + x2) / 2, (y1 + y2) / 8 + low * 0.75]
      : [x1 + (x2 - x1) * (y1 === y2 ? 0.5 : 0.59), y1 + (y2 - y1) * 0.68];
    const group = element("g", { class: "edge", tabindex: 0, role: "button" });
    const first = element("text", { x, y: y - 16 });
    const second = element("text", { x, y: y + 17, class: "sub" });
    const bar = element("g", { transform: `translate(${x - 32} ${y - 11})` });
    const fill = element("rect", { class: "fill", width: 0, height: 5, rx: 2.5 });
    bar.append(element("rect", { class: "bar", width: 64, height: 5, rx: 2.5 }), fill);
    const title = element("title", {});
    const end = element("path", { class: "line", d: `M${x2 - 7} ${y2 - 5} L${x2} ${y2} L${x2 - 7} ${y2 + 5}` });
    group.append(title, element("path", { class: "wide", d: path }), element("path", { class: "line", d: path }), end, first, second, bar);
    act(group, () => this.onConnection(key));
    this.edges.set(key, { group, first, second, bar, fill, title });
    return group;
  }
}

// Acts on a click and on the keys of a button.
function act(group, action) {
  group.addEventListener("click", action);
  group.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      action();
    }
  });
}
