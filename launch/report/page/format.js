// Numbers as people read them, and small helpers for the document. Text goes in as text, never as markup.
const MiB = 2 ** 20, GiB = 2 ** 30;
const unitFor = (most) => (most >= GiB ? {name: "GiB", bytes: GiB} : {name: "MiB", bytes: MiB});
// With two decimals; halves go to the even digit, as on the terminal.
function inUnit(bytes, unit) {
  const hundredths = (100 * bytes) / unit.bytes, down = Math.floor(hundredths);
  const rounded = hundredths - down === 0.5 ? down + (down % 2) : Math.round(hundredths);
  return (rounded / 100).toFixed(2);
}
const bytesText = (bytes) => {
  const unit = unitFor(Math.abs(bytes));
  return `${inUnit(bytes, unit)} ${unit.name}`;
};
// Milliseconds, with digits that suit their size.
const msText = (ms) => {
  const size = Math.abs(ms);
  if (size >= 10000) return `${(ms / 1000).toFixed(2)} s`;
  return `${ms.toFixed(size >= 1000 ? 0 : size >= 100 ? 1 : size >= 1 ? 2 : 3)} ms`;
};
// Any other amount, with four digits that count.
function numberText(value) {
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 1e6 || size < 1e-3) return value.toExponential(2).replace("e+", "e");
  if (size >= 1000) return grouped(Math.round(value));
  return value.toFixed(size >= 100 ? 1 : size >= 10 ? 2 : size >= 1 ? 3 : 4);
}
// How often the first is the second; null where that says nothing.
const ratioOf = (measured, predicted) => (measured > 0 && predicted > 0 ? measured / predicted : null);
const isFarOff = (ratio) => ratio !== null && (ratio > 1.5 || ratio < 1 / 1.5);
const ratioText = (ratio) => `${ratio >= 10 ? ratio.toFixed(0) : ratio.toFixed(2)}×`;
const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const clockText = (date, seconds) => [date.getHours(), date.getMinutes(), ...(seconds ? [date.getSeconds()] : [])]
  .map((part) => String(part).padStart(2, "0")).join(":");
// Of seconds since 1970, where the reader is.
function dateText(seconds) {
  const date = new Date(1e3 * seconds);
  return `${date.getDate()} ${months[date.getMonth()]} ${date.getFullYear()}, ${clockText(date)}`;
}
const grouped = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, " ");
const labels = {device_to_host: "device → host", host_to_device: "host → device"};
const shortLabels = {communication: "comm.", device_to_host: "→ host", host_to_device: "→ device"};
const streamLabel = (name) => labels[name] ?? name;

const byId = (id) => document.getElementById(id);
// A child may be absent; the document would print it as a word, "null".
const thoseGiven = (children) => children.filter((child) => child !== undefined && child !== null);
// element("td", {class: "x", "data-bytes": 5}, "text" or children)
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    if (value !== undefined && value !== false) made.setAttribute(name, value);
  made.append(...thoseGiven(children));
  return made;
}
const replace = (parent, ...children) => parent.replaceChildren(...thoseGiven(children));

// White or black, whichever is read better on a colour "#rrggbb": a contrast of 4.5 at least.
function inkOn(color) {
  const part = (at) => parseInt(color.slice(at, at + 2), 16) / 255;
  const linear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const light = 0.2126 * linear(part(1)) + 0.7152 * linear(part(3)) + 0.0722 * linear(part(5));
  return 1.05 / (light + 0.05) > (light + 0.05) / 0.05 ? "#ffffff" : "#000000";
}

// The colours of style.css, as they are in this light.
let palette = {};
function readPalette() {
  const style = getComputedStyle(document.documentElement);
  palette = new Proxy({}, {
    get: (cache, name) => (cache[name] ??= style.getPropertyValue(`--${name}`).trim()),
  });
}
