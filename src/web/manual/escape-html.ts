/** Escapes text for an element or a quoted attribute. */
export function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** The visible text of HTML that was made by this folder, whose attributes hold no `>`. */
export function textOfHtml(html: string): string {
  return html
    .replaceAll(/<\/(?:p|li|tr|h\d|pre|td|th)>/g, ' ')
    .replaceAll(/<[^>]*>/g, '')
    .replaceAll(/&#(\d+);/g, (_, code: string) => String.fromCharCode(Number(code)))
    .replaceAll(/\s+/g, ' ')
    .trim();
}
