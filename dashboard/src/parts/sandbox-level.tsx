import type { Instance } from '#sdk';

const levels: Readonly<Record<Instance['sandbox'], { tone: string; text: string }>> = {
  kernel: { tone: 'state good', text: 'Every process of user code has walls of the kernel around it.' },
  'seat-belt': {
    tone: 'state busy',
    text: 'User code is kept from files and processes by Node alone: only people you trust may deploy code.',
  },
  off: { tone: 'state bad', text: 'User code may do whatever the service may: for development only.' },
};

/** How well user code is isolated. */
export function SandboxLevel({ level }: { level: Instance['sandbox'] }) {
  return (
    <>
      <span className={levels[level].tone}>{level}</span> {levels[level].text}
    </>
  );
}
