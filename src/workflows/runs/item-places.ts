/**
 * Items of maps that the runs of one workflow have under way at the same time on this node, beside one of each map. Its steps run 100 at a
 * time, and an item takes some KB: sixty runs of maps within maps had 60,000 under way, and took a gigabyte.
 */
const itemsMax = 1_000;

/** Bounds what maps have under way beyond one item each. */
export class ItemPlaces {
  readonly #taken = new Map<string, number>();

  /** False: there is none, until an item of this deployment ends. */
  take(deploymentId: string): boolean {
    const taken = this.#taken.get(deploymentId) ?? 0;
    if (taken >= itemsMax) return false;
    this.#taken.set(deploymentId, taken + 1);
    return true;
  }

  leave(deploymentId: string): void {
    const left = (this.#taken.get(deploymentId) ?? 1) - 1;
    if (left === 0) this.#taken.delete(deploymentId);
    else this.#taken.set(deploymentId, left);
  }
}
