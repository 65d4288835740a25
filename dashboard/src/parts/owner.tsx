import { createContext, type ReactNode, useContext, useState } from 'react';
import type { Me } from '~/api/queries.ts';
import { remember, remembered } from './remember.ts';

interface OwnerChoice {
  me: Me;
  /** u_… (the user) or o_…: the owner whose objects the lists show. */
  ownerId: string;
  choose: (ownerId: string) => void;
}

const Owner = createContext<OwnerChoice | undefined>(undefined);

/** The owner whose objects are shown. The browser remembers it; a user who left the workspace sees their own objects. */
export function OwnerProvider({ me, children }: { me: Me; children: ReactNode }) {
  const [chosen, setChosen] = useState(() => remembered('owner') ?? me.id);
  const isKnown = chosen === me.id || me.orgs.some(({ id }) => id === chosen);
  const ownerId = isKnown ? chosen : me.id;
  const choose = (id: string) => {
    remember('owner', id);
    setChosen(id);
  };
  return <Owner value={{ me, ownerId, choose }}>{children}</Owner>;
}

export function useOwner(): OwnerChoice {
  const owner = useContext(Owner);
  if (owner === undefined) throw new Error('pages stand inside the shell');
  return owner;
}
