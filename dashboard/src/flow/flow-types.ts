/** The answer of `GET …/flow` (src/http/routes/flow-routes.ts of the service). Times are epoch seconds unless they say ms. */
import type { Health } from '../api/types.ts';

export interface FlowFigures {
  /** Within the last minute. */
  per_minute: number;
  /** Within the last hour. */
  failed: number;
  last_at: number | null;
}

export interface FlowTrigger extends FlowFigures {
  id: string;
  kind: string;
  interval_seconds: number | null;
  cron: string | null;
}

export interface FlowNode {
  id: string;
  kind: 'source' | 'workflow' | 'webhook' | 'all';
  /** Null: all of a kind, or something of another owner. */
  name: string | null;
  state: string | null;
  /** Null where the name is. */
  health: Health | null;
  project_id: string | null;
  emitted: FlowFigures | null;
  runs: FlowFigures | null;
  triggers: FlowTrigger[];
  unhealthy_accounts: number;
  dead_letters: number;
}

export interface FlowEdge {
  /** sub_… */
  id: string;
  emitter_id: string;
  listener_id: string;
  event_name: string;
  /** Null: the listener is of another owner. */
  deliveries: FlowFigures | null;
  dead_letters: number;
  failing: boolean;
}

export interface Flow {
  owner_id: string;
  at_ms: number;
  totals: { sources: number; workflows: number; webhooks: number; subscriptions: number };
  truncated: boolean;
  nodes: FlowNode[];
  edges: FlowEdge[];
}
