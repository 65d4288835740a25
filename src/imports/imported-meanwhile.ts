/** Another import wrote the same object meanwhile: what is there is decided upon again. */
export class ImportedMeanwhile extends Error {}

const triesMax = 4;

/** Does the work again while another import is faster. */
export async function untilUndisturbed<Result>(work: () => Promise<Result>): Promise<Result> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof ImportedMeanwhile) || tries === triesMax) throw error;
    }
  }
}
