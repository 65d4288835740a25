const relativeImport = /(?:\bfrom|\bimport\s*\(?|\brequire\s*\()\s*["'](\.\.?\/[^"']+)["']/;

/** The first file beside it that code of Node.js imports, as it names the file. */
export function importedFile(code: string): string | undefined {
  return relativeImport.exec(code)?.[1];
}
