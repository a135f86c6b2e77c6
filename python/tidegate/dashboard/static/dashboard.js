// Pages are made by the server and work without this script. It adds three things: parts of a page that stay current,
// forms that answer in place, and shortcuts. It never builds HTML from data: what comes was escaped by the templates.
"use strict";

const PARTS = { "Tidegate-Part": "1" };
const EVERY_MS = 1000;
const LOST_MS = 5000;

// Parts that stay current.

function partsOf(html) {
  return new DOMParser().parseFromString(html, "text/html");
}

function replace(old, fresh) {
  if (old.outerHTML === fresh.outerHTML) return;
  const active = old.contains(document.activeElement) ? document.activeElement : null;
  const same = active && [...old.querySelectorAll("a, button, input")].indexOf(active);
  old.replaceWith(document.adoptNode(fresh));
  // Who walks through a list by keyboard stays where they are.
  if (active) fresh.querySelectorAll("a, button, input")[same]?.focus();
}

function isPointedAt(part) {
  return matchMedia("(hover: hover)").matches && part.querySelector(".hit:hover") !== null;
}

async function refresh() {
  const answer = await fetch(location.href, { headers: PARTS, credentials: "same-origin", cache: "no-store" });
  if (answer.redirected || answer.status === 401) return location.reload();
  if (!answer.ok) throw new Error(`${answer.status}`);
  const page = partsOf(await answer.text());
  for (const part of document.querySelectorAll("[data-live]")) {
    const fresh = page.getElementById(part.id);
    if (fresh && !isPointedAt(part)) replace(part, fresh);
  }
}

function pulse(state, text) {
  for (const mark of document.querySelectorAll(".pulse")) {
    mark.dataset.state = state;
    if (mark.textContent !== text) mark.textContent = text;
  }
}

async function keepCurrent() {
  let wait = EVERY_MS;
  if (!document.hidden) {
    try {
      await refresh();
      pulse("live", "Live");
    } catch {
      wait = LOST_MS;
      pulse("lost", "Connection lost, trying again");
    }
  }
  setTimeout(keepCurrent, wait);
}

// Forms that answer in place: the button or form says which part of the answer it wants.

const asked = {};

async function answerInPlace(form, submitter, target) {
  const number = (asked[target] = (asked[target] ?? 0) + 1);
  const body = new URLSearchParams(new FormData(form, submitter));
  const part = document.getElementById(target);
  part.setAttribute("aria-busy", "true");
  let fresh = null;
  try {
    const answer = await fetch(submitter.getAttribute("formaction"), { method: "POST", body, headers: PARTS, credentials: "same-origin" });
    fresh = partsOf(await answer.text()).getElementById(target);
  } catch {
    // As for an answer without the part: below.
  }
  // Who types fast has asked again meanwhile, and only the last answer is about what stands there.
  if (number !== asked[target]) return;
  part.removeAttribute("aria-busy");
  if (fresh) part.replaceWith(document.adoptNode(fresh));
  else part.replaceChildren("The server did not answer. Copy what you wrote, and load the page again.");
  markLines();
}

document.addEventListener("submit", (event) => {
  const question = event.submitter?.dataset.confirm;
  if (question && !confirm(question)) return event.preventDefault();
  const target = event.submitter?.dataset.into;
  if (!target) return;
  event.preventDefault();
  answerInPlace(event.target, event.submitter, target);
});

// The editor: errors while typing, and the numbers of lines beside the text.

const editor = document.querySelector("textarea[data-check]");
let typing = 0;

function markLines() {
  const gutter = document.querySelector(".gutter");
  if (!editor || !gutter) return;
  const marks = new Map();
  for (const one of document.querySelectorAll("[data-line]")) {
    if (marks.get(one.dataset.line) !== "error") marks.set(one.dataset.line, one.dataset.severity);
  }
  const lines = editor.value.split("\n").map((_, index) => {
    const line = document.createElement("span");
    line.textContent = index + 1;
    line.className = marks.get(`${index + 1}`) ?? "";
    return line;
  });
  gutter.replaceChildren(...lines);
  gutter.scrollTop = editor.scrollTop;
}

function goTo(line, column) {
  const before = editor.value.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
  editor.focus();
  editor.setSelectionRange(before + column - 1, before + column - 1);
}

if (editor) {
  editor.addEventListener("input", () => {
    markLines();
    clearTimeout(typing);
    typing = setTimeout(() => answerInPlace(editor.form, document.getElementById("check"), "problems"), 250);
  });
  editor.addEventListener("scroll", () => { document.querySelector(".gutter").scrollTop = editor.scrollTop; });
  editor.addEventListener("keydown", (event) => {
    // Two spaces for Tab, as YAML wants them; Escape first gives Tab back to whoever moves on by keyboard.
    if (event.key === "Escape") editor.dataset.leave = "1";
    else if (event.key === "Tab" && !event.shiftKey && !editor.dataset.leave) {
      event.preventDefault();
      document.execCommand("insertText", false, "  ");
    }
  });
  editor.addEventListener("blur", () => { delete editor.dataset.leave; });
  document.addEventListener("click", (event) => {
    const problem = event.target.closest("[data-line]");
    if (problem) goTo(Number(problem.dataset.line), Number(problem.dataset.column));
  });
  markLines();
}

// Shortcuts. The list that `?` shows is in the page, and says which keys there are.

const shortcuts = document.getElementById("shortcuts");
const isTyping = (element) => element.closest("input, textarea, select, [contenteditable]") !== null;
let isGoing = false;

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) {
    const save = document.querySelector("[data-save]");
    if (event.key === "Enter" && save) save.click();
    return;
  }
  if (event.key === "Escape" && event.target !== editor && isTyping(event.target)) return event.target.blur();
  if (isTyping(event.target) || shortcuts?.open) return;
  const link = isGoing && document.querySelector(`a[data-go="${CSS.escape(event.key)}"]`);
  isGoing = event.key === "g";
  if (link) return link.click();
  if (event.key === "?") shortcuts?.showModal();
  if (event.key === "/") {
    const search = document.querySelector("[data-search]");
    event.preventDefault();
    if (search) search.focus();
    else document.querySelector('a[data-go="k"]')?.click();
  }
  if (event.key === "n") document.querySelector("[data-new]")?.click();
});

for (const button of document.querySelectorAll("[data-shortcuts]")) {
  button.hidden = false;
  button.addEventListener("click", () => shortcuts.showModal());
}

if (document.querySelector("[data-live]")) setTimeout(keepCurrent, EVERY_MS);
// On a phone the navigation is one line that scrolls: the page that is open should be seen in it.
// Not by `scrollIntoView`: browsers start there when Tab is pressed, and the way past the navigation would not be the first stop.
const navigation = document.querySelector(".nav");
const current = navigation?.querySelector("[aria-current]");
if (current) navigation.scrollLeft = current.offsetLeft - (navigation.clientWidth - current.offsetWidth) / 2;
