import type { FlowEdge, FlowNode } from '#sdk';

/** The problems of an object, by its health; empty: none. */
export function nodeTroubles({ health }: FlowNode): string[] {
  if (health === null || (health.state !== 'failing' && health.state !== 'disabled')) return [];
  return [health.reason === null ? health.state : `${health.state}: ${health.reason}`];
}

/** What was not delivered along a subscription. Whether that is a trouble still is the health of the listener. */
export function edgeFailures(edge: FlowEdge): string[] {
  const failed = edge.deliveries?.failed ?? 0;
  return [
    ...(failed > 0 ? [`${failed} failed within the last hour`] : []),
    ...(edge.dead_letters > 0
      ? [`${edge.dead_letters} dead ${edge.dead_letters === 1 ? 'letter' : 'letters'}`]
      : []),
  ];
}

export function isFailing(node: FlowNode): boolean {
  return nodeTroubles(node).length > 0;
}
