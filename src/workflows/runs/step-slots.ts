/** Steps of one deployment that run at once on this node; the others wait for a place. */
export const stepsAtOnceMax = 100;

/** Places for the calls of each deployment, in the order of the requests. */
export class StepSlots {
  readonly #taken = new Map<string, { running: number; waiting: (() => void)[] }>();

  /** Resolves when there is a place; what it answers gives the place back. */
  async take(deploymentId: string): Promise<() => void> {
    const slots = this.#taken.get(deploymentId) ?? { running: 0, waiting: [] };
    this.#taken.set(deploymentId, slots);
    if (slots.running < stepsAtOnceMax) slots.running += 1;
    // The place of one that ends is handed on.
    else await new Promise<void>((resolve) => slots.waiting.push(resolve));
    return () => {
      const next = slots.waiting.shift();
      if (next !== undefined) next();
      else {
        slots.running -= 1;
        if (slots.running === 0) this.#taken.delete(deploymentId);
      }
    };
  }
}
