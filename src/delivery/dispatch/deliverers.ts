import type { Deliver } from './delivery-dispatcher.ts';

type ListenerKind = 'webhook' | 'workflow' | 'source';

/**
 * Who brings deliveries to listeners of each kind. What workflows do makes deliveries, and deliveries make runs of workflows: they are
 * registered here when both are there, before the dispatcher starts.
 */
export class Deliverers {
  readonly #byKind = new Map<ListenerKind, Deliver>();

  register(kind: ListenerKind, deliver: Deliver): void {
    this.#byKind.set(kind, deliver);
  }

  to(listenerId: string): Deliver {
    const kind = kindOf(listenerId);
    const deliver = this.#byKind.get(kind);
    if (deliver === undefined) throw new Error(`nothing delivers to a ${kind}: ${listenerId}`);
    return deliver;
  }
}

function kindOf(listenerId: string): ListenerKind {
  if (listenerId.startsWith('wh_')) return 'webhook';
  return listenerId.startsWith('p_') ? 'workflow' : 'source';
}
