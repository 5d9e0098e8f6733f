"use strict";
// Four columns of lines. What is picked (clicked, or reached with the arrow keys) or pointed at is marked in all of
// them: a node of a graph, or a line of the loop nest, to which IR and assembly are traced. Text goes into the page as
// text only.

const data = JSON.parse(document.getElementById("data").textContent);
const steps = data.graphs.flatMap((graph, g) => graph.steps.map((step, s) => ({ ...step, g, s })));
if (data.graphs.length === 0) steps.push({ kernel: 0, schedule: "", nodes: [], origins: [], g: -1, s: 0 });

const linesOf = (text) => text.replace(/\n$/, "").split("\n");

class Column {
  // `pick(row, pinned)` is called with the number of the line that is pointed at or picked; -1 for none.
  constructor(id, pick) {
    this.box = document.getElementById(id);
    this.rows = [];
    this.pinned = -1;
    this.box.addEventListener("click", (event) => this.choose(this.rowOf(event), pick));
    this.box.addEventListener("mouseover", (event) => pick(this.rowOf(event), false));
    this.box.addEventListener("mouseleave", () => pick(-1, false));
    this.box.addEventListener("keydown", (event) => this.key(event, pick));
  }

  rowOf(event) {
    const row = event.target.dataset.row;
    return row === undefined ? -1 : Number(row);
  }

  choose(row, pick) {
    if (row < 0) return;
    this.pin(row);
    pick(row, true);
  }

  key(event, pick) {
    const page = Math.max(1, Math.floor(this.box.clientHeight / 18) - 1);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (!(event.key in moves) || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    const to = Math.min(this.rows.length - 1, Math.max(0, this.pinned + moves[event.key]));
    this.choose(to, pick);
    this.rows[to]?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  pin(row) {
    const old = this.rows[this.pinned];
    old?.classList.remove("pin");
    old?.setAttribute("aria-selected", "false");
    this.pinned = row;
    const now = this.rows[row];
    now?.classList.add("pin");
    now?.setAttribute("aria-selected", "true");
    if (now === undefined) this.box.removeAttribute("aria-activedescendant");
    else this.box.setAttribute("aria-activedescendant", now.id);
  }

  show(lines) {
    this.pinned = -1;
    this.box.removeAttribute("aria-activedescendant");
    this.rows = lines.map((text, row) => {
      const div = document.createElement("div");
      div.textContent = text;
      div.id = `${this.box.id}-${row}`;
      div.dataset.row = row;
      div.setAttribute("role", "option");
      return div;
    });
    this.box.replaceChildren(...this.rows);
    this.box.scrollTop = 0;
  }

  // Gives the class to these lines and to no others. `reveal`: the first of them comes into view.
  mark(name, rows, reveal) {
    for (const div of this.box.querySelectorAll(`.${name}`)) div.classList.remove(name);
    for (const row of rows) this.rows[row]?.classList.add(name);
    const first = reveal ? this.rows[rows.values().next().value] : undefined;
    if (first === undefined) return;
    const top = first.offsetTop - this.box.offsetTop;
    const seen = top >= this.box.scrollTop && top < this.box.scrollTop + this.box.clientHeight - first.clientHeight;
    if (!seen) this.box.scrollTop = top - this.box.clientHeight / 3;
  }
}

// --- graphs: all in one column, under their names ---

const places = []; // of each line of the column: {g, node}, node -1 if it writes none
const rowOfNode = data.graphs.map(() => []);
const graphLines = [];
const nameRows = [];
data.graphs.forEach((graph, g) => {
  nameRows.push(graphLines.length);
  graphLines.push(graph.name);
  places.push({ g, node: -1 });
  linesOf(graph.text).forEach((line, i) => {
    const node = graph.nodes[i];
    if (node >= 0) rowOfNode[g][node] = graphLines.length;
    graphLines.push(line);
    places.push({ g, node });
  });
});

// By request node: the nodes of the functions that come from it.
const madeOf = new Map();
data.graphs.slice(1).forEach((graph, i) => {
  graph.origins.forEach((origin, node) => {
    if (origin < 0) return;
    if (!madeOf.has(origin)) madeOf.set(origin, []);
    madeOf.get(origin).push({ g: i + 1, node });
  });
});

// The node itself, or all that came from a request's.
const nodesOf = ({ g, node }) => (g === 0 ? (madeOf.get(node) ?? []) : [{ g, node }]);

const stepsOfNode = data.graphs.map(() => new Map());
steps.forEach((step, i) => {
  for (const node of step.nodes) {
    if (!stepsOfNode[step.g].has(node)) stepsOfNode[step.g].set(node, []);
    stepsOfNode[step.g].get(node).push(i);
  }
});
const stepsOf = (place) => nodesOf(place).flatMap(({ g, node }) => stepsOfNode[g].get(node) ?? []);

// --- the current step, and what is picked ---

let current = -1;
let picked = null; // {place} of a node, or {line} of the loop nest
const select = document.getElementById("step");
const status = document.getElementById("status");

// The rows of each column that belong to what is picked, the one to look at first.
function related(what) {
  const step = steps[current] ?? { kernel: -1, origins: [], g: -1 };
  const kernel = data.kernels[step.kernel];
  const graph = new Set();
  const lines = new Set();
  const addNode = (place) => {
    graph.add(rowOfNode[place.g][place.node]);
    const origin = place.g === 0 ? -1 : data.graphs[place.g].origins[place.node];
    if (origin >= 0) graph.add(rowOfNode[0][origin]);
  };
  if (what?.place) {
    addNode(what.place);
    const nodes = nodesOf(what.place);
    nodes.forEach(addNode);
    const here = new Set(nodes.filter(({ g }) => g === step.g).map(({ node }) => node));
    step.origins.forEach((node, line) => {
      if (here.has(node)) lines.add(line);
    });
  } else if (what) {
    lines.add(what.line);
    const node = step.origins[what.line] ?? -1;
    if (node >= 0) addNode({ g: step.g, node });
  }
  const from = (origins) => new Set((origins ?? []).flatMap((line, row) => (lines.has(line) ? [row] : [])));
  return { graph, loop: lines, llvm: from(kernel?.llvmOrigins), asm: from(kernel?.asmOrigins) };
}

// `source`: the column where it was picked, which stays where it is.
function mark(what, pinned, source) {
  const rows = related(what);
  for (const name of ["graph", "loop", "llvm", "asm"]) {
    columns[name].mark("mark", rows[name], pinned && name !== source);
  }
  return rows;
}

function say(what, rows) {
  if (!what) return;
  const count = (set, one) => `${set.size} ${one}${set.size === 1 ? "" : "s"}`;
  const marked = `${count(rows.loop, "loop line")}, ${count(rows.llvm, "IR line")}, ${count(rows.asm, "instruction")}`;
  if (!what.place) status.textContent = `loop line ${what.line + 1}: ${marked}`;
  else if (stepsOf(what.place).length === 0) status.textContent = "in no step: dead, or a view of what a step makes";
  else status.textContent = `node ${what.place.node} of ${data.graphs[what.place.g].name}: ${marked}`;
}

function pick(what, pinned, source) {
  if (!pinned) return mark(what ?? picked, false, source);
  picked = what;
  if (what?.place) {
    const its = stepsOf(what.place);
    if (its.length > 0 && !its.includes(current)) showStep(its[0]);
    for (const name of ["loop", "llvm", "asm"]) columns[name].pin(-1);
  }
  say(what, mark(what, true, source));
}

function showStep(index) {
  current = index;
  select.value = index;
  const step = steps[index] ?? { kernel: -1, nodes: [], g: -1 };
  const kernel = data.kernels[step.kernel] ?? { loop: "", llvm: "", asm: "" };
  columns.loop.show(linesOf(kernel.loop));
  columns.llvm.show(linesOf(kernel.llvm));
  columns.asm.show(linesOf(kernel.asm));
  columns.graph.mark("member", new Set(step.nodes.map((node) => rowOfNode[step.g][node])), !picked);
}

const pickLine = (source, lineOf) => (row, pinned) => {
  const line = row < 0 ? -1 : lineOf(row);
  pick(line === undefined || line < 0 ? null : { line }, pinned, source);
};
const kernelOf = () => data.kernels[steps[current]?.kernel];
const columns = {
  graph: new Column("graph", (row, pinned) => {
    const place = places[row];
    pick(place && place.node >= 0 ? { place } : null, pinned, "graph");
  }),
  loop: new Column("loop", pickLine("loop", (row) => row)),
  llvm: new Column("llvm", pickLine("llvm", (row) => kernelOf()?.llvmOrigins[row])),
  asm: new Column("asm", pickLine("asm", (row) => kernelOf()?.asmOrigins[row])),
};

columns.graph.show(graphLines);
for (const row of nameRows) columns.graph.rows[row].classList.add("name");
steps.forEach((step, i) => {
  const option = document.createElement("option");
  option.value = i;
  const where = step.g < 0 ? "" : `${data.graphs[step.g].name} ${step.s}: `;
  option.textContent = where + (step.kernel < 0 ? "external call" : `kernel ${step.kernel} ${step.schedule}`);
  select.append(option);
});
select.addEventListener("change", () => {
  picked = null;
  status.textContent = "";
  showStep(Number(select.value));
  mark(null, false, null);
});
showStep(Math.max(0, steps.findIndex((step) => step.kernel >= 0)));
