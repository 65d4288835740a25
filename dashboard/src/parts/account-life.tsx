import type { ReactNode } from 'react';
import type { Account } from '#sdk';
import { Ago } from './ago.tsx';

/** When its token is refreshed next; undefined: it is not refreshed. */
export function lifeOf({ dead, next_refresh_at: at }: Account): ReactNode {
  if (dead || at === null) return undefined;
  return (
    <>
      next refresh <Ago ms={Date.parse(at)} />
    </>
  );
}
