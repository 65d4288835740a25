/** Both epoch ms; `endMs` is the start of the next one. */
export interface BillingPeriod {
  startMs: number;
  endMs: number;
}

/**
 * Pure: the period of one month that `nowMs` is in, of those that follow each other from `firstMs` on. Usage is counted by
 * UTC day, so periods begin at 00:00 UTC. A month without the day of the first period has its last day instead, and the
 * day comes back afterwards: 31 January, 28 February, 31 March.
 */
export function billingPeriod(firstMs: number, nowMs: number): BillingPeriod {
  const first = new Date(firstMs);
  const now = new Date(nowMs);
  const apart =
    (now.getUTCFullYear() - first.getUTCFullYear()) * 12 + now.getUTCMonth() - first.getUTCMonth();
  // Before the first period begins it is the only one to report.
  const months = Math.max(0, monthsAfter(first, apart) > nowMs ? apart - 1 : apart);
  return { startMs: monthsAfter(first, months), endMs: monthsAfter(first, months + 1) };
}

function monthsAfter(first: Date, months: number): number {
  const year = first.getUTCFullYear();
  const month = first.getUTCMonth() + months;
  // Day 0 of a month is the last of the one before.
  const lastDay = new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
  return Date.UTC(year, month, Math.min(first.getUTCDate(), lastDay));
}
