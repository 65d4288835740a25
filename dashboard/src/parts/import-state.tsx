import type { Import } from '#sdk';

const looks: Readonly<Record<Import['state'], { name: string; look: string }>> = {
  asking: { name: 'Asking', look: 'state warn' },
  waiting: { name: 'Waiting', look: 'state off' },
  running: { name: 'Running', look: 'state off' },
  done: { name: 'Done', look: 'state good' },
  failed: { name: 'Failed', look: 'state bad' },
  undone: { name: 'Undone', look: 'state off' },
};

export function ImportState({ state }: Pick<Import, 'state'>) {
  const { name, look } = looks[state];
  return <span className={look}>{name}</span>;
}
