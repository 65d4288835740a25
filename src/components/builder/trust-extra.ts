import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import type { NpmConfig } from './build-messages.ts';

/**
 * Adds the extra authorities to the default ones of this process. Once for the process: given with each connection, all
 * default ones would have to be read again for each.
 */
export function trustExtra({ extraCa = [] }: Pick<NpmConfig, 'extraCa'>): void {
  if (extraCa.length > 0) setDefaultCACertificates([...getCACertificates('default'), ...extraCa]);
}
