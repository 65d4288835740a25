import type { DrawnEdge, DrawnNode } from './graph.ts';

/** The size of every box, in the units of the drawing. */
export const boxWidth = 200;
export const boxHeight = 52;
const layerGap = 110;
const rowGap = 18;
const partGap = 56;
/** Between columns of one layer. */
const columnGap = 28;
/** A layer of up to this many boxes is one column, whatever its shape. */
const rowsKept = 12;
/** Width to height that the whole comes near to. */
const aspect = 1.5;
const sweeps = 6;

export interface Place {
  x: number;
  y: number;
}

export interface Layout {
  places: ReadonlyMap<string, Place>;
  width: number;
  height: number;
}

/**
 * Positions of boxes, so that events flow from left to right. Boxes that are connected are laid out together, in layers
 * by the longest way to them, each layer in the order that its neighbours suggest, and in several columns where it is very long; these parts are then put into rows, the
 * largest first, and what is connected to nothing below them. The same boxes and lines always come to the same places.
 */
export function layOut(nodes: readonly DrawnNode[], edges: readonly DrawnEdge[]): Layout {
  const parts = connectedParts(nodes, edges);
  const connected = parts.filter((part) => part.length > 1);
  const blocks = connected
    .sort((a, b) => b.length - a.length)
    .map((part) =>
      layOutPart(
        part,
        edges.filter(({ from, to }) => from !== to && part.includes(from)),
      ),
    );
  const alone = parts.flatMap((part) => (part.length === 1 ? part : []));
  const places = new Map<string, Place>();
  const area = blocks.reduce((sum, { width, height }) => sum + (width + partGap) * (height + partGap), 0);
  const aloneArea = alone.length * (boxWidth + partGap) * (boxHeight + rowGap);
  const widest = Math.max(boxWidth, ...blocks.map(({ width }) => width));
  const rowWidth = Math.max(widest, Math.sqrt((area + aloneArea) * aspect) + partGap);
  let [x, y, rowHeight, width] = [0, 0, 0, 0];
  for (const block of blocks) {
    if (x > 0 && x + block.width > rowWidth) {
      y += rowHeight + partGap;
      [x, rowHeight] = [0, 0];
    }
    for (const [id, place] of block.places) places.set(id, { x: x + place.x, y: y + place.y });
    x += block.width + partGap;
    rowHeight = Math.max(rowHeight, block.height);
    width = Math.max(width, x - partGap);
  }
  if (blocks.length > 0) y += rowHeight + (alone.length > 0 ? partGap : 0);
  const perRow = Math.max(1, Math.floor((rowWidth + partGap) / (boxWidth + partGap)));
  alone.forEach((id, index) => {
    const place = {
      x: (index % perRow) * (boxWidth + partGap),
      y: y + Math.floor(index / perRow) * (boxHeight + rowGap),
    };
    places.set(id, place);
    width = Math.max(width, place.x + boxWidth);
  });
  const height = Math.max(0, ...[...places.values()].map((place) => place.y + boxHeight));
  return { places, width, height };
}

/** Ids of boxes that lines connect, in whichever direction; sorted by kind where a box is alone. */
function connectedParts(nodes: readonly DrawnNode[], edges: readonly DrawnEdge[]): string[][] {
  const neighbours = new Map<string, string[]>(nodes.map(({ id }) => [id, []]));
  for (const { from, to } of edges) {
    neighbours.get(from)?.push(to);
    neighbours.get(to)?.push(from);
  }
  const order = ['all', 'source', 'workflow', 'webhook'];
  const sorted = [...nodes].sort((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind));
  const seen = new Set<string>();
  const parts: string[][] = [];
  for (const { id } of sorted) {
    if (seen.has(id)) continue;
    const part: string[] = [];
    const todo = [id];
    seen.add(id);
    for (let at = todo.pop(); at !== undefined; at = todo.pop()) {
      part.push(at);
      for (const next of neighbours.get(at) ?? []) {
        if (seen.has(next)) continue;
        seen.add(next);
        todo.push(next);
      }
    }
    parts.push(part);
  }
  return parts;
}

function layOutPart(
  ids: readonly string[],
  edges: readonly DrawnEdge[],
): { places: Map<string, Place>; width: number; height: number } {
  const layers = ordered(layered(ids, edges), edges);
  const rowsMax = rowsOf(layers);
  if (layers.some((layer) => layer.length > rowsMax)) return wrapped(layers, rowsMax);
  const rows = levelled(layers, edges);
  const top = Math.min(...rows.values());
  const places = new Map<string, Place>();
  layers.forEach((layer, index) => {
    for (const id of layer)
      places.set(id, { x: index * (boxWidth + layerGap), y: (rows.get(id) ?? 0) - top });
  });
  return {
    places,
    width: layers.length * (boxWidth + layerGap) - layerGap,
    height: Math.max(...rows.values()) - top + boxHeight,
  };
}

/** So many rows that layers of them, each in as many columns as it needs, are about as wide as a window. */
function rowsOf(layers: readonly string[][]): number {
  const longest = Math.max(...layers.map((layer) => layer.length));
  for (let rows = rowsKept; rows < longest; rows += 1) {
    const columns = layers.reduce((sum, layer) => sum + Math.ceil(layer.length / rows), 0);
    const width = columns * (boxWidth + columnGap) + (layers.length - 1) * (layerGap - columnGap);
    if (width <= aspect * rows * (boxHeight + rowGap)) return rows;
  }
  return Math.max(rowsKept, longest);
}

/** Long layers in several columns, row by row, so that boxes stay at the height that their order gives them. */
function wrapped(
  layers: readonly string[][],
  rowsMax: number,
): { places: Map<string, Place>; width: number; height: number } {
  const places = new Map<string, Place>();
  const step = boxHeight + rowGap;
  let x = 0;
  for (const layer of layers) {
    const columns = Math.ceil(layer.length / rowsMax);
    const rows = Math.ceil(layer.length / columns);
    const top = ((rowsMax - rows) * step) / 2;
    layer.forEach((id, index) => {
      const column = index % columns;
      places.set(id, { x: x + column * (boxWidth + columnGap), y: top + Math.floor(index / columns) * step });
    });
    x += columns * (boxWidth + columnGap) - columnGap + layerGap;
  }
  return { places, width: x - layerGap, height: rowsMax * step - rowGap };
}

/** Ids by layer: each right of all its predecessors. A line that closes a circle goes back to the left. */
function layered(ids: readonly string[], edges: readonly DrawnEdge[]): string[][] {
  const outgoing = Map.groupBy(edges, ({ from }) => from);
  const incoming = new Set(edges.map(({ to }) => to));
  // Depth first, from boxes without predecessors: a line to a box on the current path closes a circle.
  const state = new Map<string, 'under way' | 'done'>();
  const finished: string[] = [];
  const back = new Set<DrawnEdge>();
  const starts = [...ids].sort((a, b) => Number(incoming.has(a)) - Number(incoming.has(b)));
  for (const start of starts) {
    if (state.has(start)) continue;
    state.set(start, 'under way');
    const way: { id: string; next: number }[] = [{ id: start, next: 0 }];
    for (let at = way.at(-1); at !== undefined; at = way.at(-1)) {
      const edge = outgoing.get(at.id)?.[at.next];
      at.next += 1;
      if (edge === undefined) {
        state.set(at.id, 'done');
        finished.push(at.id);
        way.pop();
      } else if (state.get(edge.to) === 'under way') back.add(edge);
      else if (!state.has(edge.to)) {
        state.set(edge.to, 'under way');
        way.push({ id: edge.to, next: 0 });
      }
    }
  }
  const depth = new Map<string, number>();
  for (const id of finished.reverse()) {
    const own = depth.get(id) ?? 0;
    depth.set(id, own);
    for (const edge of outgoing.get(id) ?? [])
      if (!back.has(edge)) depth.set(edge.to, Math.max(depth.get(edge.to) ?? 0, own + 1));
  }
  // A box without predecessors is placed close to its successors.
  for (const id of [...finished].reverse()) {
    if (incoming.has(id)) continue;
    const next = (outgoing.get(id) ?? []).map(({ to }) => depth.get(to) ?? 1);
    if (next.length > 0) depth.set(id, Math.max(0, Math.min(...next) - 1));
  }
  const layers: string[][] = [];
  for (const id of ids) {
    const at = depth.get(id) ?? 0;
    while (layers.length <= at) layers.push([]);
    layers[at]?.push(id);
  }
  return layers.filter((layer) => layer.length > 0);
}

/** Each layer in an order with few crossings: by the middle of the neighbours, to the right and back, again and again. */
function ordered(layers: string[][], edges: readonly DrawnEdge[]): string[][] {
  const neighbours = neighboursOf(edges);
  const at = new Map<string, number>();
  const note = (layer: readonly string[]) => {
    layer.forEach((id, index) => {
      at.set(id, (index + 0.5) / layer.length);
    });
  };
  for (const layer of layers) note(layer);
  for (let sweep = 0; sweep < sweeps; sweep += 1) {
    const [side, order] =
      sweep % 2 === 0 ? (['before', layers] as const) : (['after', [...layers].reverse()] as const);
    for (const layer of order) {
      const wanted = new Map(layer.map((id) => [id, mean(neighbours[side].get(id), at) ?? at.get(id) ?? 0]));
      layer.sort((a, b) => (wanted.get(a) ?? 0) - (wanted.get(b) ?? 0));
      note(layer);
    }
  }
  return layers;
}

/** Heights: each box near the middle of its neighbours, none over another, the order of its layer kept. */
function levelled(layers: readonly string[][], edges: readonly DrawnEdge[]): Map<string, number> {
  const neighbours = neighboursOf(edges);
  const step = boxHeight + rowGap;
  const heights = new Map<string, number>();
  for (const layer of layers)
    layer.forEach((id, index) => {
      heights.set(id, (index - (layer.length - 1) / 2) * step);
    });
  for (let sweep = 0; sweep < sweeps; sweep += 1) {
    const [side, order] =
      sweep % 2 === 0 ? (['before', layers] as const) : (['after', [...layers].reverse()] as const);
    for (const layer of order) {
      const wanted = layer.map((id) => mean(neighbours[side].get(id), heights) ?? heights.get(id) ?? 0);
      const placed: number[] = [];
      for (const [index, want] of wanted.entries())
        placed.push(Math.max(want, (placed[index - 1] ?? Number.NEGATIVE_INFINITY) + step));
      // All were pushed down only: together they go back up by as much as they are too low on average.
      const tooLow = wanted.reduce((sum, want, index) => sum + (placed[index] ?? 0) - want, 0) / layer.length;
      layer.forEach((id, index) => {
        heights.set(id, (placed[index] ?? 0) - tooLow);
      });
    }
  }
  return heights;
}

function neighboursOf(edges: readonly DrawnEdge[]): Record<'before' | 'after', Map<string, string[]>> {
  const found = { before: new Map<string, string[]>(), after: new Map<string, string[]>() };
  const note = (map: Map<string, string[]>, id: string, other: string) => {
    const known = map.get(id);
    if (known === undefined) map.set(id, [other]);
    else known.push(other);
  };
  for (const { from, to } of edges) {
    note(found.before, to, from);
    note(found.after, from, to);
  }
  return found;
}

function mean(ids: readonly string[] | undefined, of: ReadonlyMap<string, number>): number | undefined {
  if (ids === undefined || ids.length === 0) return undefined;
  return ids.reduce((sum, id) => sum + (of.get(id) ?? 0), 0) / ids.length;
}
