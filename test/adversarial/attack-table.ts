/** An attack on the sandbox, and its outcome at each level. */
export interface Attack {
  class: string;
  name: string;
  /** How it ends at each level: see `Ending`. */
  seatBelt: Ending;
  kernel: Ending;
  /**
   * Body of an async function. Returns the text of the canary, or `done` for what leaves a trace elsewhere, where it works. It may use `fs`,
   * `fsp`, `require`, and what `Surroundings` says.
   */
  code: string;
  /**
   * What proves that it would work. Absent: Node without any wall. `open policy`: a sandbox whose service allows every address. `root`: Node
   * without any wall, where the tests run as root. `none`: a race or another user's process, which no attacker wins every time.
   */
  control?: 'open policy' | 'root' | 'none';
}

/**
 * The code of the error that the attack meets, or the status of a call that does not finish; several where it depends on who is first.
 * `harmless: …` where it works on what is the sandbox's own; the rest says on what.
 */
export type Ending = string | readonly string[];

/** What code of an attack finds as variables. */
export interface Surroundings {
  /** Path of the canary, its folder, and a folder of the attack's own. */
  C: string;
  D: string;
  T: string;
  /** What listens on this machine: ports, the path of a unix socket, and the process that stands for the service. */
  P: {
    web: number;
    /** Listens for IPv6 too; 0 where there is none. */
    web6: number;
    /** HTTP/2. */
    web2: number;
    redirect: number;
    denied: number;
    udp: number;
    unix: string;
    abstract: string;
    service: number;
  };
}

type Row = readonly [name: string, seatBelt: Ending, kernel: Ending, code: string];

export function attacksOf(className: string, rows: readonly Row[], rest: Partial<Attack> = {}): Attack[] {
  return rows.map(([name, seatBelt, kernel, code]) => ({
    ...{ class: className, name, seatBelt, kernel, code },
    ...rest,
  }));
}
