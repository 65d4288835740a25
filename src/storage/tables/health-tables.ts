/**
 * The last known outcome of a source (dc_…), workflow (p_…), webhook (wh_…) or account (apn_…). No row: nothing ran since
 * its code, props, URL or credentials are these. What is shown as its health is computed from this row and from what
 * waits (health/health-store.ts).
 */
export interface HealthTable {
  subject_id: string;
  owner_id: string;
  /** 1: the last outcome was a failure. */
  failing: number;
  /** The first outcome of this kind after one of the other kind. */
  since_ms: number;
  /** Failures since `since_ms`; 0 while it does not fail. */
  failures: number;
  /** The error of the last failure, without secrets; null while it does not fail. */
  reason: string | null;
}
