import { parseIpRange, problemOfRange } from '#lib/ip-address.ts';

/** What is wrong with an entry of MILLRACE_EGRESS, as a sentence. Undefined: nothing is. */
export function problemOfEgress(entry: string): string | undefined {
  if (entry === 'public' || entry === 'local') return undefined;
  if (parseIpRange(entry) === undefined)
    return `expected public, local or a CIDR such as 10.1.0.0/16, found ${JSON.stringify(entry)}`;
  return problemOfRange(entry);
}
