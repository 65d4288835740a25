/** One wait after the other, each begun when the one before is over. Undefined: none of them had to be waited for. */
export function inTurn(...waits: (() => Promise<void> | undefined)[]): Promise<void> | undefined {
  for (const [index, begin] of waits.entries()) {
    const wait = begin();
    if (wait !== undefined) return wait.then(() => inTurn(...waits.slice(index + 1)));
  }
  return undefined;
}
