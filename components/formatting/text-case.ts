import pluralize from 'pluralize';

/** Words that titles keep in lower case, apart from the first and the last word. */
const smallWords = new Set(
  'a an and as at but by for from if in nor of on or so the to up via with yet'.split(' '),
);

/** By the value that workflows name. */
export const caseChanges: Record<string, { label: string; change: (text: string) => string }> = {
  Capitalize: {
    label: 'Every word begins with a capital letter',
    change: (text) => text.replace(/\S+/g, capitalize),
  },
  Titlecase: { label: 'Title: important words begin with a capital letter', change: titleCase },
  Pluralize: { label: 'English plural: child becomes children', change: (text) => pluralize(text) },
  Uppercase: { label: 'Capital letters', change: (text) => text.toUpperCase() },
  Lowercase: { label: 'Small letters', change: (text) => text.toLowerCase() },
  Sentencecase: {
    label: 'Sentence: the first letter is a capital letter',
    change: (text) => text.toLowerCase().replace(/\p{L}/u, (letter) => letter.toUpperCase()),
  },
  Camelcase: {
    label: 'camelCase',
    change: (text) =>
      wordsOf(text)
        .map((word, at) => (at === 0 ? word : capitalize(word)))
        .join(''),
  },
  Snakecase: { label: 'snake_case', change: (text) => wordsOf(text).join('_') },
  Kebabcase: { label: 'kebab-case', change: (text) => wordsOf(text).join('-') },
};

function capitalize(word: string): string {
  const [first = ''] = word;
  return first.toUpperCase() + word.slice(first.length);
}

function titleCase(text: string): string {
  const count = text.match(/\S+/g)?.length ?? 0;
  let at = 0;
  return text.toLowerCase().replace(/\S+/g, (word) => {
    at += 1;
    return at > 1 && at < count && smallWords.has(word) ? word : capitalize(word);
  });
}

/** Words in lower case; `orderId` has two. */
function wordsOf(text: string): string[] {
  const parts = text.replace(/(\p{Ll}|\p{N})(\p{Lu})/gu, '$1 $2').match(/[\p{L}\p{N}]+/gu) ?? [];
  return parts.map((word) => word.toLowerCase());
}
