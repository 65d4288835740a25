/** A call of the kernel by code that has taken over a builder process, past Node and its permissions. */
export interface CallAttack {
  name: string;
  /**
   * An expression. `call(name, …arguments)` makes a call of the kernel and returns its result, or throws its error; `buffer(…)` is memory
   * with these numbers of 8 bytes, `text(…)` with a text.
   */
  code: string;
  /** How it ends in processes that start no program (installer, Git reader), and in those that start esbuild (bundler, scanner). */
  installer: CallEnding;
  bundler: CallEnding;
  /** The wall that stops it. `filter`: the control has all other walls. `namespaces`: the control has none. */
  wall: 'filter' | 'namespaces';
}

/** `reached`: the kernel has carried it out, or looked at its arguments. */
export type CallEnding = 'EPERM' | 'ENOSYS' | 'reached';

const attack = (
  name: string,
  code: string,
  rest: Partial<Omit<CallAttack, 'name' | 'code'>> = {},
): CallAttack => ({
  ...{ name, code, installer: 'EPERM', bundler: 'EPERM', wall: 'filter' },
  ...rest,
});

const cloneNewUser = '0x10000000';
const cloneNewNamespaces = { mounts: '0x00020000', network: '0x40000000', processes: '0x20000000' };

export const callAttacks: readonly CallAttack[] = [
  attack('tracing a process', "call('ptrace', 0x4206, 0x3fffffff, 0, 0)"),
  attack(
    'reading the memory of a process',
    "call('process_vm_readv', process.pid, buffer(text('        '), 8), 1, buffer(text('CANARY  '), 8), 1, 0)",
  ),
  attack(
    'writing the memory of a process',
    "call('process_vm_writev', process.pid, buffer(text('CANARY  '), 8), 1, buffer(text('        '), 8), 1, 0)",
  ),
  attack('a descriptor of a process', "call('pidfd_open', process.pid, 0)"),
  attack('a user namespace', `call('unshare', ${cloneNewUser})`),
  ...Object.entries(cloneNewNamespaces).map(([what, flag]) =>
    attack(`a namespace for ${what}`, `call('unshare', ${flag})`, { wall: 'namespaces' }),
  ),
  attack('a user namespace for a process', `call('clone', ${cloneNewUser} | 0x800, 0, 0, 0, 0)`),
  attack('a process by clone3', "call('clone3', 0, 0)", { installer: 'ENOSYS', bundler: 'ENOSYS' }),
  attack('the namespace of another process', "call('setns', -1, 0)"),
  attack('a mount', "call('mount', text('none'), text('/dev'), text('tmpfs'), 0, 0)", { wall: 'namespaces' }),
  attack('a mount by the newer calls', "call('fsopen', text('no file system'), 0)", { wall: 'namespaces' }),
  attack('another root', "call('chroot', text('/'))", { wall: 'namespaces' }),
  attack('a keyring', "call('keyctl', 0, -3, 1)"),
  attack('a key', "call('add_key', text('user'), text('millrace'), text('x'), 1, -2)"),
  attack('io_uring', "call('io_uring_setup', 1, buffer(...Array(15).fill(0)))"),
  attack('a program in the kernel', "call('bpf', 0, buffer(...Array(16).fill(0)), 128)", {
    wall: 'namespaces',
  }),
  attack('performance counters', "call('perf_event_open', buffer(...Array(16).fill(0)), 0, -1, -1, 0)"),
  attack('page faults in user space', "call('userfaultfd', 1)"),
  attack('a unix socket', "call('socket', 1, 1, 0)"),
  attack('an internet socket', "call('socket', 2, 1, 0)"),
  attack('a file by its handle', "call('open_by_handle_at', -1, buffer(0, 0), 0)"),
  attack('a file in no folder', "call('memfd_create', text('canary'), 0)"),
  attack('shared memory', "call('shmget', 0, 0, 0)"),
  attack('bytes from pipe to pipe', "call('splice', -1, 0, -1, 0, 1, 0)"),
  attack('another personality', "call('personality', 0x0040000)"),
  attack('a life after the service', "call('prctl', 1, 0, 0, 0, 0)"),
  attack('input for a terminal', "call('ioctl', -1, 0x5412, text('x'))"),
  // esbuild is a program.
  attack('a program', "require('child_process').execFileSync(process.execPath, ['--version'])", {
    bundler: 'reached',
  }),
];
