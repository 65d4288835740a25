/** `News from Berlin!` -> `news-from-berlin`; never empty. */
export function slugify(name: string): string {
  const slug = name
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .toLowerCase()
    .replaceAll('ß', 'ss')
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 80)
    .replace(/-+$/, '');
  return slug === '' ? 'source' : slug;
}

/** The slug itself, or with the first free `-2`, `-3`, … `skipped`: so many free ones are left to others. */
export function freeSlug(slug: string, taken: ReadonlySet<string>, skipped = 0): string {
  let left = skipped;
  for (let number = 1; ; number += 1) {
    const candidate = number === 1 ? slug : `${slug}-${number}`;
    if (taken.has(candidate)) continue;
    if (left === 0) return candidate;
    left -= 1;
  }
}
