import type { FlowEdge, FlowNode } from '#sdk';
import { isFailing } from './troubles.ts';

/** From this number of nodes on, objects that do the same are drawn as one. */
const groupFrom = 40;
/** The minimum of objects in a group. */
const groupMin = 4;

/** One box: an object, or several that are connected alike. */
export interface DrawnNode {
  /** The id of the object, or of the group (`group:…`). */
  id: string;
  kind: FlowNode['kind'];
  members: readonly string[];
}

/** All subscriptions between two boxes: one line. */
export interface DrawnEdge {
  id: string;
  from: string;
  to: string;
  /** sub_… */
  subscriptions: readonly string[];
  /** Only errors or logs go along there. */
  isAside: boolean;
}

export interface Grouping {
  grouped: boolean;
  /** Groups whose members are drawn. */
  opened: ReadonlySet<string>;
  /** Things that are in no group. */
  apart: ReadonlySet<string>;
}

export interface Drawn {
  nodes: readonly DrawnNode[];
  edges: readonly DrawnEdge[];
  /** The box of each object. */
  boxOf: ReadonlyMap<string, string>;
}

/**
 * The drawing of objects and subscriptions: objects that are connected to the same others become one box if there are
 * many. It depends on the objects, not on figures: a changed rate moves nothing.
 */
export function drawn(
  nodes: readonly Pick<FlowNode, 'id' | 'kind'>[],
  edges: readonly Pick<FlowEdge, 'id' | 'emitter_id' | 'listener_id' | 'event_name'>[],
  { grouped, opened, apart }: Grouping,
): Drawn {
  const isGrouped = grouped && nodes.length >= groupFrom;
  const sorted = [...nodes].sort((a, b) => (a.id < b.id ? -1 : 1));
  const alike = new Map<string, typeof sorted>();
  const connections = connectionsOf(edges);
  for (const node of sorted) {
    const key =
      isGrouped && !apart.has(node.id)
        ? `group:${node.kind} ${connections.get(node.id)?.sort().join(' ') ?? ''}`
        : node.id;
    const group = alike.get(key);
    if (group === undefined) alike.set(key, [node]);
    else group.push(node);
  }
  const boxes: DrawnNode[] = [];
  const boxOf = new Map<string, string>();
  for (const [key, members] of alike) {
    const isOne = members.length >= groupMin && !opened.has(key);
    for (const { id } of members) boxOf.set(id, isOne ? key : id);
    const kind = members[0]?.kind ?? 'source';
    if (isOne) boxes.push({ id: key, kind, members: members.map(({ id }) => id) });
    else boxes.push(...members.map(({ id }) => ({ id, kind, members: [id] })));
  }
  return { nodes: boxes, edges: linesOf(edges, boxOf), boxOf };
}

/** What each object is connected to, and how, as text. */
function connectionsOf(
  edges: readonly Pick<FlowEdge, 'emitter_id' | 'listener_id' | 'event_name'>[],
): Map<string, string[]> {
  const connections = new Map<string, string[]>();
  const note = (id: string, text: string) => {
    const known = connections.get(id);
    if (known === undefined) connections.set(id, [text]);
    else known.push(text);
  };
  for (const { emitter_id, listener_id, event_name } of edges) {
    note(emitter_id, `>${listener_id} ${JSON.stringify(event_name)}`);
    note(listener_id, `<${emitter_id} ${JSON.stringify(event_name)}`);
  }
  return connections;
}

function linesOf(
  edges: readonly Pick<FlowEdge, 'id' | 'emitter_id' | 'listener_id' | 'event_name'>[],
  boxOf: ReadonlyMap<string, string>,
): DrawnEdge[] {
  const lines = new Map<string, { from: string; to: string; subscriptions: string[]; isAside: boolean }>();
  for (const { id, emitter_id, listener_id, event_name } of edges) {
    const from = boxOf.get(emitter_id);
    const to = boxOf.get(listener_id);
    if (from === undefined || to === undefined) continue;
    const key = `${from} → ${to}`;
    const isAside = event_name === '$errors' || event_name === '$logs';
    const line = lines.get(key);
    if (line === undefined) lines.set(key, { from, to, subscriptions: [id], isAside });
    else {
      line.subscriptions.push(id);
      line.isAside &&= isAside;
    }
  }
  return [...lines].map(([id, line]) => ({ id, ...line })).sort((a, b) => (a.id < b.id ? -1 : 1));
}

export interface Filter {
  kind: FlowNode['kind'] | '';
  /** proj_…; empty: any. */
  project: string;
  failing: boolean;
}

/** The objects that match a filter, with those they are connected to directly, and the subscriptions among them. */
export function filtered<N extends FlowNode, E extends FlowEdge>(
  nodes: readonly N[],
  edges: readonly E[],
  { kind, project, failing }: Filter,
): { nodes: readonly N[]; edges: readonly E[] } {
  if (kind === '' && project === '' && !failing) return { nodes, edges };
  const ends = new Set(
    edges.filter((edge) => edge.failing).flatMap(({ emitter_id, listener_id }) => [emitter_id, listener_id]),
  );
  const meant = new Set(
    nodes
      .filter(
        (node) =>
          (kind === '' || node.kind === kind) &&
          (project === '' || node.project_id === project) &&
          (!failing || isFailing(node) || ends.has(node.id)),
      )
      .map(({ id }) => id),
  );
  const some = edges.filter(
    (edge) =>
      (meant.has(edge.emitter_id) || meant.has(edge.listener_id)) &&
      (!failing || edge.failing || kind !== '' || project !== ''),
  );
  const shown = new Set([...meant, ...some.flatMap((edge) => [edge.emitter_id, edge.listener_id])]);
  return { nodes: nodes.filter(({ id }) => shown.has(id)), edges: some };
}

/** All boxes from which this one gets something, and all that get something of it, directly or through others. */
export function connectedTo(id: string, edges: readonly DrawnEdge[]): Set<string> {
  const found = new Set([id]);
  for (const [start, end] of [
    ['from', 'to'],
    ['to', 'from'],
  ] as const) {
    const next = Map.groupBy(edges, (edge) => edge[start]);
    const todo = [id];
    const seen = new Set(todo);
    for (let at = todo.pop(); at !== undefined; at = todo.pop()) {
      for (const edge of next.get(at) ?? []) {
        if (seen.has(edge[end])) continue;
        seen.add(edge[end]);
        todo.push(edge[end]);
      }
    }
    for (const one of seen) found.add(one);
  }
  return found;
}
