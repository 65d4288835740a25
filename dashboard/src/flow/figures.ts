import type { FlowEdge, FlowNode } from '#sdk';
import type { Drawn } from './graph.ts';
import { edgeFailures, isFailing, nodeTroubles } from './troubles.ts';
import {
  channelWords,
  edgeRate,
  kindName,
  kindNames,
  nameOf,
  rateOf,
  rateWords,
  triggerWords,
} from './words.ts';

/** The content of a box. */
export interface BoxFigures {
  name: string;
  detail: string;
  isFailing: boolean;
  isOff: boolean;
  /** All of it as text, for screen readers. */
  label: string;
}

export interface LineFigures {
  perMinute: number;
  isFailing: boolean;
  label: string;
}

export interface Known {
  nodes: ReadonlyMap<string, FlowNode>;
  edges: ReadonlyMap<string, FlowEdge>;
}

/** The figures of each line. */
export function lineFigures(
  { edges }: Drawn,
  known: Known,
  names: ReadonlyMap<string, BoxFigures>,
): Map<string, LineFigures> {
  return new Map(
    edges.map(({ id, from, to, subscriptions }) => {
      const some = subscriptions.flatMap((subscription) => known.edges.get(subscription) ?? []);
      const perMinute = some.reduce((sum, edge) => sum + edgeRate(edge), 0);
      const troubles = some.flatMap(edgeFailures);
      const channels = [...new Set(some.map(({ event_name }) => channelWords(event_name)))].slice(0, 3);
      const label = [
        `${names.get(from)?.name ?? from} to ${names.get(to)?.name ?? to}`,
        channels.join(', '),
        rateWords(perMinute),
        ...troubles.slice(0, 3),
      ].join(', ');
      return [id, { perMinute, isFailing: some.some(({ failing }) => failing), label }];
    }),
  );
}

/** The content of each box. */
export function boxFigures({ nodes, edges }: Drawn, known: Known): Map<string, BoxFigures> {
  const reaching = new Map<string, number>();
  for (const { to, subscriptions } of edges)
    for (const id of subscriptions) {
      const edge = known.edges.get(id);
      if (edge !== undefined) reaching.set(to, (reaching.get(to) ?? 0) + edgeRate(edge));
    }
  return new Map(
    nodes.map(({ id, kind, members }) => {
      const some = members.flatMap((member) => known.nodes.get(member) ?? []);
      const [first] = some;
      const rate =
        members.length > 1 && kind !== 'webhook'
          ? some.reduce((sum, node) => sum + rateOf(node, 0), 0)
          : first === undefined
            ? 0
            : rateOf(first, reaching.get(id) ?? 0);
      if (members.length > 1) {
        const failing = some.filter(isFailing).length;
        const name = `${members.length} ${kindNames(kind)}`;
        const detail = [rateWords(rate), ...(failing > 0 ? [`${failing} failing`] : [])].join(' · ');
        return [id, { name, detail, isFailing: failing > 0, isOff: false, label: `${name}, ${detail}` }];
      }
      return [id, single(id, first, rate)];
    }),
  );
}

function single(id: string, node: FlowNode | undefined, rate: number): BoxFigures {
  const name = nameOf(id, node);
  if (node === undefined) return { name, detail: '', isFailing: false, isOff: false, label: name };
  const isForeign = node.name === null && node.kind !== 'all';
  const troubles = nodeTroubles(node);
  const isOff = node.state !== null && node.state !== 'active';
  const triggers = [...new Set(node.triggers.map(triggerWords))].slice(0, 2);
  const detail = isForeign
    ? 'of another owner'
    : [...(isOff ? [node.state ?? ''] : [rateWords(rate)]), ...triggers].join(' · ');
  const label = [`${node.kind === 'all' ? '' : `${kindName(node.kind)} `}${name}`, detail, ...troubles].join(
    ', ',
  );
  return { name, detail, isFailing: troubles.length > 0, isOff, label };
}
