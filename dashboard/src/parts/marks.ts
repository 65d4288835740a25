/** A piece of a text with a little Markdown. `marks` of a link have no links in them. */
export type Mark =
  | { kind: 'text'; text: string }
  | { kind: 'code'; text: string }
  | { kind: 'strong' | 'emphasis'; marks: Mark[] }
  | { kind: 'link'; href: string; marks: Mark[] };

/** Each alternative has a bound, so that a hostile text costs little. Text that none of them matches stays unchanged. */
const pattern = new RegExp(
  [
    '`(?<code>[^`\\n]{1,500})`',
    '\\[(?<words>[^[\\]\\n]{1,500})\\]\\((?<address>(?:[^()\\s]|\\([^()\\s]{0,200}\\)){1,1000})(?: "[^"\\n]{0,200}")?\\)',
    '<(?<angled>(?:https?://|mailto:)[^<>\\s]{1,1000})>',
    '(?<bare>https?://[^\\s<>()[\\]"\'`*]{1,1000})',
    '\\*\\*(?<strong>[^*\\n]{1,1000})\\*\\*',
    '(?<![\\w*])\\*(?<starred>[^*\\s][^*\\n]{0,500})\\*(?![\\w*])',
    '(?<!\\w)_(?<underlined>[^_\\s][^_\\n]{0,500})_(?!\\w)',
  ].join('|'),
  'g',
);

/** Strong text in emphasis in a link is as deep as descriptions go. */
const depthMax = 3;

/** Links, code, strong text and emphasis. Everything else, HTML too, is text. */
export function marksOf(text: string, mayLink = true, depth = 0): Mark[] {
  if (depth >= depthMax) return [{ kind: 'text', text }];
  const marks: Mark[] = [];
  let end = 0;
  for (const match of text.matchAll(pattern)) {
    const made = markOf(match[0], match.groups ?? {}, mayLink, depth + 1);
    if (made === undefined) continue;
    if (match.index > end) marks.push({ kind: 'text', text: text.slice(end, match.index) });
    marks.push(...made);
    end = match.index + match[0].length;
  }
  if (end < text.length) marks.push({ kind: 'text', text: text.slice(end) });
  return marks;
}

/** The text without its marks, for a line in which nothing can be opened. */
export function plainWords(text: string): string {
  return marksOf(text).map(wordsOf).join('');
}

/** The address of a link that may be opened; undefined: another scheme, such as javascript:, or no address. */
export function safeHref(address: string): string | undefined {
  if (!/^(?:https?:\/\/|mailto:)/i.test(address) || !URL.canParse(address)) return undefined;
  const { protocol, href } = new URL(address);
  return protocol === 'http:' || protocol === 'https:' || protocol === 'mailto:' ? href : undefined;
}

function markOf(
  whole: string,
  groups: Record<string, string | undefined>,
  mayLink: boolean,
  depth: number,
): Mark[] | undefined {
  const { code, words, address, angled, bare, strong, starred, underlined } = groups;
  if (code !== undefined) return [{ kind: 'code', text: code }];
  if (strong !== undefined) return [{ kind: 'strong', marks: marksOf(strong, mayLink, depth) }];
  const emphasized = starred ?? underlined;
  if (emphasized !== undefined) return [{ kind: 'emphasis', marks: marksOf(emphasized, mayLink, depth) }];
  if (words !== undefined) {
    const href = mayLink ? safeHref(address ?? '') : undefined;
    const inner = marksOf(words, false, depth);
    // Readers see the URL of a link that is not allowed here.
    return href === undefined
      ? [...inner, { kind: 'text', text: ` (${address})` }]
      : [{ kind: 'link', href, marks: inner }];
  }
  const written = angled ?? bare?.replace(/[.,;:!?]+$/, '') ?? '';
  const href = mayLink ? safeHref(written) : undefined;
  if (href === undefined) return undefined;
  const rest = bare === undefined ? '' : whole.slice(written.length);
  return [
    { kind: 'link', href, marks: [{ kind: 'text', text: written }] },
    ...(rest === '' ? [] : [{ kind: 'text' as const, text: rest }]),
  ];
}

function wordsOf(mark: Mark): string {
  return 'text' in mark ? mark.text : mark.marks.map(wordsOf).join('');
}
