import type { Health } from './types.ts';

/** Answers of the public API about people, workspaces and the instance. Times are epoch seconds unless they say otherwise. */

export interface Session {
  user_id: string;
  /** Of the instance. */
  is_admin: boolean;
  key_id: string;
  expires_at: number | null;
}

export interface WorkspaceAnswer {
  id: string;
  orgname: string;
  name: string;
  email: string;
}

export interface Project {
  id: string;
  name: string;
  org_id: string;
  /** ISO 8601. */
  created_at: string;
  updated_at: string;
}

export interface ApiKey {
  id: string;
  name: string;
  /** The last four characters. */
  hint: string;
  created_at: number;
  last_used_at: number | null;
}

/** Of the answers that make one, and of no others. */
export interface WithApiKey {
  api_key: string;
}

export interface UsageDay {
  /** YYYY-MM-DD, UTC. */
  day: string;
  credits: number;
  compute_ms: number;
  invocations: number;
}

export interface AuditEntry {
  id: string;
  account_id: string;
  app: { id: string; name_slug: string };
  action: string;
  /** null: the service itself. */
  user_id: string | null;
  key_id: string | null;
  details: Record<string, unknown>;
  /** ISO 8601. */
  created_at: string;
}

export interface ListedUser {
  id: string;
  username: string;
  email: string;
  is_admin: boolean;
  created_at: number;
}

export interface SettingView {
  env: string;
  text: string;
  /** null: it is set, and kept secret. */
  value: string | null;
  /** The value as people say it; null: it is no amount. */
  amount: string | null;
  from: 'environment' | 'default';
}

export interface Instance {
  version: string;
  node_version: string;
  platform: string;
  node: string;
  now: number;
  /** null: the database has no clock of its own. */
  clock: { state: 'synchronized' | 'corrected' | 'unreliable'; offset_ms: number; checked_at: number } | null;
  nodes: {
    id: string;
    started_at: number;
    heartbeat_at: number;
    clock: { state: string; offset_ms: number } | null;
    health: Health;
    advice: string | null;
  }[];
  started_at: number;
  address: string;
  store: 'sqlite' | 'postgres';
  sandbox: 'hardened' | 'default' | 'off';
  memory_bytes: number;
  disk: { folder: string; free_bytes: number; total_bytes: number } | null;
  jobs: { kind: string; state: string; count: number }[];
  jobs_running: number;
  deliveries_sending: number;
  streams_open: number;
  user_processes: number;
  settings: SettingView[];
}

interface QuotaNumbers<N> {
  credits: N;
  compute_ms: N;
  invocations: N;
}

export interface Quota extends QuotaNumbers<number> {
  owner_id: string;
  enforced: boolean;
  /** null: as the setting says. */
  own: QuotaNumbers<number | null> & { enforced: boolean | null };
  used: QuotaNumbers<number>;
  plan: 'free' | 'paid';
}
