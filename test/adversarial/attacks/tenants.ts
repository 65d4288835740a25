/** What one owner leaves in a process, and how code of another owner looks for it: bodies of `run`. */
export interface TenantAttack {
  name: string;
  leave: string;
  /** Returns `done` where it finds it. */
  look: string;
  /** The deployment that finds it where there is no wall: another one of the owner, or only the same one. */
  control: 'owner' | 'deployment';
}

const secret = 'CANARY-OF-THE-NEIGHBOUR';

export const tenantAttacks: readonly TenantAttack[] = [
  {
    name: 'globals',
    leave: `globalThis.left = '${secret}';`,
    look: "return globalThis.left && 'done';",
    control: 'owner',
  },
  {
    name: 'prototypes of the language',
    leave: `Object.defineProperty(Array.prototype, 'leftHere', { value: '${secret}', configurable: true });`,
    look: "return [].leftHere && 'done';",
    control: 'owner',
  },
  {
    name: 'modules of Node',
    leave: `require('os').leftHere = '${secret}';`,
    look: "return require('os').leftHere && 'done';",
    control: 'owner',
  },
  {
    name: 'functions that are replaced',
    leave:
      'const { parse } = JSON; globalThis.seen ??= []; JSON.parse = (text) => { globalThis.seen.push(text); return parse(text); }; JSON.parse.isReplaced = true;',
    look: "return JSON.parse.isReplaced && 'done';",
    control: 'owner',
  },
  {
    name: 'listeners of the process',
    leave: "process.on('left-here', () => {});",
    look: "return process.listenerCount('left-here') > 0 && 'done';",
    control: 'owner',
  },
  {
    name: 'diagnostics channels',
    leave: "require('diagnostics_channel').subscribe('left-here', () => {});",
    look: "return require('diagnostics_channel').hasSubscribers('left-here') && 'done';",
    control: 'owner',
  },
  {
    name: 'timers that keep running',
    leave:
      'setInterval(() => { globalThis.ticks = (globalThis.ticks ?? 0) + 1; }, 1); await new Promise((r) => setTimeout(r, 20));',
    look: "return globalThis.ticks > 0 && 'done';",
    control: 'owner',
  },
  {
    name: 'memory, by a snapshot of the heap',
    leave: `globalThis.keptText = ['${secret}', Math.random()].join('-');`,
    look: `const wanted = ['CANARY', 'OF', 'THE'].join('-') + '-NEIGH'; let tail = ''; for await (const chunk of require('v8').getHeapSnapshot()) { const text = tail + chunk; if (text.includes(wanted + 'BOUR-0.')) return 'done'; tail = text.slice(-100); }`,
    control: 'owner',
  },
  {
    name: 'files in /tmp',
    leave: `require('fs').writeFileSync('/tmp/left', '${secret}');`,
    look: "return require('fs').existsSync('/tmp/left') && 'done';",
    control: 'deployment',
  },
  {
    name: 'files anywhere below /tmp',
    leave: `require('fs').mkdirSync('/tmp/deep/er', { recursive: true }); require('fs').writeFileSync('/tmp/deep/er/left-deep', '${secret}');`,
    look: "return require('fs').readdirSync('/tmp', { recursive: true }).some((name) => name.includes('left-deep')) && 'done';",
    control: 'deployment',
  },
  {
    name: 'the environment',
    leave: `process.env.LEFT_HERE = '${secret}';`,
    look: "return process.env.LEFT_HERE && 'done';",
    control: 'deployment',
  },
  {
    name: 'the state of a module',
    leave: `module.leftHere = '${secret}';`,
    look: "return module.leftHere && 'done';",
    control: 'deployment',
  },
];
