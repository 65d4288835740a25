import type { FlowEdge, FlowNode } from './flow-types.ts';

/** What is wrong with a thing, in words; empty: nothing. */
export function nodeTroubles(node: FlowNode): string[] {
  const troubles: string[] = [];
  const add = (count: number, one: string, many: string) => {
    if (count > 0) troubles.push(`${count} ${count === 1 ? one : many}`);
  };
  if (node.state === 'disabled') troubles.push('disabled by the service');
  if (node.failing_since !== null) troubles.push('takes nothing');
  add(node.emitted?.failed ?? 0, 'error within the last hour', 'errors within the last hour');
  add(node.runs?.failed ?? 0, 'failed run within the last hour', 'failed runs within the last hour');
  add(node.dead_letters, 'dead letter', 'dead letters');
  add(node.unhealthy_accounts, 'unhealthy account', 'unhealthy accounts');
  return troubles;
}

export function edgeTroubles(edge: FlowEdge): string[] {
  const failed = edge.deliveries?.failed ?? 0;
  return [
    ...(failed > 0 ? [`${failed} failing within the last hour`] : []),
    ...(edge.dead_letters > 0
      ? [`${edge.dead_letters} dead ${edge.dead_letters === 1 ? 'letter' : 'letters'}`]
      : []),
  ];
}

export function isFailing(node: FlowNode): boolean {
  return nodeTroubles(node).length > 0;
}

export function isEdgeFailing(edge: FlowEdge): boolean {
  return (edge.deliveries?.failed ?? 0) > 0 || edge.dead_letters > 0;
}
