/** What an owner may use on one UTC day. Reported by the API; one place for all of them until they are settings. */
export interface Quotas {
  credits: number;
  computeMs: number;
  invocations: number;
}

export const defaultQuotas: Quotas = {
  credits: 1_000_000,
  // A thousand hours of run time.
  computeMs: 3_600_000_000,
  invocations: 10_000_000,
};
