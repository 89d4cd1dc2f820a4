// What only a script can do: figures that update by themselves, a slider, a key for the search, a value under
// the pointer. Without it every page says the same.
"use strict";

const EVERY = 2000;

function swap(target, html) {
  // Put new content in place of old; what is open stays open, and what has the focus keeps it. If that is gone, as the
  // oldest of the latest changes, what is in its place now has it, so that Tab goes on from there.
  const reachable = () => [...target.querySelectorAll("a, button, summary, input, [tabindex]")];
  const open = new Set([...target.querySelectorAll("details[open][id]")].map((one) => one.id));
  const active = document.activeElement;
  const inside = target.contains(active);
  const focused = inside ? active.id || active.getAttribute("href") : null;
  const place = inside ? reachable().indexOf(active) : -1;
  const scrolled = new Map([...target.querySelectorAll(".scroll")].map((one, n) => [n, one.scrollLeft]));
  const parsed = new DOMParser().parseFromString(html, "text/html");
  target.replaceChildren(...parsed.body.childNodes);
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  [...target.querySelectorAll(".scroll")].forEach((one, n) => { one.scrollLeft = scrolled.get(n) ?? 0; });
  if (inside) {
    const now = reachable();
    const again = now.find((one) => focused && (one.id || one.getAttribute("href")) === focused);
    (again ?? now[Math.min(place, now.length - 1)])?.focus({ preventScroll: true });
  }
}

async function fetched(address, signal) {
  const answer = await fetch(address, { headers: { Accept: "text/html" }, signal });
  if (!answer.ok || answer.redirected) throw new Error(String(answer.status));
  return answer.text();
}

function live(target) {
  const button = document.getElementById("pause");
  let paused = false;
  let busy = false;
  async function update() {
    const reading = target.matches(":hover") && target.querySelector("svg.chart:hover");
    const onSummary = document.activeElement?.tagName === "SUMMARY" && target.contains(document.activeElement);
    if (paused || busy || document.hidden || reading || onSummary || !getSelection().isCollapsed) return;
    busy = true;
    try {
      const html = await fetched(target.dataset.live);
      if (!paused) swap(target, html);
      target.removeAttribute("data-stale");
    } catch {
      target.dataset.stale = "";  // the next one may come through
    } finally {
      busy = false;
    }
  }
  setInterval(update, EVERY);
  document.addEventListener("visibilitychange", update);
  if (button) {
    button.hidden = false;
    button.addEventListener("click", () => {
      paused = !paused;
      button.textContent = paused ? "Go on" : "Pause";
      button.setAttribute("aria-pressed", String(paused));
      update();
    });
  }
}

function written(perSecond, slider) {
  // As filters.py writes it, in the unit in which the page shows the present budget.
  const { kind, unit, seconds } = slider.dataset;
  const amount = Number(seconds) * perSecond;
  const short = (value) => String(Number(value.toPrecision(3)));
  if (kind !== "bytes") return `${short(amount)}/${unit}`;
  const [prefix, size] = [["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3]].find((one) => amount >= one[1]) ?? ["", 1];
  return `${short(amount / size)}${prefix}B/${unit}`;
}

function slide(slider) {
  const verdict = document.getElementById("verdict");
  const field = document.getElementById("budget");
  const wanted = document.getElementById("freshness");
  const objective = document.getElementById("objective");
  const low = Math.log(Number(slider.dataset.low));
  const high = Math.log(Number(slider.dataset.high));
  const steps = Number(slider.max);
  const place = (amount) => Math.round(((Math.log(amount) - low) / (high - low)) * steps);
  slider.value = String(Math.min(Math.max(place(Number(slider.dataset.now)), 0), steps));
  slider.closest("[hidden]").hidden = false;
  let wait = 0;
  let asked = null;
  function tell() {
    const amount = Math.exp(low + (high - low) * (Number(slider.value) / steps));
    field.value = written(amount, slider);
    wanted.value = "";
    slider.setAttribute("aria-valuetext", field.value);
    clearTimeout(wait);
    wait = setTimeout(show, 60);
  }
  async function show() {
    asked?.abort();
    asked = new AbortController();
    const query = new URLSearchParams({ budget: field.value, objective: objective.value });
    try {
      swap(verdict, await fetched(`/fragments/what-if?${query}`, asked.signal));
      verdict.removeAttribute("data-stale");
      document.getElementById("said").textContent =
        [...verdict.querySelectorAll("#verdict-title, .big")].map((one) => one.textContent).join(": ");
      history.replaceState(null, "", `/what-if?${query}`);
    } catch (error) {
      if (error.name !== "AbortError") verdict.dataset.stale = "";
    }
  }
  slider.addEventListener("input", tell);
  objective.addEventListener("change", () => objective.form.requestSubmit());
}

function drawn(name, parent) {
  const old = parent.querySelector(`${name}.cross`);
  if (old) return old;
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  made.setAttribute("class", "cross");
  made.setAttribute("aria-hidden", "true");
  return parent.appendChild(made);
}

function point(event) {
  // A line at the figures that are nearest to the pointer, and the first of them.
  const svg = event.target.closest?.("svg.chart");
  for (const old of document.querySelectorAll("svg.chart .cross")) if (!svg?.contains(old)) old.remove();
  const rows = svg ? [...svg.closest("figure").querySelectorAll("tr[data-x]")] : [];
  if (!rows.length) return;
  const box = svg.getBoundingClientRect();
  const room = parseFloat(getComputedStyle(svg).paddingLeft) || 0;
  const share = (event.clientX - box.left - room) / (box.width - room);
  const far = (row) => Math.abs(Number(row.dataset.x) - share);
  const row = rows.reduce((best, one) => (far(one) < far(best) ? one : best));
  const at = Number(row.dataset.x);
  const line = drawn("line", svg);
  for (const end of ["x1", "x2"]) line.setAttribute(end, `${(100 * at).toFixed(2)}%`);
  line.setAttribute("y1", "14");
  line.setAttribute("y2", String(box.height - 24));
  const text = drawn("text", svg);
  text.setAttribute("x", `${(100 * at).toFixed(2)}%`);
  text.setAttribute("y", String(box.height - 32));
  text.setAttribute("dx", at > 0.5 ? "-8" : "8");
  text.setAttribute("text-anchor", at > 0.5 ? "end" : "start");
  text.textContent = `${row.cells[0].textContent} · ${row.cells[1].textContent}`;
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    const field = document.getElementById("search") ?? document.querySelector("[data-slash]");
    if (field) {
      event.preventDefault();
      field.focus();
      field.select();
    }
  } else if (event.key === "Escape" && typing) {
    event.target.blur();
  }
});

for (const target of document.querySelectorAll("[data-live]")) live(target);
const slider = document.getElementById("slider");
if (slider) slide(slider);
document.addEventListener("pointermove", point, { passive: true });
