import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { conditionalCalls, filterArchitectures, refusedCalls, seccompFilter } from './seccomp-filter.ts';

type Answer = 'allowed' | 'EPERM' | 'ENOSYS' | 'killed';
const answers: Readonly<Record<number, Answer>> = {
  2147418112: 'allowed',
  327681: 'EPERM',
  327718: 'ENOSYS',
  2147483648: 'killed',
};

const architectures = { x64: 0xc000003e, arm64: 0xc00000b7, i386: 0x40000003 };

interface Call {
  architecture?: number;
  number: number;
  args?: readonly number[];
}

/** Runs a filter as the kernel does: classic BPF over `struct seccomp_data`. */
function run(program: Buffer, { architecture = architectures.x64, number, args = [] }: Call): Answer {
  const data = Buffer.alloc(64);
  data.writeUInt32LE(number, 0);
  data.writeUInt32LE(architecture, 4);
  for (const [i, arg] of args.entries()) data.writeBigUInt64LE(BigInt(arg), 16 + 8 * i);
  let accumulator = 0;
  for (let at = 0; at < program.length / 8; at += 1) {
    const code = program.readUInt16LE(at * 8);
    const value = program.readUInt32LE(at * 8 + 4);
    const jump = (holds: boolean): void => {
      at += program.readUInt8(at * 8 + (holds ? 2 : 3));
    };
    switch (code) {
      case 0x20:
        assert.ok(value % 4 === 0 && value < 64, `a load from ${value}`);
        accumulator = data.readUInt32LE(value);
        break;
      case 0x15:
        jump(accumulator === value);
        break;
      case 0x35:
        jump(accumulator >= value);
        break;
      case 0x45:
        jump((accumulator & value) !== 0);
        break;
      case 0x06: {
        const answer = answers[value];
        assert.ok(answer !== undefined, `an unknown answer ${value}`);
        return answer;
      }
      default:
        assert.fail(`an unknown instruction ${code}`);
    }
  }
  assert.fail('the program has no end');
}

/** Calls that Node needs, with their numbers for both architectures. */
const needed: Readonly<Record<string, readonly [number | undefined, number]>> = {
  read: [0, 63],
  write: [1, 64],
  openat: [257, 56],
  close: [3, 57],
  mmap: [9, 222],
  mprotect: [10, 226],
  futex: [202, 98],
  epoll_pwait: [281, 22],
  execve: [59, 221],
  exit_group: [231, 94],
  socketpair: [53, 199],
  sendmsg: [46, 211],
  recvmsg: [47, 212],
  getrandom: [318, 278],
  kill: [62, 129],
  prlimit64: [302, 261],
  statx: [332, 291],
  inotify_init1: [294, 26],
  sched_setaffinity: [203, 122],
};

/** Numbers from the headers of Linux, independent of the filter's table: a wrong number there would refuse another call. */
const mustBeRefused: Readonly<Record<string, readonly [number | undefined, number | undefined]>> = {
  fork: [57, undefined],
  clone: [56, 220],
  execveat: [322, 281],
  socket: [41, 198],
  connect: [42, 203],
  bind: [49, 200],
  ptrace: [101, 117],
  process_vm_readv: [310, 270],
  unshare: [272, 97],
  setns: [308, 268],
  mount: [165, 40],
  pivot_root: [155, 41],
  bpf: [321, 280],
  perf_event_open: [298, 241],
  keyctl: [250, 219],
  userfaultfd: [323, 282],
  io_uring_setup: [425, 425],
  init_module: [175, 105],
  open_by_handle_at: [304, 265],
  pidfd_getfd: [438, 438],
  memfd_create: [319, 279],
  setsid: [112, 157],
};

for (const [i, architecture] of filterArchitectures.entries()) {
  describe(`the filter of system calls for ${architecture}`, () => {
    const program = seccompFilter(architecture);
    const answerTo = (number: number, ...args: number[]): Answer =>
      run(program, { architecture: architectures[architecture], number, args });
    const numberOf = (name: keyof typeof conditionalCalls): number => conditionalCalls[name][i] as number;

    test('allows what Node needs', () => {
      for (const [name, numbers] of Object.entries(needed))
        assert.equal(answerTo(numbers[i] as number), 'allowed', name);
    });

    test('refuses every call of its table', () => {
      for (const [name, numbers] of Object.entries(mustBeRefused)) {
        const number = numbers[i];
        if (number !== undefined) assert.equal(answerTo(number), 'EPERM', name);
      }
      let refused = 0;
      for (const [name, numbers] of Object.entries(refusedCalls)) {
        const number = numbers[i];
        if (number === undefined) continue;
        assert.equal(answerTo(number), 'EPERM', name);
        refused += 1;
      }
      assert.ok(refused > 80, `${refused} calls`);
    });

    test('allows threads, and neither processes nor namespaces', () => {
      const clone = numberOf('clone');
      const thread = 0x003d0f00;
      assert.equal(answerTo(clone, thread), 'allowed');
      assert.equal(answerTo(clone, 17), 'EPERM', 'fork');
      assert.equal(answerTo(clone, 0x4111), 'EPERM', 'vfork');
      for (let bit = 0x00020000; bit <= 0x40000000; bit *= 2)
        if ((bit & 0x7e020000) !== 0) assert.equal(answerTo(clone, (thread | bit) >>> 0), 'EPERM', `${bit}`);
      assert.equal(answerTo(numberOf('clone3')), 'ENOSYS');
    });

    test('for processes that start programs, allows processes as well, and refuses everything else', () => {
      const withPrograms = seccompFilter(architecture, { startsPrograms: true });
      const answers = (filter: Buffer, number: number, ...args: number[]): Answer =>
        run(filter, { architecture: architectures[architecture], number, args });
      const clone = numberOf('clone');
      assert.equal(answers(withPrograms, clone, 17), 'allowed', 'a process');
      assert.equal(
        answers(withPrograms, clone, 0x4111),
        'allowed',
        'one that shares memory until it has its program',
      );
      assert.equal(answers(withPrograms, clone, 0x10000011), 'EPERM', 'a process in a user namespace');
      const fork = conditionalCalls.fork[i];
      if (fork !== undefined)
        assert.deepEqual([answers(program, fork), answers(withPrograms, fork)], ['EPERM', 'allowed']);
      for (let number = 0; number < 600; number += 1)
        if (number !== fork && number !== clone)
          assert.equal(answers(withPrograms, number), answers(program, number), `${number}`);
    });

    test('decides some calls by their arguments', () => {
      assert.equal(answerTo(numberOf('personality'), 0), 'allowed');
      assert.equal(answerTo(numberOf('personality'), 0xffffffff), 'allowed');
      assert.equal(answerTo(numberOf('personality'), 0x0040000), 'EPERM', 'ADDR_NO_RANDOMIZE');
      assert.equal(answerTo(numberOf('prctl'), 1, 0), 'EPERM', 'PR_SET_PDEATHSIG');
      assert.equal(answerTo(numberOf('prctl'), 15), 'allowed', 'PR_SET_NAME');
      assert.equal(answerTo(numberOf('ioctl'), 0, 0x5412), 'EPERM', 'TIOCSTI');
      assert.equal(answerTo(numberOf('ioctl'), 0, 0x541c), 'EPERM', 'TIOCLINUX');
      assert.equal(answerTo(numberOf('ioctl'), 0, 0x5413), 'allowed', 'TIOCGWINSZ');
    });

    test('kills a process that calls by another architecture', () => {
      const others = Object.entries(architectures).filter(([name]) => name !== architecture);
      for (const [, other] of others)
        assert.equal(run(program, { architecture: other, number: 0 }), 'killed');
    });

    test('no jump leads beyond its end', () => {
      assert.ok(program.length / 8 < 4096, 'as many instructions as the kernel takes');
      for (let number = 0; number < 600; number += 1) answerTo(number);
    });
  });
}

test('calls of the x32 ABI end the process', () => {
  assert.equal(run(seccompFilter('x64'), { number: 0x40000000 }), 'killed');
  assert.equal(run(seccompFilter('x64'), { number: 0x40000000 + 59 }), 'killed');
});
