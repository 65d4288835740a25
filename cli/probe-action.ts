/**
 * An action that tries what user code must not be able to do, and reports the outcomes. Its answer contains nothing that it reads, and it
 * calls only the machine of the service and an address that no host of the internet has.
 */
export const probeCode = `
import { existsSync, readFileSync } from 'node:fs';
import { spawnSync } from 'node:child_process';

export default {
  key: 'millrace-verify',
  name: 'What user code can reach',
  version: '1.0.0',
  type: 'action',
  props: {},
  async run() {
    const refusals = ['EACCES', 'EPERM', 'ERR_ACCESS_DENIED'];
    const isRefused = (error) => refusals.includes(error?.code) || (error?.cause !== undefined && isRefused(error.cause));
    const attempt = async (work) => {
      try {
        return (await work()) === false ? 'refused' : 'reached';
      } catch (error) {
        return isRefused(error) ? 'refused' : 'reached';
      }
    };
    const connect = (url) => fetch(url, { signal: AbortSignal.timeout(3000) });
    return {
      files: await attempt(() => existsSync('/etc/passwd') && readFileSync('/etc/passwd').length > 0),
      processes: await attempt(() => {
        const { error } = spawnSync('true');
        if (error) throw error;
      }),
      environment: await attempt(() => Object.keys(process.env).some((name) => name.startsWith('MILLRACE_') || name === 'HOME')),
      metadata: await attempt(() => connect('http://169.254.169.254/')),
      loopback: await attempt(() => connect('http://127.0.0.1:65529/')),
    };
  },
};
`;
