/** The API takes no more, and says so only when all of it was sent. */
const archiveBytesMax = 64 * 1024 * 1024;

/** An archive or a bundle as the API takes it. */
export interface ArchiveFile {
  name: string;
  /** What the file held when it was chosen: it may change on disk until it is imported. */
  content: Blob;
}

/** Reads a chosen file. Throws Error with a sentence for the user when the file can be neither a ZIP archive nor a bundle that the service accepts. */
export async function readArchiveFile(file: File): Promise<ArchiveFile> {
  if (file.size > archiveBytesMax)
    throw new Error(
      'The file is larger than 64 MB. Leave out .git and node_modules, or import it folder by folder from a terminal.',
    );
  const start = new TextDecoder('latin1').decode(await file.slice(0, 100).arrayBuffer());
  if (!start.startsWith('PK') && !/^\s*\{/.test(start))
    throw new Error('The file is neither a ZIP archive nor a bundle.');
  return { name: file.name, content: new Blob([await file.arrayBuffer()]) };
}
