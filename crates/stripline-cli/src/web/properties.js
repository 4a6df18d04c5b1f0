// Properties as form fields, each with a button and an outcome.

import { request } from "./access.js";

const ACCESS = { fixed: "set at start", "read-only": "read-only", changeable: "" };

// Returns the input for a value. The kind of input depends on the type of the value.
function input(reading, id) {
  const choices = reading.allowed.includes(" | ") ? reading.allowed.split(" | ") : null;
  const made = document.createElement(choices ? "select" : "input");
  made.id = id;
  if (choices) {
    made.append(...choices.map((it) => new Option(it, it)));
  } else if (typeof reading.value === "boolean") {
    made.type = "checkbox";
  } else if (typeof reading.value === "number") {
    // Not `number`: that type would refuse 6e3 in some languages, and hide values that the launcher
    // refuses.
    made.type = "text";
    made.inputMode = "decimal";
  } else {
    made.type = "text";
  }
  made.autocomplete = "off";
  return made;
}

const valueOf = (field) => (field.type === "checkbox" ? String(field.checked) : field.value);

function assign(field, value) {
  if (field.type === "checkbox") field.checked = value === true;
  else field.value = value === null ? "" : String(value);
}

export class PropertyForms {
  constructor(holder) {
    Object.assign(this, { holder, shape: "", rows: new Map() });
  }

  // Shows the properties of a component. A field that is being edited keeps the typed text.
  show(which, component, readings) {
    const its = readings.filter((it) => it.component === component);
    const shape = JSON.stringify([which, component, its.map((it) => [it.property, it.access, it.allowed])]);
    if (shape !== this.shape) {
      this.shape = shape;
      this.build(which, component, its);
    }
    for (const it of its) this.update(it);
  }

  update(reading) {
    const row = this.rows.get(reading.property);
    const value = reading.value;
    if (row.plain) {
      row.plain.textContent = value === null ? "?" : `${value} ${reading.unit}`;
    } else if (!row.edited && !row.busy) {
      assign(row.field, value);
      row.value = valueOf(row.field);
    }
    const notes = [reading.waiting !== null ? `${reading.waiting} not applied yet` : "", reading.problem ?? ""];
    row.about.textContent = [reading.allowed, reading.summary, ACCESS[reading.access], ...notes].filter(Boolean).join(" · ");
  }

  build(which, component, readings) {
    this.rows = new Map();
    const form = document.createElement("div");
    form.className = "form";
    const sorted = [...readings].sort((a, b) => (b.access === "changeable") - (a.access === "changeable"));
    form.append(...sorted.map((it) => this.row(which, component, it)));
    if (!readings.length) form.append("This component has no properties.");
    this.holder.replaceChildren(form);
  }

  row(which, component, reading) {
    const form = document.createElement("form");
    form.noValidate = true;
    const id = `property-${reading.property}`;
    const label = Object.assign(document.createElement("label"), { textContent: reading.property, htmlFor: id });
    const about = Object.assign(document.createElement("div"), { className: "about", id: `${id}-about` });
    if (reading.access !== "changeable") {
      const plain = Object.assign(document.createElement("div"), { className: "plain", id });
      form.append(label, plain, document.createElement("span"), about);
      this.rows.set(reading.property, { plain, about });
      return form;
    }
    const field = input(reading, id);
    field.setAttribute("aria-describedby", about.id);
    const holder = Object.assign(document.createElement("div"), { className: "field" });
    const unit = Object.assign(document.createElement("span"), { className: "unit", textContent: reading.unit });
    holder.append(field, unit);
    const button = Object.assign(document.createElement("button"), { textContent: "Set", disabled: true });
    const outcome = document.createElement("output");
    form.append(label, holder, button, about, outcome);
    const row = { field, about, edited: false, busy: false, value: "" };
    this.rows.set(reading.property, row);
    field.addEventListener("input", () => {
      row.edited = valueOf(field) !== row.value;
      button.disabled = !row.edited;
    });
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (row.busy) return;
      row.busy = button.disabled = true;
      outcome.className = "";
      outcome.textContent = "setting…";
      const [isDone, text] = await set(which, component, reading.property, valueOf(field));
      row.busy = false;
      row.edited = !isDone;
      button.disabled = isDone;
      outcome.className = isDone ? "good" : "bad";
      outcome.textContent = text;
      field.setAttribute("aria-invalid", String(!isDone));
    });
    return form;
  }
}

// Sets one property. Returns whether the new value is in effect, and a sentence.
export async function set(which, component, property, value) {
  try {
    const response = await request("api/set", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ waveform: which.name, pid: which.pid, component, property, value }),
    });
    const result = await response.json();
    if (!response.ok) return [false, result.error];
    const change = result.changes[0];
    const now = change.values[property];
    if (change.taken === "applied") return [true, `${now.value} ${now.unit} (was ${now.before})`];
    const words = { "not-yet": "not applied yet", refused: "refused", ended: "not applied" };
    return [change.taken === "not-yet", `${words[change.taken]}: ${change.reason}`];
  } catch (error) {
    return [false, `no answer: ${error.message}`];
  }
}
