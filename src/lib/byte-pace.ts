interface Debt {
  /** Bytes that time had not paid for at `atMs`. */
  bytes: number;
  atMs: number;
  /** In the order in which they came. Each begins, and returns the bytes that it is going to move. */
  waiting: (() => number)[];
  timer: NodeJS.Timeout | undefined;
}

/** Those that owe nothing are forgotten when there are more. */
const rememberedMax = 1_000;

/**
 * Bytes a second, for each of many. What was moved is owed, and time pays for it; what is more than a second's worth is forgiven. One that owes
 * nothing (or no more than `atOnce`) may begin something of any size.
 */
export class BytePace {
  readonly #perMs: number;
  readonly #owedMax: number;
  readonly #atOnce: number;
  readonly #nowMs: () => number;
  readonly #isFree: () => boolean;
  readonly #onWait: (who: string) => void;
  readonly #debts = new Map<string, Debt>();
  #isClosed = false;

  constructor({
    perSecond,
    atOnce = 0,
    isFree = () => false,
    onWait = () => {},
    nowMs = () => performance.now(),
  }: {
    perSecond: number;
    /** Bytes that may be owed without a wait. */
    atOnce?: number;
    /** True while nothing needs to wait, whatever is owed. */
    isFree?: () => boolean;
    /** Called for each `turn` that does not come at once. */
    onWait?: (who: string) => void;
    nowMs?: () => number;
  }) {
    this.#perMs = perSecond / 1000;
    this.#owedMax = perSecond;
    this.#atOnce = atOnce;
    this.#isFree = isFree;
    this.#onWait = onWait;
    this.#nowMs = nowMs;
  }

  /** Counts what `who` moved. Negative: what was counted before, and was not moved after all. */
  owe(who: string, bytes: number): void {
    const debt = this.#debtOf(who);
    this.#pay(debt);
    debt.bytes = Math.min(this.#owedMax, Math.max(0, debt.bytes + bytes));
    if (debt.waiting.length > 0) this.#begin(debt);
  }

  /** True when `who` has to wait before it moves more. */
  owes(who: string): boolean {
    return this.#owedBy(who) > this.#atOnce;
  }

  /** True when `who` owes as much as it can: it moves more than it waits for. */
  owesMost(who: string): boolean {
    // Time pays a little between two looks.
    return this.#owedBy(who) > this.#owedMax * 0.9;
  }

  /**
   * Waits until `who` owes nothing, and those before have begun; `begin` then returns the bytes that are going to be moved. Undefined: it has
   * begun at once.
   */
  turn(who: string, begin: () => number): Promise<void> | undefined {
    if (!this.owes(who) && (this.#debts.get(who)?.waiting.length ?? 0) === 0) {
      this.owe(who, begin());
      return undefined;
    }
    this.#onWait(who);
    const { promise, resolve } = Promise.withResolvers<void>();
    const debt = this.#debtOf(who);
    debt.waiting.push(() => {
      resolve();
      return begin();
    });
    this.#begin(debt);
    return promise;
  }

  /** Nothing waits from now on. */
  close(): void {
    this.#isClosed = true;
    for (const debt of this.#debts.values()) this.#begin(debt);
  }

  #debtOf(who: string): Debt {
    let debt = this.#debts.get(who);
    if (debt !== undefined) return debt;
    if (this.#debts.size >= rememberedMax) this.#forgetPaid();
    debt = { bytes: 0, atMs: this.#nowMs(), waiting: [], timer: undefined };
    this.#debts.set(who, debt);
    return debt;
  }

  #forgetPaid(): void {
    for (const [who, debt] of this.#debts) {
      this.#pay(debt);
      if (debt.bytes === 0 && debt.waiting.length === 0) this.#debts.delete(who);
    }
  }

  #owedBy(who: string): number {
    const debt = this.#debts.get(who);
    if (debt === undefined || this.#isClosed || this.#isFree()) return 0;
    this.#pay(debt);
    return debt.bytes;
  }

  #pay(debt: Debt): void {
    const nowMs = this.#nowMs();
    debt.bytes = Math.max(0, debt.bytes - (nowMs - debt.atMs) * this.#perMs);
    debt.atMs = nowMs;
  }

  /** Lets those begin that may, and looks again when the next may. */
  #begin(debt: Debt): void {
    clearTimeout(debt.timer);
    debt.timer = undefined;
    while (debt.waiting.length > 0 && (debt.bytes <= this.#atOnce || this.#isClosed || this.#isFree()))
      debt.bytes = Math.min(this.#owedMax, debt.bytes + (debt.waiting.shift()?.() ?? 0));
    if (debt.waiting.length === 0) return;
    debt.timer = setTimeout(
      () => {
        this.#pay(debt);
        this.#begin(debt);
      },
      Math.ceil((debt.bytes - this.#atOnce) / this.#perMs) + 1,
    );
    debt.timer.unref();
  }
}
