// What the served pages of the manual do in addition to being read: search, and buttons that copy. All text goes in as text.

import { bestSections, escaped, sectionsOf, wordsOf } from './search.js';

/** @typedef {import('./search.js').Section} Section */

const found = /** @type {HTMLElement} */ (document.getElementById('found'));
const field = /** @type {HTMLInputElement} */ (document.getElementById('search'));
/** Characters of the text around what was found. */
const snippetMax = 160;

/** @type {Promise<Section[]> | undefined} */
let index;

/** Fetched at the first search. */
function sections() {
  index ??= load();
  return index;
}

async function load() {
  const response = await fetch(document.body.dataset.index ?? '');
  if (!response.ok) throw new Error(`the index could not be read: ${response.status}`);
  return sectionsOf(/** @type {import('./search.js').SearchIndex} */ (await response.json()));
}

/**
 * @param {HTMLElement} into
 * @param {string} text
 * @param {string[]} words
 */
function appendMarked(into, text, words) {
  const pattern = new RegExp(`(${words.map((word) => escaped(word)).join('|')})`, 'giu');
  for (const [at, part] of text.split(pattern).entries()) {
    if (at % 2 === 0) into.append(part);
    else into.append(Object.assign(document.createElement('mark'), { textContent: part }));
  }
}

/**
 * @param {Section} section
 * @param {string[]} words
 */
function result({ address, title, heading, text }, words) {
  const link = Object.assign(document.createElement('a'), { href: address });
  const head = document.createElement('b');
  appendMarked(head, heading === '' ? title : `${title}: ${heading}`, words);
  const at = text.toLowerCase().indexOf(words[0] ?? '');
  const from = Math.max(0, at - snippetMax / 3);
  const cut = document.createElement('span');
  const snippet = text.slice(from, from + snippetMax);
  appendMarked(cut, `${from > 0 ? '… ' : ''}${snippet}${from + snippetMax < text.length ? ' …' : ''}`, words);
  link.append(head, cut);
  return link;
}

async function search() {
  const asked = field.value;
  const words = wordsOf(asked);
  if (words.length === 0) {
    found.hidden = true;
    return;
  }
  try {
    const all = await sections();
    // The index may arrive after more was typed: the last text counts.
    if (field.value !== asked) return;
    const best = bestSections(all, words);
    found.replaceChildren(...best.map((section) => result(section, words)));
    if (best.length === 0) found.append(paragraph('Nothing has all of these words.'));
  } catch (error) {
    found.replaceChildren(
      paragraph(`The search does not work: ${error instanceof Error ? error.message : error}`),
    );
    index = undefined;
  }
  found.hidden = false;
}

/** @param {string} text */
function paragraph(text) {
  return Object.assign(document.createElement('p'), { textContent: text, role: 'status' });
}

function closeResults() {
  found.hidden = true;
}

field.addEventListener('input', () => void search());
field.addEventListener('focus', () => void search());
document.addEventListener('keydown', (event) => {
  const isTyping = event.target instanceof HTMLInputElement;
  if (event.key === '/' && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    field.focus();
  } else if (event.key === 'Escape') closeResults();
  else if (!found.hidden && (event.key === 'ArrowDown' || event.key === 'ArrowUp')) {
    const links = [...found.querySelectorAll('a')];
    const at =
      document.activeElement instanceof HTMLAnchorElement ? links.indexOf(document.activeElement) : -1;
    const next = event.key === 'ArrowDown' ? at + 1 : at - 1;
    event.preventDefault();
    (next < 0 ? field : (links[next] ?? links.at(-1)))?.focus();
  } else if (event.key === 'Enter' && isTyping) found.querySelector('a')?.click();
});
document.addEventListener('click', (event) => {
  if (event.target !== field) closeResults();
});
const box = field.closest('search');
if (box instanceof HTMLElement) box.hidden = false;

for (const figure of document.querySelectorAll('figure.code:not(.output)')) {
  const button = Object.assign(document.createElement('button'), { type: 'button', textContent: 'Copy' });
  button.className = 'copy';
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(figure.querySelector('code')?.textContent ?? '');
      button.textContent = 'Copied';
    } catch {
      // Browsers give the clipboard to https and to this machine only.
      getSelection()?.selectAllChildren(figure.querySelector('code') ?? figure);
      button.textContent = 'Selected';
    }
    setTimeout(() => {
      button.textContent = 'Copy';
    }, 2_000);
  });
  figure.append(button);
}
