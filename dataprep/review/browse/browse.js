"use strict";
const $ = id => document.getElementById(id);
const cards = [...document.querySelectorAll(".card")], boxes = cards.map(card => card.querySelector("input"));
const said = $("said"), ask = $("ask"), answer = $("answer");
let current = 0, then = null;

function tell(text, bad = false) { said.textContent = text; said.className = bad ? "error" : ""; }

function go(number) {
  if (!boxes.length) return;
  current = Math.max(0, Math.min(number, boxes.length - 1));
  boxes[current].focus();
  cards[current].scrollIntoView({ block: "nearest" });
}

function show(images) {
  for (const [split, key, texts] of images)
    for (const card of cards.filter(card => card.dataset.split === split && card.dataset.key === key))
      card.querySelector(".marks").replaceChildren(...texts.map(text => {
        const item = document.createElement("li");
        item.textContent = text;
        return item;
      }));
}

async function mark(decision, words = {}) {
  const chosen = boxes.filter(box => box.checked);
  const on = chosen.length ? chosen : boxes.slice(current, current + 1);
  if (!on.length && decision !== "undo") return tell("no picture is chosen", true);
  const rows = decision === "undo" ? [] : on.map(box => Number(box.value));
  try {
    const response = await fetch("/marks", { method: "POST", headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ rows, decision, ...words }) });
    const found = JSON.parse(await response.text());
    if (found.error) return tell(found.error, true);
    show(found.images);
    chosen.forEach(box => { box.checked = false; });
    tell(found.said);
  } catch { tell("not marked: dataprep browse does not answer any more; start it again", true); }
}

async function names() {
  if ($("classes").children.length) return;
  const found = await (await fetch("/classes")).json();
  $("classes").replaceChildren(...found.map(([identifier, name]) => {
    const option = document.createElement("option");
    option.value = identifier;
    if (name !== identifier) option.label = name;
    return option;
  }));
}

function asking(text, list, done) {
  $("asked").textContent = text;
  list ? answer.setAttribute("list", list) : answer.removeAttribute("list");
  answer.value = "";
  then = done;
  ask.returnValue = "";
  ask.showModal();
  answer.focus();
}
ask.addEventListener("close", () => {
  if (ask.returnValue === "yes") then(answer.value);
  go(current);
});
$("keys").addEventListener("close", () => go(current));

const acts = {
  x: () => mark("leave_out"),
  l: () => { names(); asking("label (class):", "classes", value => mark("label", { value })); },
  s: () => asking("split:", "splits", value => mark("split", { value })),
  n: () => asking("note:", "", note => mark("note", { note })),
  Enter: () => mark("sure"),
  c: () => mark("clear"),
  u: () => mark("undo"),
  o: () => cards[current]?.querySelector("a").click(),
  "?": () => $("keys").showModal(),
  "[": () => document.querySelector("a[rel=prev]")?.click(),
  "]": () => document.querySelector("a[rel=next]")?.click(),
};

function step(key) {
  if (key === "ArrowLeft") return current - 1;
  if (key === "ArrowRight") return current + 1;
  const here = cards[current].getBoundingClientRect(), down = key === "ArrowDown" ? 1 : -1;
  const rest = cards.map((card, number) => [card.getBoundingClientRect(), number])
    .filter(([it]) => down * (it.top - here.top) > 4);
  const row = Math.min(...rest.map(([it]) => down * it.top));
  const near = rest.filter(([it]) => Math.abs(down * it.top - row) < 4);
  return near.length ? near.reduce((a, b) => Math.abs(a[0].left - here.left) <= Math.abs(b[0].left - here.left) ? a : b)[1] : current;
}

document.addEventListener("keydown", event => {
  const at = event.target, box = boxes.includes(at);
  if (event.ctrlKey || event.altKey || event.metaKey || ask.open || $("keys").open) return;
  if (!box && at.closest("input, select, textarea")) return;
  if (event.key === "Enter" && !box && at !== document.body) return;
  if (event.key.startsWith("Arrow") && cards.length) {
    event.preventDefault();
    go(box ? step(event.key) : current);
  } else if (Object.hasOwn(acts, event.key)) {
    event.preventDefault();
    acts[event.key]();
  }
});
boxes.forEach((box, number) => box.addEventListener("focus", () => { current = number; }));
for (const button of document.querySelectorAll("#tools button"))
  button.addEventListener("click", () => acts[button.dataset.key]());
for (const field of document.querySelectorAll("[name=label]")) field.addEventListener("focus", names);
$("tools").hidden = false;
