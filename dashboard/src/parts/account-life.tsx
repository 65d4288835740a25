import type { ReactNode } from 'react';
import type { Account } from '#sdk';
import { Ago } from './ago.tsx';

/** What becomes of its token by itself; undefined: nothing does. */
export function lifeOf({ dead, next_refresh_at: at }: Account): ReactNode {
  if (dead || at === null) return undefined;
  return (
    <>
      next refresh <Ago ms={Date.parse(at)} />
    </>
  );
}
