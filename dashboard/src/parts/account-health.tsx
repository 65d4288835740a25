import type { ReactNode } from 'react';
import type { Account } from '~/api/types.ts';
import { Ago } from './ago.tsx';

export function Health({ account: { healthy, dead } }: { account: Pick<Account, 'healthy' | 'dead'> }) {
  if (dead) return <span className="state bad">Ended</span>;
  return healthy ? (
    <span className="state good">Works</span>
  ) : (
    <span className="state bad">Does not work</span>
  );
}

/** What becomes of its token by itself; undefined: nothing does. */
export function lifeOf({ dead, next_refresh_at: at }: Account): ReactNode {
  if (dead || at === null) return undefined;
  return (
    <>
      next refresh <Ago ms={Date.parse(at)} />
    </>
  );
}
