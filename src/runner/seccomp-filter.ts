/**
 * The filter of system calls for sandboxed processes and builder processes at the kernel level: a classic BPF program that the kernel runs
 * before each call. It refuses calls that they do not need and that exploits of the kernel begin with. It is a deny list: the namespaces are the wall, and
 * the filter reduces the attack surface behind it. The kernel remembers which calls are always allowed, so most calls pass without running it.
 */

export const filterArchitectures = ['x64', 'arm64'] as const;
export type FilterArchitecture = (typeof filterArchitectures)[number];

/** AUDIT_ARCH_X86_64 and AUDIT_ARCH_AARCH64. */
const auditArchitecture: Record<FilterArchitecture, number> = { x64: 0xc000003e, arm64: 0xc00000b7 };

/** Offsets of the fields of `struct seccomp_data`. Of arguments, the low halves on little-endian machines. */
const offsetOf = { number: 0, architecture: 4, firstArgument: 16, secondArgument: 24 } as const;

/** This bit marks calls of the x32 ABI, whose numbers differ from those in the table. */
const x32Bit = 0x40000000;

const killProcess = 0x80000000;
const allow = 0x7fff0000;
const errno = 0x00050000;
const eperm = errno | 1;
const enosys = errno | 38;

/** `CLONE_NEW…`: in its own namespace a process is root, and its calls reach much more of the kernel. */
const cloneNewFlags = 0x7e020000;
const cloneThread = 0x00010000;
const prSetPdeathsig = 1;
const ioctlsOfTerminals = { TIOCSTI: 0x5412, TIOCLINUX: 0x541c } as const;
/** `personality` with this argument only returns the current one. */
const askPersonality = 0xffffffff;

/** Numbers of calls by architecture; `undefined` where the call does not exist. */
type Numbers = readonly [x64: number | undefined, arm64: number | undefined];

/** These calls fail with EPERM, whatever their arguments are. */
export const refusedCalls: Readonly<Record<string, Numbers>> = {
  // Threads are started with `clone`, below.
  ...{ vfork: [58, undefined], execveat: [322, 281] },
  // Namespaces, roots and mounts.
  ...{ unshare: [272, 97], setns: [308, 268], mount: [165, 40], umount2: [166, 39], pivot_root: [155, 41] },
  ...{ chroot: [161, 51], open_tree: [428, 428], move_mount: [429, 429], fsopen: [430, 430] },
  ...{ fsconfig: [431, 431], fsmount: [432, 432], fspick: [433, 433], mount_setattr: [442, 442] },
  ...{ statmount: [457, 457], listmount: [458, 458], open_tree_attr: [467, 467] },
  // Other processes.
  ...{ ptrace: [101, 117], process_vm_readv: [310, 270], process_vm_writev: [311, 271], kcmp: [312, 272] },
  ...{ pidfd_open: [434, 434], pidfd_getfd: [438, 438], process_madvise: [440, 440] },
  ...{ process_mrelease: [448, 448], move_pages: [279, 239], migrate_pages: [256, 238] },
  // A session of its own, whose priority would be the usual one again.
  ...{ setsid: [112, 157] },
  // Sockets. Connections go through a descriptor that the process was given.
  ...{ socket: [41, 198], connect: [42, 203], bind: [49, 200], listen: [50, 201] },
  ...{ accept: [43, 202], accept4: [288, 242] },
  // Parts of the kernel that many exploits use.
  ...{ bpf: [321, 280], perf_event_open: [298, 241], userfaultfd: [323, 282] },
  ...{ io_uring_setup: [425, 425], io_uring_enter: [426, 426], io_uring_register: [427, 427] },
  ...{ keyctl: [250, 219], add_key: [248, 217], request_key: [249, 218] },
  ...{ fanotify_init: [300, 262], fanotify_mark: [301, 263], modify_ldt: [154, undefined] },
  ...{ vmsplice: [278, 75], splice: [275, 76], tee: [276, 77], lookup_dcookie: [212, 18] },
  // Access to files without a path.
  ...{ open_by_handle_at: [304, 265], name_to_handle_at: [303, 264] },
  // Memory that belongs to no process and no folder, so that no limit counts it.
  ...{ memfd_create: [319, 279], memfd_secret: [447, 447] },
  ...{ shmget: [29, 194], shmat: [30, 196], shmctl: [31, 195], shmdt: [67, 197] },
  ...{ msgget: [68, 186], msgsnd: [69, 189], msgrcv: [70, 188], msgctl: [71, 187] },
  ...{ semget: [64, 190], semop: [65, 193], semctl: [66, 191], semtimedop: [220, 192] },
  ...{ mq_open: [240, 180], mq_unlink: [241, 181] },
  ...{ mbind: [237, 235], set_mempolicy: [238, 237], set_mempolicy_home_node: [450, 450] },
  // The machine: modules, clocks, names, disks, power.
  ...{ init_module: [175, 105], finit_module: [313, 273], delete_module: [176, 106] },
  ...{ kexec_load: [246, 104], kexec_file_load: [320, 294], reboot: [169, 142], syslog: [103, 116] },
  ...{ swapon: [167, 224], swapoff: [168, 225], quotactl: [179, 60], quotactl_fd: [443, 443] },
  ...{ acct: [163, 89], vhangup: [153, 58], sethostname: [170, 161], setdomainname: [171, 162] },
  ...{ settimeofday: [164, 170], clock_settime: [227, 112], clock_adjtime: [305, 266], adjtimex: [159, 171] },
  ...{ iopl: [172, undefined], ioperm: [173, undefined], nfsservctl: [180, 42] },
  ...{
    uselib: [134, undefined],
    ustat: [136, undefined],
    sysfs: [139, undefined],
    _sysctl: [156, undefined],
  },
};

/** Calls that are decided by their arguments or the kind of process, or answered as a kernel without the call does. */
export const conditionalCalls = {
  fork: [57, undefined],
  clone: [56, 220],
  clone3: [435, 435],
  personality: [135, 92],
  prctl: [157, 167],
  ioctl: [16, 29],
} as const satisfies Record<string, Numbers>;

/**
 * Returns the program in the form that the kernel reads. Bubblewrap reads it from a descriptor. `startsPrograms`: further processes are
 * allowed, in the same namespaces and under the same filter. A filter has no memory, so it cannot count them.
 */
export function seccompFilter(
  architecture: FilterArchitecture,
  { startsPrograms = false }: { startsPrograms?: boolean } = {},
): Buffer {
  // A second process could outlive the limits of the first.
  const ofProcess = startsPrograms ? allow : eperm;
  const numberOf = (numbers: Numbers): number | undefined => numbers[architecture === 'x64' ? 0 : 1];
  const on = (numbers: Numbers, body: readonly Instruction[]): Instruction[] => {
    const number = numberOf(numbers);
    return number === undefined ? [] : [jumpUnlessEqual(number, body.length), ...body];
  };
  const program: Instruction[] = [
    load(offsetOf.architecture),
    ...jumpUnlessEqualThenReturn(auditArchitecture[architecture], killProcess),
    load(offsetOf.number),
    ...(architecture === 'x64' ? [jumpUnlessAtLeast(x32Bit, 1), give(killProcess)] : []),
    // The C library then starts threads with `clone`, whose flags the filter can check.
    ...on(conditionalCalls.clone3, [give(enosys)]),
    ...on(conditionalCalls.clone, [
      load(offsetOf.firstArgument),
      jumpUnlessAnyBit(cloneNewFlags, 1),
      give(eperm),
      jumpUnlessAnyBit(cloneThread, 1),
      give(allow),
      give(ofProcess),
    ]),
    ...on(conditionalCalls.fork, [give(ofProcess)]),
    ...on(conditionalCalls.personality, [
      load(offsetOf.firstArgument),
      jumpUnlessEqual(0, 1),
      give(allow),
      jumpUnlessEqual(askPersonality, 1),
      give(allow),
      give(eperm),
    ]),
    // The setting that ends the process with the service cannot be changed.
    ...on(conditionalCalls.prctl, [
      load(offsetOf.firstArgument),
      jumpUnlessEqual(prSetPdeathsig, 1),
      give(eperm),
      give(allow),
    ]),
    ...on(conditionalCalls.ioctl, [
      load(offsetOf.secondArgument),
      ...Object.values(ioctlsOfTerminals).flatMap((request) => [jumpUnlessEqual(request, 1), give(eperm)]),
      give(allow),
    ]),
    ...Object.values(refusedCalls).flatMap((numbers) => on(numbers, [give(eperm)])),
    give(allow),
  ];
  return Buffer.concat(program.map(encode));
}

interface Instruction {
  code: number;
  /** Number of instructions to skip when the condition holds, and when it does not. */
  ifTrue: number;
  ifFalse: number;
  value: number;
}

/** BPF_LD | BPF_W | BPF_ABS. */
function load(offset: number): Instruction {
  return { code: 0x20, ifTrue: 0, ifFalse: 0, value: offset };
}

/** BPF_RET | BPF_K. */
function give(value: number): Instruction {
  return { code: 0x06, ifTrue: 0, ifFalse: 0, value };
}

/** BPF_JMP | BPF_JEQ | BPF_K. */
function jumpUnlessEqual(value: number, skipped: number): Instruction {
  return { code: 0x15, ifTrue: 0, ifFalse: skipped, value };
}

/** BPF_JMP | BPF_JGE | BPF_K. */
function jumpUnlessAtLeast(value: number, skipped: number): Instruction {
  return { code: 0x35, ifTrue: 0, ifFalse: skipped, value };
}

/** BPF_JMP | BPF_JSET | BPF_K. */
function jumpUnlessAnyBit(value: number, skipped: number): Instruction {
  return { code: 0x45, ifTrue: 0, ifFalse: skipped, value };
}

function jumpUnlessEqualThenReturn(value: number, answer: number): Instruction[] {
  return [{ ...jumpUnlessEqual(value, 0), ifTrue: 1 }, give(answer)];
}

/** `struct sock_filter`. */
function encode({ code, ifTrue, ifFalse, value }: Instruction): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeUInt16LE(code, 0);
  bytes.writeUInt8(ifTrue, 2);
  bytes.writeUInt8(ifFalse, 3);
  bytes.writeUInt32LE(value >>> 0, 4);
  return bytes;
}
