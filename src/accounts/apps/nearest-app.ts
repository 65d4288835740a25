import { charactersPerSlip, lettersOf, slipsBetween } from '#lib/nearest-name.ts';
import type { AppDefinition } from './app-definition.ts';

/** The app that the caller most likely meant by an unknown slug: one with the same letters, or with one or two typing errors. */
export function nearestApp(
  apps: readonly Pick<AppDefinition, 'slug' | 'name'>[],
  written: string,
): string | undefined {
  const wanted = lettersOf(written);
  const slipsMax = Math.floor(wanted.length / charactersPerSlip);
  let nearest: { slug: string; slips: number } | undefined;
  for (const { slug, name } of apps) {
    const slips = Math.min(slipsBetween(wanted, lettersOf(slug)), slipsBetween(wanted, lettersOf(name)));
    if (slips <= slipsMax && (nearest === undefined || slips < nearest.slips)) nearest = { slug, slips };
  }
  return nearest?.slug;
}
