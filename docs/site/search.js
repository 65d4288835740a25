// The search of the manual: from its index to the sections that answer a query. It knows nothing of the page it runs in, so that tests can
// ask it too. The service serves it beside manual.js, which imports it.

/** @typedef {{ address: string, title: string, heading: string, text: string, near: string }} Section */
/** @typedef {[address: string, title: string, parts: [id: string, heading: string, text: string][]][]} SearchIndex */

const resultsMax = 12;
const wordsMax = 8;

/**
 * What a page counts for, by how its address begins: the first that fits. Guides come before explanations, and these before reference pages,
 * which have every word somewhere. The list of all pages and texts about the code come last.
 * @type {readonly (readonly [RegExp, number])[]}
 */
const weights = [
  [/^\/docs\/how-it-works/, 0.6],
  [/^\/docs\/reference\//, 0.4],
  [/^\/docs(?:\/changelog|\/architecture)?(?:#|$)/, 0.25],
];

/**
 * @param {SearchIndex} index
 * @returns {Section[]}
 */
export function sectionsOf(index) {
  return index.flatMap(([address, title, parts]) =>
    parts.map(([id, heading, text], at) => ({
      address: at === 0 ? address : `${address}#${id}`,
      title,
      heading: at === 0 ? '' : heading,
      text,
      near: `${title}\n${heading}\n${text}`.toLowerCase(),
    })),
  );
}

/**
 * @param {string} query
 * @returns {string[]}
 */
export function wordsOf(query) {
  return [...new Set(query.toLowerCase().split(/\s+/).filter(Boolean))].slice(0, wordsMax);
}

/**
 * Sections that have all the words, those first that have them in headings and names of pages.
 * @param {readonly Section[]} sections
 * @param {readonly string[]} words
 * @returns {Section[]}
 */
export function bestSections(sections, words) {
  return sections
    .filter(({ near }) => words.every((word) => near.includes(word)))
    .map((section) => ({ section, score: scoreOf(section, words) }))
    .sort((a, b) => b.score - a.score)
    .slice(0, resultsMax)
    .map(({ section }) => section);
}

/**
 * @param {Section} section
 * @param {readonly string[]} words
 */
function scoreOf({ address, title, heading, text }, words) {
  let score = 0;
  for (const word of words) {
    const begins = new RegExp(`(^|[^\\p{L}\\p{N}])${escaped(word)}`, 'iu');
    if (begins.test(heading)) score += 12;
    if (begins.test(title)) score += heading === '' ? 20 : 5;
    if (begins.test(text)) score += 3;
    score += Math.min(text.toLowerCase().split(word).length - 1, 4);
  }
  return score * (weights.find(([pattern]) => pattern.test(address))?.[1] ?? 1);
}

/**
 * A word as it stands in a pattern.
 * @param {string} word
 */
export function escaped(word) {
  // No hyphen: it is plain there, and to escape it is an error in patterns of Unicode.
  return word.replaceAll(/[\\^$.*+?()[\]{}|/]/g, '\\$&');
}
